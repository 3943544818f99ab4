"""Wrong code that type checkers must reject: each line says which error mypy reports there.

mypy and pyright report a `type: ignore` that is not needed, so a line that they accept is an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain_core.messages import BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langgraph.graph import MessagesState, StateGraph

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel


@dataclass
class Tenant:
    """The context of a run."""

    name: str


class Billing(AgentMiddleware[AgentState[Any], Tenant]):
    """A middleware."""


def rate(model: str, usage: UsageMetadata) -> float:
    return 0.001 * usage["total_tokens"]


@ag.agent
def writer(ctx: ag.Context[Tenant]) -> int:
    return len(ctx.context.nam)  # type: ignore[attr-defined]


@ag.agent
def critic(ctx: ag.Context[Tenant]) -> int:
    return ctx.runtime.context.nam  # type: ignore[attr-defined, no-any-return]


@ag.agent(history="all")  # type: ignore[call-overload, untyped-decorator]
def reader(ctx: ag.Context) -> str:
    return str(ctx.mesages)  # type: ignore[attr-defined]


@ag.agent  # type: ignore[arg-type]
def clerk() -> str:
    return "A function agent takes a context."


def of_texts(entries: Sequence[str]) -> list[BaseMessage]:
    return []


def rates(text: str) -> int:
    return len(text)


def trees(model: ScriptedChatModel, graph: StateGraph[MessagesState, Tenant]) -> None:
    chat = ag.chat_agent("chat", model)
    ag.chat_agent("chat", model, prompt="Be brief.")  # type: ignore[call-arg]
    ag.chat_agent("chat", model, max_iterations="3")  # type: ignore[arg-type]
    ag.chat_agent("chat", model, tools=[chat])  # type: ignore[list-item]
    ag.chat_agent("chat", model, history=of_texts)  # type: ignore[arg-type]
    ag.chat_agent("chat", model, middleware=[Billing])  # type: ignore[list-item]
    ag.chat_agent("chat", model, output_schema=3)  # type: ignore[arg-type]
    ag.graph_agent("graph", graph)  # type: ignore[arg-type]
    ag.human("boss", "Well?", response_schema=len)  # type: ignore[arg-type]
    ag.human("boss", "Well?", timeout="1 h")  # type: ignore[arg-type]
    ag.loop("loop", [chat])  # type: ignore[call-arg]
    ag.loop("loop", [chat], max_iterations=3, until=rates)  # type: ignore[arg-type]
    ag.parallel("parallel", [chat], on_error="ignore")  # type: ignore[arg-type]
    ag.runnable_agent("runnable", rates)  # type: ignore[arg-type]
    ag.sequential("sequential", chat)  # type: ignore[arg-type]
    ag.sequential("sequential", [rates])  # type: ignore[list-item]
    ag.step(chat, depends_on=[chat])  # type: ignore[list-item]
    ag.validated(chat, rates)  # type: ignore[arg-type]


def signals(chat: ag.ChatAgent) -> None:
    ag.Ask("Well?", schema=int)  # type: ignore[call-arg]
    ag.Ask("Well?", timeout="1 h")  # type: ignore[arg-type]
    ag.Limits(transfer=3)  # type: ignore[call-arg]
    ag.Limits(cost=0.5)  # type: ignore[arg-type]
    ag.SetValues({"topic": "bees"})  # type: ignore[call-arg]
    ag.TransferTo(chat)  # type: ignore[arg-type]


def runs(chat: ag.ChatAgent) -> None:
    ag.Runner(chat, values={"topic": "bees"})  # type: ignore[arg-type]
    ag.Runner(chat, context_schema=Tenant("Ada"))  # type: ignore[arg-type]
    ag.Runner(chat, middleware=[Billing])  # type: ignore[list-item]
    ag.Runner(chat, prices={"gpt-5": 1})  # type: ignore[arg-type]
    ag.Runner(chat, prices=rate)  # type: ignore[arg-type]
    runner = ag.Runner(chat)
    runner.query("Go.", thread="monday")  # type: ignore[call-arg]
    runner.run("Go.", session_id="monday")  # type: ignore[call-arg]
    runner.stream("Go.")  # type: ignore[attr-defined]
    ag.create_agent("model")  # type: ignore[attr-defined]
    ag.Runner.run_sync(chat, "Go.")  # type: ignore[attr-defined]
    chat.invoke("Go.")  # type: ignore[attr-defined]
    runner.run(3)  # type: ignore[arg-type]
    runner.run("Go.", values=["bees"])  # type: ignore[arg-type]
    runner.pending()  # type: ignore[call-arg]
    runner.threads("finished")  # type: ignore[arg-type]
    result = runner.invoke("Go.")
    print(result["messages"])  # type: ignore[index]
    print(result.txt)  # type: ignore[attr-defined]
    status: Literal["failed"] = result.status  # type: ignore[assignment]
    for event in runner.run("Go."):
        print(event.message.text)  # type: ignore[union-attr]
        kind: Literal["messages"] = event.kind  # type: ignore[assignment]
        print(status, kind)


async def runs_on_an_event_loop(runner: ag.Runner) -> None:
    for event in runner.arun("Go."):  # type: ignore[attr-defined]
        print(event)
    await runner.run("Go.")  # type: ignore[misc]
    print(runner.ainvoke("Go.").text)  # type: ignore[attr-defined]
