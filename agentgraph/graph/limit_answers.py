"""A person's leave to spend more than a limit: the answers to the questions about limits.

Such a question is asked where the limit was reached, in the middle of any code, in addition to other
questions of that code. LangGraph would pass its answer to the first question of the step that runs
again. So these answers are taken out of the input before LangGraph sees it, and saved next to the step:
the run that resumes it counts them when it begins (`nodes/spending.py`), and reaches the limit no more.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.types import Command

from agentgraph.agents.limits import Measure
from agentgraph.graph.internals import INTERRUPT
from agentgraph.graph.nodes.spending import LEAVE, Ledger, Loss, save_loss
from agentgraph.graph.open_types import Saver
from agentgraph.graph.stamps import asker_of
from agentgraph.graph.sync_async import Call

KEY = "limit"
"""The key of the JSON schema of a question that says which limit it is about."""


class LimitQuestion(NamedTuple):
    """The subject of a question about a limit.

    Attributes:
        name: The name of the agent whose limit it is; "" for the run.
        measure: The limit.
        given: How often leave was given before.
    """

    name: str
    measure: Measure
    given: int


def limit_question_in(schema: object) -> LimitQuestion | None:
    """Return which limit a question is about, by its schema; None if it is about none."""
    about = (asker_of(schema).schema or {}).get(KEY)
    return LimitQuestion(*about) if isinstance(about, list | tuple) and len(about) == 3 else None


async def take_limit_answers(
    saver: Saver, config: RunnableConfig, command: Command[str], ledger: Ledger
) -> Command[str] | None:
    """Take the answers about limits out of a command, and save the leave that they give.

    Args:
        saver: The saver of the thread.
        config: The config of the run.
        command: The input of the run.
        ledger: The spending of the run; it records where leave is denied.

    Returns:
        The rest of the command; None if nothing is left.
    """
    configurable = config["configurable"]
    at = {key: configurable[key] for key in ("thread_id", "checkpoint_ns") if key in configurable}
    saved: CheckpointTuple | None = await Call(
        saver.get_tuple, saver.aget_tuple, ({"configurable": {"checkpoint_ns": "", **at}},)
    )
    questions = _questions(saved) if saved else {}
    limit_questions = {
        key: about for key, schema in questions.items() if (about := limit_question_in(schema))
    }
    answers, rest = _split_answers(command.resume, limit_questions, is_alone=len(questions) == 1)
    for key, answer in answers.items():
        name, measure, _ = limit_questions[key]
        if answer is True and saved is not None:
            leave = Loss(spent={name: {LEAVE + measure: 1}}, begun=[])
            await save_loss(saver, saved.config, leave)
        else:
            ledger.denied.add((name, measure))
    left = replace(command, resume=rest)
    return left if rest is not None or left.update or left.goto else None


def _questions(saved: CheckpointTuple) -> Mapping[str, object]:
    """Return the schemas of the questions that were asked in the step after a checkpoint, by id."""
    several = (value for _, channel, value in saved.pending_writes or () if channel == INTERRUPT)
    return {each.id: each.response_schema for questions in several for each in questions}


def _split_answers(
    resume: object, limit_questions: Mapping[str, LimitQuestion], *, is_alone: bool
) -> tuple[Mapping[str, object], object]:
    if isinstance(resume, Mapping) and not limit_questions.keys().isdisjoint(resume):
        rest = {key: answer for key, answer in resume.items() if key not in limit_questions}
        return {key: resume[key] for key in limit_questions if key in resume}, rest or None
    if limit_questions and is_alone and not isinstance(resume, Mapping):
        return dict.fromkeys(limit_questions, resume), None
    return {}, resume
