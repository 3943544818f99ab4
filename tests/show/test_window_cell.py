"""The window in a cell without a browser: messages of a real kernel, followers, the table, refusals."""

import asyncio
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import says
from helpers.commands import wait_until
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from starlette.testclient import TestClient

import agentgraph as ag
from agentgraph.window.app import make_app
from agentgraph.window.calls import Window
from agentgraph.window.cell_backend import CellBackend
from agentgraph.window.static_view import ROWS, static_view
from agentgraph.window.updates import SECONDS

PATIENCE = 60.0
CELL = """
import time
from pathlib import Path
import agentgraph as ag

def gated(ctx) -> str:
    while Path({gate!r}).exists():
        time.sleep(0.01)
    return "Open."

runner = ag.Runner(ag.sequential("s", [ag.function_agent("gate", gated), ag.human("boss", "Print?")]))
cell = ag.view(runner, "t")
cell
"""


class Kernel:
    """A kernel, and a view of the widget that a cell of it shows."""

    def __init__(self, folder: Path) -> None:
        self.gate = folder / "shut"
        self.manager = KernelManager()
        self.manager.start_kernel(cwd=str(folder))
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE)
        self.displays: list[dict[str, Any]] = []
        self.widget = ""
        self.heard: list[dict[str, Any]] = []
        self.run(CELL.format(gate=str(self.gate)))
        self.widget = self.displays[-1]["application/vnd.jupyter.widget-view+json"]["model_id"]

    def stop(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.context.destroy()

    def run(self, code: str) -> str:
        """Run a cell, and return what it prints."""
        printed: list[str] = []

        def hear(message: dict[str, Any]) -> None:
            content = message["content"]
            printed.append(content.get("text", ""))
            if message["msg_type"] == "display_data":
                self.displays.append(content["data"])

        reply = self.client.execute_interactive(code, output_hook=hear, timeout=PATIENCE)
        assert reply["content"]["status"] == "ok", reply["content"]
        return "".join(printed)

    def begin(self, code: str) -> None:
        """Run a cell, without waiting for its end."""
        self.client.execute(code)

    def send(self, content: dict[str, Any], subshell: str | None = None) -> None:
        """Send a message of the view."""
        data = {"method": "custom", "content": {"view": "v", **content}}
        message = self.client.session.msg("comm_msg", {"comm_id": self.widget, "data": data})
        message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)

    def hear(self, seconds: float = PATIENCE, **wanted: Any) -> dict[str, Any]:
        """Return the first message to the view with these parts."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                message = self.client.get_iopub_msg(timeout=0.2)
            except queue.Empty:
                continue
            if message["msg_type"] != "comm_msg" or message["content"]["data"]["method"] != "custom":
                continue
            content = message["content"]["data"]["content"]
            self.heard.append(content)
            if content.items() >= wanted.items():
                return content
        raise AssertionError(f"{wanted} did not come")

    def new_subshell(self) -> str:
        message = self.client.session.msg("create_subshell_request", {})
        self.client.control_channel.send(message)
        reply = self.client.get_control_msg(timeout=PATIENCE)
        return str(reply["content"]["subshell_id"])


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    kernel = Kernel(tmp_path_factory.mktemp("kernel"))
    yield kernel
    kernel.stop()


def test_the_kernel_answers_calls_each_once_and_refuses_in_words(kernel: Kernel) -> None:
    kernel.send({"call": 1, "name": "about", "arguments": {}})
    assert kernel.hear(call=1)["answer"]["title"] == "s"
    for _ in range(3):  # it is sent again until there is an answer
        kernel.send({"call": 2, "name": "start", "arguments": {"text": "Go.", "thread_id": "once"}})
    assert kernel.hear(call=2)["answer"] == {"thread_id": "once"}
    kernel.send({"call": 3, "name": "fly", "arguments": {}})
    refused = kernel.hear(call=3)
    assert refused["error"] == "AgentGraphError"
    assert refused["detail"].startswith("'fly' is not a call")
    begun = "while not (threads := runner.threads()): time.sleep(0.01)\nprint(len(threads))"
    assert kernel.run(begun) == "1\n"
    assert len({str(each) for each in kernel.heard if each.get("call") == 2}) == 1


def test_news_come_while_a_cell_runs_and_calls_beside_it_by_a_subshell(kernel: Kernel) -> None:
    kernel.send({"follow": 10, "thread": "t", "since": None})
    assert kernel.hear(follow=10, kind="thread")["data"]["status"] == "new"
    subshell = kernel.new_subshell()
    kernel.send({"call": 10, "name": "about", "arguments": {}}, subshell)
    kernel.hear(call=10)
    kernel.gate.touch()
    kernel.begin("runner.invoke('Go.', thread_id='t')")
    while kernel.hear(follow=10, kind="thread")["data"]["status"] != "running":
        pass
    kernel.send({"call": 11, "name": "thread", "arguments": {"thread_id": "t"}})
    kernel.send({"call": 12, "name": "thread", "arguments": {"thread_id": "t"}}, subshell)
    assert kernel.hear(call=12)["answer"]["status"] == "running"
    assert [each for each in kernel.heard if each.get("call") == 11] == []  # it waits for the cell
    kernel.gate.unlink()
    assert kernel.hear(call=11)["answer"]["status"] == "paused"
    kernel.send(
        {"call": 13, "name": "answer", "arguments": {"thread_id": "t", "answers": {"s/boss": "yes"}}}
    )
    while kernel.hear(follow=10, kind="thread")["data"]["status"] != "done":
        pass
    kernel.send({"unfollow": 10})
    assert kernel.run("while cell.backend.followers: time.sleep(0.01)\nprint('ended')") == "ended\n"


def test_a_closed_widget_tells_nothing_more(kernel: Kernel) -> None:
    names = "[each.name for each in threading.enumerate()]"
    ended = f"import threading\nwhile 'agentgraph.view' in {names}: time.sleep(0.01)\nprint('ended')"
    kernel.run("cell = ag.view(runner, 't'); cell")
    kernel.widget = kernel.displays[-1]["application/vnd.jupyter.widget-view+json"]["model_id"]
    kernel.send({"follow": 20, "thread": "t", "since": None})
    kernel.hear(follow=20, kind="thread")
    assert kernel.run(f"print(len(cell.backend.followers))\ncell.close()\n{ended}") == "1\nended\n"


# followers


class Views:
    """The messages that the views of one backend receive."""

    def __init__(self, runner: ag.Runner, **options: Any) -> None:
        self.heard: list[dict[str, Any]] = []
        self.backend = CellBackend(Window(runner, "w"), self.heard.append, **options)

    def follow(self, view: str, thread: str = "t", since: str | None = None) -> None:
        self.backend.receive({"view": view, "follow": 1, "thread": thread, "since": since})

    def news(self, view: str) -> list[str]:
        return [each["kind"] for each in self.heard if each["view"] == view]


def view_threads() -> int:
    return sum(each.name == "agentgraph.view" for each in threading.enumerate())


@pytest.fixture
def runner() -> ag.Runner:
    runner = ag.Runner(says("a"))
    runner.invoke("Go.", thread_id="t")
    return runner


def test_a_view_that_asks_for_nothing_more_is_told_nothing_more(runner: ag.Runner) -> None:
    views = Views(runner, lease=0.5)
    views.follow("gone")
    views.follow("there")
    wait_until(lambda: views.news("gone") and views.news("there"))
    assert [*views.backend.followers] == [("gone", 1), ("there", 1)]
    asked = 0
    while ("gone", 1) in views.backend.followers:
        views.follow("there")
        asked += 1
        time.sleep(0.02)
    assert [*views.backend.followers] == [("there", 1)]
    assert views.news("there").count("thread") == 1  # it continues, and sends nothing twice
    assert asked > 2
    views.backend.close()
    wait_until(lambda: view_threads() == 0)


def test_no_follower_ends_while_the_kernel_is_too_busy_to_hear_its_view(runner: ag.Runner) -> None:
    loop = asyncio.new_event_loop()
    free, busy = threading.Event(), threading.Event()

    def block() -> None:
        busy.set()
        free.wait()

    loop.call_soon(block)
    main = threading.Thread(target=loop.run_forever)
    main.start()
    busy.wait()
    views = Views(runner, lease=0.1, main=loop)
    views.follow("v")
    wait_until(lambda: views.news("v"))
    time.sleep(0.5)  # five leases
    assert [*views.backend.followers] == [("v", 1)]
    free.set()
    wait_until(lambda: not views.backend.followers)
    loop.call_soon_threadsafe(loop.stop)
    main.join()
    loop.close()


def test_many_views_come_and_go(runner: ag.Runner) -> None:
    views = Views(runner)
    for number in range(20):
        views.follow(f"v{number}")
        if number % 2:
            views.backend.end((f"v{number}", 1))
    wait_until(lambda: all(views.news(f"v{number}") for number in range(0, 20, 2)))
    assert len(views.backend.followers) == 10
    views.backend.close()
    wait_until(lambda: view_threads() == 0)


def test_a_follower_ends_also_if_its_window_is_closed_first(runner: ag.Runner) -> None:
    views = Views(runner)
    views.follow("v")
    wait_until(lambda: views.news("v"))
    views.backend.window.is_closed = True
    time.sleep(2 * SECONDS)  # it looks meanwhile
    views.backend.end(("v", 1))
    wait_until(lambda: view_threads() == 0)


# without a kernel


def test_the_table_shows_how_a_thread_stands(runner: ag.Runner) -> None:
    hostile = "<script>alert(1)</script>\x1b[31m\u202e"
    tree = ag.loop(
        "l", [ag.function_agent("a", lambda ctx: f"{ctx.iteration} {hostile}")], max_iterations=60
    )
    runner = ag.Runner(ag.sequential("s", [tree, ag.human("boss", f"Print {hostile}?")]))
    runner.invoke("Go.", thread_id=hostile)
    shown = static_view(Window(runner, "s"), hostile)
    lines = shown.text().splitlines()
    assert lines[:4] == [
        "s (sequential)",
        "├─ l (loop, at most 60)",
        "│  └─ a (function)",
        "└─ boss (human)",
    ]
    words = r"thread '<script>.*': paused; s/boss asks: Print <script>.*\?; the last 40 activations"
    assert re.fullmatch(words, lines[5])
    assert lines[6].split() == ["agent", "state", "time", "tokens", "text"]
    assert lines[-2].split()[:2] == ["s/l[59]/a", "done"]
    assert len(shown.rows) == ROWS
    assert "<script" not in shown.html()
    assert not set(shown.text() + shown.html()) & {"\x1b", "\u202e"}
    every = static_view(Window(runner, "s"), None)
    assert (every.title, [row[1] for row in every.rows]) == ("threads: 1", ["paused"])


def test_a_thread_that_is_not_there_yet_can_be_viewed(runner: ag.Runner) -> None:
    shown = static_view(Window(runner, "s"), "later")
    assert shown.text().splitlines()[-1] == "thread 'later': new"
    assert ag.view(runner, "later")._repr_mimebundle_()[0]["text/html"] == shown.html()


def test_a_cell_has_all_that_it_shows(runner: ag.Runner) -> None:
    cell = ag.view(runner, "t", height=300)
    assert (cell.thread_id, cell.height, repr(cell)) == ("t", 300, "<window on 'a': thread 't'>")
    assert repr(ag.view(runner)) == "<window on 'a': all threads>"
    assert "export default" in cell._esm
    assert ".agentgraph-window" in cell._css
    cell.close()


# refusals


def test_what_is_missing_is_named() -> None:
    lines = [
        "import sys; sys.modules['anywidget'] = None",
        "import agentgraph as ag",
        "runner = ag.Runner(ag.human('h', 'Well?'))",
        "try: ag.view(runner)",
        "except ag.AgentGraphError as error: print(error)",
    ]
    run = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False
    )
    words = (
        "viewing runs in a notebook needs the package anywidget: "
        "pip install 'langgraph-agentgraph[notebook]'"
    )
    assert (run.stdout, run.stderr) == (f"{words}\n", "")


def test_what_is_no_runner_and_a_saver_for_async_calls_alone_are_refused() -> None:
    with pytest.raises(
        ag.AgentGraphError, match=r"is not a Runner; write view\(Runner\(agent\), \.\.\.\)"
    ):
        ag.view(says("a"))  # type: ignore[arg-type]

    async def refused() -> str:
        async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
            with pytest.raises(ag.AgentGraphError) as error:
                ag.view(ag.Runner(says("a"), checkpointer=saver))
            return str(error.value)

    assert re.search(
        r"^AsyncSqliteSaver serves only .*, or use sqlite_saver\(\) on the same file$",
        asyncio.run(refused()),
    )


REFUSED = {
    "a call that is not there": ("fly", {}),
    "a thread that is not there": ("thread", {"thread_id": "none", "line": "x"}),
    "arguments that do not fit": ("thread", {"thread": 1}),
    "an answer that does not fit": ("answer", {"thread_id": "t"}),
}


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
def test_a_call_is_refused_in_one_form_by_the_server_and_by_the_kernel(
    refused: tuple[str, Any],
) -> None:
    name, arguments = refused
    runner = ag.Runner(ag.human("boss", "Print?", response_schema=bool), checkpointer=InMemorySaver())
    paused = runner.invoke("Go.", thread_id="t")
    if name == "answer":
        arguments = {**arguments, "answers": {paused.pending[0].id: 5}}
    window = Window(runner, "s")
    answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    message = {"view": "v", "call": 1, "name": name, "arguments": arguments}
    CellBackend(window, answers.put).receive(message)
    by_kernel = answers.get(timeout=PATIENCE)
    with TestClient(make_app(window, "token"), base_url="http://127.0.0.1") as client:
        by_server = client.post(f"/call/{name}", json=arguments, headers={"X-Token": "token"})
    assert not by_server.is_success
    assert {"view": "v", "call": 1, **by_server.json()} == by_kernel
    assert ("questions" in by_kernel) is (name == "answer")
