"""`watch`: runs a turn, shows it as a live tree, and returns its events."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from agentgraph.errors import AgentGraphError
from agentgraph.events.events import AgentEvent, Interrupt
from agentgraph.safe_repr import shown
from agentgraph.show.activity import Activity
from agentgraph.threads.config import thread_for
from agentgraph.threads.engine import Begin, Engine, RunOptions
from agentgraph.threads.pending import UNANSWERED, resumption
from agentgraph.threads.replay import last_turn
from agentgraph.threads.runner import Runner
from agentgraph.threads.threads import Reads
from agentgraph.threads.turns import Input, as_input, new_turn
from agentgraph.tree.places import Tree

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from rich.console import Console

    from agentgraph.show.screens import Screen

_WATCHED: WeakKeyDictionary[Engine, tuple[str, Activity]] = WeakKeyDictionary()
"""The thread that was watched last with each runner, and the state of its agents."""


class Watched(tuple[AgentEvent, ...]):
    """The events of a watched run, without chunks, as a tuple.

    Attributes:
        thread_id: The thread.
        pending: The questions that wait for answers, in the order of the tree.
    """

    thread_id: str
    pending: tuple[Interrupt, ...]

    def __new__(
        cls, thread_id: str, events: Sequence[AgentEvent], pending: Sequence[Interrupt] = ()
    ) -> "Watched":
        """Make the tuple.

        Args:
            thread_id: The thread.
            events: The events of the run, without chunks.
            pending: The questions that wait for answers.
        """
        made = super().__new__(cls, events)
        made.thread_id, made.pending = thread_id, tuple(pending)
        return made

    @property
    def text(self) -> str:
        """The last text that was said; empty if there is none."""
        return next((event.text for event in reversed(self) if event.text), "")

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
    answers: Any = UNANSWERED,
    values: Mapping[str, Any] | None = None,
    context: Any = None,
    config: "RunnableConfig | None" = None,
    drop_pending: bool = False,
    console: "Console | Screen | None" = None,
) -> Watched:
    """Run a turn, or without `messages` resume a thread, and show it as a live tree.

    The tree shows which agents run and wait, the last text of each, times and tokens. A notebook
    shows it below the cell. A terminal shows it below the events, which are printed as lines led by
    their addresses; a pipe gets only these lines. When a thread is resumed, the tree also shows what
    was done before in this turn, with times if that was watched with the same runner.

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
        drop_pending: Whether a turn drops the questions that wait on the thread.
        console: A console of rich to print to.

    Returns:
        The events without chunks, as a tuple with `thread_id`, `text` (the last text) and
        `pending` (the questions that wait).

    Raises:
        Exception: An agent failed; the tree shows where. `watch(runner, thread_id=...)` tries the
            failed step again.
        AgentGraphError: As in `run` and `resume`; or the package `rich` is missing.
    """
    engine = _engine(runner)
    engine.check_sync("await awatch(runner, ...)", "that")
    screen = _screen(console)
    thread_id = _thread(messages, thread_id, config)
    begin = _beginning(engine.tree, messages, thread_id, answers, values, drop_pending)
    heard: list[AgentEvent] = []
    options = RunOptions(screen.streams, config=config, context=context, on_part=screen.see)
    with engine.run(begin, thread_id, options) as events:
        activity = engine.read(_activity(engine, thread_id, messages is None), thread_id)
        _WATCHED[engine] = (thread_id, activity)
        with screen.watching(activity):
            for event in events:
                screen.add(event)
                heard += [] if event.partial else [event]
    return Watched(thread_id, heard, runner.pending(thread_id) if _asked(heard) else ())


async def awatch(
    runner: Runner,
    messages: Input | None = None,
    *,
    thread_id: str | None = None,
    answers: Any = UNANSWERED,
    values: Mapping[str, Any] | None = None,
    context: Any = None,
    config: "RunnableConfig | None" = None,
    drop_pending: bool = False,
    console: "Console | Screen | None" = None,
) -> Watched:
    """Run or resume as `watch` does, on the event loop."""
    engine = _engine(runner)
    screen = _screen(console)
    thread_id = _thread(messages, thread_id, config)
    begin = _beginning(engine.tree, messages, thread_id, answers, values, drop_pending)
    heard: list[AgentEvent] = []
    options = RunOptions(screen.streams, config=config, context=context, on_part=screen.see)
    async with engine.arun(begin, thread_id, options) as events:
        activity = await engine.aread(_activity(engine, thread_id, messages is None), thread_id)
        _WATCHED[engine] = (thread_id, activity)
        with screen.watching(activity):
            async for event in events:
                screen.add(event)
                heard += [] if event.partial else [event]
    return Watched(thread_id, heard, await runner.apending(thread_id) if _asked(heard) else ())


def _engine(runner: object) -> Engine:
    if not isinstance(runner, Runner):
        raise AgentGraphError(
            f"runner must be a Runner, got {shown(runner)}; write watch(Runner(agent), ...)"
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


def _thread(messages: Input | None, thread_id: str | None, config: "RunnableConfig | None") -> str:
    """Return the thread to watch."""
    if messages is None and thread_id is None:
        raise AgentGraphError("there is nothing to watch; pass messages, or a thread_id to resume")
    return thread_for(thread_id, config)


def _beginning(
    tree: Tree,
    messages: Input | None,
    thread_id: str,
    answers: Any,
    values: Mapping[str, Any] | None,
    drop_pending: bool,
) -> Begin:
    """Return how the run begins."""
    if messages is not None:
        if answers is not UNANSWERED:
            raise AgentGraphError(
                f"answers={shown(answers)} can only be given to resume a thread; leave the messages out"
            )
        return partial(new_turn, tree, thread_id, as_input(messages, values), drop_pending)
    return partial(resumption, tree, thread_id, answers, values)


def _activity(engine: Engine, thread_id: str, resumes: bool) -> Reads[Activity]:
    """Return the state to begin with; on a resume, with what was done before in this turn."""
    thread, activity = _WATCHED.get(engine, ("", None))
    if activity is None or not resumes or thread != thread_id:
        activity = Activity(engine.tree)
    if resumes:
        activity.recall((yield from last_turn(engine.tree, thread_id)))
    return activity


def _asked(events: Sequence[AgentEvent]) -> bool:
    return any(event.kind == "interrupted" for event in events)
