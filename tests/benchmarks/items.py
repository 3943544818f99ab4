"""What an item of an `each` and a branch of a `parallel` cost, beside `Send` written by hand."""

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Send
from loops import THREAD, Opened, Saver, savers
from measure import Contender, Figure, seconds, side_by_side

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel

_FEW, _MANY, _REPEATS = 100, 1000, 3
_BRANCHES = (50, 200)
AIMS = {"a function": 1.0, "a chat agent": 2.0}
"""For each worker what an item may take, of what `Send` by hand takes for a function."""


class State(MessagesState):
    """The items, and what each gave."""

    names: list[str]
    out: Annotated[list[str], operator.add]


def figures() -> Iterator[Figure]:
    """Time an `each` of many items, beside `Send`, and beside one of few."""
    with TemporaryDirectory() as folder:
        for saver, opened in {"no saver": nullcontext, **savers(Path(folder))}.items():
            yield from _of_branches(saver, opened)
            for worker, aim in AIMS.items():
                made, hand = ours(worker, _MANY, opened), by_hand(_MANY, opened)
                took, theirs = side_by_side(made, hand, repeats=_REPEATS)
                name = f"each of {_MANY:,} items, {worker}, {saver}"
                yield Figure(
                    name=name, ours=took, theirs=theirs, against="Send by hand", unit="s", aim=aim
                )
                many, few = (
                    min(seconds(ours(worker, n, opened)) for _ in range(_REPEATS)) / n
                    for n in (_MANY, _FEW)
                )
                yield Figure(
                    name=f"an item of {_MANY:,}, {worker}, {saver}",
                    ours=many,
                    theirs=few,
                    against=f"an item of {_FEW}",
                    unit="ms",
                    aim=1.3,
                )


def _of_branches(saver: str, opened: Opened) -> Iterator[Figure]:
    """Time branches that are one function each, beside `Send`."""
    for count in _BRANCHES:
        made, hand = branches(count, opened), by_hand(count, opened)
        took, theirs = side_by_side(made, hand, repeats=_REPEATS)
        name = f"parallel of {count} branches, {saver}"
        aim = 1.6 if saver == "SQLite" else 1.2
        yield Figure(name=name, ours=took, theirs=theirs, against="Send by hand", unit="ms", aim=aim)


def ours(worker: str, count: int, opened: Opened) -> Contender:
    """Run an `each` over so many items."""
    if worker == "a function":
        agent = ag.function_agent("read", lambda ctx: f"done {ctx.item.value}")
    else:
        agent = ag.chat_agent("read", ScriptedChatModel(responses=lambda _: "done"))
    return _run(lambda saver: ag.compile_agent(_each(agent), checkpointer=saver), count, opened)


def branches(count: int, opened: Opened) -> Contender:
    """Run so many branches that are one function each."""
    agents = [ag.function_agent(f"b{number}", lambda ctx: "done") for number in range(count)]
    tree = ag.parallel("both", agents)
    return _run(lambda saver: ag.compile_agent(tree, checkpointer=saver), count, opened)


def by_hand(count: int, opened: Opened) -> Contender:
    """Run a graph that sends each item to a node."""
    return _run(_sending, count, opened)


def _each(agent: Any) -> ag.Agent:
    return ag.each("files", agent, lambda ctx: _names(int(ctx.values["count"])), output_key="out")


def _names(count: int) -> list[str]:
    return [f"f{i}" for i in range(count)]


def _run(made: Callable[[Saver], Any], count: int, opened: Opened) -> Contender:
    @contextmanager
    def contender() -> Iterator[Callable[[], Any]]:
        with opened() as saver:
            graph = made(saver)
            given = {"messages": [("user", "hi")], "values": {"count": count}, "names": _names(count)}
            yield lambda: graph.invoke(given, {**THREAD, "recursion_limit": 10_000})

    return contender


def _sending(saver: Saver) -> Any:
    def read(state: Any) -> dict[str, object]:
        text = f"done {state['item']}"
        return {"messages": [AIMessage(text)], "out": [text]}

    builder = StateGraph(State).add_node("read", read).add_node("split", lambda _: {})
    builder.add_edge(START, "split").add_conditional_edges(
        "split", lambda state: [Send("read", {"item": name}) for name in state["names"]], ["read"]
    )
    return builder.compile(checkpointer=saver)
