"""A real Chromium, without a window, and servers of the window on runs."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers.web_page import chromium_in
from helpers.web_server import Wire
from panel_pages import Panels, PanelServer
from selenium.webdriver import Chrome
from window_page import WindowPage
from window_process import WindowServer


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    driver = chromium_in(tmp_path_factory.mktemp("chromium"))
    driver.set_window_size(1280, 900)
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WindowServer]:
    server = WindowServer(tmp_path_factory.mktemp("window"))
    yield server
    server.stop()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[WindowServer]:
    """A server for one test."""
    server = WindowServer(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def wire(own_server: WindowServer) -> Iterator[Wire]:
    """A connection to the server that can be cut."""
    wire = Wire(own_server)
    yield wire
    wire.close()


@pytest.fixture
def tab(chromium: Chrome) -> Iterator[Callable[..., WindowPage]]:
    """Open a thread of a server in a tab of its own: `tab(server, thread_id)`."""
    (first,) = chromium.window_handles

    def opened(server: WindowServer | Wire, thread_id: str = "") -> WindowPage:
        chromium.switch_to.new_window("tab")
        return WindowPage(chromium, server, thread_id).opens()

    yield opened
    closes_tabs(chromium, first)


def closes_tabs(chromium: Chrome, first: str) -> None:
    """Close all tabs but the first; nothing may have gone wrong in their scripts."""
    faults = [each["message"] for each in chromium.get_log("browser")]
    for handle in chromium.window_handles:
        if handle != first:
            chromium.switch_to.window(handle)
            chromium.execute_script("localStorage.clear()")
            chromium.close()
    chromium.switch_to.window(first)
    broken = ("Uncaught", "Content Security Policy", "Content-Security-Policy")
    assert not [each for each in faults if any(word in each for word in broken)]


@pytest.fixture(scope="session")
def panel_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PanelServer]:
    server = PanelServer(tmp_path_factory.mktemp("panels"))
    yield server
    server.stop()


@pytest.fixture
def new_panels(chromium: Chrome) -> Iterator[Callable[[PanelServer, str], Panels]]:
    """Open the panels of a thread in a tab of their own: `new_panels(server, thread_id)`."""
    (first,) = chromium.window_handles

    def opened(server: PanelServer, thread_id: str) -> Panels:
        chromium.switch_to.new_window("tab")
        return Panels(chromium, server, thread_id)

    yield opened
    closes_tabs(chromium, first)


@pytest.fixture
def panels(
    new_panels: Callable[[PanelServer, str], Panels],
    panel_server: PanelServer,
    request: pytest.FixtureRequest,
) -> Iterator[Panels]:
    """The panels in a tab, with a new thread, which has the name of the test."""
    yield new_panels(panel_server, request.node.name)
    panel_server.gate(request.node.name, *range(1, 9))
