"""What the campaigns share: ways to drive a thread, a ledger of what was done, and what must hold.

Everything runs in a thread of its own: an exception that would end pytest is caught there, and a run
that hangs is found out.
"""

import asyncio
import faulthandler
import os
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from helpers import standing
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag
from agentgraph.show.lines import event_text

EXAMPLES = int(os.environ.get("AGENTGRAPH_EXAMPLES", "0"))
"""How many cases a test has at most; 0 for those of `make test`, one way for each pair."""
PATIENCE = 10.0
"""After how many seconds a call that has not ended hangs."""
WAYS = ("sync-memory", "async-memory", "sync-sqlite", "async-sqlite")
"""How a thread is driven, and where it is kept."""


class Ledger:
    """Counts what has been done, by name: an effect in the world that must not happen twice."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, name: str) -> None:
        with self._lock:
            self.done[name] += 1


class Heard(NamedTuple):
    """What a call told, and how it failed, if it did."""

    events: list[ag.AgentEvent]
    error: BaseException | None


@dataclass
class Way:
    """One way of driving a thread; each call has a new runner, and a file is opened anew."""

    name: str
    folder: Path
    memory: InMemorySaver = field(default_factory=InMemorySaver)

    @property
    def is_async(self) -> bool:
        return self.name.startswith("async")

    @property
    def path(self) -> Path | None:
        return self.folder / "threads.db" if self.name.endswith("sqlite") else None

    def hear(self, tree: ag.Agent, method: str, *args: Any, **options: Any) -> Heard:
        """Call a method that gives events, and return these and how it ended."""
        told: list[ag.AgentEvent] = []

        def act(runner: ag.Runner) -> None:
            told.extend(getattr(runner, method)(*args, **options))

        async def aact(runner: ag.Runner) -> None:
            async for event in getattr(runner, f"a{method}")(*args, **options):
                told.append(event)

        return Heard(told, self.drive(tree, act, aact))

    def run(self, tree: ag.Agent, **options: Any) -> Heard:
        return self.hear(tree, "run", "Go.", thread_id="t", **options)

    def resume(self, tree: ag.Agent, *answers: Any, **options: Any) -> Heard:
        return self.hear(tree, "resume", "t", *answers, **options)

    def events(self, tree: ag.Agent) -> list[ag.AgentEvent]:
        told, error = self.hear(tree, "events", "t")
        assert error is None, f"events() fails: {shown(error)}"
        return told

    def values(self, tree: ag.Agent) -> dict[str, Any]:
        """Return the values of the thread, as LangGraph's `get_state` gives them."""
        state = self.state(tree)
        return dict(state.get("values") or {})

    def state(self, tree: ag.Agent) -> dict[str, Any]:
        found: dict[str, Any] = {}
        config: Any = {"configurable": {"thread_id": "t"}}

        def act(runner: ag.Runner) -> None:
            found.update(runner.graph.get_state(config, subgraphs=True).values)

        async def aact(runner: ag.Runner) -> None:
            found.update((await runner.graph.aget_state(config, subgraphs=True)).values)

        error = self.drive(tree, act, aact)
        assert error is None, f"get_state fails: {shown(error)}"
        return found

    def drive(
        self, tree: ag.Agent, act: Callable[[ag.Runner], Any], aact: Callable[[ag.Runner], Any]
    ) -> BaseException | None:
        """Do something with a new runner, sync or async, and return what was raised."""
        if self.is_async:
            return ended(lambda: asyncio.run(self._adrive(tree, aact)))
        return ended(lambda: self._drive(tree, act))

    def _drive(self, tree: ag.Agent, act: Callable[[ag.Runner], Any]) -> None:
        if self.path is None:
            act(ag.Runner(tree, checkpointer=self.memory))
            return
        with ag.sqlite_saver(self.path) as saver:
            act(ag.Runner(tree, checkpointer=saver))

    async def _adrive(self, tree: ag.Agent, act: Callable[[ag.Runner], Any]) -> None:
        if self.path is None:
            await act(ag.Runner(tree, checkpointer=self.memory))
            return
        async with ag.async_sqlite_saver(self.path) as saver:
            await act(ag.Runner(tree, checkpointer=saver))


def ended(act: Callable[[], Any], patience: float = PATIENCE) -> BaseException | None:
    """Do something in a thread of its own, and return what it raised."""
    raised: list[BaseException] = []

    def whole() -> None:
        try:
            act()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=whole, daemon=True)
    thread.start()
    thread.join(patience)
    if thread.is_alive():
        faulthandler.dump_traceback()
        raise AssertionError(f"it hangs: it has not ended after {patience} seconds")
    return raised[0] if raised else None


def shown(error: BaseException | None) -> str:
    """Return an exception as a text, also where it has none."""
    try:
        return repr(error)
    except Exception:
        return f"<{type(error).__name__} without a repr>"


def in_turn(ones: Iterable[Any], others: Iterable[Any], *, every: int = 1) -> list[Any]:
    """Return pairs, each with one of `WAYS` in turn; with examples all pairs with all ways.

    Of the pairs only each n-th is taken, in such a way that each of both sides is there.
    """
    numbered = product(enumerate(ones), enumerate(others))
    if EXAMPLES:
        return thinned([case(one, other, way) for (_, one), (_, other) in numbered for way in WAYS])
    return [
        case(one, other, WAYS[(row + column) // every % len(WAYS)])
        for (row, one), (column, other) in numbered
        if (row + column) % every == 0
    ]


def case(*parts: str) -> Any:
    """Return a case of a test, with an id that pytest's `-k` takes."""
    return pytest.param(*parts, id="-".join(map(slug, parts)))


def slug(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name).strip("_")


def thinned(cases: Sequence[Any]) -> list[Any]:
    """Return as many cases as there are to be examples, from all over."""
    return list(cases[:: -(-len(cases) // EXAMPLES)])


def check_told_again(
    parts: Sequence[Sequence[ag.AgentEvent]],
    again: Sequence[ag.AgentEvent],
    *,
    killed: bool = False,
) -> None:
    """Compare what `events()` tells with what a run and its resumes told, lane by lane.

    A failure that ends the event loop kills what runs on it: nothing may have been told of it, and what
    was told last is told again, under its id, where it was not saved yet.
    """
    told = valid([event for part in parts for event in part])
    if killed:
        told = list({event.id: event for event in told}.values())
    assert by_lane(valid(again)) == by_lane(told)
    if not killed:
        assert failures(again) <= failures(event for part in parts for event in part)


def valid(events: Sequence[ag.AgentEvent]) -> list[ag.AgentEvent]:
    """Return events without chunks, failures, what was voided behind them, and repeated questions."""
    kept: dict[Any, ag.AgentEvent] = {}
    for number, event in enumerate(events):
        if event.kind == "discarded":
            void = set(event.action.discarded) if event.action else set()
            kept = {k: e for k, e in kept.items() if not ({e.id, getattr(e, "step", None)} & void)}
        elif event.kind != "error" and not event.partial:
            asked = event.kind == "interrupted"
            kept.setdefault((event.id, event.address) if asked else number, event)
    return list(kept.values())


def failures(events: Iterable[ag.AgentEvent]) -> set[tuple[str, str | None]]:
    return {(event.address, event.error) for event in events if event.kind == "error"}


def by_lane(events: Iterable[ag.AgentEvent]) -> dict[str, list[tuple[str, ...]]]:
    """Return what each lane told, in its order, as lines with their ids; a tool call is a lane, too."""
    lanes: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for event in events:
        line = (str(event.run_path), event.address, event.kind, event_text(event), event.id)
        call = f"#{event.message.tool_call_id}" if isinstance(event.message, ToolMessage) else ""
        lanes[lane(event.address) + call].append(line)
    return {name: lanes[name] for name in sorted(lanes)}


def lane(address: str) -> str:
    """Return the lane of an address, in trees whose forks are all named `fork...`.

    >>> lane("s/fork/x/x1"), lane("s/chat/inner(1)/i1"), lane("s/first")
    ('s/fork/x', 's/chat/inner(1)', '')
    """
    parts = address.split("/")
    ends = [i + 2 for i, part in enumerate(parts) if part.startswith("fork")]
    ends += [i + 1 for i, part in enumerate(parts) if "(" in part]
    return "/".join(parts[: max(ends, default=0)])


def check_heard(heard: Iterable[ag.AgentEvent], again: Sequence[ag.AgentEvent], at: str = "") -> None:
    """Check that what stands of all that was heard is what is told again."""
    left = standing(event for event in heard if not event.partial)
    assert [*map(line, left)] == [*map(line, again)], f"{at}: {[*map(line, heard)]}"
    assert left == again, at


def line(event: ag.AgentEvent) -> tuple[Any, ...]:
    void = event.action.discarded if event.action else ()
    return (event.address, event.kind, event_text(event), *void, event.id[:6], str(event.time)[-9:])
