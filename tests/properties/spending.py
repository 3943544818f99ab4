"""Random trees that call models, and threads of them that are stopped by limits.

`helpers.forking` forks a process for each job, which calls `act`: it makes a request of a thread, and
kills itself after so many saves.
"""

import asyncio
import os
import signal
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import partial
from itertools import count
from typing import Any

from helpers import Async, Sync
from hypothesis import strategies as st
from killed_process import count_saves
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.graph import START, MessagesState, StateGraph

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

Spec = list[Any]
"""The kind of an agent, and what it is made of: agents, or a number."""

ENOUGH = 10_000
BILL = "AGENTGRAPH_TEST_BILL"
"""The environment variable with the path of a file that has a line for each call of a model."""
CALLS: list[str] = []
"""The names of the agents that called a model in this process, one for each call."""

LEAVES = ("model", "says", "asks a model", "person", "tool", "graph")


def specs() -> st.SearchStrategy[Spec]:
    """Return random trees."""
    leaves = st.sampled_from(LEAVES).map(lambda kind: [kind])
    return st.recursive(leaves, _composites, max_leaves=6)


def _composites(inner: st.SearchStrategy[Spec]) -> st.SearchStrategy[Spec]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.tuples(st.sampled_from(("sequential", "parallel", "waits", "function")), several).map(list),
        st.tuples(st.just("loop"), several, st.integers(1, 2)).map(list),
        st.tuples(st.just("each"), inner, st.integers(0, 3)).map(list),
        st.tuples(st.sampled_from(("helped", "team", "swarm")), inner).map(list),
    )


def built(spec: Spec) -> ag.Agent:
    """Build a tree; its agents have the names of their kinds, with numbers."""
    numbers = count()
    return _built(spec, numbers)


def _built(spec: Spec, numbers: Iterator[int]) -> ag.Agent:
    kind, *parts = spec
    name = f"{kind.split()[0]}{next(numbers)}"
    inner = [_built(each, numbers) for each in (parts[0] if kind in SEVERAL else parts[:1])]
    return _leaf(kind, name) if kind in LEAVES else _composite(kind, name, inner, parts[-1])


def _leaf(kind: str, name: str) -> ag.Agent:
    match kind:
        case "model":
            return ag.chat_agent(name, _model(name))
        case "says":
            return _says(name)
        case "asks a model":
            return ag.function_agent(name, lambda ctx: _asked(name))
        case "person":
            return ag.human(name, "Well?")
        case "tool":
            tool = StructuredTool.from_function(lambda: _asked(name), name="ask", description="Asks.")
            return ag.chat_agent(name, _model(name, "ask"), tools=[tool])
        case "graph":
            return ag.graph_agent(name, _graph(name), flat=True)
    raise ValueError(kind)


def _composite(kind: str, name: str, inner: list[ag.Agent], number: Any) -> ag.Agent:
    match kind:
        case "sequential":
            return ag.sequential(name, inner)
        case "parallel" | "waits":
            return ag.parallel(name, inner, on_error="fail" if kind == "parallel" else "wait")
        case "loop":
            return ag.loop(name, inner, max_iterations=number)
        case "each":
            return ag.each(name, inner[0], lambda ctx: [*range(number)])
        case "helped":
            return ag.chat_agent(name, _model(name, inner[0].name), tools=[ag.agent_tool(inner[0])])
        case "team":
            work = ag.sequential(f"{name}-work", [*inner, _says(f"{name}-last")])
            model = _model(name, f"transfer_to_{name}-work", f"[{name}-last] said: Said.")
            return ag.chat_agent(name, model, sub_agents=[work], sub_agents_return=True)
        case "swarm":
            first = ag.function_agent(f"{name}-first", lambda ctx: ag.TransferTo(f"{name}-second"))
            second = ag.chat_agent(
                f"{name}-second", _model(name, inner[0].name), tools=[ag.agent_tool(inner[0])]
            )
            return ag.swarm(name, [first, second], sticky=False)
        case "function":
            return ag.function_agent(name, partial(_runs, inner), agents=inner)
    raise ValueError(kind)


SEVERAL = ("sequential", "parallel", "waits", "function", "loop")


async def _runs(inner: list[ag.Agent], ctx: ag.Context) -> str:
    replies = [await ctx.run(each.name, "Go.") for each in inner]
    return f"{len(replies)} done."


def _says(name: str) -> ag.Agent:
    return ag.function_agent(name, lambda ctx: "Said.")


def _asked(name: str) -> str:
    return str(_model(name).invoke("?").text)


def _model(name: str, wanted: str | None = None, end: str | None = None) -> ScriptedChatModel:
    """Return a model that calls a tool, and says that it is done once it has its result.

    Args:
        name: The name of the agent that it is counted for.
        wanted: The tool.
        end: The last message that is the result, for a tool that transfers.
    """

    def reply(messages: list[BaseMessage]) -> Any:
        CALLS.append(name)
        if bill := os.environ.get(BILL):
            with open(bill, "a") as file:  # also for who comes after a kill
                print(name, file=file, flush=True)
        last = messages[-1]
        has_called = isinstance(last, ToolMessage) and last.name == wanted
        if wanted is None or has_called or last.text == end:
            return "Done."
        return calls(call(wanted, **({} if wanted == "ask" or end else {"request": "Help."})))

    return ScriptedChatModel(responses=reply, counts_tokens=True)


def _graph(name: str) -> Any:
    def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [_model(name).invoke("?")]}

    graph = StateGraph(MessagesState)
    for each in ("one", "two"):
        graph.add_node(each, node)
    graph.add_edge(START, "one").add_edge("one", "two")
    return graph.compile()


def price(model: str, usage: Any) -> Decimal:
    """Return the price of a reply."""
    return usage["total_tokens"] * Decimal("0.01")


def priced(spec: Spec, **options: Any) -> ag.Runner:
    """Return a runner of a tree, which counts what it costs."""
    return ag.Runner(built(spec), prices=price, **options)


def without_time(spent: ag.Spent) -> dict[str, Any]:
    """Return what was spent, without the time."""
    every = {"": spent, **dict(sorted(spent.by_agent.items()))}
    fields = ("model_calls", "tokens", "cost", "transfers", "steps")
    return {name: {each: getattr(one, each) for each in fields} for name, one in every.items()}


def answers_for(questions: list[ag.Interrupt]) -> dict[str, object]:
    """Return an answer for each question: yes, and leave for what is about a limit."""
    return {
        each.id: True if "limit" in (each.response_schema or {}) else "yes"  # type: ignore[operator]
        for each in questions
    }


def request(
    runner: ag.Runner, is_async: bool, answers: Mapping[str, object], limits: ag.Limits
) -> tuple[list[ag.AgentEvent], ag.LimitError | None]:
    """Begin the turn of thread "t" or go on with it; return the events, and the limit reached."""
    drive, events = Async if is_async else Sync, list[ag.AgentEvent]()
    given = [answers] if answers else []
    is_new = _read(runner, is_async).status == "new"
    run = (
        drive.run(runner, "Go.", thread_id="t", limits=limits)
        if is_new
        else drive.resume(runner, "t", *given, limits=limits)
    )
    try:
        events.extend(run)
    except ag.LimitError as error:
        return events, error
    return events, None


def _read(runner: ag.Runner, is_async: bool) -> ag.Thread:
    return asyncio.run(runner.athread("t")) if is_async else runner.thread("t")


def act(
    path: str,
    spec: Spec,
    is_async: bool,
    answers: dict[str, Any],
    after: int,
    budget: int = ENOUGH,
    bill: str = "",
) -> None:
    """Make a request of a thread in a file; the process kills itself after so many saves."""
    os.environ[BILL] = bill
    left = count(1)

    def count_save(*_: object) -> None:
        if next(left) == after:
            os.kill(os.getpid(), signal.SIGKILL)

    count_saves(count_save)
    with priced(spec, checkpointer=path) as runner:
        limits = ag.Limits(model_calls=budget, transfers=ENOUGH, on_limit="ask")
        request(runner, is_async, answers, limits)
    os._exit(0)  # for Python to tear all modules down takes as long as a request
