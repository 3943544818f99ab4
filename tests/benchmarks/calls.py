"""How many Python functions are called for one more step, event or tool round: free of noise."""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import steps
import tools
from langgraph.checkpoint.memory import InMemorySaver
from loops import HELLO_ROUNDS, THREAD, flat
from measure import Contender, Figure

Made = Callable[[int], Contender]
"""Returns what runs a number of rounds."""
_FEW, _MANY = 10, 30
_REPEATS = 3
"""Threads that wait for each other call more or less often: the fewest calls count."""


def figures() -> Iterator[Figure]:
    """Count the calls of ours and of what it is held against."""
    with TemporaryDirectory() as folder:
        for saver, opened in _savers(Path(folder)).items():
            both = [partial(make, opened) for make in (steps.ours, steps.by_hand)]
            yield _figure(f"calls a loop step, {saver}", steps.HAND, both, steps=2)
    name, against = "calls a loop step as events, in memory", f"stream of the {steps.HAND}"
    yield _figure(name, against, [steps.as_events, _streamed], steps=2)
    for added in tools.AIMS:
        for way in tools.WAYS:
            rounds = [
                partial(tools.contender, make, way, has_middleware=bool(added))
                for make in (tools.ours, tools.theirs)
            ]
            yield _figure(f"calls a tool round{added}, {way}", "create_agent", rounds)


def _figure(name: str, against: str, both: list[Any], steps: int = 1) -> Figure:
    ours, theirs = (_calls_a_round(made) / steps for made in both)
    return Figure(name=name, ours=ours, theirs=theirs, against=against, unit="calls", aim=1.0)


def _savers(folder: Path) -> Mapping[str, Callable[[], Any]]:
    return {
        "no saver": nullcontext,
        "memory": lambda: nullcontext(InMemorySaver()),
        "SQLite": partial(steps.opened, folder / "thread.db"),
    }


def _calls_a_round(made: Made) -> float:
    """Return how many Python functions are called for one more round."""
    few, many = (min(_calls(made(rounds)) for _ in range(_REPEATS)) for rounds in (_FEW, _MANY))
    return (many - few) / (_MANY - _FEW)


def _calls(contender: Contender) -> int:
    """Return how many Python functions a call calls, in all threads."""
    count = 0

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"

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
