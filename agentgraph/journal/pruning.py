"""Plans the part of a thread that is removed: its first turns, and older lines.

The rule: what stays looks as if the thread had begun with the first turn that stays.

- The checkpoint of the root at which that turn begins becomes the first one. It stores all channels
  whole, because those of which steps store their own writes alone are read from the steps before.
- A checkpoint inside a step of the root goes with the step. A line goes if it branched off before the
  first turn that stays.
- A graph with `checkpointer=True` continues from its last checkpoint, whichever turn saved it. So of
  its checkpoints before that turn the last one stays, and counts as one of the first checkpoint's step:
  a rewind finds it there. It stores all channels whole as well; if the tree does not have the graph any
  more, the steps stay from which they are read.
- The numbers of turns and events stay. A mark, saved with the requests for runs, says up to which
  number they are gone.

A plan is carried out in one transaction (`savers/pruning.py`).
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from langgraph.checkpoint.base import CheckpointMetadata
from langgraph.constants import START

from agentgraph.errors import ThreadError
from agentgraph.graph.internals import TRIGGER
from agentgraph.graph.stamps import number_in, number_of
from agentgraph.journal.entries import all_entries
from agentgraph.journal.lines import ancestors, is_foreign, leading
from agentgraph.journal.saved import MARK, REQUESTS, Saved, keeps_state, without_counters
from agentgraph.journal.savers.pruning import Pruning, mark_of
from agentgraph.journal.savers.thread_index import given_in
from agentgraph.journal.schema import PrunedMark
from agentgraph.journal.thread_config import config_of
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.safe_repr import shown


class Plan(NamedTuple):
    """The part of a thread that is removed.

    Attributes:
        pruning: The task of its saver.
        turns: How many turns of the present line go.
        lines: How many older lines go.
        kept: The ids of the root's checkpoints that stay.
    """

    pruning: Pruning
    turns: int
    lines: int
    kept: Collection[str]


class _Roots(NamedTuple):
    """The checkpoints of the root that stay.

    Attributes:
        kept: Their ids.
        first: The first one that stays, where turns go; else None.
        before: The ids of those of the present line before it.
        turns: How many turns go.
        lines: How many lines go.
    """

    kept: Collection[str]
    first: Saved | None
    before: Collection[str]
    turns: int
    lines: int


async def planned(
    saver: ThreadSaver, every: Sequence[Saved], keep_turns: int | None, keep_lines: int | None
) -> Plan | None:
    """Return the part of a thread that is removed; None if all of it stays.

    Args:
        saver: The thread.
        every: All of its checkpoints, in all namespaces, each newest first.
        keep_turns: How many turns of the present line stay; None for all.
        keep_lines: How many older lines stay; None for all.
    """
    roots = _kept_roots([each for each in every if not each.namespace], keep_turns, keep_lines)
    if not (roots.turns or roots.lines):
        return None
    kept = {each.key for each in every if _stays(roots, each)}
    several: dict[str, list[Saved]] = defaultdict(list)
    for each in every:
        if keeps_state(each.namespace):
            several[each.namespace].append(each)
    whole = [] if roots.first is None else [await _made_first(saver, every, roots)]
    for states in several.values():
        more, states_whole = await _kept_states(saver, states, roots)
        kept |= {each.key for each in more}
        whole += states_whole
    gone = [each.key for each in every if each.key not in kept]
    if roots.first is not None:
        whole.append(await _mark(saver, every, roots))
    used = {
        (each.namespace, channel, version)
        for each in [*(each for each in every if each.key in kept), *whole]
        for channel, version in each.checkpoint["channel_versions"].items()
    }
    pruning = Pruning(saver.checked_id, gone, whole, used)
    return Plan(pruning, roots.turns, roots.lines, roots.kept)


def _kept_roots(
    newest_first: Sequence[Saved], keep_turns: int | None, keep_lines: int | None
) -> _Roots:
    by_id = {each.id: each for each in newest_first}
    parents = {each.parent_id for each in newest_first}
    present, *older = [each for each in by_id if each not in parents]
    line = [*ancestors(present, by_id)]
    first, turns = _first_kept(line, keep_turns)
    at = len(line) if first is None else line.index(first) + 1
    kept, before = {each.id for each in line[:at]}, {each.id for each in line[at:]}
    branches: list[list[str]] = []
    for head in older:
        own = [each.id for each in ancestors(head, by_id)]
        branch = [each for each in own if each not in kept and each not in before]
        has_parted = len(branch) < len(own) and own[len(branch)] in kept
        if has_parted or (first is None and not before.intersection(own)):
            branches.append(branch)
    staying = branches if keep_lines is None else branches[:keep_lines]
    for branch in staying:
        kept |= {*branch}
    return _Roots(kept, first, before, turns, len(older) - len(staying))


def _first_kept(line: Sequence[Saved], keep_turns: int | None) -> tuple[Saved | None, int]:
    """Return the checkpoint at which the first turn begins that stays, and how many turns go.

    A turn may begin twice, if its first run was killed before a node had read the input.
    """
    begun = [each for each in line if each.begins_turn]
    numbers = sorted({each.clock[0] for each in begun})
    if keep_turns is None or len(numbers) <= keep_turns:
        return None, 0
    number = numbers[-keep_turns]
    return [each for each in begun if each.clock[0] == number][-1], numbers.index(number)


def _stays(roots: _Roots, saved: Saved) -> bool:
    if saved.namespace and not saved.root_id:  # of a graph that names none: as old as it is
        return roots.first is None or saved.id >= roots.first.id
    return saved.root_id in roots.kept


async def _kept_states(
    saver: ThreadSaver, states: Sequence[Saved], roots: _Roots
) -> tuple[list[Saved], list[Saved]]:
    """Return further states of a graph that stay, and those that are stored whole.

    Args:
        saver: The thread.
        states: The checkpoints in the graph's namespace, newest first.
        roots: The checkpoints of the root that stay.
    """
    by_id = {each.id: each for each in states}
    before = [each for each in states if each.root_id in roots.before]
    base = max(before, key=lambda each: (each.root_id, each.id), default=None)
    staying = {each.id: each for each in states if _stays(roots, each)}
    staying |= {each.id: each for each in (states[0], *([base] if base else ()))}
    whole: list[Saved] = []
    for each in sorted(staying.values(), key=lambda each: each.id, reverse=True):
        is_cut = each.parent_id in by_id and each.parent_id not in staying
        if not is_cut and each is not base:
            continue
        full = await saver.checkpoint(each.namespace, each.id)
        if full is None:
            continue
        made = await saver.whole(full) if is_cut else full
        if made is None:  # the tree does not have its graph
            needed = [*_read_for(each, by_id)]
            staying |= {other.id: other for other in needed}
            parent = full.parent_config if needed else None
            made = full._replace(parent_config=parent)
            if needed and needed[-1].parent_id in by_id:
                last = await saver.checkpoint(each.namespace, needed[-1].id)
                whole += [] if last is None else [last._replace(parent_config=None)]
        elif is_cut:
            made = _first_of_its_own(made)
        whole.append(_in_step_of(roots.first, made) if each is base else made)
    return [*staying.values()], whole


def _read_for(saved: Saved, by_id: Mapping[str, Saved]) -> Iterator[Saved]:
    """Yield the checkpoints from which the channels of one are read that it does not store whole."""
    values = saved.checkpoint["channel_values"]
    open_ = {
        name
        for name in saved.checkpoint["channel_versions"]
        if name not in values and name != START and not name.startswith(TRIGGER)
    }
    for each in ancestors(saved.parent_id, by_id):
        if not open_:
            return
        open_ -= each.checkpoint["channel_values"].keys()
        yield each


def _in_step_of(root: Saved | None, saved: Saved) -> Saved:
    parents = {**saved.metadata.get("parents", {}), **({"": root.id} if root else {})}
    metadata = cast(CheckpointMetadata, {**saved.metadata, "parents": parents})
    return saved._replace(metadata=metadata)


async def _made_first(saver: ThreadSaver, every: Sequence[Saved], roots: _Roots) -> Saved:
    """Return the first checkpoint that stays, with the metadata of the runs before, for lists."""
    assert roots.first is not None
    saved = await saver.checkpoint("", roots.first.id)
    whole = None if saved is None else await saver.whole(saved)
    assert whole is not None  # the thread is locked, and the tree has a root
    made = _first_of_its_own(whole)
    given: dict[str, object] = {}
    for each in every:  # the newest first
        if not each.namespace and each.id in roots.before:
            given = {**given_in(each.metadata), **given}
    return made._replace(metadata=cast(CheckpointMetadata, {**given, **made.metadata}))


def _first_of_its_own(whole: Saved) -> Saved:
    metadata = cast(CheckpointMetadata, without_counters(whole.metadata))
    return whole._replace(parent_config=None, metadata=metadata)


async def _mark(saver: ThreadSaver, every: Sequence[Saved], roots: _Roots) -> Saved:
    """Return the mark up to which event a thread is pruned, and when it began."""
    line = [each for each in leading(every) if each.root_id in roots.before]
    entries = all_entries([each for each in line if not is_foreign(saver.tree, each)])
    last = max(map(number_of, entries), default=0)
    known = await mark_on(saver)
    began = known["began"] if known else min(each.id for each in every if not each.namespace)
    mark = PrunedMark(upto=max(last, known["upto"] if known else 0), began=began)
    return mark_of(saver.thread_id, mark)


async def mark_on(saver: ThreadSaver) -> PrunedMark | None:
    """Return the mark of a thread; None if no turn of it was pruned."""
    saved = await saver.checkpoint(REQUESTS, MARK)
    return None if saved is None else cast(PrunedMark, saved.checkpoint["channel_values"])


async def put_mark(saver: ThreadSaver, mark: PrunedMark) -> None:
    """Save a mark with a thread: that of the thread that it is a copy of."""
    await saver.put(config_of(saver.checked_id, REQUESTS), mark_of(saver.thread_id, mark))


async def check_cursor(saver: ThreadSaver, after: str) -> None:
    """Reject a cursor before events that were pruned.

    Raises:
        ThreadError: It is one.
    """
    mark = await mark_on(saver)
    if mark is not None and number_in(after) < mark["upto"]:
        raise ThreadError(
            f"thread {shown(saver.thread_id)}: the events after the cursor {shown(after)} were pruned; "
            "follow it without a cursor, which yields all events that are left",
            saver.thread_id,
        )
