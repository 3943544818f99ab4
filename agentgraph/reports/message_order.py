"""Sorts the messages of agents by the tree, so that the last message does not depend on time.

Events are in the order of time. After concurrent branches, steps, items or calls, the message of the
last declared one is the last, as in the history.
"""

from collections.abc import Iterator, Sequence

from agentgraph.events.events import AgentEvent
from agentgraph.graph.paired_calls import in_call_order
from agentgraph.graph.stamps import is_steered
from agentgraph.journal.lines import order_of
from agentgraph.tree.addresses import parse_address, places_to
from agentgraph.tree.places import Tree


def order_in_tree(tree: Tree, events: Sequence[AgentEvent]) -> tuple[int, ...]:
    """Return the indexes of the events with messages of agents, in the order of the tree.

    Discarded messages are left out.
    """
    discarded = {name for each in events if each.action for name in each.action.discarded}
    said = [
        each
        for each in events
        if each.message is not None
        and not is_steered(each.message)
        and not (
            discarded
            and (each.id in discarded or each.step in discarded)
            and _is_discarded(each, events)
        )
    ]
    if any(tree.lanes(place) for place in tree.places):
        begun: dict[str, int] = {}
        keys = {id(each): [*_key(tree, each, begun, n)] for n, each in enumerate(said)}
        said.sort(key=lambda each: keys[id(each)])
    indexes = {id(each.message): index for index, each in enumerate(events)}
    messages = [each.message for each in said if each.message is not None]
    return tuple(indexes[id(message)] for message in in_call_order(messages))


def _is_discarded(event: AgentEvent, events: Sequence[AgentEvent]) -> bool:
    at = next(n for n, each in enumerate(events) if each is event)
    later = (each.action.discarded for each in events[at + 1 :] if each.action)
    return any(event.id in names or event.step in names for names in later)


def _key(tree: Tree, event: AgentEvent, begun: dict[str, int], number: int) -> Iterator[int]:
    """Yield the sort key of an event: its lanes from the outside in, then its number.

    Each lane is two numbers: the first event of the agent that runs the lane, and the lane's order.

    Args:
        tree: The tree.
        event: The event.
        begun: The numbers of the first events inside agents with lanes, by address.
        number: The number of the event.
    """
    activation = parse_address(tree, event.address)
    parts = event.address.split("/")
    for depth, place in enumerate(places_to(activation[0]) if activation else ()):
        if depth and place.starts_lane:
            yield begun.setdefault("/".join(parts[:depth]), number)
            yield order_of(place, event.address)
    yield number
