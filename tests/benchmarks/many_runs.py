"""A thousand async runs of one runner side by side, in memory, and the same graph by hand."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from measure import Contender, Figure, memory, side_by_side

import agentgraph as ag

_RUNS, _STEPS = 1_000, 4
_MODES: list[Any] = ["updates", "messages", "custom"]
Run = Callable[[int], Awaitable[None]]


class State(MessagesState):
    """The messages, and how many were said."""

    said: int


def figures() -> Iterator[Figure]:
    """Measure the processor's time and the memory of a run."""
    both = together(ours, _RUNS), together(by_hand, _RUNS)
    mine, hand = side_by_side(*both, repeats=3)
    name, against = f"one of {_RUNS:,} async runs side by side", "its graph by hand, streamed alike"
    yield Figure(name=name, ours=mine / _RUNS, theirs=hand / _RUNS, against=against, unit="ms", aim=1.2)
    mine, hand = (memory(each)[0] / _RUNS for each in both)
    yield Figure(name=f"{name}, memory", ours=ours, theirs=hand, against=against, unit="B", aim=1.2)


def together(made: Callable[[], Run], count: int) -> Contender:
    """Have so many runs side by side in one event loop."""

    @contextmanager
    def contender() -> Iterator[Callable[[], Any]]:
        run = made()

        async def all_runs() -> None:
            await asyncio.gather(*map(run, range(count)))

        yield lambda: asyncio.run(all_runs())

    return contender


def ours() -> Run:
    """Return what runs a loop of four steps by a runner, on a thread of its own."""

    async def say(ctx: ag.Context) -> str:
        await asyncio.sleep(0)
        return "Said."

    runner = ag.Runner(ag.loop("l", [ag.function_agent("a", say)], max_iterations=_STEPS))

    async def run(number: int) -> None:
        async for _ in runner.arun("Go.", thread_id=f"t{number}"):
            pass

    return run


def by_hand() -> Run:
    """Return what streams the same loop by hand, in the modes that a runner needs."""

    async def say(state: State) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"messages": [AIMessage("Said.")], "said": state.get("said", 0) + 1}

    builder = StateGraph(State).add_node("a", say).add_edge(START, "a")
    builder.add_conditional_edges(
        "a", lambda state: END if state["said"] >= _STEPS else "a", ["a", END]
    )
    graph = builder.compile(checkpointer=InMemorySaver())

    async def run(number: int) -> None:
        config: Any = {"configurable": {"thread_id": f"t{number}"}}
        async for _ in graph.astream({"messages": [("user", "Go.")]}, config, stream_mode=_MODES):
            pass

    return run
