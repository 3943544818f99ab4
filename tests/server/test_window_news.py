"""What a page hears of a thread: while it runs here, or elsewhere, and when the server is killed."""

import os
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from helpers.commands import wait_until
from helpers.databases import Databases
from window_server import Refused, Serve, Served

import agentgraph as ag

SLOW = ["slow", "slow/first", "slow/gated", "slow/last"]


def go(server: Served, name: str = "go") -> None:
    (server.folder / name).touch()


def waits(server: Served, name: str = "go") -> None:
    wait_until((server.folder / f"{name}.waits").exists)


def bars_of(server: Served, thread: str) -> dict[str, Any]:
    bars = server.call("timeline", thread_id=thread, last=10_000)["bars"]
    return {bar["id"]: bar for bar in bars}


def test_a_page_hears_what_a_run_of_the_server_does(serve: Serve) -> None:
    server = serve("slow")
    with server.news("t") as news:
        news.until(lambda: news.thread and news.thread["status"] == "new")
        server.call("start", text="Go.", thread_id="t")
        news.until(lambda: "slow/gated" in news.addresses)
        assert news.thread["status"] == "running"
        waits(server)
        go(server)
        news.until(lambda: news.thread["status"] == "done" and "slow/last" in news.addresses)
        news.until(lambda: {bar["state"] for bar in news.bars.values()} == {"done"})
        assert news.addresses == SLOW
        assert news.bars == bars_of(server, "t")


def test_a_page_hears_words_as_they_are_said(serve: Serve) -> None:
    server = serve("speaker")
    server.call("start", text="Go.", thread_id="t")
    waits(server, "talk")
    with server.news("t") as news:
        news.until(lambda: " ." in news.texts.get("speaker", ""))
        go(server, "talk")
        news.until(lambda: news.thread["status"] == "done")
    assert news.kinds.count("text") < 200


def test_a_page_hears_what_a_run_of_another_process_does(serve: Serve) -> None:
    server = serve("slow")
    path = server.folder / "runs.db"
    with ag.Runner(server.trees["slow"], checkpointer=path) as runner, server.news("t") as news:
        thread = Thread(target=runner.invoke, args=["Go."], kwargs={"thread_id": "t"})
        thread.start()
        news.until(lambda: news.thread and news.thread["status"] == "running")
        news.until(lambda: "slow/gated" in news.addresses)
        go(server)
        thread.join()
        news.until(lambda: news.thread["status"] == "done")
        news.until(lambda: news.addresses == SLOW)
        assert news.bars == bars_of(server, "t")


def test_a_page_goes_on_without_gaps_after_the_server_was_killed(serve: Serve) -> None:
    server = serve("slow")
    server.call("start", text="Go.", thread_id="t")
    waits(server)
    with server.news("t") as news:
        news.until(lambda: "slow/gated" in news.addresses)
        server.kill()
        with pytest.raises((EOFError, ConnectionError)):
            news.until(lambda: False)
    known, token = news, server.token
    server.start()
    assert server.token == token
    with server.news("t", since=known.upto) as news:
        news.bars = known.bars
        news.until(lambda: news.thread and news.thread["status"] == "stopped")
        news.until(lambda: news.bars["0:slow/gated"]["state"] == "stopped")
        go(server)
        server.call("resume", thread_id="t")
        news.until(lambda: news.thread["status"] == "done" and "slow/last" in news.addresses)
        upto = news.upto
    with server.news("t", Last_Event_ID=upto) as news:
        news.until(lambda: news.thread)
        assert news.thread["status"] == "done"
    assert known.bars.keys() <= news.bars.keys() | known.bars.keys()
    assert bars_of(server, "t").keys() >= {f"0:{address}" for address in SLOW}


def test_a_thread_that_is_deleted_and_made_again(serve: Serve) -> None:
    server = serve("report")
    server.call("start", text="Go.", thread_id="t")
    with server.news("t") as news:
        news.until(lambda: news.thread and news.thread["status"] == "paused" and news.bars)
        server.call("delete", thread_id="t")
        news.until(lambda: news.thread["status"] == "new")
        news.bars = {}
        server.call("start", text="Again.", thread_id="t")
        news.until(lambda: news.thread["status"] == "paused" and news.bars)
        assert news.thread["turns"][0]["texts"] == ["Again."]
        news.until(lambda: news.bars == bars_of(server, "t"))


def test_what_is_gone_by_a_rewind_is_named(serve: Serve) -> None:
    server = serve("report")
    server.call("start", text="Go.", thread_id="t")
    with server.news("t") as news:
        news.until(lambda: news.thread and news.thread["status"] == "paused" and news.bars)
        server.call("rewind", thread_id="t", at="report/refine[0]/critic")
        news.until(lambda: news.thread["lines"] == 2 and news.thread["status"] == "paused")
        news.until(lambda: news.bars == bars_of(server, "t"))


def test_several_pages_hear_the_same(serve: Serve) -> None:
    server = serve("slow")
    with ExitStack() as stack:
        pages = [stack.enter_context(server.news("t")) for _ in range(12)]
        server.call("start", text="Go.", thread_id="t")
        waits(server)
        go(server)
        for news in pages:
            news.until(lambda news=news: news.thread and news.thread["status"] == "done")
            news.until(lambda news=news: news.addresses == SLOW)
        assert all(news.bars == pages[0].bars for news in pages)


def test_two_pages_answer_one_question_once(serve: Serve) -> None:
    server = serve("report")
    server.call("start", text="Go.", thread_id="t")
    pending = server.until("t", "paused")["pending"]
    answers = {pending[0]["id"]: "yes", pending[1]["id"]: 2}
    results: list[str] = []

    def answer() -> None:
        try:
            server.call("answer", thread_id="t", answers=answers)
            results.append("taken")
        except Refused as refused:
            results.append(refused.kind)

    threads = [Thread(target=answer) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(results)[-1:] == ["taken"]
    assert set(results[:-1]) <= {"taken", "ThreadBusyError", "UnknownInterruptError"}
    assert results.count("taken") == 1
    server.until("t", "done")


def test_readers_that_go_leave_nothing_behind(serve: Serve) -> None:
    server = serve("speaker")
    server.call("start", text="Go.", thread_id="t")
    waits(server, "talk")
    before = len(os.listdir(f"/proc/{server.running.pid}/fd"))
    for _ in range(20):
        with server.news("t") as news:
            news.until(lambda: news.texts)
    wait_until(lambda: len(os.listdir(f"/proc/{server.running.pid}/fd")) <= before + 1)
    go(server, "talk")
    server.until("t", "done")


def test_a_reader_that_does_not_read_holds_nothing_up(serve: Serve) -> None:
    server = serve("speaker")
    slow = socket.create_connection(("127.0.0.1", server.port))
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    path = f"/news?thread=t&token={server.token}"
    slow.sendall(f"GET {path} HTTP/1.1\r\nHost: {server.host}\r\n\r\n".encode())
    server.call("start", text="Go.", thread_id="t")
    waits(server, "talk")
    with server.news("t") as news:
        news.until(lambda: len(news.texts.get("speaker", "")) > 100)
        go(server, "talk")
        news.until(lambda: news.thread["status"] == "done")
    slow.close()


def test_nothing_is_read_while_nothing_changes(serve: Serve) -> None:
    """A page at rest costs the server hardly any time: less than a tenth of it."""
    server = serve("report")
    server.call("start", text="Go.", thread_id="t")
    server.until("t", "paused")
    with server.news("t") as news:
        news.until(lambda: news.bars)
        reads = _reads_of(server)
        time.sleep(2)
        assert _reads_of(server) - reads < 100


def _reads_of(server: Served) -> int:
    """Return how often the process has read from files."""
    lines = Path(f"/proc/{server.running.pid}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["syscr"])


def test_a_page_hears_what_happens_in_a_database(serve: Serve, databases: Databases) -> None:
    url = databases.make()
    server = serve("slow", "--db", url)
    assert url not in server.running.out
    trees = server.trees
    with server.news("t") as news, ag.Runner(trees["slow"], checkpointer=url) as runner:
        thread = Thread(target=runner.invoke, args=["Go."], kwargs={"thread_id": "t"})
        thread.start()
        news.until(lambda: news.thread and news.thread["status"] == "running")
        waits(server)
        news.until(lambda: "slow/gated" in news.addresses)
        go(server)
        thread.join()
        news.until(lambda: news.thread["status"] == "done" and news.addresses == SLOW)
    (row,) = server.call("threads")["threads"]
    assert (row["thread_id"], row["status"]) == ("t", "done")
    server.call("rewind", thread_id="t", at="slow/last")
    wait_until(lambda: server.call("thread", thread_id="t")["lines"] == 2)
    server.until("t", "done")


def test_threads_of_another_tree_are_listed_and_told_as_changed(serve: Serve) -> None:
    server = serve("report")
    other = ag.sequential("report", [ag.human("boss", "Well?"), ag.human("press", "And?")])
    with ag.Runner(other, checkpointer=server.folder / "runs.db") as runner:
        runner.invoke("Go.", thread_id="t")
    (row,) = server.call("threads")["threads"]
    assert row["status"] == "paused"
    thread = server.call("thread", thread_id="t")
    assert "left by a tree of another shape" in thread["changed"]
    with server.news("t") as news:
        news.until(lambda: news.thread)
    with pytest.raises(Refused) as changed:
        server.call("timeline", thread_id="t")
    assert (changed.value.status, changed.value.kind) == (409, "TreeChangedError")
