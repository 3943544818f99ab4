"""The page for keyboards and screen readers: axe finds no violation in its main states."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from window_page import WindowPage
from window_process import WindowServer

import agentgraph

AXE = Path(agentgraph.__file__).parents[1] / "node_modules/axe-core/axe.min.js"
_VIOLATIONS = """
const done = arguments[0];
axe.run(document, {resultTypes: ['violations']}).then(({violations}) => done(violations.flatMap(
    ({id, nodes}) => nodes.map(({html, failureSummary}) => `${id}: ${html} ${failureSummary}`))));
"""

LOOKS = {"light": ("light", 1280), "dark": ("dark", 1280), "narrow": ("light", 420)}


@pytest.fixture(scope="module", autouse=True)
def threads(server: WindowServer) -> None:
    server.run("print", "axe-paused", until="paused")
    server.run("fail", "axe-failed", until="failed")
    server.run("house", "axe-done")
    server.run("pages 9", "axe-items", until="paused")


def states(page: WindowPage, server: WindowServer) -> Iterator[str]:
    """Bring the page into its main states, one after the other."""

    def opens(thread_id: str, status: str) -> None:
        page.driver.get(f"{server.url}/?thread={thread_id}")
        page.opens().wait_for(lambda: page.status == status)

    page.script("document.querySelector('.new-run').click()")
    yield "a new run"
    opens("axe-paused", "paused")
    page.wait_for(lambda: page.texts(".card"))
    yield "a question"
    opens("axe-items", "paused")
    page.wait_for(lambda: page.texts(".chip.item"))
    page.script("document.querySelector('[data-tab=actions]').click()")
    page.script("document.querySelectorAll('.tab-actions form summary').forEach(each => each.click())")
    page.wait_for(lambda: page.texts(".tab-actions form .value-names button"))
    yield "a run that waits"
    opens("axe-failed", "failed")
    page.wait_for(lambda: page.texts(".notice.bad button"))
    page.click(".notice.bad button")
    page.wait_for(lambda: page.texts(".tab-detail .part"))
    yield "a failed activation"
    opens("axe-done", "done")
    page.wait_for(lambda: page.boxes.get("bob") == "done")
    page.click(f"{page.box('lead')} .box-open")
    page.wait_for(lambda: page.texts(".tab-detail .message"))
    yield "an activation"
    page.click("[data-tab=talk]")
    page.wait_for(lambda: page.texts(".talk-flow .bubble"))
    page.click(".tool-call summary")
    page.script("document.querySelector('.sent .act').click()")
    yield "a conversation"
    page.click("[data-tab=events]")
    page.wait_for(lambda: page.texts(".event-row"))
    page.click(".event-row summary")
    yield "the events"
    page.click("[data-tab=agents]")
    page.wait_for(lambda: page.texts(".flame-name"))
    yield "the agents"
    page.click("[data-tab=work]")
    page.click(".tab-detail .again-here button")
    page.script(
        "document.querySelectorAll('.machine .part:not([open]) > summary').forEach(e => e.click())"
    )
    page.wait_for(lambda: page.texts(".machine .lines li"))
    yield "a rewind"
    page.click(".tree-legend")
    yield "the legend"
    for view in page.script(
        "return [...document.querySelectorAll('.middle .tab')].map(e => e.dataset.tab)"
    ):
        page.click(f".middle .tab[data-tab={view}]")
        page.wait_for(lambda view=view: page.texts(f".tab-{view}:not([hidden])"))
        yield f"the view {view}"
    page.click(".help-button")
    yield "the help"


@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_no_violation(
    server: WindowServer, tab: Callable[..., WindowPage], look: str
) -> None:
    scheme, width = LOOKS[look]
    page = tab(server)
    features = [
        {"name": "prefers-color-scheme", "value": scheme},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    found: dict[str, list[str]] = {}
    for state in states(page, server):
        page.script(AXE.read_text())
        found[state] = page.driver.execute_async_script(_VIOLATIONS)
    assert not any(found.values()), found
