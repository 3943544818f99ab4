"""The questions of a thread that wait for answers, and the answers to them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, cast

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.types import Interrupt as LangGraphInterrupt

from agentgraph.agents.agents import GraphAgent
from agentgraph.agents.schemas import answer_fault, plain
from agentgraph.errors import AgentGraphError, InvalidAnswerError, UnknownInterruptError
from agentgraph.events.events import Interrupt
from agentgraph.events.translation import opened_question
from agentgraph.graph.failures import each_once
from agentgraph.graph.moments import asker
from agentgraph.graph.nodes.lane import attempts_in, namespace_of_attempt
from agentgraph.graph.state import Position
from agentgraph.safe_repr import shown
from agentgraph.threads.threads import (
    AllSaved,
    NextTasks,
    Reads,
    Saved,
    before_edits,
    number_of,
    opened,
    order_of,
    place_of,
    placed,
    position_of,
    ran_behind,
    writes_by_task,
)
from agentgraph.tree.addresses import address, as_cursor
from agentgraph.tree.places import Place, Tree

_SHOWN = 200
"""How long a schema may be to be shown in a message."""


class Waiting(NamedTuple):
    """The questions of a thread, and how they can be answered.

    Attributes:
        questions: The questions, in the order of the tree.
        answered: "by id"; or, where an edit of the state lets the step begin anew that asked them,
            the node's own "by new id", the only one inside "bare", others when asked "anew".
    """

    questions: list[Interrupt]
    answered: Literal["by id", "by new id", "bare", "anew"] = "by id"


def pending(tree: Tree, thread_id: str) -> Reads[list[Interrupt]]:
    """Return the questions that wait for answers, in the order of the tree.

    Raises:
        UnknownThreadError: The saver knows nothing of the thread.
        TreeChangedError: The thread was left by a tree of another shape.
    """
    return (yield from waiting(tree, thread_id)).questions


def waiting(tree: Tree, thread_id: str) -> Reads[Waiting]:
    """Return the questions that wait, and how they can be answered; errors as `pending`."""
    saved = yield from opened(tree, thread_id)
    origin = yield from before_edits(saved)
    if origin is saved:
        return Waiting((yield from _asked_in(tree, "", saved)))
    return (yield from _asked_before_edits(tree, origin))


def _asked_before_edits(tree: Tree, origin: CheckpointTuple) -> Reads[Waiting]:
    """Return the questions that were asked behind a checkpoint before the state was edited.

    The step that asked them is to begin anew, so its node's own question has another id by now. A
    lane's has none before it is asked again; but where there was only one, and nothing had been
    answered, the next answer is for that.
    """
    position = position_of(origin)
    tasks = yield NextTasks("")
    questions = yield from _asked_in(tree, "", origin)
    if position is None or not questions or [task.name for task in tasks] != [position["next"]]:
        return Waiting([])
    place = placed(tree, position)
    node = f"{position['next']}:{tasks[0].id}"
    (ran,) = yield NextTasks("", origin.checkpoint["id"])
    asks_itself = position["next"] == place.question_node or place.kind.asks
    is_first = asks_itself or not (yield from _is_answered(origin))
    alone = ran_behind(origin) == {ran.id} and not (place.kind.is_fork or place.kind.runs_graph)
    if len(questions) == 1 and is_first and alone:
        own = LangGraphInterrupt.from_ns(None, node).id
        return Waiting([replace(questions[0], id=own)], "by new id")
    return Waiting(questions, "bare" if len(questions) == 1 and is_first else "anew")


def _is_answered(origin: CheckpointTuple) -> Reads[bool]:
    """Tell whether anything was answered in the step behind a checkpoint of the root."""
    began = origin.checkpoint["id"]
    every: Sequence[CheckpointTuple] = yield AllSaved()
    inside = [each for each in every if each.metadata.get("parents", {}).get("") == began]
    return any("__resume__" in told for at in [origin, *inside] for told in writes_by_task(at).values())


def edited(thread_id: str, questions: Sequence[Interrupt]) -> UnknownInterruptError:
    """Return the error for answers to what is to be asked anew, as the state was edited."""
    there = ", ".join(question.address for question in questions)
    return UnknownInterruptError(
        f"thread {thread_id!r}: the state was edited (update_state) while {there} waited, so that the "
        "step begins anew; resume(thread_id) asks again, under new ids",
        thread_id,
    )


def resume_map(
    thread_id: str, questions: Sequence[Interrupt], answers: Mapping[str, Any]
) -> dict[str, Any]:
    """Return answers by id or address as answers by id, in plain data.

    Raises:
        UnknownInterruptError: A key names no pending question, or one that is answered twice.
        InvalidAnswerError: An answer does not fit its question's schema.
    """
    found: dict[str, Any] = {}
    for key, answer in answers.items():
        named = [question for question in questions if key in (question.id, question.address)]
        if len(named) != 1 or named[0].id in found:
            raise unknown_question(thread_id, key, questions, repeated=bool(named))
        try:
            found[named[0].id] = plain(answer)
            fault = answer_fault(named[0].response_schema, found[named[0].id])
        except (AgentGraphError, RecursionError, UnicodeError):
            fault = "it has no JSON form"
        if fault:
            raise InvalidAnswerError(
                f"the answer {shown(answer)} to {named[0].address} does not fit: {fault}; the question "
                f"is still pending, answer it again{_to_fit(named[0])}",
                thread_id,
            )
    return found


def _to_fit(question: Interrupt) -> str:
    """Return what an answer must fit, for a message; nothing where that is longer than helps."""
    shown = f" to fit {question.response_schema}"
    return shown if len(shown) < _SHOWN else ""


def unknown_question(
    thread_id: str, key: object, questions: Sequence[Interrupt], *, repeated: bool = False
) -> UnknownInterruptError:
    """Return the error for an answer that names no pending question, or names one unclearly."""
    there = ", ".join(f"{q.address} ({q.id})" for q in questions) or "none"
    wrong = "is answered more than once" if repeated else "is not pending (was it answered already?)"
    return UnknownInterruptError(
        f"thread {shown(thread_id)}: the question {shown(key)} {wrong}; pending: {there}", thread_id
    )


def unclear_question(thread_id: str, questions: Sequence[Interrupt]) -> UnknownInterruptError:
    """Return the error for a bare answer where not exactly one question is pending."""
    if not questions:
        why = (
            "no question is pending (was it answered already?); resume(thread_id) tries a failed step "
            "again, run(...) starts the next turn"
        )
    else:
        there = ", ".join(f"{q.address} ({q.id})" for q in questions)
        why = f"{len(questions)} questions are pending; answer by id or address, as a dict: {there}"
    return UnknownInterruptError(f"thread {shown(thread_id)}: {why}", thread_id)


def _asked_in(tree: Tree, namespace: str, saved: CheckpointTuple | None) -> Reads[list[Interrupt]]:
    """Return the questions of a lane, those of the lanes inside it included.

    A task of LangGraph's keeps its last question also when it was answered and the task failed
    then, so a question is looked for where it was asked, with the answers that came since.
    """
    position = position_of(saved) if saved else None
    place = place_of(tree, position)
    if saved is None or position is None or place is None:
        return []
    asked = {task: writes for task, writes in writes_by_task(saved).items() if _is_asking(writes)}
    at_border = "border" in position  # there the node itself asks, whatever its agent runs
    if asked and not at_border and _runs_tasks(place, position):
        return (yield from _asked_by_tasks(tree, namespace, saved, asked))
    found: list[LangGraphInterrupt] = []
    for task, writes in asked.items():
        inner = _inside(namespace, f"{position['next']}:{task}")
        is_graph = isinstance(place.agent, GraphAgent) and hasattr(place.agent.graph, "channels")
        if is_graph and not at_border:
            waiting = yield from _waiting(inner)
            found += [one for one in writes["__interrupt__"] if one.id in (waiting or ())]
        else:
            found += _unanswered(inner, writes)
    return [opened_question(tree, one) for one in each_once(found)]


def _waiting(namespace: str) -> Reads[set[str] | None]:
    """Return the ids of the questions that wait in a graph, and in those inside; None if none ran."""
    saved: CheckpointTuple | None = yield Saved(namespace)
    if saved is None:
        return None
    asked = {task: writes for task, writes in writes_by_task(saved).items() if _is_asking(writes)}
    names = {each.id: each.name for each in (yield NextTasks(namespace))} if asked else {}
    found: set[str] = set()
    for task, writes in asked.items():
        inner = _inside(namespace, f"{names.get(task)}:{task}")
        deeper = yield from _waiting(inner)
        found |= {one.id for one in _unanswered(inner, writes)} if deeper is None else deeper
    return found


def _runs_tasks(place: Place, position: Position) -> bool:
    by_node = position["next"] == place.tools_node
    return by_node or place.kind.is_fork


def _asked_by_tasks(
    tree: Tree,
    namespace: str,
    saved: CheckpointTuple,
    asked: Mapping[str, Mapping[str, Any]],
) -> Reads[list[Interrupt]]:
    """Return the questions of the lanes and the tool calls that one node runs as tasks.

    A node that alone wrote anything ran a call without a task.
    """
    position = cast(Position, position_of(saved))
    place = placed(tree, position)
    at = address(place, as_cursor(position["cursor"]))
    (runs,) = yield NextTasks(namespace, saved.checkpoint["id"])
    outer = _inside(namespace, f"{position['next']}:{runs.id}")
    found: list[tuple[int, list[Interrupt]]] = []
    nodes = [lane.node for lane in tree.lanes(place)]
    if ran_behind(saved) == {runs.id}:
        return [opened_question(tree, one) for one in _unanswered(outer, asked[runs.id])]
    for task in asked.keys() - {runs.id}:
        attempt = sum(each["task"] == task for each in attempts_in(saved))
        for lane in tree.lanes(place):
            inside = namespace_of_attempt(_inside(outer, lane.node), task, attempt)
            if inner := (yield from _asked_in(tree, inside, (yield Saved(inside)))):
                found.append((order_of(lane, inner[0].address), inner))
                break
        else:
            own = _unanswered_by(outer, [place.call_task, *nodes], task, asked[task])
            mine = [one for one in own if asker(one.response_schema) == at]
            found += [(number_of(one), [opened_question(tree, one)]) for one in mine]
    return [question for _, each in sorted(found, key=lambda item: item[0]) for question in each]


def _inside(namespace: str, task: str) -> str:
    return f"{namespace}|{task}" if namespace else task


def _unanswered(namespace: str, writes: Mapping[str, Any]) -> list[LangGraphInterrupt]:
    """Return the questions of a task that have no answers: LangGraph counts them in the id."""
    count = len(writes.get("__resume__", ()))
    counted = [namespace, *(f"{namespace}|{nth}" for nth in range(1, count))][:count]
    answered = {LangGraphInterrupt.from_ns(None, each).id for each in counted}
    return [asked for asked in writes["__interrupt__"] if asked.id not in answered]


def _unanswered_by(
    outer: str, names: Sequence[str], task: str, writes: Mapping[str, Any]
) -> list[LangGraphInterrupt]:
    """Return the questions of a task that have no answers, whichever of some names it has."""
    left = [_unanswered(_inside(outer, f"{name}:{task}"), writes) for name in names]
    return [asked for asked in left[0] if all(asked in each for each in left)]


def _is_asking(writes: Mapping[str, Any]) -> bool:
    """Tell whether a task asked and has not ended since."""
    return "__interrupt__" in writes and writes.keys() <= {"__interrupt__", "__resume__", "__error__"}
