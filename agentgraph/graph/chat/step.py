"""One run of one of LangChain's nodes: the state that it sees, and what it made of it.

The messages of the state are what the agent sees of the history, as its middleware left it. What a node
gives is merged by the reducers of LangChain's own channels, and the outcome is compared with what was
seen. New messages of models and tools are said. The agent's own are replaced where they stand, and so
are the user's, for all. Everything else is an edit of what this agent sees.

What outlasts the node: edits and state go to the agent's record, as changes; untracked state to a
channel that is never saved; ephemeral state to the next node alone. A key that `values=` declares at
compile too is a value of the run.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels.ephemeral_value import EphemeralValue
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.errors import EmptyChannelError
from langgraph.graph.message import add_messages
from langgraph.types import Command

from agentgraph.graph.chat.edits import SECTIONS, Edits, edited, edits_between
from agentgraph.graph.chat.state_access import with_state
from agentgraph.graph.history import is_said, is_word, paired
from agentgraph.graph.middleware_state import change_between
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.state import address_of, is_remove_all, speaker_of, with_id
from agentgraph.graph.values import copied, is_same

_CONTEXT = ("messages", "jump_to", "structured_response")
"""The channels that are not the middleware's own."""


class Channels:
    """The channels of the state of an agent's middleware.

    Attributes:
        names: The names of all, but for the messages and where to jump.
        own: Those of the middleware alone, by name.
        shared: The names of those that the values of the run declare too.
        defaults: What channels begin with, by name, if with anything.
    """

    def __init__(self, channels: Mapping[str, Any], declared: Collection[str]) -> None:
        """Tell channels apart.

        Args:
            channels: The channels of the state, by name.
            declared: The names of the declared values of the run.
        """
        self.names = frozenset(channels).difference(_CONTEXT)
        self.shared = self.names.intersection(declared)
        self.own = {name: channels[name] for name in sorted(self.names - self.shared)}
        self.defaults = dict(_defaults({name: channels[name] for name in self.names}))
        self._untracked = _named(self.own, UntrackedValue)
        self._ephemeral = _named(self.own, EphemeralValue)

    def tracked(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is saved of a state."""
        others = self._untracked | self._ephemeral
        return {name: value for name, value in state.items() if name not in others}

    def untracked(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is never saved of a state."""
        return {name: state[name] for name in self._untracked if name in state}

    def ephemeral(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return what only the next node sees of a state."""
        return {name: state[name] for name in self._ephemeral if name in state}

    def filled(self, values: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of the run and a state, and what channels begin with that have nothing."""
        state = {**values, **own}
        for name, value in self.defaults.items():
            if name not in state:
                state[name] = copied(value)
        return state


class Step:
    """One run of a node.

    Attributes:
        messages: What the agent sees; after `merge` what the node made of it.
        own: The state of the agent's middleware, likewise.
        edits: The edits of what the agent sees; after `say` with those of this node.
        jump_to: Where the node wants to go, if it says so.
        answer: What the agent came to so far, if it has a response format.
    """

    def __init__(
        self,
        activation: Activation,
        channels: Channels,
        visible: Sequence[BaseMessage],
        *,
        answer: Any = None,
        keeps_edits: bool = True,
        is_open: bool = True,
    ) -> None:
        """Make a run.

        Args:
            activation: The activation of the agent.
            channels: Those of the state of its middleware.
            visible: What the agent sees of the history.
            answer: What the agent came to so far: LangChain's `structured_response`.
            keeps_edits: Whether the edits of the last activation are still there.
            is_open: Whether calls may have no results yet.
        """
        self.answer = answer
        self._activation = activation
        self._channels = channels
        self._values = activation.values
        self._visible = _with_ids(visible, activation.address)
        record = activation.record
        self._kept = {name: record[name] for name in SECTIONS if name in record}
        is_under_way = bool(activation.progress)
        self.edits = cast(Edits, self._kept if is_under_way or keeps_edits else {})
        self.own = own_state(activation, channels)
        seen = edited(self._visible, self.edits) if self.edits else list(self._visible)
        self.messages = seen if is_open or not self.edits else paired(seen)
        self._seen = list(self.messages)
        self._said: set[str | None] = set()
        self._written: set[str] = set()
        self._removed: set[str | None] = set()
        self._touched = False
        self.jump_to: str | None = None

    @property
    def state(self) -> dict[str, Any]:
        """The state as LangChain's nodes take it, and the values of the run by their names."""
        return self.state_with(dict(self._values))

    def state_after(
        self, values: dict[str, Any], updates: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Return the state with other values of the run, and after updates of the middleware's own."""
        if not updates:
            return self.state_with(values)
        after = copy(self)
        after.own, after._written = dict(self.own), set()
        after.merge(updates)
        return after.state_with(values)

    def config(self) -> RunnableConfig:
        """Return the config for what runs in the node: LangGraph's ways to the state lead here."""
        names = self._channels.names
        return with_state(self._activation.config, names, lambda: self.state, self.merge)

    def state_with(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the state, with other values of the run."""
        own = self._channels.filled(values, self.own)
        if self.jump_to:
            own["jump_to"] = self.jump_to
        if self.answer is not None:
            own["structured_response"] = self.answer
        return {**own, "values": values, "messages": list(self.messages)}

    def merge(self, given: Any) -> None:
        """Take what a node gave: an update, a command, or several."""
        for update in _updates(given):
            for key, value in update.items():
                if key == "messages":
                    self._merge_messages(value)
                elif key == "jump_to":
                    self.jump_to = value
                elif key == "structured_response":
                    self.answer = value
                elif key in self._channels.shared:
                    self._write_value(key, value)
                elif key in self._channels.own:
                    self._reduce(key, value)

    def merge_after(self, said: Sequence[BaseMessage], given: Any) -> None:
        """Take what a node gave besides messages that the activation says: it comes after them."""
        self.messages = [*self.messages, *said]
        self._seen = [*self._seen, *said]
        self._said = {message.id for message in said}
        self.merge(given)

    def say(self) -> None:
        """Say what is new, write what was replaced, and keep the rest as edits."""
        if not self._touched:
            return
        known = {message.id: message for message in self._seen}
        written: dict[str | None, BaseMessage] = {}
        said = set(self._said)
        gone = self._taken_back()
        for message in self.messages:
            before = known.get(message.id)
            if before is None and is_said(message):
                self._activation.say(message)
                said.add(message.id)
            elif _is_other(before, message) and self._write(message):
                written[message.id] = message
        visible = [written.get(each.id, each) for each in self._visible if each.id not in gone]
        self.edits = edits_between(visible, self.messages, said)

    def keep(self) -> dict[str, Any]:
        """Write what outlasts the node, and return what is passed to the next one alone."""
        change: dict[str, Any] = {}
        if self.edits is not self._kept:
            change = change_between(self._kept, cast(Any, self.edits))
            self._activation.check("what the middleware made of the messages", change)
        if not self._written:
            self._activation.keep_middleware(change, None)
            return {}
        channels, written = self._channels, {key: self.own[key] for key in sorted(self._written)}
        if tracked := channels.tracked(written):
            change["state"] = {key: [value] for key, value in tracked.items()}
        is_new = bool(channels.untracked(written))
        self._activation.keep_middleware(change, channels.untracked(self.own) if is_new else None)
        return channels.ephemeral(written)

    def _taken_back(self) -> set[str | None]:
        """Void what this activation said that was removed by its id, and return the ids.

        What ran stays: only what a model said without calls can be taken back.
        """
        if not self._removed:
            return set()
        left = {message.id for message in self.messages}
        gone: set[str | None] = set()
        for message in self._activation.said_before():
            if is_word(message) and message.id in self._removed - left:
                self._activation.take_back(str(message.id))
                gone.add(message.id)
        return gone

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
            activation.say_instead(message, was)
            return True
        return False

    def _merge_messages(self, value: Any) -> None:
        before, self._touched = {message.id for message in self.messages}, True
        self.messages = add_messages(self.messages, value)  # type: ignore[assignment, arg-type]
        several = value if isinstance(value, list) else [value]
        if not any(map(is_remove_all, several)):
            self._removed |= before - {message.id for message in self.messages}

    def _write_value(self, key: str, value: Any) -> None:
        self._activation.set_values({key: value})
        self._values = self._activation.site.reducers.applied(self._values, {key: value})

    def _reduce(self, key: str, value: Any) -> None:
        channel = _channel(self._channels.own, self.own, key)
        channel.update([value])
        if not isinstance(channel, UntrackedValue):
            self._activation.check(f"the state {key!r} of the middleware", channel.get())
        self.own[key] = channel.get()
        self._written.add(key)


def own_state(activation: Activation, channels: Channels) -> dict[str, Any]:
    """Return the state of the agent's middleware that an activation finds."""
    saved, passed = activation.record.get("state", {}), activation.progress.get("passed", {})
    found = {**saved, **activation.untracked, **passed}
    return {name: found[name] for name in found if name in channels.own}


def _channel(channels: Mapping[str, Any], own: Mapping[str, Any], key: str) -> Any:
    """Return a channel with what is in it; a copy, for reducers may change it."""
    channel = channels[key].copy()
    if key not in own:
        return channel
    if not isinstance(channel, UntrackedValue):
        return channel.from_checkpoint(copied(own[key]))
    channel.update([own[key]])
    return channel


def _defaults(channels: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what channels begin with, by their names, if with anything."""
    for name, channel in channels.items():
        try:
            yield name, channel.copy().get()
        except EmptyChannelError:
            continue


def _named(channels: Mapping[str, Any], kind: type) -> frozenset[str]:
    return frozenset(name for name, channel in channels.items() if isinstance(channel, kind))


def _with_ids(messages: Sequence[BaseMessage], address: str) -> list[BaseMessage]:
    """Return messages that middleware can name."""
    return [m if m.id else with_id(m, f"{address} {i}") for i, m in enumerate(messages)]


def _is_other(before: BaseMessage | None, message: BaseMessage) -> bool:
    return before is not None and not is_same(before, message)


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
