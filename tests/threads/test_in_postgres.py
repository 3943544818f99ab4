"""Answers, late results and ways back in a PostgreSQL database: the tests of these, once more.

`AGENTGRAPH_EXAMPLES` has all of them run, else one of a few.
"""

import inspect
import os
from collections.abc import Callable
from typing import Any

import pytest
import test_answers
import test_edited_words
import test_going_back
import test_inner_trees
import test_late_results
import test_results
from helpers import Disk, Drive
from helpers.databases import Databases
from helpers.forked import Thread

import agentgraph as ag

EVERY = 1 if "AGENTGRAPH_EXAMPLES" in os.environ else 11
FIXTURES = {"started", "thread_of", "disk"}
MODULES = (test_answers, test_going_back, test_inner_trees, test_late_results, test_results)


@pytest.fixture
def started(drive: Drive, databases: Databases) -> Callable[[ag.Agent], test_going_back.Thread]:
    test_going_back.RAN.clear()

    def start(tree: ag.Agent) -> test_going_back.Thread:
        thread = test_going_back.Thread(tree, drive, databases.make())
        thread.run()
        return thread

    return start


@pytest.fixture
def thread_of(drive: Drive, databases: Databases) -> Callable[[ag.Agent], Thread]:
    return lambda tree: Thread(drive, tree, databases.make())


@pytest.fixture
def disk(drive: Drive, databases: Databases) -> Disk:
    return Disk(drive, databases.make())


def those_of(module: Any) -> dict[str, Any]:
    """Return the tests of a module that use one of the fixtures."""
    return {
        name: test
        for name, test in vars(module).items()
        if name.startswith("test_") and FIXTURES & inspect.signature(test).parameters.keys()
    }


CHOSEN = [pair for module in MODULES for pair in those_of(module).items()][::EVERY]
globals().update(CHOSEN)


@pytest.mark.parametrize("form", ["around a branch", "in a step"])
def test_words_are_edited_and_brought_back(drive: Drive, databases: Databases, form: str) -> None:
    make, said_at, at = test_edited_words.FORMS[form]
    thread = test_edited_words.Thread(make(), drive, databases.make())
    step = thread.at(at).step
    thread.edit(said_at, at)
    assert "[b] said: B!" in thread.at(at).text
    thread.go("rewind", thread.id, step)
    assert thread.at(said_at).text == "B"


def test_all_names_are_told_apart() -> None:
    assert len(dict(CHOSEN)) == len(CHOSEN) > 0
