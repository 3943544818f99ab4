"""The chart of a timeline: rows, bars over time, what is shortened and left out."""

from typing import Any

import pytest
from rich.cells import cell_len

from agentgraph import Bar
from agentgraph.show.timeline import LEGEND, chart


def bar(address: str, began: float, ended: float | None, **more: Any) -> Bar:
    """Return an agent's bar, inside that of the address around it."""
    outer = address.rpartition("/")[0]
    known: dict[str, Any] = {
        "id": address,
        "turn": 0,
        "address": address,
        "agent_name": address.rpartition("/")[2],
        "kind": "agent",
        "label": address.rpartition("/")[2],
        "node": "",
        "step": "",
        "iteration": None,
        "state": "done",
        "inside": outer or None,
    }
    return Bar(began=began, ended=ended, **(known | more))


def text(bars: list[Bar], width: int = 60, now: float = 100.0, most: int | None = None) -> list[str]:
    lines = chart(bars, width, now, most)
    return ["".join(piece for piece, _ in line).rstrip() for line in lines]


def test_bars_stand_below_each_other_in_time() -> None:
    bars = [bar("s", 0, 10), bar("s/a", 0, 5), bar("s/b", 5, 10)]
    assert text(bars, 50) == [
        "✓ s   ───────────────────────────   10.0 s",
        "✓   a ██████████████                5.00 s",
        "✓   b              ██████████████   5.00 s",
        LEGEND,
    ]


def test_a_wait_is_hatched_and_shortened() -> None:
    asked = bar("s/a", 1, 1001, id="q", kind="question", inside="s/a")
    shown = text([bar("s", 0, 1002), bar("s/a", 0, 1002), asked])
    assert shown[1].count("░") < 10
    assert shown[1].count("█") > 20
    assert shown[-1] == "Idle time is shortened."


def test_what_runs_goes_on_and_what_is_void_is_greyed() -> None:
    bars = [
        bar("s", 0, None, state="running"),
        bar("s/a", 0, 5, id="void", state="void"),
        bar("s/a", 5, None, state="running"),
    ]
    shown = text(bars, now=10.0)
    assert shown[1].startswith("▒   a ▒▒▒▒")
    assert shown[2].startswith("▸   a ")
    assert shown[2].endswith("█▸")
    styles = dict(chart(bars, 60, 10.0)[1])
    assert set(styles.values()) <= {"dim", ""}


def test_many_inside_one_are_left_out_but_those_that_are_not_done() -> None:
    laps = [bar(f"l[{n}]", n, n + 1, inside="l", tokens_in=2, tokens_out=1) for n in range(100)]
    laps[7] = bar("l[7]", 7, 8, inside="l", state="failed")
    shown = text([bar("l", 0, 100), *laps], most=3)
    assert [line.split()[1] for line in shown[:-1]] == ["l", "96", "l[7]", "l[97]", "l[98]", "l[99]"]
    assert shown[1].split() == ["…", "96", "more", "1:37", "min", "288"]


@pytest.mark.parametrize("width", [30, 40, 80, 200])
@pytest.mark.parametrize(
    "name", ["a" * 300, "\x1b[31mred\x1b[0m\r\n\u202e", "蜂" * 80, "[bold]x[/bold]"]
)
def test_no_line_is_wider_than_the_screen_whatever_the_name(width: int, name: str) -> None:
    bars = [bar("s", 0, 1), bar(name, 0, 1, id="x", kind="tool", inside="s", tokens_in=123456)]
    lines = text(bars, width)
    assert max(cell_len(line) for line in lines[:2]) <= max(width, 38)
    assert not any(mark in line for line in lines for mark in "\x1b\r\n\u202e")


def test_nothing_has_run() -> None:
    assert text([]) == ["Nothing has run yet."]
