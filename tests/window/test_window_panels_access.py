"""The panels by keyboard and by screen readers: names, order, announcements, and the focus."""

import json

from panel_pages import Panels
from selenium.webdriver import ActionChains, Keys

CONTROLS = ":is(.detail, .questions, .actions, .machine) :is(button, input, select, textarea, summary)"
EACH_KIND = {
    "type": "object",
    "properties": {
        "Text": {"type": "string"},
        "Size": {"type": "integer"},
        "Sure": {"type": "boolean"},
        "Choice": {"enum": ["a", "b"]},
        "Many": {"enum": [*"abcdefg"]},
        "List": {"type": "array", "items": {"type": "string"}},
        "Any": {},
    },
    "required": ["Text", "List"],
}


def test_each_control_has_a_name_and_is_reached_by_the_keyboard(panels: Panels) -> None:
    panels.run(f"ask {json.dumps({'schema': EACH_KIND})}", until="paused")
    panels.wait_for(lambda: panels.texts(".questions .card"))
    for title in ("Rerun from", "Thread versions", "Compare"):
        panels.unfold(title, ".machine")
    panels.select("does/ask")
    panels.wait_for(lambda: panels.texts(".again .changes") and panels.texts(".compare-form option"))
    panels.fill(".again", **{"as variants": True})
    panels.wait_for(lambda: len(panels.texts(".variant")) == 2)
    controls = panels.driver.find_elements("css selector", CONTROLS)
    shown = {
        each.id: each.accessible_name
        for each in controls
        if each.is_displayed() and each.is_enabled() and each.get_attribute("type") != "radio"
    }
    assert len(shown) > 25
    assert all(shown.values()), shown
    panels.script("document.activeElement.blur(); getSelection().removeAllRanges()")
    reached: set[str] = set()
    for _ in range(len(shown) + 25):
        ActionChains(panels.driver).send_keys(Keys.TAB).perform()
        reached.add(panels.driver.switch_to.active_element.id)
    assert shown.keys() <= reached, [name for key, name in shown.items() if key not in reached]


def test_the_focus_and_what_is_typed_stay_while_the_thread_runs(panels: Panels) -> None:
    panels.server.call("start", text="write bees", thread_id=panels.thread_id)
    panels.waits_for_status("running")
    panels.unfold("Rerun from", ".machine")
    panels.select("does/refine[0]/writer")
    panels.unfold("Change message", ".again")
    box = panels.waits_for_label("User message", ".again")
    box.send_keys("half a ")
    panels.server.gate(panels.thread_id, 1, 2)
    panels.wait_for(lambda: panels.script("return [...store.state.bars.keys()].length") > 6)
    ActionChains(panels.driver).send_keys("thou").perform()
    assert box.get_attribute("value") == "half a thou"
    panels.server.gate(panels.thread_id, 3)
    panels.waits_for_status("done")
    assert panels.driver.switch_to.active_element == box


def test_refusals_and_news_are_announced(panels: Panels) -> None:
    panels.run("both", until="paused")
    panels.wait_for(lambda: "2 open questions" in panels.text(".questions [role=status]"))
    quiet = "return document.querySelectorAll('.fault:not([role=alert])').length"
    assert panels.script(quiet) == 0
