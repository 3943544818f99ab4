"""The rewind panel: reruns with changes, variants, older versions, comparisons."""

import json

from panel_pages import Panels
from panel_trees import HOSTILE

MACHINE = ".machine"
OTHER_LINE = """
const [, , other] = document.querySelectorAll('.compare-form select');
return other.selectedOptions[0]?.text ?? ''
"""

OFFERED = """
return [...document.querySelectorAll('.compare-form select')[1].options].map(each => each.text)
"""
CHOSEN = "return document.querySelectorAll('.compare-form select')[1].value"


def posts(panels: Panels, answer: str = "yes") -> None:
    """Run a letter to its end."""
    panels.run("post on bees", until="paused")
    questions = panels.server.call("thread", thread_id=panels.thread_id)["pending"]
    panels.server.call("answer", thread_id=panels.thread_id, answers={questions[0]["id"]: answer})
    panels.waits_for_status("done")
    assert panels.last == f"Sent a kind letter, as the boss says {answer}."


def opens_again(panels: Panels, address: str) -> None:
    panels.unfold("Rerun from", MACHINE)
    panels.select(address)
    panels.wait_for(lambda: panels.text(".again .from-here") == address)
    unfolds_changes(panels)


def unfolds_changes(panels: Panels) -> None:
    panels.script("for (const each of document.querySelectorAll('.again .change')) each.open = true")


def fills_values(panels: Panels, values: object, variant: int = 0) -> None:
    boxes = panels.driver.find_elements("css selector", ".again textarea.code")
    boxes[variant].clear()
    boxes[variant].send_keys(json.dumps(values))


def answers(panels: Panels, text: str) -> None:
    panels.wait_for(lambda: panels.texts(".questions .card"))
    panels.fill(".questions .card", Answer=text)
    panels.press("Send answer", ".questions .card")


def lines(panels: Panels) -> int:
    return len(panels.server.call("lines", thread_id=panels.thread_id)["lines"])


def test_it_says_what_to_do_where_nothing_is_looked_at(panels: Panels) -> None:
    panels.unfold("Rerun from here", MACHINE)
    panels.wait_for(lambda: "Select an activation" in panels.text(".again"))


def test_again_with_other_values(panels: Panels) -> None:
    posts(panels)
    opens_again(panels, "does/post/author")
    fills_values(panels, {"mood": "sad"})
    panels.press("Rerun from here", MACHINE)
    panels.waits_for_status("paused")
    assert panels.last == "A sad letter about post on bees"
    assert lines(panels) == 2


def test_only_the_values_that_changed_are_set(panels: Panels) -> None:
    posts(panels)
    opens_again(panels, "does/post/sender")
    box = panels.find(".again textarea.code")
    values = json.loads(box.get_attribute("value") or "")
    assert values["mood"] == "kind"
    assert values["verdict"] == "yes"
    fills_values(panels, {"mood": "glad"})
    panels.press("Rerun from here", MACHINE)
    panels.wait_for(lambda: "cannot be removed" in panels.text(".again .fault"))
    fills_values(panels, {**values, "mood": "glad"})
    panels.press("Rerun from here", MACHINE)
    panels.wait_for(lambda: panels.last == "Sent a glad letter, as the boss says yes.")


def test_again_with_a_message(panels: Panels) -> None:
    panels.run("count one two")
    opens_again(panels, "does/counter")
    panels.fill(".again", **{"User message": "now only this"})
    panels.press("Rerun from here", MACHINE)
    panels.wait_for(lambda: panels.last == "There are 3 words." and lines(panels) == 2)


def test_again_with_a_message_in_place_of_another(panels: Panels) -> None:
    panels.run("count one two")
    opens_again(panels, "does/counter")
    panels.fill(".again", **{"Position": "instead of “count one two”"})
    box = panels.labelled("User message", ".again")
    assert box.get_attribute("value") == "count one two"
    box.clear()
    panels.press("Rerun from here", MACHINE)
    panels.wait_for(lambda: "The replacement is empty" in panels.text(".again .fault"))
    panels.fill(".again", **{"User message": "count all of these words"})
    panels.press("Rerun from here", MACHINE)
    panels.wait_for(lambda: panels.last == "There are 5 words." and lines(panels) == 2)
    saw = panels.server.call("activation", thread_id=panels.thread_id, at="does/counter")["saw"]
    assert [each["text"] for each in saw if each["role"] == "user"] == ["count all of these words"]


def test_what_was_typed_stays_where_the_message_goes_elsewhere(panels: Panels) -> None:
    panels.run("count one two")
    opens_again(panels, "does/counter")
    panels.fill(".again", **{"User message": "mine"})
    panels.fill(".again", **{"Position": "instead of “count one two”"})
    assert panels.labelled("User message", ".again").get_attribute("value") == "mine"
    panels.fill(".again", **{"Position": "after the messages so far", "User message": ""})
    panels.fill(".again", **{"Position": "instead of “count one two”"})
    assert panels.labelled("User message", ".again").get_attribute("value") == "count one two"


def test_again_from_a_later_step(panels: Panels) -> None:
    panels.run("count one two")
    opens_again(panels, "does/counter")
    panels.fill(".again", From="step 3 of 3")
    panels.press("Rerun from here", MACHINE)
    panels.wait_for(lambda: lines(panels) == 2)
    panels.waits_for_status("done")
    assert panels.last == "There are 3 words."


def test_again_with_another_answer(panels: Panels) -> None:
    posts(panels)
    opens_again(panels, "does/post/boss")
    assert "Answer: yes" in panels.text(".other-answer")
    panels.fill(".again", **{"Change answer": True})
    panels.fill(".other-answer", Answer="no")
    panels.press("Rerun from here", MACHINE)
    panels.wait_for(lambda: panels.last == "Sent a kind letter, as the boss says no.")


def test_another_answer_starts_at_the_step_that_asked(panels: Panels) -> None:
    panels.run("mail Ann", until="paused")
    (asked,) = panels.server.call("thread", thread_id=panels.thread_id)["pending"]
    approval = {asked["id"]: {"decisions": [{"type": "approve"}]}}
    panels.server.call("answer", thread_id=panels.thread_id, answers=approval)
    panels.waits_for_status("done")
    opens_again(panels, "does/clerk")
    chosen = "return document.querySelector('.again .from select').selectedOptions[0].textContent"
    assert "the start" in panels.script(chosen)
    panels.fill(".again", **{"Change answer": True})
    assert panels.script(chosen) == "step 2 of 5"
    panels.fill(".other-answer", Reject=True)
    panels.press("Rerun from here", MACHINE)
    panels.wait_for(lambda: lines(panels) == 2 and panels.status == "done")
    rejected = panels.server.call("activation", thread_id=panels.thread_id, at="does/clerk")
    assert [each["status"] for each in rejected["tools"]] == ["rejected"]


def test_another_answer_that_does_not_fit_is_refused_at_its_field(panels: Panels) -> None:
    panels.run("two", until="paused")
    questions = panels.server.call("thread", thread_id=panels.thread_id)["pending"]
    every = {each["id"]: {"Answer": 3} for each in questions}
    panels.server.call("answer", thread_id=panels.thread_id, answers=every)
    panels.waits_for_status("done")
    opens_again(panels, "does/two/one")
    panels.fill(".again", **{"Change answer": True})
    panels.fill(".other-answer", Answer="0")
    panels.press("Rerun from here", MACHINE)
    panels.wait_for(lambda: "greater than or equal to 1" in panels.text(".other-answer .at-field"))
    panels.fill(".other-answer", Answer="5")
    panels.fill(".again", **{"Parallel branches": "rerun"})
    panels.press("Rerun from here", MACHINE)
    panels.waits_for_status("paused")
    assert [
        each["agent_name"]
        for each in panels.server.call("thread", thread_id=panels.thread_id)["pending"]
    ] == ["other"]


def test_variants_run_side_by_side_and_are_compared(panels: Panels) -> None:
    posts(panels)
    opens_again(panels, "does/post/sender")
    panels.fill(".again", **{"as variants": True})
    panels.wait_for(lambda: len(panels.texts(".variant")) == 2)
    panels.press("Add variant", MACHINE)
    unfolds_changes(panels)
    for number, mood in enumerate(["sad", "glad", "odd"]):
        boxes = panels.driver.find_elements("css selector", ".again textarea.code")
        values = json.loads(boxes[number].get_attribute("value") or "")
        fills_values(panels, {**values, "mood": mood}, number)
    panels.press("Run 3 variants", MACHINE)
    panels.wait_for(lambda: len(panels.texts(".column")) == 3)
    panels.wait_for(lambda: all("Done" in each for each in panels.texts(".column")))
    moods = [each.partition("Sent a ")[2].partition(" ")[0] for each in panels.texts(".column")]
    assert moods == ["sad", "glad", "odd"]
    assert lines(panels) == 1
    panels.press("Compare b", MACHINE)
    panels.wait_for(lambda: panels.texts(".compared .differs"))
    assert panels.script(CHOSEN) == f"{panels.thread_id}-b"
    assert panels.texts(".compared.heads span")[1:] == [panels.thread_id, f"{panels.thread_id}-b"]
    panels.find(".compared .differs").click()
    panels.wait_for(lambda: "glad" in panels.text(".difference:not([hidden])"))
    panels.press("Open c", MACHINE)
    panels.wait_for(lambda: panels.thread_shown == f"{panels.thread_id}-c")
    panels.wait_for(lambda: "odd" in panels.last)
    assert len(panels.texts(".column")) == 3
    assert not panels.texts(".compared")
    assert panels.script(CHOSEN) == panels.thread_id


def test_variants_are_found_again_after_a_reload_but_for_those_that_are_deleted(panels: Panels) -> None:
    posts(panels)
    opens_again(panels, "does/post/sender")
    panels.fill(".again", **{"as variants": True})
    panels.wait_for(lambda: len(panels.texts(".variant")) == 2)
    panels.press("Run 2 variants", MACHINE)
    panels.wait_for(lambda: ["Done" in each for each in panels.texts(".column")] == [True, True])
    panels.server.call("delete", thread_id=f"{panels.thread_id}-a")
    panels.driver.refresh()
    panels.wait_for(lambda: panels.script("return window.isOpen && !!store.state.thread"))
    panels.unfold("Rerun from", MACHINE)
    panels.wait_for(lambda: ["b" in each for each in panels.texts(".column h4")] == [True])
    panels.wait_for(lambda: panels.script(OFFERED).count(f"{panels.thread_id}-b") == 1)


def test_one_variant_runs_alone(panels: Panels) -> None:
    posts(panels)
    opens_again(panels, "does/post/sender")
    panels.fill(".again", **{"as variants": True})
    panels.press("Remove variant", MACHINE)
    panels.wait_for(lambda: len(panels.texts(".variant")) == 1)
    panels.press("Run 1 variant", MACHINE)
    panels.wait_for(lambda: [each for each in panels.texts(".column") if "Done" in each])
    assert len(panels.texts(".column")) == 1


def test_variants_need_names_of_their_own(panels: Panels) -> None:
    posts(panels)
    opens_again(panels, "does/post/sender")
    panels.fill(".again", **{"as variants": True})
    panels.fill(".variant:nth-child(2)", Name="a")
    panels.press("Run 2 variants", MACHINE)
    panels.wait_for(lambda: "the same name" in panels.text(".again .fault"))


def test_what_is_typed_stays_when_another_activation_is_looked_at(panels: Panels) -> None:
    posts(panels)
    opens_again(panels, "does/post/sender")
    panels.fill(".again", **{"User message": "half a thou"})
    opens_again(panels, "does/post/author")
    assert panels.labelled("User message", ".again").get_attribute("value") == ""
    opens_again(panels, "does/post/sender")
    assert panels.labelled("User message", ".again").get_attribute("value") == "half a thou"


def rewinds(panels: Panels) -> None:
    """Make a second line, with a sad letter that was not sent."""
    posts(panels)
    panels.server.call(
        "rewind", thread_id=panels.thread_id, at="does/post/author", changes={"values": {"mood": "sad"}}
    )
    panels.wait_for(
        lambda: panels.last == "A sad letter about post on bees" and panels.status == "paused"
    )


def test_an_older_line_is_looked_at_and_gone_back_to(panels: Panels) -> None:
    rewinds(panels)
    panels.unfold("Thread versions", MACHINE)
    panels.wait_for(lambda: len(panels.texts(".lines li")) == 2)
    panels.press("Open older version 1, branches off in turn 1", MACHINE)
    panels.wait_for(lambda: panels.script("return store.state.line"))
    panels.select("does/post/sender")
    panels.wait_for(lambda: "Sent a kind letter" in panels.text(".detail .message"))
    assert "older version" in panels.text(".actions .hint")
    assert not panels.texts(".questions .card")
    panels.press("Open current version", MACHINE)
    panels.wait_for(lambda: panels.script("return store.state.line") is None)
    panels.press("Restore older version 1, branches off in turn 1", MACHINE)
    panels.wait_for(lambda: panels.last == "Sent a kind letter, as the boss says yes.")
    panels.waits_for_status("done")


def test_two_lines_are_compared_and_what_differs_is_marked(panels: Panels) -> None:
    rewinds(panels)
    panels.unfold("Compare", MACHINE)
    panels.wait_for(lambda: "older version" in panels.script(OTHER_LINE))
    panels.press("Compare versions", ".compare-form")
    panels.wait_for(lambda: "4 activations" in panels.text(".result"))
    marked = panels.texts(".compared[data-same=false]")
    assert len(marked) == 3
    assert "only right" in marked[-1]
    assert len(panels.texts(".compared:not(.heads)")) == 3
    panels.labelled("Differences only", ".comparison").click()
    panels.wait_for(lambda: len(panels.texts(".compared:not(.heads)")) == 4)
    panels.click(".compared[data-where=right] .cell[data-side=right]")
    panels.wait_for(lambda: panels.script("return store.state.line"))
    panels.wait_for(lambda: "Sent a kind letter" in panels.text(".detail .message"))
    panels.click(".compared[data-where=both][data-same=false] .cell[data-side=left]")
    panels.wait_for(lambda: panels.script("return store.state.line") is None)
    panels.wait_for(lambda: "A sad letter" in panels.text(".detail .message"))


def test_two_threads_are_compared(panels: Panels) -> None:
    panels.server.run("shout", f"{panels.thread_id}-other")
    panels.run("count one two")
    panels.unfold("Compare", MACHINE)
    other = f"{panels.thread_id}-other"
    panels.wait_for(lambda: other in panels.script(OFFERED))
    assert panels.thread_id not in panels.script(OFFERED)
    assert not panels.find(".compare-form button").is_enabled()
    panels.fill(".compare-form", **{"with thread": other})
    panels.press("Compare versions", ".compare-form")
    panels.wait_for(lambda: panels.texts(".compared .differs"))
    assert HOSTILE[:60] in panels.text(".comparison")
    panels.wait_for(lambda: not panels.is_hacked)


def test_a_thread_that_is_not_there_is_refused_until_another_is_opened(panels: Panels) -> None:
    other = f"{panels.thread_id}-other"
    panels.server.run("steps", other)
    panels.run("steps")
    panels.unfold("Compare", MACHINE)
    panels.wait_for(lambda: other in panels.script(OFFERED))
    panels.fill(".compare-form", **{"with thread": other})
    panels.server.call("delete", thread_id=other)
    panels.press("Compare versions", ".compare-form")
    panels.wait_for(lambda: other in panels.text(".comparison .fault"))
    panels.script("store.open('elsewhere')")
    panels.wait_for(lambda: not panels.text(".comparison .fault"))


def test_a_line_is_not_compared_with_itself(panels: Panels) -> None:
    rewinds(panels)
    panels.unfold("Compare", MACHINE)
    panels.wait_for(lambda: "older version" in panels.script(OTHER_LINE))
    assert panels.find(".compare-form button").is_enabled()
    panels.fill(".compare-form", version="current version")
    panels.wait_for(lambda: "Both sides are the same version" in panels.text(".compare-form small"))
    assert not panels.find(".compare-form button").is_enabled()


def test_the_detail_leads_to_the_time_machine(panels: Panels) -> None:
    panels.run("count one two")
    panels.select("does/counter")
    panels.press("Rerun from here", ".detail")
    panels.wait_for(lambda: panels.texts(".again .changes"))
    assert panels.text(".machine summary") == "Rerun from counter"
