"""The conversation in the window: turns, tools, questions in place, edits, branches, and the events."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import Select
from window_page import WindowPage
from window_process import WindowServer
from window_trees import tree_of

import agentgraph as ag

Open = Callable[..., WindowPage]
LINES = ".talk-turn, .talk-flow :is(.bubble, .asked > .long, .tool-call b, .note p)"
ACT = (
    "[...document.querySelectorAll(arguments[0] + ' .act')].findLast(e => e.innerText === arguments[1])"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WindowServer]:
    """A server for these tests, because their branches are further threads."""
    server = WindowServer(tmp_path_factory.mktemp("talk"))
    yield server
    server.stop()


def shows(page: WindowPage, view: str) -> None:
    page.click(f".views .tab[data-tab={view}]")
    page.wait_for(lambda: page.find(f".tab-{view}").is_displayed())


def lines(page: WindowPage) -> list[str]:
    """Return the turns and messages of the conversation; turns without their times."""
    found = [" ".join(each.split()) for each in page.texts(LINES)]
    return [" ".join(each.split()[:2]) if each.startswith("Turn ") else each for each in found]


def press(page: WindowPage, label: str, item: str = ".talk-item") -> None:
    """Press a button of the last item that has it."""
    page.wait_for(lambda: page.script(f"return {ACT}", item, label))
    page.script(f"{ACT}.click()", item, label)


def types(page: WindowPage, css: str, text: str) -> None:
    page.find(css).clear()
    page.find(css).send_keys(text)


def test_a_thread_is_a_chat_from_its_last_turn(server: WindowServer, tab: Open) -> None:
    server.run("nest", "chat")
    server.call("start", text="house", thread_id="chat", values={"topic": "bees"})
    page = tab(server, "chat")
    shows(page, "talk")
    page.wait_for(lambda: lines(page)[-1:] == ["bob has it."])
    assert page.text(".talk-item.set") == 'User set topic "bees"'
    assert lines(page)[:6] == ["Turn 2", "house", "chose house", "look", "scout", "Bees."]
    page.click(".tool-call summary")
    page.wait_for(lambda: page.text(".tool-call .inside").split("\n")[-1] == "nothing new in the hive")
    assert '"where": "hive"' in page.text(".tool-call .inside")
    page.click(".talk .show-all")
    page.wait_for(lambda: lines(page)[:3] == ["Turn 1", "nest", "chose outer"])
    assert not page.find(".talk .show-all").is_displayed()
    page.click(".right .tab[data-tab=machine]")
    press(page, "Details")
    page.wait_for(lambda: page.text(".right .detail h2").strip() == "bob")
    assert page.tab_shown == "detail"


def test_a_message_is_edited_regenerated_and_branched(server: WindowServer, tab: Open) -> None:
    server.run("count 2", "edited")
    page = tab(server, "edited")
    shows(page, "talk")
    page.wait_for(lambda: lines(page) == ["Turn 1", "count 2", "chose counting", ".", "ended the loop"])
    press(page, "Edit", ".sent")
    types(page, ".talk .edit textarea", " ")
    page.click(".talk .edit .primary")
    page.wait_for(lambda: page.text(".talk .edit .fault") == "The message is empty. Type a message.")
    types(page, ".talk .edit textarea", "count 3")
    page.click(".talk .edit .primary")
    page.wait_for(lambda: lines(page)[1:] == ["count 3", "chose counting", ".", ".", "ended the loop"])
    page.wait_for(lambda: page.text(".head-facts") == "2 versions")
    press(page, "Regenerate", ".said")
    page.wait_for(lambda: page.text(".head-facts") == "3 versions")
    page.waits_for_status("done")
    press(page, "Edit", ".sent")
    types(page, ".talk .edit textarea", "shout once")
    page.script("document.querySelectorAll('.talk .edit button')[1].click()")
    page.wait_for(lambda: page.search == "?thread=edited-a")
    page.wait_for(lambda: lines(page)[1:3] == ["shout once", "chose shout"])
    assert page.script("return window.hacked ?? null") is None
    shows(page, "work")
    page.wait_for(lambda: page.text(".summary-asked .long") == "shout once")
    (_, _, first) = server.call("lines", thread_id="edited")["lines"]
    page.driver.get(f"{server.url}/?token={server.token}&thread=edited&line={first['head']}")
    page.wait_for(lambda: page.text(".summary-asked .long") == "count 2")
    shows(page, "talk")
    assert page.find(".notice.version").is_displayed()
    page.click(".notice.version button")
    page.wait_for(lambda: lines(page)[1:2] == ["count 3"])
    assert not page.find(".notice.version").is_displayed()


def test_an_edit_stays_while_another_page_runs_a_turn(server: WindowServer, tab: Open) -> None:
    server.run("count 1", "kept")
    page = tab(server, "kept")
    shows(page, "talk")
    press(page, "Edit", ".sent")
    types(page, ".talk .edit textarea", "count 2")
    server.call("start", text="write bees", thread_id="kept")
    page.wait_for(lambda: "write bees" in lines(page))
    page.wait_for(lambda: {*page.texts(".talk-flow .act")} <= {"Details"})
    assert page.find(".talk .edit textarea").get_property("value") == "count 2"
    server.gate("kept", "1")
    page.waits_for_status("done")
    page.click(".talk .edit .primary")
    page.wait_for(lambda: lines(page)[1:] == ["count 2", "chose counting", ".", "ended the loop"])


def test_a_question_is_answered_in_place(server: WindowServer, tab: Open) -> None:
    server.run("print", "answered", until="paused")
    page = tab(server, "answered")
    shows(page, "talk")
    card = ".talk .slot .card"
    page.wait_for(lambda: "Print it?" in page.text(card))
    page.click(f"{card} input[type=radio]")
    page.click(f"{card} .primary")
    page.waits_for_status("done")
    page.wait_for(lambda: lines(page)[-2:] == ["Print it?", "yes"])
    types(page, ".composer .message", "nest\n")
    page.wait_for(lambda: lines(page)[-2:] == ["Tick.", "ended the loop"])
    assert "Turn 2" in lines(page)


def test_a_stored_answer_is_at_its_question(server: WindowServer, tab: Open) -> None:
    server.run("print", "stored", until="paused")
    with ag.Runner(tree_of(str(server.folder)), checkpointer=server.folder / "runs.db") as runner:
        (question,) = runner.pending("stored")
        runner.answer("stored", {question.id: "no"})
    page = tab(server, "stored")
    shows(page, "talk")
    page.wait_for(lambda: "The answer is stored." in page.text(".talk .asks"))
    assert "Answer\nno" in page.text(".talk .asked")
    page.click(".composer .resume .primary")
    page.waits_for_status("done")
    page.wait_for(lambda: lines(page)[-2:] == ["Print it?", "no"])


def test_a_run_is_followed_in_the_conversation(server: WindowServer, tab: Open) -> None:
    page = tab(server, "live")
    shows(page, "talk")
    page.wait_for(lambda: page.text(".talk .empty") == "Send a message to start.")
    types(page, ".composer .message", "shout once\n")
    page.waits_for_status("done")
    types(page, ".composer .message", "write bees\n")
    page.wait_for(lambda: page.text(".talk-typing .long").startswith("Draft 1 on write bees"))
    assert page.text(".talk-typing .who b") == "novelist"
    page.wait_for(lambda: {*page.texts(".talk-flow .act")} == {"Details"})
    server.gate("live", "1")
    page.waits_for_status("done")
    page.wait_for(lambda: lines(page)[-1].startswith("Draft 1 on write bees"))
    page.wait_for(lambda: page.text(".talk-typing") == "")
    scroller = "document.querySelector('.tab-talk .talk-scroller')"
    at_end = f"const e = {scroller}; return e.scrollHeight - e.scrollTop - e.clientHeight < 2"
    page.script(f"{scroller}.scrollTop = 0")
    types(page, ".composer .message", "shout twice\n")
    page.waits_for_status("done")
    page.wait_for(lambda: "Turn 3" in lines(page) and page.script(at_end))


def test_the_events_are_filtered_and_copied(server: WindowServer, tab: Open, chromium: Chrome) -> None:
    server.run("house", "listed")
    server.run("fail", "listed", until="failed")
    rights = {"origin": server.url, "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    chromium.execute_cdp_cmd("Browser.grantPermissions", rights)
    page = tab(server, "listed")
    shows(page, "events")
    page.wait_for(lambda: len(page.texts(".event-row")) == 2)
    page.script("document.querySelectorAll('.event-tools button')[0].click()")
    page.wait_for(lambda: page.text(".event-tools .quiet") == "19 events")
    Select(page.find(".event-tools select")).select_by_value("lead")
    page.find(".event-tools input").send_keys("nothing NEW")
    page.wait_for(lambda: page.text(".event-tools .quiet") == "1 of 19 events")
    page.click(".event-row summary")
    page.wait_for(lambda: '"agent_name": "lead"' in page.text(".event-row pre"))
    page.click(".event-tools button:last-child")
    page.wait_for(lambda: page.text(".event-tools button:last-child") == "Copied")
    copied: list[dict[str, Any]] = json.loads(
        page.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    )
    (event,) = map(ag.AgentEvent.from_dict, copied)
    assert (event.address, event.text) == ("does/house/lead", "nothing new in the hive")
