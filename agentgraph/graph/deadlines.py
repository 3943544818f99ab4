"""Deadlines of questions: their times, and the substitutes for answers that come too late.

A run never waits for a clock. The run that comes after a deadline decides by one look at the clock,
and saves a substitute where it saves answers: the default, or the failure of the agent. So a kill after
that changes nothing, and an answer that was saved before the deadline counts, however late it is taken.

LangGraph returns the saved answers of a task in order, each time that the task runs. The failure is one
of them, so it would be raised in each later run too. It is marked as raised, with the run that raises
it, in the write that saves the failure of the task. A later run that finds the mark asks again, under
the next id. But a run that was killed before it had saved that it failed has reported nothing: the next
one raises the failure again, as it repeats any other failure.
"""

from collections.abc import Mapping, MutableMapping, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple, NotRequired, cast

from langchain_core.runnables import RunnableConfig
from typing_extensions import TypedDict

from agentgraph.agents.deadlines import seconds_of
from agentgraph.agents.schemas import plain
from agentgraph.agents.signals import AnswerTimeout, NoDefault
from agentgraph.graph.internals import RESUME, SCRATCHPAD, SEND
from agentgraph.graph.stamps import Deadline, now, seconds

DEADLINES = "agentgraph_deadlines"
"""The key in a config of the `Deadlines` of a run."""
_OURS = "$agentgraph"
_REJECTED = {
    "type": "reject",
    "message": "No decision was made before the deadline, so the call did not run.",
}


class Deadlines(NamedTuple):
    """The deadlines in the step that a run continues, and the end of the last run of the step.

    Attributes:
        at: The deadlines of questions, by id, in seconds since 1970: who asks again keeps its own.
        run: The number of the last event before the run.
        reported: The number at which an earlier run saved that it failed or paused; 0 if none did.
    """

    at: MutableMapping[str, float]
    run: int = 0
    reported: int = 0

    @classmethod
    def of(cls, config: RunnableConfig) -> "Deadlines":
        """Return those in a config; a graph without a `Runner` has none."""
        known: Deadlines | None = config["configurable"].get(DEADLINES)
        return known or cls({})

    def is_unreported(self, run: int) -> bool:
        """Return whether an earlier run, which raised a failure, was killed before it saved that.

        >>> [Deadlines({}, run=9, reported=5).is_unreported(run) for run in (4, 5, 9)]
        [False, True, False]
        """
        return self.reported <= run < self.run


def deadline_of(timeout: AnswerTimeout, default: object) -> Deadline | None:
    """Return the deadline of a question that is not asked yet; None without a timeout.

    Args:
        timeout: Its valid `timeout`.
        default: Its valid `default`.
    """
    wait = seconds_of(timeout)
    if wait is None:
        return None
    return Deadline(wait, None, () if isinstance(default, NoDefault) else [plain(default)])


def approval_deadline(timeout: AnswerTimeout, asked: object) -> Deadline | None:
    """Return the deadline of a question for approval, whose default rejects all calls."""
    wait, default = seconds_of(timeout), cast(object, _REJECTED)
    match asked:
        case {"review_configs": [_, *_] as configs}:
            default = {"decisions": [_REJECTED] * len(configs)}
    return None if wait is None else Deadline(wait, None, [default], is_decision=True)


def begun(deadline: Deadline, question_id: str, config: RunnableConfig) -> Deadline:
    """Return the deadline of a question that is asked now; one that is asked again keeps its own."""
    if deadline.at is not None:
        return deadline
    known = Deadlines.of(config).at
    return deadline._replace(at=known.setdefault(question_id, seconds(now()) + deadline.timeout))


class Substitute(TypedDict):
    """The substitute for the answer to a question whose deadline has passed."""

    kind: Literal["default", "timeout", "raised"]
    """Whether it is the default, or a failure of the agent, which was not raised yet or was."""
    id: str
    """The question."""
    deadline: float
    """The deadline, in seconds since 1970."""
    answer: NotRequired[object]
    """The default."""
    run: NotRequired[int]
    """The run that raised it, as in `Deadlines.run`."""


def substitute_of(question_id: str, deadline: Deadline) -> object:
    """Return the substitute for the answer to a question whose deadline has passed."""
    late = Substitute(kind="timeout", id=question_id, deadline=deadline.at or 0)
    if deadline.default:
        late["kind"], late["answer"] = "default", deadline.default[0]
    return {_OURS: late}


def substitute_in(answer: object) -> Substitute | None:
    """Return the substitute in the place of an answer; None for the answer of a person."""
    late = answer.get(_OURS) if isinstance(answer, Mapping) else None
    return cast(Substitute, late) if isinstance(late, dict) and "deadline" in late else None


def take_timeout(late: Substitute, config: RunnableConfig) -> bool:
    """Return whether a saved failure is to be raised now, and mark it as raised.

    One with an answer after it was raised: the question was asked again in the same run.
    """
    answers: list[object] = config["configurable"][SCRATCHPAD].resume
    known = Deadlines.of(config)
    is_new = late["kind"] == "timeout" or known.is_unreported(late.get("run", -1))
    is_due = is_new and substitute_in(answers[-1]) == late
    if is_due:
        answers[-1] = {_OURS: {**late, "kind": "raised", "run": known.run}}
    config["configurable"][SEND]([(RESUME, [*answers])])
    return is_due


def shown_time(time: float) -> str:
    """Return a time in seconds since 1970 as a date and time in UTC.

    >>> shown_time(1_800_000_000.5)
    '2027-01-15 08:00:00 UTC'
    """
    return f"{datetime.fromtimestamp(int(time), UTC):%Y-%m-%d %H:%M:%S} UTC"


def earliest(deadlines: Sequence[Deadline | None]) -> float | None:
    """Return the earliest of several deadlines, in seconds since 1970; None without one."""
    return min((each.at for each in deadlines if each and each.at is not None), default=None)
