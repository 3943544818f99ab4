"""A process that prunes a thread dies before each statement: the thread is as it was, or pruned."""

import shutil
import signal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from helpers import Session, Sync
from helpers.databases import Databases
from helpers.forking import Forker
from helpers.pruned import KINDS, read, run
from pruning_process import KIND

import agentgraph as ag

LAST, LEAST = 3, 8
"""The turn that stays, and the least number of statements."""


def made(place: Any) -> Session:
    """Run turns, one of them named, and go back in the last one."""
    session = Session(KINDS[KIND](), Sync, place)
    for number in range(LAST):
        run(session, "run", f"Turn {number}", thread_id="t")
    read(session, "advance", "t", "Turn", turn_id="last")
    run(session, "rewind", "t", "p/q/b", turn=LAST)
    return session


def told(runner: ag.Runner) -> tuple[ag.Thread, list[Any]]:
    """Return the thread, and what can be read of its last turn."""
    thread = runner.thread("t")
    several: list[Any] = [thread.messages, thread.values, thread.turns[-1]]
    several += [each for each in runner.events("t") if each.turn == LAST]
    return thread, [*several, *(each for each in runner.visits("t") if each.turn == LAST)]


@pytest.mark.parametrize("how", ["sync in a file", "async in a file", "in a database"])
def test_a_thread_is_as_it_was_or_pruned(
    how: str, forker: Forker, databases: Databases, tmp_path: Path
) -> None:
    forks, first = forker.of("pruning_process"), tmp_path / "first.db"
    source: Any = databases.make() if "database" in how else first
    session = made(source)
    whole, before = session.use(told, told)
    states: list[bool] = []
    for after in range(60):
        place: Any = tmp_path / f"{after}.db"
        if "database" in how:
            place = databases.make(of=urlsplit(source).path[1:])
        else:
            shutil.copy(first, place)
        forks.start(place=str(place), after=after, is_async="async" in how)
        code = forks.wait()
        session.path = place
        thread, after_kill = session.use(told, told)
        states.append(is_pruned := len(thread.turns) == 1)
        assert is_pruned or thread.turns == whole.turns
        assert len(thread.lines) == (1 if is_pruned else 2)
        assert after_kill == before, after
        if code == 0:
            break
        assert code == -signal.SIGKILL
        if is_pruned != states[max(after - 1, 0)]:  # and it can be done again
            assert read(session, "prune", "t", keep_turns=1, keep_lines=0).turns == LAST * (
                not is_pruned
            )
            assert session.use(told, told)[1] == before
            assert run(session, "run", "Next", thread_id="t")
    assert states[0] is False
    assert states[-1] is True
    assert len(states) > LEAST
    assert states == sorted(states)
