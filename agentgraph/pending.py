"""The questions of a thread that wait for answers, and the answers to them."""

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.types import Interrupt as LangGraphInterrupt

from agentgraph.addresses import address, as_cursor, way_to
from agentgraph.agents import FORKS, GraphAgent, WorkflowAgent
from agentgraph.dependencies import in_order
from agentgraph.errors import AgentGraphError, InvalidAnswerError, UnknownInterruptError
from agentgraph.events import Interrupt
from agentgraph.places import Place, Tree
from agentgraph.schemas import answer_fault, asker, plain
from agentgraph.state import Position
from agentgraph.threads import (
    NextTasks,
    Reads,
    Saved,
    number_of,
    opened,
    place_of,
    placed,
    position_of,
    writes_by_task,
)
from agentgraph.translation import opened_question
from agentgraph.values import shortly

_SHOWN = 200
"""How long a schema may be to be shown in a message."""


def pending(tree: Tree, thread_id: str) -> Reads[list[Interrupt]]:
    """Return the questions that wait for answers, in the order of the tree.

    Raises:
        UnknownThreadError: The saver knows nothing of the thread.
        TreeChangedError: The thread was left by a tree of another shape.
    """
    yield from opened(tree, thread_id)
    return (yield from _asked_in(tree, ""))


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
                f"the answer {shortly(answer)} to {named[0].address} does not fit: {fault}; the "
                f"question is still pending, answer it again{_to_fit(named[0])}",
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
        f"thread {thread_id!r}: the question {key!r} {wrong}; pending: {there}", thread_id
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
    return UnknownInterruptError(f"thread {thread_id!r}: {why}", thread_id)


def _asked_in(tree: Tree, namespace: str) -> Reads[list[Interrupt]]:
    """Return the questions of a lane, those of the lanes inside it included.

    A task of LangGraph's keeps its last question also when it was answered and the task failed
    then, so a question is looked for where it was asked, with the answers that came since.
    """
    saved: CheckpointTuple | None = yield Saved(namespace)
    position = position_of(saved) if saved else None
    place = place_of(tree, position)
    if saved is None or position is None or place is None:
        return []
    asked = {task: writes for task, writes in writes_by_task(saved).items() if _is_asking(writes)}
    if asked and _runs_tasks(place, position):
        alone = len(writes_by_task(saved)) == 1
        return (yield from _asked_by_tasks(tree, namespace, position, asked, alone))
    found: list[LangGraphInterrupt] = []
    for task, writes in asked.items():
        inner = _inside(namespace, f"{position['next']}:{task}")
        if isinstance(place.agent, GraphAgent) and hasattr(place.agent.graph, "channels"):
            waiting = yield from _waiting(inner)
            found += [one for one in writes["__interrupt__"] if one.id in (waiting or ())]
        else:
            found += _unanswered(inner, writes)
    return [opened_question(tree, one) for one in found]


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
    by_node = position["next"] in (place.tools_node, place.approve_node)
    return by_node or isinstance(place.agent, FORKS)


def _asked_by_tasks(
    tree: Tree,
    namespace: str,
    position: Position,
    asked: Mapping[str, Mapping[str, Any]],
    alone: bool,
) -> Reads[list[Interrupt]]:
    """Return the questions of the lanes and the tool calls that one node runs as tasks.

    A node that is `alone` ran a call without a task.
    """
    place = placed(tree, position)
    at = address(place, as_cursor(position["cursor"]))
    (runs,) = yield NextTasks(namespace)
    outer = _inside(namespace, f"{position['next']}:{runs.id}")
    found: list[tuple[int, list[Interrupt]]] = []
    if alone and runs.id in asked:
        return [opened_question(tree, one) for one in _unanswered(outer, asked[runs.id])]
    for task in asked.keys() - {runs.id}:
        for lane in tree.lanes(place):
            if inner := (yield from _asked_in(tree, _inside(outer, f"{lane.node}:{task}"))):
                found.append((_order(lane, inner[0]), inner))
                break
        else:
            own = _unanswered(_inside(outer, f"{place.call_task}:{task}"), asked[task])
            mine = [one for one in own if asker(one.response_schema) == at]
            found += [(number_of(one), [opened_question(tree, one)]) for one in mine]
    return [question for _, each in sorted(found, key=lambda item: item[0]) for question in each]


def _order(lane: Place, question: Interrupt) -> int:
    """Return the place of a lane among those of its node: that of its result, or the call's number."""
    if lane.is_called:
        part = question.address.split("/")[len(way_to(lane)) - 1]
        return int(part.partition("(")[2].partition(")")[0])
    fork = lane.parent.agent if lane.parent else None
    if isinstance(fork, WorkflowAgent) and lane.index < len(fork.steps):
        return in_order({step.name: step.depends_on for step in fork.steps}).index(lane.name)
    return lane.index


def _inside(namespace: str, task: str) -> str:
    return f"{namespace}|{task}" if namespace else task


def _unanswered(namespace: str, writes: Mapping[str, Any]) -> list[LangGraphInterrupt]:
    """Return the questions of a task that have no answers: LangGraph counts them in the id."""
    count = len(writes.get("__resume__", ()))
    counted = [namespace, *(f"{namespace}|{nth}" for nth in range(1, count))][:count]
    answered = {LangGraphInterrupt.from_ns(None, each).id for each in counted}
    return [asked for asked in writes["__interrupt__"] if asked.id not in answered]


def _is_asking(writes: Mapping[str, Any]) -> bool:
    """Tell whether a task asked and has not ended since."""
    return "__interrupt__" in writes and writes.keys() <= {"__interrupt__", "__resume__", "__error__"}
