"""Foreign graphs in branches whose sibling fails while they work: async runs, nested and flat."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from helpers import Async, around, failing, scripted
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

import agentgraph as ag
from agentgraph.testing import call, calls

PATIENCE = 20


class Work:
    """A function that begins, and ends once the sibling's failure has stopped the others."""

    def __init__(self) -> None:
        self.begun, self.stopped = threading.Event(), threading.Event()
        self.times = 0

    def sync(self, to: str) -> str:
        """Look."""
        self.times += 1
        self.begun.set()
        assert self.stopped.wait(PATIENCE)
        return "seen"

    async def coroutine(self, to: str) -> str:
        """Look."""
        self.times += 1
        self.begun.set()
        if self.times == 1:
            await until_cancelled()
        return "seen"

    def siblings(self) -> list[ag.Agent]:
        """Return an agent that fails once, when the function has begun, and one that it stops."""

        async def fails(ctx: ag.Context) -> Any:
            await asyncio.to_thread(self.begun.wait, PATIENCE)
            if not self.stopped.is_set():
                raise ValueError("no")

        async def is_stopped(ctx: ag.Context) -> None:
            if not self.stopped.is_set():
                try:
                    await until_cancelled()
                finally:
                    self.stopped.set()

        return [ag.function_agent("b", fails), ag.function_agent("c", is_stopped)]


async def until_cancelled() -> None:
    await asyncio.wait_for(asyncio.Event().wait(), PATIENCE)


class Around(AgentMiddleware):
    """Middleware that calls tools from a coroutine."""

    async def awrap_tool_call(self, request: Any, handler: Callable[..., Any]) -> Any:
        return await handler(request)


def asking() -> Any:
    return calls(call("look", to="it"))


def look(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function as a tool named `look`."""
    name = "look"

    def sync(to: str) -> str:
        """Look."""
        return str(fn(to))

    async def coroutine(to: str) -> str:
        """Look."""
        return str(await fn(to))

    tool = coroutine if asyncio.iscoroutinefunction(fn) else sync
    tool.__name__ = name
    return tool


def langchains(fn: Callable[..., Any]) -> Any:
    return create_agent(scripted(asking(), "Done."), [look(fn)])


def with_middleware(fn: Callable[..., Any]) -> Any:
    return create_agent(scripted(asking(), "Done."), [look(fn)], middleware=[Around()])


def graph_of(node: Any, *before: BaseMessage) -> Any:
    """Return a graph with an async node before the given one, and an async node after it."""

    async def model(state: MessagesState) -> dict[str, list[BaseMessage]]:
        return {"messages": [*before]}

    async def last(state: MessagesState) -> dict[str, list[BaseMessage]]:
        return {"messages": [AIMessage("Done.")]}

    builder = StateGraph(MessagesState)
    for name, each in (("model", model), ("look", node), ("last", last)):
        builder.add_node(name, each)
    for one, other in ((START, "model"), ("model", "look"), ("look", "last")):
        builder.add_edge(one, other)
    return builder.compile()


def tool_node(fn: Callable[..., Any]) -> Any:
    return graph_of(ToolNode([look(fn)]), asking())


def own_node(fn: Callable[..., Any]) -> Any:
    def sync(state: MessagesState) -> dict[str, list[BaseMessage]]:
        return {"messages": [AIMessage(fn(""))]}

    async def coroutine(state: MessagesState) -> dict[str, list[BaseMessage]]:
        return {"messages": [AIMessage(await fn(""))]}

    return graph_of(coroutine if asyncio.iscoroutinefunction(fn) else sync)


def subgraph(fn: Callable[..., Any]) -> Any:
    return graph_of(langchains(fn))


def results(graph: Any, work: Work, flat: bool) -> list[str]:
    """Run a graph beside a sibling that fails, resume, and return the results of `look`."""
    agent = ag.graph_agent("a", graph, flat=flat)
    runner = ag.Runner(ag.parallel("p", [agent, *work.siblings()]))
    failing(Async.run(runner, "Go.", thread_id="t"), ValueError)
    [*Async.resume(runner, "t")]
    assert runner.thread("t").status == "done"
    return [message.text for message in runner.thread("t").messages if message.text == "seen"]


KINDS = [langchains, with_middleware, tool_node, own_node, subgraph]


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("graph", KINDS)
def test_a_function_in_a_thread_is_waited_for_and_runs_once(graph: Any, flat: bool) -> None:
    work = Work()
    assert (results(graph(work.sync), work, flat), work.times) == (["seen"], 1)


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("graph", KINDS)
def test_a_coroutine_is_cancelled_at_once_and_runs_again(graph: Any, flat: bool) -> None:
    work = Work()
    assert (results(graph(work.coroutine), work, flat), work.times) == (["seen"], 2)


@pytest.mark.parametrize("where", ["nested", "flat", "in a node"])
def test_a_call_in_a_thread_beside_a_failing_one_runs_once(where: str) -> None:
    work, cancelled = Work(), []

    async def fail() -> str:
        """Fail once."""
        await asyncio.to_thread(work.begun.wait, PATIENCE)
        if work.stopped.is_set():
            return "tried again"
        asyncio.get_running_loop().call_later(0.05, work.stopped.set)
        raise ValueError("no")

    async def wait() -> str:
        """Wait until cancelled."""
        if where != "flat" and not cancelled:
            cancelled.append(True)
            await until_cancelled()
        return "waited"

    asked = calls(call("look", "1", to="it"), call("fail", "2"), call("wait", "3"))
    graph = create_agent(scripted(asked, "Done."), [look(work.sync), fail, wait])
    graph = around(graph) if where == "in a node" else graph
    runner = ag.Runner(ag.graph_agent("a", graph, flat=where == "flat"))
    failing(Async.run(runner, "Go.", thread_id="t"), ValueError)
    [*Async.resume(runner, "t")]
    said = [message.text for message in runner.thread("t").messages]
    assert said == ["Go.", "", "seen", "tried again", "waited", "Done."]
    assert work.times == 1


@pytest.mark.parametrize("flat", [False, True])
def test_of_two_calls_side_by_side_one_is_waited_for_and_one_is_cancelled(flat: bool) -> None:
    work, waits = Work(), []

    async def wait() -> str:
        """Wait until cancelled."""
        waits.append(True)
        if len(waits) == 1:
            await until_cancelled()
        return "waited"

    asked = calls(call("look", "1", to="it"), call("wait", "2"))
    graph = create_agent(scripted(asked, "Done."), [look(work.sync), wait])
    assert (results(graph, work, flat), work.times, len(waits)) == (["seen"], 1, 2)
