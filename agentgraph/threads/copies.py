"""Copies threads: whole, or their line up to a visit."""

from collections.abc import Sequence

from langgraph.checkpoint.base import CheckpointTuple

from agentgraph.errors import ThreadError
from agentgraph.graph.sync_async import Calls
from agentgraph.safe_repr import shown
from agentgraph.threads.checkpoints import known_thread
from agentgraph.threads.rewinding import Back, commit, line_to_copy
from agentgraph.threads.thread_saver import ThreadSaver


def copy(saver: ThreadSaver, to: str, back: Back | None = None) -> Calls[None]:
    """Copy a thread: whole, or its line up to a visit.

    Args:
        saver: The thread.
        to: The id of the copy.
        back: The visit, and what is changed there.

    Raises:
        UnknownThreadError: The saver has no such thread.
        ThreadError: There is a thread `to` already.
        AgentGraphError: As in `line_to_copy`.
    """
    yield from known_thread(saver)
    new = saver.of(to)
    yield from check_new(new)
    if back is None:
        every: Sequence[CheckpointTuple] = (yield from saver.checkpoints())[::-1]
    else:
        every = (yield from line_to_copy(saver, back)).copies
    yield from put_all(new, every)


def check_new(saver: ThreadSaver) -> Calls[None]:
    """Refuse to copy onto a thread that is there.

    Raises:
        ThreadError: It is there.
    """
    if (yield from saver.checkpoint()) is not None:
        raise ThreadError(
            f"thread {shown(saver.thread_id)} exists already; copy to another id, or delete it first",
            saver.thread_id,
        )


def put_all(saver: ThreadSaver, every: Sequence[CheckpointTuple]) -> Calls[None]:
    """Put checkpoints on a new thread; if that fails it is deleted, for it would look like stopped."""
    try:
        yield from commit(saver, every)
    except GeneratorExit:  # no call can be made
        raise
    except BaseException:
        yield from saver.delete()
        raise
