"""The questions of a running run, and the lanes that wait for their answers.

A lane that pauses while others run is *parked*: its task has ended, so it holds no thread, and its
questions are saved. An answer is saved where the task that asked takes it; then the desk has the
schedule of the lane call the task again, which continues as in a resume.

Answers come from any thread, at any time: before the lane is parked, and as the run pauses. So an
answer claims its question first. A node whose lanes all wait does not end as long as one of their
questions is claimed, or an answer is being checked. Once it has ended, the answer is kept for the next
run.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from math import inf
from types import MappingProxyType

from langgraph.types import Interrupt

from agentgraph.graph.stamps import Deadline, Note


class Desk:
    """Takes the answers to questions of one run, and wakes the lanes that wait for them.

    Attributes:
        parked: The questions of tasks that wait, by the ids of the tasks.
        resumes: The saved answers of tasks that asked, by the ids of the tasks.
        notes: The events of questions, by their ids: the saver may still have those of a run before.
        on_deadline: Called when a question has a deadline that a lane of the run may outlive.
    """

    on_deadline: Callable[[], None]

    def __init__(self, on_deadline: Callable[[], None] = lambda: None) -> None:
        self.on_deadline = on_deadline
        self._readers = 0
        self._lock = threading.RLock()  # reentrant: a signal handler may answer
        self.open(())
        self.close()

    def open(self, answered: Iterable[str]) -> None:
        """Take answers, as a run starts, or continues after a pause.

        Args:
            answered: The questions whose answers it starts with.
        """
        with self._lock:
            self.parked: dict[str, Sequence[Interrupt]] = {}
            self.resumes: dict[str, Sequence[object]] = {}
            self.notes: dict[str, Note] = {}
            self._may_continue: dict[str, bool] = {}
            self._deadlines: dict[str, float] = {}
            self._wake: dict[str, Callable[[], None]] = {}
            self._claimed: set[str] = set()
            self._answered: set[str] = set()
            self._gone = {*answered}
            self._ended: Future[None] | None = None

    @property
    def is_closed(self) -> bool:
        """Whether the run takes no more answers."""
        return self._ended is not None

    def ask(self, question: Note, *, may_continue: bool) -> None:
        """Note the event of a question, which is about to be streamed and saved.

        Args:
            question: The note of the question.
            may_continue: Whether a lane asks, which may continue while others run.
        """
        with self._lock:
            self.notes[question.id] = question
            self._may_continue[question.id] = may_continue
            self._gone.discard(question.id)
            if "deadline" in question.data and may_continue:
                self._deadlines[question.id] = Deadline(*question.data["deadline"]).at or inf
                self.on_deadline()

    def discard(self, ids: Iterable[str | None]) -> None:
        """Note that events were discarded: questions among them need no answer."""
        with self._lock:
            known = self._may_continue.keys() | self._wake.keys()
            for each in known & set(filter(None, ids)):
                self._may_continue.pop(each, None)
                self._wake.pop(each, None)
                self._gone.add(each)

    def unanswered(self) -> set[str]:
        """Return the ids of the questions that the run has asked, and that have no answer."""
        with self._lock:
            return self._may_continue.keys() - self._answered - self._claimed - self._gone

    def park(self, ids: Iterable[str], wake: Callable[[], None]) -> None:
        """Note that a lane waits until one of its questions is answered.

        Args:
            ids: The ids of its questions.
            wake: Called when one may be answered; perhaps at once.
        """
        with self._lock:
            self._wake |= dict.fromkeys(ids, wake)
            if not self._answered.isdisjoint(ids):
                wake()

    def overdue(self, time: float) -> list[str]:
        """Return the questions of parked lanes that were not answered up to a time, their deadline."""
        if not self._deadlines:
            return []
        with self._lock:
            open_ = self._wake.keys() & self.unanswered()
            return [each for each in open_ if self._deadlines.get(each, inf) <= time]

    def answered(self, ids: Iterable[str]) -> set[str]:
        """Return those of some questions whose answers are saved for the tasks that asked them."""
        return self._answered.intersection(ids)

    def is_waiting(self, task_id: str) -> bool:
        """Return whether a task is parked, and none of its questions is answered."""
        questions = self.parked.get(task_id)
        return questions is not None and not self.answered(each.id for each in questions)

    def rest(self, ids: Collection[str], *, is_last: bool) -> bool:
        """End the wait of all lanes of a node, unless an answer is on its way; return whether it has.

        Args:
            ids: Their questions.
            is_last: Whether the run pauses with them; else they are asked again by the lane around.
        """
        with self._lock:
            if self._readers or not (self._claimed | self._answered).isdisjoint(ids):
                return False
            for each in ids:
                self._wake.pop(each, None)
                if is_last:
                    self._may_continue[each] = False
            return True

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Let no lanes rest while a `with` block reads for which question an answer is."""
        with self._lock:
            self._readers += 1
        try:
            yield
        finally:
            with self._lock:
                self._readers -= 1
                for wake in [*self._wake.values()]:
                    wake()

    def claim(self, ids: Collection[str]) -> Mapping[str, bool] | None:
        """Reserve questions for the answers to them, unless one has an answer, or needs none.

        Returns:
            For each whether a lane may continue with its answer while others run, or is None if one
            cannot be answered, or the run has not begun or has ended.
        """
        with self._lock:
            if self.is_closed or not (self._answered | self._claimed | self._gone).isdisjoint(ids):
                return None
            self._claimed.update(ids)
            return {each: self._may_continue.get(each, True) for each in ids}

    def deliver(
        self, ids: Iterable[str], resumes: Mapping[str, Sequence[object]] = MappingProxyType({})
    ) -> None:
        """Have lanes continue whose answers are saved.

        Args:
            ids: The questions.
            resumes: All answers of the tasks that asked them, by the ids of the tasks.
        """
        with self._lock:
            self.resumes |= resumes
            self._answered.update(ids)
            self._release(ids)

    def keep(self, ids: Iterable[str]) -> None:
        """Note that answers are saved which the next run takes."""
        with self._lock:
            self._gone.update(ids)
            self._release(ids)

    def release(self, ids: Iterable[str]) -> None:
        """Give back questions whose answers could not be saved."""
        with self._lock:
            self._release(ids)

    def close(self) -> Future[None]:
        """Take no more answers, as the run ends; return a future that is done when all are saved."""
        with self._lock:
            self._ended = self._ended or Future()
            self._release(())
            return self._ended

    def _release(self, ids: Iterable[str]) -> None:
        ids = [*ids]
        self._claimed.difference_update(ids)
        for each in ids:
            if (wake := self._wake.get(each)) is not None:
                wake()
        if self._ended is not None and not self._claimed and not self._ended.done():
            self._ended.set_result(None)
