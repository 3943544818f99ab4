"""Graphs that a LangGraph server runs in the tests, for agents here that run them there."""

import operator
from dataclasses import dataclass
from typing import Annotated, Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt

from agentgraph.testing import ScriptedChatModel

CHOICE = {"type": "string", "enum": ["yes", "no"]}


class Counted(MessagesState):
    turns: Annotated[int, operator.add]


def says(text: str) -> dict[str, Any]:
    return {"messages": [AIMessage(text)]}


def begin(state: MessagesState) -> dict[str, Any]:
    return says("I begin.")


def asks(name: str) -> Any:
    return lambda state: says(f"{name}: {interrupt({'print': name}, response_schema=CHOICE)}")


def count(state: Counted) -> dict[str, Any]:
    """Says which turn of its thread it is, which its own state keeps."""
    return {**says(f"Turn {state.get('turns', 0) + 1}."), "turns": 1}


@dataclass
class Desk:
    user: str = "nobody"


def report(state: MessagesState, config: RunnableConfig, runtime: Runtime[Desk]) -> dict[str, Any]:
    """Says, word by word, for whom it runs and with which settings, and writes data."""
    runtime.stream_writer({"percent": 50})
    configurable, team = config["configurable"], config["metadata"].get("team")
    text = f"{runtime.context.user} {configurable.get('job')} {team} {configurable.get('token')}"
    return {"messages": [ScriptedChatModel(responses=[text]).invoke(state["messages"])]}


failed: set[str] = set()


def fail_once(state: MessagesState) -> dict[str, Any]:
    text = str(state["messages"][0].text)
    if text not in failed:
        failed.add(text)
        raise RuntimeError("no ink")
    return says("Printed.")


asking = StateGraph(MessagesState).add_node(begin).add_edge(START, "begin")
for name in "abc":
    asking.add_node(name, asks(name)).add_edge("begin", name)
remote_asking = asking.compile()
remote_counting = StateGraph(Counted).add_node(count).add_edge(START, "count").compile()
reporting = StateGraph(MessagesState, context_schema=Desk).add_node(report).add_edge(START, "report")
remote_reporting = reporting.compile()
failing = StateGraph(MessagesState).add_node(begin).add_node(fail_once).add_edge(START, "begin")
remote_failing = failing.add_edge("begin", "fail_once").compile()
stopping = StateGraph(MessagesState).add_node(begin).add_node("end", lambda state: says("I end."))
stopping.add_edge(START, "begin").add_edge("begin", "end")
remote_stopping = stopping.compile(interrupt_before=["end"])
