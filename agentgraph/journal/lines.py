"""The state of a thread in its saver, and how to read it.

Not all checkpoints of a thread lead to its head, the latest one. With `update_state` or
`invoke(None, config)` LangGraph continues from any checkpoint: a new line begins there, and the old one
stays in the saver. The line of the head is found by the parent that each checkpoint names. Two things
need more than that:

- The writes of a step's tasks are saved with the checkpoint that the step began from. If that
  checkpoint was forked, the line of the head may continue without the step, which then belongs to the
  other line. But a step that never ended belongs to all lines: it asked or failed, its events were
  emitted, and then an edit of the state had it begin again.
- A lane inside a step has its own namespace, and names the checkpoints of the enclosing lanes. It leads
  to the head if the steps in which it ran do.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from langchain_core.runnables import RunnableConfig

from agentgraph.errors import ThreadError, UnknownThreadError
from agentgraph.graph.internals import ERROR, task_path_str
from agentgraph.graph.lane_position import Position
from agentgraph.graph.stamps import Note
from agentgraph.journal.saved import COPIED, Saved, keeps_state, parts_of
from agentgraph.journal.savers.thread_index import ended_task
from agentgraph.journal.schema import NOTES
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.safe_repr import shown
from agentgraph.tree.addresses import address, as_cursor, cursor_at, fits, places_to
from agentgraph.tree.places import Place, Tree

_PAGE = 16
"""How many checkpoints are listed at first, where the number that is needed is not known."""
_AFTER_NUMBERS = 2**62
"""The order of calls with a key alone, after those with numbers."""
_RAN = "loop"
"""The source of checkpoints that end a step."""
_FORK = "fork"
"""The source of copies, and of checkpoints from which `invoke(None, config)` continued."""


def check_whole(saver: ThreadSaver, saved: Saved) -> None:
    """Refuse a copy that was not completed.

    Raises:
        ThreadError: It is one.
    """
    if saved.is_cut_short:
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
        tasks = (await saver.state()).tasks
        if len(tasks) == 1 and tasks[0].id not in saved.writes:
            path = task_path_str(tasks[0].path)
            await saver.put_write(saved.config, tasks[0].id, ERROR, error, path)
    await save_notes(saver, saved.config, notes)


async def save_notes(
    saver: ThreadSaver,
    config: RunnableConfig,
    notes: Sequence[Note],
    status: str = "",
    deadline: float | None = None,
) -> None:
    """Save notes with a checkpoint, under an id that no task has.

    Args:
        saver: The thread.
        config: The config of the checkpoint.
        notes: The notes.
        status: The status of the thread at the end of a run, for the index of threads; empty if it is
            not known.
        deadline: The earliest deadline of its questions then; None without one.
    """
    if notes:
        task = ended_task(status, deadline)
        await saver.put_write(config, task, NOTES, [*map(Note.plain, notes)])


async def known_thread(saver: ThreadSaver) -> Saved:
    """Return the latest checkpoint of a thread, whichever tree ran it.

    Raises:
        UnknownThreadError: The saver has no such thread.
    """
    return known(saver, await saver.checkpoint())


def known(saver: ThreadSaver, saved: Saved | None) -> Saved:
    """Return the latest checkpoint of a thread, given what its saver has.

    Raises:
        UnknownThreadError: It has none.
    """
    if saved is None:
        named = shown(saver.thread_id)
        raise UnknownThreadError(
            f"thread {named} is not known to this saver; start it with run(..., thread_id={named}), "
            "or look whether the saver is the one that ran it",
            saver.thread_id,
        )
    return saved


async def begun_thread(saver: ThreadSaver) -> Saved | None:
    """Return the latest checkpoint of a thread; None if its first run has saved nothing yet.

    Raises:
        UnknownThreadError: The saver has no such thread, and nothing runs on it.
    """
    try:
        return await known_thread(saver)
    except UnknownThreadError:
        if await saver.is_running():
            return None
    return await known_thread(saver)  # it may have ended meanwhile


async def before_edits(saver: ThreadSaver, saved: Saved) -> tuple[Saved, Saved]:
    """Return two checkpoints of the root: the last that a run wrote, and the one whose step is next.

    `update_state` and forks write separate checkpoints, without the writes of the interrupted step. So
    both are the checkpoint before all edits, unless an edit moved the position: then the next step
    starts at the last edit.
    """
    if not saved.is_edit:
        return saved, saved
    every = {saved.id: saved}
    before: Saved | None = saved
    while before is not None and before.is_manual:
        before = await parent_of(saver, before)
        if before is not None:  # what other lines have after it says where its step ran
            siblings = await saver.children(before)
            every |= {each.id: each for each in (before, *siblings)}
    line = {each.id: each for each in leading(every.values())}
    origin: Saved | None = saved
    while origin is not None and origin.is_edit:
        origin = line.get(origin.parent_id)
    ran = origin or saved
    was, now = ran.position, saved.position
    stayed = was and now and was["cursor"] == now["cursor"] and ran.next_node == saved.next_node
    return ran, ran if stayed else saved


def is_foreign(tree: Tree, saved: Saved) -> bool:
    """Return whether a checkpoint is of a graph inside the tree, which may be a compiled tree too."""
    namespace = saved.namespace
    return bool(namespace) and (keeps_state(namespace) or tree.is_foreign(parts_of(namespace)))


def position_in(tree: Tree, saved: Saved) -> Position | None:
    """Return the position of the lane of a checkpoint, at its `next_node`."""
    position, node = saved.position, saved.next_node
    place = tree.by_node.get(node or "")
    if position is None or place is None or position["next"] == node:
        return position
    cursor = cursor_at(place, place_of(tree, position), as_cursor(position["cursor"]))
    return Position({**position, "next": node, "cursor": list(cursor)})


def place_of(tree: Tree, position: Position | None) -> Place | None:
    """Return the place whose node is next; None where the lane has ended."""
    node = position["next"] if position else None
    return tree.by_node.get(node) if node else None


def address_at(tree: Tree, saved: Saved) -> str | None:
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
        number = re.search(r"\((\d+)[.:)]", at.split("/")[len(places_to(lane)) - 1])
        return int(number[1]) if number else _AFTER_NUMBERS
    return lane.rank


async def leading_checkpoints(
    saver: ThreadSaver, since: str = "", read: Sequence[Saved] = ()
) -> list[Saved]:
    """Return the checkpoints that lead to the head, in all namespaces, each newest first.

    Args:
        saver: The thread.
        since: The id of the first one of the root that is needed; by default all are.
        read: Checkpoints of the root since that one, if they have been read already.
    """
    return leading(await checkpoints_since(saver, since, read=read))


async def checkpoints_since(
    saver: ThreadSaver, since: str, until: str | None = None, read: Sequence[Saved] = ()
) -> list[Saved]:
    """Return the checkpoints of all lines, in all namespaces, each newest first.

    Args:
        saver: The thread.
        since: As in `leading_checkpoints`.
        until: The id of the last one; by default there is no last one.
        read: Checkpoints of the root since that one, if they have been read already.
    """
    namespaces = await saver.namespaces(since) if since else None
    if namespaces is None:
        every = await saver.checkpoints()
        if not since and until is None:
            return every
        in_time = (e for e in every if until is None or e.id <= until)
        return [each for each in in_time if each.id >= since]
    checkpoints: list[Saved] = []
    for namespace in namespaces:
        if namespace == "" and read:
            checkpoints += [
                each for each in read if since <= each.id and (not until or each.id <= until)
            ]
        else:
            checkpoints += await _pages(saver, namespace, since, until)
    return checkpoints


def just_after(checkpoint_id: str) -> str:
    """Return a text that sorts after an id of a checkpoint, and before the id of any later one."""
    return f"{checkpoint_id}~"


async def _pages(
    saver: ThreadSaver, namespace: str | None, since: str, until: str | None
) -> list[Saved]:
    """Return the checkpoints since one, newest first; hardly any others are read."""
    checkpoints: list[Saved] = []
    before, limit = just_after(until) if until else None, _PAGE
    while True:
        page = await saver.checkpoints(namespace, before, limit)
        checkpoints += page
        before = page[-1].checkpoint["id"] if page else ""
        if len(page) < limit or before < since:
            return [each for each in checkpoints if each.id >= since and not each.is_request]
        limit *= 2


class RootLine(NamedTuple):
    """The checkpoints of the root that lead to the head, newest first, up to the last wanted.

    Attributes:
        line: The checkpoints.
        read: All of the root that were read to find them, also of other lines.
    """

    line: Sequence[Saved]
    read: Sequence[Saved]

    @property
    def first(self) -> str:
        """The id of the first one in time; empty if there is none."""
        return self.line[-1].id if self.line else ""


async def root_line(
    saver: ThreadSaver, is_last: Callable[[Saved], bool], until: Saved | None = None
) -> RootLine:
    """Return the checkpoints of the root that lead to the head, up to the last wanted.

    Args:
        saver: The thread.
        is_last: Whether a checkpoint is the last wanted; called in order, the newest first.
        until: The newest of them, for which `is_last` is not called; None for the head.
    """
    line = [] if until is None else [until]
    read = [*line]
    before, limit = None if until is None else until.id, _PAGE
    while True:
        page = await saver.checkpoints("", before, limit)
        read += page
        for saved in page:
            if not line or saved.id == line[-1].parent_id:
                line.append(saved)
                if is_last(saved):
                    return RootLine(line, read)
        if len(page) < limit or not line[-1].parent_id:
            return RootLine(line, read)
        before, limit = page[-1].id, limit * 2


async def parent_of(saver: ThreadSaver, saved: Saved) -> Saved | None:
    """Return the checkpoint before one, in its namespace; None for the first."""
    if not saved.parent_id:
        return None
    return await saver.checkpoint(saved.namespace, saved.parent_id)


def leading(every: Iterable[Saved]) -> list[Saved]:
    """Return the checkpoints that lead to the head of a thread, including those of inner lanes.

    If the step after a checkpoint ran only in another line, the writes of its tasks are left out.

    Args:
        every: All checkpoints of the thread, in all namespaces, in any order.

    Returns:
        The checkpoints, in the order in which they were given.
    """
    checkpoints = list(every)
    by_namespace: dict[str, list[Saved]] = defaultdict(list)
    for saved in checkpoints:
        by_namespace[saved.namespace].append(saved)
    lost = {saved.key for saved in checkpoints}
    saved_keys = frozenset(lost)
    on_the_way: dict[tuple[str, str], Saved] = {}
    for namespace in sorted(by_namespace, key=lambda each: (each.count("|"), each)):
        inside = [  # a parent that was not saved does not count, but for a rewind that was cut short
            saved
            for saved in by_namespace[namespace]
            if lost.isdisjoint(saved.metadata.get("parents", {}).items())
            and (COPIED not in saved.metadata or ("", saved.root_id) in saved_keys)
        ]
        for saved, has_run in _line(by_namespace[namespace], inside):
            on_the_way[saved.key] = saved if has_run else saved._replace(pending_writes=[])
            if has_run:
                lost.discard(saved.key)
    return [on_the_way[each.key] for each in checkpoints if each.key in on_the_way]


def line_to(head: str, every: Sequence[Saved]) -> list[Saved]:
    """Return the checkpoints that lead to one of the root; none if it is not there.

    Args:
        head: The id of the root's checkpoint.
        every: As in `leading`.
    """
    roots = {saved.id: saved for saved in every if not saved.namespace}
    ids = {each.id for each in ancestors(head, roots)}
    return leading([saved for saved in every if saved.root_id in ids])


def known_line(saver: ThreadSaver, head: str, every: Sequence[Saved]) -> list[Saved]:
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


def ancestors(head: str, by_id: Mapping[str, Saved]) -> Iterator[Saved]:
    """Yield a checkpoint and those before it, up to the first."""
    at = by_id.get(head)
    while at is not None:
        yield at
        at = by_id.get(at.parent_id)


def _line(every: Sequence[Saved], inside: Sequence[Saved]) -> Iterator[tuple[Saved, bool]]:
    """Yield the line to the latest of the checkpoints `inside`, and whether each one's step ran in it.

    The checkpoints are those of one namespace. Its line may include others than those inside: a graph
    that saves its state from step to step continues from an earlier step.
    """
    if not inside:
        return
    by_id = {saved.id: saved for saved in every}
    parted = {saved.parent_id for saved in every if saved.metadata.get("source") != _RAN}
    children: dict[str, list[Saved]] = defaultdict(list)
    for saved in every if parted else ():
        if saved.parent_id in parted:
            children[saved.parent_id].append(saved)
    ids = {saved.id for saved in inside}
    at = by_id.get(max(ids))
    next_: Saved | None = None
    while at is not None:
        if at.id in ids:
            yield at, next_ is None or _has_run(next_, children[at.id])
        next_, at = at, by_id.get(at.parent_id)


def _has_run(next_: Saved, children: Iterable[Saved]) -> bool:
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


def without_past_attempts(every: Iterable[Saved]) -> list[Saved]:
    """Return the checkpoints except those of attempts that another one followed."""
    checkpoints = list(every)
    if not (past := past_attempts(checkpoints)):
        return checkpoints
    return [each for each in checkpoints if not is_inside(each.namespace, past)]


def past_attempts(every: Iterable[Saved]) -> set[str]:
    """Return the namespaces of attempts that another one followed."""
    return {each["namespace"] for saved in every for each in saved.attempts}


def is_inside(namespace: str, outer: Collection[str]) -> bool:
    """Return whether a namespace is one of several, or inside one of them."""
    return any(namespace == each or namespace.startswith(f"{each}|") for each in outer)


async def lanes_since(saver: ThreadSaver, since: str, read: Sequence[Saved] = ()) -> list[Saved]:
    """Return the leading checkpoints of the tree's lanes, as `leading_checkpoints` does."""
    return [e for e in await leading_checkpoints(saver, since, read) if not is_foreign(saver.tree, e)]


def lanes_of_any_tree(tree: Tree, every: Sequence[Saved], lanes: Sequence[Saved]) -> Sequence[Saved]:
    """Return the checkpoints of lanes: those of the tree, and of the trees that ran the root before.

    Args:
        tree: The tree.
        every: All checkpoints of a line.
        lanes: The checkpoints of the tree's lanes.
    """
    if len(lanes) == len(every):
        return lanes
    roots = (each.position for each in every if not each.namespace)
    former = {each["tree"] for each in roots if each is not None} - {tree.fingerprint}
    known = {id(each) for each in lanes}
    return [each for each in every if id(each) in known or _is_lane_of(former, each)]


def _is_lane_of(former: Collection[str], saved: Saved) -> bool:
    """Return whether a checkpoint is that of a lane of a tree that has one of some fingerprints."""
    position = saved.position if former and not keeps_state(saved.namespace) else None
    return position is not None and position["tree"] in former


def newest_of_each(newest_first: Iterable[Saved]) -> dict[str, Saved]:
    """Return the last checkpoint of each namespace."""
    heads: dict[str, Saved] = {}
    for saved in newest_first:
        heads.setdefault(saved.namespace, saved)
    return heads
