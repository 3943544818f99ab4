"""What comes after an activation that ends: `until` and checks are asked, and limits looked at.

All of that is asked before the node writes, in the walk outwards that finds what comes next. What fails
there must undo nothing: the leaf has ended, and was paid. So the node then writes what was said, and a
position that stays at the border: its own node is next, with how the leaf ended and what the functions
before the failing one gave. In the next step that node only walks outwards again; it takes these
answers and asks from there on. In the same run the failure travels to that step in a channel that is
never saved, and is raised there; a resume does not find it, and asks the function that failed.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.errors import GraphInterrupt

from agentgraph.agents.agents import CheckedAgent
from agentgraph.agents.context import Context
from agentgraph.agents.schemas import plain_at
from agentgraph.agents.signals import CheckResult
from agentgraph.errors import CheckFailedError, LimitError
from agentgraph.graph.failures import add_note
from agentgraph.graph.moments import Entry, Note
from agentgraph.graph.nodes.context import ActivationContext, NodeContext, RunState
from agentgraph.graph.nodes.emitter import Emitter
from agentgraph.graph.saving import check_saved
from agentgraph.graph.state import Border, Position, address_of, stamped
from agentgraph.tree.addresses import Cursor, address, attempt, is_inside, settled
from agentgraph.tree.places import Place
from agentgraph.tree.position import advance, transfer


class Completion:
    """Finds what comes after an activation, and collects what the checks said and wrote.

    `advance` calls `ends` and `repeats`, in the order in which the way leads outwards.

    Attributes:
        messages: The messages of the checks.
        values: The values that they wrote.
        failure: How a function failed that is to be asked again.
    """

    def __init__(
        self,
        node_context: NodeContext,
        cursor: Cursor,
        ending: Border,
        see: Callable[[], RunState],
        *,
        transfers: int,
        is_border: bool,
    ) -> None:
        """Begin to ask.

        Args:
            node_context: Where the activation was.
            cursor: The counters at it.
            ending: How it ended, and what functions gave before.
            see: Called for what is visible when it has ended.
            transfers: How many transfers there were in this turn.
            is_border: Whether it ended in a step before.
        """
        self._node_context, self._cursor, self._ending, self._see = node_context, cursor, ending, see
        self._transfers, self._is_border = transfers, is_border
        self._kept = iter(ending["given"])
        self._new: list[bool] = []
        self._seen: RunState | None = None
        self._entries: list[Entry] = []
        self.messages: list[BaseMessage] = []
        self.values: dict[str, Any] = {}
        self.failure: BaseException | None = None

    def position(self, config: RunnableConfig) -> Position:
        """Return where the lane goes on; at the border, where a function fails or asks a person.

        Raises:
            BaseException: The function failed that is asked first at the border: all before is kept.
        """
        node_context, target, transfers = self._node_context, self._ending.get("target"), self._transfers
        try:
            if target is None:
                signal = self._ending.get("signal")
                comes = advance(node_context.tree, node_context.place, self._cursor, signal, self)
            else:
                self._check_limit(config)
                comes = transfer(node_context.tree, node_context.place, self._cursor, target)
                transfers += 1
        except BaseException as error:
            border = self._border(error)
            if not node_context.has_border or (self._is_border and border == self._ending):
                raise  # to stay would keep nothing new
            self.failure = None if isinstance(error, GraphInterrupt) else error
            position = node_context.position(node_context.place.node, self._cursor, transfers)
            position["border"] = border
            return position
        node = comes.place.entry_node if comes.place else None
        return node_context.position(node, comes.cursor, transfers, comes.signal)

    def ends(self, loop: Place, cursor: Cursor) -> bool:
        """Tell whether a loop ends, by its `until`."""
        if (kept := next(self._kept, None)) is not None:
            return kept
        try:
            ends = bool(cast(Any, loop.agent).until(self._context(loop, cursor)))
        except Exception as error:
            add_note(error, f"It was `until` of the loop {loop.name!r} that failed.")
            raise
        self._new.append(ends)
        return ends

    def repeats(self, place: Place, cursor: Cursor) -> bool:
        """Tell whether a place is to run again, by its checks, the innermost first."""
        cursor = settled(self._node_context.tree, place, cursor)
        return any(self._sends_back(checked, place, cursor) for checked in place.checks)

    def emit(self, emitter: Emitter) -> None:
        """Tell what the checks said and told, in order."""
        for entry in self._entries:
            if isinstance(entry, Note):
                emitter.add_note(entry.kind, entry.data, address=entry.address)
            else:
                emitter.add_message(entry)

    def _check_limit(self, config: RunnableConfig) -> None:
        """Refuse one more transfer than a turn may have."""
        bound = self._node_context.limits(config).transfers
        if bound is not None and self._transfers >= bound:
            at = self._node_context.address(self._cursor)
            raise LimitError(self._node_context.place.name, at, "transfers", bound)

    def _border(self, error: BaseException) -> Border:
        """Return how the activation ended, and what all functions gave up to the one that failed."""
        border: Border = {**self._ending, "given": [*self._ending["given"], *self._new]}
        if self._new:
            border.pop("failed", None)
        if isinstance(error, CheckFailedError):
            border["failed"] = True
        return border

    def _sends_back(self, checked: CheckedAgent, place: Place, cursor: Cursor) -> bool:
        if (kept := next(self._kept, None)) is not None:
            return kept
        at, context = address(place, cursor), self._context(place, cursor)
        try:
            result = checked.check(context, self._said(place, cursor), attempt(place, cursor))
            check_saved(get_config(), at, _given(result))
            custom = [plain_at(at, "custom data of a check", data) for data in result.custom]
            notes = [Note("", "custom", data, at) for data in custom]
            messages = [stamped(message, at) for message in result.messages]
        except Exception as error:
            add_note(error, f"It was a check of the agent {place.name!r} that failed.")
            raise
        if result.failed and (self._new or not self._ending.get("failed")):
            raise CheckFailedError(result.failed)
        self._entries += [*notes, *messages]
        self.messages += messages
        self.values.update(result.values)
        self._seen = None
        self._new.append(result.repeats)
        return result.repeats

    def _context(self, place: Place, cursor: Cursor) -> Context:
        now = self._now()
        return ActivationContext(
            place, cursor, self._node_context.paths, messages=now.messages, values=now.values
        )

    def _now(self) -> RunState:
        if self._seen is None:
            self._seen = self._see().with_new(self.messages, self.values)
        return self._seen

    def _said(self, place: Place, cursor: Cursor) -> Sequence[BaseMessage]:
        """Return what was said inside a place in this attempt: the last messages."""
        said: list[BaseMessage] = []
        for message in reversed(self._now().messages):
            at = address_of(message)
            if at is None or not is_inside(self._node_context.tree, at, place, cursor):
                break
            said.append(message)
        return said[::-1]


def _given(result: CheckResult) -> Iterator[tuple[str, Any]]:
    """Yield all that a check gives to be kept, each with what it is called in a message."""
    yield from (("the message of a check", message) for message in result.messages)
    yield from (("custom data of a check", data) for data in result.custom)
    yield from ((f"the value {name!r} of a check", value) for name, value in result.values.items())
