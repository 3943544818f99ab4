"""LangChain's ready-made middleware in one stack, compared with `create_agent`."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from helpers import mail, scripted, shapes
from langchain.agents import create_agent
from langchain.agents.middleware import (
    ContextEditingMiddleware,
    FilesystemFileSearchMiddleware,
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolCallLimitMiddleware,
    ToolErrorMiddleware,
    ToolRetryMiddleware,
)
from langchain.agents.middleware.context_editing import ClearToolUsesEdit
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import agentgraph as ag
from agentgraph.testing import call, calls

CONFIG: Any = {"configurable": {"thread_id": "t"}}
PLAN = [{"content": "Look", "status": "in_progress"}]


def tools() -> list[Any]:
    """Return tools of which one fails the first time, one always, and one must be agreed to."""
    tries: list[str] = []

    @tool
    def look(topic: str) -> str:
        """Look something up."""
        tries.append(topic)
        if len(tries) == 1:
            raise OSError("no line")
        return f"Write to bee@example.org about {topic}."

    @tool
    def broken(topic: str) -> str:
        """Do nothing but fail."""
        raise ValueError(topic)

    return [look, broken, mail]


def stack(folder: Path) -> list[Any]:
    return [
        PIIMiddleware("email", apply_to_tool_results=True),
        TodoListMiddleware(),
        SummarizationMiddleware(
            scripted(*["They talked."] * 5), trigger=("messages", 9), keep=("messages", 4)
        ),
        ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=60, keep=2)]),
        ModelCallLimitMiddleware(run_limit=12),
        ToolCallLimitMiddleware(tool_name="broken", run_limit=1, exit_behavior="continue"),
        ModelFallbackMiddleware(scripted(*["From the other model."] * 3)),
        ModelRetryMiddleware(max_retries=1, initial_delay=0, jitter=False),
        ToolErrorMiddleware(lambda error, request: f"It failed: {error}", tools=["broken"]),
        ToolRetryMiddleware(tools=["look"], max_retries=2, initial_delay=0, jitter=False),
        FilesystemFileSearchMiddleware(root_path=str(folder), use_ripgrep=False),
        HumanInTheLoopMiddleware({"mail": True}),
    ]


def model() -> Any:
    return scripted(
        calls(call("write_todos", "1", todos=PLAN)),
        calls(call("look", "2", topic="bees"), call("broken", "3", topic="wasps")),
        calls(call("broken", "5", topic="again"), call("glob_search", "6", pattern="*.txt")),
        calls(call("mail", "7", to="Ada"), call("look", "8", topic="honey")),
        "Done.",
        "And more.",
    )


def run(graph: Any, is_async: bool) -> list[Any]:
    """Return the result of two turns with an answer between: messages, questions, what was sent."""
    asked: list[Any] = []
    for given in (
        {"messages": [HumanMessage("I am ada@example.org. Begin.", id="one")]},
        Command(resume={"decisions": [{"type": "approve"}]}),
        {"messages": [HumanMessage("Go on.", id="two")]},
    ):
        ended = asyncio.run(graph.ainvoke(given, CONFIG)) if is_async else graph.invoke(given, CONFIG)
        asked.append([each.value for each in ended.get("__interrupt__", ())])
    return asked


@pytest.mark.parametrize("is_async", [False, True])
def test_all_of_them_do_what_they_do_in_create_agent(tmp_path: Path, is_async: bool) -> None:
    (tmp_path / "notes.txt").write_text("Bees.")
    theirs, ours = model(), model()
    options: Any = {"middleware": stack(tmp_path), "checkpointer": InMemorySaver()}
    agent = create_agent(theirs, tools(), **options)
    tree = ag.chat_agent("writer", ours, tools=tools(), middleware=stack(tmp_path))
    graph = ag.compile_agent(tree, checkpointer=InMemorySaver())
    assert run(graph, is_async) == run(agent, is_async)
    sent = [[shapes(asked) for asked in each.inputs] for each in (ours, theirs)]
    assert sent[0] == sent[1]
    assert len(sent[0]) == 6
