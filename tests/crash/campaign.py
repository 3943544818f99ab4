"""What the campaigns share: threads that are watched, a world of effects, cases, and what must hold."""

import asyncio
import faulthandler
import inspect
import os
import re
import threading
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import pytest
from helpers import Async, Session, Sync, unvoided
from langchain_core.messages import ToolMessage

import agentgraph as ag
from agentgraph.show.lines import event_text
from agentgraph.testing import ScriptedChatModel, call, calls

EXAMPLES = int(os.environ.get("AGENTGRAPH_EXAMPLES", "0"))
"""How many cases a test has at most; 0 for those of `make test`, one way for each pair."""
PATIENCE = 10.0
"""After how many seconds a call that has not ended hangs."""
WAYS = ("sync-memory", "async-memory", "sync-sqlite", "async-sqlite")
"""How a thread is driven, and where it is kept."""


class World:
    """What functions do in the world, by name: effects that must not happen twice.

    Attributes:
        done: How often each has ended.
        running: Which are under way.
        gate: Where those wait that are to be in the middle when a run is left.
        waiting: How many wait there.
    """

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.running: Counter[str] = Counter()
        self.gate, self.waiting, self._lock = threading.Event(), 0, threading.Lock()

    def add(self, name: str) -> str:
        """Do something at once, and return a text about it."""
        with self.doing(name):
            return f"{name} is done"

    @contextmanager
    def doing(self, name: str) -> Iterator[None]:
        with self._lock:
            self.running[name] += 1
        try:
            yield
            with self._lock:
                self.done[name] += 1
        finally:
            with self._lock:
                self.running[name] -= 1

    def wait(self) -> None:
        with self._lock:
            self.waiting += 1
        assert self.gate.wait(20), "nobody opened the gate"

    async def await_gate(self) -> None:
        with self._lock:
            self.waiting += 1
        while not self.gate.is_set():
            await asyncio.sleep(0.001)


def leaf(name: str, world: World, during: Any = None, shape: str = "plain", **options: Any) -> ag.Agent:
    """Return a function agent of a shape that calls `during`, counts its effect and says its name."""

    def act() -> str:
        with world.doing(name):
            if during is not None:
                during()
        return f"{name} is done"

    async def aact() -> str:
        with world.doing(name):
            if during is not None and inspect.isawaitable(waited := during()):
                await waited
        return f"{name} is done"

    def plain(ctx: ag.Context) -> str:
        return act()

    async def coroutine(ctx: ag.Context) -> str:
        return await aact()

    def generator(ctx: ag.Context) -> Iterator[str]:
        yield f"{name} begins"
        yield act()

    async def stream(ctx: ag.Context) -> AsyncIterator[str]:
        yield f"{name} begins"
        yield await aact()

    shapes = {"plain": plain, "coroutine": coroutine, "generator": generator, "stream": stream}
    return ag.function_agent(name, shapes[shape], **options)


def for_item(name: str, world: World, during: Any = None) -> ag.Agent:
    """Return a function agent for items, whose effect has the number of the item."""

    def act(ctx: ag.Context) -> Iterator[str]:
        yield f"{name} begins"
        with world.doing(f"{name} {ctx.item.number}"):
            if during is not None:
                during()
        yield f"{name} is done"

    return ag.function_agent(name, act)


def for_call(name: str, world: World, during: Any = None) -> ag.Agent:
    """Return a function agent for calls and items, whose effect is its address."""

    def act(ctx: ag.Context) -> Iterator[str]:
        yield f"{name} begins"
        with world.doing(ctx.address):
            if during is not None:
                during()
        yield f"{name} is done"

    return ag.function_agent(name, act)


def called(name: str, world: World) -> ag.Agent:
    """Return a sequence of two functions for calls and items."""
    return ag.sequential(name, [for_call(f"{name}1", world), for_call(f"{name}2", world)])


def pair(name: str, world: World) -> ag.Agent:
    """Return a sequence of two functions, the second of which emits as it goes."""
    return ag.sequential(name, [leaf(f"{name}1", world), leaf(f"{name}2", world, shape="generator")])


NEVER_WORKS = "it never works"


def fails(name: str) -> ag.Agent:
    def fail(ctx: ag.Context) -> str:
        raise ValueError(f"{name}: {NEVER_WORKS}")

    return ag.function_agent(name, fail)


def chain(world: World, *agents: ag.Agent) -> ag.Agent:
    """Return a sequence with something done before and after."""
    return ag.sequential("s", [leaf("first", world), *agents, leaf("last", world)])


def model(response: Any) -> ScriptedChatModel:
    return ScriptedChatModel(responses=response)


def caller(tools: Sequence[Any], *names: str, name: str = "writer", **options: Any) -> ag.Agent:
    """Return a chat agent that calls tools by their names until each has worked once."""

    def response(sent: list[Any]) -> Any:
        worked = {m.name for m in sent if isinstance(m, ToolMessage) and m.status == "success"}
        left = [each for each in names if each not in worked]
        made = [
            call(each, f"{each}{len(sent)}", **({"request": "Look."} if each == "inner" else {}))
            for each in left
        ]
        return calls(*made) if left else "All is done."

    return ag.chat_agent(name, model(response), tools=tools, **options)


class Heard(NamedTuple):
    """The events of a call, and how it failed, if it did."""

    events: list[ag.AgentEvent]
    error: BaseException | None


class CameOutError(AssertionError):
    """Holds what a call raised, whatever it is."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(shown(error))
        self.error = error


class Watched(Session):
    """A thread whose calls run beside the test: what would end pytest is caught, what hangs found."""

    def __init__(self, tree: ag.Agent, way: str, folder: Path) -> None:
        """Make it; a way is how it is driven, and where it is kept: `sync-memory`, `async-<URL>`."""
        drive, saver = way.split("-", 1)
        places: dict[str, Any] = {"sqlite": folder / "threads.db", "memory": None}
        place = places.get(saver, saver)  # else it is a URL
        super().__init__(tree, Sync if drive == "sync" else Async, place)

    def use(self, act: Callable[[ag.Runner], Any], aact: Callable[[ag.Runner], Any]) -> Any:
        results: list[Any] = []
        error = ended(lambda: results.append(Session.use(self, act, aact)))
        if error is not None:
            raise CameOutError(error)
        return results[0]

    def call(self, method: str, *args: Any, **options: Any) -> Heard:
        events: list[ag.AgentEvent] = []
        try:
            self.follow(method, *args, hear=events.append, **options)
        except CameOutError as caught:
            return Heard(events, caught.error)
        return Heard(events, None)

    def run(self, given: Any = "Go.", **options: Any) -> Heard:
        return self.call("run", given, thread_id="t", **options)

    def resume(self, *answers: Any, **options: Any) -> Heard:
        return self.call("resume", "t", *answers, **options)


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
        with TemporaryFile("w+") as stacks:
            faulthandler.dump_traceback(stacks)
            stacks.seek(0)
            where = stacks.read()
        raise AssertionError(f"it hangs: it has not ended after {patience} seconds\n{where}")
    return raised[0] if raised else None


def shown(error: BaseException | None) -> str:
    """Return an exception as a text, also where it has none."""
    try:
        return repr(error)
    except Exception:
        return f"<{type(error).__name__} without a repr>"


def in_turn(ones: Iterable[Any], others: Iterable[Any], ways: Sequence[str], *, every: int = 1) -> Any:
    """Return each n-th pair with one of some ways in turn; with examples all pairs with all ways."""
    numbered = list(product(enumerate(ones), enumerate(others)))
    if EXAMPLES:
        cases = [(one, other, way) for (_, one), (_, other) in numbered for way in ways]
        cases = cases[:: -(-len(cases) // EXAMPLES)]
    else:
        cases = [
            (one, other, ways[(row + column) // every % len(ways)])
            for (row, one), (column, other) in numbered
            if (row + column) % every == 0
        ]
    return [pytest.param(*parts, id="-".join(map(slug, parts))) for parts in cases]


def slug(name: str) -> str:
    """Return a name as an id that pytest's `-k` takes."""
    return re.sub(r"[^\w.-]+", "_", name).strip("_")


def check_again(
    parts: Sequence[Sequence[ag.AgentEvent]], again: Sequence[ag.AgentEvent], *, killed: bool = False
) -> None:
    """Compare the events of a run and its resumes with what `events()` gives.

    A failure that ends the event loop kills what runs on it: it may not have been reported, and what
    was reported last comes again, under its id, where it was not saved yet.
    """
    left = unvoided(event for part in parts for event in part if not event.partial)
    if killed:
        again, left = ([e for e in events if e.kind != "error"] for events in (again, left))
        assert {each.id: line(each)[1:] for each in again} == {each.id: line(each)[1:] for each in left}
    else:
        assert [(each.time, line(each)) for each in again] == [(each.time, line(each)) for each in left]


def line(event: ag.AgentEvent) -> tuple[str, ...]:
    return (event.id, str(event.run_path), event.address, event.kind, event_text(event))


def by_lane(events: Iterable[ag.AgentEvent]) -> dict[str, list[tuple[str, ...]]]:
    """Return the lines of each lane, in its order; a tool call is a lane, too."""
    lanes: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for event in events:
        result = f"#{event.message.tool_call_id}" if isinstance(event.message, ToolMessage) else ""
        lanes[lane(event.address) + result].append(line(event)[1:])
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
