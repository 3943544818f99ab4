"""A real Chromium, without a window, and servers for the page."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers.web_page import Page, chromium_in
from helpers.web_server import Server, Wire
from selenium.webdriver import Chrome


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    driver = chromium_in(tmp_path_factory.mktemp("chromium"))
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server("everything", tmp_path_factory.mktemp("web"))
    yield server
    server.stop()


@pytest.fixture
def own_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server for one test; its tree is the parameter."""
    server = Server(getattr(request, "param", "everything"), tmp_path)
    yield server
    server.stop()


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    """A connection to the server that can be cut."""
    wire = Wire(server)
    yield wire
    wire.close()


@pytest.fixture
def tab(chromium: Chrome) -> Iterator[Callable[[Server | Wire, str], Page]]:
    """Open a thread of a server in a new tab: `tab(server, thread_id)`."""
    (first,) = chromium.window_handles

    def opened(server: Server | Wire, thread_id: str) -> Page:
        chromium.switch_to.new_window("tab")
        return Page(chromium, server.url, thread_id)

    yield opened
    for handle in chromium.window_handles:
        if handle != first:
            chromium.switch_to.window(handle)
            chromium.close()
    chromium.switch_to.window(first)


@pytest.fixture
def page(
    server: Server, tab: Callable[[Server | Wire, str], Page], request: pytest.FixtureRequest
) -> Iterator[Page]:
    """A tab with a new thread, which has the name of the test."""
    yield tab(server, request.node.name)
    server.gate(request.node.name, *range(1, 9))
