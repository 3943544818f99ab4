"""Runs a tree in a process that kills itself after a save, for those who follow its thread.

`helpers.forking` forks a process for each job, which calls `act`.
"""

import json
import os
from contextlib import suppress
from pathlib import Path

from helpers.dying import die_after_saves
from helpers.followed_trees import TREES, an_answer

import agentgraph as ag


def act(folder: str, number: int, tree: str, after: int) -> None:
    """Begin or go on with a turn, and die after so many saves; write each event that is told."""
    at = Path(folder)
    die_after_saves(after)
    with (
        ag.Runner(TREES[tree](), checkpointer=at / "threads.db") as runner,
        (at / f"heard-{number}").open("w") as file,
        suppress(ValueError),
    ):
        status = runner.thread("t").status
        answers = (an_answer(runner),) if status == "paused" else ()
        is_new = status == "new"
        run = (
            runner.run("Go.", thread_id="t", stream=True)
            if is_new
            else runner.resume("t", *answers, stream=True)
        )
        for event in run:
            print(json.dumps(event.to_dict()), file=file, flush=True)
    os._exit(0)  # for Python to tear all modules down takes as long as a request
