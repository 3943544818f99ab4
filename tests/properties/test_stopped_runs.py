"""Random trees whose runs are stopped and steered: all ends as if the user had said it there."""

import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest
import specs
from comparison import whole
from conversations import MOST_RESUMES, Case, Thread
from helpers import Drive, Sync, unvoided
from helpers.databases import Place
from hypothesis import event, given
from hypothesis import strategies as st
from lanes import Lane
from langchain_core.messages import BaseMessage
from record import Record
from test_left_runs import calmed, check_unbroken
from test_spine import DRIVES, cases, share

import agentgraph as ag

MOST_STOPS = 8
"""How often a run is stopped at most, so that it ends."""


class Timed(Record):
    """A record that says when each model was asked, too."""

    def __init__(self) -> None:
        super().__init__()
        self.times: dict[str, list[float]] = defaultdict(list)

    def asks(self, chat: specs.Chat, ctx: ag.Context, sent: list[BaseMessage]) -> list[BaseMessage]:
        with self.lock:
            self.times[ctx.address].append(time.time())
        return super().asks(chat, ctx, sent)


class Interfered(Thread):
    """A thread whose runs are stopped, and steered, when so many events were heard.

    Attributes:
        sent: The texts that were sent to its runs.
    """

    def __init__(self, case: Case, drive: Drive, path: Place | None = None) -> None:
        super().__init__(case, drive, path)
        self.record = Timed()
        self.sent: list[str] = []
        self._stop_in = self._steer_in = -1

    def interfere(self, *, stops: bool, steers: bool) -> None:
        """Stop and steer the next run after some of its events."""
        self._stop_in = self.choices.randint(1, 12) if stops else -1
        self._steer_in = self.choices.randint(1, 8) if steers else -1

    @property
    def is_stopped(self) -> bool:
        """Whether the last run was asked to stop."""
        return self._stop_in == 0

    def hear(self, event: ag.AgentEvent) -> None:
        super().hear(event)
        assert self._runner is not None
        self._stop_in, self._steer_in = self._stop_in - 1, self._steer_in - 1
        if self._stop_in == 0:
            self._runner.stop(self.id)
        if self._steer_in == 0:
            self.sent.append(f"steer {len(self.sent)}")
            self._runner.steer(self.id, self.sent[-1])
        self._stop_in, self._steer_in = max(self._stop_in, 0), max(self._steer_in, 0)


def _interfere_again_and_again(thread: Interfered, *, stops: bool, steers: bool) -> int:
    """Run a turn to its end, stopping and steering it at random; return how often it was stopped."""
    choices, stopped = thread.choices, 0
    thread.interfere(stops=stops, steers=steers)
    thread.run("hello")
    for n in range(MOST_RESUMES):
        was_stopped, questions = thread.is_stopped, thread.pending()
        status = thread.use(lambda r: r.thread(thread.id), lambda r: r.athread(thread.id)).status
        assert status in (("paused",) if questions else ("stopped", "done"))
        assert was_stopped or status != "stopped"
        if status == "done":
            return stopped
        stopped += status == "stopped"
        thread.interfere(stops=stops and n < MOST_STOPS, steers=steers and choices.random() < 0.5)
        thread.answer_some(questions)
    raise AssertionError(f"the turn has not ended after {MOST_RESUMES} resumes")


def _heard_mail(thread: Interfered, again: Sequence[ag.AgentEvent]) -> dict[tuple[str, int], list[str]]:
    """Return what was read of what was sent, by the address and how often its model had been asked."""
    mail: dict[tuple[str, int], list[str]] = defaultdict(list)
    times = thread.record.times
    for each in again:
        if each.message is not None and each.text in thread.sent:
            assert (each.message.type, each.message.name) == ("human", None)
            asked = sum(at < (each.time or 0) for at in times[each.address])
            mail[each.address, asked].append(each.text)
    return mail


def _check(thread: Interfered) -> None:
    again = thread.events()
    assert unvoided(whole(thread.heard)) == again
    mail = _heard_mail(thread, again)
    read = [text for texts in mail.values() for text in texts]
    queued = thread.use(lambda r: r.thread(thread.id), lambda r: r.athread(thread.id)).queued
    assert sorted([*read, *(each.text for each in queued)]) == sorted(thread.sent)
    event(f"{min(len(read), 3)} of {min(len(thread.sent), 3)} messages read")
    if again:
        check_unbroken(thread, again, Lane(mail=mail))


def _told_by_models(case: Case) -> Case:
    """Return a case without middleware that answers in the place of a model, or asks before it.

    A hook that asks gives back what it has read: its question comes first.
    """
    return calmed(case, "answer", "ask")


@share(0.2)
@given(cases().map(calmed), DRIVES)
def test_a_run_that_is_stopped_and_resumed_ends_as_if_it_was_not(case: Case, drive: Drive) -> None:
    thread = Interfered(case, drive)
    event(f"stopped {min(_interfere_again_and_again(thread, stops=True, steers=False), 5)} times")
    _check(thread)


@share(0.2)
@given(cases().map(_told_by_models), DRIVES, st.booleans())
def test_what_is_sent_to_a_run_is_read_by_exactly_the_calls_after_it(
    case: Case, drive: Drive, stops: bool
) -> None:
    thread = Interfered(case, drive)
    _interfere_again_and_again(thread, stops=stops, steers=True)
    _check(thread)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stopped") / "threads.db"


@share(0.2)
@given(case=cases().map(_told_by_models), in_file=st.booleans(), drive=DRIVES)
def test_a_saved_thread_is_stopped_and_steered(
    file: Path, database: str, case: Case, in_file: bool, drive: Drive
) -> None:
    thread = Interfered(case, *((Sync, file) if in_file else (drive, database)))
    _interfere_again_and_again(thread, stops=True, steers=True)
    _check(thread)
