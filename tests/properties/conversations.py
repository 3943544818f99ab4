"""Conversations with a runner, sync or async: a run, answers in any order, retries, to the end."""

import random
import re
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import scripts
import specs
from record import FailedError

import agentgraph as ag

MOST_RESUMES = 500

Request = tuple[str, tuple[Any, ...], dict[str, Any]]
"""A method of a runner or of its graph, with its arguments."""
EXPECTED = (FailedError, ag.StepFailedError, ag.UnknownInterruptError, ag.ValueConflictError)
Given = tuple[Any, Exception | None]
"""What a method gave, events as a list, and the error that it ended with."""


@dataclass(frozen=True)
class Case:
    """A tree, and a conversation with it; the seed decides what is answered when, and how."""

    tree: specs.Spec
    values: dict[str, str]
    seed: int
    stream: bool = False
    texts: tuple[str, ...] = ("hello",)


@dataclass
class Turn:
    """What was heard in a turn: the events, and what was pending each time that it stopped."""

    text: str
    events: list[ag.AgentEvent] = field(default_factory=list)
    pending: list[list[ag.Interrupt]] = field(default_factory=list)


@dataclass
class Heard:
    """What was heard of a thread: each turn, then all events again, and the state at the end."""

    thread_id: str
    turns: list[Turn] = field(default_factory=list)
    replayed: Sequence[ag.AgentEvent] = ()
    state: dict[str, Any] = field(default_factory=dict)


Talk = Generator[Request, Given, Heard]
"""Yields requests, and is sent what they give: sync and async runners share all but the calls."""


def talk(case: Case) -> Talk:
    """Run a turn for each text, to its end; then ask for all that the thread keeps."""
    heard, choices, stream = Heard(str(uuid4())), random.Random(case.seed), {"stream": case.stream}
    for text in case.texts:
        heard.turns.append(Turn(text))
        given = yield "run", (text,), {"thread_id": heard.thread_id, "values": case.values, **stream}
        yield from _to_the_end(heard.thread_id, given, heard.turns[-1], choices, stream)
    nothing = yield "resume", (heard.thread_id,), stream
    assert nothing == ([], None)
    heard.replayed, _ = yield "events", (heard.thread_id,), {}
    state, _ = yield "get_state", ({"configurable": {"thread_id": heard.thread_id}},), {}
    heard.state = state.values
    return heard


def held(talk: Talk, opened: Callable[[], AbstractContextManager[ag.Runner]]) -> Heard:
    """Hold a conversation with sync methods, each of a runner that is opened for it."""
    given: Any = None
    while True:
        try:
            method, arguments, options = talk.send(given)
        except StopIteration as end:
            return end.value
        with opened() as runner:
            called = getattr(runner, method, None) or getattr(runner.graph, method)
            given = _collected(called, arguments, options)


async def aheld(talk: Talk, opened: Callable[[], AbstractAsyncContextManager[ag.Runner]]) -> Heard:
    """Hold a conversation with async methods, each of a runner that is opened for it."""
    given: Any = None
    while True:
        try:
            method, arguments, options = talk.send(given)
        except StopIteration as end:
            return end.value
        async with opened() as runner:
            called = getattr(runner, f"a{method}", None) or getattr(runner.graph, f"a{method}")
            given = await _acollected(called, arguments, options)


def _to_the_end(
    thread_id: str, given: Given, turn: Turn, choices: random.Random, stream: dict[str, bool]
) -> Generator[Request, Given, None]:
    """Answer some questions at a time, and try again what failed, until a turn has ended."""
    answered: set[str] = set()
    for _ in range(MOST_RESUMES):
        told, error = given
        turn.events += told
        questions, _ = yield "pending", (thread_id,), {}
        turn.pending.append(questions)
        _check_stop(told, error, turn, answered)
        if not questions and error is None:
            return
        if answered and choices.random() < 0.1:
            refused = yield "resume", (thread_id, {choices.choice(sorted(answered)): "stale"}), stream
            assert (refused[0], type(refused[1])) == ([], ag.UnknownInterruptError)
        chosen = some_of(questions, choices)
        answered |= {question.id for question in chosen}
        arguments = (thread_id, *as_argument(chosen, questions, choices))
        given = yield "resume", arguments, {**stream, **_settling(error)}
    raise AssertionError(f"the turn has not ended after {MOST_RESUMES} resumes")


def _settling(error: Exception | None) -> dict[str, Any]:
    """Return the options of a resume after an error: what settles it where values conflict."""
    if not isinstance(error, ag.ValueConflictError):
        return {}
    return {"values": dict.fromkeys(error.names, specs.SETTLED)}


def _check_stop(
    told: Sequence[ag.AgentEvent], error: Exception | None, turn: Turn, answered: set[str]
) -> None:
    """Check that a run told its failure, or else all questions, and that none is out of date."""
    assert answered.isdisjoint(question.id for question in turn.pending[-1])
    ever = {event.id: event.address for event in turn.events if event.kind == "interrupted"}
    assert all(ever[question.id] == question.address for question in turn.pending[-1])
    if error is None:
        asked = [event.action.interrupted for event in told if event.kind == "interrupted"]
        assert sorted(asked, key=repr) == sorted(turn.pending[-1], key=repr)
    else:
        failures = [(event.address, event.error) for event in told if event.kind == "error"]
        assert any(_is_raised_for(error, *failure) for failure in failures)


def _is_raised_for(error: Exception, address: str, failure: str | None) -> bool:
    """Tell whether an error is, or names, the failure that was told at an address."""
    if not isinstance(error, ag.StepFailedError):
        return repr(error) == failure
    inside = re.match(rf"{re.escape(error.workflow)}/{error.step}\b", address)
    return bool(inside) and f" failed: {failure}; a resume" in str(error)


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


def _collected(called: Callable[..., Any], arguments: Any, options: Any) -> Given:
    told: list[ag.AgentEvent] = []
    try:
        given = called(*arguments, **options)
        if not isinstance(given, Iterator):
            return given, None
        told.extend(given)  # what came before an error stays
    except EXPECTED as error:
        return told, error
    return told, None


async def _acollected(called: Callable[..., Any], arguments: Any, options: Any) -> Given:
    told: list[ag.AgentEvent] = []
    try:
        given = called(*arguments, **options)
        if not isinstance(given, AsyncIterator):
            return await given, None
        async for event in given:
            told.append(event)
    except EXPECTED as error:
        return told, error
    return told, None
