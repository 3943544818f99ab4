"""What is asked as agents end, by the node in which the last leaf ends: `until`, checks, limits.

All of it is asked before the node writes, in the walk outwards that finds what comes next. What fails
there must undo nothing: the leaf has ended, and was paid. So the node then writes what was said, and a
position that stays at the border: its own node is next, with how the leaf ended and what the functions
before the failing one gave. In the next step that node only walks outwards again; it takes these
answers and asks from there on. In the same run the failure travels to that step in a channel that is
never saved, and is raised there; a resume does not find it, and asks the function that failed.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from langchain_core.messages import BaseMessage, RemoveMessage
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
from agentgraph.graph.nodes.context import ActivationContext, Site, Surroundings
from agentgraph.graph.nodes.stopping import fail_next
from agentgraph.graph.nodes.telling import Teller
from agentgraph.graph.saving import check_saved
from agentgraph.graph.state import Border, Position, Update, address_of, stamped
from agentgraph.tree.addresses import Cursor, address, attempt, is_inside, settled
from agentgraph.tree.places import Place


class Ending:
    """Finds what comes after an activation, and collects what the checks said, told and wrote.

    These are the callbacks that `position` takes.
    """

    def __init__(
        self,
        site: Site,
        cursor: Cursor,
        how: Border,
        see: Callable[[], Surroundings],
        *,
        transfers: int = 0,
        is_border: bool = False,
    ) -> None:
        """Make the ending of an activation.

        Args:
            site: Where it was.
            cursor: The counters at it.
            how: How it ended, and what functions gave before.
            see: Called for what is visible when it has ended.
            transfers: How many transfers there were in this turn.
            is_border: Whether it ended in a step before.
        """
        self._site, self._cursor, self._how, self._see = site, cursor, how, see
        self._transfers, self._is_border = transfers, is_border
        self._kept = iter(how["given"])
        self._new: list[bool] = []
        self._failure: BaseException | None = None
        self._seen: Surroundings | None = None
        self._messages: list[BaseMessage] = []
        self._entries: list[Entry] = []
        self._values: dict[str, Any] = {}

    def position(self, config: RunnableConfig) -> Position:
        """Return where the lane goes on; at the border, where a function fails or asks a person.

        Raises:
            BaseException: The function failed that is asked first at the border: all before is kept.
        """
        try:
            return self._behind(config)
        except BaseException as error:
            border = self._border(error)
            if not self._site.has_border or (self._is_border and border == self._how):
                raise  # to stay would keep nothing new
            self._failure = None if isinstance(error, GraphInterrupt) else error
            return self._staying(border)

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
        cursor = settled(self._site.tree, place, cursor)
        return any(self._sends_back(checked, place, cursor) for checked in place.checks)

    def tell(self, teller: Teller) -> None:
        """Tell what the checks said and told, in order."""
        for entry in self._entries:
            if isinstance(entry, Note):
                teller.note(entry.kind, entry.data, address=entry.address)
            else:
                teller.say(entry)

    def onto(self, update: Update) -> Update:
        """Return what a node writes with what the checks added, and how a function failed."""
        messages = update.get("messages", [])
        if self._messages:
            update["messages"] = [*messages, *self._messages]
        if self._values:
            update["values"] = self._site.and_kept(update.get("values"), self._values)
        if self._failure is not None:
            update["failure"] = self._failure
            fail_next()
        return update

    def _behind(self, config: RunnableConfig) -> Position:
        target = self._how.get("target")
        if target is None:
            return self._site.behind(self._cursor, self._how.get("signal"), self, self._transfers)
        bound = self._site.limits(config).transfers
        if bound is not None and self._transfers >= bound:
            at = self._site.address(self._cursor)
            raise LimitError(self._site.place.name, at, "transfers", bound)
        return self._site.handed_over(self._cursor, target, self._transfers + 1)

    def _border(self, error: BaseException) -> Border:
        """Return how the activation ended, and what all functions gave up to the one that failed."""
        border: Border = {**self._how, "given": [*self._how["given"], *self._new]}
        if self._new:
            border.pop("failed", None)
        if isinstance(error, CheckFailedError):
            border["failed"] = True
        return border

    def _staying(self, border: Border) -> Position:
        position = Position(
            next=self._site.place.node,
            cursor=list(self._cursor),
            tree=self._site.tree.fingerprint,
            border=border,
        )
        if self._transfers:
            position["transfers"] = self._transfers
        return position

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
        if result.failed and (self._new or not self._how.get("failed")):
            raise CheckFailedError(result.failed)
        self._entries += [*notes, *messages]
        self._messages += messages
        self._values.update(result.values)
        self._seen = None
        self._new.append(result.repeats)
        return result.repeats

    def _context(self, place: Place, cursor: Cursor) -> Context:
        now = self._now()
        return ActivationContext(
            place, cursor, self._site.paths, messages=now.messages, values=now.values
        )

    def _now(self) -> Surroundings:
        if self._seen is None:
            self._seen = self._see().with_new(self._messages, self._values)
        return self._seen

    def _said(self, place: Place, cursor: Cursor) -> Sequence[BaseMessage]:
        """Return what was said inside a place in this attempt: the last messages."""
        said: list[BaseMessage] = []
        for message in reversed(self._now().messages):
            if isinstance(message, RemoveMessage):
                continue
            at = address_of(message)
            if at is None or not is_inside(self._site.tree, at, place, cursor):
                break
            said.append(message)
        return said[::-1]


def _given(result: CheckResult) -> Iterator[tuple[str, Any]]:
    """Yield all that a check gives to be kept, each with what it is called in a message."""
    yield from (("the message of a check", message) for message in result.messages)
    yield from (("custom data of a check", data) for data in result.custom)
    yield from ((f"the value {name!r} of a check", value) for name, value in result.values.items())
