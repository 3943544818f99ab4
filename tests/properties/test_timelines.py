"""Timelines of random trees: sound after each call, and the same whether read whole or bit by bit."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conversations import Case, Thread, hold
from helpers import Drive
from helpers.talk import Talk, read_back
from helpers.timelines import check_same, check_sound
from hypothesis import event, given
from hypothesis import strategies as st
from test_rewound_trees import NUMBERS, SIBLINGS, GoingBack
from test_spine import DRIVES, TEXTS, cases, file, share

import agentgraph as ag
from agentgraph.reports.conversation import Conversation, conversation

__all__ = ["file"]


class Timed(Thread):
    """A thread whose timeline is read after each call, whole and by who has read it before.

    Attributes:
        reads: How often it was read.
    """

    def __init__(self, case: Case, drive: Drive, path: Path | None) -> None:
        super().__init__(case, drive, path)
        self.reader: ag.Timeline | None = None
        self.talk: Talk | None = None
        self.reads = 0

    def call(self, method: str, *args: Any, **options: Any) -> list[ag.AgentEvent]:
        events = super().call(method, *args, **options)
        self.check_timeline()
        return events

    def timeline(self, **options: Any) -> ag.Timeline:
        read: ag.Timeline = self.use(
            lambda runner: runner.timeline(self.id, **options),
            lambda runner: runner.atimeline(self.id, **options),
        )
        return read

    def check_timeline(self) -> None:
        whole = self.timeline()
        self.reads += 1
        assert whole.is_whole
        check_sound(whole, self.events())
        since = self.reader.upto if self.reader else None
        later = self.timeline(since=since)
        self.reader = self.reader.joined(later) if self.reader else later
        check_same(self.reader, whole)
        check_sound(self.timeline(last=1 + self.reads % 3))
        assert self.timeline(since=whole.upto).upto == whole.upto
        self.check_conversation()

    def part(self, **options: Any) -> Conversation:
        """Read a part of the conversation."""
        read: Conversation = self.use(
            lambda runner: runner.engine.read(conversation, self.id, **options),
            lambda runner: runner.engine.aread(conversation, self.id, **options),
        )
        return read

    def check_conversation(self) -> None:
        """Compare the conversation with the events: whole, read back in parts, and read bit by bit."""
        events = self.events()
        whole = Talk.of(self.part(steps=None))
        assert whole.events == events
        assert whole.is_whole
        assert [*read_back(self.part, steps=self.reads % 4).events] == events
        later = self.talk.later(self.part(since=self.talk.upto)) if self.talk else whole
        self.talk = later if later.is_whole else read_back(self.part)
        assert [*self.talk.events] == events
        assert [*self.talk.sent] == [*whole.sent]


@share(0.3)
@given(case=cases(texts=TEXTS), drive=DRIVES, is_kept=st.booleans())
def test_a_timeline_is_sound_after_each_call(
    file: Path, case: Case, drive: Drive, is_kept: bool
) -> None:
    thread = Timed(case, drive, file if is_kept else None)
    hold(thread)
    ended = thread.timeline()
    assert all(bar.ended is not None for bar in ended.bars)
    event(f"reads {thread.reads}")


@share(0.3)
@given(
    case=cases(texts=TEXTS),
    drive=DRIVES,
    is_kept=st.booleans(),
    numbers=NUMBERS,
    siblings=SIBLINGS,
)
def test_after_a_rewind_a_timeline_is_sound(
    file: Path, case: Case, drive: Drive, is_kept: bool, numbers: Sequence[int], siblings: str
) -> None:
    thread = Timed(case, drive, file if is_kept else None)
    hold(thread)
    back = GoingBack(thread)
    for number in numbers:
        back.go(number, siblings, by_step=False)
