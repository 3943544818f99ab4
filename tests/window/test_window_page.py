"""The window as a whole: failures, questions, kills, hostile texts, themes, sizes, keys."""

from collections.abc import Callable

import pytest
import window_trees
from helpers.pages import free_port
from helpers.web_server import Wire
from helpers.web_trees import HOSTILE
from selenium.webdriver import Keys
from window_page import WindowPage
from window_process import WindowServer

import agentgraph as ag

Open = Callable[..., WindowPage]


def test_a_failure_says_what_failed_and_why(server: WindowServer, tab: Open) -> None:
    server.run("fail", "failing", until="failed")
    page = tab(server, "failing")
    page.waits_for_status("failed")
    page.wait_for(lambda: "The ink is empty." in page.text(".notice.bad"))
    assert page.text(".notice.bad").startswith("printer failed.")
    page.wait_for(lambda: page.boxes["printer"] == "failed")
    page.click(".notice.bad button")
    page.wait_for(lambda: page.selected.startswith("printer, does/printer, Failed"))
    assert page.tab_shown == "detail"
    page.click(".notice.bad button:last-child")
    page.wait_for(lambda: page.text(".notice.bad").startswith("printer failed again at "))
    server.gate("failing", "mended")
    page.click(".notice.bad button:last-child")
    page.waits_for_status("done")
    page.wait_for(lambda: page.boxes["printer"] == "done")
    assert page.texts(".summary .notice") == []


def test_a_missing_value_opens_the_field_that_it_needs(server: WindowServer, tab: Open) -> None:
    server.run("rhyme", "rhyming", until="failed")
    page = tab(server, "rhyming")
    page.wait_for(lambda: page.texts(".notice.bad button") == ["Open activation", "Set value topic"])
    page.click(".notice.bad button:last-child")
    page.wait_for(lambda: page.script("return document.activeElement.value") == '{"topic": ""}')
    assert "The run has no value topic." in page.text(".tab-actions .resume")
    page.keys("bees")
    page.click(".tab-actions .resume .primary")
    page.waits_for_status("done")
    page.wait_for(lambda: page.text(".summary-said") == "Output\nRhyme on bees. Done.")


def test_a_stop_is_under_way_until_the_step_has_ended(server: WindowServer, tab: Open) -> None:
    page = tab(server, "stopping")
    server.call("start", text="gated", thread_id="stopping")
    page.wait_for(lambda: page.boxes["walk"] == "running")
    page.wait_for(lambda: page.text(f"{page.box('walk')} .box-facts").endswith(" s"))
    page.leave_fields()
    page.keys("3")
    page.click(".tab-actions .stop")
    page.wait_for(lambda: "Stopping…" in page.text(".head .pill"))
    server.gate("stopping", "walk0")
    page.waits_for_status("stopped")
    assert page.texts(".notice.stopped button") == ["Resume run", "Show run options"]
    server.gate("stopping", *(f"walk{lap}" for lap in range(1, 5)), "rest")
    page.click(".notice.stopped button")
    page.waits_for_status("done")


def test_a_question_that_waits_is_shown_and_answered(server: WindowServer, tab: Open) -> None:
    server.run("print", "asked", until="paused")
    page = tab(server, "asked")
    page.wait_for(lambda: page.tab_shown == "questions")
    assert page.text(".tab[data-tab=questions] .badge") == "1"
    page.wait_for(lambda: "Print it?" in page.text(".tab-questions"))
    page.leave_fields()
    page.keys("1")
    page.wait_for(lambda: page.text(".notice.ask") == "boss asks: Print it? Answer question")
    page.click(".notice.ask button")
    page.wait_for(lambda: page.tab_shown == "questions")
    page.find(".tab-questions input[type=radio]").click()
    page.click(".tab-questions button.primary")
    page.waits_for_status("done")
    page.wait_for(lambda: page.boxes["boss"] == "done")
    assert page.texts(".summary .notice") == []
    assert not page.find(".tab[data-tab=questions] .badge").is_displayed()


def test_a_server_that_is_killed_and_started_again(own_server: WindowServer, tab: Open) -> None:
    page = tab(own_server, "killed")
    own_server.call("start", text="gated", thread_id="killed")
    page.wait_for(lambda: page.boxes["walk"] == "running")
    page.script("window.isTheSamePage = true")
    own_server.kill()
    page.wait_for(lambda: page.text(".connection") == "Not connected")
    assert "does not answer" in page.text(".alert.lost")
    own_server.start()
    page.wait_for(lambda: page.text(".connection") == "Connected")
    page.waits_for_status("stopped")
    page.wait_for(lambda: page.boxes["walk"] == "stopped")
    own_server.gate("killed", *(f"walk{lap}" for lap in range(5)), "rest")
    own_server.call("resume", thread_id="killed")
    page.waits_for_status("done")
    page.wait_for(lambda: page.boxes["rest"] == "done")
    assert page.script("return window.isTheSamePage")
    assert not page.find(".alert.lost").is_displayed()


def test_a_connection_that_is_cut_while_the_server_goes_on(
    own_server: WindowServer, wire: Wire, tab: Open
) -> None:
    page = tab(wire, "cut")
    own_server.call("start", text="gated", thread_id="cut")
    page.wait_for(lambda: page.boxes["walk"] == "running")
    page.script("window.isTheSamePage = true")
    wire.cut()
    page.wait_for(lambda: page.text(".connection") == "Not connected")
    own_server.gate("cut", *(f"walk{lap}" for lap in range(5)), "rest")
    own_server.waits(lambda: own_server.call("thread", thread_id="cut")["status"] == "done")
    assert page.boxes["walk"] == "running"
    wire.is_cut = False
    page.wait_for(lambda: page.text(".connection") == "Connected")
    page.waits_for_status("done")
    page.wait_for(lambda: page.boxes["rest"] == "done")
    assert page.script("return window.isTheSamePage")


def test_a_server_with_another_token_is_told_apart(
    own_server: WindowServer, tab: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_server.run("shout", "secret")
    page = tab(own_server, "secret")
    page.waits_for_status("done")
    own_server.kill()
    page.wait_for(lambda: page.text(".connection") == "Not connected")
    monkeypatch.setenv("TEST_TOKEN", "another-token")
    own_server.start()
    page.wait_for(lambda: "with another token" in page.text(".alert.lost"))
    own_server.kill()
    monkeypatch.delenv("TEST_TOKEN")
    own_server.start()
    page.wait_for(lambda: page.text(".connection") == "Connected")


def test_what_another_process_writes_is_followed(own_server: WindowServer, tab: Open) -> None:
    page = tab(own_server, "elsewhere")
    other = WindowServer.__new__(WindowServer)
    other.__dict__.update(own_server.__dict__)
    other.port = free_port()
    other.url = f"http://127.0.0.1:{other.port}"
    other.start()
    try:
        other.call("start", text="gated", thread_id="elsewhere")
        page.wait_for(lambda: page.boxes["walk"] == "running")
        other.gate("elsewhere", *(f"walk{lap}" for lap in range(5)), "rest")
        page.waits_for_status("done")
    finally:
        other.stop()


@pytest.mark.parametrize("thread_id", [HOSTILE[:60], window_trees.RTL, "a b&c=d#e/../%41"])
def test_hostile_names_and_texts_are_only_text(server: WindowServer, tab: Open, thread_id: str) -> None:
    server.run("shout", thread_id)
    page = tab(server, thread_id)
    page.waits_for_status("done")
    page.wait_for(lambda: HOSTILE in page.text(".summary-said"))
    page.wait_for(lambda: len(page.texts(".thread.is-open")) == 1)
    page.wait_for(lambda: page.boxes["shout"] == "done")
    page.click(f"{page.box('shout')} .box-open")
    page.wait_for(lambda: HOSTILE in page.text(".tab-detail"))
    assert page.script("return window.hacked ?? null") is None
    assert (
        page.script("return document.querySelectorAll('img, iframe, a, script:not([src])').length") == 0
    )
    spoofed = page.script("return document.querySelector('.thread.is-open').innerText")
    assert "\u202e" not in spoofed


def test_a_text_of_megabytes_is_cut_until_all_is_wanted(server: WindowServer, tab: Open) -> None:
    server.run("huge", "megabytes")
    page = tab(server, "megabytes")
    page.waits_for_status("done")
    page.wait_for(lambda: page.text(".summary-said"))
    most = page.script("return document.body.textContent.length")
    assert most < 100_000
    page.wait_for(lambda: page.boxes["huge"] == "done")
    page.click(f"{page.box('huge')} .box-open")
    page.wait_for(lambda: "Show all" in page.text(".tab-detail"))
    assert page.script("return document.body.textContent.length") < 200_000
    page.click(".tab-detail .show-all")
    whole = window_trees.MEGABYTES * 1_000_000
    page.wait_for(lambda: page.script("return document.body.textContent.length") > whole * 0.99)


def test_help_theme_and_tabs_by_keys(server: WindowServer, tab: Open) -> None:
    page = tab(server)
    page.leave_fields()
    page.keys("?")
    page.wait_for(lambda: page.find(".help").is_displayed())
    assert page.text(".help h2") == f"agentgraph {ag.__version__}"
    assert "dark and light" in page.text(".help")
    assert page.script("return document.activeElement === document.querySelector('.help h2')")
    page.keys(Keys.ESCAPE)
    page.wait_for(lambda: not page.find(".help").is_displayed())
    ground = "return getComputedStyle(document.querySelector('.agentgraph-window')).backgroundColor"
    before = page.script(ground)
    page.keys("t")
    page.wait_for(lambda: page.script(ground) != before)
    page.driver.refresh()
    page.opens()
    assert page.script(ground) != before
    page.leave_fields()
    page.keys("t")
    page.wait_for(lambda: page.script(ground) == before)
    assert "enter the timeline" in page.script("return document.querySelector('.help').textContent")
    for key, name in [("1", "detail"), ("2", "questions"), ("4", "machine"), ("3", "actions")]:
        page.keys(key)
        page.wait_for(lambda name=name: page.tab_shown == name)


def test_it_is_dark_where_people_want_it_dark(server: WindowServer, tab: Open) -> None:
    page = tab(server)
    brightness = """
      const colour = getComputedStyle(document.querySelector('.agentgraph-window')).backgroundColor;
      return Math.max(...colour.match(/\\d+/g).slice(0, 3).map(Number))"""
    for scheme, is_dark in [("dark", True), ("light", False)]:
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
        assert (page.script(brightness) < 80) is is_dark


@pytest.mark.parametrize("size", [(1280, 800), (1600, 1000), (800, 900)])
def test_it_fits_windows(server: WindowServer, tab: Open, size: tuple[int, int]) -> None:
    thread_id = f"sized-{size[0]}"
    server.run("print", thread_id, until="paused")
    page = tab(server, thread_id)
    page.driver.set_window_size(*size)
    try:
        page.waits_for_status("paused")
        page.waits_for_bars(10)
        wide = page.script("return document.documentElement.scrollWidth <= innerWidth")
        high = page.script("return document.documentElement.scrollHeight <= innerHeight")
        assert wide
        assert high
        for css in (".tree-scroller", ".timeline-scroller", ".tabbed", ".new-run", ".thread-search"):
            box = page.find(css).rect
            assert min(box["width"] - 60, box["height"] - 25) >= 0, css
            assert 0 <= box["x"] <= size[0] - box["width"], css
    finally:
        page.driver.set_window_size(1280, 900)


def test_a_narrow_window_is_one_column_with_the_threads_above_it(
    server: WindowServer, tab: Open
) -> None:
    server.run("print", "narrow", until="paused")
    server.run("shout", "beside-narrow")
    page = tab(server)
    metrics = {"width": 420, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    page.driver.get(f"{server.url}/?thread=narrow")
    page.opens().waits_for_status("paused")
    assert page.script("return document.documentElement.scrollWidth <= innerWidth")
    assert not page.find(".left").is_displayed()
    assert page.find(".tree-scroller").size["width"] > 380
    page.click(".notice.ask button")
    top = "return document.querySelector('.card').getBoundingClientRect().y"
    page.wait_for(lambda: 0 <= page.script(top) < 450)
    head = "return document.querySelector('.right').getBoundingClientRect().y"
    page.script("document.querySelector('.body').scrollTop = 0")
    page.script("document.querySelector('.box[data-place=boss] .box-open').click()")
    page.wait_for(lambda: page.tab_shown == "detail" and 0 <= page.script(head) < 450)
    page.click(".toggle-left")
    wide = {**metrics, "width": 1280}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", wide)
    page.wait_for(lambda: page.find(".left").is_displayed())
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    page.wait_for(lambda: not page.find(".left").is_displayed())
    page.click(".toggle-left")
    page.click(f"{page.thread_row('beside-narrow')} .thread-open")
    page.waits_for_status("done")
    page.wait_for(lambda: not page.find(".left").is_displayed())


def test_parts_are_resized_and_hidden(server: WindowServer, tab: Open) -> None:
    page = tab(server)
    left = page.find(".left").size["width"]
    border = page.find(".left > .border")
    for _ in range(3):
        border.send_keys(Keys.ARROW_RIGHT)
    page.wait_for(lambda: page.find(".left").size["width"] == left + 72)
    page.click(".toggle-right")
    page.wait_for(lambda: not page.find(".right").is_displayed())
    page.driver.refresh()
    page.opens()
    assert page.find(".left").size["width"] == left + 72
    assert not page.find(".right").is_displayed()
    page.click(".toggle-right")
    page.wait_for(lambda: page.find(".right").is_displayed())


def test_pages_that_were_left_keep_no_connection(server: WindowServer, tab: Open) -> None:
    server.run("shout", "left")
    page = tab(server, "left")
    page.driver.set_page_load_timeout(30)  # with six connections in use, the next page waits longer
    try:
        for number in range(8):
            page.driver.get(f"{server.url}/?thread=left&number={number}")
            page.opens().waits_for_status("done")
    finally:
        page.driver.set_page_load_timeout(300)
    page.driver.back()
    page.wait_for(lambda: page.text(".connection") == "Connected")
