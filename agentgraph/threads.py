"""What a thread holds: its pending questions, and the events that it has seen.

Nothing here reads by itself. A function that needs something of the saver yields a request and
is sent the answer, so that sync and async runners share all but the line that calls.
"""

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any, TypeVar

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.types import Interrupt as LangGraphInterrupt

from agentgraph.agents import Agent, ChatAgent, GraphAgent, ParallelAgent
from agentgraph.errors import (
    InvalidAnswerError,
    TreeChangedError,
    UnknownInterruptError,
    UnknownThreadError,
)
from agentgraph.events import AgentEvent, Interrupt
from agentgraph.places import Place, Tree
from agentgraph.position import address, as_cursor, way_to
from agentgraph.schemas import answer_fault, asker, asking_call, plain
from agentgraph.state import Position
from agentgraph.translation import Translator, opened_question

T = TypeVar("T")
_LAST = 1_000_000_000
"""Behind all numbers of calls and messages."""
Reads = Generator["Request", Any, T]
"""A function that yields requests, is sent what they ask for, and returns a `T`."""


@dataclass(frozen=True, slots=True)
class Saved:
    """Asks for the latest `CheckpointTuple` of a namespace, or None."""

    namespace: str = ""


@dataclass(frozen=True, slots=True)
class NextTasks:
    """Asks for the tasks that LangGraph runs next in a namespace."""

    namespace: str


@dataclass(frozen=True, slots=True)
class AllSaved:
    """Asks for all `CheckpointTuple`s of the thread, in all namespaces, newest first."""


Request = Saved | NextTasks | AllSaved


def opened(tree: Tree, thread_id: str) -> Reads[CheckpointTuple]:
    """Return where a thread stands.

    Raises:
        UnknownThreadError: The saver knows nothing of the thread.
        TreeChangedError: The thread was left by a tree of another shape.
    """
    saved: CheckpointTuple | None = yield Saved()
    if saved is None:
        raise UnknownThreadError(
            f"thread {thread_id!r} is not known to this saver; start it with run(..., "
            f"thread_id={thread_id!r}), or look whether the saver is the one that ran it",
            thread_id,
        )
    position = _position(saved)
    if position is not None and position["tree"] != tree.fingerprint:
        raise _changed(tree, thread_id, (yield AllSaved()))
    return saved


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
        found[named[0].id] = plain(answer)
        if fault := answer_fault(named[0].response_schema, found[named[0].id]):
            raise InvalidAnswerError(
                f"the answer {answer!r} to {named[0].address} does not fit: {fault}; the question is "
                f"still pending, answer it again to fit {named[0].response_schema}",
                thread_id,
            )
    return found


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
        why = "no question is pending (was it answered already?); go on with resume(thread_id)"
    else:
        there = ", ".join(f"{q.address} ({q.id})" for q in questions)
        why = f"{len(questions)} questions are pending; answer by id or address, as a dict: {there}"
    return UnknownInterruptError(f"thread {thread_id!r}: {why}", thread_id)


def replayed(tree: Tree, thread_id: str) -> Reads[list[AgentEvent]]:
    """Return the events of all turns of a thread, chunks aside; errors as `opened`.

    What a leaf wrote is found with the checkpoint that it started from, and is told as a stream
    tells it. The order is that of the checkpoints that the steps ended with.
    """
    yield from opened(tree, thread_id)
    every: list[CheckpointTuple] = yield AllSaved()
    heads = _heads(every)
    translator = Translator(tree, thread_id)
    told: list[tuple[Any, AgentEvent]] = []
    for saved, ended in _steps(every):
        position, at = _position(saved), _address(tree, saved)
        if position is None or at is None:
            continue
        agent, by_task = _placed(tree, position).agent, _by_task(saved)
        order = _Order(agent, saved.checkpoint["id"], ended, _lane_ends(by_task, heads))
        for writes in by_task.values():
            for number, event in _come_to(translator, writes):
                told.append((order.result(writes, number), event))
            if "at" in (writes.get("position") or {}):
                written = translator.update(str(position["next"]), writes)
                told += [((ended, 0, 0, 0), event) for event in written]
        for asked in _asked_at(at, by_task):
            told.append((order.question(_call(asked)), translator.question(asked)))
        if not isinstance(agent, ParallelAgent):
            for failed in _failures(by_task, heads.keys()):
                told.append((order.question(_LAST), translator.error(at, failed)))
    return [event for _, event in sorted(told, key=lambda item: item[0])]


class _Order:
    """Where in the order of all events stands what the tasks of one step told.

    What ran a lane has its result where that lane ended. Of other tool calls at once: first the
    results of those that asked nothing, then the questions, and what was answered where the step
    ended. Calls one after the other, and what a graph says and asks, stand in their order.
    """

    def __init__(self, agent: Agent, began: str, ended: str, lane_ends: Mapping[int, str]) -> None:
        self._began, self._ended, self._lane_ends = began, ended, lane_ends
        self._is_graph = isinstance(agent, GraphAgent)
        self._in_turn = isinstance(agent, ChatAgent) and not agent.parallel_tools

    def question(self, number: int) -> tuple[str, int, int, int]:
        """Return where the question of a call, or behind a message of a graph, stands."""
        if self._is_graph:
            return (self._ended, -1, number, 0)
        before = [end for nth, end in self._lane_ends.items() if nth < number and self._in_turn]
        return (max(before, default=self._began), 1, number, 0)

    def result(self, writes: Mapping[str, Any], number: int) -> tuple[str, int, int, int]:
        """Return where the result of a call, or a message of a graph, stands."""
        if number in self._lane_ends:
            return (self._lane_ends[number], 1, number, 1)
        if self._in_turn or self._is_graph:
            return (*self.question(number)[:2], number, 1)
        if "__interrupt__" in writes:
            return (self._ended, -1, number, 1)
        return (self._began, 0, number, 1)


def _heads(newest_first: Iterable[CheckpointTuple]) -> dict[str, str]:
    """Return the last checkpoint of each namespace, by the id of the task that ran there."""
    heads: dict[str, str] = {}
    for saved in newest_first:
        heads.setdefault(_namespace(saved).rpartition(":")[2], saved.checkpoint["id"])
    return heads


def _lane_ends(by_task: Mapping[str, Mapping[str, Any]], heads: Mapping[str, str]) -> dict[int, str]:
    """Return where the lanes ended that tool calls ran, by the numbers of the calls."""
    return {
        writes["__return__"]["number"]: heads[task]
        for task, writes in by_task.items()
        if task in heads and "acts" in (writes.get("__return__") or {})
    }


def _come_to(translator: Translator, writes: Mapping[str, Any]) -> Iterator[tuple[int, AgentEvent]]:
    """Yield what a task came to, with its number, if it tells; failures stand where they arose."""
    result = writes.get("__return__")
    if isinstance(result, Mapping) and "acts" in result:
        for event in translator.update("", result):
            if event.kind != "error":
                yield result["number"], event


def _asked_at(at: str, by_task: Mapping[str, Mapping[str, Any]]) -> list[LangGraphInterrupt]:
    """Return the questions that tasks asked at an address, each once."""
    asked = [one for writes in by_task.values() for one in writes.get("__interrupt__", ())]
    return list({one.id: one for one in asked if asker(one.response_schema) == at}.values())


def _failures(by_task: Mapping[str, Mapping[str, Any]], ran_lanes: Collection[str]) -> list[str]:
    """Return how a step failed: a node fails as its tool calls do, and a lane's agent in the lane."""
    shown = {
        task: _shown(writes["__error__"]) for task, writes in by_task.items() if "__error__" in writes
    }
    inside = {shown[task] for task in shown if task in ran_lanes}
    return [each for each in dict.fromkeys(shown.values()) if each not in {*inside, "CancelledError()"}]


def _asked_in(tree: Tree, namespace: str) -> Reads[list[Interrupt]]:
    """Return the questions of a lane, those of the lanes inside it included.

    A task of LangGraph's keeps its last question also when it was answered and the task failed
    then, so a question is looked for where it was asked, with the answers that came since.
    """
    saved: CheckpointTuple | None = yield Saved(namespace)
    position = _position(saved) if saved else None
    place = _place(tree, position)
    if saved is None or position is None or place is None:
        return []
    asked = {task: writes for task, writes in _by_task(saved).items() if _is_asking(writes)}
    if asked and _runs_tasks(place, position):
        alone = len(_by_task(saved)) == 1
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
    asked = {task: writes for task, writes in _by_task(saved).items() if _is_asking(writes)}
    names = {each.id: each.name for each in (yield NextTasks(namespace))} if asked else {}
    found: set[str] = set()
    for task, writes in asked.items():
        inner = _inside(namespace, f"{names.get(task)}:{task}")
        deeper = yield from _waiting(inner)
        found |= {one.id for one in _unanswered(inner, writes)} if deeper is None else deeper
    return found


def _runs_tasks(place: Place, position: Position) -> bool:
    by_node = position["next"] in (place.tools_node, place.approve_node)
    return by_node or isinstance(place.agent, ParallelAgent)


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
    place = _placed(tree, position)
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
            found += [(_call(one), [opened_question(tree, one)]) for one in mine]
    return [question for _, each in sorted(found, key=lambda item: item[0]) for question in each]


def _call(asked: Any) -> int:
    return asking_call(asked.response_schema)


def _order(lane: Place, question: Interrupt) -> int:
    """Return the place of a lane among those of its node: a branch's, or the number of the call."""
    if not lane.as_tool:
        return lane.index
    part = question.address.split("/")[len(way_to(lane)) - 1]
    return int(part.partition("(")[2].partition(")")[0])


def _inside(namespace: str, task: str) -> str:
    return f"{namespace}|{task}" if namespace else task


def _unanswered(namespace: str, writes: Mapping[str, Any]) -> list[LangGraphInterrupt]:
    """Return the questions of a task that have no answers: LangGraph counts them in the id."""
    count = len(writes.get("__resume__", ()))
    counted = [namespace, *(f"{namespace}|{nth}" for nth in range(1, count))][:count]
    answered = {LangGraphInterrupt.from_ns(None, each).id for each in counted}
    return [asked for asked in writes["__interrupt__"] if asked.id not in answered]


def _steps(newest_first: Iterable[CheckpointTuple]) -> list[tuple[CheckpointTuple, str]]:
    """Return the checkpoints that led to the head, each with the id of the one behind it."""
    every = list(newest_first)
    by_id = {(_namespace(saved), saved.checkpoint["id"]): saved for saved in every}
    heads: dict[str, CheckpointTuple] = {}
    for saved in every:
        heads.setdefault(_namespace(saved), saved)
    outer: set[str] = set()
    steps: list[tuple[CheckpointTuple, str]] = []
    for namespace in sorted(heads):
        saved, ended = heads[namespace], "~"
        if namespace and saved.metadata.get("parents", {}).get("") not in outer:
            continue
        chain = []
        while True:
            chain.append((saved, ended))
            ended = saved.checkpoint["id"]
            parent = saved.parent_config
            if parent is None:
                break
            saved = by_id[namespace, parent["configurable"]["checkpoint_id"]]
        if not namespace:
            outer = {step.checkpoint["id"] for step, _ in chain}
        steps.extend(reversed(chain))
    return steps


def _by_task(saved: CheckpointTuple) -> dict[str, dict[str, Any]]:
    tasks: dict[str, dict[str, Any]] = {}
    for task, channel, value in saved.pending_writes or ():
        tasks.setdefault(task, {})[channel] = value
    return tasks


def _is_asking(writes: Mapping[str, Any]) -> bool:
    """Tell whether a task asked and has not ended since."""
    return "__interrupt__" in writes and writes.keys() <= {"__interrupt__", "__resume__", "__error__"}


def _namespace(saved: CheckpointTuple) -> str:
    return str(saved.config["configurable"].get("checkpoint_ns", ""))


def _position(saved: CheckpointTuple) -> Position | None:
    position: Position | None = saved.checkpoint["channel_values"].get("position")
    return position


def _place(tree: Tree, position: Position | None) -> Place | None:
    node = position["next"] if position else None
    return tree.by_node.get(node) if node else None


def _placed(tree: Tree, position: Position) -> Place:
    return tree.by_node[str(position["next"])]


def _address(tree: Tree, saved: CheckpointTuple) -> str | None:
    position = _position(saved)
    place = _place(tree, position)
    return address(place, as_cursor(position["cursor"])) if place and position else None


def _shown(error: Any) -> str:
    return error if isinstance(error, str) else repr(error)


def _changed(tree: Tree, thread_id: str, newest_first: Iterable[CheckpointTuple]) -> TreeChangedError:
    positions = (_position(saved) for saved in newest_first if not _namespace(saved))
    was = next((p["outline"] for p in positions if p and "outline" in p), [])
    lines = unified_diff(was, tree.outline, "the tree that ran", "this tree", lineterm="", n=1)
    return TreeChangedError(
        f"thread {thread_id!r} was left by a tree of another shape, so that its place cannot be found "
        "in this one; use the tree that ran, or start a new thread",
        thread_id,
        "\n".join(lines),
    )
