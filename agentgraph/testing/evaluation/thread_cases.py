"""Cases from threads: the inputs of their turns, and the answers to their questions."""

import re
from collections import ChainMap
from collections.abc import Sequence

from langchain_core.messages import BaseMessage, HumanMessage

from agentgraph.journal.changed_trees import opened
from agentgraph.journal.lines import known_thread, leading
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.journal.turn_lines import TurnLine, input_at, turns_in
from agentgraph.reports.activations import activation
from agentgraph.reports.result import result_of
from agentgraph.testing.evaluation.cases import Case, CaseTurn
from agentgraph.threads.runner import Runner
from agentgraph.threads.turns import Input

_OTHER = re.compile(r"[^\w .-]+")
"""Matches the characters of the ids of threads that those of cases do not have."""


def case_from(runner: Runner, thread_id: str) -> Case:
    """Return a case that repeats a thread: its inputs, values and answers.

    >>> runner = Runner(function_agent("writer", lambda ctx: "A draft."))
    >>> _ = runner.invoke("Go.", thread_id="monday")
    >>> case_from(runner, "monday")
    Case(id='monday', input='Go.', values=None, answers=(), expected='A draft.', before=())

    Args:
        runner: The runner of the thread.
        thread_id: The thread. Its last turn is that of the case; `before` has the earlier ones.

    Returns:
        The case. Its id is that of the thread, with `-` in place of other characters, and `expected` is
        the last text.

    Raises:
        UnknownThreadError: The saver has no such thread.
        TreeChangedError: The thread was run by a tree of another shape.
    """
    return runner.engine.read(_case, thread_id)


async def acase_from(runner: Runner, thread_id: str) -> Case:
    """Return a case that repeats a thread, as `case_from` does."""
    return await runner.engine.aread(_case, thread_id)


async def _case(saver: ThreadSaver) -> Case:
    await opened(saver, await known_thread(saver))
    line = leading(await saver.lean().checkpoints())
    turns = [*turns_in(saver, line)]
    *before, last = [await _turn(saver, turn) for turn in reversed(turns)]
    result = await result_of(saver, turns[0])
    case_id = _OTHER.sub("-", saver.thread_id).strip(" .-") or "thread"
    earlier = [each._asdict() if each.values or each.answers else each.input for each in before]
    return Case(case_id, *last, expected=result.text, before=tuple(earlier))


async def _turn(saver: ThreadSaver, turn: TurnLine) -> CaseTurn:
    begins = turn.roots[-1]
    values = {} if begins.turn_input is None else dict(ChainMap(*reversed(begins.turn_input["values"])))
    answers = [
        (address, each.answer)
        for address in dict.fromkeys(each.address for each in turn.questions(saver))
        for each in (await activation(saver, address, turn.number)).questions
        if each.is_answered
    ]
    return CaseTurn(_input(input_at(begins) or ()), values or None, tuple(answers))


def _input(messages: Sequence[BaseMessage]) -> Input:
    """Return the text of one plain message of a user; other messages without their ids."""
    plain = [each.model_copy(update={"id": None}) for each in messages]
    is_text = len(plain) == 1 and plain[0] == HumanMessage(plain[0].content)
    return str(plain[0].content) if is_text and isinstance(plain[0].content, str) else plain
