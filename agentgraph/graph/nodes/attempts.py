"""What is kept of a tool call that middleware runs again: of each attempt that is over, how it ended.

It lies beside the checkpoint behind which the call runs, as what tasks wrote does, under ids that are
none of a task's. So LangGraph leaves it alone.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NotRequired

from langgraph.checkpoint.base import CheckpointTuple
from typing_extensions import TypedDict

CHANNEL = "agentgraph_attempt"
"""The channel under which attempts are kept."""


class Ended(TypedDict):
    """An attempt that is over, for another one came after it."""

    task: str
    """The id of the task that runs the call."""
    number: int
    """The number of the call."""
    attempt: int
    """The number of the attempt, from 0."""
    address: str
    """Where its lane is in the tree."""
    namespace: str
    """Where it is kept."""
    came: NotRequired[str]
    """What its lane said last, if it ended well."""
    failed: NotRequired[Mapping[str, Any]]
    """Else how it failed, as data."""


def attempts_in(saved: CheckpointTuple | None) -> list[Ended]:
    """Return the attempts that are kept beside a checkpoint, of each call in their order."""
    writes = (saved.pending_writes if saved else None) or ()
    found: list[Ended] = [value for _, channel, value in writes if channel == CHANNEL]
    return sorted(found, key=lambda each: each["attempt"])


def namespace_of_attempt(namespace: str, task: str, attempt: int) -> str:
    """Return where the lane of an attempt is kept, by where that of the first one would be.

    >>> namespace_of_attempt("boss.tools:1|helper", "2", 0), namespace_of_attempt("helper", "2", 1)
    ('boss.tools:1|helper:2', 'helper:2~1')
    """
    return f"{namespace}:{task}~{attempt}" if attempt else f"{namespace}:{task}"


def task_in(namespace: str) -> str:
    """Return the id of the task that ran a namespace.

    >>> task_in("boss.tools:1|helper:2~1")
    '2'
    """
    return namespace.rpartition(":")[2].partition("~")[0]


def standing(every: Iterable[CheckpointTuple]) -> list[CheckpointTuple]:
    """Return checkpoints without those of attempts after which another one came."""
    found = list(every)
    over = {each["namespace"] for saved in found for each in attempts_in(saved)}
    return [saved for saved in found if not over or not _is_in(saved, over)]


def _is_in(saved: CheckpointTuple, namespaces: set[str]) -> bool:
    at = str(saved.config["configurable"].get("checkpoint_ns", ""))
    return any(at == each or at.startswith(f"{each}|") for each in namespaces)
