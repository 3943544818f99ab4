"""A page of several trees: choice, threads, likely mistakes, context and limits of runs."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import several_trees
from selenium.webdriver.support.ui import Select
from window_page import WindowPage
from window_process import WindowServer


class FolderServer(WindowServer):
    script = several_trees.__file__


@pytest.fixture
def folder_server(tmp_path: Path) -> Iterator[FolderServer]:
    server = FolderServer(tmp_path)
    yield server
    server.stop()


def test_each_tree_of_a_folder_shows_its_own_threads(
    folder_server: FolderServer, tab: Callable[..., WindowPage]
) -> None:
    folder_server.run("Hi.", "talk")  # with the first tree
    page = tab(folder_server)
    choice = Select(page.find(".tree-choice"))
    assert [each.text for each in choice.options] == ["chat.py:chat", "report.py:runner"]
    page.wait_for(lambda: page.texts(".thread-name") == ["talk"])
    choice.select_by_visible_text("report.py:runner")
    page.wait_for(lambda: "writer" in page.boxes)
    page.wait_for(lambda: page.text(".thread-others") == "Show threads of other trees")
    assert (page.texts(".thread-name"), page.search) == ([], "?tree=report.py%3Arunner")
    page.click(".thread-others")
    page.wait_for(lambda: page.texts(".thread-name") == ["talk"])
    assert page.text(".thread-facts").startswith("of chat · Done")

    page.wait_for(lambda: page.text(".findings > summary") == "1 likely mistake")
    page.click(".findings > summary")
    assert "nothing can end 'polish'" in page.text(".findings li")
    page.click(f"{page.box('press')} .box-toggle")
    page.wait_for(lambda: "polish" not in page.boxes)
    page.click(".findings .finding-agent")
    page.wait_for(lambda: page.script("return document.activeElement.textContent").startswith("polish"))

    page.click(".right .context > summary")
    reader = page.find(".right .context input")
    assert reader.get_property("value") == "Ann"
    reader.clear()
    reader.send_keys("Bob")
    quick, careful = page.driver.find_elements("css selector", ".right .context input[type=radio]")
    assert (quick.is_selected(), careful.is_selected()) == (True, False)
    careful.click()
    page.click(".right form .limits > summary")
    page.find(".right form .limits input").send_keys("50")
    page.find(".right .message").send_keys("Go.")
    page.click(".right .actions form button.primary")
    page.waits_for_status("paused")
    page.find(".right .tab-questions textarea").send_keys("yes")
    page.click(".right .tab-questions button.primary")
    page.waits_for_status("done")
    page.wait_for(lambda: "Bob, 100: [writer] said: All bees." in page.text(".summary-said"))

    page.click(page.thread_row("talk") + " .thread-open")
    page.wait_for(lambda: "chat" in page.boxes)
    assert page.search == "?tree=chat.py%3Achat&thread=talk"


def test_a_page_follows_its_tree_to_another_name(
    folder_server: FolderServer, tab: Callable[..., WindowPage]
) -> None:
    folder_server.run("Hi.", "talk")
    other, page = tab(folder_server, "talk"), tab(folder_server, "talk")
    page.wait_for(lambda: page.search == "?tree=chat.py%3Achat&thread=talk")
    file = folder_server.folder / "agents" / "chat.py"
    file.write_text(several_trees.CHAT.replace("chat =", "bot ="))
    page.click(".right .tab[data-tab=actions]")
    page.wait_for(lambda: "The file of the tree has changed" in page.text(".right .banner"))
    page.click(".right .banner button")
    page.wait_for(lambda: page.search == "?tree=chat.py%3Abot&thread=talk")
    page.find(".right .message").send_keys("Hi.\n")
    page.wait_for(lambda: "2 turns" in page.text(".head-facts"))
    other.wait_for(lambda: "tree='chat.py:chat' is not one of the trees" in other.text(".alert.lost"))
