"""A signal handler that raises, at each place in turn where Python runs signal handlers.

Python runs them when a function begins, and after a call of one that is written in C. A profile
function is called at the same places, and what it raises comes out there: so the places can be counted,
and none is left to luck. It is the handler of a signal as well, for that is how its code is known.
"""

import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from campaign import EXAMPLES, ended, shown
from helpers import says
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag
from agentgraph.graph import guarded_saver
from agentgraph.journal import (
    continuation,
    entries,
    lines,
    locks,
    pending,
    replay,
    saved,
    soundness,
    story,
    thread_saver,
)
from agentgraph.reports import result, thread, thread_list
from agentgraph.threads import engine, runs, turns

FILES = {module.__file__ for module in (engine, locks, runs)}
JOURNAL = (continuation, entries, lines, pending, replay, saved, soundness, story, thread_saver)
READING = FILES | {
    module.__file__ for module in (*JOURNAL, guarded_saver, result, thread, thread_list, turns)
}
STEP = 1 if EXAMPLES else 19
"""Each place is tried; without examples, every nineteenth one."""


class HandlerError(BaseException):
    """What the signal handler raises."""


class HandlerValueError(HandlerError, ValueError):
    """The same, but also an error that checks of files and inputs expect."""


class Handler:
    """Raises at the n-th place in the code of runs and locks.

    Attributes:
        raised: Whether it has raised.
        is_lost: Whether what it raised came into a `__del__`, which Python does not let it leave.
    """

    def __init__(
        self, number: int, error: type[HandlerError] = HandlerError, files: set[Any] = FILES
    ) -> None:
        self.left, self.raised, self.is_lost = number, False, False
        self.error, self.files = error, files

    def __call__(self, frame: Any, event: Any, _: Any = None) -> None:
        if event not in ("call", "c_return") or frame.f_code.co_filename not in self.files:
            return
        if self.files is READING and frame.f_code.co_name == "<genexpr>":
            return  # it may just be closed: then what is raised is lost
        self.left -= 1
        if self.left == 0:
            self.raised, self.is_lost = True, any(name == "__del__" for name in names(frame))
            raise self.error

    def met_in(self, act: Callable[[ag.Runner], None], runner: ag.Runner) -> bool:
        """Do something, and return whether the handler raised meanwhile."""
        came_out = False
        gc.collect()
        gc.disable()  # what is raised in a generator that the collector closes is lost
        sys.setprofile(self)
        try:
            act(runner)
        except HandlerError:
            came_out = True
        finally:
            sys.setprofile(None)
            gc.enable()
        assert came_out == (self.raised and not self.is_lost)
        return self.raised


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, Handler(0))
    yield
    signal.signal(signal.SIGUSR1, before)


def names(frame: Any) -> Iterator[str]:
    """Yield the names of the functions that are being called, the innermost first."""
    while frame is not None:
        yield frame.f_code.co_name
        frame = frame.f_back


def read(runner: ag.Runner) -> None:
    list(runner.run("Go.", thread_id="t"))


def leave(runner: ag.Runner) -> None:
    with closing(runner.run("Go.", thread_id="t")) as run:
        next(run)


def drop(runner: ag.Runner) -> None:
    for _ in runner.run("Go.", thread_id="t"):
        break


def look(runner: ag.Runner) -> None:
    list(runner.run("Go.", thread_id="t"))
    runner.copy("t", "other")
    runner.delete("other")


TREES = {
    "a sequence": lambda: ag.sequential("s", [says("a"), says("b")]),
    "branches": lambda: ag.parallel("p", [says("a"), says("b")]),
}


@pytest.mark.parametrize("saver", ["memory", "file"])
@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("act", [read, leave, drop, look])
@pytest.mark.by_turns("saver")
def test_a_thread_is_free_after_a_signal_handler_raised(
    act: Callable[[ag.Runner], None],
    tree: str,
    saver: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)  # that of pytest keeps frames
    number, places = 1, 0

    def tried() -> bool:
        path = tmp_path / f"{number}.db" if saver == "file" else None
        runner = ag.Runner(TREES[tree](), checkpointer=path)
        try:
            if not Handler(number).met_in(act, runner):
                return False
            list(runner.run("Again.", thread_id="t", drop_pending=True))
            assert runner.thread("t").status == "done"
        finally:
            runner.close()
        return True

    results: list[bool] = []
    while True:
        error = ended(lambda: results.append(tried()))
        assert error is None, f"at the place {number}: {shown(error)}"
        if not results[-1]:
            break
        number, places = number + STEP, places + 1
    assert places > 3


def resume(runner: ag.Runner) -> None:
    list(runner.run("Go.", thread_id="t"))
    list(runner.events("t"))
    list(runner.resume("t", "yes"))


def delete(runner: ag.Runner) -> None:
    list(runner.run("Go.", thread_id="t"))
    with closing(runner.run("Go.", thread_id="other")) as run:
        if next(run).kind == "error":
            next(run)  # what was raised comes after its event
        runner.delete("t")


@pytest.mark.parametrize("saver", ["memory", "file"])
@pytest.mark.parametrize("act", [resume, delete, look])
def test_what_a_signal_handler_raises_is_not_blamed_on_the_file_or_the_input(
    act: Callable[[ag.Runner], None], saver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)
    number, places = 1, 0
    while True:
        path = tmp_path / f"{number}.db" if saver == "file" else None
        with ag.Runner(
            ag.sequential("s", [says("a"), ag.human("h", "?")]), checkpointer=path
        ) as runner:
            if not Handler(number, HandlerValueError, READING).met_in(act, runner):
                break
        number, places = number + (7 if EXAMPLES else 97), places + 1
    assert places > 3


@pytest.mark.parametrize("moment", ["reading", "saving", "the input"])
def test_what_a_real_signal_handler_raises_comes_out(moment: str, tmp_path: Path) -> None:
    def handle(*_: object) -> None:
        raise HandlerValueError

    class Saver(InMemorySaver):
        def get_tuple(self, config: Any) -> Any:
            if moment == "reading":
                signal.raise_signal(signal.SIGUSR1)
            return super().get_tuple(config)

        def put(self, *args: Any) -> Any:
            if moment == "saving" and threading.current_thread() is threading.main_thread():
                signal.raise_signal(signal.SIGUSR1)
            return super().put(*args)

    class Words(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            signal.raise_signal(signal.SIGUSR1)
            return super().__iter__()

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        runner = ag.Runner(says("a"), checkpointer=Saver())
        words: Any = Words(["Go."]) if moment == "the input" else "Go."
        with pytest.raises(HandlerValueError):
            if moment == "saving":
                runner.copy("t", "other") if runner.invoke(words, thread_id="t") else None
            runner.invoke(words, thread_id="t")
    finally:
        signal.signal(signal.SIGUSR1, before)
