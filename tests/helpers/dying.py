"""Has a process kill itself after some of its saves."""

import os
import signal
from typing import Any

from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver


def die_after_saves(number: int) -> None:
    """Have this process kill itself after so many saves; 0 for never."""
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

    for kind in (SqliteSaver, PostgresSaver):
        for name in ("put", "put_writes"):
            setattr(kind, name, dying(getattr(kind, name)))
