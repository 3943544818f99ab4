"""Functions that are asked where an agent has ended: one that fails, or asks, undoes nothing.

`tests/transcripts/borders.txt` shows where they may be asked.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import Disk, Drive, chat, failing, foreign, in_turn, lines, says, unvoided
from langgraph.types import interrupt

import agentgraph as ag
from agentgraph.testing import call, calls


def looped(body: ag.Agent, until: Any, name: str = "l") -> ag.Agent:
    return ag.loop(name, [body], max_iterations=3, until=until)


def bug() -> KeyError:
    return KeyError("nokey")


def directly() -> ag.Agent:
    texts = in_turn("one", "two", "three")

    def look() -> str:
        """Look."""
        return str(texts())

    return chat("w", *[calls(call("look"))] * 3, tools=[look], return_directly=["look"])


SAYING: dict[str, Callable[[], ag.Agent]] = {
    "function": lambda: says("w", "one", "two", "three"),
    "chat": lambda: chat("w", "one", "two", "three"),
    "graph": lambda: ag.graph_agent("w", foreign(in_turn("one", "two", "three"))),
    "parallel": lambda: ag.parallel("w", [says("a", "one", "two", "three")]),
    "workflow": lambda: ag.workflow("w", [says("a", "one", "two", "three")]),
    "tool that returns": directly,
}


@pytest.mark.parametrize("kind", SAYING)
def test_after_any_agent_a_function_that_fails_or_asks_is_called_again_alone(
    disk: Disk, kind: str
) -> None:
    check = in_turn(bug(), lambda text: f"{text} is bad", None)
    until = in_turn(bug(), lambda ctx: interrupt("Enough?") == "yes")
    tree = ag.sequential("s", [looped(ag.validated(SAYING[kind](), check), until), says("z")])

    def shown(events: list[ag.AgentEvent]) -> list[str]:
        """Return the lines but calls, those of the agent `a` inside as if `w` said them."""
        return [line.replace("/a: ", ": ") for line in lines(events) if "[calls]" not in line]

    failed = disk.fail(tree, "run", KeyError)
    assert shown(failed) == ["s/l[0]/w: one", "s/l[0]/w: [error] KeyError('nokey')"]
    again = disk.fail(tree, "resume", KeyError)
    assert shown(again) == [
        "s/l[0]/w: This did not pass a check: one is bad\nDo it again, with that put right.",
        "s/l[0]/w{1}: two",
        "s/l[0]/w{1}: [error] KeyError('nokey')",
    ]
    assert shown(disk.resume(tree)) == ["s/l[0]/w{1}: [asks] Enough?"]
    assert shown(disk.resume(tree, "no")) == ["s/l[1]/w: three", "s/l[1]/w: [asks] Enough?"]
    assert shown(disk.resume(tree, "yes")) == ["s/z: z"]
    assert disk.events(tree) == [*failed, *again, *disk.heard]


def test_the_error_names_the_function_and_the_agent_and_keeps_its_traceback(drive: Drive) -> None:
    def check(text: str) -> str:
        raise bug()

    def until(ctx: ag.Context) -> bool:
        raise bug()

    for tree, noted in (
        (ag.validated(says("w"), check), ["It was a check of the agent 'w' that failed.", "w"]),
        (looped(says("w"), until), ["It was `until` of the loop 'l' that failed.", "l[0]/w"]),
        (
            looped(ag.workflow("w", [says("a")]), until),
            ["It was `until` of the loop 'l' that failed.", "l[0]/w"],
        ),
    ):
        _, raised = failing(drive.run(ag.Runner(tree), "Go."), KeyError)
        what, where = noted
        assert raised.__notes__[:2] == [what, f"This happened in the agent 'w', at {where}."]
        trace = raised.__traceback__
        while trace and trace.tb_next:
            trace = trace.tb_next
        assert trace
        assert trace.tb_frame.f_code.co_name in ("check", "until")


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_the_failure_may_be_no_exception(tmp_path: Path, error: BaseException) -> None:
    tree = looped(chat("w", "one"), in_turn(error, True))
    events: list[ag.AgentEvent] = []
    with ag.sqlite_saver(tmp_path / "t.db") as saver:
        runner = ag.Runner(tree, checkpointer=saver)
        with pytest.raises(type(error)):
            events.extend(runner.run("Go.", thread_id="t"))
        rest = list(runner.resume("t"))
        assert unvoided(rest) == []
        assert list(runner.events("t")) == unvoided([*events, *rest])


def test_the_state_has_the_answers_so_far_but_no_stream_of_langgraph_has_the_failure() -> None:
    runner = ag.Runner(looped(looped(says("w"), in_turn(True), "i"), in_turn(bug()), "o"))
    config: Any = {"configurable": {"thread_id": "t"}}
    parts: list[Any] = []
    with pytest.raises(KeyError):
        parts.extend(
            runner.graph.stream({"messages": ["Go."]}, config, stream_mode=["updates", "values"])
        )
    state = runner.graph.get_state(config)
    assert state.values["position"]["border"] == {"given": [True]}
    assert state.next == ("w",)
    written = [update["w"].keys() for kind, update in parts if kind == "updates" and "w" in update]
    assert written == [{"messages", "position"}]
    assert not any("failure" in state for kind, state in parts if kind == "values")


def test_a_function_that_does_not_fail_costs_no_step() -> None:
    tree = ag.loop("l", [says("a"), says("b")], max_iterations=3, until=lambda ctx: False)
    parts = list(ag.compile_agent(tree).stream({"messages": ["Go."]}, stream_mode="updates"))
    assert [name for part in parts for name in part] == ["a", "b"] * 3
