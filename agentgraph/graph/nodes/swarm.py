"""The active agent: the node of a swarm, and how a swarm or a chat agent begins at the active agent.

The active agent is a value of the run, so that the next turn knows it, and others may read and write
it. In an inner lane it is a value of that lane alone.
"""

from collections.abc import Sequence
from typing import cast

from agentgraph.agents.agents import SwarmAgent
from agentgraph.agents.kinds import active_key
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.leaf import LeafNode
from agentgraph.graph.values import Write
from agentgraph.safe_repr import shown
from agentgraph.tree.places import Place


class SwarmNode(LeafNode):
    """Finds the agent at which a swarm begins."""

    def __init__(self, node_context: NodeContext) -> None:
        super().__init__(node_context)
        self.agent = cast(SwarmAgent, node_context.place.agent)
        self._members = node_context.tree.children[node_context.place]

    def run(self, activation: Activation) -> None:
        """Go to the active agent."""
        first = self._members[self.agent.first]
        active = active_of(activation, self._members) if self.agent.sticky else None
        enter_active(activation, active or first)


def active_of(activation: Activation, places: Sequence[Place]) -> Place | None:
    """Return the place that is active, by the value that says so; None where there is no such value.

    Args:
        activation: The activation of the swarm, or of the chat agent.
        places: Those that may be active.

    Raises:
        InvalidOutputError: The value names none of them.
    """
    swarm, values = activation.node_context.place, activation.view.lane_values
    keys = (active_key(swarm.agent, name) for name in swarm.names)
    key = next((each for each in keys if each in values), None)
    if key is None:
        return None
    active = next((place for place in places if values[key] in place.names), None)
    if active is None:
        raise InvalidOutputError(
            f"{activation.address}: the value {key!r} is {shown(values[key])}, which is not one of its "
            f"agents; choose one of: {', '.join(shown(place.given_name) for place in places)}"
        )
    return active


def enter_active(activation: Activation, active: Place) -> None:
    """Go to an agent, and write that it is active."""
    key = cast(str, active_key(activation.node_context.place.agent))
    if activation.view.lane_values.get(key) != active.name:
        activation.output.write([Write(by="", values={key: active.name})])
    activation.enter(active)
