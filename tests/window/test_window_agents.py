"""The view by agent in the window: where a turn spent time, tokens and money, and another thread's."""

from collections.abc import Callable

from selenium.webdriver.support.ui import Select
from window_page import WindowPage
from window_process import WindowServer


def test_the_agents_of_a_turn_are_shown_with_those_of_another_thread(
    server: WindowServer, tab: Callable[..., WindowPage]
) -> None:
    server.run("house", "agents-one")
    server.run("fail", "agents-two", until="failed")
    page = tab(server, "agents-one")
    page.click(".views .tab[data-tab=agents]")
    page.wait_for(lambda: len(page.texts(".flame-name")) > 3)
    assert page.text(".flame [role=status]") == "Turn 1"
    names, widths = page.texts(".flame-name"), ".flame-bar"
    shares = page.script(f"return [...document.querySelectorAll('{widths}')].map((e) => e.offsetWidth)")
    assert shares[0] == max(shares) > 100
    Select(page.find(".flame [aria-label=Measure]")).select_by_value("cost")
    page.wait_for(lambda: set(page.texts(".flame-amount:not(.quiet)")) == {"unknown"})
    Select(page.find(".flame [aria-label=Measure]")).select_by_value("tokens")
    compared = ".flame [aria-label='Compare with']"
    page.wait_for(lambda: "agents-two" in page.text(compared))
    Select(page.find(compared)).select_by_value("agents-two")
    page.wait_for(lambda: page.texts(".flame-amount.quiet")[0] == "not reported")
    assert page.texts(".flame-name") == names


def test_a_row_opens_the_agent_in_the_turn_that_is_chosen(
    server: WindowServer, tab: Callable[..., WindowPage]
) -> None:
    server.run("house", "agents-turns")
    server.run("shout once", "agents-turns")
    page = tab(server, "agents-turns")
    page.click(".right .tab[data-tab=machine]")
    page.click(".views .tab[data-tab=agents]")
    page.wait_for(lambda: "shout" in page.texts(".flame-name"))
    Select(page.find(".flame .turn-picker")).select_by_visible_text("turn 1")
    page.wait_for(lambda: "house" in page.texts(".flame-name"))
    page.script(
        "[...document.querySelectorAll('.flame-name')].find(e => e.innerText == 'house').click()"
    )
    page.wait_for(lambda: page.text(".right .detail h2").strip() == "house")
    assert page.tab_shown == "detail"
