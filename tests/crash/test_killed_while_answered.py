"""Kills of a process whose run is answered while it works: no answer is lost, and none taken twice.

`AGENTGRAPH_EXAMPLES=100000` kills after each number of saves; without it, after a few.
"""

import threading
from collections import Counter
from pathlib import Path

import pytest
from answered_process import ASKERS, SAID, answer_all, texts, tree
from campaign import EXAMPLES
from helpers.databases import Databases
from helpers.forking import Forker

import agentgraph as ag

SAVES = 120
"""More saves than a run makes."""
WAYS = [("itself", "file"), ("another process", "file"), ("another process", "database")]


@pytest.mark.parametrize(("who", "place"), WAYS)
def test_a_run_that_is_answered_may_be_killed_after_each_save(
    who: str, place: str, forker: Forker, databases: Databases, tmp_path: Path
) -> None:
    job, codes = forker.of("answered_process"), Counter[int]()
    at = databases.make() if place == "database" else str(tmp_path / "t.db")
    for after in range(1, SAVES) if EXAMPLES else range(6, SAVES, 20):
        folder, thread = tmp_path / f"{after}", f"t{after}"
        folder.mkdir()
        with ag.Runner(tree(folder), checkpointer=at) as runner:
            over, saved = threading.Event(), set[str]()
            answering = threading.Thread(target=answer_all, args=(runner, thread, over.is_set, saved))
            job.start(folder=str(folder), place=at, thread=thread, after=after, answers=who == "itself")
            if who != "itself":
                answering.start()
            codes[job.wait()] += 1
            over.set()
            if who != "itself":
                answering.join()
            for name in ASKERS:  # nobody answers the rest while it runs
                (folder / name).touch()
            check(runner, thread, saved)
    assert codes.keys() == {0, -9}


def check(runner: ag.Runner, thread: str, saved: set[str]) -> None:
    """Bring a thread to its end, and check that each answer was taken once."""
    try:
        status = runner.thread(thread).status
    except ag.UnknownThreadError:  # it died before its first save
        return
    while status != "done":
        pending = runner.pending(thread)
        answers = {each.id: f"{each.value}!" for each in pending if each.id not in saved}
        status = runner.advance(thread, answers=answers).status
    events = [*runner.events(thread)]
    assert texts(events) == SAID
    asked = [each.action.interrupted for each in events if each.action and each.action.interrupted]
    assert sorted(each.value for each in asked) == ["a 0?", "a 1?", "b 0?", "d 0?"]
    assert saved <= {each.id for each in asked}
