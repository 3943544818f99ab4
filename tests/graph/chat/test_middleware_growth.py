"""What middleware keeps costs a turn as much after many turns as after few: no bytes twice."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain.agents.middleware import SummarizationMiddleware, before_model
from langchain_core.messages import HumanMessage, RemoveMessage

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel

CONFIG: Any = {"configurable": {"thread_id": "t"}}
EARLY, LATE, LONG = 10, 50, 10


@before_model
def remind(state: Any, runtime: Any) -> Any:
    """Add a message in each turn."""
    return {"messages": [HumanMessage("Mind the bees, and the wasps too.")]}


@before_model
def redact(state: Any, runtime: Any) -> Any:
    """Replace what the user said, and what another agent said, all of it again in each turn."""
    others = [each for each in state["messages"] if each.type == "human"]
    hidden = [each.model_copy(update={"content": each.text.replace("bees", "*")}) for each in others]
    return {"messages": hidden}


@before_model
def remake(state: Any, runtime: Any) -> Any:
    """Keep one reminder, the last of all: a new one in each turn."""
    old = [RemoveMessage(id=each.id) for each in state["messages"] if "Mind" in each.text]
    return {"messages": [*old, HumanMessage("Mind the bees.")]}


def summing() -> Any:
    model = ScriptedChatModel(responses=lambda sent: "They spoke of bees.")
    return SummarizationMiddleware(model, trigger=("messages", 8), keep=("messages", 4))


MIDDLEWARE: dict[str, Callable[[], Any]] = {
    "a reminder in each turn": lambda: remind,
    "redaction of all words": lambda: redact,
    "a reminder that is made anew": lambda: remake,
    "a summary": summing,
}


def tree(middleware: Any, lane: str) -> ag.Agent:
    model = ScriptedChatModel(responses=lambda sent: "On bees and other insects.")
    writer = ag.chat_agent("writer", model, middleware=[middleware])
    other = ag.function_agent("other", lambda ctx: "More on bees.")
    if lane == "root":
        return ag.sequential("s", [other, writer])
    return ag.parallel("p", [ag.sequential("s", [other, writer])])


def written(saver: Any) -> int:
    """Return how many bytes a saver has written so far."""
    found = saver.conn.execute(
        "select (select sum(length(checkpoint) + length(metadata)) from checkpoints) "
        "+ (select sum(length(value)) from writes)"
    )
    return int(found.fetchone()[0])


@pytest.mark.parametrize("lane", ["root", "branch"])
@pytest.mark.parametrize("kind", list(MIDDLEWARE))
def test_a_late_turn_writes_as_much_as_an_early_one(tmp_path: Path, kind: str, lane: str) -> None:
    with ag.sqlite_saver(tmp_path / "threads.db") as saver:
        graph = ag.compile_agent(tree(MIDDLEWARE[kind](), lane), checkpointer=saver)
        after = [0]
        for _ in range(LATE + LONG):
            graph.invoke({"messages": [HumanMessage("Tell me of bees.")]}, CONFIG)
            after.append(written(saver))
    early, late = after[EARLY + LONG] - after[EARLY], after[LATE + LONG] - after[LATE]
    assert late <= 1.1 * early
