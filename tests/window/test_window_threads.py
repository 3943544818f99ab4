"""The threads in the window: the list, its search, new runs, copies, deletions, and the address."""

from collections.abc import Callable

import pytest
from selenium.webdriver.support.ui import Select
from window_page import WindowPage
from window_process import WindowServer

Open = Callable[..., WindowPage]


@pytest.fixture(scope="module", autouse=True)
def threads(server: WindowServer) -> None:
    server.run("shout once", "listed-done")
    server.run("fail", "listed-failed", until="failed")
    server.run("print", "listed-paused", until="paused")


def test_each_thread_says_how_it_stands(server: WindowServer, tab: Open) -> None:
    page = tab(server)
    page.wait_for(lambda: page.search.startswith("?thread="))  # one that runs or waits
    page.wait_for(lambda: page.status in {"running", "paused"})
    for name in ("done", "failed", "paused"):
        row = page.thread_row(f"listed-{name}")
        page.wait_for(lambda row=row, name=name: name.title() in page.text(f"{row} .thread-facts"))
    assert page.text(f"{page.thread_row('listed-paused')} .badge") == "1 open"
    assert "was here" in page.text(f"{page.thread_row('listed-paused')} .thread-last")
    assert page.text(f"{page.thread_row('listed-failed')} .thread-first") == "fail"
    facts = "return [...document.querySelectorAll('.thread-facts')].map(each => each.textContent)"
    assert all("started" in each for each in page.script(facts))  # also of rows that are not in sight
    page.click(f"{page.thread_row('listed-paused')} .thread-open")
    page.waits_for_status("paused")
    assert page.search == "?thread=listed-paused"
    page.click(f"{page.thread_row('listed-done')} .thread-open")
    page.waits_for_status("done")
    page.wait_for(lambda: page.text(".summary-asked") == "Input\nshout once")


def test_threads_are_searched_and_filtered(server: WindowServer, tab: Open) -> None:
    page = tab(server)
    page.wait_for(lambda: len(page.texts(".thread")) >= 3)
    page.leave_fields()
    page.keys("/")
    page.keys("listed-f")
    page.wait_for(lambda: page.texts(".thread-name") == ["listed-failed"])
    page.searches("nothing like that")
    page.wait_for(lambda: page.text(".thread-count") == "No thread matches.")
    page.searches("listed")
    page.wait_for(lambda: len(page.texts(".thread-name")) == 3)
    Select(page.find(".thread-filter")).select_by_value("paused")
    page.wait_for(lambda: page.texts(".thread-name") == ["listed-paused"])


def test_a_new_run_begins_in_a_field(server: WindowServer, tab: Open) -> None:
    page = tab(server, "listed-done")
    page.waits_for_status("done")
    page.click(".new-run")
    page.wait_for(lambda: page.tab_shown == "actions")
    assert page.search == ""
    page.keys("print it now")
    page.click(".tab-actions form .primary")
    page.waits_for_status("paused")
    page.wait_for(lambda: "thread=" in page.search)
    page.wait_for(lambda: page.boxes["boss"] == "asks")


def test_a_thread_is_copied(server: WindowServer, tab: Open) -> None:
    page = tab(server, "listed-paused")
    page.wait_for(lambda: page.texts(".thread-copy"))
    page.click(".thread-copy")
    page.wait_for(lambda: page.search == "?thread=listed-paused-copy")
    page.waits_for_status("paused")
    assert "listed-paused-copy" in server.threads_saved()


def test_a_thread_is_deleted_when_that_is_confirmed(server: WindowServer, tab: Open) -> None:
    server.run("shout", "doomed")
    page = tab(server, "doomed")
    page.wait_for(lambda: page.texts(".thread-delete"))
    page.click(".thread-delete")
    page.wait_for(lambda: page.texts(".thread-keep"))
    page.click(".thread-keep")
    page.wait_for(lambda: page.texts(".thread-delete"))
    assert "doomed" in server.threads_saved()
    page.click(".thread-delete")
    page.wait_for(lambda: page.texts(".thread-really"))
    page.click(".thread-really")
    page.wait_for(lambda: not page.texts(page.thread_row("doomed")))
    assert "doomed" not in server.threads_saved()
    assert page.search == ""


def test_the_address_has_the_thread_and_the_selection_but_no_token(
    server: WindowServer, tab: Open
) -> None:
    page = tab(server, "listed-paused")
    page.wait_for(lambda: page.boxes.get("boss") == "asks")
    assert server.token not in page.driver.current_url
    page.click(page.box("boss"))
    page.wait_for(lambda: "at=" in page.search)
    assert page.selected.startswith("boss, does/newspaper/boss, Paused")
    page.driver.refresh()
    page.opens()
    page.wait_for(lambda: page.selected.startswith("boss, does/newspaper/boss, Paused"))
    assert page.status == "paused"


def test_a_page_without_the_token_is_refused(server: WindowServer, tab: Open) -> None:
    page = tab(server, "listed-done")
    page.script("sessionStorage.clear()")
    page.driver.get(f"{server.url}/?thread=listed-done")
    page.wait_for(lambda: "token is missing" in page.text("[role=alert]"))
    assert page.texts(".box") == []
