"""deepagents' middleware on chat agents: to-dos, files in the state, sub-agents; a research."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import pytest
from deepagents.backends import StateBackend
from deepagents.middleware import FilesystemMiddleware, SubAgentMiddleware
from deepagents.middleware.patch_tool_calls import PatchToolCallsMiddleware
from helpers import Async, Drive, Sync, fresh, scripted, shapes
from langchain.agents import create_agent
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.messages import HumanMessage
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.testing import call, calls, transcript

NOTES, REPORT = "/notes/bees.md", "/report.md"


class Shared(TypedDict, total=False):
    """What the tree shares."""

    files: Annotated[dict[str, Any], lambda old, new: {**(old or {}), **new}]


def researcher() -> Any:
    return scripted(calls(call("write_file", file_path=NOTES, content="Bees dance.")), "It is noted.")


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
    """Return what makes an agent a deep one, as `create_deep_agent` puts it together."""
    backend = StateBackend()
    inner = {
        "name": "researcher",
        "description": "Researches one topic.",
        "system_prompt": "Research, and note what you find.",
        "model": researcher(),
        "tools": [],
        "middleware": [FilesystemMiddleware(backend=backend)],
    }
    return [
        TodoListMiddleware(),
        FilesystemMiddleware(backend=backend),
        SubAgentMiddleware(backend=backend, subagents=[inner]),  # type: ignore[list-item]
        PatchToolCallsMiddleware(),
    ]


def files_of(state: Any) -> dict[str, str]:
    return {path: file["content"] for path, file in state.items()}


@pytest.mark.parametrize("is_async", [False, True])
def test_a_deep_agent_does_what_create_agent_does(is_async: bool) -> None:
    theirs: Any = create_agent(leader(), middleware=deep())
    agent = ag.chat_agent("leader", leader(), middleware=deep())
    ours = ag.compile_agent(agent, values=Shared)
    given: Any = {"messages": [HumanMessage("Report on bees.")]}
    if is_async:
        ended = asyncio.run(theirs.ainvoke(given)), asyncio.run(ours.ainvoke(given))
    else:
        ended = theirs.invoke(given), ours.invoke(given)
    assert shapes(ended[1]["messages"]) == shapes(ended[0]["messages"])
    assert files_of(ended[1]["values"]["files"]) == files_of(ended[0]["files"])
    assert files_of(ended[0]["files"]) == {NOTES: "Bees dance.", REPORT: "# Bees\nAll of them dance."}


@pytest.mark.parametrize("drive", [Sync, Async])
def test_files_are_kept_over_turns_and_savers(drive: Drive, tmp_path: Path) -> None:
    def turn(text: str, *replies: Any) -> list[str]:
        middleware = [FilesystemMiddleware(backend=StateBackend())]
        agent = ag.chat_agent("clerk", scripted(*replies), middleware=middleware)
        return transcript(fresh(drive, tmp_path / "threads.db", agent, "run", text, thread_id="t"))

    turn("Write.", calls(call("write_file", file_path="/a", content="one")), "done")
    told = turn("Read.", calls(call("read_file", file_path="/a")), "It says one.")
    assert any("one" in line and "@@" in line for line in told)


def test_parallel_calls_each_see_their_own_writes_and_lose_none() -> None:
    both = calls(
        call("write_file", file_path="/a", content="one"),
        call("write_file", file_path="/b", content="two"),
    )
    listed = calls(call("ls", path="/"))
    agent = ag.chat_agent(
        "clerk",
        scripted(both, listed, "done"),
        middleware=[FilesystemMiddleware(backend=StateBackend())],
    )
    told = transcript(ag.Runner(agent).query("Go."))
    assert [line for line in told if "/a" in line and "/b" in line and "[calls]" not in line]


def test_a_deep_research_is_a_tree_whose_agents_share_the_files() -> None:
    backend = StateBackend()
    editor = ag.chat_agent(
        "editor",
        scripted(calls(call("read_file", file_path=REPORT)), "It reads well."),
        middleware=[FilesystemMiddleware(backend=backend)],
    )
    tree = ag.sequential("research", [ag.chat_agent("leader", leader(), middleware=deep()), editor])
    runner = ag.Runner(tree, values=Shared)
    events = list(runner.run("Report on bees.", thread_id="t"))
    told = transcript(events)
    assert told[-1] == "research/leader/editor: It reads well."
    read = [line for line in told if line.startswith("research/leader/editor")]
    assert any("All of them dance." in line for line in read)
    assert list(runner.events("t")) == events
