"""The questions of a thread that wait for answers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from langgraph.types import Interrupt as LangGraphInterrupt

from agentgraph.events.events import Interrupt
from agentgraph.events.translation import question_note, question_of
from agentgraph.graph.failures import each_once
from agentgraph.graph.internals import ERROR, INTERRUPT, RESUME, recast_checkpoint_ns, task_path_str
from agentgraph.graph.lane_position import Position
from agentgraph.graph.limit_answers import limit_question_in
from agentgraph.graph.nodes.lane import namespace_of_attempt
from agentgraph.graph.nodes.saved_calls import number_of
from agentgraph.graph.nodes.spending import LEAVE, Counts
from agentgraph.graph.stamps import asker_of
from agentgraph.graph.task_ids import joined
from agentgraph.graph.task_results import TAG
from agentgraph.journal.changed_trees import read_thread
from agentgraph.journal.kept_answers import kept_answers
from agentgraph.journal.lines import (
    before_edits,
    leading_checkpoints,
    order_of,
    place_of,
    position_in,
)
from agentgraph.journal.saved import Saved, Writes
from agentgraph.journal.spent import counts_at
from agentgraph.journal.task_paths import task_path
from agentgraph.journal.thread_saver import TaskWrite, ThreadSaver
from agentgraph.tree.addresses import (
    address,
    as_cursor,
    parse_address,
    places_to,
)
from agentgraph.tree.places import Place, Tree

QUESTION_ID = re.compile("[0-9a-f]{32}")
"""The ids of questions."""


class OpenQuestion(NamedTuple):
    """A question that waits.

    Attributes:
        question: LangGraph's question, with its address.
        saved: The checkpoint of the step in which it was asked; None if that is not known.
        task: The task that asked it.
        answers: The answers that the task has to its earlier questions.
        path: LangGraph's path of the task, if it is one of a graph inside the tree.
    """

    question: LangGraphInterrupt
    saved: Saved | None = None
    task: str = ""
    answers: Sequence[object] = ()
    path: str = ""

    @property
    def id(self) -> str:
        """The id of the question."""
        return self.question.id

    @property
    def schema(self) -> object:
        """The schema of its answer, which names the asker."""
        return self.question.response_schema

    def answered(self, tree: Tree, answer: object) -> TaskWrite | None:
        """Return the write of an answer where its task takes it; None if that is not known."""
        if self.saved is None:
            return None
        asker = asker_of(self.schema)
        path = self.path or task_path(tree, self.saved, self.task, asker.address or "", asker.call)
        return self.saved.config, self.task, RESUME, [*self.answers, answer], path


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """A question with an answer that no run has taken yet: the next `resume` or `advance` does.

    Attributes:
        question: The question.
        answer: The answer, as plain data.
    """

    question: Interrupt
    answer: Any


class PendingQuestions(NamedTuple):
    """The questions of a thread, and how they can be answered.

    Attributes:
        questions: The questions that wait, in the order of the tree.
        answered: "by id". If an edit of the state makes their step start again: "by new id" for the
            question of the node itself, "bare" for the only question inside it, otherwise "anew", which
            means that they must be asked again first.
        asked: Where they were asked, by their ids, if they are answered "by id".
        kept: The questions whose answers are stored, in the order of the tree.
        origin: The root's checkpoint of the step that asked; None if nothing waits.
    """

    questions: list[Interrupt]
    answered: Literal["by id", "by new id", "bare", "anew"] = "by id"
    asked: Mapping[str, OpenQuestion] = MappingProxyType({})
    kept: Sequence[AnsweredQuestion] = ()
    origin: Saved | None = None

    def writes(self, tree: Tree, answers: Mapping[str, object]) -> dict[str, TaskWrite]:
        """Return the writes of answers for the tasks that take them, by id, as far as these are known.

        An answer about a limit is taken as a run starts.
        """
        several = {key: self.asked[key] for key in answers if key in self.asked}
        writes = {
            key: each.answered(tree, answers[key])
            for key, each in several.items()
            if limit_question_in(each.schema) is None
        }
        return {key: write for key, write in writes.items() if write}

    @property
    def stored(self) -> Mapping[str, object]:
        """The stored answers, by the ids of their questions."""
        return {each.question.id: each.answer for each in self.kept}


async def pending(saver: ThreadSaver) -> list[Interrupt]:
    """Return the questions that wait for answers, in the order of the tree.

    Raises:
        UnknownThreadError: The saver has no such thread.
        TreeChangedError: A tree of another shape ran the thread.
    """
    saved = await read_thread(saver)
    return [] if saved is None else await pending_at(saver, saved)


async def are_answered(saver: ThreadSaver) -> bool:
    """Return whether all questions of a thread have answers, which no run has taken."""
    waiting = await questions_on(saver)
    return bool(waiting.kept) and not waiting.questions


async def has_stored_answers(saver: ThreadSaver) -> bool:
    """Return whether a thread has answers which no run has taken."""
    return bool((await questions_on(saver)).kept)


async def questions_on(saver: ThreadSaver) -> PendingQuestions:
    """Return the questions of a thread, and how they can be answered. Raises as `pending` does."""
    saved = await read_thread(saver)
    return PendingQuestions([]) if saved is None else await pending_questions(saver, saved)


async def pending_at(saver: ThreadSaver, saved: Saved) -> list[Interrupt]:
    """Return the questions that wait at the latest checkpoint of a thread, in the order of the tree."""
    return (await pending_questions(saver, saved)).questions


async def pending_questions(saver: ThreadSaver, saved: Saved) -> PendingQuestions:
    """Return the questions that wait where a thread is, and how they can be answered."""
    _, origin = await before_edits(saver, saved)
    waiting = await (_questions if origin is saved else _questions_before_edits)(saver, origin)
    return _without_kept(waiting, origin) if waiting.questions else waiting


def _without_kept(waiting: PendingQuestions, origin: Saved) -> PendingQuestions:
    """Return questions without those whose answers are stored with the step that asked.

    If an edit has changed the id of the only question, the stored answer is for that one.
    """
    stored = kept_answers(origin)
    if stored and waiting.answered != "by id":
        *_, answer = stored.values()
        is_usable = waiting.answered == "by new id" or (
            waiting.answered == "bare" and may_be_bare(answer)
        )
        stored = {waiting.questions[0].id: answer} if is_usable else {}
    kept = [AnsweredQuestion(each, stored[each.id]) for each in waiting.questions if each.id in stored]
    rest = [each for each in waiting.questions if each.id not in stored]
    return waiting._replace(questions=rest, kept=kept, origin=origin)


def may_be_bare(answer: object) -> bool:
    """Return whether LangGraph would take an answer without an id as it is, and not as several."""
    return answer is not None and not (
        isinstance(answer, dict) and all(map(QUESTION_ID.fullmatch, answer))
    )


async def _questions(saver: ThreadSaver, saved: Saved) -> PendingQuestions:
    asked = await _questions_in_lane(saver, "", saved)
    if any(map(limit_question_in, (each.schema for each in asked))):
        asked = _without_extended(asked, await counts_at(saver, saved))
    questions = [question_of(saver.tree, question_note(each.question)) for each in asked]
    return PendingQuestions(questions, asked={each.id: each for each in asked})


def _without_extended(asked: Sequence[OpenQuestion], counts: Counts) -> list[OpenQuestion]:
    about = ((each, limit_question_in(each.schema)) for each in asked)
    return [
        each
        for each, limit in about
        if limit is None or int(counts.get(limit.name, {}).get(LEAVE + limit.measure, 0)) <= limit.given
    ]


async def _questions_before_edits(saver: ThreadSaver, origin: Saved) -> PendingQuestions:
    """Return the questions that were asked in the step after a checkpoint, before the state was edited.

    The step that asked them starts again. So the question of its node has a new id already, and one of
    a lane gets its id only when it is asked again. But if there was only one, and nothing had been
    answered, the next answer is for that one.
    """
    position = position_in(saver.tree, origin)
    tasks = (await saver.state()).tasks
    again = (await _questions(saver, origin)).questions
    questions = [
        replace(each, deadline=None) for each in again
    ]  # it counts from when it is asked again
    if position is None or not questions or [task.name for task in tasks] != [position["next"]]:
        return PendingQuestions([])
    place = saver.tree.by_node[str(position["next"])]
    node = f"{position['next']}:{tasks[0].id}"
    asks_itself = position["next"] == place.nodes.question or place.kind.asks
    is_first = asks_itself or not await _is_answered(saver, origin)
    alone = origin.ran_after == {origin.task} and not (place.kind.is_parallel or place.kind.runs_graph)
    if len(questions) == 1 and is_first and alone:
        own = LangGraphInterrupt.from_ns(None, node).id
        return PendingQuestions([replace(questions[0], id=own)], "by new id")
    return PendingQuestions(questions, "bare" if len(questions) == 1 and is_first else "anew")


async def _is_answered(saver: ThreadSaver, origin: Saved) -> bool:
    began = origin.id
    every = await leading_checkpoints(saver, began)
    inside = [each for each in every if each.metadata.get("parents", {}).get("") == began]
    return any(RESUME in task for at in [origin, *inside] for task in at.writes.values())


async def _questions_in_lane(
    saver: ThreadSaver, namespace: str, saved: Saved | None
) -> list[OpenQuestion]:
    """Return the questions of a lane and of the lanes inside it.

    A LangGraph task keeps its last question even if that was answered and the task then failed. So each
    question is looked up where it was asked, together with the answers since then.
    """
    position = position_in(saver.tree, saved) if saved else None
    place = place_of(saver.tree, position)
    if saved is None or position is None or place is None:
        return []
    asked, next_ = _asking(saved), position["next"]
    at_border = "border" in position  # there the node itself asks, whatever its agent runs
    if asked and not at_border and next_ != place.nodes.question and _runs_lanes(place, next_):
        return await _questions_of_tasks(saver, namespace, saved, position)
    questions: list[OpenQuestion] = []
    for task, writes in asked.items():
        inner = joined(namespace, f"{next_}:{task}")
        graph: Any = getattr(place.agent, "graph", None) if place.kind.runs_graph else None
        if hasattr(graph, "channels") and not at_border:
            at = recast_checkpoint_ns(inner) if graph.checkpointer is True else inner
            waiting = await _questions_in_graph(saver, at)
            asks = [one for one in writes[INTERRUPT] if one.id in (waiting or ())]
            questions += [(waiting or {})[one.id]._replace(question=one) for one in asks]
        else:
            questions += _unanswered(inner, saved, task)
    return each_once(questions)


def _runs_lanes(place: Place, node: str | None) -> bool:
    return node == place.nodes.tools or place.kind.is_parallel or place.kind.runs_agents


async def _questions_in_graph(saver: ThreadSaver, namespace: str) -> dict[str, OpenQuestion] | None:
    """Return the questions that wait in a graph and its subgraphs, by id; None if none ran."""
    saved = await saver.checkpoint(namespace)
    if saved is None:
        return None
    asked = _asking(saved)
    tasks = (await saver.state(namespace)).tasks if asked else ()
    names = {each.id: each.name for each in tasks}
    paths = {each.id: task_path_str(each.path) for each in tasks}
    questions: dict[str, OpenQuestion] = {}
    for task in asked:
        inner = joined(namespace, f"{names.get(task)}:{task}")
        deeper = await _questions_in_graph(saver, inner)
        several = _unanswered(inner, saved, task)
        own = {each.id: each._replace(path=paths.get(task, "")) for each in several}
        questions |= own if deeper is None else deeper
    return questions


async def _questions_of_tasks(
    saver: ThreadSaver, namespace: str, saved: Saved, position: Position
) -> list[OpenQuestion]:
    """Return the questions of the lanes and tool calls that one node runs as tasks.

    If only the node itself wrote anything, it ran a call without a task.
    """
    place = saver.tree.by_node[str(position["next"])]
    asked, lanes = _asking(saved), saver.tree.lanes(place)
    at = address(place, as_cursor(position["cursor"]))
    own_task = saved.task
    outer = joined(namespace, f"{position['next']}:{own_task}")
    if saved.ran_after == {own_task}:
        return _unanswered(outer, saved, own_task)
    in_order: list[tuple[tuple[int, str], list[OpenQuestion]]] = []
    for task in asked.keys() - {own_task} - _caught(saved, lanes):
        attempt = sum(each["task"] == task for each in saved.attempts)
        continues = False
        for lane in _likely_first(saver.tree, lanes, asked[task][INTERRUPT]):
            inside = namespace_of_attempt(joined(outer, lane.node), task, attempt)
            at_lane = await saver.checkpoint(inside)
            continues |= at_lane is not None and _has_next(saver.tree, at_lane)
            if inner := await _questions_in_lane(saver, inside, at_lane):
                there = asker_of(inner[0].schema).address or ""
                order = order_of(lane, there), there
                in_order.append((order, inner))
                break
        else:
            if continues:  # the question of its lane has an answer
                continue
            names = [place.nodes.call, *(lane.node for lane in lanes)]
            candidates = [_unanswered(joined(outer, f"{name}:{task}"), saved, task) for name in names]
            ids = set.intersection(*({each.id for each in several} for several in candidates))
            waiting: dict[str, OpenQuestion] = {}
            for each in chain(*candidates):
                if each.id in ids and (each.saved or each.id not in waiting):
                    waiting[each.id] = each
            askers = [(asker_of(each.schema), each) for each in waiting.values()]
            in_order += [((asker.call, at), [each]) for asker, each in askers if asker.address == at]
    if own_task in asked:  # the function itself, or a call without a task, may have asked
        own = [
            each for each in _unanswered(outer, saved, own_task) if asker_of(each.schema).address == at
        ]
        if not place.kind.runs_agents:  # the rest repeats the questions of calls that are tasks
            asks = chain.from_iterable(writes[INTERRUPT] for writes in asked.values())
            of_users = {
                one.id for one in asks if one.response_schema is None
            }  # in tasks that a tool runs
            own = [each for each in own if each.id in of_users]
        in_order += [((-1, at), [each]) for each in own]
    return [question for _, each in sorted(in_order, key=lambda item: item[0]) for question in each]


def _caught(saved: Saved, lanes: Sequence[Place]) -> set[str]:
    """Return the tasks of calls whose failures a function has caught: they do not run again."""
    unended = (each for each in saved.results.values() if each[TAG] == "unended")
    last = {each["call"]: each for each in sorted(unended, key=itemgetter("saved"))}
    caught = [call for call, each in last.items() if "position" in each and not each["again"]]
    return {saved.called_task(lane.node, number_of(call)) for call in caught for lane in lanes}


def _has_next(tree: Tree, saved: Saved) -> bool:
    position = position_in(tree, saved)
    return position is None or position["next"] is not None


def _likely_first(
    tree: Tree, lanes: Sequence[Place], questions: Sequence[LangGraphInterrupt]
) -> list[Place]:
    """Return lanes, first those in which questions say that they were asked: looking costs a read."""
    parsed = (parse_address(tree, asker_of(each.response_schema).address or "") for each in questions)
    around = {place for each in parsed if each for place in places_to(each[0])}
    return sorted(lanes, key=lambda lane: lane not in around)


def _asking(saved: Saved) -> Writes:
    """Return the writes of the tasks that asked and have not ended since, by task id."""
    ends = {INTERRUPT, RESUME, ERROR}
    by_task = saved.writes.items()
    return {task: each for task, each in by_task if INTERRUPT in each and each.keys() <= ends}


def _unanswered(namespace: str, saved: Saved, task: str) -> list[OpenQuestion]:
    """Return the questions of a task that have no answers: LangGraph counts them in the id.

    Where a question is that of the task itself, and not of a graph in it, it is known where its answer
    is saved.
    """
    writes = saved.writes[task]
    answers = writes.get(RESUME, ())
    counted = [namespace, *(f"{namespace}|{nth}" for nth in range(1, len(answers) + 1))]
    *answered, next_ = [LangGraphInterrupt.from_ns(None, each).id for each in counted]
    return [
        OpenQuestion(one, saved, task, answers) if one.id == next_ else OpenQuestion(one)
        for one in each_once(writes[INTERRUPT])
        if one.id not in answered
    ]
