"""deepagents' middleware on chat agents: to-dos, files in the state, sub-agents."""

import asyncio
from typing import Annotated, Any

import pytest
from deepagents.backends import StateBackend
from deepagents.middleware import FilesystemMiddleware, SubAgentMiddleware
from deepagents.middleware.patch_tool_calls import PatchToolCallsMiddleware
from helpers import Disk, scripted, shapes
from langchain.agents import create_agent
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.messages import HumanMessage
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.testing import call, calls, transcript

NOTES, REPORT = "/notes/bees.md", "/report.md"


class Shared(TypedDict, total=False):
    """The values of the tree."""

    files: Annotated[dict[str, Any], lambda old, new: {**(old or {}), **new}]


def files() -> FilesystemMiddleware:
    return FilesystemMiddleware(backend=StateBackend())


def leader() -> Any:
    return scripted(
        calls(call("write_todos", todos=[{"content": "Research", "status": "in_progress"}])),
        calls(call("task", description="Research bees.", subagent_type="researcher")),
        calls(call("read_file", file_path=NOTES)),
        calls(call("write_file", file_path=REPORT, content="# Bees\nThey dance.")),
        calls(call("edit_file", file_path=REPORT, old_string="They", new_string="All of them")),
        "The report is written.",
    )


def deep() -> list[Any]:
    """Return the middleware of a deep agent, as `create_deep_agent` puts it together."""
    noted = calls(call("write_file", file_path=NOTES, content="Bees dance."))
    researcher: Any = {
        "name": "researcher",
        "description": "Researches one topic.",
        "system_prompt": "Research, and note what you find.",
        "model": scripted(noted, "It is noted."),
        "tools": [],
        "middleware": [files()],
    }
    sub_agents = SubAgentMiddleware(backend=StateBackend(), subagents=[researcher])
    return [TodoListMiddleware(), files(), sub_agents, PatchToolCallsMiddleware()]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_deep_agent_does_what_create_agent_does(is_async: bool) -> None:
    theirs: Any = create_agent(leader(), middleware=deep())
    agent = ag.chat_agent("leader", leader(), middleware=deep())
    ours = ag.compile_agent(agent, values=Shared)
    given: Any = {"messages": [HumanMessage("Report on bees.")]}
    theirs, ours = [
        asyncio.run(graph.ainvoke(given)) if is_async else graph.invoke(given)
        for graph in (theirs, ours)
    ]
    assert shapes(ours["messages"]) == shapes(theirs["messages"])
    found = [
        {path: file["content"] for path, file in each.items()}
        for each in (ours["values"]["files"], theirs["files"])
    ]
    assert found == [{NOTES: "Bees dance.", REPORT: "# Bees\nAll of them dance."}] * 2


def test_files_are_kept_over_turns_and_parallel_calls_lose_none(disk: Disk) -> None:
    def turn(*replies: Any) -> list[str]:
        agent = ag.chat_agent("clerk", scripted(*replies), middleware=[files()])
        return transcript(disk.run(agent))

    written = [call("write_file", path, file_path=path, content=path) for path in ("/a", "/b")]
    turn(calls(*written), "done")
    [_, listed, _] = turn(calls(call("ls", path="/")), "done")
    assert "/a" in listed
    assert "/b" in listed


def test_the_agents_of_a_tree_share_the_files() -> None:
    model = scripted(calls(call("read_file", file_path=REPORT)), "It reads well.")
    editor = ag.chat_agent("editor", model, middleware=[files()])
    tree = ag.sequential("research", [ag.chat_agent("leader", leader(), middleware=deep()), editor])
    runner = ag.Runner(tree, values=Shared)
    events = list(runner.run("Report on bees.", thread_id="t"))
    [_, read, last] = [event.text for event in events if event.agent_name == "editor"]
    assert "All of them dance." in read
    assert last == "It reads well."
    assert list(runner.events("t")) == events
