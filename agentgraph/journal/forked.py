"""A run in a process that is forked from its own stays a run of the other process.

None of its threads are in the new process, and a caller that waited there for them would wait for ever.
So a run is not read there, closing it does nothing, and it is never collected, because its end would
wait, too.
"""

import ctypes
import os

from agentgraph.errors import AgentGraphError
from agentgraph.safe_repr import shown


class OfProcess:
    """Belongs to the process that made it.

    Attributes:
        process: The id of that process.
    """

    def __init__(self) -> None:
        self.process = os.getpid()

    @property
    def is_foreign(self) -> bool:
        """Whether this process was forked from that."""
        return os.getpid() != self.process

    def check(self, thread_id: str) -> None:
        """Refuse to read a run of another process.

        Raises:
            AgentGraphError: It is one.
        """
        if os.getpid() != self.process:
            raise AgentGraphError(
                f"thread {shown(thread_id)}: this run belongs to the process {self.process}, from "
                "which this one was forked; read it there, or start another run here"
            )

    def keep(self, thing: object) -> None:
        """Keep something of another process until this one has ended, and beyond."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
