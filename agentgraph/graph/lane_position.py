"""The position of a lane: the small channel by which a lane is steered.

Each channel costs time in each step, so there is one, which holds nothing that grows with the run.
"""

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired

from langchain_core.messages import BaseMessage
from typing_extensions import TypedDict

from agentgraph.agents.costs import Amount
from agentgraph.agents.signals import BreakLoop, Exit, Signal
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.stamps import ANSWERED, Deadline, PlainDeadline, note_of
from agentgraph.safe_repr import shown
from agentgraph.tree.changes import Outline


class Question(TypedDict):
    """A question: of a function agent, for its question node to ask, or the data of its event."""

    value: object
    response_schema: dict[str, object] | None
    deadline: NotRequired[PlainDeadline]


def question_data(
    value: object, schema: dict[str, object] | None, deadline: Deadline | None
) -> Question:
    """Return a question; one without a deadline has no field for it."""
    question = Question(value=value, response_schema=schema)
    if deadline is not None:
        question["deadline"] = [*deadline]
    return question


class Progress(TypedDict, total=False):
    """How far a chat agent is in an activation."""

    model_calls: int
    """The number of model calls so far."""
    tool_calls: int
    """The number of tool calls in the messages before its last one."""
    answer: Any
    """Its structured answer so far, where it has an `output_schema`: type and plain data."""
    misfits: int
    """The number of model calls in a row whose answer did not fit the schema."""
    passed: dict[str, object]
    """The ephemeral state of its middleware, which only the next node sees."""
    ending: "ChatEnding"
    """How it ends after the last hooks."""
    steps: int
    """In a flattened graph: number of its nodes that have run."""
    visits: dict[str, int]
    """How often each of them has run, or is next."""
    packets: list[object]
    """The inputs of `Send` to the next node."""
    ended: bool
    """Whether the graph has ended, and only its output is still to be said."""


class Task(TypedDict, total=False):
    """The task of a transfer for its target; it holds for one visit, also inside the target."""

    messages: list[BaseMessage | str]
    """The messages that the target sees in the place of the history; a text is the id of a message of
    the history. Missing where it sees the history."""
    is_added: bool
    """Whether it sees the history before them."""
    values: dict[str, object]
    """The values of the visit."""
    to: str
    """The node of the target."""
    is_back: bool
    """Whether the target is the agent above, which alone it is for."""
    since: str | None
    """The id of the last message before the visit; None if there was none."""


class Leaving(TypedDict):
    """How a run leaves the tree for another node of the graph that the tree is a node of."""

    goto: str
    """The node."""
    sent: NotRequired[list[object]]
    """The input of `Send` to it, as the only item."""
    update: dict[str, object]
    """The writes there in addition to those of the tree."""


class SignalDetails(TypedDict):
    """The details of a signal, in addition to its kind."""

    cancels: NotRequired[bool]
    """Whether it cancels the other lanes at each parallel node that it leaves."""
    reason: NotRequired[str]
    """The reason for the caller of the run."""


class ChatEnding(SignalDetails, total=False):
    """How a chat agent ends. Without `signal`, `target` and `leaving` it just ends."""

    signal: Signal
    """The signal with which it ends."""
    target: str
    """The agent to which it transfers."""
    task: Task
    """The task of that agent."""
    granted: bool
    """Whether the limits allow the transfer: it is counted."""
    leaving: Leaving
    """Where it leaves the tree for."""
    keeps: bool
    """Whether its last message is its output."""


class SavedAnswer(TypedDict):
    """A structured answer, as it is saved while the activation runs."""

    of: str
    """The name of its type."""
    data: object
    """The answer as plain data."""


class GivenAnswer(TypedDict):
    """A structured answer, and its source."""

    at: str
    """The address."""
    answer: SavedAnswer


class Boundary(SignalDetails):
    """How an activation ended, while `until`, a check or a limit is still to be asked about it.

    Without `signal` and `target` it just ended.
    """

    signal: NotRequired[Signal]
    """The signal with which it ended."""
    target: NotRequired[str]
    """The agent to which it transfers."""
    task: NotRequired[Task]
    """The task of that agent."""
    granted: NotRequired[bool]
    """Whether the limits allow the transfer: it is counted."""
    leaving: NotRequired[Leaving]
    """Where the run leaves the tree for."""
    given: list[bool]
    """The answers so far, in order: whether the loop ends, whether the agent runs again."""
    failed: NotRequired[bool]
    """Whether the next check has rejected the last attempt allowed; one more is granted now."""


class Position(SignalDetails):
    """Where a lane is: written by each leaf as it ends, read by the edge after it."""

    next: str | None
    """The next node; None where the lane has ended."""
    cursor: list[object]
    """The counters at that node, outermost first: numbers, and lists of them for transfers."""
    tree: str
    """The fingerprint of the tree."""
    at: NotRequired[str]
    """The address of the activation that wrote this."""
    began: NotRequired[int]
    """Time when its step began, in microseconds, if a run resumed it; else it did as the step before
    ended. An agent that runs others continues, and one that asks a person waits meanwhile: they begin
    once."""
    told: NotRequired[list[list[object]]]
    """Its `Note`s, as plain data."""
    clock: NotRequired[list[int]]
    """In the root: the turn, and the greatest event number in it so far."""
    signal: NotRequired[Signal]
    """The signal with which the lane ended, for the enclosing lane."""
    ask: NotRequired[Question]
    """The question that the next node asks."""
    answer: NotRequired[list[object]]
    """The answer for the next node, as the only item."""
    asked: NotRequired[int]
    """How many questions the function at the next node has asked, or has asked with that question."""
    calls: NotRequired[list[Any]]
    """The results of the agents that the function at the next node ran before its question."""
    chat: NotRequired[Progress]
    """The progress of the chat agent whose node is next."""
    border: NotRequired[Boundary]
    """How the activation of the next node ended; that node asks only what is still to be asked."""
    tasks: NotRequired[list[Task]]
    """The tasks of the agents around the next node by transfers, the innermost last."""
    spent: NotRequired[dict[str, dict[str, Amount]]]
    """The spending of agents under limits, by their names: in the root in this turn, in another lane
    there alone; missing if nothing is counted."""
    outline: NotRequired[Outline]
    """The outline of the tree; written at the start of a turn."""
    text: NotRequired[str]
    """The result of the lane, if that is not the last message of the activation."""
    answered: NotRequired[GivenAnswer]
    """The structured answer of the activation at the boundary before."""
    request: NotRequired[str]
    """The request of a function to the agent whose lane begins here."""
    after: NotRequired[list[int]]
    """Which calls it had the outcomes of: how many first ones, and `made` of more; added later."""
    settled: NotRequired[dict[str, object]]
    """The values with which a resume settles conflicts at the next node of the root."""


def details_of(signal: Exit | BreakLoop, where: str) -> SignalDetails:
    """Return the details of a signal.

    Args:
        signal: The signal.
        where: The address of the agent, for errors.

    Raises:
        InvalidOutputError: Its reason is not a text.
    """
    details, reason = SignalDetails(), getattr(signal, "reason", None)
    if signal.cancel:
        details["cancels"] = True
    if reason is not None:
        if not isinstance(reason, str):
            raise InvalidOutputError(
                f"{where}: Exit(reason={shown(reason)}) is not a text; pass a text"
            )
        details["reason"] = reason
    return details


def details_in(ending: Mapping[str, Any]) -> SignalDetails:
    """Return the details of the signal of an ending, a position or a result."""
    add_details(details := SignalDetails(), ending)
    return details


def add_details(to: SignalDetails, ending: Mapping[str, Any]) -> None:
    """Add the details of the signal of an ending, a position or a result to another one."""
    if "cancels" in ending:
        to["cancels"] = ending["cancels"]
    if "reason" in ending:
        to["reason"] = ending["reason"]


def answer_in(position: Mapping[str, Any]) -> GivenAnswer | None:
    """Return the structured answer in the notes of a position; None if none has one."""
    told = position.get("told")
    answers = [note for note in map(note_of, told) if note.kind == ANSWERED] if told else ()
    return GivenAnswer(at=answers[-1].address, answer=answers[-1].data) if answers else None


def clock_in(position: Position | None) -> tuple[int, int]:
    """Return the turn of a position, and the greatest event number in it."""
    turn, last = position.get("clock", (0, 0)) if position else (0, 0)
    return turn, last


def reduced_position(position: Position, new: Position) -> Position:
    """Reduce a position and a new one: the new one, with the number of its turn.

    A new position with an `outline` begins a turn. One without `next` only adds resolved values.
    """
    if "next" not in new:
        return {**position, "settled": {**position.get("settled", {}), **new["settled"]}}
    if "clock" in new:
        return new
    turn, last = clock_in(position)
    return {**new, "clock": [turn + ("outline" in new), last]}


Where = Annotated[Position | None, reduced_position]
