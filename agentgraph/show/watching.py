"""`watch`: runs a turn, shows it as a live tree, and returns its events."""

from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from agentgraph.errors import AgentGraphError, pip_install
from agentgraph.events.events import AgentEvent
from agentgraph.graph.nodes.spending import Counts
from agentgraph.journal.answers import UNANSWERED
from agentgraph.journal.replay import last_turn
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.reports.result import Result, result
from agentgraph.safe_repr import shown
from agentgraph.show.activity import Activity
from agentgraph.threads.begin import beginning
from agentgraph.threads.engine import Engine, RunOptions
from agentgraph.threads.live.queueing import WhileRunning, abegin_run, begin_run
from agentgraph.threads.rewinds.rewinding import RewindArguments
from agentgraph.threads.runner import Runner
from agentgraph.threads.turns import Input

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from rich.console import Console

    from agentgraph.show.screens import Screen

_WATCHED: WeakKeyDictionary[Engine, tuple[str, Activity]] = WeakKeyDictionary()
"""The last watched thread of each runner, and the state of its agents."""


class Watched(Result):
    """The `Result` of a watched run, which is also the sequence of its events."""

    def __iter__(self) -> Iterator[AgentEvent]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def __getitem__(self, index: int | slice) -> Any:
        return self.events[index]

    def __repr__(self) -> str:
        questions = f", {len(self.pending)} pending" if self.pending else ""
        return f"<Watched: {len(self)} events on thread {self.thread_id!r}{questions}>"

    def _ipython_display_(self) -> None:
        """Show nothing: the notebook shows the tree already."""


def watch(
    runner: Runner,
    messages: Input | None = None,
    *,
    thread_id: str | None = None,
    answers: object = UNANSWERED,
    values: Mapping[str, object] | None = None,
    context: object = None,
    config: "RunnableConfig | None" = None,
    drop_pending: bool = False,
    at: str | RewindArguments | None = None,
    while_running: WhileRunning = "refuse",
    console: "Console | Screen | None" = None,
) -> Watched:
    """Run a turn, or without `messages` resume a thread or go back, and show it as a live tree.

    The tree shows which agents run and wait, the last text of each, times and tokens. A notebook
    shows it below the cell. A terminal shows it below the events, which are printed as lines that start
    with their addresses; a pipe gets only these lines. When a thread is resumed, the tree also shows
    the earlier part of this turn, with times if that was watched with the same runner.

    ```
    watch(runner, "Go.", thread_id="monday")
    watch(runner, thread_id="monday", answers="yes")
    ```

    Args:
        runner: The runner.
        messages: The input, as in `Runner.run`; without it the thread is resumed, as by `resume`.
        thread_id: The thread; a turn without one gets a new thread.
        answers: Answers to questions of the thread, as in `resume`.
        values: Values for the run.
        context: LangGraph's runtime context, as in `Runner.run`.
        config: LangGraph's config, as in `Runner.run`.
        drop_pending: Whether a turn drops the pending questions of the thread.
        at: An address, or a step, to which the thread goes back, as by `Runner.rewind`; `messages`,
            `values` and `answers` are then those of the rewind. Or all of these, as `RewindArguments`.
        while_running: The treatment of a turn's input if another run is active, as in `Runner.run`.
        console: A console of rich to print to.

    Returns:
        The `Result`, as from `Runner.invoke`; it can be iterated for the events.

    Raises:
        Exception: An agent failed; the tree shows the agent. `watch(runner, thread_id=...)` retries
            the failed step.
        AgentGraphError: As in `run` and `resume`; or the package `rich` is missing.
    """
    engine = _engine(runner)
    engine.check_sync("await awatch(runner, ...)", "that")
    screen = _screen(console)
    begin, thread = beginning(messages, thread_id, answers, values, config, drop_pending, at)
    received, before = list[AgentEvent](), list[Counts]()
    options = RunOptions(
        screen.streams,
        config=config,
        context=context,
        on_part=screen.see,
        values=values,
        before=before,
    )
    with begin_run(engine, begin, thread, options, while_running) as events:
        first = [*islice(events, at is not None)]  # before it the thread is as it was
        activity = engine.read(_activity, thread, engine, messages is None, at is not None)
        _WATCHED[engine] = (thread, activity)
        with screen.watching(activity):
            for event in chain(first, events):
                screen.add(event)
                received += [] if event.partial else [event]
    return Watched(**vars(engine.read(result, thread, received, before)))


async def awatch(
    runner: Runner,
    messages: Input | None = None,
    *,
    thread_id: str | None = None,
    answers: object = UNANSWERED,
    values: Mapping[str, object] | None = None,
    context: object = None,
    config: "RunnableConfig | None" = None,
    drop_pending: bool = False,
    at: str | RewindArguments | None = None,
    while_running: WhileRunning = "refuse",
    console: "Console | Screen | None" = None,
) -> Watched:
    """Run or resume as `watch` does, on the event loop."""
    engine = _engine(runner)
    screen = _screen(console)
    begin, thread = beginning(messages, thread_id, answers, values, config, drop_pending, at)
    received, before = list[AgentEvent](), list[Counts]()
    options = RunOptions(
        screen.streams,
        config=config,
        context=context,
        on_part=screen.see,
        values=values,
        before=before,
    )
    async with abegin_run(engine, begin, thread, options, while_running) as events:
        first = [] if at is None else [event async for event in _first(events)]
        activity = await engine.aread(_activity, thread, engine, messages is None, at is not None)
        _WATCHED[engine] = (thread, activity)
        with screen.watching(activity):
            for event in first:
                screen.add(event)
                received.append(event)
            async for event in events:
                screen.add(event)
                received += [] if event.partial else [event]
    return Watched(**vars(await engine.aread(result, thread, received, before)))


def _engine(runner: object) -> Engine:
    if not isinstance(runner, Runner):
        raise AgentGraphError(
            f"runner={shown(runner)} is not a Runner; write watch(Runner(agent), ...)"
        )
    return runner.engine


def _screen(console: "Console | Screen | None") -> "Screen":
    try:
        from agentgraph.show.screens import screen_for
    except ImportError:
        raise AgentGraphError(
            f"watching a run needs the package rich; run {pip_install('live')}"
        ) from None
    return screen_for(console)


async def _first(events: AsyncIterator[AgentEvent]) -> AsyncIterator[AgentEvent]:
    if (event := await anext(events, None)) is not None:
        yield event


async def _activity(saver: ThreadSaver, engine: Engine, resumes: bool, goes_back: bool) -> Activity:
    """Return the initial state, with the earlier part of this turn unless a turn starts."""
    thread, activity = _WATCHED.get(engine, ("", None))
    if activity is None or not resumes or goes_back or thread != saver.thread_id:
        activity = Activity(saver.tree)
    if resumes or goes_back:
        activity.recall(await last_turn(saver))
    return activity
