"""The state of a thread in its saver, and how to read it.

Not all checkpoints of a thread lead to its head, the latest one. With `update_state` or
`invoke(None, config)` LangGraph continues from any checkpoint: a new line begins there, and the old one
stays in the saver. The line of the head is found by the parent that each checkpoint names. Two things
need more than that:

- The writes of a step's tasks are saved with the checkpoint that the step began from. If that
  checkpoint was forked, the line of the head may continue without the step, which then belongs to the
  other line. But a step that never ended belongs to all lines: it asked or failed, its events were
  emitted, and then somebody edited the state and had it begin anew.
- A lane inside a step has its own namespace, and names the checkpoints of the enclosing lanes. It leads
  to the head if the steps in which it ran do.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, cast
from uuid import UUID, uuid4

from langchain_core.messages import convert_to_messages
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.constants import START

from agentgraph.errors import ThreadError, UnknownThreadError
from agentgraph.graph.internals import ERROR, INTERRUPT, RETURN, TRIGGER
from agentgraph.graph.stamps import Note, note_of, step_name
from agentgraph.graph.state import Position, moved
from agentgraph.safe_repr import shown, shown_error
from agentgraph.threads.thread_saver import ThreadSaver, is_request
from agentgraph.tree.addresses import address, as_cursor, cursor_at, fits, way_to
from agentgraph.tree.places import Place, Tree

Written = Mapping[str, Any]
"""What a task wrote or returned, the input of a turn, or a state, by channel."""
Writes = Mapping[str, Written]
"""What the tasks of a step wrote, by task id."""

NO_TASK = "00000000-0000-0000-0000-000000000000"
"""The task id of writes that belong to no task: the next step begins with them."""
NOTES = "agentgraph_notes"
"""The channel under which the runner saves its notes."""
_RESULTS = {INTERRUPT, RETURN, ERROR}
_EDITS = ("update", "fork")
"""The sources of checkpoints that `update_state` writes."""
_PAGE = 16
"""How many checkpoints are listed at first, where the number that is needed is not known."""
_AFTER_NUMBERS = 2**62
"""The order of calls with a key alone, after those with numbers."""
_RAN = "loop"
"""The source of checkpoints that end a step."""
_FORK = "fork"
"""The source of copies, and of checkpoints from which `invoke(None, config)` continued."""
COPIED = "agentgraph_steps"
"""The metadata key of a checkpoint that a rewind copied: the names that its step had before."""
_TICKS_TO_1970, _TICKS_A_SECOND = 0x01B21DD213814000, 10_000_000
"""The time in ids: from when it counts, and how fast."""
COPIED_TO = "agentgraph_copied_to"
"""The metadata key of the root's checkpoints on a copy of a thread, but its head: the id of that."""
REWOUND = "rewound"
"""The kind of the note at the root's checkpoint from which a rewind goes on."""
CHANGED = "changed"
"""The kind of the note at a checkpoint from which a tree of another shape goes on: its outline."""


VOIDED = "voided"
"""The kind of the note of what a run told to be void, for followers: its cursor, and the names."""


def is_cut_short(saved: CheckpointTuple) -> bool:
    """Return whether a thread with this head is a copy that was not completed."""
    return COPIED_TO in saved.metadata


def unmarked(metadata: Mapping[str, object]) -> dict[str, object]:
    """Return the metadata of a checkpoint of a copy for one at which a thread may stand."""
    return {key: value for key, value in metadata.items() if key != COPIED_TO}


def check_whole(saver: ThreadSaver, saved: CheckpointTuple) -> None:
    """Refuse a copy that was not completed.

    Raises:
        ThreadError: It is one.
    """
    if is_cut_short(saved):
        raise ThreadError(
            f"thread {shown(saver.thread_id)} is a copy that was cut short; make the same copy once "
            "more, which completes it, or delete it",
            saver.thread_id,
        )


async def save_failure(saver: ThreadSaver, error: BaseException, notes: Sequence[Note]) -> None:
    """Save the failure that ended a run, and its notes.

    LangGraph saves the error of a step's only task only if it is an `Exception`.
    """
    saved = await saver.checkpoint()
    if saved is None:
        return
    if not isinstance(error, Exception):
        ids = [each.id for each in (await saver.state()).tasks]
        if len(ids) == 1 and ids[0] not in writes_by_task(saved):
            await saver.put_write(saved, ids[0], ERROR, error)
    await save_notes(saver, saved, notes)


async def save_notes(saver: ThreadSaver, saved: CheckpointTuple, notes: Sequence[Note]) -> None:
    """Save notes with a checkpoint, under an id that no task has."""
    if notes:
        await saver.put_write(saved, str(uuid4()), NOTES, [*map(Note.plain, notes)])


def notes_at(saved: CheckpointTuple) -> list[Note]:
    """Return the notes that are saved with a checkpoint."""
    writes = saved.pending_writes or ()
    return [note_of(note) for _, channel, notes in writes if channel == NOTES for note in notes]


async def known_thread(saver: ThreadSaver) -> CheckpointTuple:
    """Return the latest checkpoint of a thread, whichever tree ran it.

    Raises:
        UnknownThreadError: The saver has no such thread.
    """
    saved = await saver.checkpoint()
    if saved is None:
        named = shown(saver.thread_id)
        raise UnknownThreadError(
            f"thread {named} is not known to this saver; start it with run(..., thread_id={named}), "
            "or look whether the saver is the one that ran it",
            saver.thread_id,
        )
    return saved


async def begun_thread(saver: ThreadSaver) -> CheckpointTuple | None:
    """Return the latest checkpoint of a thread; None if its first run has saved nothing yet.

    Raises:
        UnknownThreadError: The saver has no such thread, and nothing runs on it.
    """
    try:
        return await known_thread(saver)
    except UnknownThreadError:
        if await saver.is_under_way():
            return None
    return await known_thread(saver)  # it may have ended meanwhile


async def before_edits(
    saver: ThreadSaver, saved: CheckpointTuple
) -> tuple[CheckpointTuple, CheckpointTuple]:
    """Return two checkpoints of the root: the last that a run wrote, and the one whose step is next.

    `update_state` and forks write checkpoints of their own, without the writes of the interrupted step.
    So both are the checkpoint before all edits, unless an edit moved the position: then the
    next step starts at the last edit.
    """
    if not _is_edit(saved):
        return saved, saved
    every = {saved.checkpoint["id"]: saved}
    before: CheckpointTuple | None = saved
    while before is not None and is_by_hand(before):
        before = await parent_of(saver, before)
        if before is not None:  # what other lines have after it says where its step ran
            beside = await saver.children(before)
            every |= {each.checkpoint["id"]: each for each in (before, *beside)}
    line = {each.checkpoint["id"]: each for each in leading(every.values())}
    origin: CheckpointTuple | None = saved
    while origin is not None and _is_edit(origin):
        origin = line.get(parent_id(origin))
    ran = origin or saved
    was, now = position_of(ran), position_of(saved)
    stayed = was and now and was["cursor"] == now["cursor"] and next_node(ran) == next_node(saved)
    return ran, ran if stayed else saved


def _is_edit(saved: CheckpointTuple) -> bool:
    """Return whether a checkpoint is an edit after which nothing has run."""
    return is_by_hand(saved) and not ran_after(saved)


def is_by_hand(saved: CheckpointTuple) -> bool:
    """Return whether `update_state` or a fork wrote a checkpoint, and no run or rewind did."""
    return saved.metadata.get("source") in _EDITS and COPIED not in saved.metadata


def ran_after(saved: CheckpointTuple) -> set[str]:
    """Return the tasks of the step after a checkpoint that asked, failed, or returned something."""
    return {task for task, writes in writes_by_task(saved).items() if writes.keys() & _RESULTS}


def writes_by_task(saved: CheckpointTuple) -> Writes:
    """Return the writes of the tasks of a step, by task id and channel."""
    tasks: dict[str, dict[str, object]] = {}
    for task, channel, value in saved.pending_writes or ():
        tasks.setdefault(task, {})[channel] = value
    return tasks


def error_in(writes: Written) -> str | None:
    """Return the error that a task saved, as text; None if there is none."""
    error = writes.get(ERROR)
    return error if isinstance(error, str | None) else shown_error(error)


def is_stop(error: str) -> bool:
    """Return whether a task with an error did not fail, but was stopped from outside."""
    return error.startswith(("CancelledError(", "KeyboardInterrupt("))


def namespace_of(saved: CheckpointTuple) -> str:
    """Return the namespace of a checkpoint; empty for the outermost lane."""
    return str(saved.config["configurable"].get("checkpoint_ns", ""))


def parts_of(namespace: str) -> list[str]:
    """Return the parts of a namespace, each a node with its task.

    >>> parts_of("review:1|legal:2"), parts_of("")
    (['review:1', 'legal:2'], [])
    """
    return namespace.split("|") if namespace else []


def time_of(saved: CheckpointTuple) -> float:
    """Return when a checkpoint was saved, in seconds since 1970."""
    return datetime.fromisoformat(saved.checkpoint["ts"]).timestamp()


def first_time_of(saved: CheckpointTuple) -> float:
    """Return when a step was reached first: of a checkpoint that rewinds copied, before them.

    The ids of checkpoints have their times.
    """
    if not saved.metadata.get(COPIED):
        return time_of(saved)
    return time_in_id(steps_of(saved)[-1].partition(":")[0])


def time_in_id(checkpoint_id: str) -> float:
    """Return the time in the id of a checkpoint, a UUID of version 6, in seconds since 1970."""
    number = UUID(checkpoint_id).int
    ticks = (number >> 80 << 12) | (number >> 64 & 0xFFF)
    return (ticks - _TICKS_TO_1970) / _TICKS_A_SECOND


def is_foreign(tree: Tree, saved: CheckpointTuple) -> bool:
    """Return whether a checkpoint is of a graph inside the tree, which may be a compiled tree too."""
    namespace = namespace_of(saved)
    return tree.is_foreign(parts_of(namespace)) or keeps_state(namespace)


def keeps_state(namespace: str) -> bool:
    """Return whether a namespace is that of a graph with `checkpointer=True`: it names no tasks.

    Such a graph continues from the last checkpoint there, whichever activation or turn saved it.
    """
    return ":" not in namespace and bool(namespace)


def position_of(saved: CheckpointTuple) -> Position | None:
    """Return where the lane of a checkpoint is; if a turn begins after it, at the turn's start."""
    position: Position | None = saved.checkpoint["channel_values"].get("position")
    if (begun := _turn_input(saved)) is None:
        return position
    return moved(position, begun["position"]) if position else cast(Position, begun["position"])


def begins_turn(saved: CheckpointTuple) -> bool:
    """Return whether a turn begins after a checkpoint: LangGraph's own step reads the input there."""
    return START in saved.checkpoint["channel_values"]


def begun_input(saved: CheckpointTuple) -> dict[str, Any] | None:
    """Return the input of the turn that begins after a checkpoint, in the form of `Admitted`.

    If the step that reads it has ended, its messages have the ids that they got there. None if no turn
    of a tree begins there.
    """
    if (begun := _turn_input(saved)) is None:
        return None
    read = next((each for each in writes_by_task(saved).values() if "position" in each), {})
    messages = read.get("messages", begun.get("messages")) or []
    several = messages if isinstance(messages, list | tuple) else [messages]
    values = begun.get("values") or []
    return {
        **begun,
        "messages": convert_to_messages(several),
        "values": [values] if isinstance(values, Mapping) else [*values],
    }


def _turn_input(saved: CheckpointTuple) -> Written | None:
    channel = saved.checkpoint["channel_values"].get(START)
    is_turn = isinstance(channel, Mapping) and "outline" in (channel.get("position") or {})
    return channel if is_turn else None


def steps_of(saved: CheckpointTuple) -> list[str]:
    """Return the names of the step after a checkpoint: its own, and those before it was copied."""
    node, copied = next_node(saved), cast(Sequence[str], saved.metadata.get(COPIED, ()))
    return [*([step_name(saved.checkpoint["id"], node)] if node else ()), *copied]


def root_id(saved: CheckpointTuple) -> str:
    """Return the id of the root's checkpoint in whose step a checkpoint is; of the root's, its own."""
    parents = saved.metadata.get("parents", {})
    return str(parents.get("", "") if namespace_of(saved) else saved.checkpoint["id"])


def next_node(saved: CheckpointTuple) -> str | None:
    """Return the node that LangGraph runs next; None if the lane has ended.

    LangGraph attributes an edit to the node that ran last, and follows the edge from there. That may
    differ from the position in the state.
    """
    position = position_of(saved)
    if position is None:
        return None
    channels = saved.checkpoint["channel_values"]
    led = [name.removeprefix(TRIGGER) for name in channels if name.startswith(TRIGGER)]
    return led[0] if len(led) == 1 else position["next"]


def position_in(tree: Tree, saved: CheckpointTuple) -> Position | None:
    """Return the position of the lane of a checkpoint, at its `next_node`."""
    position, node = position_of(saved), next_node(saved)
    place = tree.by_node.get(node or "")
    if position is None or place is None or position["next"] == node:
        return position
    cursor = cursor_at(place, place_of(tree, position), as_cursor(position["cursor"]))
    return Position({**position, "next": node, "cursor": list(cursor)})


def place_of(tree: Tree, position: Position | None) -> Place | None:
    """Return the place whose node is next; None where the lane has ended."""
    node = position["next"] if position else None
    return tree.by_node.get(node) if node else None


def address_at(tree: Tree, saved: CheckpointTuple) -> str | None:
    """Return the address of the activation that is next.

    None where the lane has ended, or where another tree ran that has no such place.
    """
    position = position_in(tree, saved)
    place = place_of(tree, position)
    if place is None or position is None:
        return None
    cursor = as_cursor(position["cursor"])
    return address(place, cursor) if fits(place, cursor) else None


def order_of(lane: Place, at: str) -> int:
    """Return the index of a lane among the lanes of its node, from an address in the lane."""
    if lane.is_called:
        number = re.search(r"\((\d+)[.:)]", at.split("/")[len(way_to(lane)) - 1])
        return int(number[1]) if number else _AFTER_NUMBERS
    return lane.rank


async def leading_checkpoints(saver: ThreadSaver, since: str = "") -> list[CheckpointTuple]:
    """Return the checkpoints that lead to the head, in all namespaces, each newest first.

    Args:
        saver: The thread.
        since: The id of the first one of the root that is needed; by default all are.
    """
    return leading(await checkpoints_since(saver, since))


async def checkpoints_since(
    saver: ThreadSaver, since: str, until: str | None = None
) -> list[CheckpointTuple]:
    """Return the checkpoints of all lines, in all namespaces, each newest first.

    Args:
        saver: The thread.
        since: As in `leading_checkpoints`.
        until: The id of the last one; by default there is no last one.
    """
    namespaces = await saver.namespaces(since) if since else None
    if namespaces is None:
        every = await saver.checkpoints()
        in_time = (e for e in every if until is None or e.checkpoint["id"] <= until)
        return [each for each in in_time if each.checkpoint["id"] >= since]
    checkpoints: list[CheckpointTuple] = []
    for namespace in namespaces:
        checkpoints += await _pages(saver, namespace, since, until)
    return checkpoints


def just_after(checkpoint_id: str) -> str:
    """Return what comes after an id of a checkpoint, and before the id of any later one."""
    return f"{checkpoint_id}~"


async def _pages(
    saver: ThreadSaver, namespace: str | None, since: str, until: str | None
) -> list[CheckpointTuple]:
    """Return the checkpoints since one, newest first; hardly any others are read."""
    checkpoints: list[CheckpointTuple] = []
    before, limit = just_after(until) if until else None, _PAGE
    while True:
        page = await saver.checkpoints(namespace, before, limit)
        checkpoints += page
        before = page[-1].checkpoint["id"] if page else ""
        if len(page) < limit or before < since:
            every = (each for each in checkpoints if not is_request(each))
            return [each for each in every if each.checkpoint["id"] >= since]
        limit *= 2


async def root_line(
    saver: ThreadSaver, is_last: Callable[[CheckpointTuple], bool]
) -> list[CheckpointTuple]:
    """Return the checkpoints of the root that lead to the head, newest first, up to the last wanted."""
    line: list[CheckpointTuple] = []
    before, limit = None, _PAGE
    while True:
        page = await saver.checkpoints("", before, limit)
        for saved in page:
            if not line or saved.checkpoint["id"] == parent_id(line[-1]):
                line.append(saved)
                if is_last(saved):
                    return line
        if len(page) < limit or not parent_id(line[-1]):
            return line
        before, limit = page[-1].checkpoint["id"], limit * 2


async def parent_of(saver: ThreadSaver, saved: CheckpointTuple) -> CheckpointTuple | None:
    """Return the checkpoint before one, in its namespace; None for the first."""
    if not parent_id(saved):
        return None
    return await saver.checkpoint(namespace_of(saved), parent_id(saved))


def leading(every: Iterable[CheckpointTuple]) -> list[CheckpointTuple]:
    """Return the checkpoints that lead to the head of a thread, including those of inner lanes.

    If the step after a checkpoint ran only in another line, the writes of its tasks are left out.

    Args:
        every: All checkpoints of the thread, in all namespaces, in any order.

    Returns:
        The checkpoints, in the order in which they were given.
    """
    checkpoints = list(every)
    by_namespace: dict[str, list[CheckpointTuple]] = defaultdict(list)
    for saved in checkpoints:
        by_namespace[namespace_of(saved)].append(saved)
    lost = {_key(saved) for saved in checkpoints}
    saved_keys = frozenset(lost)
    on_the_way: dict[tuple[str, str], CheckpointTuple] = {}
    for namespace in sorted(by_namespace, key=lambda each: (each.count("|"), each)):
        inside = [  # a parent that was not saved does not count, but for a rewind that was cut short
            saved
            for saved in by_namespace[namespace]
            if lost.isdisjoint(saved.metadata.get("parents", {}).items())
            and (COPIED not in saved.metadata or ("", root_id(saved)) in saved_keys)
        ]
        for saved, has_run in _line(by_namespace[namespace], inside):
            on_the_way[_key(saved)] = saved if has_run else saved._replace(pending_writes=[])
            if has_run:
                lost.discard(_key(saved))
    return [on_the_way[key] for key in map(_key, checkpoints) if key in on_the_way]


def line_to(head: str, every: Sequence[CheckpointTuple]) -> list[CheckpointTuple]:
    """Return the checkpoints that lead to one of the root; none if it is not there.

    Args:
        head: The id of the root's checkpoint.
        every: As in `leading`.
    """
    roots = {saved.checkpoint["id"]: saved for saved in every if not namespace_of(saved)}
    ids = {each.checkpoint["id"] for each in ancestors(head, roots)}
    return leading(saved for saved in every if root_id(saved) in ids)


def known_line(
    saver: ThreadSaver, head: str, every: Sequence[CheckpointTuple]
) -> list[CheckpointTuple]:
    """Return the checkpoints of a line of a thread, as `line_to` does.

    Raises:
        ThreadError: The thread has no line with that head.
    """
    if line := line_to(head, every):
        return line
    raise ThreadError(
        f"thread {shown(saver.thread_id)} has no line with the head {shown(head)}; "
        "thread(thread_id).lines lists them",
        saver.thread_id,
    )


def ancestors(head: str, by_id: Mapping[str, CheckpointTuple]) -> Iterator[CheckpointTuple]:
    """Yield a checkpoint and those before it, up to the first."""
    at = by_id.get(head)
    while at is not None:
        yield at
        at = by_id.get(parent_id(at))


def _line(
    every: Sequence[CheckpointTuple], inside: Sequence[CheckpointTuple]
) -> list[tuple[CheckpointTuple, bool]]:
    """Return the line to the latest of the checkpoints `inside`, and whether each one's step ran in it.

    The checkpoints are those of one namespace. Its line may include others than those inside: a graph
    that saves its state from step to step continues from an earlier step.
    """
    if not inside:
        return []
    by_id = {saved.checkpoint["id"]: saved for saved in every}
    children: dict[str, list[CheckpointTuple]] = defaultdict(list)
    for saved in every:
        children[parent_id(saved)].append(saved)
    wanted = {saved.checkpoint["id"] for saved in inside}
    line: list[tuple[CheckpointTuple, bool]] = []
    at = by_id.get(max(wanted))
    next_: CheckpointTuple | None = None
    while at is not None:
        own = at.checkpoint["id"]
        if own in wanted:
            line.append((at, next_ is None or _has_run(next_, children[own])))
        next_, at = at, by_id.get(parent_id(at))
    return line


def _has_run(next_: CheckpointTuple, children: Iterable[CheckpointTuple]) -> bool:
    """Return whether the step between a checkpoint and the `next_` one is part of that line.

    It is if the step ended with that one, or with the one that it copies
    (`update_state(..., as_node="__copy__")`), or if it did not end in any line.
    """
    if next_.metadata.get("source") == _RAN:
        return True
    ended = [child for child in children if child.metadata.get("source") == _RAN]
    is_copy = next_.metadata.get("source") == _FORK  # with the same channels
    channels = [child.checkpoint["channel_versions"] for child in ended]
    return not ended or (is_copy and next_.checkpoint["channel_versions"] in channels)


def parent_id(saved: CheckpointTuple) -> str:
    """Return the id of the checkpoint before one, in its namespace; empty for the first."""
    return str((saved.parent_config or {}).get("configurable", {}).get("checkpoint_id", ""))


def _key(saved: CheckpointTuple) -> tuple[str, str]:
    return namespace_of(saved), saved.checkpoint["id"]
