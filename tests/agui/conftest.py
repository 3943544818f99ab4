"""A server of AG-UI for the tests, and clients of it."""

from collections.abc import Callable, Iterator

import agui_server
import pytest
from agui_client import Client

TOOLS = [
    {"name": "set_color", "description": "Set the color.", "parameters": {"type": "object"}},
    {"name": "look", "description": "Look at the page."},
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with agui_server.serving(agui_server.runners_of()) as address:
        yield address


@pytest.fixture
def client(address: str, request: pytest.FixtureRequest) -> Callable[[str], Client]:
    """Return what makes a client of a tree, on a thread of its own."""
    return lambda tree: Client(f"{address}/{tree}", f"{request.node.name}-{tree}", TOOLS)
