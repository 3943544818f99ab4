"""Followers get each event once and in order, wherever they begin, and whatever becomes of the run."""

from pathlib import Path

import pytest
from followed_trees import TREES, Follower, check_adds_up, converse, follow
from helpers import Drive

import agentgraph as ag
from agentgraph.threads.under_way import run_under_way

KEPT = pytest.mark.parametrize("kept", ["memory", "file"])


def runner_of(tree: ag.Agent, kept: str, folder: Path) -> ag.Runner:
    return ag.Runner(tree, checkpointer=folder / "threads.db" if kept == "file" else None)


@KEPT
@pytest.mark.parametrize("tree", TREES)
def test_a_follower_after_any_cursor_gets_exactly_what_it_lacks(
    tree: str, kept: str, drive: Drive, tmp_path: Path
) -> None:
    with runner_of(TREES[tree](), kept, tmp_path) as runner:
        told: list[ag.AgentEvent] = []
        converse(drive, runner, told.append)
        again = list(runner.events("t"))
        check_adds_up(list(follow(drive, runner, None)), again)
        for number, event in enumerate(told, 1):
            rest = list(follow(drive, runner, event.cursor))
            check_adds_up([*told[:number], *rest], again)


@KEPT
@pytest.mark.parametrize("tree", TREES)
def test_followers_that_join_at_any_moment_get_each_event_once(
    tree: str, kept: str, drive: Drive, tmp_path: Path
) -> None:
    """Before each event two followers join: one that has nothing, and one that has all before it."""
    with runner_of(TREES[tree](), kept, tmp_path) as runner:
        told: list[ag.AgentEvent] = []
        followers: list[Follower] = []

        def join() -> None:
            if run_under_way(runner.saver, "t"):  # an async run begins when it is asked for an event
                followers.extend([Follower(drive, runner), Follower(drive, runner, told)])

        converse(drive, runner, told.append, join, turns=1)
        again = list(runner.events("t"))
        for follower in followers:
            got = follower.end()
            rest = list(follow(drive, runner, got[-1].cursor if got else None))
            check_adds_up([*got, *rest], again)
