"""Checks that a thread can continue with the runner's tree, where another tree ran it."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import unified_diff
from typing import NamedTuple, cast

from agentgraph.errors import TreeChangedError
from agentgraph.graph.internals import ERROR, INTERRUPT, RESUME, RETURN, recast_checkpoint_ns
from agentgraph.graph.lane_position import Position, clock_in
from agentgraph.graph.nodes.spending import CHANNEL as LOSSES
from agentgraph.graph.stamps import EventOrder, number_of
from agentgraph.journal.lines import (
    begun_thread,
    check_whole,
    is_foreign,
    known_thread,
    leading_checkpoints,
)
from agentgraph.journal.saved import COPIED, Saved, parts_of
from agentgraph.journal.schema import CHANGED, NOTES
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.safe_repr import shown
from agentgraph.tree.addresses import places_to
from agentgraph.tree.changes import (
    Outline,
    fingerprint_of,
    graph_nodes_in,
    lines_of,
    name_of,
    new_name_in,
    node_at,
    nodes_in,
    obstacles,
)
from agentgraph.tree.former_trees import former_tree
from agentgraph.tree.places import Place, Tree
from agentgraph.tree.run_paths import RunPaths

_SEARCHED_TURNS = 20
"""Maximum number of turns, the last ones, in which the tree that ran a thread is searched."""
_KEEPS_NOTHING = {ERROR, NOTES, LOSSES}
"""The channels that a step may write which has to run again whole."""
_KEPT = {INTERRUPT, RESUME, RETURN}
"""The channels of the data of a step from which a new line continues."""


class _Been(NamedTuple):
    """Where a thread has been.

    Attributes:
        ran: The nodes of which something has run.
        at: The addresses of what ran in a task without checkpoints.
        here: The nodes that run next; some may have begun.
        graphs: Those places that have begun LangGraph graphs, with the nodes that these have reached.
    """

    ran: set[str | None]
    at: set[str]
    here: set[str | None]
    graphs: dict[str, set[str]]


async def open_thread(saver: ThreadSaver) -> Saved:
    """Return the latest checkpoint of a thread that its tree can resume.

    Raises:
        UnknownThreadError: The saver has no such thread.
        ThreadError: It is a copy that was cut short.
        TreeChangedError: A tree of another shape ran the thread.
    """
    return await opened(saver, await known_thread(saver))


async def read_thread(saver: ThreadSaver) -> Saved | None:
    """Return the latest checkpoint of a thread to read; None if its first run has saved nothing yet.

    Raises:
        UnknownThreadError: The saver has no such thread, and nothing runs on it.
        ThreadError: As `open_thread` does.
    """
    saved = await begun_thread(saver)
    return None if saved is None else await opened(saver, saved)


async def opened(saver: ThreadSaver, saved: Saved) -> Saved:
    """Return the latest checkpoint of a thread, checked as `open_thread` does."""
    check_whole(saver, saved)
    position = saved.position
    if position is not None and not is_of(saver.tree, saved):
        every = await leading_checkpoints(saver)
        check_tree(saver, every, saved, position["tree"])
    return saved


def check_tree(
    saver: ThreadSaver,
    every: Sequence[Saved],
    root: Saved,
    tree: str,
    own: str | None = None,
    here: Iterable[str] = (),
) -> None:
    """Check that a thread can continue with the runner's tree.

    Args:
        saver: The thread.
        every: The checkpoints that lead to where it continues, newest first.
        root: The root's checkpoint from whose step it continues.
        tree: The fingerprint of the tree in the position there.
        own: On a new line: the id of the checkpoint from which it continues; all other steps have
            begun.
        here: More nodes that run next.

    Raises:
        TreeChangedError: A tree of another shape ran the thread.
    """
    was, now = _last_outline([root, *every], tree), saver.tree.outline
    if was is None:
        raise _changed(saver, was, [])
    if was == now:
        return
    been = _been(saver.tree, every, was, own)
    visited = been.ran | {node_at(was, at) for at in been.at}
    if in_words := obstacles(was, now, visited, {*been.here, *here}, been.graphs):
        raise _changed(saver, was, in_words)


def _been(tree: Tree, every: Sequence[Saved], was: Outline, own: str | None) -> _Been:
    known, runs_graph = nodes_in(was), graph_nodes_in(was)
    inside: dict[str, set[str]] = defaultdict(set)
    asks_or_ran: set[str | None] = set()
    head = next((saved.root_id for saved in every if not saved.namespace), "")
    after: dict[str, Saved] = {}
    come = _Been(set(), set(), set(), {})
    for saved in every:
        position, namespace = saved.position, saved.namespace
        names = {part.partition(":")[0] for part in parts_of(namespace)}
        if runs_graph and (node := _graph_node(namespace)) in runs_graph:
            if saved.root_id == head and COPIED not in saved.metadata:
                inside[node] |= _been_inside(saved)
            continue
        if position is None or (is_foreign(tree, saved) and not names <= known):
            continue
        next_ = after.get(namespace)
        after[namespace] = saved
        is_running = saved.root_id == head
        has_ended = not next_.is_manual if next_ is not None else not is_running
        if own is None or not is_running:
            has_begun = bool(_written(saved) - _KEEPS_NOTHING)
        else:
            has_begun = saved.id != own or bool(_written(saved) & _KEPT)
        if has_begun or (has_ended and not saved.begins_turn):
            come.ran.add(saved.next_node)
        if next_ is None and is_running:
            come.here.add(saved.next_node)
            if _written(saved) & {RETURN, INTERRUPT}:
                asks_or_ran.add(saved.next_node)
        come.at.update(_lanes_in(saved))
    begun = (node for node in come.here & runs_graph if node in inside or node in asks_or_ran)
    return come._replace(graphs={str(node): inside[str(node)] for node in begun})


def _graph_node(namespace: str) -> str:
    """Return the node whose graph may have a namespace; empty for that of a lane.

    The nodes of lanes call lanes, so the namespaces of lanes have an even number of names.
    """
    names = recast_checkpoint_ns(namespace).split("|")
    return names[-1] if len(names) % 2 else ""


def _been_inside(saved: Saved) -> set[str]:
    """Return the nodes of a LangGraph graph that ran before one of its checkpoints, or are next."""
    names = {*saved.checkpoint["versions_seen"], *saved.triggered}
    return {name for name in names if not name.startswith("__")}


def _lanes_in(saved: Saved) -> Iterator[str]:
    for result in saved.results.values():
        position = result.get("position")
        if position and "at" in position:
            yield position["at"]


def _written(saved: Saved) -> set[str]:
    return {channel for _, channel, _ in saved.pending_writes or ()}


def _last_outline(newest_first: Iterable[Saved], tree: str) -> Outline | None:
    """Return the outline of the tree that ran a thread last; None if the thread has none.

    Args:
        newest_first: The checkpoints of the thread, newest first.
        tree: The fingerprint in the last position, unless a changed tree has gone on from there.
    """
    is_last = True
    for saved in newest_first:
        if saved.namespace:
            continue
        if (outline := outline_at(saved)) and (is_last or fingerprint_of(outline) == tree):
            return outline
        is_last = is_last and saved.is_manual
    return None


def outline_at(saved: Saved) -> Outline | None:
    """Return the outline of a tree that is saved with a checkpoint of the root; None if none is."""
    if (changed := _changed_at(saved)) is not None:
        return changed
    position = saved.position
    return position.get("outline") if position else None


def _outlines_at(saved: Saved) -> Iterator[Outline]:
    """Yield the outlines of the tree that got to a checkpoint, and of a changed one that continued."""
    position = saved.position
    if position is not None and "outline" in position:
        yield position["outline"]
    if (changed := _changed_at(saved)) is not None:
        yield changed


def is_of(tree: Tree, saved: Saved) -> bool:
    """Return whether a tree was the last to reach a root checkpoint or to continue from it."""
    if (changed := _changed_at(saved)) is not None:
        return fingerprint_of(changed) == tree.fingerprint
    position = saved.position
    return position is not None and position["tree"] == tree.fingerprint


class RanBy(NamedTuple):
    """The tree that ran a thread last.

    Attributes:
        root: The name of its root.
        fingerprint: The hash of its outline.
        is_alike: Whether its root has the name of the root of the runner's tree.
    """

    root: str
    fingerprint: str
    is_alike: bool


async def ran_by(saver: ThreadSaver, saved: Saved) -> RanBy | None:
    """Return the tree that ran a thread last, by its latest checkpoint; None if that is not known."""
    own = saver.tree.root.name
    if is_of(saver.tree, saved):
        return RanBy(own, saver.tree.fingerprint, True)
    outline, position = _changed_at(saved), saved.position
    if outline is None and position is not None:
        begun = await saver.begun_turns(_SEARCHED_TURNS)
        outlines = [each for turn in begun for each in _outlines_at(turn)]
        same = (each for each in outlines if fingerprint_of(each) == position["tree"])
        outline = next(same, outlines[0] if outlines else None)
    if outline is None:
        return None
    return RanBy(name_of(outline), fingerprint_of(outline), name_of(outline) == own)


def former_paths(paths: RunPaths, every: Iterable[Saved]) -> Callable[[EventOrder], RunPaths] | None:
    """Return the run paths of the tree that ran at an order, as a function; None if one tree ran all.

    Args:
        paths: The run paths of the runner's tree.
        every: The checkpoints of the thread, or of its last steps: what ran before is not known then.
    """
    roots = [saved for saved in every if not saved.namespace]
    if all(is_of(paths.tree, saved) for saved in roots if saved.begins_turn):
        return None
    known: dict[str, RunPaths] = {paths.tree.fingerprint: paths}
    since: list[tuple[tuple[int, int], RunPaths]] = []

    def add(turn: int, number: int, outline: Outline) -> None:
        fingerprint = fingerprint_of(outline)
        if fingerprint not in known:
            known[fingerprint] = RunPaths(former_tree(outline))
        since.append(((turn, number), known[fingerprint]))

    for saved in roots:
        position = saved.position
        if position is not None and saved.begins_turn and "outline" in position:
            add(clock_in(position)[0], 0, position["outline"])
        for note in saved.notes:
            if note.kind == CHANGED and note.order is not None:
                add(note.order.turn, note.order.number, cast(Outline, note.data))
    since.sort(key=lambda each: each[0])

    def at(order: EventOrder) -> RunPaths:
        before = [each for when, each in since if when <= (order.turn, order.number)]
        return before[-1] if before else paths

    return at


def places_kept(tree: Tree, every: Sequence[Saved]) -> Callable[[Position, Place], bool]:
    """Return a test whether the tree that got to a position has its next node at a place of `tree`.

    Args:
        tree: The runner's tree.
        every: The checkpoints of the thread, or of its last steps: a tree that ran before is not known
            then, and is taken to have the place.
    """
    known: dict[str, Tree | None] = {tree.fingerprint: tree}

    def former(fingerprint: str) -> Tree | None:
        if fingerprint not in known:
            there = (each for saved in every if not saved.namespace for each in _outlines_at(saved))
            outline = next((each for each in there if fingerprint_of(each) == fingerprint), None)
            known[fingerprint] = None if outline is None else former_tree(outline)
        return known[fingerprint]

    def is_kept(position: Position, place: Place) -> bool:
        if (there := former(position["tree"])) is None or there is tree:
            return True
        was = there.by_node.get(position["next"] or "")
        return was is not None and _shape(was) == _shape(place)

    return is_kept


def _shape(place: Place) -> tuple[list[str], list[str]]:
    return [each.segment for each in places_to(place)], [each.kind for each in place.counts]


def _changed_at(saved: Saved) -> Outline | None:
    changed = [note for note in saved.notes if note.kind == CHANGED]
    return cast(Outline, max(changed, key=number_of).data) if changed else None


def _changed(saver: ThreadSaver, was: Outline | None, in_words: Sequence[str]) -> TreeChangedError:
    old, new = [*lines_of(was)] if was else [], [*lines_of(saver.tree.outline)]
    lines = unified_diff(old, new, "the tree that ran", "this tree", lineterm="", n=1)
    changes = f" ({', '.join(in_words)})" if in_words else ""
    named = shown(saver.thread_id)
    renamed = new_name_in(was, saver.tree.outline) if was else None
    rename = f"pass renames={dict([renamed])} if that is its new name, " if renamed else ""
    return TreeChangedError(
        f"thread {named} was left by a tree of another shape, so that its place cannot be "
        f"found in this one{changes}; use the tree that ran, {rename}go back to before the change, or "
        "start a new thread",
        saver.thread_id,
        "\n".join(lines),
    )
