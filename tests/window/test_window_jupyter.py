"""The window in a cell of JupyterLab: what it shows, what one does there, and what ends it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from jupyter_lab import JupyterLab, Notebook
from selenium.webdriver import Chrome

TREE = """
import threading
from pathlib import Path
import agentgraph as ag

def words(ctx) -> str:
    return ctx.messages[-1].text

def gated(ctx) -> str:
    import time
    while Path("shut").exists():
        time.sleep(0.02)
    return "Open."

writer = ag.function_agent("writer", lambda ctx: f"About {words(ctx)}")
boss = ag.human("boss", "Print <b>it</b>?", response_schema={"enum": ["yes", "no"]})
press = ag.function_agent("press", lambda ctx: f"Printed: {words(ctx)}")
gate = ag.function_agent("gate", gated)
runner = ag.Runner(ag.sequential("report", [writer, gate, boss, press]))
"""
ASKS = "runner.invoke('bees', thread_id='monday').status"
VIEW = "ag.view(runner, 'monday')"
FOLLOWERS = "[each for each in threading.enumerate() if each.name == 'agentgraph.view']"
Opened = Callable[..., Notebook]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterLab]:
    lab = JupyterLab(tmp_path_factory.mktemp("lab"))
    yield lab
    lab.stop()


@pytest.fixture
def notebook(
    chromium: Chrome, lab: JupyterLab, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Notebook]]:
    """Open a notebook with these cells, after that of the tree, in a tab of its own."""
    (first,) = chromium.window_handles
    opened: list[Notebook] = []

    def open_one(*cells: str) -> Notebook:
        chromium.switch_to.new_window("tab")
        name = f"{request.node.name}-{len(opened)}"
        opened.append(Notebook(chromium, lab, name, [TREE + cells[0], *cells[1:]]))
        return opened[-1]

    yield open_one
    for each in opened:
        each.kernel("shutdown()")
    for handle in chromium.window_handles:
        if handle != first:
            chromium.switch_to.window(handle)
            chromium.execute_script("localStorage.clear(); window.onbeforeunload = null")
            chromium.close()
    chromium.switch_to.window(first)


def status(page: Notebook, cell: int = 1, at: int = 0) -> str:
    return page.window(".head .pill", cell, at).partition(" ")[2].lower()


def answers(page: Notebook, answer: str, cell: int = 1) -> None:
    form = page.in_window(".questions form", cell)
    page.does(next(each for each in form.find_elements("css selector", "label") if each.text == answer))
    page.does(page.in_window(".questions form button.primary", cell))


def paused(page: Notebook) -> bool:
    return status(page) == "paused"


def shows(page: Notebook, tab: str) -> None:
    page.does(page.in_window(f".tab[data-tab={tab}]"))


def selects(page: Notebook, place: str) -> None:
    page.does(page.in_window(f".box[data-place='{place}'] > .box-head"))


def test_a_form_is_answered_in_a_cell_and_a_run_goes_back(notebook: Opened, tmp_path: Path) -> None:
    page = notebook(
        ASKS, VIEW, "print(runner.thread('monday').status, len(runner.thread('monday').lines))"
    )
    page.runs()
    page.wait_for(lambda: paused(page))
    assert page.window(".title") == "report"
    assert page.script("return document.querySelectorAll('.agentgraph-window b b').length") == 0

    answers(page, "yes")
    page.wait_for(lambda: status(page) == "done")
    page.wait_for(lambda: "said: yes" in page.window(".middle"))
    selects(page, "writer")
    page.wait_for(lambda: "About bees" in page.window(".detail"))

    shows(page, "machine")
    page.does(page.in_window(".machine summary"))
    page.does(page.in_window(".again .change summary"))
    page.does(page.in_window(".again textarea"), "wasps")
    page.does(page.in_window(".again button.primary"))
    page.wait_for(lambda: paused(page))
    page.wait_for(lambda: "About wasps" in page.window(".middle"))
    page.runs(2)
    page.wait_for(lambda: page.output(2) == "paused 2")

    page.does(page.in_window(".timeline-scroller"), "x", "d", "d")  # they cut cells and delete them
    assert page.script("return document.querySelectorAll('.jp-CodeCell').length") == 3
    page.screenshot(tmp_path / "cell.png")


def test_windows_follow_a_cell_that_runs_and_are_answered_beside_it(
    notebook: Opened, lab: JupyterLab
) -> None:
    wait = f"while {FOLLOWERS}: threading.Event().wait(0.01)\nprint('ended')"
    page = notebook("", VIEW, VIEW, ASKS, wait)
    gate = lab.folder / "shut"
    gate.touch()
    page.runs(0, 1, 2)
    page.wait_for(lambda: page.window(".title", 1) == page.window(".title", 2) == "report")
    page.runs(3)
    page.wait_for(lambda: status(page, 1) == status(page, 2) == "running")
    selects(page, "writer")
    page.wait_for(lambda: "About bees" in page.window(".detail"))  # the kernel was asked for it
    assert page.output(3) == ""
    gate.unlink()
    page.wait_for(lambda: status(page, 1) == status(page, 2) == "paused")
    page.wait_for(lambda: page.output(3) == "'paused'")
    answers(page, "no", 2)
    page.wait_for(lambda: status(page, 1) == status(page, 2) == "done")
    assert "said: no" in page.window(".middle", 1)

    page.command("notebook:clear-all-cell-outputs")
    page.wait_for(lambda: page.output(1) == "")
    page.runs(4)
    page.wait_for(lambda: page.output(4) == "ended")


def test_a_window_whose_kernel_is_new_says_so_and_a_saved_one_is_a_table(notebook: Opened) -> None:
    page = notebook(ASKS, VIEW)
    page.runs()
    page.wait_for(lambda: paused(page))
    assert "agent" not in page.output(1).split()  # the table is hidden
    page.command("docmanager:save")
    page.kernel("restart()")
    page.wait_for(lambda: "Rerun the cell" in page.window(".lost"))
    assert page.window(".connection") == "Not connected"
    page.runs()
    page.wait_for(lambda: paused(page))
    assert page.window(".connection") == "Connected"

    page.command("docmanager:save")
    page.wait_for(lambda: "agentgraph-still" in page.path.read_text())
    page.kernel("shutdown()")
    page.open()
    page.wait_for(
        lambda: "thread 'monday': paused; report/boss asks: Print <b>it</b>?" in page.output(1)
    )
    page.wait_for(lambda: page.script("return document.body.textContent.includes('model not found')"))
    assert "report/writer\tdone" in page.output(1)
    assert "rror" not in page.output(1)
