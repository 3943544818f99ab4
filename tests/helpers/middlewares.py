"""Middleware in short."""

from collections.abc import Callable, Generator, Sequence
from typing import Any, NotRequired

from langchain.agents.middleware import AgentMiddleware, AgentState, ToolRetryMiddleware, hook_config
from langchain_core.messages import HumanMessage

from agentgraph.testing import ScriptedChatModel


def tries_calls_again(times: int = 3, **options: Any) -> ToolRetryMiddleware:
    """Return middleware that makes a call that fails with a `ConnectionError` so often in all."""
    given = {"max_retries": times - 1, "retry_on": (ConnectionError,), **options}
    return ToolRetryMiddleware(initial_delay=0.0, jitter=False, **given)


def middleware(
    name: str = "Middleware",
    *,
    state: Any = AgentState,
    jumps: Sequence[Any] = (),
    tools: Sequence[Any] = (),
    **methods: Any,
) -> AgentMiddleware[Any, Any, Any]:
    """Return a middleware for sync and async runs.

    Args:
        name: Its name.
        state: The schema of its state.
        jumps: Where its hooks may jump to.
        tools: The tools that it brings.
        **methods: Functions of the state for hooks such as `before_model`. And `wrap_model_call` and
            `wrap_tool_call`: functions of a request that return a result, or generators that yield
            requests to be handled, receive their results, and return a result.
    """
    made: dict[str, Any] = {"state_schema": state, "tools": [*tools]}
    for method, does in methods.items():
        if method.startswith("wrap"):
            made |= {method: _wrap(does), f"a{method}": _awrap(does)}
        else:
            made[method] = hook_config(can_jump_to=list(jumps))(_hook(does))
    return type(name, (AgentMiddleware,), made)()  # type: ignore[no-any-return]


def _hook(does: Callable[[Any], Any]) -> Any:
    return lambda self, state, runtime: does(state)


def _wrap(does: Callable[[Any], Any]) -> Any:
    def wrap(self: Any, request: Any, handler: Any) -> Any:
        steps = does(request)
        if not isinstance(steps, Generator):
            return steps
        try:
            request = next(steps)
            while True:
                request = steps.send(handler(request))
        except StopIteration as ended:
            return ended.value

    return wrap


def _awrap(does: Callable[[Any], Any]) -> Any:
    async def wrap(self: Any, request: Any, handler: Any) -> Any:
        steps = does(request)
        if not isinstance(steps, Generator):
            return steps
        try:
            request = next(steps)
            while True:
                request = steps.send(await handler(request))
        except StopIteration as ended:
            return ended.value

    return wrap


def passes(request: Any) -> Any:
    """Wrap a call in `middleware`, and change nothing."""
    return (yield request)


class Counting(AgentState[Any]):
    rounds: NotRequired[int]


def redacts() -> AgentMiddleware[Any, Any, Any]:
    """Return a middleware that replaces "bees" by "*" in all messages for a model."""

    def redact(state: Any) -> Any:
        seen = state["messages"]
        return {
            "messages": [m.model_copy(update={"content": m.text.replace("bees", "*")}) for m in seen]
        }

    return middleware("Redacting", before_model=redact)


def rounds() -> AgentMiddleware[Any, Any, Any]:
    """Return a middleware that counts the rounds of all turns, and adds the count to the messages."""

    def count_one(state: Any) -> Any:
        number = state.get("rounds", 0) + 1
        return {"rounds": number, "messages": [HumanMessage(f"Round {number}.")]}

    return middleware("Rounds", state=Counting, before_model=count_one)


class Selecting(ScriptedChatModel):
    """A model that selects the tool `look`."""

    def with_structured_output(self, *_: Any, **__: Any) -> Any:
        return self | (lambda message: {"tools": ["look"]})
