"""A client of a conversation, which joins its parts as the page does (`window/page/turns.js`)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import agentgraph as ag
from agentgraph.reports.conversation import Conversation, Sent

Read = Callable[..., Conversation]
"""Reads a part of a conversation, by the keyword arguments of `conversation`."""


@dataclass(frozen=True)
class Talk:
    """The joined parts of a conversation."""

    sent: Sequence[Sent]
    events: Sequence[ag.AgentEvent]
    gone: frozenset[str]
    begin: str
    upto: str
    is_whole: bool

    @classmethod
    def of(cls, part: Conversation) -> "Talk":
        gone = frozenset(part.discarded)
        return cls(part.sent, part.events, gone, part.begin, part.upto, part.is_whole)

    def later(self, part: Conversation) -> "Talk":
        """Return it with the part that was read since `upto`."""
        if not part.continues:
            return Talk.of(part)
        gone = (self.gone | {*part.discarded}) - {each.id for each in part.events}
        before = [e for e in self.events if (e.cursor or "") <= part.after]
        sent = [each for each in self.sent if each.at < part.begin]
        events = [*_without(before, part.events, gone), *part.events]
        return Talk([*sent, *part.sent], events, gone, self.begin, part.upto, self.is_whole)

    def earlier(self, part: Conversation) -> "Talk":
        """Return it with the part before `begin`."""
        gone = (self.gone | {*part.discarded}) - {each.id for each in self.events}
        events = [*_without(part.events, self.events, gone), *self.events]
        return Talk([*part.sent, *self.sent], events, gone, part.begin, self.upto, part.is_whole)


def _without(
    events: Sequence[ag.AgentEvent], newer: Sequence[ag.AgentEvent], gone: frozenset[str]
) -> list[ag.AgentEvent]:
    ids = gone | {each.id for each in newer}
    return [each for each in events if ids.isdisjoint((each.id, each.step))]


def read_back(read: Read, **options: Any) -> Talk:
    """Return a conversation, read from its end part by part."""
    talk = Talk.of(read(**options))
    while not talk.is_whole:
        talk = talk.earlier(read(before=talk.begin, **options))
    return talk
