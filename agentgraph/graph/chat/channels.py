"""The channels of an agent's state: of its middleware, or of its graph."""

from collections.abc import Collection, Mapping

from langgraph.channels.untracked_value import UntrackedValue

from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.open_types import Channel
from agentgraph.graph.value_channels import first_values
from agentgraph.graph.values import copied

_LANGCHAINS = ("messages", "jump_to", "structured_response")
"""The channels of LangChain's agents that are not their middleware's."""


class Channels:
    """The channels of an agent's state: of its middleware, or of its graph.

    Attributes:
        names: The names of all that can be read and written: channels, and declared values.
        own: The channels that only the agent has, by name.
        shared: The names of the declared values of the run.
        defaults: The initial values of the channels that have one, by name.
        unsaved: The names of its channels that are never saved. They may hold resources, such as a
            process, which are not copied.
    """

    def __init__(
        self,
        channels: Mapping[str, Channel],
        declared: Collection[str] = (),
        others: Collection[str] = _LANGCHAINS,
    ) -> None:
        """Divide the channels.

        Args:
            channels: The channels of the state, by name.
            declared: The names of the declared values of the run.
            others: The names of the channels that are not its own.
        """
        self.shared = frozenset(declared).difference(others)
        self.names = self.shared.union(channels, ("messages",))
        mine = frozenset(channels).difference(others)
        self.own = {name: channels[name] for name in sorted(mine - self.shared)}
        self.defaults = first_values({name: channels[name] for name in mine})
        self.unsaved = frozenset(n for n, c in self.own.items() if isinstance(c, UntrackedValue))


def own_state(activation: Activation, channels: Channels) -> dict[str, object]:
    """Return the state of the agent's middleware at the start of a step."""
    saved, passed = activation.view.record.get("state", {}), activation.view.progress.get("passed", {})
    state = {**saved, **activation.view.untracked, **passed}
    return {name: state[name] for name in state if name in channels.own}


def channel_of(channels: Mapping[str, Channel], own: Mapping[str, object], key: str) -> Channel:
    """Return a channel that holds its current value, copied since reducers may change it."""
    return filled(channels[key], copied(own[key])) if key in own else channels[key].copy()


def filled(channel: Channel, value: object) -> Channel:
    """Return a channel that holds a value."""
    if not isinstance(channel, UntrackedValue):
        return channel.from_checkpoint(value)
    filled = channel.copy()
    filled.update([value])
    return filled
