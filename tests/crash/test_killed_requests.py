"""Runs that are steered and stopped, and killed after each of their saves, lose and repeat nothing.

`AGENTGRAPH_EXAMPLES=100000` kills after each save; without it, after a few.
"""

import signal
import threading
from collections import Counter
from itertools import product
from pathlib import Path

import pytest
from campaign import EXAMPLES
from helpers.commands import wait_until
from helpers.databases import Databases
from helpers.forking import Forker
from langchain_core.messages import AIMessage, ToolMessage
from requests_process import HM, tree

import agentgraph as ag

STEP = 1 if EXAMPLES else 7
DONE = {"first": 1, "second": 1, "x": 1, "y": 1, "z": 1}


@pytest.fixture
def forks(forker: Forker) -> Forker:
    return forker.of("requests_process")


WAYS = [("here", "sync", "database"), ("there", "async", "file")]
if EXAMPLES:
    WAYS = [*product(("here", "there"), ("sync", "async"), ("file", "database"))]


@pytest.mark.parametrize(("requests", "drive", "kept"), WAYS)
def test_a_run_that_is_steered_and_stopped_may_be_killed_after_each_save(
    requests: str, drive: str, kept: str, forks: Forker, databases: Databases, tmp_path: Path
) -> None:
    deaths = 0
    for after in range(2, 90, STEP):
        folder = tmp_path / str(after)
        folder.mkdir()
        place = str(folder / "threads.db") if kept == "file" else databases.make()
        if not dies(requests, drive, place, forks, folder, after):
            break
        deaths += 1
    assert deaths > 2
    assert after < 80, "each of them died"


def dies(requests: str, drive: str, place: str, forks: Forker, folder: Path, after: int) -> bool:
    """Run a turn to its end; the first two processes die after so many saves, if they make so many.

    Returns:
        Whether one died.
    """
    codes: list[int] = []
    runner = ag.Runner(tree(folder, lambda: None), checkpointer=place)
    job = {"folder": str(folder), "requests": requests, "drive": drive, "place": place}
    with runner:
        for number in range(8):
            forks.start(**job, after=after if number < 2 else 0)
            other = threading.Thread(target=request, args=(runner, folder))
            other.start()
            codes.append(forks.wait())
            (folder / "ended").touch()
            other.join()
            (folder / "ended").unlink()
            if runner.thread("t").status == "done":
                break
        check(runner, folder, killed=codes.count(-signal.SIGKILL))
    return -signal.SIGKILL in codes


def request(runner: ag.Runner, folder: Path) -> None:
    """Steer and stop the run of another process once its first tool runs."""
    wait_until(lambda: (folder / "ready").exists() or (folder / "ended").exists())
    if not (folder / "ready").exists() or (folder / "requested").exists():
        return
    runner.steer("t", HM)
    runner.stop("t")
    (folder / "requested").touch()


def check(runner: ag.Runner, folder: Path, *, killed: int) -> None:
    """Check that the message was read once, and that only what was in flight ran twice."""
    thread = runner.thread("t")
    assert thread.status == "done"
    was_steered, begun = (folder / "requested").exists(), (folder / "begun").exists()
    read = [each.text for each in thread.messages].count(HM)
    assert read == was_steered or (begun and read == 1)  # a kill may come before it was saved, or after
    assert [*thread.queued] == []
    events = [event.text for event in runner.events("t")]
    assert events.count(HM) == read
    called = [c["id"] for m in thread.messages if isinstance(m, AIMessage) for c in m.tool_calls]
    answered = [m.tool_call_id for m in thread.messages if isinstance(m, ToolMessage)]
    assert called == answered == ["1", "2"]
    assert {name: events.count(name) for name in DONE} == DONE
    done = Counter((folder / "ledger").read_text().split())
    assert done.keys() == DONE.keys()
    again = sum((done - Counter(DONE)).values())
    assert again <= 2 * killed, done  # of each step two may be in flight
