"""The steps of agents on a line of a thread, found in the positions that its saver has.

The position at a checkpoint says which node is next. So each checkpoint of a lane from which a step ran
is a step of an agent, and so is the result of a lane that is one leaf, which has no checkpoints.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata, add_usage

from agentgraph.agents.costs import reported
from agentgraph.graph.lane_position import Position
from agentgraph.graph.stamps import seconds, step_name, time_in
from agentgraph.journal.begun_leaves import begun_leaves
from agentgraph.journal.changed_trees import places_kept
from agentgraph.journal.lines import (
    position_in,
)
from agentgraph.journal.saved import NO_TASK, Saved, Written
from agentgraph.tree.addresses import (
    Cursor,
    address,
    as_cursor,
    entered,
    fits,
    iteration,
    parse_address,
)
from agentgraph.tree.places import Place, Tree

_INSIDE = "/[({"
"""The characters after an address in the address of something inside it."""


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
        step: The name of the step, as in `AgentEvent.step`. Items that are one leaf share the step of
            the `each`.
        time: When it began, in seconds since 1970; of a lane that is one leaf, and that has no result
            yet, when what runs it began.
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


class AgentStep(NamedTuple):
    """A step of an agent: a visit, and where it is in the saver.

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
    def steps(self) -> Sequence[str]:
        """The names of the step: its own, and those before it was copied."""
        if self.task is None or self.place.is_item:
            return self.saved.steps
        return [step_name(each.partition(":")[0], self.place.node) for each in self.saved.steps]

    @property
    def order(self) -> tuple[str, bool, float]:
        """Sorts visits by when they began, as far as it is known."""
        return str(self.saved.id), self.task is not None, self.visit.time


def agent_steps_in(tree: Tree, every: Sequence[Saved]) -> list[AgentStep]:
    """Return the steps of agents after some leading checkpoints of the tree's lanes."""
    lanes: dict[str, list[Saved]] = defaultdict(list)
    is_kept = places_kept(tree, every)
    for saved in every:
        lanes[saved.namespace].append(saved)
    roots = {saved.id: saved for saved in lanes.get("", ())}
    agent_steps: list[AgentStep] = []
    for line in lanes.values():
        line.sort(key=attrgetter("id"))
        after = {saved.parent_id: saved for saved in line}
        for saved in line:
            if (root := roots.get(saved.root_id)) is not None:
                agent_steps += _agent_steps_at(tree, root, saved, after.get(saved.id), is_kept)
    begun = {(each.visit.turn, each.visit.address) for each in agent_steps if each.task is None}
    rest = [
        each
        for each in agent_steps
        if each.task is None or (each.visit.turn, each.visit.address) not in begun
    ]
    return sorted(rest, key=attrgetter("order"))


def _agent_steps_at(
    tree: Tree,
    root: Saved,
    saved: Saved,
    next_: Saved | None,
    is_kept: Callable[[Position, Place], bool],
) -> Iterator[AgentStep]:
    """Yield the visits of the step after a checkpoint; `next_` is the checkpoint after it."""
    position, node = position_in(tree, saved), saved.next_node
    place = tree.by_node.get(node or "")
    is_replaced = next_ is not None and next_.is_manual
    if node is None or place is None or position is None or saved.begins_turn or is_replaced:
        return
    cursor = as_cursor(position["cursor"])
    if not (fits(place, cursor) and is_kept(position, place)):  # another tree ran it
        return
    at = address(place, cursor)
    turn, began = root.clock[0], saved.time
    step = step_name(saved.id, node)
    written = [writes for task, writes in saved.writes.items() if task != NO_TASK]
    round_ = iteration(place, cursor)
    duration = None if next_ is None else max(next_.first_time - last_start(saved, next_), 0.0)
    tokens = _tokens_in(written)
    visit = Visit(at, place.home.name, node, turn, round_, step, began, duration, tokens)
    agent_step = AgentStep(visit, place, cursor, saved, root, next_)
    yield agent_step
    if lanes := tree.lanes(place):
        yield from _leaves_at(tree, agent_step, lanes)


def last_start(saved: Saved, after: Saved) -> float:
    """Return when the step between two checkpoints began, the last time that it did."""
    position = after.checkpoint["channel_values"].get("position") or {}
    return seconds(position["began"]) if "began" in position else saved.time


def steps_after(tree: Tree, saved: Saved) -> list[str]:
    """Return the names of the step after a checkpoint, and of the branches or steps in it."""
    if not saved.step:
        return []
    place = tree.by_node.get(saved.next_node or "")
    has_lanes = place is not None and place.kind.is_parallel and not place.kind.has_items
    lanes = tree.lanes(place) if place is not None and has_lanes else ()
    return [saved.step, *(step_name(saved.id, lane.node) for lane in lanes if lane.kind.is_leaf)]


def _leaves_at(tree: Tree, outer: AgentStep, lanes: Sequence[Place]) -> Iterator[AgentStep]:
    """Yield the visits of lanes without checkpoints in a step: they have results, or have failed.

    Or they are branches or steps, which may have begun.
    """
    around, saved, root = outer.visit, outer.saved, outer.root
    nodes, begun = {lane.node for lane in lanes}, _begun_at(outer, lanes)
    ended: dict[str, tuple[str, Written]] = {}
    for task, came in saved.results.items():
        if at := (came.get("position") or {}).get("at"):
            ended[at] = task, came
    for note in root.notes:
        if note.kind == "error":
            ended.setdefault(note.address, ("", {}))
    for at in begun:
        ended.setdefault(at, ("", {}))
    for at, (task, result) in ended.items():
        activation = parse_address(tree, at)
        if activation is None or not is_at_or_in(at, around.address):
            continue
        place, cursor = activation
        if place.is_node and place.node in nodes:
            finished = result.get("finished")
            visit = replace(
                around,
                address=at,
                agent_name=place.home.name,
                node=place.node,
                iteration=iteration(place, cursor),
                step=around.step if place.is_item else step_name(saved.id, place.node),
                time=seconds(result["began"]) if "began" in result else begun.get(at, around.time),
                duration=None if finished is None else seconds(finished - result["began"]),
                tokens=_tokens_in([result]),
            )
            yield AgentStep(visit, place, cursor, saved, root, outer.after, task)


def _begun_at(outer: AgentStep, lanes: Sequence[Place]) -> dict[str, float]:
    if not outer.place.kind.is_parallel or outer.place.kind.has_items:
        return {}
    failed = {note.address: time_in(note) for note in outer.root.notes if note.kind == "error"}
    at = {lane: address(lane, entered(lane, outer.cursor)) for lane in lanes}
    by_name = {lane.name: failed[at[lane]] for lane in lanes if at[lane] in failed}
    results = outer.saved.results.values()
    begun = begun_leaves(lanes, outer.visit.time, results, by_name)
    return {at[lane]: min(time, by_name.get(lane.name, time)) for lane, time in begun}


def _tokens_in(written: Iterable[Written]) -> int:
    return used_in(chain.from_iterable(each.get("messages") or () for each in written))["total_tokens"]


def used_in(messages: Iterable[object]) -> UsageMetadata:
    """Return the tokens that models reported for messages."""
    total = add_usage(None, None)
    for each in messages:
        if isinstance(each, AIMessage) and (usage := reported(each.usage_metadata)):
            total = add_usage(total, usage)
    return total


def is_at_or_in(address: str, outer: str) -> bool:
    """Return whether an address is another one, or inside it: with more counters, or parts.

    >>> is_at_or_in("s/l[0]/a", "s/l"), is_at_or_in("s/a#2", "s/a")
    (True, False)
    """
    return address == outer or (address.startswith(outer) and address[len(outer)] in _INSIDE)
