"""Idempotency keys in trees that are run by code of agents, of tools and of graphs.

Each payment has a key of its own, and has it again in a retry, after a failure and after a rewind.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from helpers import Disk, Drive, Sync, scripted
from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import RetryPolicy, Send

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

pytestmark = pytest.mark.by_turns("drive")

RETRY = RetryPolicy(initial_interval=0.001, max_interval=0.001, jitter=False, retry_on=ValueError)


class Payments:
    """Pays by trees, and fails at one of the payments."""

    def __init__(self, fails_at: int = 0) -> None:
        self.keys: list[str] = []
        self.fails_at = fails_at
        self.tree = ag.compile_agent(ag.function_agent("f", self.pay))

    def pay(self, ctx: ag.Context) -> str:
        self.keys.append(ctx.idempotency_key)
        if len(self.keys) == self.fails_at:
            raise ValueError("cut off")
        return "paid"

    def twice(self, *_: object, **__: object) -> str:
        for _ in range(2):
            self.tree.invoke({"messages": "Go."})
        return "paid"

    def node(self, state: object) -> dict[str, Any]:
        return {"messages": [AIMessage(self.twice())]}

    def tool(self) -> StructuredTool:
        schema = {"type": "object", "properties": {}}
        return StructuredTool.from_function(
            self.twice, name="ask", description="Ask.", args_schema=schema
        )


def chain(node: Any, **options: Any) -> StateGraph[Any, Any, Any, Any]:
    graph = StateGraph(MessagesState)
    graph.add_node("a", node, **options)
    graph.add_node("b", node, **options)
    graph.add_edge(START, "a")
    graph.add_edge("a", "b")
    return graph


def fanned(node: Any, **options: Any) -> StateGraph[Any, Any, Any, Any]:
    graph = StateGraph(MessagesState)
    graph.add_node("a", node, **options)
    graph.add_conditional_edges(START, lambda state: [Send("a", {"messages": []})] * 2)
    return graph


def asks_three_times() -> ScriptedChatModel:
    """Return a model that calls a tool twice in one message, and once in the next, under one id."""
    ask = call("ask", "1")

    def reply(messages: list[BaseMessage]) -> AIMessage | str:
        results = sum(message.type == "tool" for message in messages)
        return "end" if results > 2 else calls(ask) if results else calls(ask, ask)

    return ScriptedChatModel(responses=reply)


def looped(node: Any) -> Any:
    """Return a graph that runs a graph with a node twice."""
    graph = StateGraph(MessagesState)
    graph.add_node("inner", chain(node).compile())
    graph.add_edge(START, "inner")
    graph.add_conditional_edges("inner", lambda s: "inner" if len(s["messages"]) < 5 else "__end__")
    return graph.compile()


def asking(payments: Payments, **options: Any) -> Any:
    return create_agent(asks_three_times(), [payments.tool()], **options)


def graph(made: Any, **options: Any) -> ag.Agent:
    return ag.graph_agent("g", made, history="input", **options)


KINDS: dict[str, tuple[Callable[[Payments], ag.Agent], int]] = {
    "nodes": (lambda p: graph(chain(p.node).compile()), 4),
    "nodes that are trees": (lambda p: graph(chain(p.tree).compile()), 2),
    "packets": (lambda p: graph(fanned(p.node).compile()), 4),
    "flat nodes": (lambda p: graph(chain(p.node).compile(), flat=True), 4),
    "a graph that runs twice": (lambda p: graph(looped(p.node)), 8),
    "tools of a graph": (lambda p: graph(asking(p)), 6),
    "tools of a flat graph": (lambda p: graph(asking(p), flat=True), 6),
}


def run(drive: Drive, agent: ag.Agent) -> None:
    list(drive.run(ag.Runner(agent), "Go.", thread_id="t"))


@pytest.mark.parametrize("kind", KINDS)
def test_each_payment_of_a_graph_has_its_own_key(drive: Drive, disk: Disk, kind: str) -> None:
    make, count = KINDS[kind]
    payments = Payments()
    tree = ag.sequential("s", [make(payments)])
    disk.run(tree)
    before, payments.keys = payments.keys, []
    with ag.Runner(tree, checkpointer=disk.path) as runner:
        list(runner.rewind("t", "s/g"))
    again, payments.keys = payments.keys, []
    assert len({*before}) == len(before) == count
    assert sorted(again) == sorted(before)
    disk.run(tree)
    assert {*before}.isdisjoint(payments.keys)


@pytest.mark.parametrize("kind", KINDS)
def test_a_payment_that_is_tried_again_in_another_process_has_its_key(
    disk: Disk, kind: str, drive: Drive
) -> None:
    make, count = KINDS[kind]
    payments = Payments(fails_at=2)
    with pytest.raises(ValueError, match="cut off"):
        disk.run(ag.sequential("s", [make(payments)]))
    later = Payments()
    disk.resume(ag.sequential("s", [make(later)]))
    assert len({*payments.keys, *later.keys}) == count


RETRIED: dict[str, Callable[[Payments], ag.Agent]] = {
    "a function": lambda p: ag.function_agent("f", p.twice, retry=RETRY),
    "a graph": lambda p: graph(chain(p.node).compile(), retry=RETRY),
    "a flat graph": lambda p: graph(chain(p.node, retry_policy=RETRY).compile(), flat=True),
    "a node": lambda p: graph(chain(p.node, retry_policy=RETRY).compile()),
    "a node that is a tree": lambda p: graph(chain(p.tree, retry_policy=RETRY).compile()),
    "a tool": lambda p: ag.chat_agent(
        "c",
        scripted(calls(call("ask", "1")), "end"),
        tools=[p.tool()],
        middleware=[ToolRetryMiddleware(initial_delay=0, jitter=False)],
    ),
    "a tool of a graph": lambda p: graph(
        asking(p, middleware=[ToolRetryMiddleware(initial_delay=0, jitter=False)])
    ),
}


@pytest.mark.parametrize("kind", RETRIED)
def test_a_payment_that_is_tried_again_has_its_key(drive: Drive, kind: str) -> None:
    whole = Payments()
    run(drive, RETRIED[kind](whole))
    for number in (1, 2):
        payments = Payments(fails_at=number)
        run(drive, RETRIED[kind](payments))
        assert len(payments.keys) > len(whole.keys)
        assert {*payments.keys} == {*whole.keys}


@pytest.mark.parametrize("make", [chain, fanned], ids=["nodes", "packets"])
@pytest.mark.parametrize("is_node", [False, True], ids=["run by a node", "a node"])
def test_a_graph_of_langgraph_has_a_key_for_each_payment(
    drive: Drive, make: Callable[..., Any], is_node: bool
) -> None:
    def keys(fails_at: int) -> list[str]:
        payments = Payments(fails_at)
        node = payments.tree if is_node else payments.node
        app = make(node, retry_policy=RETRY).compile(checkpointer=InMemorySaver())
        given, config = {"messages": [("user", "Go.")]}, {"configurable": {"thread_id": "t"}}
        if drive is Sync:
            app.invoke(given, config)
        else:
            asyncio.run(app.ainvoke(given, config))
        return payments.keys

    whole = keys(0)
    assert len({*whole}) == len(whole) == (2 if is_node else 4)
    assert {*keys(2)} == {*whole}


def test_until_has_a_key_for_each_iteration(drive: Drive) -> None:
    keys: list[str] = []

    def until(ctx: ag.Context) -> bool:
        keys.append(ctx.idempotency_key)
        return False

    run(drive, ag.loop("l", [ag.function_agent("f", lambda ctx: "x")], max_iterations=4, until=until))
    assert len({*keys}) == len(keys) == 3
