"""A loop of two agents that say sixty letters, three times over: ours, flat by hand, nested."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, nullcontext
from functools import partial, wraps
from itertools import count
from pathlib import Path
from typing import Annotated, Any

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import _messages_delta_reducer
from langgraph.graph.state import CompiledStateGraph
from measure import Contender
from typing_extensions import TypedDict

import agentgraph as ag

TEXT = "x" * 60
THREAD: RunnableConfig = {"configurable": {"thread_id": "t"}}
HELLO = {"messages": [{"role": "user", "content": "hi"}]}
HELLO_ROUNDS = {**HELLO, "rounds": 0}

Graph = CompiledStateGraph[Any, Any, Any, Any]
Saver = BaseCheckpointSaver[Any] | None
Opened = Callable[[], Any]
"""Returns what opens a saver: `with` for sync runs, `async with` for async ones."""


class FlatState(TypedDict):
    """The history as deltas, and the loop's counter."""

    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]
    rounds: int


class NestedState(MessagesState):
    """LangGraph's own state for messages, and the loop's counter."""

    rounds: int


def savers(folder: Path, *, is_async: bool = False) -> Mapping[str, Opened]:
    """Return what opens a new saver each time, by its name."""
    numbers, opened = count(), ag.async_sqlite_saver if is_async else ag.sqlite_saver
    return {
        "memory": lambda: nullcontext(InMemorySaver()),
        "SQLite": lambda: opened(folder / f"{is_async}{next(numbers)}.db"),
    }


def invoked(
    compiled: Callable[[Saver], Graph],
    given: Any,
    opened: Opened = nullcontext,
    config: RunnableConfig = THREAD,
    *,
    is_async: bool = False,
) -> Contender:
    """Return a run of a graph that is compiled with a new saver."""

    @contextmanager
    def contender() -> Iterator[Callable[[], Any]]:
        if not is_async:
            with opened() as saver:
                yield partial(compiled(saver).invoke, given, config)
            return
        with asyncio.Runner() as loop:
            stack = AsyncExitStack()
            graph = compiled(loop.run(_entered(stack, opened)))
            yield lambda: loop.run(graph.ainvoke(given, config))
            loop.run(stack.aclose())

    return contender


async def _entered(stack: AsyncExitStack, opened: Opened) -> Saver:
    saver: Saver = await stack.enter_async_context(opened())
    return saver


def says(name: str, *, is_async: bool = False) -> ag.Agent:
    """Return an agent that says the text."""

    def fn(ctx: ag.Context) -> str:
        return TEXT

    return ag.function_agent(name, awaited(fn) if is_async else fn)


def awaited(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function as an async one."""

    @wraps(fn)
    async def awaited(*args: Any) -> Any:
        return fn(*args)

    return awaited


def two(iterations: int, *, is_async: bool = False) -> ag.Agent:
    """Return the loop as a tree of ours."""
    agents = [says(name, is_async=is_async) for name in "ab"]
    return ag.loop("l", agents, max_iterations=iterations)


def flat(iterations: int, saver: Saver = None, *, is_async: bool = False) -> Graph:
    """Return the loop as a flat graph, written by hand."""
    a, b = (awaited(fn) if is_async else fn for fn in (_a, _b))
    return _looped(FlatState, a, b, iterations, saver)


def nested(iterations: int, saver: Saver = None) -> Graph:
    """Return the loop as a graph of which each agent is a compiled subgraph."""
    return _looped(NestedState, _alone("a", _a), _alone("b", _b), iterations, saver)


def laid_flat(iterations: int) -> ag.Agent:
    """Return the loop as an agent that is a graph, laid flat."""
    graph = _looped(NestedState, _a, _b, iterations, None)
    begin = {"rounds": 0}
    return ag.graph_agent("l", graph, input=lambda ctx: {"messages": ctx.messages, **begin}, flat=True)


def _a(state: Any) -> dict[str, Any]:
    return {"messages": [AIMessage(TEXT, name="a")]}


def _b(state: Any) -> dict[str, Any]:
    return {"messages": [AIMessage(TEXT, name="b")], "rounds": state["rounds"] + 1}


def _alone(name: str, node: Any) -> Graph:
    return StateGraph(NestedState).add_node(name, node).add_edge(START, name).compile()


def _looped(state: type, a: Any, b: Any, iterations: int, saver: Saver) -> Graph:
    def way_on(state: Any) -> str:
        return "a" if state["rounds"] < iterations else END

    builder: StateGraph[Any] = StateGraph(state)
    builder.add_node("a", a).add_node("b", b)
    builder.add_edge(START, "a").add_edge("a", "b")
    builder.add_conditional_edges("b", way_on, ["a", END])
    return builder.compile(checkpointer=saver)
