"""Runs the office of `examples/background` in a process that kills itself after some of its saves.

`helpers.forking` forks a process for each job, which calls `act`.
"""

import os
import sys

from helpers.dying import die_after_saves

from examples.background import app, offline

PATH = "background.db"


def act(folder: str, after: int) -> None:
    """Play the conversation of the example, or what is left of it; die after so many saves.

    Args:
        folder: The folder of the file, and of the log of searches.
        after: After how many saves it dies; 0 for never.
    """
    os.chdir(folder)
    offline.SECONDS = 0.01
    sys.argv = ["app.py", "--offline"]
    for streams in (1, 2):
        os.dup2(os.open(f"{os.getpid()}.out", os.O_WRONLY | os.O_CREAT | os.O_APPEND), streams)
    die_after_saves(after)
    app.main(PATH, [])
    os._exit(0)
