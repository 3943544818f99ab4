"""What a thread has visited: each step of each agent, found in the positions that its saver has.

The position at a checkpoint says which node is next. So each checkpoint of a lane from which a step ran
is a visit, and so is the result of a lane that is one leaf, which has no checkpoints.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import NamedTuple

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata, add_usage

from agentgraph.errors import UnknownAddressError
from agentgraph.graph.internals import RETURN
from agentgraph.graph.stamps import Note, is_edited, moment_of, step_name, time_in
from agentgraph.graph.state import Position
from agentgraph.journal.changed_trees import places_kept, read_thread
from agentgraph.journal.entries import entries_at
from agentgraph.journal.lines import (
    address_at,
    is_foreign,
    leading_checkpoints,
    line_to,
    position_in,
    root_line,
)
from agentgraph.journal.saved import NO_TASK, Saved, Written
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.safe_repr import shown
from agentgraph.tree.addresses import (
    Cursor,
    address,
    as_cursor,
    as_known,
    fits,
    iteration,
    parse_address,
    without_keys,
)
from agentgraph.tree.places import Place, Tree

_INSIDE = "/[({"
"""What comes after an address in that of something inside it."""
_STEP = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:.+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Visit:
    """A step that a thread has visited.

    Attributes:
        address: The address of the agent's activation.
        agent_name: The agent.
        node: The node that ran: of a chat agent its model, its tools or a hook; of an agent that asks
            also its question.
        turn: The turn of the thread, from 0.
        iteration: The iteration of the nearest loop; None outside all loops.
        step: The name of the step, as in `AgentEvent.step`. Lanes that are one leaf share the step of
            what runs them.
        time: When it began, in seconds since 1970; of a lane that is one leaf when what runs it began.
        duration: How long it took, in seconds, from where a run resumed it if one did; None if it has
            not ended.
        tokens: The tokens that its models reported.
    """

    address: str
    agent_name: str
    node: str
    turn: int
    iteration: int | None
    step: str
    time: float
    duration: float | None
    tokens: int


class Spot(NamedTuple):
    """Where a visit is in the saver.

    Attributes:
        visit: The visit.
        place: The place of the agent.
        cursor: The counters there.
        saved: The checkpoint from which its step ran; of a lane without checkpoints, the step that
            runs the lane.
        root: The checkpoint of the root in whose step it is.
        after: The checkpoint after `saved` in its lane; None if its step has not ended.
        task: The task of a lane without checkpoints, empty if it has no result; None for others.
    """

    visit: Visit
    place: Place
    cursor: Cursor
    saved: Saved
    root: Saved
    after: Saved | None = None
    task: str | None = None

    @property
    def activation(self) -> tuple[Place, Cursor]:
        """The place, and the counters there."""
        return self.place, self.cursor

    @property
    def order(self) -> tuple[str, bool, float]:
        """Sorts visits by when they began, as far as it is known."""
        return str(self.saved.id), self.task is not None, self.visit.duration or 0.0


async def visits(saver: ThreadSaver) -> list[Visit]:
    """Return what a thread has visited, in order. Raises as `read_thread` does."""
    await read_thread(saver)
    every = await leading_checkpoints(saver)
    return [spot.visit for spot in spots_in(saver.tree, every)]


def spots_in(tree: Tree, every: Iterable[Saved]) -> list[Spot]:
    """Return what was visited in the steps after some leading checkpoints, in order."""
    lanes: dict[str, list[Saved]] = defaultdict(list)
    several = [*every]
    is_kept = places_kept(tree, several)
    for saved in several:
        if not is_foreign(tree, saved):
            lanes[saved.namespace].append(saved)
    roots = {saved.id: saved for saved in lanes.get("", ())}
    spots: list[Spot] = []
    for line in lanes.values():
        line.sort(key=lambda each: str(each.id))
        after = {saved.parent_id: saved for saved in line}
        for saved in line:
            if (root := roots.get(saved.root_id)) is not None:
                spots += _spots_at(tree, root, saved, after.get(saved.id), is_kept)
    begun = {(each.visit.turn, each.visit.address) for each in spots if each.task is None}
    rest = [
        each
        for each in spots
        if each.task is None or (each.visit.turn, each.visit.address) not in begun
    ]
    return sorted(rest, key=lambda each: each.order)


def _spots_at(
    tree: Tree,
    root: Saved,
    saved: Saved,
    next_: Saved | None,
    is_kept: Callable[[Position, Place], bool],
) -> Iterator[Spot]:
    """Yield the visits of the step after a checkpoint; `next_` is the checkpoint after it."""
    position, node = position_in(tree, saved), saved.next_node
    place = tree.by_node.get(node or "")
    is_replaced = next_ is not None and next_.is_by_hand
    if node is None or place is None or position is None or saved.begins_turn or is_replaced:
        return
    cursor = as_cursor(position["cursor"])
    if not (fits(place, cursor) and is_kept(position, place)):  # another tree ran it
        return
    at = address(place, cursor)
    turn, began = root.clock[0], saved.time
    ended = next_.first_time if next_ is not None else None
    step = step_name(saved.id, node)
    by_task = saved.writes.items()
    said = [each for task, writes in by_task if task != NO_TASK for each in _said_in(writes)]
    round_ = iteration(place, cursor)
    duration = None if ended is None else max(ended - last_start(place, root, began, ended), 0.0)
    tokens = used_in(said)["total_tokens"]
    visit = Visit(at, place.home.name, node, turn, round_, step, began, duration, tokens)
    spot = Spot(visit, place, cursor, saved, root, next_)
    yield spot
    if lanes := frozenset(lane.node for lane in tree.lanes(place)):
        yield from _leaves_at(tree, spot, lanes)


def last_start(place: Place, root: Saved, began: float, ended: float | None) -> float:
    """Return when a step began for the last time: a run that resumed it began it anew.

    What runs others goes on, and who asks a person waits meanwhile: they begin once.
    """
    if place.kind.is_fork or place.kind.runs_agents or place.kind.asks:
        return began
    resumed = (time_in(note) for note in root.notes if note.kind == "resumed")
    return max((at for at in resumed if began < at and (ended is None or at < ended)), default=began)


def _leaves_at(tree: Tree, outer: Spot, lanes: Container[str]) -> Iterator[Spot]:
    """Yield the visits of lanes without checkpoints in a step: they have results, or have failed."""
    around, saved, root = outer.visit, outer.saved, outer.root
    ended: dict[str, tuple[str, Written]] = {}
    for task, writes in saved.writes.items():
        result = writes.get(RETURN)
        came = result if isinstance(result, Mapping) else {}
        if at := (came.get("position") or {}).get("at"):
            ended[at] = task, came
    for note in root.notes:
        if note.kind == "error":
            ended.setdefault(note.address, ("", {}))
    for at, (task, result) in ended.items():
        activation = parse_address(tree, at)
        if activation is None or not is_at_or_in(at, around.address):
            continue
        place, cursor = activation
        if place.is_stop and place.node in lanes:
            finished = result.get("finished")
            visit = replace(
                around,
                address=at,
                agent_name=place.home.name,
                node=place.node,
                iteration=iteration(place, cursor),
                duration=None if finished is None else max(finished / 1e9 - around.time, 0.0),
                tokens=used_in(_said_in(result))["total_tokens"],
            )
            yield Spot(visit, place, cursor, saved, root, outer.after, task)


def _said_in(written: Written) -> list[BaseMessage]:
    messages = written.get("messages")
    return [each for each in messages or () if isinstance(each, BaseMessage)]


def used_in(messages: Iterable[BaseMessage]) -> UsageMetadata:
    """Return the tokens that models reported for messages."""
    total = add_usage(None, None)
    for each in messages:
        if isinstance(each, AIMessage) and each.usage_metadata:
            total = add_usage(total, each.usage_metadata)
    return total


class Target(NamedTuple):
    """Where to go back to.

    Attributes:
        spot: The visit.
        every: The checkpoints that lead to the head, as far as they are needed: since the step of the
            root that has the visit, or all.
        line: Those that lead to the visit, with what ran beside it; the same, unless the visit is on
            an older line of the thread.
    """

    spot: Spot
    every: Sequence[Saved]
    line: Sequence[Saved]


def is_step(at: str) -> bool:
    """Return whether a text is the name of a step, and no address."""
    return _STEP.fullmatch(at) is not None


class Wanted:
    """What to go back to: the first visit of an address in a turn, or a step.

    Attributes:
        at: The address, or the name of the step.
        turn: The turn of the address; None for the last one in which it was visited.
        is_step: Whether it is a step.
    """

    def __init__(
        self, tree: Tree, at: str, turn: int | None, asks: Callable[[Spot], bool] | None = None
    ) -> None:
        """Make it.

        Args:
            tree: The tree.
            at: An address, or the name of a step.
            turn: The turn of an address; None for the last one in which it was visited.
            asks: Says which visits at the address are preferred.
        """
        self.is_step = is_step(at)
        self.at = at if self.is_step else as_known(tree, at)
        self._tree, self.turn, self._asks = tree, turn, asks
        self._address = self._stretch = without_keys(self.at)
        found = None if self.is_step else parse_address(tree, self.at)
        if found is not None and found[0].kind.is_inner:
            # Other nodes of its graph run between its visits.
            self._stretch = self._address.rpartition("/")[0]

    def chosen(self, spots: Sequence[Spot]) -> Spot | None:
        """Return the visit to go back to; None if it is not among these."""
        if self.is_step:
            return next((each for each in spots if self.at in each.saved.steps), None)
        there = [(each, without_keys(each.visit.address)) for each in spots if self._is_then(each)]
        inside = [each for each, at in there if at == self._address]
        inside = inside or [each for each, at in there if is_at_or_in(at, self._address)]
        last = max((each.visit.turn for each in inside), default=None)
        inside = [each for each in inside if each.visit.turn == last]
        asking = filter(self._asks, inside) if self._asks else ()
        return next(iter([*asking, *inside]), None)

    def may_have(self, saved: Saved) -> bool:
        """Return whether the step after a checkpoint of the root may have the visit."""
        if self.is_step:
            return str(saved.id) <= self.at.partition(":")[0]
        if self.turn not in (None, saved.clock[0]):
            return False
        at = without_keys(address_at(self._tree, saved) or "")
        return bool(at) and (is_at_or_in(at, self._stretch) or is_at_or_in(self._stretch, at))

    def _is_then(self, spot: Spot) -> bool:
        return self.turn in (None, spot.visit.turn)


def is_at_or_in(address: str, outer: str) -> bool:
    """Return whether an address is another one, or inside it: with more counters, or parts.

    >>> is_at_or_in("s/l[0]/a", "s/l"), is_at_or_in("s/a#2", "s/a")
    (True, False)
    """
    return address == outer or (address.startswith(outer) and address[len(outer)] in _INSIDE)


async def find(saver: ThreadSaver, wanted: Wanted) -> Target:
    """Return where to go back to.

    Raises:
        UnknownAddressError: The thread has not visited it.
    """
    since = await _first_needed(saver, wanted)
    every = await leading_checkpoints(saver, since)
    spot = wanted.chosen(spots_in(saver.tree, every))
    if spot is None and since:
        every = await leading_checkpoints(saver)
        spot = wanted.chosen(spots_in(saver.tree, every))
    if spot is not None and not (wanted.is_step and _is_of_edited(wanted.at, spot, every)):
        return Target(spot, every, every)
    if wanted.is_step:
        line = older_line(wanted.at, await saver.checkpoints())
        if (spot := wanted.chosen(spots_in(saver.tree, line))) is not None:
            return Target(spot, every, line)
    raise unknown(saver.thread_id, wanted, spots_in(saver.tree, every))


async def _first_needed(saver: ThreadSaver, wanted: Wanted) -> str:
    """Return the id of the first checkpoint of the root that is needed; empty if all are.

    The visits of an address in a turn are one stretch of the line: what is older is not read.
    """
    since, _ = await stretch(saver, wanted)
    return since


async def stretch(saver: ThreadSaver, wanted: Wanted) -> tuple[str, str]:
    """Return the ids of the checkpoints of the root between which a visit is; empty if none may be.

    The last one is that with which the last step ended that may have it, or the head of the thread.
    """
    touched: list[str] = []

    def is_behind(saved: Saved) -> bool:
        if wanted.may_have(saved):
            touched.append(str(saved.id))
            return wanted.is_step
        return bool(touched)

    line = [str(saved.id) for saved in await root_line(saver, is_behind)]
    if not touched:
        return "", ""
    return touched[-1], line[max(line.index(touched[0]) - 1, 0)]


def older_line(step: str, every: Sequence[Saved]) -> list[Saved]:
    """Return the checkpoints that lead to a step, of whatever line; none if there is no such step."""
    there = [saved for saved in every if step in saved.steps]
    there.sort(key=lambda saved: step not in saved.steps[:1])  # its own name before that of a copy
    return line_to(there[0].root_id, every) if there else []


def _is_of_edited(step: str, spot: Spot, every: Iterable[Saved]) -> bool:
    """Return whether a step is that of a visit before a rewind edited what it had seen.

    The copy of a step has its name too. It is that of the copy if the line still has its events.
    """
    if step == spot.visit.step:
        return False
    entries = [
        entry for saved in every if saved.root_id == spot.saved.root_id for entry in entries_at(saved)
    ]
    moments = [moment_of(entry) for entry in entries]
    has_edits = any(not isinstance(each, Note) and is_edited(each) for each in entries)
    return has_edits and all(moment is None or moment.step != step for moment in moments)


def unknown(thread_id: str, wanted: Wanted, spots: Sequence[Spot]) -> UnknownAddressError:
    """Return the error for what was not visited; it names the nearest address that was."""
    visited = dict.fromkeys(each.visit.address for each in spots)
    near = next(iter(get_close_matches(wanted.at, visited, 1, cutoff=0)), None)
    nearest = f"the nearest that it has is {shown(near)}; " if near and near != wanted.at else ""
    then = "" if wanted.turn is None else f" in turn {shown(wanted.turn)}"
    return UnknownAddressError(
        f"thread {shown(thread_id)} has not visited {shown(wanted.at)}{then}; {nearest}visits() lists "
        "all",
        thread_id,
    )
