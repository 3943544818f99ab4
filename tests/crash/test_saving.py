"""Savers that fail at each of their calls in turn, in every kind of tree.

Whatever the saver raises, and wherever: it leaves the run as a `SaverError`, it is nobody's failure,
and a resume goes on as after a kill. `AGENTGRAPH_EXAMPLES=100000` lets each call fail, in all ways.
"""

import asyncio
import sqlite3
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from copy import copy
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from campaign import (
    EXAMPLES,
    NEVER_WORKS,
    WAYS,
    Heard,
    Watched,
    World,
    check_again,
    ended,
    in_turn,
    line,
    shown,
)
from helpers import THREAD
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from saved_trees import DECLARED, FULL, TREES

import agentgraph as ag

STEP = 1 if EXAMPLES else 43
"""Each call fails; without examples, a few."""
MOST_CALLS = 8
"""After so many runs and resumes a thread has come to its end."""


MODES, DRIVES = ("sync", "async"), ("sync", "async")


class OwnError(Exception):
    """An exception of a saver's own."""


class How(NamedTuple):
    """How a saver fails.

    Attributes:
        error: What it raises; a listing raises it behind its first checkpoint.
        methods: Which of its methods fail.
        saves: Whether it has saved before it fails.
        again: After how many calls it fails again; 1 for all calls until the run is over.
    """

    error: BaseException
    methods: tuple[str, ...] = ("put", "put_writes")
    saves: bool = False
    again: int = 0


HOW = {
    "once": How(sqlite3.OperationalError(FULL)),
    "saved": How(OwnError(FULL), saves=True),
    "from then on": How(OSError(28, FULL), again=1),
    "twice": How(OwnError(FULL), again=9),
    "reading": How(ConnectionError(FULL), ("get_tuple", "get_delta_channel_history", "list")),
}


class Faults:
    """Lets the n-th call of a saver's methods fail.

    Attributes:
        calls: How many calls there were.
        times: How many of them failed.
    """

    def __init__(self, how: str, fail_at: int) -> None:
        self.how = HOW[how]._replace(error=copy(HOW[how].error))  # an error keeps all its frames
        self.fail_at, self.calls, self.times = fail_at, 0, 0

    def put_on(self, saver: Any, prefix: str) -> None:
        """Have the methods of a saver fail; with the prefix "a" the async ones."""
        patched = self._apatched if prefix else self._patched
        listing = self._alisting if prefix else self._listing
        for name in self.how.methods:
            made = listing if name == "list" else patched
            vars(saver)[prefix + name] = made(getattr(saver, prefix + name))

    def take_off(self, saver: Any, prefix: str) -> None:
        for name in self.how.methods:
            vars(saver).pop(prefix + name, None)

    def check(self, error: BaseException) -> None:
        """Check that an error of a run names what the saver raised."""
        assert type(error) is ag.SaverError, shown(error)
        assert error.thread_id == "t"
        assert error.__cause__ is self.how.error
        assert FULL in str(error)

    def _patched(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **options: Any) -> Any:
            fails = self._fails()
            result = None if fails and not self.how.saves else method(*args, **options)
            self._raise(fails)
            return result

        return call

    def _apatched(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        async def call(*args: Any, **options: Any) -> Any:
            fails = self._fails()
            result = None if fails and not self.how.saves else await method(*args, **options)
            self._raise(fails)
            return result

        return call

    def _listing(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def listed(*args: Any, **options: Any) -> Iterator[Any]:
            fails = self._fails()
            for saved in method(*args, **options):
                yield saved
                self._raise(fails)

        return listed

    def _alisting(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        async def listed(*args: Any, **options: Any) -> AsyncIterator[Any]:
            fails = self._fails()
            async for saved in method(*args, **options):
                yield saved
                self._raise(fails)

        return listed

    def _fails(self) -> bool:
        self.calls += 1
        after, again = self.calls - self.fail_at, self.how.again
        return self.fail_at > 0 and (after == 0 or (after > 0 and (again == 1 or after == again)))

    def _raise(self, fails: bool) -> None:
        if fails:
            self.times += 1
            raise self.how.error


class Failing(Watched):
    """A thread whose saver fails in runs and resumes, and works between them.

    Attributes:
        parts: What was heard of all runs and resumes.
    """

    def __init__(self, tree: str, way: str, folder: Path, faults: Faults) -> None:
        folder.mkdir()
        self.world, self.values = World(), DECLARED.get(tree)
        super().__init__(TREES[tree](self.world), way, folder)
        self.faults, self.prefix, self.runs = faults, "" if way.startswith("sync") else "a", False
        self.parts: list[Heard] = []

    def runner(self, saver: Any) -> ag.Runner:
        if self.runs:
            self.faults.put_on(saver, self.prefix)
        return ag.Runner(self.tree, checkpointer=saver, values=self.values)

    def call(self, method: str, *args: Any, **options: Any) -> Heard:
        self.runs = not (self.faults.times and self.faults.how.again < 2)
        try:
            return super().call(method, *args, **options)
        finally:
            self.faults.take_off(self.memory, self.prefix)
            self.runs = False

    def finish(self, text: str = "Go.") -> list[Heard]:
        """Bring a turn to its end, and return what was heard so far."""
        before = len(self.thread().turns)
        parts = [self.run(text)]
        while len(parts) < MOST_CALLS:
            left = self.thread()
            begun = len(left.turns) > before
            self.check_listed(left, text if begun else None)
            is_over = parts[-1].error is None and not left.pending
            if is_over or isinstance(parts[-1].error, ag.StepFailedError):
                self.parts += parts
                return self.parts
            parts.append(self.resume(*["yes"][: len(left.pending)]) if begun else self.run(text))
        raise AssertionError(f"the thread does not come to its end: {shown(parts[-1].error)}")

    def check_listed(self, left: ag.Thread, begun: str | None) -> None:
        """Check that the thread is listed as what it is, with the message of a turn that has begun."""
        listed = self.use(lambda r: r.threads(), lambda r: r.athreads())
        again = self.use(lambda r: r.threads(left.status), lambda r: r.athreads(left.status))
        assert listed == again
        known = [] if left.status == "new" else [("t", left.status)]
        assert [(each.thread_id, each.status) for each in listed] == known
        assert (left.status == "paused") == bool(left.pending)
        if begun is not None:
            assert [each.text for each in left.turns[-1].messages] == [begun]
            assert [each.text for each in left.messages if each.type == "human"].count(begun) == 1

    def said(self) -> dict[str, list[tuple[str, ...]]]:
        """Return the lines of each address and tool call, in its order; errors aside."""
        found: dict[str, list[tuple[str, ...]]] = defaultdict(list)
        for event in self.events():
            result = f"#{event.message.tool_call_id}" if isinstance(event.message, ToolMessage) else ""
            if event.kind != "error":
                found[event.address + result].append(line(event)[1:])
        return dict(found)

    def saved(self) -> tuple[list[tuple[str, str]], Any]:
        """Return the history and the values that are saved."""
        state = self.state()
        return [(each.type, each.text) for each in state["messages"]], state.get("values")


def blamed(parts: Sequence[Heard]) -> set[str]:
    """Return the addresses of the agents that failed; those that never work may lose before they do."""
    errors = [event for part in parts for event in part.events if event.kind == "error"]
    return {event.address for event in errors if NEVER_WORKS not in (event.error or "")}


def check_failing(whole: Failing, driven: Failing, fails: set[str], text: str = "Go.") -> None:
    """Check that a turn whose saver failed ends as one whose saver worked."""
    parts = driven.finish(text)
    for part in parts:
        if part.error is not None and not isinstance(part.error, ag.StepFailedError):
            driven.faults.check(part.error)
    assert blamed(parts) <= fails
    done, wanted = driven.world.done, whole.world.done
    assert done.keys() == wanted.keys(), "something was undone or told"
    most = {name: times + driven.faults.times for name, times in wanted.items()}
    assert wanted <= done <= Counter(most), "something is lost, or done again after it was saved"
    assert driven.said() == whole.said()
    assert driven.saved() == whole.saved()
    check_again([part.events for part in parts], driven.events())


@pytest.mark.parametrize(("tree", "how", "way"), in_turn(TREES, HOW, WAYS, every=11))
def test_a_saver_that_fails_is_nobodys_failure(tree: str, how: str, way: str, tmp_path: Path) -> None:
    whole = Failing(tree, way, tmp_path / "whole", Faults(how, 0))
    fails = blamed(whole.finish())
    for number in range(1 + len(tree + how) % STEP, whole.faults.calls + 1, STEP):
        driven = Failing(tree, way, tmp_path / str(number), Faults(how, number))
        try:
            check_failing(whole, driven, fails)
        except BaseException as error:
            error.add_note(f"The call {number} of {whole.faults.calls} failed.")
            raise


class Listings(Faults):
    """Lets the n-th listing of checkpoints fail."""

    def __init__(self, fail_at: int) -> None:
        super().__init__("reading", fail_at)
        self.how = self.how._replace(methods=("list",))


@pytest.mark.parametrize("way", WAYS)
def test_a_listing_that_fails_in_a_resume_is_nobodys_failure(way: str, tmp_path: Path) -> None:
    tree = "asks beside transfers"
    whole = Failing(tree, way, tmp_path / "whole", Listings(0))
    fails = blamed(whole.finish())
    assert whole.faults.calls == 3  # each call looks for what was requested; then the resume reads
    driven = Failing(tree, way, tmp_path / "driven", Listings(3))
    check_failing(whole, driven, fails)
    assert driven.faults.times == 1


ASKING = ("each asks", "runs asking", "asks", "asks in a tool", "asks beside transfers")
ALONE = [name for name in TREES if name not in {*ASKING, "undone"}]
"""The trees that a graph runs without a `Runner` to the end."""


@pytest.mark.parametrize(("tree", "durability", "drive"), in_turn(ALONE, MODES, DRIVES, every=11))
def test_a_saver_that_fails_under_a_graph_is_nobodys_failure(
    tree: str, durability: str, drive: str
) -> None:
    """Without a `Runner` the graph raises the same error, and LangGraph's own resume goes on."""
    whole = Alone(tree, durability, drive, Faults("once", 0))
    whole.finish()
    for number in range(1, whole.faults.calls + 1, STEP):
        driven = Alone(tree, durability, drive, Faults("once", number))
        for error in driven.finish():
            assert type(error) is ag.SaverError, f"call {number}: {error!r}"
            assert error.__cause__ is driven.faults.how.error
        done, most = driven.world.done, {name: n + 1 for name, n in whole.world.done.items()}
        if durability == "sync":  # the other one does more before it notices
            assert whole.world.done <= done <= Counter(most), f"call {number}"
        assert done.keys() == whole.world.done.keys(), f"call {number}"
        assert driven.said == whole.said, f"call {number}"


class Alone:
    """A thread of a graph without a `Runner`, whose saver fails until it has failed.

    Attributes:
        said: The history, once the graph has ended.
    """

    said: list[tuple[str, str]]

    def __init__(self, tree: str, durability: str, drive: str, faults: Faults) -> None:
        self.world, self.faults, self.saver = World(), faults, InMemorySaver()
        self.graph = ag.compile_agent(
            TREES[tree](self.world), checkpointer=self.saver, values=DECLARED.get(tree)
        )
        self.durability, self.prefix = durability, "a" if drive == "async" else ""

    def finish(self) -> list[BaseException]:
        """Run the graph until it ends, and return what it raised before."""
        errors: list[BaseException] = []
        while len(errors) < MOST_CALLS:
            begins = self.saver.get_tuple(THREAD) is None
            if not self.faults.times:
                self.faults.put_on(self.saver, self.prefix)
            error = ended(lambda begins=begins: self._invoke({"messages": ["Go."]} if begins else None))
            self.faults.take_off(self.saver, self.prefix)
            if error is None:
                state = self.graph.get_state(THREAD)
                assert not state.next
                self.said = [(each.type, each.text) for each in state.values["messages"]]
                return errors
            errors.append(error)
        raise AssertionError(f"the graph does not come to its end: {shown(errors[-1])}")

    def _invoke(self, given: Any) -> None:
        if self.prefix:
            asyncio.run(self.graph.ainvoke(given, THREAD, durability=self.durability))
        else:
            self.graph.invoke(given, THREAD, durability=self.durability)
