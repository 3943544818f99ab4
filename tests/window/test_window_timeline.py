"""The timeline in the window: bars over time, zoom, keys, waits, and thousands of bars."""

from collections.abc import Callable
from typing import Any

from selenium.webdriver import ActionChains, Keys
from window_page import WindowPage
from window_process import WindowServer

Open = Callable[..., WindowPage]
ROW, RULER = 22, 24


def pixels(page: WindowPage, bar: dict[str, Any], begin: float) -> tuple[float, float]:
    """Return where a bar begins and ends on the canvas."""
    left, scale = page.number("left"), page.number("scale")
    return (bar["began"] - begin - left) * scale, (bar["ended"] - begin - left) * scale


def middle(bar: dict[str, Any]) -> tuple[float, float]:
    """Return when a bar began and ended, without what may overlap in a row: clocks differ a little."""
    slack = (bar["ended"] - bar["began"]) / 5
    return bar["began"] + slack, bar["ended"] - slack


def test_a_bar_for_each_activation_and_what_is_inside(server: WindowServer, tab: Open) -> None:
    server.run("house", "bars")
    page = tab(server, "bars")
    bars = server.bars("bars")
    page.wait_for(lambda: page.number("bars") == page.number("drawn") == len(bars))
    assert {bar["kind"] for bar in bars} == {"agent", "model", "tool"}
    assert page.number("rows") >= 5
    assert "activations" in page.text(".timeline-facts")


def test_branches_are_beside_each_other(server: WindowServer, tab: Open) -> None:
    server.run("print", "beside", until="paused")
    page = tab(server, "beside")
    bars = server.bars("beside")
    page.waits_for_bars(len(bars))
    readers = [middle(bar) for bar in bars if bar["agent_name"].startswith("reader_")]
    at_once = max(sum(began <= moment < ended for began, ended in readers) for moment, _ in readers)
    assert page.number("rows") >= 3 + at_once


def test_a_click_selects_a_bar_and_a_tip_says_what_it_is(server: WindowServer, tab: Open) -> None:
    server.run("house", "clicked")
    page = tab(server, "clicked")
    bars = server.bars("clicked")
    page.wait_for(lambda: page.number("drawn") == len(bars))
    begin = min(bar["began"] for bar in bars)
    house = next(bar for bar in bars if bar["address"] == "does/house")
    first, last = pixels(page, house, begin)
    page.click_at((first + last) / 2, RULER + ROW * 1.5)
    page.wait_for(lambda: page.selected.startswith("house, does/house, Done"))
    page.wait_for(lambda: "does/house" in page.text(".tip"))
    assert page.tab_shown == "detail"
    page.wait_for(lambda: "selected" in str(page.find(".box[data-place=house]").get_attribute("class")))


def test_zoom_pan_and_fit(server: WindowServer, tab: Open) -> None:
    server.run("house", "zoomed")
    page = tab(server, "zoomed")
    page.waits_for_bars(10)
    page.wait_for(lambda: page.number("scale") > 0)
    fitting = page.number("scale")
    page.click(".timeline-in")
    page.wait_for(lambda: page.number("scale") > fitting * 1.4)
    page.click(".timeline-out")
    page.wait_for(lambda: page.number("scale") < fitting * 1.1)
    page.in_timeline("+", "+")
    page.wait_for(lambda: page.number("scale") > fitting * 2)
    left = page.number("left")
    scroller = page.find(".timeline-scroller")
    ActionChains(page.driver).drag_and_drop_by_offset(scroller, -120, 0).perform()
    page.wait_for(lambda: page.number("left") > left)
    assert page.selected == ""  # to drag is not to click
    page.in_timeline("0")
    page.wait_for(lambda: page.number("scale") == fitting)
    wheel = "arguments[0].dispatchEvent(new WheelEvent('wheel', {deltaY: -400, clientX: 600}))"
    page.script(wheel, scroller)
    page.wait_for(lambda: page.number("scale") > fitting * 2)
    page.click(".timeline-fit")
    page.wait_for(lambda: page.number("scale") == fitting)


def test_the_keyboard_moves_through_the_bars(server: WindowServer, tab: Open) -> None:
    server.run("house", "keyed")
    page = tab(server, "keyed")
    bars = server.bars("keyed")
    page.waits_for_bars(len(bars))
    page.leave_fields()
    page.keys("l", Keys.HOME)
    page.wait_for(lambda: page.selected.startswith("does, does, Done"))
    page.in_timeline(Keys.ARROW_DOWN)
    page.wait_for(lambda: page.selected.startswith("house, does/house, Done"))
    page.in_timeline(Keys.ARROW_RIGHT)
    page.wait_for(lambda: page.selected.startswith("lead, does/house/lead, Done"))
    page.in_timeline(Keys.ARROW_RIGHT)
    page.wait_for(lambda: page.selected.startswith("ScriptedChatModel, does/house/lead, Done"))
    page.in_timeline(Keys.ARROW_LEFT, Keys.ARROW_UP)
    page.wait_for(lambda: page.selected.startswith("house, does/house, Done"))
    page.in_timeline(Keys.END)
    page.wait_for(lambda: page.selected.startswith("ScriptedChatModel, does/house/desks[1]/bob, Done"))
    scroller = page.find(".timeline-scroller")
    option = page.script("return document.querySelector('[role=option][aria-selected=true]').id")
    assert scroller.get_attribute("role") == "listbox"
    assert scroller.get_attribute("aria-activedescendant") == option
    page.in_timeline(Keys.ENTER)
    page.wait_for(lambda: page.script("return document.activeElement.className").endswith("tab-detail"))


def test_j_and_k_go_through_the_activations(server: WindowServer, tab: Open) -> None:
    server.run("print", "jk", until="paused")
    page = tab(server, "jk")
    page.waits_for_bars(len(server.bars("jk")))
    page.leave_fields()
    page.keys("g")
    page.wait_for(lambda: page.selected.startswith("does, does, Paused"))
    page.keys("j")
    page.wait_for(lambda: page.selected.startswith("newspaper,"))
    page.keys("jjj")
    page.wait_for(lambda: page.selected.startswith("writer, does/newspaper/refine[0]/writer"))
    page.keys("k")
    page.wait_for(lambda: page.selected.startswith("refine, iteration 1, does/newspaper/refine[0]"))
    page.keys("G")
    page.wait_for(lambda: page.selected.startswith("boss, does/newspaper/boss, Paused"))
    page.keys(Keys.ESCAPE)
    page.wait_for(lambda: page.selected == "")


def test_what_runs_grows_and_is_followed(server: WindowServer, tab: Open) -> None:
    page = tab(server, "growing")
    server.call("start", text="gated", thread_id="growing")
    page.wait_for(lambda: page.boxes["walk"] == "running")
    page.wait_for(lambda: page.number("scale") > 0)
    before = page.number("scale")
    page.wait_for(lambda: page.number("scale") < before * 0.8)  # all that ran still fits
    page.in_timeline("f")
    page.wait_for(lambda: page.find(".timeline-follow").get_attribute("aria-pressed") == "true")
    scale, left = page.number("scale"), page.number("left")
    page.wait_for(lambda: page.number("left") > left)
    assert page.number("scale") == scale
    server.gate("growing", *(f"walk{lap}" for lap in range(5)), "rest")
    page.waits_for_status("done")


def test_long_waits_are_left_out(own_server: WindowServer, tab: Open) -> None:
    own_server.run("shout", "waits")
    began = own_server.bars("waits")[0]["began"]
    page = tab(own_server, "waits")
    page.waits_for_bars(2)
    page.wait_for(lambda: page.script("return Date.now() / 1000") > began + 3)
    own_server.run("shout", "waits")
    page.waits_for_bars(4)
    short = page.find(".timeline-short")
    page.wait_for(lambda: short.get_attribute("aria-pressed") == "true")  # most of the time is a wait
    assert page.text(".timeline-facts").endswith(" waits")
    page.click(".timeline-short")
    page.wait_for(lambda: short.get_attribute("aria-pressed") == "false")
    assert not page.text(".timeline-facts").endswith(" waits")
    page.wait_for(lambda: page.number("scale") > 0)
    long = page.number("scale")
    page.in_timeline("w")
    page.wait_for(lambda: page.number("scale") > 5 * long)
    page.in_timeline("w")
    page.wait_for(lambda: abs(page.number("scale") / long - 1) < 0.01)


def test_a_thousand_activations_are_few_nodes(server: WindowServer, tab: Open) -> None:
    server.run("count 500", "thousand")
    page = tab(server, "thousand")
    page.waits_for_bars(300)
    assert page.number("bars") < 900  # the last ones first
    page.wait_for(lambda: page.find(".timeline-older").is_displayed())
    while page.find(".timeline-older").is_displayed():
        before = page.number("bars")
        page.click(".timeline-older")
        page.wait_for(lambda before=before: page.number("bars") > before)
    assert page.number("bars") == len(server.bars("thousand")) >= 1000
    assert page.nodes < 2000
    assert page.number("drawn") < 3000
    assert page.text(f"{page.box('counting')} .pick-text") == "iteration 500 of 2000"
    page.leave_fields()
    page.keys("G")
    page.wait_for(lambda: "counting[499]/counter" in page.selected)
    page.keys("k", "k")
    page.wait_for(lambda: "counting[498]/counter" in page.selected)
    for _ in range(12):
        page.in_timeline("+")
    page.wait_for(lambda: page.number("drawn") < 40)


def test_ten_thousand_bars_are_drawn_as_far_as_they_are_seen(server: WindowServer, tab: Open) -> None:
    page = tab(server)
    page.script(
        """
        const many = [];
        for (let lap = 0; lap < 2000; lap++) {
          for (let branch = 0; branch < 5; branch++) {
            const address = `root/laps[${lap}]/branch${branch}`;
            many.push({id: address, place: null, turn: 0, address, agent_name: `branch${branch}`,
              kind: 'agent', label: `branch${branch}`, step: address, iteration: lap, began: lap,
              ended: lap + 0.9, state: 'done', tokens_in: 1, tokens_out: 1, text: '', inside: null});
          }
        }
        return import('/page/timeline.js').then(({makeTimeline}) => {
          const bars = new Map(many.map(bar => [bar.id, bar]));
          const state = {bars, threadId: 'x', isWhole: true, about: null, selected: null, thread: null};
          const timeline = makeTimeline({state, select(id) { state.selected = id; }});
          document.querySelector('.timeline').replaceWith(timeline.node);
          timeline.update(state, new Set(['bars', 'threadId']));
        });
        """
    )
    page.wait_for(lambda: page.number("bars") == 10_000 and page.number("drawn") > 0)
    assert page.number("rows") == 5
    assert page.number("drawn") <= 5 * 1300  # no more than there are pixels
    for _ in range(14):
        page.in_timeline("+")
    page.wait_for(lambda: 0 < page.number("drawn") < 60)
    assert page.nodes < 2000


def test_memory_is_bounded_however_many_threads_are_looked_at(server: WindowServer, tab: Open) -> None:
    server.run("count 300", "heap-1")
    server.run("huge", "heap-2")
    page = tab(server, "heap-1")

    def heap_after(rounds: int) -> float:
        for _ in range(rounds):
            for thread_id, bars in (("heap-2", 2), ("heap-1", 300)):
                page.click(f"{page.thread_row(thread_id)} .thread-open")
                page.wait_for(lambda thread_id=thread_id: page.search == f"?thread={thread_id}")
                page.wait_for(lambda bars=bars: page.number("drawn") >= bars)
                page.waits_for_status("done")
        page.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        return float(page.driver.execute_cdp_cmd("Runtime.getHeapUsage", {})["usedSize"])

    page.wait_for(lambda: page.texts(page.thread_row("heap-2")))
    few = heap_after(2)
    assert heap_after(5) < few * 1.5
