"""The output of an activation: messages and notes, values of the run, and records.

All is collected here while the node runs, and the activation makes the node's update of it. Events get
their numbers from the emitter: some at once, the others when the node ends.
"""

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from os import urandom
from typing import Any, TypeVar
from uuid import UUID, uuid4

from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig

from agentgraph.agents.schemas import plain_at
from agentgraph.agents.signals import Kept
from agentgraph.graph.agent_records import RecordChange, RecordChanges, collected, keeping
from agentgraph.graph.copied_values import detached
from agentgraph.graph.effects import (
    Effect,
    Giver,
    MessageChange,
    Owner,
    answered_in,
    change_by,
    must_not_replace,
)
from agentgraph.graph.nodes.emitter import Emitter, Writer, with_writer
from agentgraph.graph.nodes.replies import AUTOMATIC, Replies
from agentgraph.graph.nodes.view import View
from agentgraph.graph.paired_calls import calls_of
from agentgraph.graph.saving import as_saved, check_names
from agentgraph.graph.stamps import (
    PROVIDER_ID,
    STAMP,
    STEERED,
    Note,
    address_of,
    agent_of,
    is_steered,
    renamed,
    stamped,
)
from agentgraph.graph.state import Update
from agentgraph.graph.stored_values import counts_for_values, without_copies
from agentgraph.graph.values import Write, in_order
from agentgraph.tree.addresses import keeper_node
from agentgraph.tree.run_paths import transfers_in

M = TypeVar("M", bound=BaseMessage)

_ID = attrgetter("id")
_OWN: Collection[Owner] = ("here", "earlier")


class Output:
    """The output of an activation.

    Attributes:
        emitter: Emits its messages and notes.
        config: LangGraph's config for the code that runs in it: its stream writer emits notes.
        messages: Its messages, and its other changes of the history.
        writes: The values that it writes.
        changes: Its changes of the records of middleware and of what agents keep.
        untracked: The new unsaved state of its middleware; None if that is unchanged.
        replies: Assigns ids to the replies of models and their chunks; None if it receives none.
    """

    replies: Replies | None = None
    _unsaid: dict[str, int] | None = None
    _chunk_ids: dict[UUID, str | None] | None = None

    def __init__(
        self, view: View, config: RunnableConfig, *, runs_lanes: bool = False, runs_trees: bool = False
    ) -> None:
        """Begin with nothing.

        Args:
            view: The state that the activation sees.
            config: LangGraph's config of the node.
            runs_lanes: Whether the node runs lanes, which may emit concurrently.
            runs_trees: Whether the node runs a graph that may itself be a compiled tree.
        """
        self._view, self._address, self._node_context = view, view.address, view.node_context
        self._node_config = config
        is_concurrent = runs_lanes or view.node_context.is_inner
        state = view.state
        self.emitter = Emitter(
            state.clock,
            view.address,
            config,
            is_concurrent=is_concurrent,
            step=state.step,
            transferred=view.transferred() if view.node_context.transfers_index is not None else (),
        )
        if view.node_context.streams_transfers and any(
            chain := transfers_in(view.node_context.place, view.cursor)
        ):
            self.emitter.stream_transfers(chain)
        self.config = with_writer(config, Writer(self.emitter, passes_ours=runs_trees))
        self.messages: list[BaseMessage] = []
        self._own_ids: set[str] = set()
        self.writes: list[Write] = []
        self._is_merged = False
        self.changes: RecordChanges = {}
        self.untracked: Mapping[str, object] | None = None

    def emit_message(self, message: BaseMessage) -> None:
        """Write a new message to the history, and emit it when the node ends."""
        self.emit_stamped(self.stamped(message))

    def emit_stamped(self, message: BaseMessage) -> None:
        """Write a new message that has its stamp to the history, and emit it when the node ends."""
        self.messages.append(self.saved("the message", message))
        self.emitter.add_message(self.messages[-1])

    def emit_text(self, text: str, message_id: str | None = None, *, live: bool = False) -> None:
        """Write a text of the agent to the history and emit it, as `emit_message` does a message.

        The message is made with its stamp: making it first and then a stamped copy costs twice.
        """
        if not text.isascii():
            self.saved("the message", AIMessage(text))
        message = AIMessage(
            text,
            id=message_id or str(uuid4()),
            name=self._node_context.place.home.name,
            response_metadata={STAMP: [self._address]},
        )
        self.messages.append(message)
        self.emitter.add_message(message)
        if live:
            self.emitter.flush()

    def receive(self, message: BaseMessage) -> BaseMessage:
        """Write a message that the user sends to the running run to the history, and emit it.

        Returns:
            The message as it is written: with a stamp, but without an agent's name.
        """
        marked = {**message.additional_kwargs, STEERED: True}
        metadata = {**message.response_metadata, STAMP: [self._address]}
        written = message.model_copy(
            update={"additional_kwargs": marked, "response_metadata": metadata}
        )
        self.messages.append(written)
        self.emitter.add_message(written)
        self.emitter.flush()
        return written

    def take(
        self, message: BaseMessage, giver: Giver, *, is_seen: bool = False, live: bool = False
    ) -> Effect:
        """Make the change of the history that a message makes, and emit it.

        Args:
            message: The message.
            giver: The source of the update.
            is_seen: Whether a message with its id is in the agent's context.
            live: Whether to emit a new message at once instead of when the node ends. A message that
                discards others waits for the end, because the node may fail.
        """
        is_reply = self._takes_reply(message.id or "")
        change = self.change_by(detached(message), giver, is_seen=is_seen, is_reply=is_reply)
        if change.messages:
            saved = self.saved("the message", message)
            if saved is not message:
                change = self.change_by(saved, giver, is_seen=is_seen, is_reply=is_reply)
            self.emitter.add_change(change)
            self.messages += change.messages
        if live and change.effect == "said":
            self.emitter.flush()
        return change.effect

    def change_by(
        self, message: BaseMessage, giver: Giver, *, is_seen: bool = False, is_reply: bool = False
    ) -> MessageChange:
        """Return the change of the history that a message makes, by the table in `effects.py`."""
        key = message.id or ""
        was = None
        if key:
            was = (None if is_reply else self.own_message(key, giver)) or self.current_message(key)
        owner: Owner = "other" if is_seen else "none"
        if was is not None:
            owner = self._owner(was, giver)
            if was.id != key:
                message = message.model_copy(update={"id": was.id})
        name = self._node_context.place.home.name
        return change_by(
            message,
            was,
            owner,
            giver,
            self._address,
            name,
            is_taken=bool(key) and self.is_taken(key),
            is_reply=is_reply,
            answered=self._answered(was) if calls_of(was or message) else (),
        )

    def owned(
        self,
        message: BaseMessage,
        seen: BaseMessage | None,
        *,
        is_said: bool = False,
        is_concurrent: bool = False,
    ) -> BaseMessage:
        """Return a message of an update, under another id if it must not have its own.

        One without an id gets one, which is also that in the history: the agent sees it under no other.

        Args:
            message: The message.
            seen: The message with its id that the agent sees; None if it sees none.
            is_said: Whether it is said if the agent sees none; else it is for the agent alone if the
                history has one.
            is_concurrent: Whether others of the agent may be said concurrently.
        """
        key = message.id
        if not key:
            return message.model_copy(update={"id": self._new_id()})
        if isinstance(message, RemoveMessage) or key in self._own_ids:
            return message
        was = seen or self.own_message(key, "hook") or (None if is_said else self.current_message(key))
        if was is not None and not must_not_replace(message, was, self._answered(was)):
            return message if was.id == key else message.model_copy(update={"id": was.id})
        if was is None and not (is_concurrent or self.is_taken(key)):
            return message
        return renamed(message, self._new_id())

    def _new_id(self) -> str:
        new_id = str(uuid4())
        self._own_ids.add(new_id)
        return new_id

    def is_taken(self, message_id: str) -> bool:
        """Return whether another message has an id, or may get it from who runs concurrently."""
        is_given = self.replies is not None and self.replies.has_assigned(message_id)
        if is_given or message_id in self._own_ids:
            return False
        return self._node_context.is_inner or self.is_known(message_id)

    def is_known(self, message_id: str) -> bool:
        """Return whether a message of the history has an id."""
        return message_id in map(_ID, self._view.state.messages)

    def received(self, reply_id: str) -> None:
        """Note that a model has replied under an id."""
        self._unsaid = self._unsaid or {}
        self._unsaid[reply_id] = self._unsaid.get(reply_id, 0) + 1

    def name_chunk(self, message: BaseMessage, run_id: UUID) -> None:
        """Give the chunks of a call of a model the id of the first one."""
        self._chunk_ids = self._chunk_ids or {}
        message.id = self._chunk_ids.setdefault(run_id, message.id or f"{AUTOMATIC}-{run_id}")

    def _takes_reply(self, message_id: str) -> bool:
        """Return whether a message is a reply that a model has given and that is not said yet."""
        if not self._unsaid or not self._unsaid.get(message_id):
            return False
        self._unsaid[message_id] -= 1
        return True

    def own_message(self, message_id: str, giver: Giver = "function") -> BaseMessage | None:
        """Return the agent's own message that has an id, or that came with it; None without one."""
        was = self.current_message(message_id)
        if was is not None and self._owner(was, giver) in _OWN:
            return was
        for each in reversed([*self._view.lane_messages, *self.messages]):
            came_with = each.response_metadata.get(PROVIDER_ID)
            if came_with == message_id and self._owner(each, giver) in _OWN:
                return self.current_message(each.id)
        return None

    def _answered(self, was: BaseMessage | None) -> set[str]:
        return answered_in(was, [*self._view.state.messages, *self.messages]) if was else set()

    def _owner(self, was: BaseMessage, giver: Giver) -> Owner:
        at = address_of(was)
        if at is None or is_steered(was):
            mine = (*self._view.lane_messages, *self.messages)
            is_here = was.type == "human" and any(each.id == was.id for each in mine)
            return "user" if is_here else "other"
        place, paths = self._node_context.place, self._node_context.paths
        if agent_of(was, paths.inner_names) != place.home.name:
            return "other"
        mine = (*self._view.lane_messages, *self.messages)
        if giver != "hook" and not any(each.id == was.id for each in mine):
            return "other"  # it was said in a lane around this one, where others may take its id too
        here = [*self.messages, *self._view.earlier_messages()]
        return "here" if any(each.id == was.id for each in here) else "earlier"

    def stamped(self, message: M, *, is_concurrent: bool = False) -> M:
        """Return a new message with the address at which it is said, and the name of its agent.

        It gets another id if another message has its own, or may get it.

        Args:
            message: The message.
            is_concurrent: Whether others of the agent may be said concurrently.
        """
        key, context, new_id = message.id, self._node_context, None
        is_free = not key or (self.replies is not None and self.replies.has_assigned(key))
        if not is_free and (
            is_concurrent or context.is_inner or key in map(_ID, self._view.state.messages)
        ):
            new_id = urandom(16).hex()  # as `uuid4` makes it, without its calls
        return stamped(message, self._address, context.place.home.name, new_id=new_id)

    def add_emitted(self, messages: Sequence[BaseMessage], notes: Sequence[Note] = ()) -> None:
        """Write messages and notes that tasks or a call have already emitted."""
        self.messages += messages
        self.emitter.notes += notes

    def emit_note(self, kind: str, data: object = None) -> None:
        """Emit a note at once: `custom` data or a signal."""
        self.emitter.add_note(kind, self.saved("custom data", data))
        self.emitter.flush()

    def new_emitter(self, *, is_concurrent: bool) -> Emitter:
        """Return a new emitter for the activation, or for one of its tool calls."""
        state, config = self._view.state, self._node_config
        return Emitter(state.clock, self._address, config, is_concurrent=is_concurrent, step=state.step)

    def current_message(self, message_id: str | None) -> BaseMessage | None:
        """Return the current version of a message, or None if it is removed or not visible here."""
        for message in reversed(self.messages):
            if message.id == message_id:
                return None if isinstance(message, RemoveMessage) else message
        return next((each for each in self._view.state.messages if each.id == message_id), None)

    def lose_chunks(self, said: Collection[str | None] = ()) -> None:
        """Stream which replies are lost that were streamed: all but those of some messages.

        Messages come first, as they do where they are emitted at once.
        """
        if self.replies is not None and (lost := self.replies.unsaid(said)):
            self.emitter.flush()
            self.emitter.stream_lost(lost)

    @property
    def message_ids(self) -> set[str | None]:
        """The ids of the messages of this step."""
        return {message.id for message in self.messages if not isinstance(message, RemoveMessage)}

    def last_text(self) -> str | None:
        """Return the text of the last message of this step, or None."""
        gone: set[str | None] = set()
        for message in reversed(self.messages):
            if isinstance(message, RemoveMessage):
                gone.add(message.id)
            elif address_of(message) is not None and message.id not in gone:
                return str(message.text)
        return None

    def set_values(self, values: Mapping[str, object]) -> None:
        """Write values of the run."""
        self._add([Write(by=self._address, values=self.saved_values(detached(dict(values))))])

    def emit_values(self, values: Mapping[str, object], *, live: bool = False) -> None:
        """Write values of the run, and emit them: when the node ends, or at once."""
        values = self.saved_values(detached(dict(values)))
        self._add([Write(by=self._address, values=values)])
        if emitted := self._node_context.reducers.emitted(values):
            self.emitter.add_note("values", emitted)
            if live:
                self.emitter.flush()

    def write(self, writes: Sequence[Write]) -> None:
        """Write values of the run, in order; writes by "" are the package's own and never conflict."""
        own = ("", self._address)
        self._add(
            [
                Write(by=each["by"], values=self.saved_values(each["values"]))
                if each["by"] in own
                else each
                for each in writes
            ]
        )

    def _add(self, writes: Sequence[Write]) -> None:
        self.writes = self._node_context.reducers.collected(self.writes, writes)

    def saved_values(self, values: Mapping[str, object], whose: str = "") -> dict[str, object]:
        """Return values with their declared types, as the saver will give them back.

        Args:
            values: The values.
            whose: The owner of the values, for the error message.
        """
        check_names(self._address, values)
        saved = {}
        for name, value in values.items():
            typed = self._node_context.reducers.converter(name)
            given = value if typed is None else typed(value)
            saved[name] = as_saved(
                self.config, self._address, f"the value {name!r}{whose}", given, typed
            )
        return saved

    def merge_values(self) -> None:
        """Check the values written; in the root also run the reducers of users, once and for all."""
        if self._is_merged:
            return
        self._is_merged = True
        merged = self._view.state.check(self._address, self.writes)
        if not self._node_context.is_inner:
            self._save_merged(merged)
            stored = self._node_context.update(self.writes, self._view.state.values, merged)
            self.writes = [Write(by=self._address, values=dict(each)) for each in in_order(stored)]

    def _save_merged(self, merged: dict[str, object]) -> None:
        reducers = self._node_context.reducers
        for name in {name for write in self.writes for name in write["values"]}:
            if name in merged and reducers.saves_result(name):
                named = f"what the reducer of {name!r} returned"
                typed = reducers.converter(name)
                merged[name] = as_saved(self.config, self._address, named, merged[name], typed)

    def write_values(self, update: Update) -> None:
        """Write the values into an update, whose notes then need no copies of them.

        In the root it writes now and then none, so that steps without values count, too.
        """
        if self.writes:
            update["values"] = self._node_context.update(self.writes, self._view.state.values)
            if notes := update["position"].get("told"):
                update["position"]["told"] = without_copies(notes, update["values"])
        elif not self._node_context.is_inner and counts_for_values(self._node_config):
            update["values"] = {}

    def keep(self, kept: Kept) -> None:
        """Keep data for enclosing agents, each the nearest one with its name."""
        for name, entries in kept.items():
            kept = self.saved("what it keeps", dict(entries))
            self.keep_changes(keeping(keeper_node(self._node_context.place, name), kept))

    def keep_changes(self, *changes: RecordChanges) -> None:
        """Write changes of records, such as those of middleware in the lanes of this activation."""
        self.changes = collected(self.changes, changes)

    def write_middleware(self, change: RecordChange, untracked: Mapping[str, object] | None) -> None:
        """Write the changes of the middleware's record, and its untracked state if that is new."""
        self.changes = {self._node_context.place.home.node: change} if change else {}
        self.untracked = untracked

    def plain(self, named: str, value: object) -> Any:
        """Return a value of the agent as plain JSON data, or reject it."""
        return plain_at(self._address, named, value)

    def saved(self, named: str, value: object) -> Any:
        """Return a value as the run's saver will return it, or reject it."""
        return as_saved(self.config, self._address, named, value)
