"""Runs the same turns in a graph of LangChain's and in a tree of ours, to compare them."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from helpers import THREAD, Async, Drive, check_heard, shapes
from langchain_core.messages import HumanMessage
from langgraph.types import Command

import agentgraph as ag


def run_graph(
    drive: Drive, graph: Any, turns: Iterable[str], answer: Callable[[Any], Any] | None = None
) -> list[Any]:
    """Run turns of a graph of LangGraph, and answer each question by its value.

    Returns:
        The values of the questions, those that were asked at once in a list; and the messages.
    """
    asked: list[Any] = []
    ended: Any = {}
    for text in turns:
        given: Any = {"messages": [HumanMessage(text)]}
        while given is not None:
            run = graph.ainvoke if drive is Async else graph.invoke
            ended = asyncio.run(run(given, THREAD)) if drive is Async else run(given, THREAD)
            questions = ended.get("__interrupt__", ())
            asked.append([each.value for each in questions])
            given = Command(resume={q.id: answer(q.value) for q in questions}) if questions else None  # type: ignore[misc]
    return [*asked, shapes(ended["messages"])]


def run_tree(
    drive: Drive, tree: ag.Agent, turns: Iterable[str], answer: Callable[[Any], Any] | None = None
) -> list[Any]:
    """Run turns of a tree, and answer each question by its value; return the same as `run_graph`.

    Check that `events()` gives what the runs gave.
    """
    runner = ag.Runner(tree)
    asked: list[Any] = []
    events: list[ag.AgentEvent] = []
    for text in turns:
        events += drive.run(runner, text, thread_id="t")
        while questions := runner.pending("t"):
            asked.append([each.value for each in questions])
            events += drive.resume(runner, "t", {q.id: answer(q.value) for q in questions})  # type: ignore[misc]
        asked.append([])
    check_heard(events, list(runner.events("t")))
    return [*asked, shapes(runner.graph.get_state(THREAD).values["messages"])]
