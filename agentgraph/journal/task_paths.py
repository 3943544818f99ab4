"""LangGraph's paths of tasks, which it passes to savers with every write of a task.

A checkpoint has the ids of its tasks, not their paths. A saver may use the path in its keys, as
`MongoDBSaver` does, so what is saved for a task outside a run needs the path that LangGraph uses.
"""

from collections.abc import Iterable

from agentgraph.graph.internals import PULL, task_path_str
from agentgraph.graph.nodes.saved_calls import number_of as number_of_call
from agentgraph.graph.task_ids import path_of_call
from agentgraph.journal.saved import Saved
from agentgraph.tree.addresses import Cursor, counts_around, number_of_item, parse_address
from agentgraph.tree.places import Place, Tree

MORE = 64
"""How far the call numbers of a node's tasks are looked for, beyond four times their count."""


def task_path(tree: Tree, saved: Saved, task: str, asker: str = "", number: int = 0) -> str:
    """Return LangGraph's path of a task of the step after a checkpoint; empty if it is not known.

    Args:
        tree: The tree.
        saved: The checkpoint.
        task: The id of the task.
        asker: The address in the lane of the task, if it runs one.
        number: The likely number of its call, if the node has called it.
    """
    node = saved.next_node
    if node is None:
        return ""
    own = task_path_str((PULL, node))
    if task == saved.task:
        return own
    place = tree.by_node.get(node)
    lanes = [] if place is None else [*tree.lanes(place)]
    call = [] if place is None else [place.nodes.call, f"{node}.over"]
    likely = [*_likely(tree, lanes, asker), *((name, number) for name in call)]
    rest = range(4 * len(saved.writes) + MORE)
    again = [each.node for each in lanes if each.is_called]
    every = (*likely, *((lane.node, lane.rank) for lane in lanes), *_each(rest, [*call, *again]))
    found = (number for name, number in every if saved.called_task(name, number) == task)
    called = next(found, None)
    return "" if called is None else path_of_call(own, called)


def _likely(tree: Tree, lanes: Iterable[Place], asker: str) -> list[tuple[str, int]]:
    """Return the name and the number of the task whose lane has an address, if it is known."""
    activation = parse_address(tree, asker)
    if activation is None:
        return []
    place, cursor = activation
    while place not in lanes:
        if place.parent is None:
            return []
        place = place.parent
    return [(place.node, number_of_lane(place, cursor[: len(place.counts)]))]


def _each(numbers: Iterable[int], names: list[str]) -> Iterable[tuple[str, int]]:
    return ((name, number) for number in numbers for name in names)


def number_of_lane(place: Place, cursor: Cursor) -> int:
    """Return the call number of the lane that starts at a place, or where they are looked for first."""
    if not place.is_called:
        return place.rank
    counter = cursor[len(counts_around(place))]
    return number_of_call(counter) if place.is_run else number_of_item(counter) + place.is_item
