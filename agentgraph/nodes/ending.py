"""What is asked as agents end, by the node in which the last leaf ends: `until`, and checks."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast
from uuid import uuid4

from langchain_core.messages import BaseMessage, RemoveMessage
from langgraph.config import get_config

from agentgraph.addresses import Cursor, address, attempt, is_inside, settled
from agentgraph.context import Context
from agentgraph.nodes.site import Site, Surroundings
from agentgraph.places import Place
from agentgraph.saving import check_saved
from agentgraph.schemas import plain
from agentgraph.signals import Verdict
from agentgraph.state import Update, address_of, in_order, stamped


class Ending:
    """Asks in the place of `position`, and collects what the checks said, told and wrote."""

    def __init__(self, site: Site, seen: Callable[[], Surroundings]) -> None:
        self._site, self._see = site, seen
        self._seen: Surroundings | None = None
        self._messages: list[BaseMessage] = []
        self._told: list[Any] = []
        self._values: dict[str, Any] = {}

    def ends(self, loop: Place, cursor: Cursor) -> bool:
        """Tell whether a loop ends, by its `until`."""
        try:
            return bool(cast(Any, loop.agent).until(self._context(loop, cursor)))
        except Exception as error:
            error.add_note(f"It was `until` of the loop {loop.name!r} that failed.")
            raise

    def repeats(self, place: Place, cursor: Cursor) -> bool:
        """Tell whether a place is to run again, by its checks, the innermost first."""
        cursor = settled(self._site.tree, place, cursor)
        at = address(place, cursor)
        for checked in place.checks:
            context = self._context(place, cursor)
            verdict = checked.check(context, self._said(place, cursor), attempt(place, cursor))
            check_saved(get_config(), at, _given(verdict))
            self._told += [
                [len(self._messages), str(uuid4()), "custom", plain(data), at]
                for data in verdict.custom
            ]
            self._messages += [stamped(message, at) for message in verdict.messages]
            self._values.update(verdict.values)
            self._seen = None
            if verdict.again:
                return True
        return False

    def entries(self) -> list[Any]:
        """Return what the checks said and told, in order."""
        return in_order(self._messages, self._told)

    def onto(self, update: Update) -> Update:
        """Return what a node writes with what the checks added."""
        messages = update.get("messages", [])
        if self._told:
            position = update["position"]
            behind = [[len(messages) + before, *entry] for before, *entry in self._told]
            position["told"] = [*position.get("told", ()), *behind]
        if self._messages:
            update["messages"] = [*messages, *self._messages]
        if self._values:
            update["values"] = self._site.and_kept(update.get("values"), self._values)
        return update

    def _context(self, place: Place, cursor: Cursor) -> Context:
        now = self._now()
        return Context(place, cursor, self._site.paths, messages=now.messages, values=now.values)

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


def _given(verdict: Verdict) -> Iterator[tuple[str, Any]]:
    """Yield all that a check gives to be kept, each with what it is called in a message."""
    yield from (("the message of a check", message) for message in verdict.messages)
    yield from (("custom data of a check", data) for data in verdict.custom)
    yield from ((f"the value {name!r} of a check", value) for name, value in verdict.values.items())
