"""Reports of evaluations: their tables, files and comparisons."""

from decimal import Decimal
from pathlib import Path

import pytest

import agentgraph as ag
from agentgraph.testing import Report, Trial, Verdict


def trial(
    case: str, *verdicts: Verdict, number: int = 0, status: str = "done", **more: object
) -> Trial:
    return Trial(
        case=case,
        number=number,
        thread_id=f"v1/{case}/{number}",
        status=status,
        verdicts=verdicts,
        **more,  # type: ignore[arg-type]
    )


def good(score: float) -> Verdict:
    return Verdict("good", score)


def short(*, passed: bool = True) -> Verdict:
    return Verdict("short", passed)


OLD = Report(
    "v1",
    (
        trial("bees", short(), good(0.5), tokens=10, cost=Decimal("0.1"), seconds=1.0),
        trial("ants", short(passed=False), good(1.0), tokens=5, cost=Decimal("0.05"), seconds=1.5),
        trial("jam", status="failed", error="writer: jam'<b>"),
        trial("old", short(), good(1.0)),
    ),
)
NEW = Report(
    "v2",
    (
        trial("bees", short(), good(0.5), tokens=30),
        trial("bees", Verdict("short", None, "KeyError: 'x'"), good(0.5), number=1),
        trial("ants", short(), good(0.25)),
        trial("jam", short(), good(1.0)),
        trial("new", short(), good(1.0)),
    ),
)


def test_a_report_is_a_table_of_cases() -> None:
    assert repr(OLD).splitlines() == [
        "v1",
        "case           status            short  good   tokens  cost     seconds  failure",
        "bees           done              ✓      0.5    10      0.1      1.00 s",
        "ants           done              ✗      1      5       0.05     1.50 s   short",
        "jam            failed                          0       unknown  0.00 s   writer: jam'<b>",
        "old            done              ✓      1      0       unknown  0.00 s",
        "2 of 4 passed  3 done, 1 failed  2/3    0.833  15      unknown  2.50 s",
    ]
    assert "<td>writer: jam&#x27;&lt;b&gt;</td>" in OLD._repr_html_()
    assert [each.case for each in OLD.failed] == ["ants", "jam"]
    assert NEW.rows[0]["failure"] == "short: KeyError: 'x'"


def test_a_long_failure_is_below_the_table() -> None:
    error = "writer: " + "jam " * 20 + "\nopen the lid"
    report = Report("v1", (trial("bees"), trial("jam", status="failed", error=error)))
    in_table, summary, *rest = repr(report).splitlines()[3:]
    assert in_table.endswith("jam jam …")
    assert summary.startswith("1 of 2 passed")
    assert "\n".join(rest) == f"\njam: {error}"


def test_a_comparison_shows_totals_and_cases_that_differ() -> None:
    comparison = OLD.compare(NEW)
    assert repr(comparison).splitlines() == [
        "case  what     v1             v2",
        "all   passed   2 of 4 passed  4 of 5 passed",
        "all   short    2/3            4/5",
        "all   good     0.833          0.65",
        "all   tokens   15             30",
        "all   cost     unknown        -",
        "all   seconds  2.50 s         0.00 s",
        "bees  short    ✓              1/2",
        "ants  short    ✗              ✓",
        "ants  good     1              0.25",
        "jam   status   failed         done",
        "jam   short                   ✓",
        "jam   good                    1",
        "old   status   done           -",
        "new   status   -              done",
    ]
    assert (comparison.worse, comparison.better) == (["bees"], ["ants", "jam"])
    assert comparison._repr_html_().count("<tr>") == 15
    assert [*OLD.compare(OLD).rows[0]] == ["case", "what", "left", "right"]
    assert OLD.compare(OLD).changes == []


def test_a_check_named_as_a_column_has_its_own() -> None:
    report = Report("v1", (trial("bees", Verdict("tokens", True), tokens=3),))
    assert (report.rows[0]["tokens"], report.rows[0]["tokens (check)"]) == ("3", "✓")
    assert report.compare(report).changes == []
    case, what = (
        Report(name, (trial("bees", Verdict("passed", passed)),))
        for name, passed in (("case", True), ("what", False))
    )
    assert repr(case.compare(what)).splitlines() == [
        "case  what            left           right",
        "all   passed          1 of 1 passed  0 of 1 passed",
        "all   passed (check)  ✓              ✗",
        "all   tokens          0              0",
        "all   seconds         0.00 s         0.00 s",
        "bees  passed          ✓              ✗",
    ]


def test_a_report_is_read_from_its_file(tmp_path: Path) -> None:
    OLD.save(tmp_path / "v1.json")
    assert Report.load(tmp_path / "v1.json") == OLD
    (tmp_path / "other.json").write_text('{"trials": []}')
    missing = f"the report {tmp_path}/no.json cannot be read (No such file or directory); name a file"
    for name, text in (
        ("other.json", "{'trials': []} is not a report; write it with report.to_dict()"),
        ("no.json", f"{missing} of report.save()"),
    ):
        with pytest.raises(ag.AgentGraphError) as caught:
            Report.load(tmp_path / name)
        assert str(caught.value) == text
    with pytest.raises(ag.AgentGraphError, match="cannot be written"):
        OLD.save(tmp_path / "no" / "v1.json")
