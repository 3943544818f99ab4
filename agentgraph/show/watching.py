"""Watches a run: shows it as a live tree as it runs, and gives its events as one value."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from agentgraph.errors import AgentGraphError
from agentgraph.events.events import AgentEvent, Interrupt
from agentgraph.safe_repr import shown
from agentgraph.show.activity import Activity
from agentgraph.threads.engine import Begin, Engine, RunOptions
from agentgraph.threads.pending import UNANSWERED, resumption
from agentgraph.threads.replay import last_turn
from agentgraph.threads.runner import Runner
from agentgraph.threads.threads import Reads
from agentgraph.threads.turns import Input, as_input, new_turn
from agentgraph.tree.places import Tree

if TYPE_CHECKING:
    from rich.console import Console

    from agentgraph.show.screens import Screen

_WATCHED: WeakKeyDictionary[Engine, tuple[str, Activity]] = WeakKeyDictionary()
"""The thread that was watched last with each runner, and what is known of it."""


class Watched(tuple[AgentEvent, ...]):
    """The whole events of a run that was watched; a notebook shows nothing more of it.

    Attributes:
        thread_id: The thread.
        pending: The questions that wait for answers, in the order of the tree.
    """

    thread_id: str
    pending: tuple[Interrupt, ...]

    def __new__(
        cls, thread_id: str, events: Sequence[AgentEvent], pending: Sequence[Interrupt] = ()
    ) -> "Watched":
        """Make it.

        Args:
            thread_id: The thread.
            events: The events of the run, chunks aside.
            pending: The questions that wait for answers.
        """
        made = super().__new__(cls, events)
        made.thread_id, made.pending = thread_id, tuple(pending)
        return made

    @property
    def text(self) -> str:
        """The last text that was said; empty where there was none."""
        return next((event.text for event in reversed(self) if event.text), "")

    def __repr__(self) -> str:
        questions = f", {len(self.pending)} pending" if self.pending else ""
        return f"<Watched: {len(self)} events on thread {self.thread_id!r}{questions}>"

    def _ipython_display_(self) -> None:
        """Show nothing: the tree is there already."""


def watch(
    runner: Runner,
    messages: Input | None = None,
    *,
    thread_id: str | None = None,
    answers: Any = UNANSWERED,
    values: Mapping[str, Any] | None = None,
    drop_pending: bool = False,
    console: "Console | Screen | None" = None,
) -> Watched:
    """Run a turn, or without `messages` go on with a thread, and show it as it runs.

    A live tree shows what runs, what waits, what each agent said last, and its times and
    tokens: in a notebook below the cell, at a terminal below the events, which scroll as lines.
    In a pipe there are only the lines. Where a thread goes on, the tree shows what this turn had
    done before, too, with times where this runner was watched.

    ```
    watch(runner, "Go.", thread_id="monday")
    watch(runner, thread_id="monday", answers="yes")
    ```

    Args:
        runner: What runs it.
        messages: The input, as in `Runner.run`; without it the thread goes on, as in `Runner.resume`.
        thread_id: The thread; for a turn a new one if left out.
        answers: Answers to questions of the thread, as in `resume`.
        values: Values for the run.
        drop_pending: Whether a turn drops the questions that wait on the thread.
        console: A console of rich, to show it there.

    Returns:
        The events, chunks aside, as a sequence with `thread_id`, `text` (what was said last)
        and `pending` (the questions).

    Raises:
        Exception: Of an agent; the tree shows where it failed. `watch(runner, thread_id=...)` tries the
            failed step again.
        AgentGraphError: As `run` and `resume`; and the package `rich` is missing.
    """
    engine = _engine(runner)
    engine.check_sync("await awatch(runner, ...)", "that")
    screen = _screen(console)
    begin, thread_id = _beginning(engine.tree, messages, thread_id, answers, values, drop_pending)
    told: list[AgentEvent] = []
    with engine.run(begin, thread_id, RunOptions(screen.streams, on_part=screen.see)) as events:
        activity = engine.read(_activity(engine, thread_id, messages is None), thread_id)
        _WATCHED[engine] = (thread_id, activity)
        with screen.watching(activity):
            for event in events:
                screen.tell(event)
                told += [] if event.partial else [event]
    return Watched(thread_id, told, runner.pending(thread_id) if _asked(told) else ())


async def awatch(
    runner: Runner,
    messages: Input | None = None,
    *,
    thread_id: str | None = None,
    answers: Any = UNANSWERED,
    values: Mapping[str, Any] | None = None,
    drop_pending: bool = False,
    console: "Console | Screen | None" = None,
) -> Watched:
    """Run or go on as `watch` does, on the event loop."""
    engine = _engine(runner)
    screen = _screen(console)
    begin, thread_id = _beginning(engine.tree, messages, thread_id, answers, values, drop_pending)
    told: list[AgentEvent] = []
    async with engine.arun(begin, thread_id, RunOptions(screen.streams, on_part=screen.see)) as events:
        activity = await engine.aread(_activity(engine, thread_id, messages is None), thread_id)
        _WATCHED[engine] = (thread_id, activity)
        with screen.watching(activity):
            async for event in events:
                screen.tell(event)
                told += [] if event.partial else [event]
    return Watched(thread_id, told, await runner.apending(thread_id) if _asked(told) else ())


def _engine(runner: object) -> Engine:
    if not isinstance(runner, Runner):
        raise AgentGraphError(
            f"watch takes a runner, and was given {shown(runner)}; write watch(Runner(agent), ...)"
        )
    return runner.engine


def _screen(console: "Console | Screen | None") -> "Screen":
    try:
        from agentgraph.show.screens import screen_for
    except ImportError:
        raise AgentGraphError(
            "watching a run needs the package rich: pip install 'agentgraph[live]'"
        ) from None
    return screen_for(console)


def _beginning(
    tree: Tree,
    messages: Input | None,
    thread_id: str | None,
    answers: Any,
    values: Mapping[str, Any] | None,
    drop_pending: bool,
) -> tuple[Begin, str]:
    """Return how what is to be watched begins, and its thread."""
    if messages is not None:
        if answers is not UNANSWERED:
            raise AgentGraphError(
                f"answers={shown(answers)} are for a thread that goes on: leave the messages out"
            )
        thread_id = str(uuid4()) if thread_id is None else thread_id
        return partial(new_turn, tree, thread_id, as_input(messages, values), drop_pending), thread_id
    if thread_id is None:
        raise AgentGraphError("there is nothing to watch: pass messages, or a thread_id to go on")
    return partial(resumption, tree, thread_id, answers, values), thread_id


def _activity(engine: Engine, thread_id: str, goes_on: bool) -> Reads[Activity]:
    """Return what is known of the tree: of a thread that goes on what it did in this turn.

    How long that took is known only of what was watched.
    """
    thread, activity = _WATCHED.get(engine, ("", None))
    if activity is None or not goes_on or thread != thread_id:
        activity = Activity(engine.tree)
    if goes_on:
        activity.recall((yield from last_turn(engine.tree, thread_id)))
    return activity


def _asked(told: Sequence[AgentEvent]) -> bool:
    return any(event.kind == "interrupted" for event in told)
