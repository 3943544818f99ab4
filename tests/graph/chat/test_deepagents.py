"""deepagents' middleware on chat agents: to-dos, files in the state, sub-agents."""

import asyncio
from typing import Annotated, Any

import pytest
from deepagents.backends import StateBackend
from deepagents.middleware import FilesystemMiddleware, SubAgentMiddleware
from deepagents.middleware.filesystem import FilesystemState
from deepagents.middleware.patch_tool_calls import PatchToolCallsMiddleware
from helpers import Disk, Drive, middleware, scripted, shapes
from langchain.agents import create_agent
from langchain.agents.middleware import TodoListMiddleware, wrap_tool_call
from langchain_core.messages import AIMessage, HumanMessage
from langgraph._internal._constants import CONFIG_KEY_READ, CONFIG_KEY_SEND
from langgraph.config import get_config
from langgraph.types import interrupt
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


LOG = "/log"
BACKEND = StateBackend()
HOOKS = ["before_agent", "before_model", "after_model", "after_agent"]
WRAPS = ["wrap_model_call", "wrap_tool_call"]


def note(text: str) -> None:
    """Add a word to a file, through LangGraph's channels."""
    found = BACKEND.read(LOG)
    if found.file_data is None:
        BACKEND.write(LOG, text)
    else:
        before = found.file_data["content"]
        BACKEND.edit(LOG, before, f"{before} {text}")


def noting(*methods: str) -> Any:
    """Return a middleware whose hooks and wraps note their names."""

    def hook(method: str) -> Any:
        return lambda state: note(method)

    def wrap(method: str) -> Any:
        def does(request: Any) -> Any:
            note(method)
            given = yield request
            note(f"{method}-end")
            return given

        return does

    return middleware(**{each: wrap(each) if each in WRAPS else hook(each) for each in methods})


def reader() -> Any:
    return scripted(calls(call("read_file", file_path=LOG)), "done")


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("schema", [None, Shared, FilesystemState])
@pytest.mark.parametrize("methods", [*[[each] for each in HOOKS + WRAPS], HOOKS + WRAPS], ids=",".join)
def test_hooks_and_wraps_read_and_write_files_as_in_create_agent(
    methods: list[str], schema: Any, is_async: bool
) -> None:
    theirs: Any = create_agent(reader(), middleware=[files(), noting(*methods)])
    agent = ag.chat_agent("clerk", reader(), middleware=[files(), noting(*methods)])
    ours: Any = ag.compile_agent(agent, values=schema)
    given: Any = {"messages": [HumanMessage("Go.")]}
    options: Any = {"output_keys": ["messages", "values", "middleware"]}
    if is_async:
        found, expected = (
            asyncio.run(ours.ainvoke(given, **options)),
            asyncio.run(theirs.ainvoke(given)),
        )
    else:
        found, expected = ours.invoke(given, **options), theirs.invoke(given)
    assert shapes(found["messages"]) == shapes(expected["messages"])
    state = found["values"] if schema else found["middleware"]["clerk"]["state"]
    assert state["files"][LOG]["content"] == expected["files"][LOG]["content"]


@pytest.mark.parametrize("is_flat", [False, True], ids=["nested", "flat"])
def test_hooks_of_create_agent_as_a_graph_write_files(drive: Drive, is_flat: bool) -> None:
    graph = create_agent(reader(), middleware=[files(), noting(*HOOKS, *WRAPS)])
    heard = drive.run(ag.Runner(ag.graph_agent("clerk", graph, flat=is_flat)), "Go.")
    [read] = [event.text for event in heard if event.message and event.message.type == "tool"]
    assert "before_agent before_model wrap_model_call wrap_model_call-end after_model wrap_tool" in read


@pytest.mark.parametrize("schema", [None, FilesystemState])
def test_what_hooks_wrote_is_there_after_a_question(disk: Disk, schema: Any) -> None:
    def asks(state: Any) -> None:
        note(f"asked:{interrupt('May I?')}")

    def tree() -> ag.Agent:
        stack = [files(), noting("before_agent"), middleware("Asks", after_model=asks)]
        return ag.chat_agent("clerk", scripted("hello"), middleware=stack)

    def show() -> ag.Agent:
        return ag.chat_agent("clerk", reader(), middleware=[files()])

    disk.run(tree())
    disk.resume(tree(), "yes")
    [_, read, _] = transcript(disk.run(show()))
    assert "before_agent asked:yes" in read


def test_files_that_branches_write_in_hooks_are_merged_by_the_reducer(drive: Drive) -> None:
    def branch(name: str) -> ag.Agent:
        writes = middleware(before_agent=lambda state: BACKEND.write(f"/{name}", name) and None)
        return ag.chat_agent(name, scripted("done"), middleware=[files(), writes])

    runner = ag.Runner(ag.parallel("p", [branch("a"), branch("b")]), values=FilesystemState)
    [*_] = drive.run(runner, "Go.", thread_id="t")
    found = runner.thread("t").values["files"]
    assert {path: file["content"] for path, file in found.items()} == {"/a": "a", "/b": "b"}


@pytest.mark.parametrize("schema", [None, Shared])
def test_what_a_wrap_writes_before_a_call_is_kept_when_the_tool_runs_again(schema: Any) -> None:
    @wrap_tool_call
    def twice(request: Any, handler: Any) -> Any:
        note("before")
        handler(request)
        note("between")
        return handler(request)

    agent = ag.chat_agent("clerk", reader(), middleware=[files(), twice])
    said = transcript(ag.Runner(agent, values=schema).run("Go."))
    assert any("before between" in each for each in said)


def test_an_agent_as_a_tool_sees_the_values_that_a_wrap_wrote_before() -> None:
    inner = ag.chat_agent("inner", reader(), description="Reads.", middleware=[files()])
    outer = scripted(calls(call("inner", request="Read.")), "done")
    stack = [files(), noting("wrap_tool_call")]
    agent = ag.chat_agent("outer", outer, tools=[ag.agent_tool(inner)], middleware=stack)
    heard = transcript(ag.Runner(agent, values=Shared).run("Go."))
    assert any("wrap_tool_call" in line and "inner: " in line for line in heard)


def test_a_tool_reads_and_writes_declared_values_without_middleware() -> None:
    def keep() -> str:
        """Keep a note."""
        note("kept")
        return str(BACKEND.read(LOG).file_data)

    agent = ag.chat_agent("clerk", scripted(calls(call("keep")), "done"), tools=[keep])
    result = ag.Runner(agent, values=Shared).invoke("Go.")
    assert result.values["files"][LOG]["content"] == "kept"


def channels() -> tuple[Any, Any]:
    """Return the functions by which LangGraph's tasks read and write channels."""
    configurable = get_config()["configurable"]
    return configurable[CONFIG_KEY_READ], configurable[CONFIG_KEY_SEND]


def test_a_read_sees_what_the_task_wrote_only_if_it_is_fresh() -> None:
    seen: list[Any] = []

    def look(*_: Any) -> None:
        read, send = channels()
        send([("files", {LOG: {"content": "x"}}), ("messages", [HumanMessage("Note.", id="n")])])
        for fresh in (False, True):
            found = read(["files", "messages"], fresh)
            seen.append((found.get("files"), [m.text for m in found["messages"]]))

    stack = [files(), middleware(before_agent=look)]
    theirs: Any = create_agent(scripted("done"), middleware=stack)
    theirs.invoke({"messages": [HumanMessage("Go.")]})
    list(ag.Runner(ag.chat_agent("clerk", scripted("done"), middleware=stack)).run("Go."))
    by_theirs, by_ours = seen[:2], seen[2:]
    assert by_ours == by_theirs
    assert by_ours[1] == ({LOG: {"content": "x"}}, ["Go.", "Note."])


@pytest.mark.parametrize("method", ["wrap_model_call", "before_model", "after_model"])
def test_messages_written_to_the_channel_come_before_what_the_node_returns(method: str) -> None:
    def write(*_: Any) -> None:
        channels()[1]([("messages", [AIMessage("sent", id="sent")])])

    def wrap(request: Any) -> Any:
        given = yield request
        write()
        return given

    stack = [middleware(**{method: wrap if method in WRAPS else write})]
    given: Any = {"messages": [HumanMessage("Go.")]}
    theirs: Any = create_agent(scripted("done"), middleware=stack)
    ours: Any = ag.compile_agent(ag.chat_agent("clerk", scripted("done"), middleware=stack))
    assert shapes(ours.invoke(given)["messages"]) == shapes(theirs.invoke(given)["messages"])
