"""The tree in the window: lit by what runs, laps a click away, items by key, hops, steps, calls."""

from collections.abc import Callable

from selenium.webdriver import Keys
from selenium.webdriver.support.ui import Select
from window_page import WindowPage
from window_process import WindowServer

Open = Callable[..., WindowPage]
READERS = [f"reader_{number}" for number in range(1, 9)]


def test_three_laps_and_eight_branches(server: WindowServer, tab: Open) -> None:
    server.run("print", "branches", until="paused")
    page = tab(server, "branches")
    page.wait_for(lambda: page.boxes["boss"] == "asks")
    boxes = page.boxes
    assert {boxes[each] for each in ("refine", "writer", "critic", "review", *READERS)} == {"done"}
    assert {boxes[each] for each in ("newspaper", "does")} == {"asks"}
    assert {boxes[each] for each in ("gated", "novelist", "printer", "house")} == {"idle"}
    assert page.text(f"{page.box('refine')} .pick-text") == "iteration 3 of 3"
    assert page.text(f"{page.box('writer')} .box-facts").startswith("×3 · ")
    kinds = page.script("return [...document.querySelectorAll('.box')].map(each => each.dataset.kind)")
    assert {"sequential", "loop", "parallel", "human", "function", "switch", "each", "chat"} <= {*kinds}
    page.click(f"{page.box('refine')} .dot")
    page.wait_for(lambda: page.text(f"{page.box('refine')} .pick-text") == "iteration 1 of 3")
    page.wait_for(lambda: not page.text(f"{page.box('writer')} .box-facts").startswith("×"))
    page.click(f"{page.box('writer')} .box-open")
    page.wait_for(lambda: page.selected.startswith("writer, does/newspaper/refine[0]/writer, Done"))
    page.click(page.box("newspaper"))  # in its middle, beside its name
    page.wait_for(lambda: page.selected.startswith("newspaper, does/newspaper, "))
    page.click(f"{page.box('refine')} .pick-forth")
    page.wait_for(lambda: page.text(f"{page.box('refine')} .pick-text") == "iteration 2 of 3")
    page.click(f"{page.box('refine')} .pick-latest")
    page.wait_for(lambda: page.text(f"{page.box('refine')} .pick-text") == "iteration 3 of 3")


def test_it_is_lit_while_it_runs(server: WindowServer, tab: Open) -> None:
    page = tab(server, "live")
    server.call("start", text="gated", thread_id="live")
    for lap in range(5):
        page.wait_for(lambda lap=lap: page.text(".pick-text") == f"iteration {lap + 1} of 5")
        page.wait_for(lambda: page.boxes["walk"] == "running")
        assert page.boxes["rest"] == "idle"
        dots = page.script("return [...document.querySelectorAll('.dot')].map(e => e.dataset.state)")
        assert dots == ([] if lap == 0 else ["done"] * lap + ["running"])
        server.gate("live", f"walk{lap}")
    page.wait_for(lambda: page.boxes["rest"] == "running")
    assert page.boxes["walk"] == page.boxes["laps"] == "done"
    server.gate("live", "rest")
    page.wait_for(lambda: page.boxes["does"] == "done")
    page.waits_for_status("done")
    assert page.text(f"{page.box('walk')} .box-facts").startswith("×5 · ")


def test_the_last_words_of_an_agent_are_in_its_box(server: WindowServer, tab: Open) -> None:
    page = tab(server, "saying")
    server.call("start", text="write bees", thread_id="saying")
    page.wait_for(lambda: " . ." in page.text(".box[data-place=novelist] > .box-words"))
    server.gate("saying", 1)
    page.waits_for_status("done")
    page.wait_for(
        lambda: "Draft 1 on write bees" in page.text(".box[data-place=novelist] > .box-words")
    )
    assert "Draft 1 on write bees" in page.text(".summary-said")


def test_a_row_that_wraps_and_a_loop_show_where_they_continue(server: WindowServer, tab: Open) -> None:
    server.run("print", "wraps", until="paused")
    page = tab(server, "wraps")
    page.wait_for(lambda: page.text(".box[data-place=boss] > .box-words") == "Print it?")
    assert page.text(".box[data-place=refine] > .box-back") == "back to writer, up to 3 iterations"
    arrow = "return getComputedStyle(document.querySelector(arguments[0]), arguments[1]).content"
    assert page.script(arrow, "[data-place=review]", "::after") == '"→"'
    assert page.script(arrow, "[data-place=boss]", "::before") == '"↳"'
    assert page.script(arrow, "[data-place=boss]", "::after") == "none"  # nothing comes after it
    page.click(f"{page.box('refine')} .box-toggle")
    page.wait_for(lambda: not page.texts(".box[data-place=refine] > .box-back"))


def test_a_thousand_items_are_a_grid_by_key(server: WindowServer, tab: Open) -> None:
    server.run("pages 1000", "items", until="paused")
    page = tab(server, "items")
    page.wait_for(lambda: page.texts(".items-count") == ["? 1 paused", "✕ 10 failed", "✓ 989 done"])
    assert page.nodes < 2000
    page.click(".items-count[data-state=asks]")
    page.wait_for(lambda: page.text(".items-about") == "page 7: Paused")
    page.click(f"{page.box('read')} .box-open")
    page.wait_for(lambda: page.selected.startswith("read page 7, does/pages/read(7:page%207), Paused"))
    page.click(".items-count[data-state=failed]")
    page.wait_for(lambda: page.text(".items-about") == "page 50: Failed")
    page.click(".items-count[data-state=failed]")
    page.wait_for(lambda: page.text(".items-about") == "page 150: Failed")
    page.wait_for(lambda: page.boxes["read"] == "failed")
    page.find(".items-canvas").send_keys("\ue014")  # arrow right
    page.wait_for(lambda: page.text(".items-about") == "page 151: Done")
    page.wait_for(lambda: page.boxes["read"] == "done")


def test_a_few_items_have_their_keys_on_them(server: WindowServer, tab: Open) -> None:
    server.run("pages 9", "few", until="paused")
    page = tab(server, "few")
    page.wait_for(lambda: page.texts(".chip.item") == [f"page {number}" for number in range(9)])
    assert page.script("return document.querySelectorAll('.chip.item')[7].dataset.state") == "asks"
    page.click(".chip.item[data-item='3']")
    page.wait_for(lambda: page.boxes["read"] == "done")
    page.click(f"{page.box('read')} .box-open")
    page.wait_for(lambda: "read(3:page%203)" in page.selected)


def test_hops_steps_and_calls_are_inside_who_makes_them(server: WindowServer, tab: Open) -> None:
    server.run("house", "house")
    page = tab(server, "house")
    page.wait_for(lambda: page.boxes.get("bob") == "done")
    inside = """
      const [outer, inner] = arguments;
      return !!document.querySelector(`.box[data-place=${outer}] .box[data-place=${inner}]`)"""
    for outer, inner in [
        ("lead", "scout"), ("caller", "helper"), ("flow", "second"), ("desks", "ann"), ("desks", "bob")
    ]:  # fmt: skip
        assert page.script(inside, outer, inner), (outer, inner)
        assert page.boxes[inner] == "done"
    assert page.text(f"{page.box('desks')} .pick-text") == "transfer 2 of 2"
    assert page.text(f"{page.box('helper')} .pick-text") == "call 2 of 2"
    page.click(f"{page.box('helper')} .pick-back")
    page.wait_for(lambda: page.text(f"{page.box('helper')} .pick-text") == "call 1 of 2")
    page.click(f"{page.box('helper')} .box-open")
    page.wait_for(lambda: "does/house/caller/helper(0)" in page.selected)
    page.click(f"{page.box('desks')} .dot")
    page.wait_for(lambda: page.boxes["bob"] == "idle")
    assert page.boxes["ann"] == "done"


def test_steps_stand_behind_all_that_they_depend_on(server: WindowServer, tab: Open) -> None:
    server.run("house", "steps")
    page = tab(server, "steps")
    page.wait_for(lambda: page.boxes.get("third") == "done")
    stages = page.script(
        """
        const boxes = (stage) => [...stage.children].map((box) => box.dataset.place);
        return [...document.querySelectorAll('[data-place=flow] .stage')].map(boxes)"""
    )
    assert stages == [["first", "undo"], ["second", "beside"], ["third"]]
    left = "return document.querySelector(arguments[0]).getBoundingClientRect().left"
    places = [page.script(left, page.box(name)) for name in ("first", "second", "third")]
    assert places == sorted(places)
    assert page.text("[data-place=third] > .box-after") == "after first, second"
    assert page.text("[data-place=undo] > .box-after") == "undoes first"
    assert page.boxes["undo"] == "idle"


def test_laps_in_laps_are_those_of_the_lap_around(server: WindowServer, tab: Open) -> None:
    server.run("nest", "nested")
    page = tab(server, "nested")
    page.wait_for(lambda: page.text(f"{page.box('outer')} .pick-text") == "iteration 2 of 2")
    assert page.text(f"{page.box('inner')} .pick-text") == "iteration 1 of 3"
    page.click(f"{page.box('outer')} .dot")
    page.wait_for(lambda: page.text(f"{page.box('inner')} .pick-text") == "iteration 3 of 3")
    page.click(f"{page.box('inner')} .dot")
    page.wait_for(lambda: page.text(f"{page.box('inner')} .pick-text") == "iteration 1 of 3")
    page.click(f"{page.box('tick')} .box-open")
    page.wait_for(lambda: "does/outer[0]/inner[0]/tick" in page.selected)


def test_boxes_are_closed_and_opened(server: WindowServer, tab: Open) -> None:
    page = tab(server, "not-run")
    page.wait_for(lambda: "writer" in page.boxes)
    every = len(page.boxes)
    page.click(f"{page.box('refine')} .box-toggle")
    page.wait_for(lambda: "writer" not in page.boxes)
    assert len(page.boxes) == every - 2
    page.click(".tree-close-all")
    page.wait_for(lambda: len(page.boxes) <= every - 20)
    page.click(".tree-open-all")
    page.wait_for(lambda: len(page.boxes) == every)
    page.click(".tree-legend")
    page.wait_for(lambda: page.texts(".legend h3") == ["Boxes", "States", "Marks"])
    boxes, states, marks = page.texts(".legend section")
    page.keys(Keys.ESCAPE)
    assert not page.find(".legend").is_displayed()
    assert "loop: repeatedly" in boxes
    assert "✕ Failed" in states
    assert "×3: ran 3 times" in marks
    page.click(".tree-larger")
    page.click(".tree-larger")
    zoom = page.script("return Number(document.querySelector('.picture').style.zoom)")
    page.click(".tree-fit")
    assert zoom > 1.1
    assert page.script("return Number(document.querySelector('.picture').style.zoom)") <= 1


def test_each_turn_has_a_picture(server: WindowServer, tab: Open) -> None:
    server.run("shout first", "turns")
    server.run("house", "turns")
    page = tab(server, "turns")
    page.wait_for(lambda: page.boxes.get("bob") == "done" and page.boxes["shout"] == "idle")
    Select(page.find(".turn-picker")).select_by_visible_text("turn 1")
    page.wait_for(lambda: page.boxes["shout"] == "done" and page.boxes["house"] == "idle")
    page.wait_for(lambda: page.text(".summary-asked") == "Input, turn 1\nshout first")
    Select(page.find(".turn-picker")).select_by_visible_text("all turns")
    page.wait_for(lambda: page.boxes["shout"] == page.boxes["house"] == "done")


def test_the_tree_follows_the_selected_bar_and_the_run_of_its_page(
    server: WindowServer, tab: Open
) -> None:
    server.run("shout first", "followed")
    server.run("print", "followed", until="paused")
    page = tab(server, "followed")
    page.wait_for(lambda: "Print it?" in page.text(".right .card"))
    page.in_timeline("g")
    page.wait_for(lambda: page.text(".summary-asked") == "Input, turn 1\nshout first")
    page.click(".right .tab[data-tab=questions]")
    page.click(".right .card input[type=radio]")
    page.click(".right .card .primary")
    page.wait_for(lambda: page.text(".summary-asked") == "Input\nprint")
    assert page.texts(".box.selected") == []
