"""`agentgraph inspect`: what it refuses, how it ends, and the tree that changes while it is served."""

import os
import shutil
import signal
import socket
import sqlite3
from pathlib import Path

import pytest
import window_trees
from helpers.commands import Commands, wait_until
from window_server import Refused, Serve, Served

WRONG_USE, STOPPED = 2, 130


@pytest.fixture
def trees(command: Commands) -> Path:
    """Return the file of the trees, where commands run."""
    return Path(shutil.copy(window_trees.__file__, command.folder / "trees.py"))


def waits(server: Served) -> None:
    wait_until((server.folder / "go.waits").exists)


def edit(path: Path, before: str, after: str) -> None:
    """Change a file: perhaps in the same second, and it is as long as before."""
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def test_what_cannot_be_served_is_refused_in_words(command: Commands, trees: Path) -> None:
    (command.folder / "text.db").write_text("no database at all, but a text that is long enough" * 9)
    (command.folder / "broken.py").write_text("import nothing_that_there_is\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for arguments, words in (
            ((), "Missing argument 'TARGET'"),
            (("nofile.py:x",), "nofile.py does not exist"),
            (("trees.py:nobody",), "has no agent 'nobody'"),
            (("broken.py:x",), "broken.py, line 1 cannot be loaded"),
            (("trees.py:report", "--db", "text.db"), "text.db cannot be opened as a SQLite file"),
            (("trees.py:report", "--db", "."), "it is a directory"),
            (("trees.py:report", "--db", "mysql://x/y"), "begins with mysql://"),
            (("trees.py:report", "--db", "no/such/folder.db"), "cannot be opened"),
            (("trees.py:report", "--port", port), f"port {port} of 127.0.0.1 cannot be used"),
            (("trees.py:report", "--config", "[]"), "is not a JSON object"),
            (("trees.py:report", "--port", "70000"), "70000 is not in the range"),
        ):
            ended = command("inspect", *arguments, "--no-browser")
            assert (ended.code, words in ended.err) == (WRONG_USE, True), ended.err
            assert "Traceback" not in ended.err


@pytest.mark.parametrize("package", ["starlette", "uvicorn"])
def test_a_missing_package_is_named(command: Commands, trees: Path, package: str) -> None:
    ended = command("inspect", "trees.py:report", "--no-browser", without=package)
    assert ended.code == WRONG_USE
    assert "pip install 'langgraph-agentgraph[inspect]'" in ended.err


def test_ctrl_c_ends_it_at_once(serve: Serve) -> None:
    server = serve("report")
    assert (server.folder / "runs.db").exists()
    with server.news("t") as news:
        news.until(lambda: news.thread)
        server.running.signal(signal.SIGINT)
        ended = server.running.wait()
    assert (ended.code, ended.err) == (STOPPED, "")
    assert ended.lines[0] == "trees.py:report, threads in runs.db:"


def test_ctrl_c_stops_runs_before_their_next_steps(serve: Serve) -> None:
    server = serve("slow")
    server.call("start", text="Go.", thread_id="t")
    waits(server)
    server.running.signal(signal.SIGINT)
    server.running.said("Stopping after the running steps; Ctrl-C again stops at once.")
    (server.folder / "go").touch()
    assert server.running.wait_for_code() == STOPPED
    server.start()
    assert server.call("thread", thread_id="t")["status"] == "stopped"
    server.call("resume", thread_id="t")
    assert server.until("t", "done")["last"] == "three, after [gated] said: two"


def test_a_second_ctrl_c_waits_for_nothing(serve: Serve) -> None:
    server = serve("slow")
    server.call("start", text="Go.", thread_id="t")
    waits(server)
    server.running.signal(signal.SIGINT)
    server.running.said("Stopping")
    server.running.signal(signal.SIGINT)
    assert server.running.wait_for_code() == STOPPED


def test_the_token_is_kept_where_its_user_alone_reads_it(serve: Serve) -> None:
    server = serve("echo")
    file = server.folder / "state" / "agentgraph" / "inspect"
    assert file.stat().st_mode & 0o777 == 0o600
    token = server.token
    for mode, is_kept in ((0o600, True), (0o644, False)):
        server.kill()
        file.chmod(mode)
        server.start()
        assert (server.token == token) is is_kept
    server.kill()
    token = server.token
    os.utime(file, (1, 1))
    server.start()
    assert server.token != token


def test_a_changed_file_is_loaded_anew(serve: Serve) -> None:
    server = serve("echo")
    assert server.call("reload") | {"about": None} == {
        "changed": False,
        "about": None,
        "error": None,
        "waits": False,
    }
    edit(server.folder / "trees.py", "str(len(ctx", "str(9+len(ctx")
    assert server.call("reload")["changed"]
    assert not server.call("reload")["changed"]
    server.call("start", text="Go.", thread_id="t")
    assert server.until("t", "done")["last"] == "12"
    edit(server.folder / "trees.py", "str(9+len(ctx", "str(8+len(ctx")
    assert server.call("reload")["changed"]
    server.call("start", text="Go.", thread_id="t")
    server.until("t", "done")
    wait_until(lambda: server.call("thread", thread_id="t")["last"] == "11")


def test_a_file_with_an_error_leaves_the_tree_as_it_was(serve: Serve) -> None:
    server = serve("echo")
    file = server.folder / "trees.py"
    for before, after, words in (
        ("def echo(", "def echo((", "trees.py, line"),
        ("def echo((", "def ecko(", "has no agent 'echo'"),
        ("def ecko(", "def echo(", None),
    ):
        edit(file, before, after)
        told = server.call("reload")
        assert (told["changed"], told["about"]["tree"]["name"]) == (words is None, "echo")
        assert told["error"] is None if words is None else words in told["error"]
        assert server.call("reload")["error"] == told["error"]  # until the file changes again
        server.call("start", text="Go.", thread_id=str(words))
        assert server.until(str(words), "done")["last"] == "3"
    file.unlink()
    assert "does not exist" in server.call("reload")["error"]
    faulty = "echo = ag.sequential('echo', [])\n"
    shutil.copy(window_trees.__file__, file)
    with file.open("a") as opened:
        opened.write(faulty)
    assert "at least one" in server.call("reload")["error"]


def test_a_module_beside_the_file_is_loaded_anew(command: Commands) -> None:
    (command.folder / "words.py").write_text("WORD = 'one'\n")
    (command.folder / "trees.py").write_text(
        "import agentgraph as ag\nfrom words import WORD\n"
        "echo = ag.function_agent('echo', lambda ctx: WORD)\n"
    )
    server = Served(command, "echo")
    (command.folder / "words.py").write_text("WORD = 'two'\n")
    assert server.call("reload")["changed"]
    server.call("start", text="Go.", thread_id="t")
    assert server.until("t", "done")["last"] == "two"


def test_what_runs_keeps_its_tree_and_what_a_change_means_is_told(serve: Serve) -> None:
    server = serve("slow")
    server.call("start", text="Go.", thread_id="t")
    waits(server)
    edit(server.folder / "trees.py", "[first, gated, last])", "[first, last])")
    told = server.call("reload")
    assert (told["changed"], told["waits"]) == (False, True)
    server.call("stop", thread_id="t")
    (server.folder / "go").touch()
    server.until("t", "stopped")
    wait_until(lambda: server.call("reload")["changed"])
    thread = server.call("thread", thread_id="t")
    assert "left by a tree of another shape" in thread["changed"]
    with pytest.raises(Refused) as refused:
        server.call("resume", thread_id="t")
    assert refused.value.kind == "TreeChangedError"
    edit(server.folder / "trees.py", "[first, last])", "[first, gated, last, MORE])")
    edit(server.folder / "trees.py", "MORE", "ag.function_agent('more', lambda ctx: 'more')")
    assert server.call("reload")["changed"]
    assert server.call("thread", thread_id="t")["changed"] is None  # nothing has run where it differs
    server.call("resume", thread_id="t")
    assert server.until("t", "done")["last"] == "more"


def test_a_file_of_a_process_that_crashed_and_a_damaged_thread(serve: Serve) -> None:
    server = serve("report")
    for name in ("good", "bad"):
        server.call("start", text="Go.", thread_id=name)
        server.until(name, "paused")
    server.kill()
    with sqlite3.connect(server.folder / "runs.db") as file:
        file.execute("UPDATE checkpoints SET checkpoint = x'c1' WHERE thread_id = 'bad'")
    file.close()
    server.start()
    rows = {row["thread_id"]: row for row in server.call("threads")["threads"]}
    assert (rows["good"]["status"], rows["bad"]["status"]) == ("paused", "unreadable")
    assert rows["bad"]["error"]
    with pytest.raises(Refused) as refused:
        server.call("thread", thread_id="bad")
    assert (refused.value.status, refused.value.kind) == (503, "SaverError")
    with server.news("bad") as news:
        assert news.next() == "failed"
    server.call("delete", thread_id="bad")
    assert server.call("threads")["total"] == 1
