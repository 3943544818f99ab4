"""An application as a user writes one, for type checkers: every builder, a runner, its events."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langgraph.cache.memory import InMemoryCache
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import CachePolicy, RetryPolicy

import agentgraph as ag


@ag.agent
def writer(ctx: ag.Context) -> str:
    return f"Draft {(ctx.iteration or 0) + 1} about {ctx.values['topic']}."


@ag.agent(retry=RetryPolicy(max_attempts=2), timeout=30, cache_policy=CachePolicy())
async def critic(ctx: ag.Context) -> str | ag.BreakLoop:
    return ag.BreakLoop() if ctx.iteration == 1 else f"Too short, {ctx.messages[-1].text}"


def asks(ctx: ag.Context) -> Iterator[str | ag.Ask | ag.Custom]:
    yield ag.Custom({"address": ctx.address, "path": str(ctx.run_path)})
    yield str(ctx.answer) if ctx.answered else ag.Ask("Which?", str, timeout=60, default="x")


def search(topic: str, ctx: ag.Context) -> str:
    """Search the library."""
    return f"{len(ctx.messages)} books about {topic}"


def price(model: str, usage: UsageMetadata) -> Decimal:
    return usage["total_tokens"] * Decimal("0.001")


def newest(entries: Sequence[ag.Entry]) -> list[BaseMessage]:
    return [entry.message for entry in entries if entry.agent_name != "critic"][-2:]


def key_of(ctx: ag.Context) -> str:
    return str(ctx.values["topic"])


def is_done(ctx: ag.Context) -> bool:
    return bool(ctx.values.get("done"))


def brief(ctx: ag.Context, messages: list[BaseMessage]) -> list[BaseMessage]:
    return messages[-5:]


def tree(model: BaseChatModel, graph: CompiledStateGraph[Any, Any, Any, Any]) -> ag.SequentialAgent:
    librarian = ag.chat_agent(
        "librarian",
        model,
        instruction="You help {reader}.",
        tools=[
            search,
            ag.agent_tool(
                ag.human("owner", "May I?", response_schema=bool, timeout=timedelta(1), default=False)
            ),
        ],
        history=newest,
        model_input=brief,
        retry=[RetryPolicy()],
    )
    refine: ag.LoopAgent = ag.loop("refine", [writer, critic], max_iterations=5, until=is_done)
    inner = ag.graph_agent(
        "inner",
        graph,
        input=lambda ctx: {"messages": ctx.messages},
        cache_policy=CachePolicy(key_func=key_of, ttl=60),
    )
    branches = ag.parallel("branches", [librarian, ag.function_agent("asks", asks), inner])
    steps = ag.workflow("steps", [ag.step(ag.human("one", "1?"), input="Go.", compensate=writer)])
    return ag.sequential("report", [refine, branches, steps])


def desk() -> list[ag.SwitchAgent]:
    by_pairs = ag.switch("by_pairs", "answer", [("go on", ag.SKIP), ("stop", ag.Exit())])
    return [by_pairs, ag.switch("desk", is_done, {True: ag.BreakLoop(), False: ag.SKIP})]


def question_of(event: ag.AgentEvent) -> Any:
    interrupt = event.action.interrupted if event.action else None
    return interrupt.value if interrupt else None


def run(agent: ag.Agent, path: str) -> dict[str, str]:
    said: dict[str, str] = {}
    with ag.sqlite_saver(path) as saver:
        limits = ag.Limits(transfers=3, cost=Decimal("0.5"))
        runner = ag.Runner(
            agent, checkpointer=saver, limits=limits, prices=price, cache=InMemoryCache()
        )
        with runner.run("Go.", thread_id="monday", values={"topic": "bees"}) as events:
            for event in events:
                said[event.address] = event.text or event.kind
        answers = {question.id: "yes" for question in runner.pending("monday")}
        said |= {event.address: str(question_of(event)) for event in runner.resume("monday", answers)}
        watched: ag.Watched = ag.watch(runner, thread_id="monday")
        said["last"] = watched.text
    return said


async def follow(runner: ag.Runner) -> list[str]:
    running: ag.AsyncRun = runner.arun("Go.", stream=True)
    return [event.id async for event in await running if not event.partial]
