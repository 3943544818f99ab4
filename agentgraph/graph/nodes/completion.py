"""Finds the next position after an activation: calls `until` and checks, and enforces limits.

These functions are called before the node writes, on the walk outwards through the enclosing composites
(`tree/position.py: advance`). One that fails must not undo the leaf, which has ended and was paid for.
So the node then writes its messages, and a position at the *boundary*: the same node is next, with how
the leaf ended and the answers of the functions before the failing one. In the next step this node only
walks outwards again, takes the saved answers, and calls the rest. In the same run the failure is passed
to that step in a channel that is never saved, and raised there; a resume has no failure in that
channel, so it calls the failed function again.

If a function returned an awaitable, the walk is made again once an async run has awaited it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.errors import GraphDrained, GraphInterrupt

from agentgraph.agents.agents import CheckedAgent
from agentgraph.agents.context import Context
from agentgraph.agents.schemas import plain_at
from agentgraph.errors import CheckFailedError
from agentgraph.graph.agent_records import RecordChanges, collected, keeping
from agentgraph.graph.copied_values import detached
from agentgraph.graph.failures import add_note
from agentgraph.graph.lane_position import Boundary, Position, add_details
from agentgraph.graph.nodes.asking import Answers, Unanswered
from agentgraph.graph.nodes.context import ActivationContext, NodeContext, RunState
from agentgraph.graph.nodes.emitter import Emitter
from agentgraph.graph.saving import as_saved
from agentgraph.graph.stamps import Entry, Note, address_of, stamped
from agentgraph.graph.sync_async import Calls
from agentgraph.tree.addresses import (
    Cursor,
    address,
    attempt,
    is_inside,
    keeper_node,
    without_last_transfers,
)
from agentgraph.tree.places import Place
from agentgraph.tree.position import active_after, advance, transfer


class Completion:
    """Finds the next position, and collects messages and values of checks.

    `advance` calls `ends` and `repeats`, the innermost place first.

    Attributes:
        messages: The messages of the checks.
        values: The values of the checks.
        changes: The messages that the checks keep.
        failure: The failure of the function to call again.
    """

    def __init__(
        self,
        node_context: NodeContext,
        cursor: Cursor,
        ending: Boundary,
        see: Callable[[], RunState],
        count_transfer: Callable[[], None],
        *,
        is_boundary: bool,
    ) -> None:
        """Make a completion.

        Args:
            node_context: The place of the activation.
            cursor: The counters at the place.
            ending: How the activation ended, and the saved answers of functions.
            see: Returns the visible state at its end.
            count_transfer: Counts a transfer, or rejects it.
            is_boundary: Whether it ended in an earlier step.
        """
        self._node_context, self._cursor, self._ending, self._see = node_context, cursor, ending, see
        self._count_transfer, self._is_boundary = count_transfer, is_boundary
        self._new: list[bool] = []
        self._asked = Answers()
        self._state: RunState | None = None
        self._entries: list[Entry] = []
        self.messages: list[BaseMessage] = []
        self.values: dict[str, object] = {}
        self.changes: RecordChanges = {}
        self.failure: BaseException | None = None

    def awaited(self) -> Calls[Position]:
        """Return the next position, as `position` does; async runs await what functions return."""
        return self._asked.run(self.position)

    def position(self) -> Position:
        """Return the lane's next position; the boundary if a function fails or asks a person.

        Raises:
            BaseException: The first function at the boundary failed: nothing new has to be saved.
            Unanswered: A function returned an awaitable.
        """
        node_context, target = self._node_context, self._ending.get("target")
        self._answers = iter([*self._ending["given"], *self._new])
        try:
            if target is None:
                signal = self._ending.get("signal")
                comes = advance(node_context.tree, node_context.place, self._cursor, signal, self)
            else:
                if "granted" not in self._ending:
                    self._count_transfer()
                at, there = node_context.address(self._cursor), node_context.targets[target]
                self._entries.append(Note("", "transfer_to", there.name, at))
                comes = transfer(node_context.tree, node_context.place, self._cursor, there)
                self.values.update(active_after(there, node_context.place.home))
        except Unanswered:
            raise
        except BaseException as error:
            boundary = self._boundary(error)
            if not node_context.has_boundary or (self._is_boundary and boundary == self._ending):
                raise  # there is nothing new to save
            self.failure = None if isinstance(error, GraphInterrupt | GraphDrained) else error
            position = node_context.position(node_context.place.node, self._cursor)
            position["border"] = boundary
            return position
        node = comes.place.nodes.entry if comes.place else None
        position = node_context.position(node, comes.cursor, comes.signal)
        if comes.signal:
            add_details(position, self._ending)
        return position

    def ends(self, loop: Place, cursor: Cursor) -> bool:
        """Return whether the `until` of a loop ends it."""
        if (answer := next(self._answers, None)) is not None:
            return answer
        try:
            until, context = cast(Any, loop.agent).until, self._context(loop, cursor)
            ends: object = self._asked.ask(len(self._new), context.address, "until", until, context)
        except Exception as error:
            add_note(error, f"It was `until` of the loop {loop.name!r} that failed.")
            raise
        self._new.append(bool(ends))
        return self._new[-1]

    def repeats(self, place: Place, cursor: Cursor) -> bool:
        """Return whether a check makes a place run again; the innermost check is asked first."""
        cursor = without_last_transfers(self._node_context.tree, place, cursor)
        return any(self._check_repeats(checked, place, cursor) for checked in place.checks)

    def emit(self, emitter: Emitter) -> None:
        """Emit the messages and notes of the checks, in order."""
        for entry in self._entries:
            if isinstance(entry, Note):
                emitter.add_note(entry.kind, entry.data, address=entry.address)
            else:
                emitter.add_message(entry)

    def _boundary(self, error: BaseException) -> Boundary:
        boundary: Boundary = {**self._ending, "given": [*self._ending["given"], *self._new]}
        if self._new:
            boundary.pop("failed", None)
        if isinstance(error, CheckFailedError):
            boundary["failed"] = True
        return boundary

    def _check_repeats(self, checked: CheckedAgent, place: Place, cursor: Cursor) -> bool:
        if (answer := next(self._answers, None)) is not None:
            return answer
        at, context = address(place, cursor), self._context(place, cursor)
        try:
            arguments = (context, self._messages_inside(place, cursor), attempt(place, cursor))
            result = self._asked.ask(len(self._new), at, "check", checked.check, *arguments)
            config = get_config()
            said = (as_saved(config, at, "the message of a check", each) for each in result.messages)
            custom = [plain_at(at, "custom data of a check", data) for data in result.custom]
            custom = [as_saved(config, at, "custom data of a check", data) for data in custom]
            notes = [Note("", "custom", data, at) for data in custom]
            messages = [stamped(detached(message), at) for message in said]
            values = self._saved_values(config, at, detached(dict(result.values)))
            kept = {
                name: as_saved(config, at, f"what a check keeps for {name!r}", dict(each))
                for name, each in result.kept.items()
            }
        except Exception as error:
            add_note(error, f"It was a check of the agent {place.name!r} that failed.")
            raise
        if result.failed and (self._new or not self._ending.get("failed")):
            raise CheckFailedError(result.failed)
        self._entries += [*notes, *messages]
        self.messages += messages
        self.values.update(values)
        changes = [keeping(keeper_node(place, name), each) for name, each in kept.items()]
        self.changes = collected(self.changes, changes)
        self._state = None
        self._new.append(result.repeats)
        return self._new[-1]

    def _saved_values(
        self, config: RunnableConfig, at: str, values: Mapping[str, object]
    ) -> dict[str, object]:
        """Return values of a check with their declared types, as the saver will give them back."""
        saved = {}
        for name, value in values.items():
            typed = self._node_context.reducers.converter(name)
            given = value if typed is None else typed(value)
            saved[name] = as_saved(config, at, f"the value {name!r} of a check", given, typed)
        return saved

    def _context(self, place: Place, cursor: Cursor) -> Context:
        return ActivationContext(place, cursor, self._node_context.paths, self._now())

    def _now(self) -> RunState:
        if self._state is None:
            self._state = self._see().with_new(self.messages, self.values, self.changes)
        return self._state

    def _messages_inside(self, place: Place, cursor: Cursor) -> Sequence[BaseMessage]:
        """Return the messages from inside a place in this attempt: the last ones of the history."""
        messages: list[BaseMessage] = []
        for message in reversed(self._now().messages):
            at = address_of(message)
            if at is None or not is_inside(self._node_context.tree, at, place, cursor):
                break
            messages.append(message)
        return messages[::-1]
