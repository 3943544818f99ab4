"""LangGraph's `max_concurrency` in a config bounds how many agents and tools of a run work at once."""

import asyncio
import operator
import threading
import time
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from helpers import Drive, Sync, chat, says
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Send

import agentgraph as ag
from agentgraph.testing import call, calls

PATIENCE = 20.0


class Work:
    """Counts how much is done at once; each waits until as much is as may be, and a moment longer.

    Attributes:
        most: The most that was done at once.
        count: How much was done.
    """

    def __init__(self, bound: int, *, is_async: bool) -> None:
        self.bound, self.is_async = bound, is_async
        self.most = self.count = self._now = 0
        self._lock, self._full = threading.Lock(), threading.Event()

    def _enter(self) -> None:
        with self._lock:
            self._now += 1
            self.count += 1
            self.most = max(self.most, self._now)
            if self._now >= self.bound:
                self._full.set()

    def _leave(self) -> None:
        with self._lock:
            self._now -= 1

    def do(self, *_: Any) -> str:
        self._enter()
        assert self._full.wait(PATIENCE), f"only {self._now} of {self.bound} at once"
        time.sleep(0.002)
        self._leave()
        return "Done."

    async def ado(self, *_: Any) -> str:
        self._enter()
        async with asyncio.timeout(PATIENCE):
            while not self._full.is_set():
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.002)
        self._leave()
        return "Done."

    def agent(self, name: str) -> ag.Agent:
        return ag.function_agent(name, self.ado if self.is_async else self.do)

    def agents(self, name: str, count: int) -> list[ag.Agent]:
        return [self.agent(f"{name}{number}") for number in range(count)]

    def tool(self) -> Callable[..., Any]:
        def work(number: int) -> str:
            """Work."""
            return self.do()

        async def awork(number: int) -> str:
            """Work."""
            return await self.ado()

        awork.__name__ = "work"
        return awork if self.is_async else work


def six(ctx: ag.Context) -> list[int]:
    return [*range(6)]


def three(ctx: ag.Context) -> list[int]:
    return [*range(3)]


def tools(work: Work) -> ag.Agent:
    asked = calls(*(call("work", str(n), number=n) for n in range(6)))
    return chat("c", asked, "Done.", tools=[work.tool()])


def agents_as_tools(work: Work) -> ag.Agent:
    asked = calls(*(call(f"w{n}", str(n), request="Go.") for n in range(6)))
    return chat("c", asked, "Done.", tools=[ag.agent_tool(each) for each in work.agents("w", 6)])


def running(work: Work) -> ag.Agent:
    async def fn(ctx: ag.Context) -> str:
        return str(len(await asyncio.gather(*(ctx.run("w", str(n)) for n in range(6)))))

    return ag.function_agent("flow", fn, agents=[work.agent("w")])


def each_that_runs(work: Work) -> ag.Agent:
    def fn(ctx: ag.Context) -> str:
        return str([str(ctx.run("w", str(n))) for n in range(2)])

    return ag.each("all", ag.function_agent("flow", fn, agents=[work.agent("w")]), three)


class Sum(MessagesState):
    out: Annotated[list[str], operator.add]


def mapped(work: Work) -> Any:
    def node(number: object) -> dict[str, Any]:
        return {"out": [work.do()]}

    async def anode(number: object) -> dict[str, Any]:
        return {"out": [await work.ado()]}

    builder = StateGraph(Sum)
    builder.add_node("begin", lambda state: {})
    builder.add_node("work", anode if work.is_async else node)
    builder.add_edge(START, "begin")
    builder.add_conditional_edges("begin", lambda state: [Send("work", n) for n in range(6)], ["work"])
    return builder.compile()


TREES: dict[str, Callable[[Work], ag.Agent]] = {
    "each": lambda work: ag.each("all", work.agent("w"), six),
    "each of two steps": lambda work: ag.each("all", ag.sequential("s", work.agents("w", 2)), three),
    "parallel": lambda work: ag.parallel("all", work.agents("w", 6)),
    "workflow": lambda work: ag.workflow("all", [ag.step(each) for each in work.agents("w", 6)]),
    "each in parallel": lambda work: ag.parallel(
        "all", [ag.each(f"e{n}", work.agent(f"w{n}"), three) for n in range(2)]
    ),
    "parallel in each": lambda work: ag.each("all", ag.parallel("p", work.agents("w", 2)), three),
    "parallel, then a step, in each": lambda work: ag.each(
        "all",
        ag.sequential("s", [ag.parallel("p", [work.agent("w"), says("x")]), work.agent("v")]),
        three,
    ),
    "tools": tools,
    "agents as tools": agents_as_tools,
    "ctx.run": running,
    "ctx.run in each": each_that_runs,
    "a nested graph": lambda work: ag.graph_agent("all", mapped(work)),
    "a flat graph": lambda work: ag.graph_agent("all", mapped(work), flat=True),
    "a nested tree": lambda work: ag.parallel(
        "all", [ag.graph_agent("g", ag.compile_agent(TREES["each"](work))), says("x")]
    ),
}


@pytest.mark.parametrize("bound", [1, 2, 3])
@pytest.mark.parametrize("kind", TREES)
def test_so_many_work_at_once_as_the_config_says(drive: Drive, kind: str, bound: int) -> None:
    work = Work(bound, is_async=drive is not Sync)
    runner = ag.Runner(TREES[kind](work))
    [*drive.run(runner, "Go.", config={"max_concurrency": bound}, stream=bound == 2)]
    assert (work.count, work.most) == (6, bound)


@pytest.mark.parametrize("bound", [1, 2])
@pytest.mark.parametrize("way", ["at the call", "with_config", "of the graph around"])
def test_a_compiled_graph_keeps_to_the_bound_too(way: str, bound: int) -> None:
    work = Work(bound, is_async=False)
    graph: Any = ag.compile_agent(TREES["each in parallel"](work))
    config = RunnableConfig(max_concurrency=bound)
    if way == "with_config":
        graph, config = graph.with_config(config), {}
    elif way == "of the graph around":
        graph = StateGraph(MessagesState).add_node("tree", graph).add_edge(START, "tree").compile()
    graph.invoke({"messages": ["Go."]}, config)
    assert (work.count, work.most) == (6, bound)


def test_the_runs_of_a_runner_do_not_share_their_places() -> None:
    work = Work(2, is_async=True)
    runner = ag.Runner(ag.each("all", work.agent("w"), three), config={"max_concurrency": 1})

    async def both() -> None:
        await asyncio.gather(runner.ainvoke("Go."), runner.ainvoke("Go."))

    asyncio.run(both())
    assert (work.count, work.most) == (6, 2)


def boss(name: str) -> ag.Agent:
    return ag.human(name, "Well?")


@pytest.mark.parametrize("on_error", ["fail", "first"])
def test_a_lane_that_asks_leaves_its_place_to_another_one(drive: Drive, on_error: Any) -> None:
    branches = [boss("h0"), boss("h1"), says("a")]
    runner = ag.Runner(ag.parallel("p", branches, on_error=on_error))
    events = [*drive.run(runner, "Go.", thread_id="t", config={"max_concurrency": 1})]
    assert [event.text for event in events if event.text] == ["a"]
    assert len(runner.pending("t")) == (0 if on_error == "first" else 2)


def test_more_lanes_than_there_are_threads_may_wait_with_a_question(drive: Drive) -> None:
    runner = ag.Runner(ag.each("all", boss("h"), lambda ctx: [*range(60)], on_error="first"))
    [*drive.run(runner, "Go.", thread_id="t")]
    assert len(runner.pending("t")) == 60


def test_a_failure_beside_lanes_that_wait_for_a_place_ends_the_run(drive: Drive) -> None:
    def fn(ctx: ag.Context) -> str:
        begun.append(ctx.address)
        raise ValueError("no")

    begun: list[str] = []
    runner = ag.Runner(ag.workflow("all", [ag.step(ag.function_agent(n, fn)) for n in "abcd"]))
    with pytest.raises((ValueError, ag.StepFailedError), match="no"):
        [*drive.run(runner, "Go.", thread_id="t", config={"max_concurrency": 1})]
    assert begun == ["all/a"]


def test_a_call_that_is_given_up_before_it_has_a_place_never_begins(drive: Drive) -> None:
    ran: list[str] = []

    async def slow(ctx: ag.Context) -> str:
        ran.append(ctx.messages[-1].text)
        await asyncio.sleep(0.05)
        return "x"

    async def fn(ctx: ag.Context) -> str:
        first = asyncio.ensure_future(ctx.run("slow", "one"))
        while not ran:
            await asyncio.sleep(0.001)
        try:
            async with asyncio.timeout(0.01):
                await ctx.run("slow", "two")
        except TimeoutError:
            return f"{await first}, the other was late"
        return "both"

    tree = ag.function_agent("flow", fn, agents=[ag.function_agent("slow", slow)])
    events = [*drive.run(ag.Runner(tree), "Go.", config={"max_concurrency": 1})]
    assert events[-1].text == "x, the other was late"
    assert ran == ["one"]
