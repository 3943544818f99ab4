"""Edits and regenerated answers: run inputs that go back on the thread.

The official client has no word for either: it sends fewer messages than the thread has, or another
message in the place of one. So the input is compared with the line of the thread:

    the thread has         the client sends       it is
    u1 a1 u2 a2            u1 a1 u2               regenerate: the turn of u2 runs again
    u1 a1 u2 a2            u1 a1 x                an edit: the turn of u2 runs again, with x
    u1 a1 u2 a2            u1' ...                an edit under the same id: the turn of u1, with u1'
    u1 a1 u2 a2            u1 a1 u2 a2 x          a new turn
    u1 a1 u2 a2            x                      a new turn, of a client that sends only what is new

The last known message counts: so a client may send a part of the history.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ag_ui.core import AssistantMessage, Message, RunAgentInput, ToolMessage, UserMessage
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.messages import ToolMessage as ToolResult

from agentgraph.agui.inputs import Before, as_human, is_of_user, says_same
from agentgraph.errors import PendingInterruptError
from agentgraph.graph.stamps import event_order
from agentgraph.journal.story import whole_story
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.journal.turn_lines import input_at
from agentgraph.safe_repr import shown
from agentgraph.threads.rewinds.rewinding import RewindArguments, TurnStart


class Said(NamedTuple):
    """A message on the line of a thread.

    Attributes:
        message: The message, as it was emitted, or sent by the user.
        turn: Its turn.
        step: The step that emitted it; empty for the input of a turn.
    """

    message: BaseMessage
    turn: int
    step: str

    @property
    def is_input(self) -> bool:
        """Whether it is the user's, and a part of the input of its turn."""
        return not self.step

    def is_input_of(self, turn: int) -> bool:
        """Whether it is a part of the input of a turn."""
        return self.is_input and self.turn == turn


class WayBack(NamedTuple):
    """How a run goes back, and the input for its client.

    Attributes:
        target: Where it goes back to.
        run_input: The input without the messages that are gone.
        edited: The ids of the messages that have other content.
        is_in_place: Whether one of them has the id of the message whose place it takes.
    """

    target: TurnStart | RewindArguments
    run_input: RunAgentInput
    edited: frozenset[str] = frozenset()
    is_in_place: bool = False


async def said_on(saver: ThreadSaver) -> list[Said]:
    """Return the messages on the line of a thread, in the order in which clients receive them."""
    story = await whole_story(saver)
    turns: dict[int, list[Said]] = {}
    for saved in reversed([*story.roots.values()]):
        if (given := input_at(saved)) is not None:
            turn = saved.clock[0]
            turns[turn] = [Said(each, turn, "") for each in given if is_of_user(each)]
    for entry in story.entries:
        if isinstance(entry, BaseMessage) and (order := event_order(entry)) is not None:
            turns.setdefault(order.turn, []).append(Said(entry, order.turn, order.step))
    return [each for turn in sorted(turns) for each in turns[turn]]


def may_go_back(run_input: RunAgentInput, thread: Before) -> bool:
    """Return whether an input may go back on its thread, by what the thread's latest state says.

    To know it, its whole line has to be read.
    """
    if any(_edits(each, thread.messages) for each in run_input.messages):
        return True
    known = [each.id for each in run_input.messages if each.id in thread.messages]
    if not known:
        return any(isinstance(each, AssistantMessage) for each in run_input.messages)
    *_, last = thread.messages
    return last not in known


def way_back(
    run_input: RunAgentInput,
    thread: Before,
    line: Sequence[Said],
    values: Mapping[str, object],
) -> WayBack | None:
    """Return how an input goes back on its thread; None if it does not.

    Args:
        run_input: The input.
        thread: The state of the thread.
        line: The messages on its line.
        values: The values that the client has changed.

    Raises:
        PendingInterruptError: It goes back, but questions are pending.
    """
    back = _edit(run_input, thread, line, values) or _regenerate(run_input, thread, line, values)
    if back is not None and thread.questions:
        there = ", ".join(f"{question.address} ({question.id})" for question in thread.questions)
        raise PendingInterruptError(
            f"thread {shown(run_input.thread_id)} waits for answers to {there}; answer them before a "
            "message is edited or an answer is regenerated",
            run_input.thread_id,
        )
    return back


def _edit(
    run_input: RunAgentInput, thread: Before, line: Sequence[Said], values: Mapping[str, object]
) -> WayBack | None:
    """Return how an edited message goes back: under its own id, or in the place of another one."""
    sent, at = run_input.messages, _by_id(line)
    originals = {key: line[place].message for key, place in at.items() if line[place].is_input}
    texts = [originals, thread.messages]  # middleware may have replaced what the user sent

    def is_edited(message: Message) -> bool:
        there = [known for known in texts if message.id in known]
        return message.id in originals and all(_edits(message, known) for known in there)

    first = next((n for n, each in enumerate(sent) if is_edited(each)), None)
    if first is not None:
        place = at[sent[first].id]
    else:
        known = [n for n, each in enumerate(sent) if _place(each, line, at) is not None]
        first = known[-1] + 1 if known else len(sent)
        last = max((_place(sent[n], line, at) or 0 for n in known), default=len(line))
        inputs = (n for n, said in enumerate(line) if n > last and said.is_input)
        if (place := next(inputs, len(line))) == len(line):
            return None
    turn, since = line[place].turn, str(line[place].message.id)

    def stays(message: Message) -> bool:
        there = at.get(message.id)
        return there is None or there == place or (there > place and line[there].is_input_of(turn))

    after = [each for each in sent[first:] if stays(each)]
    new = [as_human(each) for each in after if isinstance(each, UserMessage)]
    if not new:
        return None
    rest = run_input.model_copy(update={"messages": [*sent[:first], *after]})
    edited = frozenset(str(each.id) for each in new)
    return WayBack(TurnStart(turn, new, since, values), rest, edited, since in edited)


def _regenerate(
    run_input: RunAgentInput, thread: Before, line: Sequence[Said], values: Mapping[str, object]
) -> WayBack | None:
    """Return how an answer is made again: its turn runs again, or the step that emitted it.

    A turn that has not ended is resumed instead.
    """
    at = _by_id(line)
    places = [_place(each, line, at) for each in run_input.messages]
    known = {place for place in places if place is not None}
    if not known or max(known) + 1 == len(line):
        return None
    after = places.index(max(known)) + 1
    if any(isinstance(each, UserMessage) for each in run_input.messages[after:]):
        return None
    missing = line[max(known) + 1 :]
    turn = missing[0].turn
    if isinstance(missing[0].message, HumanMessage) or (turn == line[-1].turn and not thread.is_done):
        return None
    answers = (each for each in missing if each.turn == turn and isinstance(each.message, AIMessage))
    if (answer := next(answers, None)) is None:
        return None
    has_begun = any(line[place].turn == turn and not line[place].is_input for place in known)
    target = (
        RewindArguments(answer.step, values=values) if has_begun else TurnStart(turn, values=values)
    )
    return WayBack(target, run_input)


def _by_id(line: Sequence[Said]) -> dict[str, int]:
    return {str(each.message.id): place for place, each in enumerate(line)}


def _place(message: Message, line: Sequence[Said], at: Mapping[str, int]) -> int | None:
    """Return the place of a message on a line; the result of a call may have another id there."""
    place = at.get(message.id)
    if place is None and isinstance(message, ToolMessage):
        place = next(_results(message, line), None)
    return place


def _results(message: ToolMessage, line: Sequence[Said]) -> Iterator[int]:
    for place, said in enumerate(line):
        call_id = getattr(said.message, "tool_call_id", None)
        if isinstance(said.message, ToolResult) and message.tool_call_id == call_id:
            yield place


def _edits(message: Message, known: Mapping[str, BaseMessage]) -> bool:
    """Return whether a message has the id of one of the user's, and other content."""
    there = known.get(message.id)
    if there is None or not isinstance(message, UserMessage) or not is_of_user(there):
        return False
    return not says_same(message, there)
