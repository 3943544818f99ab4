"""How many Python functions are called for one more step, event or tool round: free of noise."""

import asyncio
import concurrent.futures
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import compiling
import items
import resumes
import steps
import tools
from langgraph.checkpoint.memory import InMemorySaver
from loops import HELLO_ROUNDS, THREAD, flat
from measure import Contender, Figure

Made = Callable[[int], Contender]
"""Returns what runs a number of rounds."""
_FEW, _MANY = 10, 30
_WAITING = tuple(str(Path(each.__file__ or "").parent) for each in (concurrent.futures, asyncio))
"""Where threads and tasks wait for each other: how often they look is chance, and is left out."""


def figures() -> Iterator[Figure]:
    """Count the calls of ours and of what it is held against."""
    with TemporaryDirectory() as folder:
        for saver, opened in _savers(Path(folder)).items():
            both = [partial(make, opened) for make in (steps.ours, steps.by_hand)]
            yield _figure(f"calls a loop step, {saver}", steps.HAND, both, steps=2)
            yield from _of_items(saver, opened)
    name, against = "calls a loop step as events, in memory", f"stream of the {steps.HAND}"
    both = [partial(steps.as_events, nullcontext), _streamed]  # LangGraph's stream waits by chance
    yield _figure(name, against, both, steps=2, aim=1.05)
    both = [resumes.in_memory, resumes.by_hand]
    yield _figure("calls a finished branch of a resume", "LangGraph's tasks by hand", both)
    ours, theirs = (count_calls(each) for each in (compiling.compiled, compiling.compiled_by_hand))
    name, against = "calls to compile 1,000 agents", "the same nodes by hand"
    yield Figure(name=name, ours=ours, theirs=theirs, against=against, unit="calls", aim=2.0)
    for added, aim in tools.AIMS.items():
        for way in tools.WAYS:
            rounds = [
                partial(tools.contender, make, way, has_middleware=bool(added))
                for make in (tools.ours, tools.theirs)
            ]
            yield _figure(f"calls a tool round{added}, {way}", "create_agent", rounds, aim=aim)


def _of_items(saver: str, opened: Callable[[], Any]) -> Iterator[Figure]:
    """Count items and a branch; LangGraph calls less where tasks happen to end together."""
    made = (
        ("an item, a function", items.items, 1.05),
        ("an item, a chat agent", items.chats, 2.0),
        ("a branch", items.branches, 1.05),
    )
    theirs = _calls_a_round(partial(items.by_hand, opened=opened), counts=5)
    for name, each, aim in made:
        yield Figure(
            name=f"calls {name}, {saver}",
            ours=_calls_a_round(partial(each, opened=opened), counts=5),
            theirs=theirs,
            against="Send by hand",
            unit="calls",
            aim=aim,
        )


def _figure(name: str, against: str, both: list[Any], *, steps: int = 1, aim: float = 1.0) -> Figure:
    ours, theirs = (_calls_a_round(made) / steps for made in both)
    return Figure(name=name, ours=ours, theirs=theirs, against=against, unit="calls", aim=aim)


def _savers(folder: Path) -> Mapping[str, Callable[[], Any]]:
    return {
        "no saver": nullcontext,
        "memory": lambda: nullcontext(InMemorySaver()),
        "SQLite": partial(steps.opened, folder / "thread.db"),
    }


def _calls_a_round(made: Made, *, counts: int = 1) -> float:
    """Return how many Python functions are called for one more round, as the middle of several counts.

    Args:
        made: Makes what runs them.
        counts: How often to count, where threads share the work and chance decides how.
    """
    count_calls(made(1))  # fills caches
    few, many = ([count_calls(made(rounds)) for _ in range(counts)] for rounds in (_FEW, _MANY))
    return (median(many) - median(few)) / (_MANY - _FEW)


def count_calls(contender: Contender) -> int:
    """Return how many Python functions a call calls, in all threads."""
    count = 0

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        if event == "call":
            name = frame.f_code.co_filename
            count += name != threading.__file__ and not name.startswith(_WAITING)

    with contender() as call:
        threading.setprofile(profile)
        sys.setprofile(profile)
        try:
            call()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
    return count


def _streamed(rounds: int) -> Contender:
    @contextmanager
    def contender() -> Iterator[Callable[[], Any]]:
        graph = flat(rounds, InMemorySaver())
        yield lambda: list(graph.stream(HELLO_ROUNDS, THREAD, stream_mode="updates"))

    return contender
