"""One run of one of LangChain's nodes: the state that it sees, and what it made of it.

The messages of the state are what the agent sees of the history, as its middleware left it. What a node
gives is merged by the reducers of LangChain's own channels, and the outcome is compared with what was
seen. New messages of models and tools are said. The agent's own are replaced where they stand, and so
are the user's, for all. Everything else is an edit of what this agent sees.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast
from uuid import NAMESPACE_URL, uuid5

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.channels.ephemeral_value import EphemeralValue
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.errors import EmptyChannelError
from langgraph.graph.message import add_messages
from langgraph.types import Command

from agentgraph.chat.edits import Edits, edited, edits_between
from agentgraph.history import paired
from agentgraph.nodes.activation import Activation
from agentgraph.state import address_of, speaker_of
from agentgraph.values import Write

_CONTEXT = ("messages", "jump_to")
"""The channels that are not the middleware's own."""


class Step:
    """One run of a node.

    Attributes:
        messages: What the agent sees; after `merge` what the node made of it.
        own: The state of the agent's middleware, likewise.
        edits: The edits of what the agent sees; after `say` with those of this node.
        jump_to: Where the node wants to go, if it says so.
    """

    def __init__(
        self,
        activation: Activation,
        channels: Mapping[str, Any],
        visible: Sequence[BaseMessage],
        kept: Mapping[str, Any],
        *,
        is_open: bool = True,
    ) -> None:
        """Make a run.

        Args:
            activation: The activation of the agent.
            channels: The channels of the state of its middleware.
            visible: What the agent sees of the history.
            kept: What its middleware keeps: "state" and "edits".
            is_open: Whether calls may have no results yet.
        """
        self._activation, self._channels = activation, channels
        self._visible = [_with_id(m, activation.address, i) for i, m in enumerate(visible)]
        self.own: dict[str, Any] = dict(kept.get("state", {}))
        self.edits = cast(Edits, kept.get("edits", {}))
        seen = edited(self._visible, self.edits) if self.edits else list(self._visible)
        self.messages = seen if is_open or not self.edits else paired(seen)
        self._seen = list(self.messages)
        self._touched = False
        self._shared: list[Write] = []
        self.jump_to: str | None = None

    @property
    def state(self) -> dict[str, Any]:
        """The state as LangChain's nodes take it, and the values of the run by their names."""
        seen = self._activation.seen
        return self.state_with(
            dict(seen.with_new((), self._shared).values if self._shared else seen.values)
        )

    def state_with(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the state, with other values of the run."""
        own = dict(self._available())
        jump = {"jump_to": self.jump_to} if self.jump_to else {}
        return {**values, "values": values, **own, **jump, "messages": list(self.messages)}

    def kept(self) -> dict[str, Any]:
        """Return what is kept while the activation is under way."""
        own = {k: v for k, v in self.own.items() if not isinstance(self._channels[k], EphemeralValue)}
        found = {"state": own, "edits": self.edits}
        return {key: value for key, value in found.items() if value}

    def merge(self, given: Any) -> None:
        """Take what a node gave: an update, a command, or several."""
        for update in _updates(given):
            for key, value in update.items():
                if key == "messages":
                    self._touched = True
                    self.messages = add_messages(self.messages, value)  # type: ignore[assignment, arg-type]
                elif key == "jump_to":
                    self.jump_to = value
                elif key in self._channels:
                    self._reduce(key, value)
                elif key in self._activation.site.reducers.declared:
                    self._activation.set_values({key: value})
                    self._shared.append(Write(by=self._activation.address, values={key: value}))

    def say(self) -> None:
        """Say what is new, write what was replaced, and keep the rest as edits."""
        if not self._touched:
            return
        known = {message.id: message for message in self._seen}
        written: dict[str | None, BaseMessage] = {}
        said: set[str | None] = set()
        for message in self.messages:
            before = known.get(message.id)
            if before is None and isinstance(message, AIMessage | ToolMessage):
                self._activation.say(message)
                said.add(message.id)
            elif _is_other(before, message) and self._write(message):
                written[message.id] = message
        visible = [written.get(message.id, message) for message in self._visible]
        self.edits = edits_between(visible, self.messages, said)
        self._activation.check("what the middleware made of the messages", self.edits)

    def _write(self, message: BaseMessage) -> bool:
        """Write a message that was replaced into the history, if it is the agent's or the user's."""
        activation = self._activation
        was = next((each for each in activation.written_here if each.id == message.id), None)
        if was is None:
            return False
        if address_of(was) is None and was.type == message.type == "human":
            activation.rewrite(message)
            return True
        if speaker_of(was) == activation.name:
            activation.say(message)
            return True
        return False

    def _reduce(self, key: str, value: Any) -> None:
        channel = self._channel(key)
        channel.update([value])
        if not isinstance(channel, EphemeralValue):
            self._activation.check(f"the state {key!r} of the middleware", channel.get())
        self.own[key] = channel.get()

    def _channel(self, key: str) -> Any:
        channel = self._channels[key]
        if key not in self.own:
            return channel.copy()
        if not isinstance(channel, UntrackedValue):
            return channel.from_checkpoint(self.own[key])
        untracked = channel.copy()
        untracked.update([self.own[key]])
        return untracked

    def _available(self) -> Iterator[tuple[str, Any]]:
        for key in self._channels:
            if key not in _CONTEXT:
                try:
                    yield key, self._channel(key).get()
                except EmptyChannelError:
                    continue


def _with_id(message: BaseMessage, address: str, index: int) -> BaseMessage:
    """Return a message that middleware can name: with an id, the same whenever it is seen here."""
    if message.id:
        return message
    return message.model_copy(update={"id": str(uuid5(NAMESPACE_URL, f"{address} {index}"))})


def _is_other(before: BaseMessage | None, message: BaseMessage) -> bool:
    return before is not None and before is not message and before != message


def lasting(channels: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return what outlasts an activation of what middleware keeps: nothing untracked."""
    own = {
        key: value
        for key, value in kept.get("state", {}).items()
        if not isinstance(channels.get(key), UntrackedValue)
    }
    found = {"state": own, "edits": kept.get("edits", {})}
    return {key: value for key, value in found.items() if value}


def _updates(given: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the updates in what a node gave."""
    match given:
        case None:
            return
        case Command(update=update):
            yield from _updates(update)
        case Mapping():
            yield given
        case tuple() if given and isinstance(given[0], str):
            yield {given[0]: given[1]}
        case list() | tuple():
            for each in given:
                yield from _updates(each)
