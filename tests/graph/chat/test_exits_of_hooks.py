"""Hooks of middleware that end the run by `Exit`."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from helpers import Drive, chat, failing, lines, says, unvoided
from langchain.agents.middleware import AgentMiddleware, before_model

import agentgraph as ag
from agentgraph.errors import InvalidOutputError
from agentgraph.testing import call, calls

HOOKS = ("before_agent", "before_model", "after_model", "after_agent")
AFTER: dict[str, list[str]] = {
    "before_agent": [],
    "before_model": [],
    "after_model": ["s/boss: Hello."],
    "after_agent": ["s/boss: Hello."],
}


class Plain(AgentMiddleware):
    """Notes the hooks that run, and ends nothing."""

    def __init__(self, ran: list[str]) -> None:
        super().__init__()
        self.ran = ran

    def after_agent(self, state: Any, runtime: Any) -> None:
        self.ran.append("after_agent")


def hooked(hook: str, give: Callable[[], Any], *, is_async: bool = False) -> AgentMiddleware:
    async def agive(self: Any, state: Any, runtime: Any) -> ag.Exit:
        returned: ag.Exit = give()
        return returned

    def fn(self: Any, state: Any, runtime: Any) -> ag.Exit:
        returned: ag.Exit = give()
        return returned

    way = {f"a{hook}": agive} if is_async else {hook: fn}
    made: AgentMiddleware = type("Guard", (AgentMiddleware,), way)()
    return made


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("has_last", [False, True])
def test_each_hook_may_end_the_run_with_a_reason(drive: Drive, hook: str, has_last: bool) -> None:
    ran: list[str] = []
    middleware = [hooked(hook, lambda: ag.Exit(reason="enough")), *([Plain(ran)] if has_last else [])]
    boss = chat("boss", "Hello.", middleware=middleware)
    runner = ag.Runner(ag.sequential("s", [boss, says("next", "next")]))
    events = [*drive.run(runner, "Go.", thread_id="t")]
    assert lines(events) == [*AFTER[hook], "s/boss: [exit]"]
    assert lines(runner.events("t")) == lines(events)
    assert (runner.result("t").status, runner.result("t").reason) == ("done", "enough")
    assert ran == ["after_agent"] * has_last


def test_an_async_hook_may() -> None:
    boss = chat(
        "boss",
        "Hello.",
        middleware=[hooked("before_model", lambda: ag.Exit(reason="no"), is_async=True)],
    )
    runner = ag.Runner(ag.sequential("s", [boss, says("next", "next")]))
    result = asyncio.run(runner.ainvoke("Go.", thread_id="t"))
    assert lines(result.events) == ["s/boss: [exit]"]


def test_a_decorated_hook_may(drive: Drive) -> None:
    @before_model
    def guard(state: Any, runtime: Any) -> Any:
        return ag.Exit(reason="no") if len(state["messages"]) > 2 else None

    look: Callable[[], str] = lambda: "seen"  # noqa: E731
    look.__name__, look.__doc__ = "look", "Look."
    boss = chat("boss", calls(call("look")), "never", tools=[look], middleware=[guard])
    runner = ag.Runner(ag.sequential("s", [boss, says("next", "next")]))
    events = [*drive.run(runner, "Go.", thread_id="t")]
    assert lines(events)[-1] == "s/boss: [exit]"
    assert runner.result("t").reason == "no"


def test_the_exit_of_a_hook_ends_an_agent_as_a_tool_only(drive: Drive) -> None:
    guard = hooked("before_model", lambda: ag.Exit(reason="inner"))
    helper = chat("helper", "Hello.", middleware=[guard], description="Helps.")
    boss = chat("boss", calls(call("helper", request="Go.")), "Done.", tools=[ag.agent_tool(helper)])
    runner = ag.Runner(boss)
    assert lines(drive.run(runner, "Go.", thread_id="t"))[-1] == "boss: Done."
    assert runner.result("t").reason is None


def test_the_exit_of_a_hook_cancels(drive: Drive) -> None:
    guard = hooked("before_model", lambda: ag.Exit(cancel=True, reason="no"))
    boss = chat("boss", "Hello.", middleware=[guard])
    asker = ag.human("asker", "Well?")
    runner = ag.Runner(ag.sequential("s", [ag.parallel("p", [asker, boss]), says("next", "next")]))
    assert lines(unvoided([*drive.run(runner, "Go.", thread_id="t")])) == ["s/p/boss: [exit]"]
    assert (runner.result("t").status, runner.result("t").reason) == ("done", "no")


def test_an_exit_that_no_code_names_is_refused(drive: Drive) -> None:
    hidden = {"stop": ag.Exit(reason="no")}
    made = type(
        "Guard", (AgentMiddleware,), {"before_model": lambda self, state, runtime: hidden["stop"]}
    )
    _, error = failing(
        drive.run(ag.Runner(chat("boss", "x", middleware=[made()])), "Go."), InvalidOutputError
    )
    assert str(error) == (
        "boss: before_model of the middleware 'Guard' returned Exit, which its return annotation does "
        "not name; add it, as in `-> dict | ag.Exit | None`, so that the graph has an edge for it"
    )


@pytest.mark.parametrize("signal", [ag.Exit(), ag.Exit(cancel=True)], ids=repr)
def test_an_exit_without_a_reason_is_refused(drive: Drive, signal: ag.Exit) -> None:
    guard = hooked("before_model", lambda: signal)
    _, error = failing(
        drive.run(ag.Runner(chat("boss", "x", middleware=[guard])), "Go."), InvalidOutputError
    )
    assert f"returned {signal!r}, which does not say why the run ends; return ag.Exit(reason=" in str(
        error
    )
