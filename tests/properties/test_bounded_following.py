"""What a reader lacks of random trees' threads, read from the steps since its cursor alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conversations import Case, Thread, hold
from helpers import Drive
from hypothesis import event, given
from hypothesis import strategies as st
from test_rewound_trees import NUMBERS, SIBLINGS, GoingBack
from test_spine import DRIVES, TEXTS, cases, file, share

import agentgraph as ag
from agentgraph.journal.replay import events_in_steps, events_since
from agentgraph.journal.story import present_story
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.threads.live.following import last_number

__all__ = ["file"]


async def told_of_all(saver: ThreadSaver, after: str | None, upto: int | None) -> list[ag.AgentEvent]:
    """Return what a reader lacks, from all checkpoints of the thread."""
    return events_in_steps(saver, (await present_story(saver)).lanes, after, upto)


class Followed(Thread):
    """A thread whose readers are asked after each call what they lack, at some of their cursors."""

    def __init__(self, case: Case, drive: Drive, path: Path | None) -> None:
        super().__init__(case, drive, path)
        self.compared = 0

    def call(self, method: str, *args: Any, **options: Any) -> list[ag.AgentEvent]:
        events = super().call(method, *args, **options)
        cursors = [each.cursor for each in self.heard if each.cursor]
        some = {None, *cursors[-3:], *(self.choices.choice(cursors) for _ in cursors[:4])}
        upto = self.read(last_number)
        for after in sorted(some, key=str):
            for end in (None, upto):
                assert self.read(events_since, after, end) == self.read(told_of_all, after, end), after
                self.compared += 1
        return events

    def read(self, reads: Any, *args: Any) -> Any:
        return self.use(
            lambda runner: runner.engine.read(reads, self.id, *args),
            lambda runner: runner.engine.aread(reads, self.id, *args),
        )


@share(0.15)
@given(
    case=cases(texts=TEXTS),
    drive=DRIVES,
    is_kept=st.booleans(),
    numbers=NUMBERS,
    siblings=SIBLINGS,
)
def test_a_reader_gets_the_same_from_the_steps_since_its_cursor_as_from_all(
    file: Path, case: Case, drive: Drive, is_kept: bool, numbers: Sequence[int], siblings: str
) -> None:
    thread = Followed(case, drive, file if is_kept else None)
    hold(thread)
    back = GoingBack(thread)
    for number in numbers:
        back.go(number, siblings, by_step=False)
    event(f"compared {thread.compared // 50 * 50}")
