"""Each call of the window, over HTTP: what the page reads, and what it does."""

import json
from typing import Any

import pytest
from helpers.commands import wait_until
from langchain_core.messages import HumanMessage
from pydantic import BaseModel, computed_field
from window_server import Refused, Serve, Served

import agentgraph as ag
from agentgraph.window.calls import Window
from agentgraph.window.changes import Changes


def started(server: Served, text: str = "Go.", **more: Any) -> str:
    return str(server.call("start", text=text, **more)["thread_id"])


def test_a_turn_is_begun_looked_at_and_answered(serve: Serve) -> None:
    server = serve("report")
    about = server.call("about")
    assert (about["title"], about["tree"]["name"], about["can_reload"]) == (
        "trees.py:report",
        "report",
        True,
    )
    assert server.call("threads") == {"threads": [], "total": 0}
    assert server.call("thread", thread_id="monday")["status"] == "new"
    assert started(server, thread_id="monday", values={"topic": "wasps"}) == "monday"
    thread = server.until("monday", "paused")
    assert [question["address"] for question in thread["pending"]] == [
        "report/review/boss",
        "report/review/press",
    ]
    assert thread["pending"][0]["response_schema"] == {"enum": ["yes", "no"]}
    (turn,) = thread["turns"]
    assert (turn["number"], turn["texts"]) == (0, ["Go."])
    assert (thread["lines"], thread["is_whole"], thread["changed"]) == (1, True, None)
    timeline = server.call("timeline", thread_id="monday")
    (critic,) = [bar for bar in timeline["bars"] if bar["address"] == "report/refine[1]/critic"]
    assert (critic["state"], critic["kind"], critic["place"]) == ("done", "agent", "critic")
    assert timeline["is_whole"]
    again = server.call("timeline", thread_id="monday", since=timeline["upto"])
    assert again["continues"]
    assert again["upto"] == timeline["upto"]

    boss, press = (question["id"] for question in thread["pending"])
    with pytest.raises(Refused) as refused:
        server.call("answer", thread_id="monday", answers={boss: "maybe", press: 0})
    assert (refused.value.status, refused.value.kind) == (422, "InvalidAnswerError")
    assert refused.value.questions.keys() == {boss, press}
    assert "'maybe'" in refused.value.questions[boss]
    server.call("answer", thread_id="monday", answers={boss: "yes", press: 3})
    server.until("monday", "done")
    with pytest.raises(Refused) as twice:
        server.call("answer", thread_id="monday", answers={boss: "no", press: 3})
    assert (twice.value.status, twice.value.kind) == (409, "UnknownInterruptError")
    (row,) = server.call("threads")["threads"]
    assert (row["status"], row["first"], row["pending"]) == ("done", "Go.", 0)


def test_threads_are_found_by_their_ids_and_texts_and_status(serve: Serve) -> None:
    server = serve("echo")
    for number in range(5):
        started(server, f"Buzz {number}", thread_id=f"t{number}")
        server.until(f"t{number}", "done")  # the order of threads that begin at once is open
    listed = server.call("threads", limit=2)
    assert ([row["thread_id"] for row in listed["threads"]], listed["total"]) == (["t4", "t3"], 5)
    found = server.call("threads", search="BUZZ 3")
    assert ([row["thread_id"] for row in found["threads"]], found["total"]) == (["t3"], 1)
    assert server.call("threads", search="t1")["total"] == 1
    assert server.call("threads", status="done")["total"] == 5
    assert server.call("threads", status="paused") == {"threads": [], "total": 0}


def test_a_thread_is_copied_and_deleted(serve: Serve) -> None:
    server = serve("report")
    started(server, thread_id="monday")
    server.until("monday", "paused")
    server.call("copy", thread_id="monday", to="tuesday")
    assert server.call("thread", thread_id="tuesday")["status"] == "paused"
    with pytest.raises(Refused, match="exists already"):
        server.call("copy", thread_id="monday", to="tuesday")
    server.call("delete", thread_id="monday")
    assert server.call("thread", thread_id="monday")["status"] == "new"
    assert [row["thread_id"] for row in server.call("threads")["threads"]] == ["tuesday"]
    with pytest.raises(Refused) as unknown:
        server.call("delete", thread_id="monday")
    assert unknown.value.status == 404


def test_a_run_is_stopped_steered_and_resumed(serve: Serve) -> None:
    server = serve("slow")
    started(server, thread_id="t")
    wait_until((server.folder / "go.waits").exists)
    assert server.call("thread", thread_id="t")["status"] == "running"
    with pytest.raises(Refused) as busy:
        started(server, thread_id="t")
    assert (busy.value.status, busy.value.kind) == (409, "ThreadBusyError")
    with pytest.raises(Refused):
        server.call("delete", thread_id="t")
    (sent,) = server.call("steer", thread_id="t", text="Be brief.")["ids"]
    assert sent
    assert server.call("thread", thread_id="t")["queued"] == ["Be brief."]
    server.call("stop", thread_id="t")
    (server.folder / "go").touch()
    server.until("t", "stopped")
    server.call("resume", thread_id="t")
    assert server.until("t", "done")["queued"] == ["Be brief."]
    started(server, "Next.", thread_id="t")
    thread = server.until("t", "done")
    wait_until(lambda: server.call("thread", thread_id="t")["queued"] == [])
    assert [turn["texts"] for turn in thread["turns"]] == [["Go."], ["Be brief.", "Next."]]
    assert thread["turns"][0]["ended"] is not None
    assert thread["turns"][1]["ended"] is None


def test_a_turn_waits_for_a_busy_thread(serve: Serve) -> None:
    server = serve("slow")
    started(server, thread_id="t")
    wait_until((server.folder / "go.waits").exists)
    started(server, "And then?", thread_id="t", while_running="queue")
    assert server.call("thread", thread_id="t")["queued"] == ["And then?"]
    (server.folder / "go").touch()
    wait_until(lambda: len(server.call("thread", thread_id="t")["turns"]) == 2)
    assert server.until("t", "done")["queued"] == []


def test_a_failure_is_mended_and_a_limit_raised(serve: Serve) -> None:
    server = serve("fails")
    started(server, thread_id="t")
    server.until("t", "failed")
    (bar,) = server.call("timeline", thread_id="t")["bars"]
    assert (bar["state"], "<b>no</b>" in bar["text"]) == ("failed", True)
    (server.folder / "mended").touch()
    server.call("resume", thread_id="t")
    assert server.until("t", "done")["last"] == "mended"


def test_a_limit_is_raised(serve: Serve) -> None:
    server = serve("limited")
    started(server, thread_id="t", limits={"steps": 5})
    assert server.until("t", "failed")["spent"] == 0
    for limits, words in (({"step": 9}, "'step' is not a limit"), ({"steps": -1}, "above 0")):
        with pytest.raises(Refused, match=words):
            server.call("resume", thread_id="t", limits=limits)
    server.call("resume", thread_id="t", limits={"steps": 100})
    server.until("t", "done")


def test_a_thread_goes_back_and_variants_run_side_by_side(serve: Serve) -> None:
    server = serve("report")
    started(server, thread_id="t")
    server.until("t", "paused")
    changes = {"values": {"topic": "ants"}}
    back = server.call("rewind", thread_id="t", at="report/refine[0]/writer", changes=changes)
    assert back == {"thread_id": "t"}
    wait_until(lambda: server.call("thread", thread_id="t")["lines"] == 2)
    server.until("t", "paused")
    bars = server.call("timeline", thread_id="t")["bars"]
    (writer,) = [bar for bar in bars if bar["id"] == "0:report/refine[0]/writer"]
    assert writer["text"] == "Draft 1 about ants."
    present, older = server.call("lines", thread_id="t")["lines"]
    assert (present["is_present"], older["parts_at"]) == (True, "report/refine[0]/writer")
    bars = server.call("timeline", thread_id="t", line=older["head"])["bars"]
    assert "Draft 1 about bees." in {bar["text"] for bar in bars}

    rows = server.call("compare", thread_id="t", line=older["head"])["rows"]
    (row,) = [row for row in rows if row["address"] == "report/refine[1]/writer"]
    assert (row["where"], row["same"], row["differs"]) == ("both", False, ["said"])
    assert (row["left"]["text"], row["right"]["text"]) == (
        "Draft 2 about bees.",
        "Draft 2 about ants.",
    )

    variants = {"sure": {"answers": "yes"}, "unsure": {"answers": "no"}}
    threads = server.call("fork", thread_id="t", at="report/review/boss", variants=variants)
    assert threads == {"threads": {"sure": "t-sure", "unsure": "t-unsure"}}
    for name in threads["threads"].values():
        pending = server.until(name, "paused")["pending"]
        assert [question["address"] for question in pending] == ["report/review/press"]
    with pytest.raises(Refused) as unknown:
        server.call("rewind", thread_id="t", at="report/nobody")
    assert unknown.value.status == 404
    with pytest.raises(Refused, match=r"variants\.x\.runner"):
        server.call("fork", thread_id="t", at="report/review", variants={"x": {"runner": "os"}})
    with pytest.raises(Refused):
        server.call("rewind", thread_id="t", at="report/review/boss", changes={"answers": "maybe"})


def test_a_message_of_the_user_is_replaced(serve: Serve) -> None:
    server = serve("adder")
    started(server, "What is 1 + 2?", thread_id="t")
    server.until("t", "done")
    (asked,) = server.call("activation", thread_id="t", at="adder")["saw"]
    new = {"text": "What is 3 + 4?", "replaces": asked["id"]}
    server.call("fork", thread_id="t", at="adder", variants={"other": new})
    assert server.until("t-other", "done")["last"] == "It is 7."
    server.call("rewind", thread_id="t", at="adder", changes=new)
    wait_until(lambda: server.call("thread", thread_id="t")["last"] == "It is 7.")
    (saw,) = server.call("activation", thread_id="t", at="adder")["saw"]
    assert (saw["text"], saw["id"]) == (new["text"], new["replaces"])
    for changes, words in (
        ({"replaces": asked["id"]}, "has no text"),
        ({"replaces": "x", "text": "y"}, "adder saw no such message"),
        ({"replace": "x"}, "the argument 'changes.replace' is unknown"),
        ({"text": 5}, "changes.text=5"),
        ([], r"changes must be a JSON object, got \[\]"),
    ):
        with pytest.raises(Refused, match=words):
            server.call("rewind", thread_id="t", at="adder", changes=changes)


def test_a_picture_beside_a_text_stays_where_the_text_is_replaced() -> None:
    picture = {"type": "image", "url": "https://example.com/bees.png"}
    request = HumanMessage([{"type": "text", "text": "What is this?"}, picture], id="asked")
    runner = ag.Runner(ag.function_agent("echo", lambda ctx: "Bees."))
    runner.invoke([request], thread_id="t")
    changes = Changes(text="What are these?", replaces="asked")
    (message,) = changes.arguments(runner, "t", "echo")["messages"]
    assert message.content == [{"type": "text", "text": "What are these?"}, picture]


def test_an_activation_tells_what_it_saw_called_and_said(serve: Serve) -> None:
    server = serve("adder")
    started(server, "What is 1 + 2?", thread_id="t")
    thread = server.until("t", "done")
    assert (thread["last"], thread["usage"].keys()) == ("It is 3.", {"input", "output"})
    told = server.call("activation", thread_id="t", at="adder")
    assert told["saw"][0]["role"] == "user"
    assert told["saw"][0]["text"] == "What is 1 + 2?"
    (tool,) = told["tools"]
    assert (tool["name"], tool["args"], tool["result"]) == ("add", {"a": 1, "b": 2}, "3")
    assert [message["role"] for message in told["said"]] == ["assistant", "tool", "assistant"]
    with pytest.raises(Refused) as unknown:
        server.call("activation", thread_id="t", at="nobody")
    assert unknown.value.status == 404


def test_agents_that_need_an_event_loop_run_too(serve: Serve) -> None:
    server = serve("timed")
    started(server, thread_id="t")
    assert server.until("t", "done")["last"] == "in time"
    server.call("rewind", thread_id="t", at="timed")
    wait_until(lambda: server.call("thread", thread_id="t")["lines"] == 2)
    assert server.until("t", "done")["last"] == "in time"
    server.call("fork", thread_id="t", at="timed", variants={"a": {}})
    server.until("t-a", "done")


def test_runs_have_the_config_and_the_context_of_the_command(serve: Serve) -> None:
    options = ("--context", '{"tenant": "ann"}', "--config", '{"configurable": {"topic": "bees"}}')
    server = serve("told", *options)
    started(server, thread_id="t")
    assert server.until("t", "done")["last"] == "ann, bees"


def test_a_context_that_cannot_be_shown_leaves_the_page() -> None:
    class Desk(BaseModel):
        @computed_field
        def reader(self) -> str:
            raise RuntimeError("nobody reads")

    tree = ag.function_agent("echo", lambda ctx: "Bees.")
    window = Window(ag.Runner(tree, context_schema=Desk, context=Desk()), "echo")
    assert window.call("about", {})["context"] == {"schema": {}, "values": None}


def test_a_message_of_5_mb_is_taken_and_told_in_short(serve: Serve) -> None:
    server = serve("echo")
    started(server, "x" * 5_000_000, thread_id="t")
    thread = server.until("t", "done")
    assert thread["last"] == "5000000"
    assert len(json.dumps(thread)) < 5000
    assert server.call("threads", search="xxxx")["total"] == 1


def test_arguments_that_do_not_fit_are_refused_in_words(serve: Serve) -> None:
    server = serve("echo")
    for name, arguments, words in (
        ("nothing", {}, "'nothing' is not a call"),
        ("__init__", {}, "'__init__' is not a call"),
        ("start", {}, "start: text is missing"),
        ("start", {"text": 5}, "start: text=5"),
        ("start", {"text": "Go.", "self": 1}, "the argument 'self' is unknown"),
        ("start", {"text": "Go.", "while_running": "now"}, "while_running='now'"),
        ("start", {"text": "Go.", "thread_id": ""}, "thread_id"),
        ("thread", {"thread_id": ["t"]}, "thread: thread_id="),
        ("thread", {"thread_id": None}, "thread: thread_id=None"),
        ("threads", {"limit": True}, "threads: limit=True"),
        ("timeline", {"thread_id": "t", "last": -1}, "last"),
        ("fork", {"thread_id": "t", "at": "echo", "variants": {}}, "variants is empty"),
    ):
        answer = server.raw(name, json.dumps(arguments))
        assert (answer.status, words in answer.data["detail"]) == (422, True), answer.body
    for body, status in (
        ("", 400),
        ("{", 400),
        ("[" * 100_000, 400),
        ('{"limit": NaN}', 400),
        (b"\xff\xfe", 400),
        ("[]", 422),
        ('"threads"', 422),
        (r'{"search": "\ud800"}', 400),
        (r'{"\uDFFF": 1}', 400),
    ):
        answer = server.raw("threads", body)
        assert (answer.status, b"Traceback" in answer.body) == (status, False), body[:20]
        assert answer.data["detail"]
    too_long = server.raw("threads", b" " * (33 * 2**20))
    assert (too_long.status, "32 MB" in too_long.data["detail"]) == (413, True)
    assert server.call("threads") == {"threads": [], "total": 0}
    assert "Traceback" not in server.running.err
