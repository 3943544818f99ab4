"""Conversations with a thread of a random tree: a run, answers in any order, retries, to the end."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import scripts
import specs
from building import build, declared
from helpers import Drive, Session
from helpers.databases import Place
from langgraph.store.memory import InMemoryStore
from passing import BY_RUNNER, Passed, Tenant
from record import FailedError, Record

import agentgraph as ag

MOST_RESUMES = 500
EXPECTED = (FailedError, ag.StepFailedError, ag.UnknownInterruptError, ag.ValueConflictError)


@dataclass(frozen=True)
class Case:
    """A tree, and a conversation with it; the seed decides what is answered when, and how.

    `patience` is how many seconds questions wait that have a deadline.
    """

    tree: specs.Spec
    values: dict[str, str]
    seed: int
    stream: bool = False
    texts: tuple[str, ...] = ("hello",)
    patience: float = 3600.0


@dataclass
class Turn:
    """What was heard in a turn: the events, and what was pending each time that it stopped."""

    text: str
    events: list[ag.AgentEvent] = field(default_factory=list)
    pending: list[list[ag.Interrupt]] = field(default_factory=list)


class Thread(Session):
    """A thread of a case: in memory with one runner, or in a file or database with a new one each time.

    Attributes:
        heard: All events of its runs and resumes.
        turns: The turns of `hold`.
        passed: What each call was given beside its input, and its trace.
        error: What the last call failed with, if it did.
        is_answered: Whether its questions may be answered while it runs.
        was_killed: Whether the process of an earlier call may have been killed.
    """

    is_answered = was_killed = False

    def __init__(self, case: Case, drive: Drive, path: Place | None = None) -> None:
        super().__init__(None, drive, path)
        self.case, self.record, self.choices = case, Record(), random.Random(case.seed)
        self.id = str(uuid4())
        self.heard: list[ag.AgentEvent] = []
        self.turns: list[Turn] = []
        self.passed: list[Passed] = []
        self._store = InMemoryStore()
        self.error: Exception | None = None
        self._runner: ag.Runner | None = None

    def runner(self, saver: Any) -> ag.Runner:
        if self._runner is None or self.path:
            self.record.patience = self.case.patience
            tree, values = build(self.case.tree, self.record), declared(self.case.tree)
            self._runner = ag.Runner(
                tree,
                checkpointer=saver,
                store=self._store,
                values=values,
                context_schema=Tenant,
                context=Tenant(-1),
                config=BY_RUNNER,
            )
        return self._runner

    def record_anew(self) -> Record:
        """Go on with agents that record what they see from now on; return the record so far."""
        before, self.record, self._runner = self.record, Record(), None
        return before

    def run(self, text: str, **options: Any) -> list[ag.AgentEvent]:
        return self.call("run", text, thread_id=self.id, values=self.case.values, **options)

    def resume(self, *answers: Any, **options: Any) -> list[ag.AgentEvent]:
        return self.call("resume", self.id, *answers, **options)

    def call(self, method: str, *args: Any, **options: Any) -> list[ag.AgentEvent]:
        """Return the events of a call; an error that a script raises ends it, and is noted."""
        begin, self.error = len(self.heard), None
        passed = self.record.passed = Passed(len(self.passed), self._store)
        self.passed.append(passed)
        options = {"stream": self.case.stream, **passed.options, **options}
        try:
            self.follow(method, *args, hear=self.hear, **options)
        except EXPECTED as error:
            self.error = error
        cut = options.get("left") is not None
        passed.check(self.case.tree, cut=cut, is_answered=self.is_answered, was_killed=self.was_killed)
        return self.heard[begin:]

    def hear(self, event: ag.AgentEvent) -> None:
        self.heard.append(event)

    def answer_some(self, questions: Sequence[ag.Interrupt], **options: Any) -> list[ag.AgentEvent]:
        """Resume with the answers to some questions."""
        chosen = some_of(questions, self.choices)
        return self.resume(*as_argument(chosen, questions, self.choices), **options)

    def some_answers(self, questions: Sequence[ag.Interrupt]) -> tuple[Any, ...]:
        """Return the answers to some questions as the argument of a resume."""
        return as_argument(some_of(questions, self.choices), questions, self.choices)

    def visits(self) -> list[ag.Visit]:
        return list(self.use(lambda runner: runner.visits(self.id), lambda r: r.avisits(self.id)))

    def finish(self) -> None:
        """Answer and resume until the turn has ended."""
        for _ in range(MOST_RESUMES):
            if not (questions := self.pending()) and self.error is None:
                return
            self.answer_some(questions)
        raise AssertionError(f"the turn has not ended after {MOST_RESUMES} resumes")


def hold(thread: Thread) -> None:
    """Run a turn for each text, to its end: answer some questions at a time, retry what failed."""
    for text in thread.case.texts:
        thread.turns.append(Turn(text))
        _hold_turn(thread, thread.turns[-1])
    assert (thread.resume(), thread.error) == ([], None)


def _hold_turn(thread: Thread, turn: Turn) -> None:
    events, choices = thread.run(turn.text), thread.choices
    answered: set[str] = set()
    for _ in range(MOST_RESUMES):
        error = thread.error
        turn.events += events
        turn.pending.append(questions := thread.pending())
        _check_stop(events, error, turn, answered)
        if not questions and error is None:
            return
        if answered and choices.random() < 0.1:
            assert thread.resume({choices.choice(sorted(answered)): "stale"}) == []
            assert isinstance(thread.error, ag.UnknownInterruptError)
        chosen = some_of(questions, choices)
        answered |= {question.id for question in chosen}
        events = thread.resume(*as_argument(chosen, questions, choices), **settling(error))
    raise AssertionError(f"the turn has not ended after {MOST_RESUMES} resumes")


def settling(error: Exception | None) -> dict[str, Any]:
    """Return the options of a resume after an error: values that settle a conflict."""
    if not isinstance(error, ag.ValueConflictError):
        return {}
    return {"values": dict.fromkeys(error.names, specs.SETTLED)}


def _check_stop(
    events: Sequence[ag.AgentEvent], error: Exception | None, turn: Turn, answered: set[str]
) -> None:
    """Check that a run reported its failure, or else all questions, and that none is out of date."""
    assert answered.isdisjoint(question.id for question in turn.pending[-1])
    ever = {event.id: event.address for event in turn.events if event.kind == "interrupted"}
    assert all(ever[question.id] == question.address for question in turn.pending[-1])
    if error is None:
        asked = [event.action.interrupted for event in events if event.kind == "interrupted"]
        assert sorted(asked, key=repr) == sorted(turn.pending[-1], key=repr)
    else:
        failures = [(event.address, event.error) for event in events if event.kind == "error"]
        assert any(_is_raised_for(error, *failure) for failure in failures)


def _is_raised_for(error: Exception, address: str, failure: str | None) -> bool:
    """Return whether an error is, or names, the failure that was reported at an address."""
    if not isinstance(error, ag.StepFailedError):
        return repr(error) == failure
    inside = re.match(rf"{re.escape(error.workflow)}/{error.step}\b", address)
    return bool(inside) and f" failed: {failure}; " in str(error)


def some_of(questions: Sequence[ag.Interrupt], choices: random.Random) -> list[ag.Interrupt]:
    """Return the questions to answer now: seldom none, else one or more, in any order."""
    few = 0 if not questions or choices.random() < 0.1 else choices.randint(1, len(questions))
    return choices.sample(questions, few)


def as_argument(
    chosen: Sequence[ag.Interrupt], questions: Sequence[ag.Interrupt], choices: random.Random
) -> tuple[Any, ...]:
    """Return the answers as the argument of a resume: by id, by address, or bare; or none."""
    at = [question.address for question in questions]
    answers = {
        choices.choice([asked.id] + [asked.address] * (at.count(asked.address) == 1)): scripts.answer(
            asked.address, asked.value
        )
        for asked in chosen
    }
    bare = len(questions) == 1 and choices.random() < 0.5
    values = [answer for answer in answers.values() if bare and not isinstance(answer, dict)]
    return tuple(values or ([answers] if answers else []))
