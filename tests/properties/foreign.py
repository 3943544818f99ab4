"""Graphs of LangGraph that do what the script of a spec says."""

from collections.abc import Callable
from typing import Any

import specs
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.graph import MessagesState, StateGraph
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import interrupt
from record import Record

import agentgraph as ag


class Scripted(MessagesState):
    """The state: the script is the texts to say first, the questions, and the texts to say then."""

    address: str
    script: list[list[Any]]


def graph_agent(leaf: specs.Function, record: Record, known: dict[str, Any]) -> ag.Agent:
    """Return the agent of a graph, annotated with an `output`; in each node it sees what was passed."""

    def enter(ctx: ag.Context) -> dict[str, Any]:
        first, *then = (call.items for call in record.enters(leaf, ctx))
        asked = [data for kind, data in first if kind == "interrupted"]
        script = [_texts(first), asked, _texts(*then)]
        return {"messages": ctx.messages, "address": ctx.address, "script": script}

    def leave(state: Any) -> list[str]:
        runtime = get_runtime()
        record.passed.see("border", runtime.context, runtime.store, get_config())
        first, _, then = state["script"]
        return [*first, *then]

    def saying(part: int) -> Callable[..., Any]:
        def say(state: Scripted, config: RunnableConfig, runtime: Runtime[Any]) -> Any:
            record.passed.see("inner", runtime.context, runtime.store, config)
            if part == 0:
                record.begins(state["address"])
            return {"messages": [AIMessage(text, name=leaf.name) for text in state["script"][part]]}

        return say

    def ask(state: Scripted, config: RunnableConfig, runtime: Runtime[Any]) -> Any:
        record.passed.see("inner", runtime.context, runtime.store, config)
        for asked in state["script"][1]:
            interrupt(asked)
        return {}

    builder = StateGraph(Scripted)
    builder.add_sequence([("first", saying(0)), ("ask", ask), ("then", saying(2))])
    graph = builder.set_entry_point("first").compile()
    output = leave if leaf.annotated else None
    return ag.graph_agent(leaf.name, graph, input=enter, output=output, **known)


def _texts(*calls: Any) -> list[str]:
    return [data[1] for items in calls for kind, data in items if kind == "message"]
