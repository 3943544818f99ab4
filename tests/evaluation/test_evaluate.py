"""Evaluations: each case runs once, on its own thread, however often the evaluation is called."""

import asyncio
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import evaluated_cases
import pytest
from evaluated_cases import AT_ONCE, NUMBER
from helpers import scripted
from helpers.commands import Commands, wait_until
from helpers.failing_savers import Failing
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag
from agentgraph.testing import Case, Report, ScriptedChatModel, aevaluate, evaluate

Evaluated = Any
PROGRAM = str(Path(evaluated_cases.__file__))


class Writer:
    """A tree with a writer and a person; a writer asked for "jam" fails until it is mended."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.is_mended = False
        self.tree = ag.sequential(
            "report", [ag.function_agent("writer", self._write), ag.human("boss", "Print it?")]
        )

    def _write(self, ctx: ag.Context) -> str:
        text = ctx.messages[-1].text
        self.ran.append(text)
        if text == "jam" and not self.is_mended:
            raise ValueError("jammed")
        return f"On {text}."


def approved(result: ag.Result, case: Case) -> bool:
    return result.text == (case.expected or "yes")


def statuses(report: Report) -> dict[str, str]:
    return {each.thread_id: each.status for each in report.trials}


def cases(*changed: Case) -> list[Case]:
    several = [
        Case("bees", "bees", answers={"report/boss": "yes"}),
        Case("ants", "ants"),
        Case("jam", "jam", answers={"boss": "yes"}),
        Case("more", "more", answers={"boss": "no"}, expected="no", before=["less"]),
    ]
    by_id = {each.id: each for each in (*several, *changed)}
    return [*by_id.values()]


def test_a_second_call_reads_what_has_ended_and_runs_what_has_changed(
    evaluated: Evaluated, tmp_path: Path
) -> None:
    writer = Writer()
    with ag.Runner(writer.tree, checkpointer=tmp_path / "t.db") as runner:
        first = evaluated(runner, cases(), [approved, lambda result: len(result.text)], name="v1")
        assert statuses(first) == {
            "v1/bees/0": "done",
            "v1/ants/0": "paused",
            "v1/jam/0": "failed",
            "v1/more/0": "paused",
        }
        assert [each.reasons for each in first.failed] == [
            ["approved"],
            ["report/writer: ValueError('jammed')"],
            ["approved"],
        ]
        assert [each.pending[0].address for each in (first.trials[1].result,) if each] == [
            "report/boss"
        ]
        ran = sorted(writer.ran)
        assert ran == ["ants", "bees", "jam", "less"]  # an earlier turn that waits ends the case
    with ag.Runner(writer.tree, checkpointer=tmp_path / "t.db") as runner:
        again = evaluated(runner, cases(), [approved, lambda result: len(result.text)], name="v1")
        assert (again, sorted(writer.ran)) == (first, ran)
        new = [
            Case("ants", "ants", answers={"boss": "yes"}, expected="yes"),
            Case("bees", "bees", answers={"report/boss": "yes"}, expected="no"),
            Case("more", "more", before=[{"input": "less", "answers": {"boss": "no"}}]),
        ]
        changed = evaluated(runner, cases(*new), approved, name="v1")
        assert [each.status for each in changed.trials] == ["done", "done", "failed", "paused"]
        assert [each.case for each in changed.failed] == ["bees", "jam", "more"]
        assert [each.text for each in runner.thread("v1/more/0").messages] == [
            *("less", "On less.", "no"),
            *("more", "On more."),
        ]
        assert Counter(writer.ran) == Counter([*ran, "ants", "less", "more"])
        writer.is_mended = True
        assert evaluated(runner, cases(*new), approved, name="v1").trials[2].status == "failed"
        mended = evaluated(runner, cases(*new), approved, name="v1", retry_failed=True)
        assert (mended.trials[2].status, mended.trials[2].text) == ("done", "yes")
        assert writer.ran.count("jam") == 2


def test_a_changed_case_that_another_call_has_run_does_not_run_again(evaluated: Evaluated) -> None:
    ran: list[str] = []

    def work(ctx: ag.Context) -> str:
        ran.append(ctx.messages[-1].text)
        if ran[-1] == "first":
            evaluated(runner, [Case("b", "new")], (), name="e")
        return ran[-1]

    runner = ag.Runner(ag.function_agent("worker", work))
    evaluated(runner, [Case("b", "old")], (), name="e")
    several = [Case("a", "first"), Case("b", "new")]
    report = evaluated(runner, several, (), name="e", max_concurrency=1)
    assert [each.status for each in report.trials] == ["done", "done"]
    assert ran == ["old", "first", "new"]


def test_each_repeat_has_a_thread_and_at_most_so_many_run_at_a_time(evaluated: Evaluated) -> None:
    running, most = set[str](), list[int]()
    meets, lock = threading.Barrier(3), threading.Lock()

    def work(ctx: ag.Context) -> str:
        thread_id = ctx.config["configurable"]["thread_id"]
        with lock:
            running.add(thread_id)
            most.append(len(running))
        meets.wait(10)
        with lock:
            running.remove(thread_id)
        return thread_id

    runner = ag.Runner(ag.function_agent("worker", work))
    report = evaluated(
        runner, ["Go.", "Come."], lambda result: True, name="r", repeats=3, max_concurrency=3
    )
    assert [each.text for each in report.trials] == [f"r/{case}/{n}" for case in "12" for n in range(3)]
    assert max(most) == 3
    assert report.rows[0]["lambda"] == "3/3"
    assert {each.thread_id for each in runner.threads("done")} == {*statuses(report)}


def test_200_cases_are_killed_in_the_middle_and_each_runs_once(program: Commands) -> None:
    file, log = (str(program.folder / name) for name in ("t.db", "log"))
    running = program.start(PROGRAM, file, log)
    wait_until(lambda: Path(log).exists() and Path(log).read_text().count("review") >= NUMBER // 2)
    running.signal(signal.SIGKILL)
    running.wait_for_code()
    begun = Path(log).read_text().count("review")
    assert begun < NUMBER
    report = evaluated_cases.ran(file, log)
    assert (len(report.trials), report.failed) == (NUMBER, ())
    ran = Counter(Path(log).read_text().splitlines())
    assert len(ran) == 2 * NUMBER
    assert sum(ran.values()) - len(ran) <= AT_ONCE  # the steps that the kill interrupted
    results = [each.result for each in report.trials if each.result]
    assert [[each.turn for each in result.events] for result in results] == [[0, 0]] * NUMBER


def test_ctrl_c_stops_before_the_next_steps_and_the_next_call_continues() -> None:
    log: list[str] = []

    def first(ctx: ag.Context) -> str:
        log.append(ctx.messages[0].text)
        if ctx.messages[0].text == "input 4":
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return "One."

    def second(ctx: ag.Context) -> str:
        log.append(f"{ctx.messages[0].text} again")
        return "Two."

    tree = ag.sequential("s", [ag.function_agent("first", first), ag.function_agent("second", second)])
    runner, texts = ag.Runner(tree), [f"input {number}" for number in range(40)]
    with pytest.raises(KeyboardInterrupt):
        evaluate(runner, texts, lambda result: True, name="e")
    assert len(log) < 40
    assert "running" not in {each.status for each in runner.threads()}
    assert evaluate(runner, texts, lambda result: True, name="e").failed == ()
    assert sorted(log) == sorted([*texts, *(f"{text} again" for text in texts)])


@pytest.mark.parametrize("repeats", [2])
def test_each_thread_has_a_cassette_that_is_played_without_a_model(
    evaluated: Evaluated, tmp_path: Path, repeats: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("CI", "AGENTGRAPH_CASSETTES"):
        monkeypatch.delenv(variable, raising=False)
    folder, options = tmp_path / "tapes", {"name": "v1", "repeats": repeats}
    model = scripted("One.", "Two.", "Three.", "Four.")
    tree = ag.chat_agent("writer", model)
    report = evaluated(ag.Runner(tree), ["a", "b"], (), cassettes=folder, **options)
    assert {str(each.relative_to(folder)) for each in folder.rglob("*.json")} == {
        *("1/0.json", "1/1.json", "2/0.json", "2/1.json")
    }
    monkeypatch.setenv("CI", "1")  # plays only
    silent = ag.chat_agent("writer", ScriptedChatModel(responses=[]))
    again = evaluated(ag.Runner(silent), ["a", "b"], (), cassettes=folder, **options)
    assert [each.text for each in again.trials] == [each.text for each in report.trials]
    assert {each.text for each in report.trials} == {"One.", "Two.", "Three.", "Four."}
    changed = evaluated(ag.Runner(silent), ["a", "c"], (), cassettes=folder, name="v2")
    assert "is not what" in changed.failed[0].error
    assert [each.case for each in changed.failed] == ["2"]
    assert "set AGENTGRAPH_CASSETTES=auto or" in repr(changed)
    monkeypatch.setenv("AGENTGRAPH_CASSETTES", "sing")
    with pytest.raises(ag.CassetteError, match=r"^AGENTGRAPH_CASSETTES='sing' is not a mode"):
        evaluated(ag.Runner(silent), ["a"], (), cassettes=folder, name="v3")


def test_spending_is_counted_also_without_limits(evaluated: Evaluated) -> None:
    model = ScriptedChatModel(responses=lambda messages: "One two.", counts_tokens=True)
    for limits in (None, ag.Limits(tokens=100)):
        runner = ag.Runner(ag.chat_agent("writer", model), limits=limits)
        (trial,) = evaluated(runner, ["Go."], (), name="e").trials
        assert trial.tokens == 3
        assert trial.seconds > 0
        assert trial.result is not None
        assert trial.result.spent.model_calls == 1


def test_a_case_that_a_person_stopped_stays_so(evaluated: Evaluated) -> None:
    def first(ctx: ag.Context) -> str:
        runner.stop(ctx.config["configurable"]["thread_id"], "enough")
        return "One."

    tree = ag.sequential("s", [ag.function_agent("first", first), ag.function_agent("last", first)])
    runner = ag.Runner(tree)
    for _ in range(2):
        (trial,) = evaluated(runner, ["Go."], lambda result: True, name="e").trials
        assert (trial.status, trial.text, trial.reasons, trial.verdicts) == (
            *("stopped", "One.", ["a person stopped it: enough"]),
            (),
        )


async def judged(result: ag.Result) -> float:
    return 0.5


def test_async_checks_need_aevaluate_and_checks_can_fail_in_many_ways() -> None:
    runner = ag.Runner(ag.function_agent("writer", lambda ctx: "Hi."))

    def asserts(result: ag.Result) -> None:
        if result.text != "Ho.":
            raise AssertionError("not Ho")

    checks: Any = {
        "judged": judged,
        "asserts": asserts,
        "none": lambda result: None,
        "nan": lambda result: float("nan"),
        "count": lambda result: len(result.text),
        "with default": lambda result, least=1: len(result.text) >= least,
        "of class": dict,
    }
    report = asyncio.run(aevaluate(runner, ["Go."], checks, name="e"))
    values = {each.name: (each.value, each.reason) for each in report.trials[0].verdicts}
    assert values == {
        "judged": (0.5, ""),
        "asserts": (None, "not Ho"),
        "none": (None, "it returned None; return True, False or a finite number"),
        "nan": (None, "it returned nan; return True, False or a finite number"),
        "count": (3.0, ""),
        "with default": (True, ""),
        "of class": (None, "TypeError: 'Result' object is not iterable"),
    }
    with pytest.raises(ag.AgentGraphError) as caught:
        evaluate(runner, ["Go."], judged, name="f")
    assert str(caught.value) == (
        "checks: 'judged' is async; pass a sync function, or await aevaluate(...)"
    )
    sneaky = evaluate(runner, ["Go."], lambda result: judged(result), name="f").trials[0].verdicts[0]
    assert "return True, False or a finite number" in sneaky.reason


def test_whatever_a_check_raises_is_its_failure_unless_that_ends_the_process() -> None:
    runner = ag.Runner(ag.function_agent("writer", lambda ctx: "Hi."))
    kinds = [StopIteration, GeneratorExit, asyncio.CancelledError, pytest.fail.Exception]

    def check(kind: Any, *, awaits: bool = False) -> Any:
        def fails(result: ag.Result) -> bool:
            raise kind("mine")

        async def afails(result: ag.Result) -> bool:
            raise kind("mine")

        return afails if awaits else fails

    for_sync = {kind.__name__: check(kind) for kind in kinds}
    for_async = {f"a {kind.__name__}": check(kind, awaits=True) for kind in kinds[1:]}
    report = evaluate(runner, ["Go."], for_sync, name="e")
    reasons = {each.name: each.reason for each in report.trials[0].verdicts}
    assert reasons == {name: f"{name}: mine" for name in for_sync}
    report = asyncio.run(aevaluate(runner, ["Go."], {**for_sync, **for_async}, name="e"))
    reasons = {each.name: each.reason for each in report.trials[0].verdicts}
    assert reasons == {name: f"{name.removeprefix('a ')}: mine" for name in {**for_sync, **for_async}}
    for ends in (SystemExit, KeyboardInterrupt):
        with pytest.raises(ends, match="mine"):
            evaluate(runner, ["Go.", "On."], check(ends), name="e")
        with pytest.raises(ends, match="mine"):
            asyncio.run(aevaluate(runner, ["Go.", "On."], check(ends, awaits=True), name="e"))


REJECTED: dict[str, tuple[dict[str, Any], str]] = {
    "no runner": (
        {"runner": ag.human("boss", "Print it?")},
        "runner=human agent 'boss' is not a Runner; pass ag.Runner(tree), with a checkpointer to "
        "continue in another process",
    ),
    "no name": ({"name": ""}, "name='' is not a name of an evaluation; pass a text"),
    "no repeats": ({"repeats": 0}, "repeats=0 is out of range; pass an integer of at least 1"),
    "no concurrency": (
        {"max_concurrency": 0},
        "max_concurrency=0 is out of range; pass an integer of at least 1",
    ),
    "no cases": ({"cases": []}, "cases: there is none; pass at least one"),
    "one id twice": (
        {"cases": [Case("a", "A"), Case("a", "B")]},
        "cases: two have the id 'a'; rename one",
    ),
    "no function": (
        {"checks": ["short"]},
        "checks: 'short' is not a function; pass functions of a Result, such as "
        "[lambda result: len(result.text) < 500]",
    ),
    "a used thread": (
        {"name": "used"},
        "evaluation 'used': thread 'used/1/0' is not of an evaluation; pass another name=",
    ),
    "another tree": (
        {"name": "other"},
        "evaluation 'other': another tree ran thread 'other/1/0'; pass another name= for the changed "
        "tree",
    ),
}


@pytest.mark.parametrize("why", REJECTED)
def test_what_is_rejected_runs_and_deletes_nothing(why: str, evaluated: Evaluated) -> None:
    saver, writer = InMemorySaver(), Writer()
    runner = ag.Runner(writer.tree, checkpointer=saver)
    runner.invoke("Go.", thread_id="used/1/0")
    other = ag.Runner(ag.function_agent("writer", lambda ctx: "Hi."), checkpointer=saver)
    evaluate(other, ["Go.", "Come."], (), name="other")
    given, text = REJECTED[why]
    threads, ran = runner.threads(), [*writer.ran]
    options = {"runner": runner, "cases": ["Go.", "Changed."], "checks": (), "name": "e", **given}
    with pytest.raises(ag.AgentGraphError) as caught:
        evaluated(options.pop("runner"), options.pop("cases"), options.pop("checks"), **options)
    assert str(caught.value) == text
    assert (runner.threads(), writer.ran) == (threads, ran)


def test_a_failing_checkpointer_ends_the_evaluation(evaluated: Evaluated) -> None:
    saver, writer = Failing(), Writer()
    runner, saver.left = ag.Runner(writer.tree, checkpointer=saver), 4
    with pytest.raises(ag.SaverError, match="the disk is full"):
        evaluated(runner, ["bees", "ants"], (), name="e", max_concurrency=1)
    assert evaluated(runner, ["bees", "ants"], (), name="e").failed == ()
    assert {*writer.ran} == {"bees", "ants"}
