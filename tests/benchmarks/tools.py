"""What twenty rounds of a tool cost a chat agent, against LangChain's `create_agent`."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from loops import HELLO, Graph
from measure import Contender, Figure, side_by_side

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel

ROUNDS = 20


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def figures() -> Iterator[Figure]:
    """Measure `invoke` and `ainvoke` of the compiled graphs, without a saver."""
    name = f"chat agent, {ROUNDS} tool rounds"
    with asyncio.Runner() as loop:
        yield _rounds(f"{name}, invoke", lambda graph: graph.invoke(HELLO))
        yield _rounds(f"{name}, ainvoke", lambda graph: loop.run(graph.ainvoke(HELLO)))


def _rounds(name: str, run: Callable[[Graph], Any]) -> Figure:
    ours, theirs = side_by_side(_contender(_ours, run), _contender(_theirs, run), repeats=40)
    return Figure(name=name, ours=ours, theirs=theirs, against="create_agent", unit="ms", aim=1.0)


def _contender(compiled: Callable[[], Graph], run: Callable[[Graph], Any]) -> Contender:
    @contextmanager
    def contender() -> Iterator[Callable[[], Any]]:
        yield partial(run, compiled())

    return contender


def _ours() -> Graph:
    return ag.compile_agent(ag.chat_agent("writer", _model(), tools=[add], max_iterations=None))


def _theirs() -> Graph:
    return create_agent(_model(), [add], name="writer")


def _model() -> ScriptedChatModel:
    return ScriptedChatModel(responses=[*(_call(i) for i in range(ROUNDS)), "done"])


def _call(i: int) -> AIMessage:
    call = {"name": "add", "args": {"a": i, "b": 1}, "id": f"call-{i}", "type": "tool_call"}
    return AIMessage("", id=f"message-{i}", tool_calls=[call])
