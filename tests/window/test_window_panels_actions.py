"""What people want of a thread in the window: runs, turns, messages, stop, resume, limits."""

from collections.abc import Callable
from pathlib import Path

from panel_pages import Panels, PanelServer
from selenium.webdriver import Keys

ACTIONS = ".actions"


def types(panels: Panels, text: str) -> None:
    box = panels.waits_for_label("Message", ACTIONS)
    box.clear()
    box.send_keys(text)


def test_a_run_begins_on_a_new_thread_and_goes_on_with_the_next_turn(panels: Panels) -> None:
    panels.script("store.open(null)")
    types(panels, "count one two")
    panels.press("Start run", ACTIONS)
    panels.wait_for(lambda: panels.thread_shown != "None" and panels.status == "done")
    thread_id = panels.thread_shown
    assert panels.last == "There are 3 words."
    types(panels, "count again")
    panels.labelled("Message", ACTIONS).send_keys(Keys.ENTER)
    panels.wait_for(lambda: panels.last == "There are 2 words.")
    assert panels.thread_shown == thread_id
    turns = panels.server.call("thread", thread_id=thread_id)["turns"]
    assert [turn["texts"] for turn in turns] == [["count one two"], ["count again"]]
    assert panels.labelled("Message", ACTIONS).get_attribute("value") == ""


def test_a_message_on_a_thread_can_begin_a_new_one(panels: Panels) -> None:
    panels.run("steps")
    types(panels, "count one")
    panels.press("Send on new thread", ACTIONS)
    panels.wait_for(lambda: panels.thread_shown != panels.thread_id and panels.status == "done")


def test_a_turn_begins_with_values(panels: Panels) -> None:
    panels.unfold("Values", ACTIONS)
    panels.fill(ACTIONS, **{"Values to set first": '{"mood": 3'})
    types(panels, "post on bees")
    panels.press("Send message", ACTIONS)
    panels.wait_for(lambda: any("not JSON" in each for each in panels.texts(".actions > .fault")))
    assert panels.labelled("Message", ACTIONS).get_attribute("value") == "post on bees"
    panels.fill(ACTIONS, **{"Values to set first": '{"moood": "sad"}'})
    panels.wait_for(lambda: panels.text("form .value-note") == "The tree does not know: moood")
    panels.fill(ACTIONS, **{"Values to set first": ""})
    panels.press("mood", "form .value-names")
    panels.driver.switch_to.active_element.send_keys("sad")  # the value is selected
    assert panels.text("form .value-note") == ""
    panels.press("Send message", ACTIONS)
    panels.waits_for_status("paused")
    assert panels.last == "A sad letter about post on bees"
    panels.unfold("Values", ACTIONS)
    panels.wait_for(lambda: 'mood "sad"' in panels.texts("form .value-names button"))


def test_a_run_is_steered_and_a_message_queued(panels: Panels) -> None:
    panels.server.call("start", text="write bees", thread_id=panels.thread_id)
    panels.waits_for_status("running")
    types(panels, "wasps")
    panels.press("Steer run", ACTIONS)
    panels.wait_for(lambda: "1 queued message" in panels.text(".queued"))
    types(panels, "count two words more")
    panels.press("Queue message", ACTIONS)
    panels.wait_for(lambda: "count two words more" in panels.text(".queued"))
    panels.server.gate(panels.thread_id, *range(1, 9))
    panels.waits_for_status("done")
    panels.wait_for(lambda: panels.last == "There are 4 words.")
    panels.wait_for(lambda: not panels.text(".queued"))
    drafts = {bar["text"] for bar in panels.server.bars(panels.thread_id) if bar["kind"] == "agent"}
    assert any("Draft 2 on wasps" in text for text in drafts)


def test_a_run_is_stopped_and_resumed(panels: Panels) -> None:
    panels.server.call("start", text="write bees", thread_id=panels.thread_id)
    panels.waits_for_status("running")
    panels.wait_for(lambda: panels.script("return store.state.texts.size"))
    panels.press("Stop run", ACTIONS)
    panels.wait_for(lambda: "Stopping…" in panels.texts(".actions .stop"))
    assert "steps in progress: writer" in panels.text(".actions .stops")
    panels.server.gate(panels.thread_id, 1, 2, 3)
    panels.waits_for_status("stopped")
    assert "Continues with the unfinished step" in panels.text(".actions .resume")
    assert "Start new turn" in panels.texts(".actions form button")
    panels.press("Resume run", ACTIONS)
    panels.waits_for_status("done")
    panels.wait_for(lambda: "Run resumed" not in panels.text(ACTIONS))


def test_a_failed_run_is_resumed(panels: Panels) -> None:
    panels.run("fail", until="failed")
    assert "The run failed" in panels.text(".actions .hint")
    panels.server.gate(panels.thread_id, 1)
    panels.press("Resume run", ACTIONS)
    panels.waits_for_status("done")
    assert panels.last == "Now it works."


def test_a_limit_that_was_hit_is_raised(panels: Panels) -> None:
    panels.server.call("start", text="steps", thread_id=panels.thread_id, limits={"steps": 2})
    panels.waits_for_status("failed")
    panels.wait_for(lambda: "The limit of 2 steps was reached" in panels.text(".limit-note"))
    shown = [
        panels.labelled(name, ACTIONS).get_attribute("placeholder") for name in ("Steps", "Transfers")
    ]
    assert shown == ["no limit", "50"]
    assert panels.labelled("Steps", ACTIONS).get_attribute("value") == "4"
    panels.fill(ACTIONS, Steps="3")
    panels.press("Resume run", ACTIONS)
    panels.wait_for(lambda: "limit of 3 steps" in panels.text(".limit-note"))
    panels.fill(ACTIONS, Steps="9")
    panels.press("Resume run", ACTIONS)
    panels.waits_for_status("done")


def test_questions_can_be_dropped_by_the_next_turn(panels: Panels) -> None:
    panels.run("both", until="paused")
    types(panels, "count one")
    panels.press("Drop questions and send", ACTIONS)
    panels.waits_for_status("done")
    panels.wait_for(lambda: not panels.texts(".questions .card"))


def test_what_is_refused_is_said_here_and_the_text_stays(panels: Panels) -> None:
    panels.run("steps")
    types(panels, "count one")
    panels.unfold("Values", ACTIONS)
    panels.fill(ACTIONS, **{"Values to set first": '{"moood": NaN}'})
    panels.press("Send message", ACTIONS)
    panels.wait_for(lambda: "not JSON" in panels.text(".actions > .fault"))
    assert panels.find(".actions > .fault").get_attribute("role") == "alert"
    assert panels.labelled("Message", ACTIONS).get_attribute("value") == "count one"


def test_what_is_typed_stays_with_its_thread(panels: Panels) -> None:
    types(panels, "half a thou")
    panels.script("store.open('another')")
    panels.wait_for(lambda: panels.labelled("Message", ACTIONS).get_attribute("value") == "")
    panels.script("store.open(arguments[0])", panels.thread_id)
    panels.wait_for(lambda: panels.labelled("Message", ACTIONS).get_attribute("value") == "half a thou")


TREE = """
import agentgraph as ag

tree = ag.sequential("s", [ag.function_agent({name!r}, lambda ctx: "Hi."), ag.human("boss", "Well?")])
"""


def test_a_changed_file_is_reloaded_and_what_it_means_for_the_thread_is_said(
    tmp_path: Path, new_panels: Callable[[PanelServer, str], Panels]
) -> None:
    (tmp_path / "tree.py").write_text(TREE.format(name="ann"))
    server = PanelServer(tmp_path, "file")
    try:
        panels = new_panels(server, "monday")
        panels.run("Go.", until="paused")
        (tmp_path / "tree.py").write_text("tree = 1 / 0")
        panels.wait_for(lambda: "The file of the tree has changed" in panels.text(".banner"))
        panels.press("Reload tree", ACTIONS)
        panels.wait_for(lambda: "ZeroDivisionError" in panels.text(".actions > .fault"))
        (tmp_path / "tree.py").write_text(TREE.format(name="bob"))
        panels.press("Reload tree", ACTIONS)
        panels.wait_for(lambda: "The tree has changed." in panels.text(".banner"))
        changed = panels.texts(".banner .line[data-sign='-'], .banner .line[data-sign='+']")
        assert any("ann" in each for each in changed)
        assert any("bob" in each for each in changed)
        (tmp_path / "tree.py").write_text(TREE.format(name="ann"))
        panels.wait_for(lambda: "The file of the tree has changed" in panels.text(".banner"))
        panels.press("Reload tree", ACTIONS)
        panels.wait_for(lambda: not panels.text(".banner"))
        panels.wait_for(lambda: panels.texts(".questions .card"))
    finally:
        server.stop()
