"""An MCP server, whose tools answer in every form that MCP has."""

from typing import Any

from mcp.server.fastmcp import FastMCP, Image
from mcp.types import EmbeddedResource, TextContent, TextResourceContents
from pydantic import BaseModel

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002"
    "000001e221bc330000000049454e44ae426082"
)
server = FastMCP("library")


class Book(BaseModel):
    """A book."""

    title: str
    pages: int


@server.tool(structured_output=False)
def shelf(topic: str) -> str:
    """Find the shelf of a topic."""
    return f"Shelf of {topic}"


@server.tool()
def book(title: str) -> Book:
    """Look a book up."""
    return Book(title=title, pages=len(title))


@server.tool(structured_output=False)
def cover(title: str) -> list[Any]:
    """Show the cover of a book."""
    return [f"The cover of {title}", Image(data=PIXEL, format="png")]


@server.tool(structured_output=False)
def note(title: str) -> list[Any]:
    """Read the note in a book."""
    resource = TextResourceContents(uri="note://1", mimeType="text/plain", text=f"Note in {title}")  # type: ignore[arg-type]
    return [
        TextContent(type="text", text="See the note."),
        EmbeddedResource(type="resource", resource=resource),
    ]


@server.tool(structured_output=False)
def lend(title: str) -> str:
    """Lend a book."""
    raise ValueError(f"{title} is lent out")
