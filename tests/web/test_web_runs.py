"""Runs in the browser: live, steered, stopped, cut off, in two tabs, and after a kill."""

from collections.abc import Callable

import pytest
from helpers.web_page import Page
from helpers.web_server import Server, Wire
from helpers.web_trees import HOSTILE

Tab = Callable[[Server | Wire, str], Page]


@pytest.mark.parametrize("own_server", ["newsletter"], indirect=True)
def test_a_newsletter_is_written_before_ones_eyes(own_server: Server, tab: Tab) -> None:
    page = tab(own_server, "bees")
    page.say("bees")
    page.answer(dry=True, Sections="Dances", Name="Ann", Words="80", Pictures=True)
    page.wait_for(lambda: "refine[0]/writer" in page.text(".partial .address"))
    page.wait_for(lambda: "Dear readers" in page.text(".partial .body"))
    page.wait_for(lambda: "iteration 1" in page.texts(".partial .chip"))
    page.answer(Answer="Enjoy.")
    page.wait_for(lambda: "copies" in page.text(".entry.open pre"))
    page.answer(Approve=True)
    page.waits_for_status("done")
    page.wait_for(lambda: page.words[-1].startswith("The desk reports: 1200 copies of"))
    said = [each for each in page.addresses if each.endswith("writer")]
    assert said == [f"newsletter/refine[{nth}]/writer" for nth in range(3)]
    assert page.entries == own_server.events("bees")
    page.driver.refresh()
    page.wait_for(lambda: page.entries == own_server.events("bees"))
    assert page.texts(".user") == ["bees"]


def test_a_message_steers_the_run(server: Server, page: Page) -> None:
    page.say("write bees")
    page.waits_at_gate(1)
    page.type("wasps")
    page.click("#steer")
    page.wait_for(lambda: page.texts(".waiting"))
    assert page.text(".waiting").startswith("wasps")
    server.gate(page.thread_id, 1, 2, 3)
    page.waits_for_status("done")
    assert page.drafts == ["Draft 1 on write bees", "Draft 2 on wasps", "Draft 3 on wasps"]
    assert "you, to writer" in page.text(".steered")
    assert page.texts(".waiting") == []
    assert page.entries == server.events(page.thread_id)


def test_a_run_is_stopped_and_goes_on(server: Server, page: Page) -> None:
    page.say("write bees")
    page.waits_at_gate(1)
    page.click("#stop")
    server.gate(page.thread_id, 1, 2, 3)
    page.waits_for_status("stopped")
    page.wait_for(lambda: page.text("#connection") == "idle")
    assert page.drafts == ["Draft 1 on write bees"]
    page.click("#resume")
    page.waits_for_status("done")
    assert page.drafts == [f"Draft {number} on write bees" for number in (1, 2, 3)]
    assert page.entries == server.events(page.thread_id)


def test_a_reader_who_was_away_gets_each_event_once(server: Server, page: Page) -> None:
    page.say("write bees")
    page.waits_at_gate(1)
    page.click("#connect")
    assert page.text("#connection") == "disconnected"
    before = page.entries
    server.gate(page.thread_id, 1, 2)
    page.wait_for(
        lambda: sum(each[1].endswith("critic") for each in server.events(page.thread_id)) == 2
    )
    assert page.entries == before
    page.click("#connect")
    page.wait_for(lambda: len(page.entries) == len(before) + 4)
    server.gate(page.thread_id, 3)
    page.waits_for_status("done")
    page.wait_for(lambda: page.text("#connection") == "idle")
    assert page.entries == server.events(page.thread_id)
    wait_for_polls(page, 2)
    assert page.entries == server.events(page.thread_id)


def test_a_connection_that_was_lost_is_taken_up_again(server: Server, wire: Wire, tab: Tab) -> None:
    page = tab(wire, "wired")
    page.say("write bees")
    page.waits_at_gate(1)
    before = page.entries
    wire.cut()
    page.wait_for(lambda: page.text("#connection") == "connecting")
    server.gate("wired", 1)
    page.wait_for(lambda: len(server.events("wired")) == len(before) + 2)
    assert page.entries == before
    wire.is_cut = False
    page.wait_for(lambda: len(page.entries) == len(before) + 2)
    assert page.text("#status") == "running"
    server.gate("wired", 2, 3)
    page.waits_for_status("done")
    assert page.entries == server.events("wired")


def wait_for_polls(page: Page, number: int) -> None:
    """Wait until the browser has asked again, by itself."""
    count = (
        "return performance.getEntriesByType('resource').filter(e => e.name.includes('/events')).length"
    )
    before = page.script(count)
    page.wait_for(lambda: page.script(count) >= before + number)


def test_two_tabs_show_the_same(server: Server, page: Page, tab: Tab) -> None:
    other = tab(server, page.thread_id)
    page.say("write bees")
    page.waits_at_gate(1)
    other.waits_at_gate(1)
    other.type("wasps")
    other.click("#steer")
    server.gate(page.thread_id, 1, 2, 3)
    for each in (page, other):
        each.waits_for_status("done")
    assert page.entries == other.entries == server.events(page.thread_id)
    other.say("ask {}")
    page.answer(Answer="from the first tab")
    for each in (page, other):
        each.wait_for(lambda each=each: each.words[-1] == 'Answered: "from the first tab"')
        each.wait_for(lambda each=each: not each.texts(".entry.open"))
    assert page.entries == other.entries == server.events(page.thread_id)
    assert page.texts(".user") == other.texts(".user")


def test_a_server_that_was_killed_goes_on_where_it_was(own_server: Server, tab: Tab) -> None:
    page = tab(own_server, "killed")
    own_server.gate("killed", 1)
    page.say("write bees")
    page.waits_at_gate(2)
    own_server.kill()
    page.wait_for(lambda: page.text("#connection") == "connecting")
    page.click("#stop")
    page.wait_for(lambda: page.text("#alert") == "The server does not answer.")
    own_server.start()
    page.waits_for_status("stopped")
    page.wait_for(lambda: page.text("#connection") == "idle")
    page.script("document.querySelector('.partial').classList.add('before')")
    page.click("#resume")
    page.wait_for(lambda: not page.texts(".before"))  # the words of the attempt before are gone
    page.waits_at_gate(2)
    assert len(page.texts(".partial")) == 1
    own_server.gate("killed", 2, 3)
    page.waits_for_status("done")
    page.wait_for(lambda: page.text("#connection") == "idle")
    assert page.entries == own_server.events("killed")
    assert page.drafts == [f"Draft {number} on write bees" for number in (1, 2, 3)]


def test_a_busy_thread_refuses_or_queues(server: Server, page: Page) -> None:
    page.say("write bees")
    page.waits_at_gate(1)
    page.say("write wasps", while_running="refuse")
    page.wait_for(lambda: page.text("#alert").startswith("409 ThreadBusyError: "))
    page.say("shout", while_running="queue")
    page.wait_for(lambda: page.texts(".waiting"))
    assert page.text("#alert") == ""
    server.gate(page.thread_id, 1, 2, 3)
    page.wait_for(lambda: page.addresses[-1] == "does/shout")
    page.waits_for_status("done")
    page.wait_for(lambda: page.texts(".user") == ["write bees", "shout"])
    assert page.entries == server.events(page.thread_id)


def test_a_message_that_finds_a_run_steers_it(server: Server, page: Page) -> None:
    page.say("write bees")
    page.waits_at_gate(1)
    page.say("write wasps", while_running="steer")
    server.gate(page.thread_id, 1, 2, 3)
    page.waits_for_status("done")
    assert page.drafts == [
        f"Draft {number} on write {what}" for number, what in [(1, "bees"), (2, "wasps"), (3, "wasps")]
    ]
    assert len(page.texts("section[data-turn]")) == 1
    assert page.entries == server.events(page.thread_id)


def test_an_unknown_thread_is_refused(page: Page) -> None:
    assert page.text("#status") == "new"
    page.click("#stop")
    page.wait_for(lambda: page.text("#alert").startswith("404 UnknownThreadError: "))


def test_a_run_that_failed_says_why_and_goes_on(server: Server, page: Page) -> None:
    page.say("fail")
    page.waits_for_status("failed")
    page.wait_for(lambda: f'ValueError("{HOSTILE}")' in page.text(".entry[data-kind=error]"))
    assert page.entries == server.events(page.thread_id)
    server.gate(page.thread_id, 1)
    page.click("#resume")
    page.waits_for_status("done")
    page.wait_for(lambda: page.words == ["Now it works."])
    assert page.text("#alert") == ""
    assert page.entries == server.events(page.thread_id)


def test_a_message_is_edited_and_its_turn_runs_again(server: Server, page: Page) -> None:
    page.say("write bees")
    server.gate(page.thread_id, 1, 2, 3, 4, 5, 6)
    page.wait_for(lambda: len(page.drafts) == 3)
    page.waits_for_status("done")
    page.say("shout")
    page.wait_for(lambda: page.addresses[-1] == "does/shout")
    page.waits_for_status("done")
    page.wait_for(lambda: page.texts(".user") == ["write bees", "shout"])
    page.click("section[data-turn='0'] .edit")
    assert page.text("#send") == "Run again from here"
    page.say("write wasps")
    page.wait_for(lambda: page.texts(".user") == ["write wasps"])
    page.wait_for(lambda: page.drafts == [f"Draft {number} on write wasps" for number in (1, 2, 3)])
    page.waits_for_status("done")
    assert page.entries == server.events(page.thread_id)
    assert page.text("#send") == "Send message"
