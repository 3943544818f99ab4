"""The places to which an agent may transfer."""

from collections.abc import Iterator
from typing import cast

from agentgraph.agents.agents import (
    Agent,
    Composite,
    Handoff,
    handoff_to,
)
from agentgraph.agents.kinds import peers_of
from agentgraph.tree.places import Place, Tree


def targets(tree: Tree, place: Place) -> dict[str, Place]:
    """Return the possible targets of an agent's transfers, by name: sub-agents, parent, peers."""
    place = place.home
    if not (place.kind.transfers or place.is_target):
        return {}
    inside = tree.children.get(place, ()) if place.kind.transfers else ()
    found: dict[str, Place] = {}
    for target in (*inside, *_transfer_targets(tree, place)):
        found.setdefault(target.given_name, target)
    return found


def handoff_of(target: Place) -> Handoff:
    """Return the handoff to a place."""
    return handoff_to(target.parent and target.parent.agent, cast(Agent, target.agent))


def _transfer_targets(tree: Tree, place: Place) -> Iterator[Place]:
    around = place.parent
    if around is None or not place.is_target:
        return
    if around.chat is not None and not place.returns:
        yield around
    peers = {each.name for each in peers_of(cast(Composite, around.agent), place.given_name)}
    yield from (each for each in tree.children[around] if each.given_name in peers)
    if around.kind.is_swarm and around.parent is not None and around.parent.kind.is_swarm:
        yield from _transfer_targets(tree, around)
