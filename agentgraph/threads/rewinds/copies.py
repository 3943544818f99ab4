"""Copies threads: whole, or their line up to a visit.

A kill may cut a copy short. Then the head of its checkpoints is missing among them: such a thread is
rejected, except by the same copy, which completes it.
"""

from collections.abc import Sequence
from typing import cast

from langgraph.checkpoint.base import CheckpointMetadata

from agentgraph.errors import ThreadError
from agentgraph.journal.lines import known_thread
from agentgraph.journal.pruning import mark_on, put_mark
from agentgraph.journal.saved import COPIED_TO, Saved, unmarked
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.journal.turn_lines import message_ids
from agentgraph.journal.turn_records import put_turn, turn_records
from agentgraph.safe_repr import shown
from agentgraph.threads.rewinds.rewinding import RewindArguments, commit, line_to_copy


async def copy(saver: ThreadSaver, to: str, back: RewindArguments | None = None) -> None:
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
    await known_thread(saver)
    new, records = saver.of(to), await turn_records(saver)
    if back is None:
        every: Sequence[Saved] = await saver.checkpoints()
    else:
        every = (await line_to_copy(saver, back)).copies
        known = message_ids([each for each in every if not each.namespace])
        records = [each for each in records if each.message in known]
    mark = await mark_on(saver)
    if records or mark:
        await check_new(new, every)
        if mark:
            await put_mark(new, mark)
        for each in records:  # before the head, or they would be missing in a copy that was cut off
            await put_turn(new, each)
    await put_new(new, every)


async def check_new(saver: ThreadSaver, every: Sequence[Saved]) -> None:
    """Reject a copy onto a thread that exists, and is not the beginning of the same copy.

    Raises:
        ThreadError: It is there.
    """
    saved = await saver.checkpoint()
    if saved is None:
        return
    ids = {each.id for each in await saver.checkpoints()}
    if not (saved.is_cut_short and ids <= {each.id for each in every}):
        raise ThreadError(
            f"thread {shown(saver.thread_id)} exists already; copy to another id, or delete it first",
            saver.thread_id,
        )


async def put_new(saver: ThreadSaver, every: Sequence[Saved]) -> None:
    """Put checkpoints on a new thread, which is locked, the oldest first; if that fails it is deleted.

    Raises:
        ThreadError: As in `check_new`.
    """
    saver.require("copy")
    await check_new(saver, every)
    oldest_first = sorted(every, key=lambda each: str(each.id))
    *roots, head = (each for each in oldest_first if not each.namespace)
    mark: dict[str, object] = {COPIED_TO: head.id}
    marked = [
        each._replace(metadata=cast(CheckpointMetadata, {**each.metadata, **mark})) for each in roots
    ]
    head = head._replace(metadata=cast(CheckpointMetadata, unmarked(head.metadata)))
    inside = [each for each in oldest_first if each.namespace]
    try:
        await commit(saver, [*inside, *marked, head])
    except GeneratorExit:  # no call can be made
        raise
    except BaseException:
        await saver.delete()
        raise
