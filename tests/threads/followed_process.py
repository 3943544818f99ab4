"""Runs a tree in a process that kills itself after a save, for those who follow its thread.

Run as a program, it forks a process for each job that a line of standard input describes.
"""

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from followed_trees import TREES, an_answer
from forking import serve
from langgraph.checkpoint.sqlite import SqliteSaver

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


def die_after_saves(number: int) -> None:
    """Have this process kill itself after so many saves of SQLite savers; 0 for never."""
    left = number

    def dying(method: Any) -> Any:
        def save(*args: Any, **options: Any) -> Any:
            nonlocal left
            saved = method(*args, **options)
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return saved

        return save

    for name in ("put", "put_writes"):
        setattr(SqliteSaver, name, dying(getattr(SqliteSaver, name)))


if __name__ == "__main__":
    serve(act)
