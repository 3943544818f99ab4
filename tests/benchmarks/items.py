"""What an item of an `each`, a branch and a workflow step cost, beside `Send` written by hand."""

import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Send
from loops import THREAD, Graph, Opened, Saver, awaited, invoked, savers
from measure import Contender, Figure, grown, side_by_side

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel

Made = Callable[..., Contender]
"""Returns what runs so many lanes with a saver: `made(count, opened, is_async=False)`."""
FEW, MANY = 1_000, 10_000
_WAYS = {False: "", True: "async "}
_CONFIG: RunnableConfig = {**THREAD, "recursion_limit": 10_000}


@dataclass(frozen=True)
class Lane:
    """One of the things of which there may be many at once.

    Attributes:
        name: What it is.
        made: Makes what runs them.
        count: How many there are.
        aims: What one may take by saver, of what `Send` by hand takes for a function.
        repeats: How often to measure.
    """

    name: str
    made: Made
    count: int
    aims: Mapping[str, float]
    repeats: int


class State(MessagesState):
    """The items, and what each gave."""

    names: list[str]
    out: Annotated[list[str], operator.add]


def figures() -> Iterator[Figure]:
    """Time lanes of one leaf beside `Send`, and an item of many beside one of few."""
    with TemporaryDirectory() as folder:
        for is_async in (False, True):
            opened = {"no saver": nullcontext, **savers(Path(folder), is_async=is_async)}
            for saver, each in opened.items():
                for lane in LANES:
                    yield _beside_send(lane, saver, each, is_async)
            for saver in ("no saver", "SQLite"):
                many, few = (items(n, opened[saver], is_async=is_async) for n in (MANY, FEW))
                totals = side_by_side(many, few, repeats=2)
                name = f"{_WAYS[is_async]}item of {MANY:,}, {saver}"
                yield grown(name, totals, (MANY, FEW), of="one of", unit="ms", aim=1.3)


def _beside_send(lane: Lane, saver: str, opened: Opened, is_async: bool) -> Figure:
    both = [made(lane.count, opened, is_async=is_async) for made in (lane.made, by_hand)]
    ours, theirs = (took / lane.count for took in side_by_side(*both, repeats=lane.repeats))
    return Figure(
        name=f"{_WAYS[is_async]}{lane.name} of {lane.count:,}, {saver}",
        ours=ours,
        theirs=theirs,
        against="Send by hand",
        unit="ms",
        aim=lane.aims[saver],
    )


def items(count: int, opened: Opened, *, is_async: bool = False) -> Contender:
    """Run an `each` of a function over so many items."""

    def read(ctx: ag.Context) -> str:
        return f"done {ctx.item.value}"

    return _each(
        ag.function_agent("read", awaited(read) if is_async else read), count, opened, is_async
    )


def chats(count: int, opened: Opened, *, is_async: bool = False) -> Contender:
    """Run an `each` of a chat agent over so many items."""
    model = ScriptedChatModel(responses=lambda _: "done")
    return _each(ag.chat_agent("read", model), count, opened, is_async)


def branches(count: int, opened: Opened, *, is_async: bool = False) -> Contender:
    """Run so many branches that are one function each."""
    return _run(ag.parallel("all", _leaves(count, is_async)), count, opened, is_async)


def steps(count: int, opened: Opened, *, is_async: bool = False) -> Contender:
    """Run a workflow of so many steps that wait for none, and are one function each."""
    leaves = [ag.step(leaf) for leaf in _leaves(count, is_async)]
    return _run(ag.workflow("all", leaves), count, opened, is_async)


LANES = (
    Lane("branch", branches, 50, {"no saver": 1.2, "memory": 1.2, "SQLite": 1.6}, repeats=15),
    Lane("branch", branches, 200, {"no saver": 1.2, "memory": 1.2, "SQLite": 1.6}, repeats=8),
    Lane("workflow step", steps, 50, {"no saver": 1.2, "memory": 1.2, "SQLite": 1.6}, repeats=15),
    Lane("item", items, FEW, {"no saver": 1.0, "memory": 0.7, "SQLite": 1.0}, repeats=4),
    Lane("chat agent, item", chats, FEW, {"no saver": 2.0, "memory": 2.0, "SQLite": 2.0}, repeats=3),
)


def by_hand(count: int, opened: Opened, *, is_async: bool = False) -> Contender:
    """Run a graph that sends each item to a node."""

    def read(state: Any) -> dict[str, object]:
        text = f"done {state['item']}"
        return {"messages": [AIMessage(text)], "out": [text]}

    def sending(saver: Saver) -> Graph:
        node: Any = awaited(read) if is_async else read
        builder = StateGraph(State).add_node("read", node).add_node("split", lambda _: {})
        builder.add_edge(START, "split").add_conditional_edges(
            "split", lambda state: [Send("read", {"item": name}) for name in state["names"]], ["read"]
        )
        return builder.compile(checkpointer=saver)

    given = {"messages": [("user", "hi")], "names": _names(count)}
    return invoked(sending, given, opened, _CONFIG, is_async=is_async)


def _leaves(count: int, is_async: bool) -> list[ag.Agent]:
    def done(ctx: ag.Context) -> str:
        return "done"

    return [ag.function_agent(f"b{n}", awaited(done) if is_async else done) for n in range(count)]


def _each(worker: ag.Agent, count: int, opened: Opened, is_async: bool) -> Contender:
    tree = ag.each("files", worker, lambda ctx: _names(int(ctx.values["count"])), output_key="out")
    return _run(tree, count, opened, is_async)


def _run(tree: ag.Agent, count: int, opened: Opened, is_async: bool) -> Contender:
    given = {"messages": [("user", "hi")], "values": {"count": count}}
    compiled: Callable[[Saver], Graph] = lambda saver: ag.compile_agent(tree, checkpointer=saver)  # noqa: E731
    return invoked(compiled, given, opened, _CONFIG, is_async=is_async)


def _names(count: int) -> list[str]:
    return [f"f{i}" for i in range(count)]
