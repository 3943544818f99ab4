"""Tools of a real MCP server, through langchain-mcp-adapters: what they return is kept."""

import asyncio
import base64
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from helpers import Async, Disk, Drive, failing, mcp_library, says, scripted
from helpers.commands import wait_until
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langchain_mcp_adapters.client import MultiServerMCPClient
from langgraph.prebuilt import ToolRuntime

import agentgraph as ag
from agentgraph.testing import call, calls


@pytest.fixture(scope="module")
def library() -> Iterator[str]:
    """Run the server on the loopback address, in a thread, and give its address."""
    app = mcp_library.server.streamable_http_app()
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_until(lambda: server.started)
    host, port = server.servers[0].sockets[0].getsockname()
    yield f"http://{host}:{port}/mcp"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def seen() -> list[list[str]]:
    """What the interceptor has seen, call by call."""
    return []


@pytest.fixture(scope="module")
def tools(library: str, seen: list[list[str]]) -> list[BaseTool]:
    async def intercept(request: Any, handler: Any) -> Any:
        runtime: ToolRuntime = request.runtime
        seen.append([message.text for message in runtime.state["messages"] if message.text])
        return await handler(request)

    return served(library, tool_interceptors=[intercept])


@pytest.fixture(scope="module")
def raising(library: str) -> dict[str, BaseTool]:
    """The tools by name, whose errors are exceptions."""
    return {each.name: each for each in served(library, handle_tool_errors=False)}


def served(url: str, **options: Any) -> list[BaseTool]:
    connection: Any = {"transport": "streamable_http", "url": url}
    client = MultiServerMCPClient({"library": connection}, **options)
    return asyncio.run(client.get_tools())


def results(messages: Any) -> dict[str, ToolMessage]:
    """Return the results of tools among messages, by the names of the tools."""
    return {each.name: each for each in messages if isinstance(each, ToolMessage)}


def kinds(message: Any) -> list[str]:
    return [block["type"] for block in message.content]


def test_all_that_mcp_tools_return_is_kept(
    tmp_path: Path, tools: list[BaseTool], seen: list[list[str]]
) -> None:
    disk = Disk(Async, tmp_path / "threads.db")
    names = ("book", "cover", "note", "lend")
    made = [call("shelf", topic="bees"), *(call(name, title="Bees") for name in names)]
    provider = {"type": "web_search"}
    model = scripted(calls(*made), calls(call("shelf", subject="bees")), "Done.")
    writer = ag.chat_agent("w", model, tools=[*tools, provider], on_tool_error="raise", history="input")
    tree = ag.sequential("s", [says("first", "Before."), writer])
    events = disk.run(tree)
    assert sorted(disk.events(tree), key=events.index) == events
    *said, wrong, last = [event.message for event in events]
    found = results(said)
    shelf, book, cover, note, lend = [found[each["name"]] for each in made]
    assert shelf.text == "Shelf of bees"
    assert book.artifact == {"structured_content": {"title": "Bees", "pages": 4}}
    assert kinds(cover) == ["text", "image"]
    assert base64.b64decode(cover.content[1]["base64"]).startswith(b"\x89PNG")  # type: ignore[index]
    assert [block["text"] for block in note.content] == ["See the note.", "Note in Bees"]  # type: ignore[index]
    assert lend.status == "error"
    assert "Bees is lent out" in lend.text
    assert "subject" in wrong.text  # type: ignore[union-attr]
    assert last.text == "Done."  # type: ignore[union-attr]
    sent = results(model.inputs[1])
    assert [sent[name].artifact for name in found] == [each.artifact for each in found.values()]
    assert model.tools[-1] == provider
    assert [each["function"]["name"] for each in model.tools[:-1]] == [each.name for each in tools]
    assert seen[0] == ["Go."]


def test_an_mcp_tool_may_be_retried_and_its_errors_raised(
    drive: Drive, raising: dict[str, BaseTool]
) -> None:
    """The tools are async alone: a sync run awaits them in a loop of its own."""
    book = raising["book"].with_retry(wait_exponential_jitter=False)
    model = scripted(calls(call("book", title="Ants")), calls(call("lend", title="Bees")))
    writer = ag.chat_agent("w", model, tools=[book, raising["lend"]], on_tool_error="raise")
    events, raised = failing(drive.run(ag.Runner(writer), "Go."), ToolException)
    found = results(event.message for event in events)
    assert found["book"].artifact == {"structured_content": {"title": "Ants", "pages": 4}}
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
def test_content_and_artifact_are_kept_and_others_see_the_images(disk: Disk, several: int) -> None:
    tool = StructuredTool.from_function(look, response_format="content_and_artifact")
    model = scripted(calls(*[call("look", title="Bees")] * several), "Done.", "Again.")
    critic = scripted("Nice.", "Nice.")
    writer = ag.chat_agent("w", model, tools=[tool])
    tree = ag.sequential("s", [writer, ag.chat_agent("critic", critic)])
    events = disk.run(tree)
    assert sorted(disk.events(tree), key=events.index) == events
    disk.run(tree)
    kept = [each for each in model.inputs[2] if isinstance(each, ToolMessage)]
    assert [(each.content, each.artifact) for each in kept] == [look("Bees")] * several
    shown = next(each for each in critic.inputs[0] if isinstance(each.content, list))
    assert kinds(shown) == ["text", "text", "image", "image_url"]
