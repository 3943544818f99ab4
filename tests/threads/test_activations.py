"""What is told of what became of activations, and what is read for it."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import asks, chat, foreign, gives, in_turn, says, scripted
from helpers.told import Team, Told, call, calls, search
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag


def test_a_question_and_its_answer(told: Told) -> None:
    team = Team()
    boss = asks("boss", "Print {topic}?", output_key="ok")
    told.of(ag.sequential("s", [team.chat("w", "Draft"), boss, team.chat("z", "Printed")]))
    told.invoke("Go.", values={"topic": "bees"})
    report = told("s/boss")
    assert (report.status, report.ended, report.saw) == ("asks", None, [])
    [asked] = report.questions
    assert (asked.question.value, asked.is_answered, asked.answer) == ("Print bees?", False, None)
    assert told("s").status == "asks"
    told.invoke(answers="yes")
    report = told("s/boss")
    assert (report.status, report.changed) == ("done", ["ok"])
    assert [(e.question.value, e.answer) for e in report.questions] == [("Print bees?", "yes")]
    assert told("s").status == "done"
    told.check_saw(team)


TEXTS = ("One.", "Two.", "Three.")
CALLING = ("One.", call("search", q="bees"), "Two.", call("search", q="ants"), "Three.")
APPROVED: Any = {"approve": ["search"], "on_tool_error": "raise"}
LEAVES: dict[str, Callable[[], ag.Agent]] = {
    "function": lambda: ag.function_agent("w", in_turn(*TEXTS), output_key="out"),
    "chat": lambda: ag.chat_agent("w", scripted(*TEXTS), output_key="out"),
    "calls": lambda: chat("w", *CALLING, tools=[search], output_key="out", **APPROVED),
    "human": lambda: asks("w", output_key="out"),
    "graph": lambda: ag.graph_agent("w", foreign(in_turn(*TEXTS)), output_key="out"),
}


@pytest.mark.parametrize("kind", LEAVES)
@pytest.mark.parametrize("around", ["", "s/"])
def test_each_attempt_of_a_checked_agent_is_an_activation(told: Told, kind: str, around: str) -> None:
    checked = ag.validated(LEAVES[kind](), lambda text: text != "One.")
    runner = told.of(ag.sequential("s", [checked]) if around else checked).runner
    answers = iter(TEXTS if kind == "human" else [{"decisions": [{"type": "approve"}]}] * 2)
    attempts = [f"{around}w", f"{around}w{{1}}"]

    def check(*texts: str) -> None:
        while runner.pending("t"):
            told.invoke(answers=next(answers))
        assert [*dict.fromkeys(each.address for each in runner.visits("t"))] == attempts
        reports = [told(at) for at in attempts]
        assert [each.values_after for each in reports] == [{"out": text} for text in texts]
        assert [reports[0].said[0].text, reports[1].said[-1].text] == [*texts]
        assert dict(reports[1].values_before) == {"out": "One."}
        bars = {each.id: each for each in runner.timeline("t").bars}
        ends = [(each.began, each.ended) for each in reports]
        assert ends == [(each.began, each.ended) for each in (bars[f"0:{at}"] for at in attempts)]

    told.invoke("Go.")
    check("One.", "Two.")
    told.rewind(attempts[1])
    check("One.", "Three.")


def test_each_visit_of_a_node_of_a_flat_graph_is_found_by_its_address() -> None:
    model = scripted(call("search", q="bees"), call("search", id="2", q="ants"), "Done.", "Stop.")
    flat = ag.graph_agent("c", create_agent(model, [search]), flat=True)
    runner = ag.Runner(ag.sequential("s", [flat, says("last")]))
    runner.invoke("Go.", thread_id="t")
    visits = [each for each in runner.visits("t") if each.address.startswith("s/c/")]
    assert [each.address for each in visits] == [
        *("s/c/model", "s/c/tools", "s/c/model[1]", "s/c/tools[1]", "s/c/model[2]")
    ]
    for visit in visits:
        assert runner.activation("t", visit.address).steps == [visit.step]
    list(runner.rewind("t", "s/c/model"))
    assert len(model.inputs) == 4
    assert [each.text for each in model.inputs[3]] == ["Go."]


def test_questions_of_functions_and_tools(told: Told) -> None:
    from langgraph.types import interrupt

    def pay(sum: int) -> str:
        """Pay."""
        return f"paid {sum}: {interrupt(f'Pay {sum}?')}"

    def fn(ctx: ag.Context) -> Any:
        if not ctx.answered:
            return ag.Ask("One?")
        return ag.Ask("Two?") if ctx.asked < 2 else f"{ctx.answer}"

    team = Team()
    payer = team.chat("payer", calls(("pay", {"sum": 1}), ("pay", {"sum": 2})), "Paid", tools=[pay])
    told.of(ag.sequential("s", [ag.function_agent("f", fn), payer])).invoke("Go.")
    told.invoke(answers="1")
    assert [e.is_answered for e in told("s/f").questions] == [True, False]
    told.invoke(answers="2")
    assert [(e.question.value, e.answer) for e in told("s/f").questions] == [
        ("One?", "1"),
        ("Two?", "2"),
    ]
    report = told("s/payer")
    assert (report.status, [each.status for each in report.tools]) == ("asks", ["waits", "waits"])
    first, second = report.questions
    told.invoke(answers={first.question.id: "yes"})
    report = told("s/payer")
    assert sorted((e.question.value, e.answer) for e in report.questions if e.is_answered) == [
        (first.question.value, "yes")
    ]
    assert sorted(each.status for each in report.tools) == ["done", "waits"]
    told.invoke(answers={second.question.id: "no"})
    report = told("s/payer")
    answers = {each.question.value: each.answer for each in report.questions}
    assert answers == {first.question.value: "yes", second.question.value: "no"}
    assert [each.status for each in report.tools] == ["done", "done"]
    told.check_saw(team)


def test_a_failure_and_the_attempt_after_it(told: Told) -> None:
    broken = [True]

    def fn(ctx: ag.Context) -> str:
        if broken[0]:
            raise ValueError("no paper")
        return "printed"

    told.of(ag.sequential("s", [says("a"), ag.function_agent("print", fn, output_key="p")]))
    with pytest.raises(ValueError, match="no paper"):
        told.invoke("Go.")
    report = told("s/print")
    assert (report.status, report.error, report.attempts) == ("failed", "ValueError('no paper')", [])
    assert report.ended is not None
    assert report.values_after == report.values_before == {}
    assert (told("s").status, told("s").error) == ("failed", "ValueError('no paper')")
    broken[0] = False
    told.invoke()
    report = told("s/print")
    assert (report.status, report.error) == ("done", None)
    [attempt] = report.attempts
    assert (attempt.status, attempt.error, attempt.line) == ("failed", "ValueError('no paper')", None)
    assert attempt.step == report.steps[0]
    assert report.values_after == {"p": "printed"}


def test_a_failed_tool_says_so(told: Told) -> None:
    team = Team()
    writer = team.chat("w", call("search", q="nothing"), "Sorry", tools=[search])
    told.of(writer).invoke("Go.")
    [run] = told("w").tools
    assert run.status == "failed"
    assert run.result is not None
    assert "no such thing" in run.result


def test_other_lines_are_attempts(told: Told) -> None:
    told.of(ag.sequential("s", [gives("a", "A1", "A2"), gives("b", "B1", "B2", "B3")]))
    told.invoke("Go.")
    told.invoke("Once more.")
    first = told("s/b", turn=1)
    assert first.attempts == []
    told.rewind("s/b")
    second = told("s/b")
    assert [(e.step, e.status) for e in second.attempts] == [(first.steps[0], "done")]
    told.rewind("s/a")
    third = told("s/b")
    assert [(e.step, e.status) for e in third.attempts] == [
        (first.steps[0], "done"),
        (second.steps[0], "done"),
    ]
    lines = {each.head for each in told.runner.thread("t").lines if not each.is_present}
    assert {each.line for each in third.attempts} == lines
    assert [told(each.step).said[0].text for each in third.attempts] == ["B2", "B3"]
    assert told("s/b", turn=0).attempts == []


def test_composites_tell_the_whole(told: Told) -> None:
    team = Team()
    writer = team.chat("w", "D1", "D2", output_key="draft")
    loop = ag.loop("l", [writer, gives("c", "No", ag.BreakLoop())], max_iterations=5)
    told.of(ag.sequential("s", [loop, ag.parallel("p", [says("x"), says("y")])])).invoke("Go.")
    report = told("s/l")
    assert (report.kind, report.iteration, len(report.steps)) == ("loop", None, 4)
    assert (report.values_before, report.values_after) == ({}, {"draft": "D2"})
    assert [each.text for each in report.said] == ["D2"]
    one = told("s/l[1]")
    assert (one.iteration, len(one.steps), one.values_before) == (1, 2, {"draft": "D1"})
    assert told("s/l[1]/c").signal == "break_loop"
    assert report.usage["total_tokens"] == sum(
        told(f"s/l[{n}]/w").usage["total_tokens"] for n in (0, 1)
    )
    fork = told("s/p")
    assert (fork.kind, fork.status, len(fork.steps)) == ("parallel", "done", 3)
    assert fork.began is not None
    assert fork.ended is not None
    assert fork.began <= told("s/p/x").began <= fork.ended  # type: ignore[operator]


COMPOSITES: dict[str, Callable[[ag.Agent], ag.Agent]] = {
    "sequential": lambda leaf: ag.sequential("w", [says("x"), leaf]),
    "loop": lambda leaf: ag.loop("w", [says("x"), leaf], max_iterations=1),
    "parallel": lambda leaf: ag.parallel("w", [leaf]),
    "nested": lambda leaf: ag.sequential("w", [ag.parallel("p", [says("x"), says("y")]), leaf]),
}


@pytest.mark.parametrize("kind", COMPOSITES)
@pytest.mark.parametrize("around", ["", "s/"])
def test_each_attempt_of_a_checked_composite_is_an_activation(
    told: Told, kind: str, around: str
) -> None:
    leaf = ag.function_agent("leaf", in_turn(*TEXTS, "Four."), output_key="out")
    checked = ag.validated(COMPOSITES[kind](leaf), lambda text: text not in TEXTS[:2])
    runner = told.of(ag.sequential("s", [checked]) if around else checked).runner
    attempts = [f"{around}w", f"{around}w{{1}}", f"{around}w{{2}}"]

    def check(*texts: str) -> None:
        reports, bars = [told(at) for at in attempts], {e.id: e for e in runner.timeline("t").bars}
        assert [[each.text for each in report.said] for report in reports] == [[t] for t in texts]
        assert [each.values_after for each in reports] == [{"out": text} for text in texts]
        assert [each.ended for each in reports] == [bars[f"0:{at}"].ended for at in attempts]
        ran = [each.steps for each in reports]
        assert [each for steps in ran for each in steps] == [each.step for each in runner.visits("t")]

    told.invoke("Go.")
    check(*TEXTS)
    told.rewind(attempts[2])
    check(*TEXTS[:2], "Four.")
    assert [each.status for each in told(attempts[2]).attempts] == ["done"]
    assert told(attempts[0]).attempts == []


def test_a_run_under_way_is_running(told: Told) -> None:
    states: list[str] = []

    def fn(ctx: ag.Context) -> str:
        states.extend(told.runner.activation("t", at).status for at in ("s/a", "s/b", "s"))
        return "b"

    told.of(ag.sequential("s", [says("a"), ag.function_agent("b", fn)])).invoke("Go.")
    assert states == ["done", "running", "running"]
    assert told("s/b").status == "done"


@pytest.mark.parametrize("kind", ["parallel", "workflow"])
def test_a_branch_or_step_under_way_is_running_and_one_that_has_not_begun_is_not_there(
    told: Told, kind: str
) -> None:
    states: dict[str, str] = {}

    def fn(ctx: ag.Context) -> str:
        for name in "xyz":
            try:
                states[name] = told.runner.activation("t", f"p/{name}").status
            except ag.UnknownAddressError:
                states[name] = "unknown"
        bars = told.runner.timeline("t").bars
        states["bars"] = " ".join(f"{each.label} {each.state}" for each in bars)
        raise ValueError("no")

    agents = [says("x"), ag.function_agent("y", fn), says("z")]
    steps = [ag.step(agents[0])]
    steps += [ag.step(agents[n], depends_on=["xyz"[n - 1]]) for n in (1, 2)]
    told.of(
        ag.parallel("p", agents, max_concurrency=1) if kind == "parallel" else ag.workflow("p", steps)
    )
    with pytest.raises((ValueError, ag.StepFailedError)):
        told.invoke("Go.")
    assert states == {
        "x": "done",
        "y": "running",
        "z": "unknown",
        "bars": "p running x done y running",
    }
    assert told("p/y").status == "failed"
    assert [each.address for each in told.runner.visits("t")] == ["p", "p/x", "p/y"]


def test_a_choice_is_told(told: Told) -> None:
    told.of(ag.switch("which", "x", {"1": says("one")}, otherwise=says("two")))
    told.invoke("Go.", values={"x": "1"})
    report = told("which")
    assert (report.kind, report.signal, [e.text for e in report.said]) == (
        "switch",
        "chosen one",
        ["one"],
    )


def test_a_killed_process_leaves_what_can_be_told(tmp_path: Path) -> None:
    program = tmp_path / "killed.py"
    program.write_text(
        textwrap.dedent("""
            import os, signal, sys
            import agentgraph as ag
            from agentgraph.testing import ScriptedChatModel

            def tree(dies):
                def fn(ctx):
                    if dies:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return "b"
                model = ScriptedChatModel(responses=["A"])
                first = ag.chat_agent("a", model, instruction="Be {mood}.", output_key="by_a")
                inner = ag.sequential("x", [first, ag.function_agent("b", fn)])
                return ag.parallel("p", [inner, ag.function_agent("c", lambda ctx: "c")])

            if __name__ == "__main__":
                runner = ag.Runner(tree(True), checkpointer=sys.argv[1])
                runner.invoke("Go.", thread_id="t", values={"mood": "kind"})
        """)
    )
    path = tmp_path / "t.db"
    done = subprocess.run([sys.executable, program, path], env=os.environ, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    space: dict[str, Any] = {"__name__": "killed"}
    exec(program.read_text(), space)
    with ag.Runner(space["tree"](False), checkpointer=path) as runner:
        report = runner.activation("t", "p/x/a")
        assert [each.text for each in report.saw] == ["Be kind.", "Go."]
        assert (report.status, report.values_after["by_a"]) == ("done", "A")
        cut = runner.activation("t", "p/x/b")
        assert (cut.status, [e.text for e in cut.saw]) == ("stopped", ["Go.", "[a] said: A"])
        assert runner.activation("t", "p").status == "stopped"
        runner.invoke(thread_id="t")
        assert runner.activation("t", "p/x/b").status == "done"
        assert runner.activation("t", "p").status == "done"


# what is refused, and what is read


def test_what_is_not_there_is_refused(told: Told) -> None:
    told.of(ag.sequential("s", [says("a"), says("b")])).invoke("Go.")
    with pytest.raises(ag.UnknownAddressError) as caught:
        told("s/x")
    assert str(caught.value) == (
        "thread 't' has not visited 's/x'; the nearest address is 's/b'; visits() lists all"
    ) or "the nearest address is 's/a'" in str(caught.value)
    with pytest.raises(ag.UnknownAddressError, match="in turn 3"):
        told("s/a", turn=3)
    with pytest.raises(ag.ThreadError, match="no line with the head 'nope'"):
        told("s/a", line="nope")
    with pytest.raises(ag.AgentGraphError, match="a step is in one turn"):
        told(told("s/a").steps[0], turn=0)
    with pytest.raises(ag.AgentGraphError, match="neither an address nor a step"):
        told("")
    with pytest.raises(ag.UnknownThreadError):
        told.runner.activation("other", "s/a")


class Counting(InMemorySaver):
    """Counts the checkpoints that are read."""

    read = 0

    def get_tuple(self, config: Any) -> Any:
        self.read += 1
        return super().get_tuple(config)

    def list(self, *args: Any, **options: Any) -> Iterator[Any]:
        for each in super().list(*args, **options):
            self.read += 1
            yield each


def read_for(turns: int) -> dict[str, int]:
    """Return how many checkpoints are read for reports on the last turn of a thread."""
    saver = Counting()
    loop = ag.loop("l", [says("a"), says("b")], max_iterations=3)
    runner = ag.Runner(ag.sequential("s", [loop, says("z")]), checkpointer=saver)
    for _ in range(turns):
        runner.invoke(HumanMessage("Go."), thread_id="t")
    step = runner.activation("t", "s/l[1]/b").steps[0]
    counts = {}
    for at in ("s/l[2]/b", "s/z", "s/l[1]", "s", step):
        saver.read = 0
        runner.activation("t", at)
        counts["step" if at == step else at] = saver.read
    return counts


def test_the_last_rounds_of_a_long_thread_cost_what_those_of_a_short_one_do() -> None:
    assert read_for(30) == read_for(6)
