"""The panels as a person uses them, in a real Chromium, served by a real process."""

from pathlib import Path
from urllib.parse import urlencode

import panel_trees
from helpers.web_page import Tab, fill
from helpers.web_server import Server
from selenium.common.exceptions import NoSuchElementException
from selenium.webdriver import Chrome
from selenium.webdriver.remote.webelement import WebElement
from window_process import WindowServer

_BUTTON = """
return [...document.querySelectorAll(arguments[0] + ' button')].find(each =>
    (each.innerText === arguments[1] || each.getAttribute('aria-label') === arguments[1])
    && each.offsetParent && !each.disabled)
"""
_UNFOLD = """
const found = [...document.querySelectorAll(arguments[1] + ' summary')].find(each =>
    each.innerText.startsWith(arguments[0]) && each.offsetParent);
if (found && !found.parentNode.open) found.click();
return !!found
"""
_SELECT = """
const bar = [...store.state.bars.values()].reverse().find(each =>
    each.kind === 'agent' && each.address === arguments[0]
    && (arguments[1] ? each.state === arguments[1] : each.state !== 'void'));
if (bar) store.select(bar.id);
return !!bar
"""


class PanelServer(WindowServer):
    """A process that serves the tree of `panel_trees`."""

    script = panel_trees.__file__
    token = panel_trees.TOKEN

    def __init__(self, folder: Path, name: str = "panels") -> None:
        Server.__init__(self, name, folder)

    def gate(self, thread_id: str, *numbers: int) -> None:
        """Let calls of the model of a thread go on."""
        for number in numbers:
            (panel_trees.gates_of(str(self.folder), thread_id) / str(number)).touch()

    def waits_for_status(self, thread_id: str, status: str) -> None:
        self.waits(lambda: self.call("thread", thread_id=thread_id)["status"] == status)

    def address_of(self, thread_id: str) -> str:
        query = urlencode({"token": self.token, "thread": thread_id})
        return f"{self.url}/page/panels.html?{query}"


class Panels(Tab):
    """A tab with the panels of a thread."""

    def __init__(self, driver: Chrome, server: PanelServer, thread_id: str) -> None:
        super().__init__(driver)
        self.server, self.thread_id = server, thread_id
        driver.get(server.address_of(thread_id))
        self.wait_for(lambda: self.script("return window.isOpen && !!store.state.thread"))

    @property
    def status(self) -> str:
        return str(self.script("return store.state.thread?.status"))

    @property
    def last(self) -> str:
        return str(self.script("return store.state.thread?.last"))

    @property
    def thread_shown(self) -> str:
        return str(self.script("return store.state.threadId"))

    def run(self, text: str, *, until: str = "done") -> None:
        """Run a turn on the thread, and wait until the page knows how it ended."""
        self.server.run(text, self.thread_id, until=until)
        self.waits_for_status(until)

    def waits_for_status(self, status: str) -> None:
        self.wait_for(lambda: self.status == status)

    def press(self, label: str, inside: str = "body") -> None:
        """Press the button with a text or label inside an element."""
        self.wait_for(lambda: self.script(_BUTTON, inside, label))
        self.script(_BUTTON, inside, label).click()

    def unfold(self, title: str, inside: str = "body") -> None:
        """Unfold a part by the beginning of its title."""
        self.wait_for(lambda: self.script(_UNFOLD, title, inside))

    def labelled(self, label: str, inside: str = "body") -> WebElement:
        """Return the first input that is shown with a label, which begins so, inside an element."""
        labels = self.driver.find_elements("css selector", f"{inside} label")
        shown = (each for each in labels if each.is_displayed())
        found = next((each for each in shown if each.text.startswith(label)), None)
        if found is None:
            raise NoSuchElementException(f"{label}: {[each.text for each in labels]}")
        name = found.get_attribute("for")
        return self.find(f"#{name}") if name else found.find_element("css selector", "input, select")

    def waits_for_label(self, label: str, inside: str = "body") -> WebElement:
        self.wait_for(lambda: self.labelled(label, inside))
        return self.labelled(label, inside)

    def fill(self, inside: str = "body", **answers: object) -> None:
        """Fill fields by their labels: True clicks, a text types or chooses."""
        for label, value in answers.items():
            fill(self.waits_for_label(label, inside), value)

    def select(self, address: str, state: str | None = None) -> None:
        """Select the bar of an activation, as the timeline does."""
        self.wait_for(lambda: self.script(_SELECT, address, state))

    @property
    def is_hacked(self) -> bool:
        """Whether a text has become more than a text."""
        count = "return document.querySelectorAll('img, a, i, body script').length"
        return self.script("return window.hacked ?? null") is not None or self.script(count) > 0

    def saves_screenshot(self, name: str) -> None:
        self.screenshot(Path("/tmp") / f"panels-{name}.png")
