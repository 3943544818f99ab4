"""What rounds of a tool cost a chat agent, against LangChain's `create_agent`; with middleware, too."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import (
    ModelCallLimitMiddleware,
    ModelRetryMiddleware,
    ToolRetryMiddleware,
)
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from loops import HELLO, Graph
from measure import Contender, Figure, side_by_side

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel

AIMS = {"": 1.0, ", three middlewares": 1.05}
"""How long ours may take, by what is added to the name of the figure."""
WAYS: dict[str, Callable[[Graph, asyncio.Runner], Any]] = {
    "invoke": lambda graph, loop: graph.invoke(HELLO),
    "ainvoke": lambda graph, loop: loop.run(graph.ainvoke(HELLO)),
}
"""How a graph is run, by what is added to the name of the figure."""


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def figures() -> Iterator[Figure]:
    """Measure `invoke` and `ainvoke` of the compiled graphs, without a saver."""
    for added, aim in AIMS.items():
        for rounds in (1, 20):
            for way in WAYS:
                name = f"{rounds} tool rounds{added}, {way}"
                both = [contender(make, way, rounds, bool(added)) for make in (ours, theirs)]
                yield _figure(name, side_by_side(*both, repeats=20), aim)


def _figure(name: str, took: list[float], aim: float) -> Figure:
    ours, theirs = took
    return Figure(name=name, ours=ours, theirs=theirs, against="create_agent", unit="ms", aim=aim)


def contender(
    made: Callable[[int, bool], Graph], way: str, rounds: int, has_middleware: bool
) -> Contender:
    """Return a graph that is run in one of the `WAYS`, in an event loop that is there already."""

    @contextmanager
    def run() -> Iterator[Callable[[], Any]]:
        with asyncio.Runner() as loop:
            loop.get_loop()
            yield partial(WAYS[way], made(rounds, has_middleware), loop)

    return run


def ours(rounds: int, has_middleware: bool) -> Graph:
    """Return a chat agent that calls a tool a number of times."""
    middleware = _middleware() if has_middleware else []
    model = _model(rounds)
    return ag.compile_agent(
        ag.chat_agent("writer", model, tools=[add], max_iterations=None, middleware=middleware)
    )


def theirs(rounds: int, has_middleware: bool) -> Graph:
    """Return LangChain's own agent that does the same."""
    middleware = _middleware() if has_middleware else []
    return create_agent(_model(rounds), [add], name="writer", middleware=middleware)


def _middleware() -> list[Any]:
    """Return one with hooks and state, one around tools and one around the model."""
    return [ModelCallLimitMiddleware(run_limit=100), ToolRetryMiddleware(), ModelRetryMiddleware()]


def _model(rounds: int) -> ScriptedChatModel:
    return ScriptedChatModel(responses=[*(_call(i) for i in range(rounds)), "done"])


def _call(i: int) -> AIMessage:
    call = {"name": "add", "args": {"a": i, "b": 1}, "id": f"call-{i}", "type": "tool_call"}
    return AIMessage("", id=f"message-{i}", tool_calls=[call])
