"""What a hook of a middleware returns: an update, or an error that names it, as in `create_agent`."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
from helpers import Async, Drive, chat, failing, lines, scripted
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    after_agent,
    after_model,
    before_agent,
    before_model,
)
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.errors import InvalidUpdateError
from langgraph.types import Command

import agentgraph as ag
from agentgraph.testing import call, calls

HOOKS: dict[str, Any] = {
    each.__name__: each for each in (before_agent, before_model, after_model, after_agent)
}
NO_UPDATES = ["refused", ["x"], [{"x": 1}], (), ag.SKIP, ag.SetValues(x=1), True, 0, {"x"}]
UPDATES: list[Any] = [
    {"messages": [AIMessage("Hooked.")]},
    Command(update={"messages": [AIMessage("Hooked.")]}),
    [Command(update={"messages": [AIMessage("Hooked.")]}), {}],
    Command(update=[("messages", [AIMessage("Hooked.")])]),
]


def sync(value: object) -> Callable[..., object]:
    def guard(state: Any, runtime: Any) -> object:
        return value

    return guard


def coroutine(value: object) -> Callable[..., object]:
    async def guard(state: Any, runtime: Any) -> object:
        return value

    return guard


def decorated(value: object) -> Callable[..., object]:
    inner = coroutine(value)

    @functools.wraps(inner)
    def guard(*given: object) -> object:
        return inner(*given)

    return guard


def of_class(hook: str, value: object) -> AgentMiddleware[Any, Any, Any]:
    made = {hook: lambda self, state, runtime: value}
    return type("guard", (AgentMiddleware,), made)()  # type: ignore[no-any-return]


@pytest.mark.parametrize("everywhere", [False, True], ids=["agent", "runner"])
@pytest.mark.parametrize("hook", HOOKS)
def test_what_is_no_update_is_an_error(drive: Drive, hook: str, everywhere: bool) -> None:
    for value in NO_UPDATES:
        made = [HOOKS[hook](sync(value)), of_class(hook, value)]
        for guard in (*made, *([HOOKS[hook](coroutine(value))] if drive is Async else [])):
            with pytest.raises(InvalidUpdateError):
                create_agent(scripted("A."), [], middleware=[of_class(hook, value)]).invoke(
                    {"messages": "Go."}  # type: ignore[arg-type]
                )
            agent = chat("c", "A.", middleware=[] if everywhere else [guard])
            runner = ag.Runner(agent, middleware=[guard] if everywhere else [])
            events, error = failing(drive.run(runner, "Go.", thread_id="t"), ag.InvalidOutputError)
            assert str(error) == (
                f"c: {hook} of the middleware 'guard' returned {value!r}, which is not an update; "
                "return a dict of the state, a Command, or None"
            )
            assert [each.address for each in events if each.kind == "error"] == ["c"]


@pytest.mark.parametrize("value", [None, "refused", {"x": 1}, ag.Exit()], ids=repr)
def test_what_is_no_result_of_a_call_is_an_error(drive: Drive, value: object) -> None:
    class Guard(AgentMiddleware):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            return value

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return value

    agent = chat("c", calls(call("f")), "A.", tools=[tool("f", description="F.")(lambda: "x")])
    runner = ag.Runner(agent, middleware=[Guard()])
    _, error = failing(drive.run(runner, "Go.", thread_id="t"), ag.InvalidOutputError)
    assert str(error).startswith(
        f"c: wrap_tool_call of the middleware returned {value!r} for the tool 'f'"
    )


@pytest.mark.parametrize("value", UPDATES, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("hook", HOOKS)
def test_updates_are_taken_in_any_form(drive: Drive, hook: str, value: Any) -> None:
    for made in (sync, *([coroutine, decorated] if drive is Async else [])):
        guard = HOOKS[hook](made(value))
        said = lines(drive.run(ag.Runner(chat("c", "A.", middleware=[guard])), "Go."))
        assert said == (["c: Hooked.", "c: A."] if "before" in hook else ["c: A.", "c: Hooked."])


@pytest.mark.parametrize("hook", HOOKS)
def test_a_sync_run_refuses_a_hook_that_must_be_awaited(hook: str) -> None:
    runner = ag.Runner(chat("c", "A.", middleware=[HOOKS[hook](decorated(None))]))
    with pytest.raises(ag.AgentGraphError) as caught:
        runner.invoke("Go.")
    assert str(caught.value) == (
        f"c: middleware='guard.{hook}' is async; pass a sync function, or run the async methods: "
        "arun(), aresume(), ainvoke()"
    )
