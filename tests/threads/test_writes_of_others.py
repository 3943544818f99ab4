"""What LangGraph and tasks of users save with a step does not hinder a rewind or a copy."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from helpers import Drive, asks, chat, says
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.func import task
from langgraph.types import interrupt

import agentgraph as ag
from agentgraph.testing import call, calls

AT: Any = {"configurable": {"thread_id": "t"}}


@task
def breaks() -> None:
    raise ValueError("broken")


@task
def wonders() -> Any:
    return interrupt("Hm?")


def tries(ctx: ag.Context) -> str:
    with suppress(ValueError):
        breaks().result()
    return "tried"


def wondering(ctx: ag.Context) -> str:
    return str(wonders().result())


def look() -> str:
    """Looks."""
    with suppress(ValueError):
        breaks().result()
    return "looked"


def ask() -> str:
    """Asks."""
    return str(wonders().result())


def in_branch(leaf: ag.Agent) -> ag.Agent:
    return ag.parallel("p", [ag.sequential("q", [leaf, says("z")]), says("y")])


def using(tool: Callable[..., str], **options: Any) -> ag.Agent:
    """Return a chat agent that calls a tool, each time that it is asked."""

    def reply(sent: Sequence[BaseMessage]) -> AIMessage:
        return AIMessage("Done.") if sent[-1].type == "tool" else calls(call(tool.__name__))

    return chat("leaf", *[reply] * 100, tools=[tool], **options)


LEAVES: dict[str, Callable[[], ag.Agent]] = {
    "a function whose task fails": lambda: ag.function_agent("leaf", tries),
    "a function whose task asks": lambda: ag.function_agent("leaf", wondering),
    "a tool whose task fails": lambda: using(look),
    "a tool whose task asks": lambda: using(ask),
}


@pytest.mark.parametrize("is_in_branch", [False, True])
@pytest.mark.parametrize("leaf", LEAVES)
def test_a_thread_goes_back_to_what_tasks_of_a_user_stopped_in(
    drive: Drive, saver: Any, leaf: str, is_in_branch: bool
) -> None:
    made = LEAVES[leaf]()
    tree = ag.sequential("s", [says("a"), in_branch(made) if is_in_branch else made, asks("h")])
    with ag.Runner(tree, checkpointer=saver) as runner:
        list(drive.run(runner, "Go.", thread_id="t"))
        visits = [each.address for each in runner.visits("t")]
        for number, at in enumerate(visits):
            runner.copy("t", f"copy {number}", at=at)
            assert runner.thread(f"copy {number}").status == "stopped"
        waiting = [each.address for each in runner.pending("t")]
        assert len(waiting) == 1
        for at in visits[::-1]:
            list(runner.rewind("t", at))
            assert len(runner.pending("t")) == len(waiting)


@pytest.mark.parametrize("is_in_branch", [False, True])
def test_a_question_of_a_task_that_a_tool_runs_is_pending_and_answered(
    drive: Drive, saver: Any, is_in_branch: bool
) -> None:
    made = using(ask)
    tree = ag.sequential("s", [says("a"), in_branch(made) if is_in_branch else made, asks("h")])
    at = "s/p/q/leaf" if is_in_branch else "s/leaf"
    with ag.Runner(tree, checkpointer=saver) as runner:
        list(drive.run(runner, "Go.", thread_id="t"))
        assert [each.address for each in runner.pending("t")] == [at]
        assert runner.thread("t").status == "paused"
    with ag.Runner(tree, checkpointer=saver) as again:
        events = list(drive.resume(again, "t", "Yes."))
        assert (at, "Yes.") in [(each.address, each.text) for each in events]
        assert [each.address for each in again.pending("t")] == ["s/h"]


TREES: dict[str, Callable[[], ag.Agent]] = {
    "a question": lambda: asks("h"),
    "a question of a branch": lambda: ag.parallel("p", [asks("h"), says("y")]),
    "an approval": lambda: using(look, approve=["look"]),
}


@pytest.mark.parametrize("after", [says("a"), None])
@pytest.mark.parametrize("name", TREES)
def test_a_thread_goes_back_to_a_step_whose_state_was_edited(
    drive: Drive, saver: Any, name: str, after: ag.Agent | None
) -> None:
    tree = ag.sequential("s", [*([after] if after else []), TREES[name]()])
    with ag.Runner(tree, checkpointer=saver) as runner:
        list(drive.run(runner, "Go.", thread_id="t"))
        asked = [each.address for each in runner.pending("t")]
        runner.graph.update_state(AT, {"values": {"edited": True}})
        list(drive.resume(runner, "t"))
        assert [each.address for each in runner.pending("t")] == asked
        for number, visit in enumerate(runner.visits("t")):
            runner.copy("t", f"copy {number}", at=visit.step)
            list(drive.resume(runner, f"copy {number}"))
            assert [each.address for each in runner.pending(f"copy {number}")] == asked
        for visit in runner.visits("t")[::-1]:
            list(runner.rewind("t", visit.step))
            assert [each.address for each in runner.pending("t")] == asked
