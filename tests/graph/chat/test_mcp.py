"""Tools of a real MCP server, through langchain-mcp-adapters: what they give is kept and told again."""

import asyncio
import base64
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import Disk, Drive, failing, scripted
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langchain_mcp_adapters.client import MultiServerMCPClient
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import ToolRuntime

import agentgraph as ag
from agentgraph.testing import call, calls, transcript

SERVER = Path(__file__).parents[2] / "mcp_library.py"
CONNECTION: Any = {"transport": "stdio", "command": sys.executable, "args": [str(SERVER)]}


@pytest.fixture(scope="module")
def tools() -> list[BaseTool]:
    return asyncio.run(MultiServerMCPClient({"library": CONNECTION}).get_tools())


def by_id(told: list[ag.AgentEvent]) -> dict[str, ToolMessage]:
    found = [event.message for event in told if isinstance(event.message, ToolMessage)]
    return {each.name or "": each for each in found}


def test_everything_that_mcp_tools_give_is_kept_and_told_again(
    drive: Drive, tmp_path: Path, tools: list[BaseTool]
) -> None:
    """They are async alone: a sync run awaits them in a loop of its own."""
    made = [
        call("shelf", topic="bees"),
        *(call(name, title="Bees") for name in ("book", "cover", "note", "lend")),
        call("shelf", subject="bees"),
    ]
    provider = {"type": "web_search"}
    model = scripted(calls(*made[:-1]), calls(made[-1]), "Done.")
    tree = ag.chat_agent("w", model, tools=[*tools, provider], on_tool_error="raise")
    disk = Disk(drive, tmp_path / "db")
    told = disk.run(tree)
    results = by_id(told[:6])
    assert results["shelf"].content == [
        {"type": "text", "text": "Shelf of bees", "id": results["shelf"].content[0]["id"]}
    ]  # type: ignore[index]
    assert results["book"].artifact == {"structured_content": {"title": "Bees", "pages": 4}}
    assert [block["type"] for block in results["cover"].content] == ["text", "image"]  # type: ignore[index]
    image: Any = results["cover"].content[1]
    assert base64.b64decode(image["base64"]).startswith(b"\x89PNG")
    assert [block["text"] for block in results["note"].content] == ["See the note.", "Note in Bees"]  # type: ignore[index]
    assert results["lend"].status == "error"
    assert "Bees is lent out" in results["lend"].text
    assert told[-2].message is not None
    assert "subject" in told[-2].text
    assert told[-1].text == "Done."
    assert sorted(disk.events(tree), key=told.index) == told
    assert model.tools[-1] == provider
    assert [each["function"]["name"] for each in model.tools[:-1]] == [each.name for each in tools]
    sent = [each for each in model.inputs[1] if isinstance(each, ToolMessage)]
    assert [each.artifact for each in sent] == [results[each.name or ""].artifact for each in sent]


def test_a_retry_and_a_wrap_go_round_an_mcp_tool(drive: Drive, tools: list[BaseTool]) -> None:
    given = next(each for each in tools if each.name == "book").with_retry(
        wait_exponential_jitter=False
    )
    model = scripted(calls(call("book", title="Ants")), "Done.")
    told = list(drive.run(ag.Runner(ag.chat_agent("w", model, tools=[given])), "Go."))
    assert by_id(told)["book"].artifact == {"structured_content": {"title": "Ants", "pages": 4}}


def test_an_interceptor_sees_what_the_agent_sees(drive: Drive) -> None:
    seen: list[Any] = []

    async def intercept(request: Any, handler: Any) -> Any:
        runtime: ToolRuntime = request.runtime
        seen.append([message.text for message in runtime.state["messages"] if message.text])
        return await handler(request)

    client = MultiServerMCPClient({"library": CONNECTION}, tool_interceptors=[intercept])
    given = asyncio.run(client.get_tools())
    model = scripted(calls(call("shelf", topic="bees")), "Done.")
    first = ag.function_agent("first", lambda ctx: "Before.")
    tree = ag.sequential("s", [first, ag.chat_agent("w", model, tools=given, history="input")])
    assert transcript(drive.run(ag.Runner(tree), "Go."))[-1] == "s/first/w: Done."
    assert seen == [["Go."]]


def test_an_mcp_error_that_is_raised_is_an_exception_of_the_tool(drive: Drive) -> None:
    client = MultiServerMCPClient({"library": CONNECTION}, handle_tool_errors=False)
    given = asyncio.run(client.get_tools())
    model = scripted(calls(call("lend", title="Bees")))
    writer = ag.chat_agent("w", model, tools=given, on_tool_error="raise")
    _, raised = failing(drive.run(ag.Runner(writer), "Go."), ToolException)
    assert "Bees is lent out" in str(raised)


# the same forms without a server


def look(title: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Look at a book."""
    data = base64.b64encode(b"pixels").decode()
    blocks = [
        {"type": "text", "text": f"The cover of {title}"},
        {"type": "image", "base64": data, "mime_type": "image/png"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
    ]
    return blocks, {"title": title, "size": len(data)}


@pytest.mark.parametrize("several", [1, 2])
def test_content_and_artifact_are_kept_and_told_again(
    drive: Drive, tmp_path: Path, several: int
) -> None:
    given = StructuredTool.from_function(look, response_format="content_and_artifact")
    blocks, artifact = look("Bees")
    model = scripted(calls(*[call("look", title="Bees")] * several), "Done.", "Again.")
    tree = ag.chat_agent("w", model, tools=[given])
    disk = Disk(drive, tmp_path / "db")
    told = disk.run(tree)
    result = told[1].message
    assert isinstance(result, ToolMessage)
    assert (result.content, result.artifact) == (blocks, artifact)
    assert sorted(disk.events(tree), key=told.index) == told
    disk.run(tree, "More.")
    kept = [each for each in model.inputs[2] if isinstance(each, ToolMessage)]
    assert [(each.content, each.artifact) for each in kept] == [(blocks, artifact)] * several


def test_others_are_shown_the_image_of_a_result(drive: Drive) -> None:
    given = StructuredTool.from_function(look, response_format="content_and_artifact")
    model, critic = scripted(calls(call("look", title="Bees")), "Done."), scripted("Nice.")
    tree = ag.sequential(
        "s", [ag.chat_agent("w", model, tools=[given]), ag.chat_agent("critic", critic)]
    )
    runner = ag.Runner(tree, checkpointer=InMemorySaver())
    list(drive.run(runner, "Go.", thread_id="t"))
    shown = [each for each in critic.inputs[0] if isinstance(each.content, list)]
    assert [block["type"] for block in shown[0].content] == ["text", "text", "image", "image_url"]  # type: ignore[index]
