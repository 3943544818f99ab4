"""The window as a person uses it: what it shows, and what one does there."""

from urllib.parse import quote

from helpers.web_page import Tab
from helpers.web_server import Wire
from selenium.webdriver import ActionChains, Chrome, Keys
from window_process import WindowServer

_BOXES = """
return Object.fromEntries([...document.querySelectorAll('.box')].map(each => [
    each.dataset.place, each.dataset.state]))
"""


class WindowPage(Tab):
    """A tab with the window."""

    def __init__(self, driver: Chrome, server: WindowServer | Wire, thread_id: str = "") -> None:
        super().__init__(driver)
        query = f"token={WindowServer.token}&thread={quote(thread_id, safe='')}"
        driver.get(f"{server.url}/?{query}")

    def opens(self) -> "WindowPage":
        self.wait_for(lambda: self.script("return !!document.querySelector('.agentgraph-window .box')"))
        return self

    # what it shows

    @property
    def status(self) -> str:
        return self.text(".head .pill").partition(" ")[2].lower()

    def waits_for_status(self, status: str) -> None:
        self.wait_for(lambda: self.status == status)

    @property
    def boxes(self) -> dict[str, str]:
        """How each box stands, by the id of its place."""
        return dict(self.script(_BOXES))

    def waits_for_bars(self, number: int) -> None:
        self.wait_for(lambda: self.number("bars") >= number)

    def number(self, name: str) -> float:
        """Return what the timeline says of itself: bars, rows, drawn, scale, left."""
        return float(
            self.script(f"return document.querySelector('.timeline-scroller').dataset.{name} ?? 0")
        )

    @property
    def selected(self) -> str:
        """The selected bar, as a screen reader says it."""
        return self.text(".timeline-scroller [role=option][aria-selected=true]")

    @property
    def tab_shown(self) -> str:
        return str(
            self.script("return document.querySelector('.right .tab[aria-selected=true]').dataset.tab")
        )

    @property
    def nodes(self) -> int:
        return int(self.script("return document.querySelectorAll('*').length"))

    @property
    def search(self) -> str:
        return str(self.script("return location.search"))

    def box(self, place: str) -> str:
        return f".box[data-place='{place}'] > .box-head"

    # what one does

    def keys(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def leave_fields(self) -> None:
        self.script("document.activeElement.blur()")

    def in_timeline(self, *keys: str) -> None:
        self.script("document.querySelector('.timeline-scroller').focus()")
        self.keys(*keys)

    def click_at(self, x: float, y: float) -> None:
        """Click into the timeline, at a place in the canvas."""
        canvas = self.find(".timeline-scroller")
        ActionChains(self.driver).move_to_element_with_offset(
            canvas, int(x - canvas.size["width"] / 2), int(y - canvas.size["height"] / 2)
        ).click().perform()

    def thread_row(self, thread_id: str) -> str:
        return f".thread[data-thread='{thread_id}']"

    def searches(self, word: str) -> None:
        box = self.find(".thread-search")
        box.clear()
        box.send_keys(word or Keys.BACKSPACE)
