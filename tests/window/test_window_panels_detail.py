"""One activation in the window: what it saw, said, called, wrote and asked; while it runs, too."""

from panel_pages import Panels
from panel_trees import HOSTILE

DETAIL = ".detail"


def part(panels: Panels, title: str) -> str:
    """Return the text of a part of the detail."""
    texts = [each for each in panels.texts(".detail .part") if each.startswith(title)]
    return texts[0] if texts else ""


def shows(panels: Panels, title: str, *texts: str) -> None:
    panels.wait_for(lambda: all(text in part(panels, title) for text in texts))


def test_what_it_saw_and_said_and_the_tools_it_called(panels: Panels) -> None:
    panels.run("count one two three")
    panels.select("does/counter")
    shows(panels, "Input", "User", "count one two three")
    shows(panels, "Output", "calls count_words(", "There are 4 words.")
    shows(panels, "Tools", "count_words", "Done", '"text": "count one two three"', "Result", "4")
    assert "does/counter" in panels.text(".detail .about")
    assert "3 steps" in panels.text(".detail .facts")


def test_values_before_and_after_as_a_difference(panels: Panels) -> None:
    panels.run("post on bees", until="paused")
    panels.select("does/post/author")
    shows(panels, "Values", "letter added", "Dear all,", "we are kind.")
    assert len(panels.texts(".detail .line[data-sign='+']")) == 4
    panels.select("does/post/boss")
    shows(panels, "Values", "No changes: 2 values")
    panels.unfold("No changes", DETAIL)
    panels.unfold("mood", DETAIL)
    shows(panels, "Values", "kind")


def test_a_changed_text_is_compared_line_by_line(panels: Panels) -> None:
    panels.server.call(
        "start",
        text="post on bees",
        thread_id=panels.thread_id,
        values={"mood": "sad", "letter": "Dear all,\nwe are glad.\nYours"},
    )
    panels.waits_for_status("paused")
    panels.select("does/post/author")
    shows(panels, "Values", "letter changed")
    lines = panels.script(
        "return [...document.querySelectorAll('.detail .line')].map(e => e.lastChild.textContent)"
    )
    assert lines == ["Dear all,", "we are glad.", "we are sad.", "Yours"]


def test_questions_and_their_answers(panels: Panels) -> None:
    panels.run("post on bees", until="paused")
    panels.select("does/post/boss")
    shows(panels, "Questions", "May it be sent?", "No answer yet")
    panels.fill(".questions .card", Answer="gladly")
    panels.press("Send answer", ".questions .card")
    panels.waits_for_status("done")
    shows(panels, "Questions", "May it be sent?", "Answer", "gladly")


def test_text_that_grows_while_it_runs(panels: Panels) -> None:
    panels.server.call("start", text="write bees", thread_id=panels.thread_id)
    panels.select("does/refine[0]/writer")
    shows(panels, "Output", " . .")
    before = len(part(panels, "Output"))
    panels.wait_for(lambda: len(part(panels, "Output")) > before)
    assert "Running" in panels.text(".detail .facts")
    panels.server.gate(panels.thread_id, 1, 2, 3)
    panels.waits_for_status("done")
    panels.wait_for(lambda: "Done" in panels.text(".detail .facts"))
    shows(panels, "Output", "Agent", "Draft 1 on write bees:")
    panels.wait_for(lambda: not panels.find(".detail .live").is_displayed())


def test_what_is_unfolded_and_focused_stays_when_it_changes(panels: Panels) -> None:
    panels.server.call("start", text="write bees", thread_id=panels.thread_id)
    panels.select("does/refine[0]/writer")
    panels.wait_for(lambda: panels.texts(".detail .message[data-role=system]"))
    panels.find(".detail .message[data-role=system] summary").click()
    panels.wait_for(
        lambda: "Write, with care." in panels.text(".detail .message[data-role=system] .inside")
    )
    panels.server.gate(panels.thread_id, 1, 2, 3)
    panels.wait_for(lambda: "Done" in panels.text(".detail .facts"))
    panels.wait_for(lambda: "Agent" in part(panels, "Output"))
    assert panels.script("return document.querySelector('.message[data-role=system]').open")
    assert panels.script("return document.activeElement.closest('.message')?.dataset.role") == "system"


def test_the_other_laps_are_a_click_away(panels: Panels) -> None:
    panels.server.gate(panels.thread_id, 1, 2, 3)
    panels.run("write bees")
    panels.select("does/refine[1]/writer")
    panels.wait_for(lambda: "ran 3 times" in panels.text(".detail .laps"))
    assert "iteration 2" in panels.text(".detail .facts")
    panels.press("Next run", DETAIL)
    panels.wait_for(lambda: "does/refine[2]/writer" in panels.text(".detail .address"))
    assert panels.driver.switch_to.active_element.get_attribute("aria-label") in (
        "Next run",
        None,
    )
    panels.press("Previous run", DETAIL)
    panels.press("Previous run", DETAIL)
    panels.wait_for(lambda: "does/refine[0]/writer" in panels.text(".detail .address"))


def test_an_error_and_the_attempt_before_a_resume(panels: Panels) -> None:
    panels.run("fail", until="failed")
    panels.select("does/fail")
    shows(panels, "Error", "ValueError", HOSTILE)
    panels.server.gate(panels.thread_id, 1)
    panels.press("Resume run")
    panels.waits_for_status("done")
    panels.select("does/fail")
    shows(panels, "Output", "Now it works.")
    panels.unfold("Earlier attempts", DETAIL)
    shows(panels, "Earlier attempts", "Failed", HOSTILE)
    panels.press("Open attempt", DETAIL)
    shows(panels, "Error", HOSTILE)
    panels.press("Open valid attempt", DETAIL)
    shows(panels, "Output", "Now it works.")
    assert not panels.is_hacked


def test_the_step_is_copied(panels: Panels) -> None:
    panels.run("steps")
    panels.select("does/steps/step2")
    panels.unfold("Ids", DETAIL)
    panels.wait_for(lambda: ":step2" in panels.text(".detail .step code"))
    panels.press("Copy step", DETAIL)
    panels.wait_for(lambda: "Copied" in panels.text(".step") or "Selected" in panels.text(".step"))


def test_hostile_texts_are_only_texts(panels: Panels) -> None:
    panels.run("shout")
    panels.select("does/shout")
    shows(panels, "Output", HOSTILE)
    shows(panels, "Values", "shouted added", HOSTILE)
    assert not panels.is_hacked


def test_five_megabytes_are_cut_until_one_asks_for_them(panels: Panels) -> None:
    panels.run("long")
    panels.select("does/long")
    shows(panels, "Output", "long words")
    assert len(part(panels, "Output")) < 5000
    panels.find(".detail .message .show-all").click()
    size = "return document.querySelector('.detail .message').textContent.length"
    panels.wait_for(lambda: panels.script(size) > 5_000_000)


def test_an_activation_of_a_long_history_shows_the_last_messages_first(panels: Panels) -> None:
    for number in range(10):
        panels.server.run(f"count {number}", panels.thread_id)
    panels.waits_for_status("done")
    panels.select("does/counter")
    panels.wait_for(lambda: len(panels.texts(".detail .message")) > 10)
    before = len(panels.texts(".detail .message"))
    button = next(each for each in panels.texts(".detail .show-all") if "earlier messages" in each)
    panels.press(button, DETAIL)
    panels.wait_for(lambda: len(panels.texts(".detail .message")) > before)
