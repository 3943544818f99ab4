"""The page as a person uses it: what it shows, by roles and labels, and what one does there."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions, Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

PATIENCE = 90.0
_ENTRIES = """
return [...document.querySelectorAll('#log .entry:not(.partial)')].map(each =>
    [each.dataset.id, each.dataset.address, each.dataset.kind, each.dataset.text ?? ''])
"""


COMMANDS = ("chromium", "chromedriver")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--window-size=1000,900"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


def chromium_in(folder: Path) -> Chrome:
    """Start a Chromium, whose profile is in a folder, without a window."""
    found = {name: shutil.which(name) for name in COMMANDS}
    if missing := [name for name, path in found.items() if path is None]:
        pytest.fail(
            f"the tests of the page need {' and '.join(missing)}; install them with "
            "`apt-get install -y --no-install-recommends chromium chromium-driver` (Debian)",
            pytrace=False,
        )
    options = ChromeOptions()
    options.binary_location = str(found["chromium"])
    for flag in (*FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    return Chrome(options, Service(str(found["chromedriver"])))


class Tab:
    """A tab; each call switches to it first."""

    def __init__(self, driver: Chrome) -> None:
        self._driver, self._handle = driver, driver.current_window_handle

    @property
    def driver(self) -> Chrome:
        if self._driver.current_window_handle != self._handle:
            self._driver.switch_to.window(self._handle)
        return self._driver

    def text(self, css: str) -> str:
        """Return the text of the first element that a selector finds; empty if there is none."""
        return str(
            self.driver.execute_script(
                "return document.querySelector(arguments[0])?.innerText ?? ''", css
            )
        )

    def texts(self, css: str) -> list[str]:
        found = "return [...document.querySelectorAll(arguments[0])].map(each => each.innerText)"
        return [str(each) for each in self.driver.execute_script(found, css)]

    def script(self, code: str, *arguments: Any) -> Any:
        return self.driver.execute_script(code, *arguments)

    def wait_for(self, condition: Callable[[], Any]) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                if condition():
                    return
            except (NoSuchElementException, StaleElementReferenceException):
                pass
            assert time.monotonic() < end, f"it did not happen: {self.text('body')}"
            time.sleep(0.02)

    def screenshot(self, path: Path) -> None:
        self.driver.save_screenshot(str(path))

    def click(self, css: str) -> None:
        self.find(css).click()

    def find(self, css: str) -> WebElement:
        return self.driver.find_element("css selector", css)


class Page(Tab):
    """The page of the example."""

    def __init__(self, driver: Chrome, url: str, thread_id: str) -> None:
        super().__init__(driver)
        self.thread_id = thread_id
        driver.get(f"{url}/?thread={quote(thread_id, safe='')}")
        self.wait_for(lambda: self.text("#status") != "…")

    # what it shows

    @property
    def entries(self) -> list[tuple[str, str, str, str]]:
        """The ids, addresses, kinds and texts of all events that are shown whole."""
        return [tuple(each) for each in self.driver.execute_script(_ENTRIES)]

    @property
    def addresses(self) -> list[str]:
        return [each[1] for each in self.entries]

    @property
    def words(self) -> list[str]:
        return [each[3] for each in self.entries if each[2] == "message"]

    @property
    def drafts(self) -> list[str]:
        """The start of each draft."""
        return [text.partition(":")[0] for text in self.words if text.startswith("Draft ")]

    def waits_for_status(self, status: str) -> None:
        self.wait_for(lambda: self.text("#status") == status)

    def waits_at_gate(self, draft: int) -> None:
        """Wait until a draft is being written."""
        self.wait_for(lambda: " ." in self.text(".partial .body"))
        self.wait_for(lambda: f"refine[{draft - 1}]" in self.text(".partial .address"))

    # what one does

    def say(self, text: str, *, while_running: str | None = None) -> None:
        if while_running:
            Select(self.find("#busy")).select_by_value(while_running)
        self.type(text)
        self.find("#text").send_keys(Keys.ENTER)

    def type(self, text: str) -> None:
        box = self.find("#text")
        box.clear()
        box.send_keys(text)

    def labelled(self, label: str) -> WebElement:
        """Return the open form's input with a label, which begins so."""
        labels = self.driver.find_elements("css selector", ".entry.open label")
        found = next((each for each in labels if each.text.startswith(label)), None)
        assert found is not None, (label, [each.text for each in labels])
        name = found.get_attribute("for")
        return self.find(f"#{name}") if name else found.find_element("css selector", "input")

    def fill(self, **answers: object) -> None:
        """Fill fields of the open form by their labels: True clicks, a text types or chooses."""
        for label, value in answers.items():
            fill(self.labelled(label), value)

    def answer(self, **answers: object) -> None:
        """Fill the open form as `fill` does, and send it."""
        self.wait_for(lambda: self.text(".entry.open form"))
        self.fill(**answers)
        self.click(".entry.open form button.primary")


def fill(field: WebElement, value: object) -> None:
    """Fill a field of a form: True clicks, a text types or chooses."""
    if value is True:
        field.click()
    elif field.tag_name == "select":
        Select(field).select_by_visible_text(str(value))
    else:
        field.clear()
        field.send_keys(str(value))
