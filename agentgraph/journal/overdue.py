"""The questions of a thread whose deadlines have passed, and the answers that are too late."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from agentgraph.errors import UnknownInterruptError
from agentgraph.graph.deadlines import shown_time, substitute_of
from agentgraph.graph.stamps import Deadline, Note, asker_of, now, seconds
from agentgraph.journal.pending import PendingQuestions
from agentgraph.journal.step_runs import deadline_decided
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.journal.turn_lines import TurnLine, last_turn, present_turn
from agentgraph.safe_repr import shown
from agentgraph.tree.addresses import keyed_as_known, without_keys


class Overdue(NamedTuple):
    """A question whose deadline has passed.

    Attributes:
        address: The address of the agent that asked it.
        deadline: Its deadline.
    """

    address: str
    deadline: Deadline

    def names(self, question_id: str) -> set[str]:
        """Return its names in answers."""
        return {question_id, self.address, without_keys(self.address)}

    def error(self, thread_id: str) -> UnknownInterruptError:
        """Return the error for an answer to it."""
        deadline = self.deadline
        passed = f"its deadline, {shown_time(deadline.at or 0)}, has passed"
        if deadline.is_decision:
            what = "its default rejects the calls"
        elif deadline.default:
            what = f"its default {shown(deadline.default[0])} is the answer"
        else:
            what = "without a default its agent fails"
        return UnknownInterruptError(
            f"thread {shown(thread_id)}: the answer to {self.address} is too late: {passed}, and {what}"
            f"; leave it out to continue, or rewind(thread_id, {shown(self.address)}) to ask again",
            thread_id,
        )


def overdue(waiting: PendingQuestions, at: float | None = None) -> dict[str, Overdue]:
    """Return the questions without answers whose deadlines have passed, by id.

    None where they are asked again.

    Args:
        waiting: The questions that wait.
        at: The time, in seconds since 1970; None for now.
    """
    time, answered = seconds(now()) if at is None else at, waiting.stored
    found: dict[str, Overdue] = {}
    for key, question in waiting.asked.items():
        asker = asker_of(question.schema)
        deadline = asker.deadline
        if key in answered or deadline is None or deadline.at is None:
            continue
        if deadline.at <= time:
            found[key] = Overdue(asker.address or "", deadline)
    return found


def substitutes(
    thread_id: str, passed: Mapping[str, Overdue], given: Collection[str]
) -> dict[str, object]:
    """Return the substitutes for the answers to questions whose deadlines have passed, by id.

    Args:
        thread_id: The thread.
        passed: These questions, by id.
        given: The ids of the questions that are answered now.

    Raises:
        UnknownInterruptError: One of them is answered now.
    """
    for key in given:
        if key in passed:
            raise passed[key].error(thread_id)
    return {key: substitute_of(key, each.deadline) for key, each in passed.items()}


async def too_late(
    saver: ThreadSaver, waiting: PendingQuestions, answers: object
) -> UnknownInterruptError | None:
    """Return the error for answers of which one is to a question of the last turn that was overdue.

    Args:
        saver: The thread.
        waiting: The questions that wait.
        answers: The answers, by id or address; a bare one is to the last question if none waits.
    """
    roots = await present_turn(saver)
    if roots is None or answers is None:
        return None
    found = decided_late(await last_turn(saver, roots))
    if isinstance(answers, Mapping):
        keys = {*keyed_as_known(saver.tree, answers)}
        named = [each for key, each in found.items() if not each.names(key).isdisjoint(keys)]
    else:
        named = [] if waiting.questions else [*found.values()]
    return named[-1].error(saver.thread_id) if named else None


def decided_late(turn: TurnLine) -> dict[str, Overdue]:
    """Return the questions of a turn whose deadlines took the place of an answer, by id."""
    answers = turn.answers
    notes = [each for each in turn.story.entries if isinstance(each, Note)]
    asked = [(each, deadline_decided(each, answers)) for each in notes if each.kind == "interrupted"]
    return {note.id: Overdue(note.address, deadline) for note, deadline in asked if deadline}
