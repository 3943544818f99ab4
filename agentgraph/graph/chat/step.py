"""One run of one of LangChain's nodes: the state that the node gets, and what becomes of its update.

The messages in the state are what the agent sees of the history, as its middleware left it. The node's
update is merged by the reducers of LangChain's own channels, and the result is compared with the
messages before. The table in `effects.py` says which changes are for all agents, as changes of the
history. All others are edits of what this agent sees (`context_edits.py`).

After the node, edits and state are saved in the agent's record, as changes. Untracked state goes to a
channel that is never saved, ephemeral state only to the next node. A key that `values=` declares at
compile too is a value of the run; so is all in the key `values`, as in what tools return.

LangGraph passes each task one function to read channels and one to write them; deepagents stores its
files through these. In a lane they know only the channels of the tree. So the code inside a chat agent
gets two functions that know its state: messages, middleware state and declared values. As in LangGraph,
their writes are merged before the update that the node returns, and a read sees them only with
`fresh=True`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from operator import is_
from typing import Any, cast

from langchain_core.messages import BaseMessage, RemoveMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.channels.ephemeral_value import EphemeralValue
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Command, Overwrite

from agentgraph.errors import InvalidOutputError
from agentgraph.graph.agent_records import AgentRecord, change_between
from agentgraph.graph.chat.channels import Channels, channel_of, filled, own_state
from agentgraph.graph.chat.context_edits import (
    OF_TASK,
    Edits,
    as_edited,
    edits_between,
    edits_in,
    with_ids,
)
from agentgraph.graph.copied_values import LEAVES, detached, own, own_list
from agentgraph.graph.foreign.flat_graph import with_state
from agentgraph.graph.message_changes import is_remove_all
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.open_types import Channel
from agentgraph.graph.value_channels import only_merges_messages
from agentgraph.graph.values import copied, is_same
from agentgraph.safe_repr import shown


class Step:
    """One run of a node.

    Attributes:
        messages: The messages that the agent sees; `merge` adds the node's changes.
        own: The state of the agent's middleware; `merge` adds the node's changes.
        edits: The edits of what the agent sees; `say` adds the node's.
        jump_to: Where the node jumps to, if it does.
        answer: The agent's structured response so far, if it has a response format.
    """

    def __init__(
        self,
        activation: Activation,
        channels: Channels,
        visible: Sequence[BaseMessage],
        *,
        answer: object = None,
        keeps_edits: bool = True,
        is_open: bool = True,
        is_graph: bool = False,
    ) -> None:
        """Make a run.

        Args:
            activation: The activation of the agent.
            channels: The channels of the state of its middleware.
            visible: The messages of the history that the agent sees.
            answer: The agent's structured response so far.
            keeps_edits: Whether the edits of the last activation remain.
            is_open: Whether tool calls may be without results.
            is_graph: Whether the agent is a flattened graph, and emits its new messages.
        """
        self.answer = answer
        self._activation, self._is_graph = activation, is_graph
        self._channels = channels
        self._values = activation.view.seen.values
        self._visible = with_ids(activation.view, visible)
        self._has_task = bool(activation.view.tasks)
        self._edits_before = edits_in(activation.view.record, is_of_task=self._has_task)
        is_kept = activation.view.progress or (keeps_edits and not self._has_task)
        self.edits = self._edits_before if is_kept else Edits()
        self.own = own_state(activation, channels)
        seen = self._visible
        self.messages = as_edited(seen, self.edits, is_open=is_open) if self.edits else [*seen]
        self._seen = list(self.messages)
        self._written: set[str] = set()
        self._removed: dict[str | None, None] = {}
        self._touched = False
        self._forgotten: dict[str, list[object]] = {}
        self._overtaken: list[BaseMessage] = []
        self._sent: list[Mapping[str, object]] = []
        self._shared: list[Mapping[str, object]] = []
        self.jump_to: str | None = None

    def state(
        self,
        values: Mapping[str, object] | None = None,
        updates: Sequence[Mapping[str, object]] = (),
        *,
        is_shared: bool = False,
    ) -> dict[str, Any]:
        """Return the state for LangChain's nodes, with each value of the run under its name.

        Args:
            values: The values of the run; None for those that the node sees.
            updates: Updates of tool calls that are merged first.
            is_shared: Whether it is for code that changes nothing in place, and is not copied.
        """
        values = dict(self._values if values is None else values)
        if updates:
            after = self.copied()
            after.merge_calls(updates)
            return after.state(values, is_shared=is_shared)
        state = {**values, **self.own}
        for name, value in self._channels.defaults.items():
            if name not in state:
                state[name] = copied(value)
        if self.jump_to:
            state["jump_to"] = self.jump_to
        if self.answer is not None:
            state["structured_response"] = self.answer
        if is_shared:
            return {**state, "values": values, "messages": list(self.messages)}
        for name, value in state.items():
            if type(value) not in LEAVES and name not in self._channels.unsaved:
                state[name] = own(value)
        return {**state, "values": own(values), "messages": own_list(self.messages)}

    def copied(self) -> "Step":
        """Return a copy, to merge updates that do not count yet."""
        copied = copy(self)
        copied.own, copied._written, copied._removed = dict(self.own), set(), dict(self._removed)
        copied._overtaken, copied._shared = list(self._overtaken), []
        return copied

    def channels(self, every: Mapping[str, Channel]) -> dict[str, Channel]:
        """Return LangGraph's channels of the state with their values, by name.

        Messages are shared with a channel that only merges them: who reads it makes them its own.

        Args:
            every: The channels without values.
        """
        unsaved = self._channels.unsaved
        mine = {name: value if name in unsaved else own(value) for name, value in self.own.items()}
        is_shared = only_merges_messages(every.get("messages"))
        values = {"messages": self.messages if is_shared else own_list(self.messages), **mine}
        return {
            name: filled(channel, values[name]) if name in values else channel.copy()
            for name, channel in every.items()
        }

    def forget(self) -> None:
        """Drop the state and the edits so far."""
        self._forgotten |= {name: [] for name in self.own}
        self.own, self._written, self.edits = {}, set(), {}

    def see(self, messages: Sequence[BaseMessage]) -> None:
        """Replace what the agent sees; nothing is said."""
        self.messages = list(messages)
        self.edits = edits_between(self._visible, messages)

    def config(self) -> RunnableConfig:
        """Return the config for what runs in the node: state is read and written through it."""
        config = self._activation.with_place(self._activation.config)
        return with_state(config, self._channels.names, self._read, self._sent.append)

    def _read(self, fresh: bool) -> dict[str, object]:
        if not (fresh and self._sent):
            return self.state()
        after = self.copied()
        after.merge(None)
        return after.state()

    def emit_sent(self) -> None:
        """Merge and emit what the node wrote to LangGraph's channels, before what it returned."""
        if self._sent:
            self.merge(None)
            self.emit_changes()

    def merge(self, result: object) -> None:
        """Merge what a node wrote to LangGraph's channels, and then what it returned.

        Args:
            result: An update, a `Command`, several of them, or None.
        """
        sent, self._sent = self._sent, []
        for update in (*sent, *_updates(result)):
            for key, value in update.items():
                if key in self._channels.own:
                    self._reduce(key, [value])
                elif key == "messages":
                    self._merge_messages(value)
                elif key == "jump_to":
                    self.jump_to = value
                elif key == "structured_response":
                    self.answer = value
                elif key in self._channels.shared:
                    self._write_values({key: value})
                elif key == "values" and not is_same(value, self._values):  # it may be handed back
                    self._write_values(values_in(update, self._activation.address))

    def merge_calls(self, updates: Iterable[Mapping[str, Any]]) -> None:
        """Merge updates of tool calls; a message that one removes may be gone by another."""
        for update in updates:
            messages = update.get("messages", ())
            there = {message.id for message in (*self.messages, *messages) if _is_message(message)}
            rest = [each for each in messages if _is_message(each) or each.id in there]
            self.merge({**update, "messages": rest} if messages else update)

    def merge_writes(self, writes: Sequence[tuple[str, object]]) -> None:
        """Merge the writes to channels of one step; a channel may reject several values."""
        by_name: dict[str, list[object]] = {}
        for name, value in writes:
            by_name.setdefault(name, []).append(value)
        for name, values in by_name.items():
            if name in self._channels.own:
                self._reduce(name, values)
            elif name == "messages":
                for value in values:
                    self._merge_messages(value)

    def merge_after(self, messages: Sequence[BaseMessage], result: object) -> None:
        """Merge what a node returned after messages that the activation emits itself."""
        self.messages = [*self.messages, *messages]
        self._seen = [*self._seen, *messages]
        self.merge(result)

    def emit_changes(self) -> None:
        """Change the history by what the node did to messages, and save the rest as edits.

        Declared values that the node wrote are written too.
        """
        for values in self._shared:
            self._activation.output.set_values(values)
        self._shared = []
        if not self._touched:
            return
        known = {message.id: message for message in self._seen}
        is_longer = len(self.messages) >= len(self._seen) and all(map(is_, self.messages, self._seen))
        now, gone = dict[str | None, BaseMessage](), set[str | None]()
        for message in self._changed(known):
            effect = self._activation.output.take(message, "hook", is_seen=message.id in known)
            is_longer = is_longer and effect == "said"
            is_edit = effect == "context" or (effect == "nothing" and self._has_task)
            if isinstance(message, RemoveMessage) and not is_edit:
                gone.add(message.id)
            elif not is_edit:
                now[message.id] = self._activation.output.current_message(message.id) or message
        if is_longer:  # the edits are as they were
            return
        visible = [now.get(each.id, each) for each in self._visible if each.id not in gone]
        self.messages = [now.get(each.id, each) for each in self.messages]
        self.edits = edits_between(visible, self.messages, self._activation.output.message_ids)

    def _changed(self, known: Mapping[str | None, BaseMessage]) -> list[BaseMessage]:
        ids = {message.id for message in self.messages}
        changed: list[BaseMessage] = [RemoveMessage(str(i)) for i in self._removed if i not in ids]
        for message in self.messages:
            before = known.get(message.id)
            if before is not message and not is_same(before, message):
                changed.append(message)
        return [*changed, *(message for message in self._overtaken if message.id not in known)]

    def save_edits(self) -> dict[str, object]:
        """Save edits and state, and return the ephemeral state, which only the next node gets."""
        change: dict[str, dict[str, list[object]]] = {}
        if self.edits is not self._edits_before:
            change = change_between(
                cast(AgentRecord, self._edits_before), cast(AgentRecord, self.edits)
            )
            if self._has_task:
                change = {f"{OF_TASK}{name}": entries for name, entries in change.items()}
            named = "what the middleware made of the messages"
            change = self._activation.output.saved(named, change)
        if not self._written and not self._forgotten:
            self._activation.output.write_middleware(change, None)
            return {}
        channels = self._channels.own
        written = {key: self.own[key] for key in sorted(self._written)}
        passing = (UntrackedValue, EphemeralValue)
        state = {k: [v] for k, v in written.items() if not isinstance(channels[k], passing)}
        if state := {**self._forgotten, **state}:
            change["state"] = state
        untracked = {k: v for k, v in self.own.items() if isinstance(channels[k], UntrackedValue)}
        is_new = not untracked.keys().isdisjoint(written)
        self._activation.output.write_middleware(change, untracked if is_new else None)
        return {k: v for k, v in written.items() if isinstance(channels[k], EphemeralValue)}

    def _merge_messages(self, value: object) -> None:
        value = detached(value)
        if isinstance(value, Overwrite):
            value = [RemoveMessage(id=REMOVE_ALL_MESSAGES), *value.value]
        value = self._owned(value)
        before, self._touched = self.messages, True
        self.messages = add_messages(self.messages, value)  # type: ignore[assignment, arg-type]
        several = value if isinstance(value, list) else [value]
        last = max((i for i, each in enumerate(several) if is_remove_all(each)), default=None)
        ids = {message.id for message in self.messages}
        if last is None:
            self._removed |= {each.id: None for each in before if each.id not in ids}
            return
        dropped = [each for each in [*before, *several[:last]] if isinstance(each, BaseMessage)]
        self._overtaken += [each for each in dropped if each.id not in ids]

    def _owned(self, value: Any) -> list[BaseMessage]:
        several = convert_to_messages(value if isinstance(value, list) else [value])
        seen = {message.id: message for message in self.messages}
        owned, is_said = self._activation.output.owned, self._is_graph
        return [owned(each, seen.get(each.id), is_said=is_said) for each in several]

    def _write_values(self, values: Mapping[str, object]) -> None:
        self._shared.append(values)
        self._values = self._activation.node_context.reducers.applied(self._values, values)

    def _reduce(self, key: str, values: Sequence[object]) -> None:
        if not LEAVES.issuperset(map(type, values)) and key not in self._channels.unsaved:
            values = detached([*values])
        channel = channel_of(self._channels.own, self.own, key)
        channel.update(values)
        if not isinstance(channel, UntrackedValue):
            self.own[key] = self._activation.output.saved(f"the state {key!r}", channel.get())
        else:
            self.own[key] = channel.get()
        self._written.add(key)


def _is_message(message: BaseMessage) -> bool:
    return not isinstance(message, RemoveMessage) or is_remove_all(message)


def values_in(update: Mapping[str, object], where: str) -> Mapping[str, object]:
    """Return the entry `values` of an update: values of the run.

    Raises:
        InvalidOutputError: It is not a mapping; the error begins with `where`.
    """
    values = update.get("values")
    if not isinstance(values, Mapping | None):
        raise InvalidOutputError(
            f"{where}: an update of the state has values={shown(values)}; give the values of the run "
            "as a dict, such as {'topic': 'bees'}"
        )
    return values or {}


def _updates(result: object) -> Iterator[Mapping[str, Any]]:
    match result:
        case None:
            return
        case Command(update=update):
            yield from _updates(update)
        case Mapping():
            yield result
        case tuple() if result and isinstance(result[0], str):
            yield {result[0]: result[1]}
        case list() | tuple():
            for each in result:
                yield from _updates(each)


def is_update(result: object) -> bool:
    """Return whether LangGraph takes what a node of `create_agent` returned for an update.

    >>> is_update({"x": 1}), is_update([Command(update={"x": 1}), {"y": 2}]), is_update(["x"])
    (True, True, False)
    """
    match result:
        case None | Mapping():
            return True
        case Command(update=update):
            return update is None or isinstance(update, Mapping) or _are_pairs(update)
        case list() | tuple():
            return any(isinstance(each, Command) for each in result) and all(map(is_update, result))
    return False


def _are_pairs(update: object) -> bool:
    """Return whether an update is a list of pairs, each the name of a channel and its value."""
    several = update if isinstance(update, list | tuple) else [update]
    return all(isinstance(e, tuple) and len(e) == 2 and isinstance(e[0], str) for e in several)


@contextmanager
def in_config(config: RunnableConfig) -> Iterator[None]:
    """Make a config the one that `get_config()` returns.

    LangChain's nodes run in the config of the task around them, not in the one that they are given.
    """
    token = var_child_runnable_config.set(config)
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)
