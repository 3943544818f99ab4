"""Threads of all kinds of agents, of which turns are pruned, and all that can be read of them."""

import operator
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Annotated, Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls
from helpers.agents import asks
from helpers.drives import Session

TURNS = 4
"""How many turns a thread has before it is pruned."""


class Visits(MessagesState):
    log: Annotated[list[int], operator.add]


def counting(name: str) -> ag.Agent:
    """Return a graph that keeps its state over turns, and says how often it has run."""

    def visit(state: Visits) -> Any:
        number = len(state.get("log") or [])
        return {"log": [number], "messages": [AIMessage(f"visit {number}")]}

    builder = StateGraph(Visits).add_node("a", visit).add_edge(START, "a")
    return ag.graph_agent(name, builder.compile(checkpointer=True))


def says(name: str) -> ag.Agent:
    """Return an agent that says what it sees of the thread, and counts in a value."""

    def fn(ctx: ag.Context) -> Any:
        seen = [each.text[:6] for each in ctx.messages][-2:]
        count = int(ctx.values.get(name, 0)) + 1
        yield ag.SetValues(**{name: count})
        yield f"{name} {count} of {len(ctx.messages)}: {seen}"

    return ag.function_agent(name, fn)


def keeps_a_tree(name: str) -> ag.Agent:
    """Return a compiled tree that keeps its own messages and values over turns."""
    inner = ag.sequential(f"{name}_in", [says(f"{name}_a"), says(f"{name}_b")])
    return ag.graph_agent(name, ag.compile_agent(inner, checkpointer=True))


def with_tools() -> ag.Agent:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    def respond(messages: Any) -> Any:
        if messages[-1].type == "tool":
            return f"It is {messages[-1].text} after {len(messages)}."
        return calls(call("add", a=len(messages), b=1), call("t", request="Look."))

    tool = ag.agent_tool(says("t"))
    return ag.chat_agent("c", ScriptedChatModel(responses=respond), tools=[add, tool])


def checked() -> ag.Agent:
    def check(text: str) -> str | None:
        return "Again." if int(text.split()[1]) % 2 else None

    return ag.validated(says("w"), check)


def workflow() -> ag.Agent:
    two = ag.sequential("two", [says("t1"), says("t2")])
    return ag.workflow("w", [ag.step(says("one")), ag.step(two, depends_on=["one"])])


def calling() -> ag.Agent:
    def fn(ctx: ag.Context) -> str:
        return f"ran {ctx.run('sub', 'Go.')}"

    return ag.function_agent("f", fn, agents=[ag.sequential("sub", [says("r1"), says("r2")])])


KINDS: dict[str, Callable[[], ag.Agent]] = {
    "a function": lambda: says("a"),
    "a sequence": lambda: ag.sequential("s", [says("a"), says("b")]),
    "a loop": lambda: ag.loop("l", [says("a"), says("b")], max_iterations=2),
    "branches": lambda: ag.parallel("p", [says("a"), ag.sequential("q", [says("b"), says("c")])]),
    "items": lambda: ag.each("e", ag.sequential("q", [says("b"), says("c")]), lambda ctx: ["x", "y"]),
    "a workflow": workflow,
    "a chat agent with tools": with_tools,
    "a checked agent": checked,
    "a run of a function": calling,
    "a graph with its own state": lambda: ag.sequential("s", [says("a"), counting("g")]),
    "a tree with its own state": lambda: ag.sequential("s", [keeps_a_tree("k"), says("a")]),
    "graphs in branches": lambda: ag.parallel(
        "p", [ag.sequential("q", [counting("g"), says("b")]), counting("h")]
    ),
}


def asking(name: str) -> ag.Agent:
    """Return a tree that asks two people in branches, after an agent."""
    return ag.sequential(
        name, [says("a"), ag.parallel("p", [asks("h1"), ag.sequential("q", [says("b"), asks("h2")])])]
    )


def told_of(session: Session, since: int) -> dict[str, Any]:
    """Return all that can be read of the turns of a thread from one on, by one runner."""

    def act(runner: ag.Runner) -> dict[str, Any]:
        reads, result = _reads(session.id, since), None
        with suppress(StopIteration):
            while True:
                method, args, more = reads.send(result)
                result = getattr(runner, method)(*args, **more)
                result = [*result] if method == "events" else result
        return told[0]

    async def aact(runner: ag.Runner) -> dict[str, Any]:
        reads, result = _reads(session.id, since), None
        with suppress(StopIteration):
            while True:
                method, args, more = reads.send(result)
                events = getattr(runner, f"a{method}")(*args, **more)
                result = [e async for e in events] if method == "events" else await events
        return told[0]

    def _reads(own: str, since: int) -> Generator[Any, Any, None]:
        thread: ag.Thread = yield "thread", (own,), {}
        events = yield "events", (own,), {}
        visits = [each for each in (yield "visits", (own,), {}) if each.turn >= since]
        timeline = yield "timeline", (own,), {}
        found: dict[str, Any] = {
            "status": thread.status,
            "turns": [each for each in thread.turns if each.number >= since],
            "messages": thread.messages,
            "values": thread.values,
            "pending": thread.pending,
            "events": [each for each in events if (each.turn or 0) >= since],
            "visits": visits,
            "timeline": [each for each in timeline.bars if each.turn >= since],
            "activations": [],
            "results": [],
        }
        for at, turn in dict.fromkeys((each.address, each.turn) for each in visits):
            found["activations"].append((yield "activation", (own, at), {"turn": turn}))
        for each in found["turns"]:
            found["results"].append((yield "result", (own, each.number), {}))
        told.append(found)

    told: list[dict[str, Any]] = []
    session.use(act, aact)
    return told[0]


def read(session: Session, method: str, *args: Any, **more: Any) -> Any:
    """Return the result of a method of a runner, sync or async."""
    return session.use(
        lambda runner: getattr(runner, method)(*args, **more),
        lambda runner: getattr(runner, f"a{method}")(*args, **more),
    )


def run(session: Session, method: str, *args: Any, **more: Any) -> list[str]:
    """Run a thread, and return its events as text, without their order: branches have none."""
    events: list[ag.AgentEvent] = []
    session.follow(method, *args, hear=events.append, **more)
    return sorted(f"{each.turn} {each.address} {each.kind} {each.text}" for each in events)
