"""The ids of threads: only None means a new thread, and an id is a text that every saver keeps."""

import asyncio
import uuid

import pytest
from helpers import collect, says

import agentgraph as ag

NO_TEXT = ["", 0, 7, False, b"monday", uuid.UUID(int=1), ["monday"]]
NOT_KEPT = ["a\0b", "\ud800", "a\udfff"]


def calls(runner, thread_id):
    """Return the sync calls of a runner on a thread, by name."""
    return {
        "run": lambda: runner.run("Go.", thread_id=thread_id),
        "run and drop": lambda: runner.run("Go.", thread_id=thread_id, drop_pending=True),
        "query": lambda: runner.query("Go.", thread_id=thread_id),
        "resume": lambda: runner.resume(thread_id),
        "pending": lambda: runner.pending(thread_id),
        "events": lambda: runner.events(thread_id),
        "watch": lambda: ag.watch(runner, "Go.", thread_id=thread_id),
        "watch on": lambda: ag.watch(runner, thread_id=thread_id),
    }


def async_calls(runner, thread_id):
    """Return the async calls of a runner on a thread, by name."""
    return {
        "arun": lambda: anext(runner.arun("Go.", thread_id=thread_id)),
        "arun and drop": lambda: anext(runner.arun("Go.", thread_id=thread_id, drop_pending=True)),
        "aquery": lambda: anext(runner.aquery("Go.", thread_id=thread_id)),
        "aresume": lambda: anext(runner.aresume(thread_id)),
        "apending": lambda: runner.apending(thread_id),
        "aevents": lambda: anext(runner.aevents(thread_id)),
        "awatch": lambda: ag.awatch(runner, "Go.", thread_id=thread_id),
        "awatch on": lambda: ag.awatch(runner, thread_id=thread_id),
    }


def refusals(thread_id):
    """Return what each call that takes a thread says of an id."""
    runner = ag.Runner(says("a"))
    told = {}
    for name, call in calls(runner, thread_id).items():
        with pytest.raises(ag.AgentGraphError) as caught:
            call()
        told[name] = str(caught.value)
    for name, acall in async_calls(runner, thread_id).items():

        async def main(acall=acall):
            await acall()

        with pytest.raises(ag.AgentGraphError) as caught:
            asyncio.run(main())
        told[name] = str(caught.value)
    return told


@pytest.mark.parametrize("thread_id", NO_TEXT, ids=repr)
def test_every_call_refuses_an_id_that_is_no_text(thread_id):
    assert set(refusals(thread_id).values()) == {
        f"thread_id must be a non-empty string, got {thread_id!r}; pass the name of a thread, such as "
        "'monday', or leave it out of a run for a new one"
    }


@pytest.mark.parametrize("thread_id", NOT_KEPT, ids=ascii)
def test_every_call_refuses_an_id_that_a_database_does_not_keep(thread_id):
    assert set(refusals(thread_id).values()) == {
        f"thread_id {thread_id!r} has a zero byte or half a surrogate pair in it, which databases do "
        "not keep; pass another name"
    }


def test_what_goes_on_needs_an_id():
    runner = ag.Runner(says("a"))
    for name, call in calls(runner, None).items():
        if name in ("resume", "pending", "events"):
            with pytest.raises(ag.AgentGraphError, match="must be a non-empty string, got None"):
                call()


def test_only_none_means_a_new_thread(drive):
    runner = ag.Runner(says("a"))
    (first,), (second,) = drive.run(runner, "Go."), drive.run(runner, "Go.", thread_id=None)
    assert len(first.thread_id) == len(second.thread_id) == 36
    assert first.thread_id != second.thread_id


@pytest.mark.parametrize("thread_id", ["0", " ", "münchen 🐝", "a/b:c|d", "x" * 10_000], ids=len)
def test_any_other_text_is_an_id(drive, tmp_path, thread_id):
    told: list = []
    collect(told, drive, tmp_path / "x.db", says("a"), "run", "Go.", thread_id=thread_id)
    collect(told, drive, tmp_path / "x.db", says("a"), "events", thread_id)
    assert [(event.thread_id, event.text) for event in told] == [(thread_id, "a")] * 2


def test_the_command_line_refuses_them_too(command):
    (command.folder / "tree.py").write_text(
        "import agentgraph as ag\na = ag.function_agent('a', lambda ctx: 'a')\n"
    )
    assert command("run", "tree.py:a", "Go.", "--thread", "once").code == 0
    for arguments in (["run", "tree.py:a", "Go."], ["resume", "tree.py:a"], ["events", "tree.py:a"]):
        for given, said in (("", "got ''"), ("\udcff", "half a surrogate pair")):
            ended = command(*arguments, "--thread", given)
            assert (ended.code, ended.out) == (2, "")
            assert said in ended.err
