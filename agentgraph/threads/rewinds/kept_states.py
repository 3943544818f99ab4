"""The states that graphs with `checkpointer=True` keep over steps and turns, on a new line.

LangGraph has such a graph continue from the last checkpoint in its namespace, which is the same for all
activations, turns and lines. So a new line saves there once more the graph's state at the visit. That
changes the state from which the old line would continue, so it comes after the commit: the note at the
root's copy says which states are to be saved, and the next reader that misses them, after a kill, saves
them first.

The saved states belong to the root's copy, so they are on no other line: the states of the graph before
the root's step under an id before that of the copy, and the states that it saved inside that step, as
far as its lane is kept, under ids in the order of those of the lane. So a later rewind finds on this
line the states that it would have found on the old one.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata

from agentgraph.journal.lines import leading
from agentgraph.journal.saved import COPIED, Saved, keeps_state
from agentgraph.journal.schema import REWOUND, Rewound, StateCopy
from agentgraph.journal.thread_config import config_of
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.reports.visits import FoundVisit
from agentgraph.threads.rewinds.new_line import NewLine

_EMPTY: dict[str, object] = {"channel_values": {}, "channel_versions": {}, "versions_seen": {}}


class GraphStates(NamedTuple):
    """The states that graphs keep over steps, as the saver has them.

    Attributes:
        namespaces: Where graphs keep their states, on any line.
        every: The checkpoints there, on all lines.
        on_line: The checkpoints of steps that lead to a visit, or are part of the root's step that has
            it.
    """

    namespaces: Sequence[str] = ()
    every: Sequence[Saved] = ()
    on_line: Sequence[Saved] = ()

    def of(self, line: NewLine) -> list[Saved]:
        """Return those that are part of a new line, which is planned, oldest first."""
        began = str(line.root.id)
        return sorted((each for each in self.on_line if _is_kept(line, began, each)), key=_age)


async def graph_states(saver: ThreadSaver, target: FoundVisit) -> GraphStates:
    """Return the states that graphs keep, where a thread goes back to a visit.

    A line may have none of the checkpoints that it copied: so they are found by the steps of the root.
    """
    namespaces = await saver.kept_namespaces()
    if not namespaces:
        return GraphStates()
    whole = await saver.checkpoints()
    line = leading(whole) if target.present is target.story else target.story.every
    roots = {str(each.id) for each in line if not each.namespace}
    every = [each for each in whole if keeps_state(each.namespace)]
    return GraphStates(namespaces, every, [each for each in every if each.root_id in roots])


def with_ancestors(kept: Iterable[Saved], every: Iterable[Saved]) -> list[Saved]:
    """Return checkpoints of kept states with all before them, from which LangGraph reads deltas."""
    by_id = {(each.namespace, str(each.id)): each for each in every}
    found: dict[tuple[str, str], Saved] = {}
    for each in kept:
        key = each.namespace, str(each.id)
        while key in by_id and key not in found:
            found[key] = by_id[key]
            key = key[0], by_id[key].parent_id
    return [*found.values()]


def _is_kept(line: NewLine, began: str, saved: Saved) -> bool:
    """Return whether a state was kept before the visit, or concurrently: as its innermost lane says."""
    if saved.root_id != began:
        return saved.root_id < began
    names = saved.namespace.split("|")
    around = ("|".join(names[:count]) for count in range(len(names), -1, -1))
    bound = next(line.bounds[each] for each in around if each in line.bounds)
    return bound is None or str(saved.id) < bound


def _age(saved: Saved) -> tuple[str, str]:
    return saved.root_id, str(saved.id)


def state_copies(line: NewLine, states: GraphStates) -> list[StateCopy]:
    """Return the states of all graphs to save after the commit of a new line.

    Args:
        line: The new line, planned.
        states: The states.
    """
    root, kept = str(line.root.id), states.of(line)
    copies: list[StateCopy] = []
    for namespace in states.namespaces:
        own = [each for each in kept if each.namespace == namespace]
        inside = [each for each in own if each.root_id == root and each.id > root]
        before = own[: len(own) - len(inside)][-1:]
        ids = {str(each.id): line.id_before for each in before}
        ids |= {(id_ := str(each.id)): line.new_id(id_) for each in inside}
        around = {"": line.new_id(root)}
        if not before:
            copies.append(_copy_of("", namespace, line.id_before, "", around))
        for each in [*before, *inside]:
            of, parent = str(each.id), each.parent_id
            parents = around if each in before else line.parents_of(each)
            copies.append(_copy_of(of, namespace, ids[of], ids.get(parent, parent), parents))
    return copies


def _copy_of(of: str, namespace: str, own_id: str, parent: str, parents: dict[str, str]) -> StateCopy:
    return StateCopy(namespace=namespace, of=of, id=own_id, parent=parent, parents=parents)


async def put_states(saver: ThreadSaver, root: Saved, states: Iterable[StateCopy]) -> None:
    """Save the states of a new line whose root's copy is saved."""
    for state in states:
        namespace = state["namespace"]
        config = config_of(saver.thread_id, namespace, state["id"])
        metadata = {"parents": state["parents"], COPIED: []}
        saved = None
        if state["of"]:
            saved = await saver.checkpoint(namespace, state["of"])
        if saved is None:
            checkpoint, source = {**root.checkpoint, **_EMPTY}, {"source": "input", "step": -2}
        else:
            checkpoint, source = {**saved.checkpoint}, {**saved.metadata}
        await saver.put_copy(
            Saved(
                config=config,
                checkpoint=cast(Checkpoint, {**checkpoint, "id": state["id"]}),
                metadata=cast(CheckpointMetadata, {**source, **metadata}),
                parent_config=config_of(saver.thread_id, namespace, state["parent"])
                if state["parent"]
                else None,
                pending_writes=saved.pending_writes if saved else [],
            )
        )


async def put_missing_states(saver: ThreadSaver, root: Saved) -> None:
    """Save the states of a new line that was killed after its commit; nothing is saved twice."""
    several = [cast(Rewound, note.data) for note in root.notes if note.kind == REWOUND]
    states = [state for rewound in several for state in rewound["states"]]
    if states and await saver.checkpoint(states[-1]["namespace"], states[-1]["id"]) is None:
        await put_states(saver, root, states)
