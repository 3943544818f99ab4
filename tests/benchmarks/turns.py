"""What a turn costs after 120 turns in which middleware changed what the agent sees, with SQLite.

`create_agent` forgets what it has summarized, and a chat agent forgets nothing; so what it has to
read grows there, as it does without middleware.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware, before_model
from langchain_core.messages import HumanMessage
from loops import Graph
from measure import Contender, Figure, copied, side_by_side

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel

TURNS = 120
CONFIG: Any = {"configurable": {"thread_id": "t"}}


@before_model
def redact(state: Any, runtime: Any) -> Any:
    """Replace what the user said."""
    last = state["messages"][-1]
    return {"messages": [last.model_copy(update={"content": f"{last.text} (seen)"})]}


@before_model
def remind(state: Any, runtime: Any) -> Any:
    """Add a reminder."""
    return {"messages": [HumanMessage("Mind it.")]}


def _summary() -> Any:
    model = ScriptedChatModel(responses=lambda sent: "They talked.")
    return SummarizationMiddleware(model, trigger=("messages", 12), keep=("messages", 6))


MIDDLEWARE: dict[str, Callable[[], list[Any]]] = {
    "no middleware": lambda: [],
    "redaction": lambda: [redact],
    "a reminder": lambda: [remind],
    "a summary": lambda: [_summary()],
}


def figures() -> Iterator[Figure]:
    """Measure one turn of a thread with many, against `create_agent` with the same middleware."""
    with TemporaryDirectory() as name:
        for kind, middleware in MIDDLEWARE.items():
            folder = Path(name) / kind
            folder.mkdir()
            both = [partial(_ours, middleware), partial(_theirs, middleware)]
            made = [_after_turns(folder / f"{i}.db", each) for i, each in enumerate(both)]
            ours, theirs = side_by_side(*made, repeats=15)
            yield Figure(
                name=f"turn {TURNS} with {kind}",
                ours=ours,
                theirs=theirs,
                against="create_agent",
                unit="ms",
                aim=2.0,
            )


def _after_turns(path: Path, compiled: Callable[[Any], Graph]) -> Contender:
    """Make a thread; each call takes one turn more on a copy of its file."""
    with ag.sqlite_saver(path) as saver:
        graph = compiled(saver)
        for _ in range(TURNS):
            _turn(graph)
    copy = path.with_suffix(".copy.db")

    @contextmanager
    def contender() -> Iterator[Callable[[], Any]]:
        copied(path, copy)
        with ag.sqlite_saver(copy) as saver:
            yield partial(_turn, compiled(saver))

    return contender


def _turn(graph: Graph) -> Any:
    return graph.invoke({"messages": [HumanMessage("go " * 40)]}, CONFIG)


def _ours(middleware: Callable[[], list[Any]], saver: Any) -> Graph:
    return ag.compile_agent(
        ag.chat_agent("writer", _model(), middleware=middleware()), checkpointer=saver
    )


def _theirs(middleware: Callable[[], list[Any]], saver: Any) -> Graph:
    return create_agent(_model(), [], middleware=middleware(), checkpointer=saver)


def _model() -> ScriptedChatModel:
    return ScriptedChatModel(responses=lambda sent: "word " * 60)
