"""Trees whose runs are followed, a conversation with each, and what a follower must get."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

from langgraph.types import interrupt

import agentgraph as ag
from agentgraph.show.lines import event_text
from agentgraph.testing import ScriptedChatModel, call, calls
from agentgraph.threads.live.active_run import active_run_on
from helpers import (
    Drive,
    Sync,
    ask_person,
    asks,
    chat,
    crash,
    driven,
    echo,
    fails,
    is_yes,
    retrying,
    says,
    tool,
    tries_calls_again,
    unvoided,
)
from helpers.commands import wait_until


def flaky(name: str, *, times: int = 1, every: int = 2) -> ag.Agent:
    """Return a function agent that emits a message, and then fails in its first attempts."""
    tries = count()

    def fn(ctx: ag.Context) -> Iterator[str]:
        yield f"{name} begins"
        if next(tries) % every < times:
            raise ValueError(f"{name} failed")
        yield f"{name} ends"

    return ag.function_agent(name, fn, retry=retrying(times + 1))


def flaky_model(name: str) -> ag.Agent:
    """Return a chat agent whose model fails once in each turn, in the middle of a reply."""
    model = ScriptedChatModel(responses=[ValueError("no"), f"{name} is well"] * 2)
    return ag.chat_agent(name, model, retry=retrying())


def asks_twice(name: str) -> ag.Agent:
    """Return a function agent that asks two questions, which have one id."""

    def fn(ctx: ag.Context) -> str:
        return f"{interrupt('One?')} {interrupt('Two?')}"

    return ag.function_agent(name, fn)


def _alternating(name: str) -> ag.Agent:
    """Return a function agent that fails permanently in each first run of a turn."""
    tries = count()

    def fn(ctx: ag.Context) -> Iterator[str]:
        yield f"{name} begins"
        if not next(tries) % 2:
            raise ValueError(f"{name} failed")
        yield f"{name} ends"

    return ag.function_agent(name, fn)


def _calls(*made: Any, then: str) -> list[Any]:
    return [calls(*made), then] * 2


TREES: dict[str, Callable[[], ag.Agent]] = {
    "sequence": lambda: ag.sequential("s", [says("a", "one two"), chat("b", "three four", "five six")]),
    "branches": lambda: ag.parallel(
        "s", [chat("a", *["one two three"] * 2), chat("b", *["four five six"] * 2), flaky("c")]
    ),
    "retries": lambda: ag.sequential("s", [flaky("a"), flaky_model("b"), says("z")]),
    "retries in branches": lambda: ag.sequential(
        "s", [ag.parallel("p", [flaky("a"), flaky_model("b"), says("c")]), says("z")]
    ),
    "retried steps": lambda: ag.workflow(
        "s",
        [
            ag.step(ag.sequential("q", [says("x"), fails("y")]), retry=retrying()),
            ag.step(says("z"), depends_on=["q"]),
        ],
    ),
    "tools": lambda: chat(
        "s",
        *_calls(call("echo", text="1"), call("crash", text="2"), then="done"),
        tools=[echo, crash],
    ),
    "retried tools": lambda: chat(
        "s",
        *_calls(call("t"), then="done"),
        tools=[tool("t", ConnectionError("x"), "ok")],
        middleware=[tries_calls_again()],
    ),
    "agents as tools": lambda: chat(
        "s", *_calls(call("flaky", request="?"), then="done"), tools=[ag.agent_tool(flaky("flaky"))]
    ),
    "collected failures": lambda: ag.sequential(
        "s",
        [
            ag.parallel(
                "p", [says("a"), ag.sequential("l", [says("b"), fails("c", 9)])], on_error="collect"
            ),
            says("z"),
        ],
    ),
    "the first of several": lambda: ag.sequential(
        "s",
        [
            ag.each(
                "p", ag.sequential("l", [says("b"), says("c")]), lambda ctx: [1, 2, 3], on_error="first"
            ),
            says("z"),
        ],
    ),
    "corrections": lambda: ag.validated(says("s", "no", "yes"), is_yes),
    "questions": lambda: ag.sequential(
        "s", [ag.parallel("p", [asks("a"), asks("b"), chat("c", "well said", "again")]), says("z")]
    ),
    "two questions": lambda: ag.sequential("s", [says("a"), asks_twice("b"), says("z")]),
    "two questions in branches": lambda: ag.parallel("s", [asks_twice("b"), asks("c"), says("z")]),
    "tools that ask": lambda: chat(
        "s",
        *_calls(call("ask_person", what="Now?"), call("echo", text="1"), then="done"),
        tools=[ask_person, echo],
    ),
    "failures": lambda: ag.sequential("s", [says("a"), _alternating("b"), says("z")]),
    "failures in branches": lambda: ag.parallel("s", [says("a"), _alternating("b"), asks("c")]),
    "loops": lambda: ag.loop(
        "s",
        [says("a"), ag.parallel("p", [flaky("b"), says("c")])],
        max_iterations=2,
    ),
    "functions that run agents": lambda: ag.function_agent(
        "s",
        lambda ctx: f"{ctx.run('flaky', 'Go.')} and {ctx.run('boss', 'Well?')}",
        agents=[flaky("flaky"), asks("boss")],
    ),
}

Tell = Callable[[ag.AgentEvent], None]


def converse(
    drive: Drive,
    runner: ag.Runner,
    hear: Tell,
    before: Callable[[], None] = lambda: None,
    *,
    turns: int = 2,
) -> None:
    """Have turns with a tree to their ends: answer all questions one by one, and resume failures."""
    for _ in range(turns):
        _hear(drive.run(runner, "Go.", thread_id="t", stream=True), hear, before)
        for _ in range(12):
            status = runner.thread("t").status
            if status == "done":
                break
            answers = (an_answer(runner),) if status == "paused" else ()
            _hear(drive.resume(runner, "t", *answers, stream=True), hear, before)
        assert status == "done"


def _hear(run: Iterator[ag.AgentEvent], hear: Tell, before: Callable[[], None]) -> None:
    with suppress(ValueError):
        before()
        for event in run:
            hear(event)
            before()


def an_answer(runner: ag.Runner) -> dict[str, object]:
    """Return an answer to the first question that is pending."""
    return {runner.pending("t")[0].id: "yes"}


def follow(
    drive: Drive, runner: ag.Runner, after: str | None, thread_id: str = "t"
) -> Iterator[ag.AgentEvent]:
    """Follow a thread sync or async."""
    if drive is Sync:
        return runner.follow(thread_id, after)
    return driven(runner.afollow(thread_id, after))


def whole(events: Iterable[ag.AgentEvent]) -> list[ag.AgentEvent]:
    """Return the events that remain, without chunks and cursors; repeated ones have other cursors."""
    return [replace(each, cursor=None) for each in unvoided(events) if not each.partial]


def check_adds_up(
    got: Sequence[ag.AgentEvent], again: Iterable[ag.AgentEvent], *, grow: bool = True
) -> None:
    """Check that all calls of a reader together yield the events of the thread, once and in order.

    Args:
        got: The events that the reader received.
        again: The events of the thread.
        grow: Whether the cursors grow; replayed events have their old cursors.
    """
    cursors = [each.cursor for each in got]
    assert not grow or cursors == sorted({*cursors}), "\n".join(shown(got))
    again = list(again)
    assert whole(got) == [replace(each, cursor=None) for each in again], "\n".join(
        [*shown(got), "is not:", *shown(again)]
    )


class Follower:
    """A follower in its own thread."""

    def __init__(self, drive: Drive, runner: ag.Runner, got: Sequence[ag.AgentEvent] = ()) -> None:
        """Follow the thread "t" after what one has got before; return once it listens to the run."""
        self.got = [*got]
        after = got[-1].cursor if got else None
        self._read, self._failed = partial(follow, drive, runner, after), list[BaseException]()
        run = active_run_on(runner.saver, "t")
        listening = len(run.feed.subscribers) if run else 0
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()
        wait_until(lambda: run is None or len(run.feed.subscribers) > listening or self._failed)

    def _follow(self) -> None:
        try:
            self.got.extend(self._read())
        except BaseException as error:
            self._failed.append(error)

    def end(self) -> list[ag.AgentEvent]:
        """Wait until it has ended, and return what it got."""
        self._thread.join(30)
        assert not self._thread.is_alive(), "the follower does not end"
        if self._failed:
            raise self._failed[0]
        return self.got


def shown(events: Iterable[ag.AgentEvent]) -> list[str]:
    """Return events as lines, for failure messages."""
    return [
        f"{each.cursor} {each.address} {'~' * each.partial}{event_text(each)} {each.id[:6]}"
        for each in events
    ]
