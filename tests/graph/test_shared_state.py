"""What a tool and middleware write: values of the run, the agent's own state, or what both share."""

from typing import Annotated, Any, NotRequired

import pytest
from helpers import Drive, scripted
from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId
from langgraph.prebuilt import InjectedState
from langgraph.types import Command
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.testing import call, calls


def merged(old: dict[str, str] | None, new: dict[str, str]) -> dict[str, str]:
    return {**(old or {}), **new}


def last(old: str | None, new: str) -> str:
    return max(old or "", new)


Files = Annotated[dict[str, str], merged]


class FileState(AgentState[Any]):
    files: NotRequired[Files]
    notes: NotRequired[list[str]]


class Filing(AgentMiddleware[Any, Any, Any]):
    """As deepagents' middleware of files does it: state, tools that write it, and a hook."""

    state_schema = FileState

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"files": {"readme": f"{len(state.get('files') or {})} files"}, "notes": ["begun"]}


class Shared(TypedDict, total=False):
    files: Files
    count: int


def write(name: str, text: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Write a file."""
    done = ToolMessage(f"Wrote {name}.", tool_call_id=tool_call_id)
    return Command(update={"files": {name: text}, "count": 1, "topic": name, "messages": [done]})


def read(state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Read everything."""
    return f"{state.get('files')} {state.get('notes')}"


@pytest.mark.parametrize("parallel_tools", [True, False])
def test_a_key_that_values_declare_is_shared_and_another_is_the_agents_own(
    drive: Drive, parallel_tools: bool
) -> None:
    made = calls(call("write", name="a", text="A"), call("read"))
    writer = ag.chat_agent(
        "w",
        scripted(made, calls(call("read")), "Done."),
        tools=[write, read],
        middleware=[Filing()],
        parallel_tools=parallel_tools,
    )
    critic = ag.chat_agent("c", scripted(calls(call("read")), "Done."), tools=[read])
    runner = ag.Runner(ag.sequential("s", [writer, critic]), values=Shared)
    told = list(drive.run(runner, "Go.", thread_id="t", values={"files": {"old": "O"}}))
    results = [each.message.text for each in told if isinstance(each.message, ToolMessage)]
    both = "{'old': 'O', 'readme': '1 files', 'a': 'A'}"
    assert results[-2:] == [f"{both} ['begun']", f"{both} None"]
    if not parallel_tools:
        assert results[1] == f"{both} ['begun']"
    values = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values["values"]
    files = {"old": "O", "readme": "1 files", "a": "A"}
    kept = {key: value for key, value in values.items() if "." not in key}
    assert kept == {"files": files, "count": 1, "topic": "a"}


def test_what_values_do_not_declare_is_the_state_of_the_agent(drive: Drive) -> None:
    writer = ag.chat_agent(
        "w",
        scripted(calls(call("write", name="a", text="A")), calls(call("read")), "Done."),
        tools=[write, read],
        middleware=[Filing()],
    )
    critic = ag.chat_agent("c", scripted(calls(call("read")), "Done."), tools=[read])
    runner = ag.Runner(ag.sequential("s", [writer, critic]))
    told = list(drive.run(runner, "Go.", thread_id="t"))
    results = [each.message.text for each in told if isinstance(each.message, ToolMessage)]
    assert results == ["Wrote a.", "{'readme': '0 files', 'a': 'A'} ['begun']", "None None"]


def test_agents_side_by_side_share_files_through_the_reducer(drive: Drive) -> None:
    def agent(name: str) -> ag.Agent:
        model = scripted(calls(call("write", name=name, text=name)), "Done.")
        return ag.chat_agent(name, model, tools=[write], middleware=[Filing()])

    class OnlyFiles(TypedDict, total=False):
        files: Files
        topic: Annotated[str, last]

    runner = ag.Runner(ag.parallel("p", [agent("a"), agent("b")]), values=OnlyFiles)
    list(drive.run(runner, "Go.", thread_id="t"))
    values = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values["values"]
    assert values["files"] == {"readme": "0 files", "a": "a", "b": "b"}
    assert values["topic"] == "b"
