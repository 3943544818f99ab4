"""Conversations with a runner, sync or async: a run, answers in any order, retries, to the end."""

import random
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import specs
from trees import FailedError

import agentgraph as ag

MOST_RESUMES = 500

Request = tuple[str, tuple[Any, ...], dict[str, Any]]
"""A method of a runner or of its graph, with its arguments."""
Given = tuple[Any, FailedError | None]
"""What a method gave, events as a list, and the failure that they ended with."""


@dataclass(frozen=True)
class Case:
    """A tree, and a conversation with it; the seed decides what is answered when, and how."""

    tree: specs.Spec
    values: dict[str, str]
    seed: int
    stream: bool = False
    texts: tuple[str, ...] = ("hello",)


@dataclass
class Heard:
    """What was heard of a thread: the events of each turn, all again, and the state at the end."""

    thread_id: str
    turns: list[list[ag.AgentEvent]] = field(default_factory=list)
    pending: list[list[ag.Interrupt]] = field(default_factory=list)
    replayed: Sequence[ag.AgentEvent] = ()
    state: dict[str, Any] = field(default_factory=dict)


Talk = Generator[Request, Given, Heard]
"""Yields requests, and is sent what they give: sync and async runners share all but the calls."""


def talk(case: Case) -> Talk:
    """Run a turn for each text; answer some questions at a time, and try again what failed."""
    heard, choices, stream = Heard(str(uuid4())), random.Random(case.seed), {"stream": case.stream}
    for text in case.texts:
        given = yield "run", (text,), {"thread_id": heard.thread_id, "values": case.values, **stream}
        events: list[ag.AgentEvent] = []
        for _ in range(MOST_RESUMES):
            events += given[0]
            questions, _ = yield "pending", (heard.thread_id,), {}
            heard.pending.append(questions)
            if _ended(*given, questions):
                break
            given = yield "resume", (heard.thread_id, *_answers(choices, questions)), stream
        else:
            raise AssertionError(f"the turn has not ended after {MOST_RESUMES} resumes")
        heard.turns.append(events)
    nothing, _ = yield "resume", (heard.thread_id,), stream
    assert nothing == []
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
            given = _collected(called(*arguments, **options))


async def aheld(talk: Talk, opened: Callable[[], AbstractAsyncContextManager[ag.Runner]]) -> Heard:
    """Hold a conversation with async methods."""
    given: Any = None
    while True:
        try:
            method, arguments, options = talk.send(given)
        except StopIteration as end:
            return end.value
        async with opened() as runner:
            called = getattr(runner, f"a{method}", None) or getattr(runner.graph, f"a{method}")
            given = await _acollected(called(*arguments, **options))


def _ended(
    told: Sequence[ag.AgentEvent], failed: FailedError | None, questions: Sequence[ag.Interrupt]
) -> bool:
    """Return whether a turn has ended; what did not fail has told the questions that wait."""
    if failed is not None:
        assert str(failed) in [event.error for event in told]
        return False
    asked = [event.action.interrupted for event in told if event.kind == "interrupted"]
    assert sorted(asked, key=repr) == sorted(questions, key=repr)
    return not questions


def _answers(choices: random.Random, questions: list[ag.Interrupt]) -> tuple[Any, ...]:
    """Return the answers to some of the questions, as the argument of a resume, or no argument."""
    if not questions or choices.random() < 0.1:
        return ()
    chosen = choices.sample(questions, choices.randint(1, len(questions)))
    answers = {
        choices.choice((asked.id, asked.address)): specs.answer(asked.address, asked.value)
        for asked in chosen
    }
    bare = next(iter(answers.values()))
    alone = len(questions) == 1 and not isinstance(bare, dict) and choices.random() < 0.5
    return (bare,) if alone else (answers,)


def _collected(given: Any) -> Given:
    if not isinstance(given, Iterator):
        return given, None
    told = []
    try:
        told.extend(given)  # what came before a failure stays
    except FailedError as error:
        return told, error
    return told, None


async def _acollected(given: Any) -> Given:
    if not isinstance(given, AsyncIterator):
        return await given, None
    told = []
    try:
        async for event in given:
            told.append(event)
    except FailedError as error:
        return told, error
    return told, None
