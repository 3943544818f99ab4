"""Graphs of LangGraph that do what the script of a spec says."""

import operator
from collections.abc import Sequence
from typing import Annotated, Any

import specs
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.graph import END, MessagesState, StateGraph
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import interrupt
from record import Record

import agentgraph as ag


class Scripted(MessagesState):
    """The state: what each call says, asks and fails with at first, and how many rounds have ended."""

    address: str
    seen: list[str]
    script: list[tuple[list[str], list[Any], list[str]]]
    rounds: Annotated[int, operator.add]


def graph_agent(leaf: specs.Function, record: Record, known: dict[str, Any]) -> ag.Agent:
    """Return the agent of a graph, annotated with an `output`; in each node it sees what was passed."""

    def enter(ctx: ag.Context) -> dict[str, Any]:
        script = _script(record.enters(leaf, ctx))
        if leaf.is_flat:
            record.begins(ctx.address)
        seen = [message.text for message in ctx.messages]
        return {"messages": ctx.messages, "address": ctx.address, "seen": seen, "script": script}

    def leave(state: Any) -> list[str]:
        runtime = get_runtime()
        record.passed.see("border", runtime.context, runtime.store, get_config())
        return _texts(state, len(state["script"]))

    def say(state: Scripted, config: RunnableConfig, runtime: Runtime[Any]) -> Any:
        record.passed.see("inner", runtime.context, runtime.store, config)
        rounds = state["rounds"]
        if not rounds and not leaf.is_flat:
            record.begins(state["address"])
        seen = [message.text for message in state["messages"]]
        if seen != [*state["seen"], *_texts(state, rounds)]:
            record.passed.wrong.append(("the messages of a graph", state["address"], seen))
        texts, _, errors = state["script"][rounds]
        record.may_fail(f"{state['address']} {rounds}", errors)
        return {"messages": [AIMessage(text, name=leaf.name) for text in texts]}

    def ask(state: Scripted, config: RunnableConfig, runtime: Runtime[Any]) -> Any:
        record.passed.see("inner", runtime.context, runtime.store, config)
        for asked in state["script"][state["rounds"]][1]:
            interrupt(asked)
        return {"rounds": 1}

    def way_on(state: Scripted) -> str:
        return "ask" if any(asked for _, asked, _ in state["script"][state["rounds"] :]) else END

    builder = StateGraph(Scripted)
    builder.add_sequence([("first", say), ("ask", ask), ("then", say)])
    graph = (
        builder.set_entry_point("first").add_conditional_edges("then", way_on, ["ask", END]).compile()
    )
    output = leave if leaf.annotated else None
    options = {"input": enter, "output": output, "flat": leaf.is_flat}
    return ag.graph_agent(leaf.name, graph, **options, **known)


def _script(calls: Sequence[specs.Call]) -> list[tuple[list[str], list[Any], list[str]]]:
    """Return the script of the calls that end, each with the failures of those before it."""
    script: list[tuple[list[str], list[Any], list[str]]] = [([], [], [])]
    for call in calls:
        texts, asked, errors = script[-1]
        texts += [data[1] for kind, data in call.items if kind == "message"]
        asked += [data for kind, data in call.items if kind == "interrupted"]
        errors += [data for kind, data in call.items if kind == "error"]
        if not call.fails:
            script.append(([], [], []))
    return script


def _texts(state: Any, calls: int) -> list[str]:
    """Return what a graph has said after some calls."""
    return [text for texts, _, _ in state["script"][:calls] for text in texts]
