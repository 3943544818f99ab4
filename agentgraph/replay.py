"""The events of a thread told again, from what its saver keeps."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.types import Command
from langgraph.types import Interrupt as LangGraphInterrupt

from agentgraph.agents import FORKS, Agent, ChatAgent, GraphAgent
from agentgraph.errors import StepFailedError
from agentgraph.events import AgentEvent
from agentgraph.failures import each_once
from agentgraph.nodes.attempts import standing, task_in
from agentgraph.places import Tree
from agentgraph.schemas import asker
from agentgraph.shown import shown_error
from agentgraph.threads import (
    AllSaved,
    Reads,
    address_at,
    namespace_of,
    number_of,
    opened,
    placed,
    position_of,
    writes_by_task,
)
from agentgraph.translation import Translator

Key = tuple[str, int, int, int]
"""A place in the order of events: a checkpoint, before or behind it, the number of a call, its turn."""
E = TypeVar("E", bound=str | AgentEvent)
_LAST = 1_000_000_000
"""Behind all numbers of calls and messages."""
_HEAD = "~"
"""Behind all ids of checkpoints: what comes behind the last one of a lane."""


def replayed(tree: Tree, thread_id: str) -> Reads[list[AgentEvent]]:
    """Return the events of all turns of a thread, chunks aside; errors as `opened`.

    What a leaf wrote is found with the checkpoint that it started from, and is told as a stream
    tells it. The order is that of the checkpoints that the steps ended with.
    """
    yield from opened(tree, thread_id)
    told = _told(tree, thread_id, standing((yield AllSaved())))
    return _without_void([event for _, event in sorted(told, key=_key)])


def recalled(tree: Tree, thread_id: str) -> Reads[list[str | AgentEvent]]:
    """Return what came of the last turn of a thread, in order: its events, and what ended.

    What ended is told by its address, for not all of it has events. Errors as `opened`.
    """
    yield from opened(tree, thread_id)
    return _recalled(tree, thread_id, standing(_last_turn((yield AllSaved()))))


def _recalled(tree: Tree, thread_id: str, turn: list[CheckpointTuple]) -> list[str | AgentEvent]:
    newest = {namespace_of(saved): saved for saved in reversed(turn)}
    left = {address_at(tree, saved) for saved in newest.values()}
    steps = [(address_at(tree, saved), behind) for saved, behind in _steps(turn)]
    came: list[tuple[Key, str | AgentEvent]] = [*_told(tree, thread_id, turn)]
    came += [((behind, _LAST, 0, 0), at) for at, behind in steps if at and at not in left]
    return _without_void([each for _, each in sorted(came, key=_key)])


def told_before(tree: Tree, thread_id: str, goes_on_with: Any) -> Reads[list[AgentEvent]]:
    """Return what a run that goes on must know: what this turn told that it may tell to be void.

    Of attempts that are over, too: the process may have ended before it told that they are.

    Args:
        tree: The tree.
        thread_id: The thread.
        goes_on_with: What LangGraph is given: input, where a turn begins.
    """
    if not tree.calls_again or not isinstance(goes_on_with, Command | None):
        return []
    yield from opened(tree, thread_id)
    came = _recalled(tree, thread_id, _last_turn((yield AllSaved())))
    return [each for each in came if isinstance(each, AgentEvent)]


def _without_void(told: Sequence[E]) -> list[E]:
    """Return what was told without what was told to be void after it."""
    void: set[str] = set()
    left: list[E] = []
    for each in reversed(told):
        if not isinstance(each, AgentEvent):
            left.append(each)
        elif each.action is not None and each.action.discarded:
            void.update(each.action.discarded)
        elif each.id not in void:
            left.append(each)
    return left[::-1]


def _key(told: tuple[Key, Any]) -> Key:
    return told[0]


def _told(
    tree: Tree, thread_id: str, newest_first: list[CheckpointTuple]
) -> list[tuple[Key, AgentEvent]]:
    """Return the events of a thread, each with its place in the order of all."""
    heads = _heads(newest_first)
    translator = Translator(tree, thread_id)
    steps = _steps(newest_first)
    return [each for step in steps for each in _told_in(tree, translator, heads, *step)]


def _last_turn(newest_first: list[CheckpointTuple]) -> list[CheckpointTuple]:
    """Return the checkpoints since the last turn began: there the position has an outline."""
    begun = (
        saved.checkpoint["id"]
        for saved in newest_first
        if not namespace_of(saved) and "outline" in (position_of(saved) or {})
    )
    first = next(begun, "")
    return [saved for saved in newest_first if saved.checkpoint["id"] >= first]


def _told_in(
    tree: Tree, translator: Translator, heads: dict[str, str], saved: CheckpointTuple, ended: str
) -> Iterator[tuple[Key, AgentEvent]]:
    """Yield what one step told, each event with its place in the order of all."""
    position, at = position_of(saved), address_at(tree, saved)
    if position is None or at is None:
        return
    agent, by_task = placed(tree, position).agent, writes_by_task(saved)
    order = _Order(agent, saved.checkpoint["id"], ended, _lane_ends(by_task, heads))
    kept = _kept(by_task)
    for writes in by_task.values():
        for number, event in _come_to(translator, writes):
            if kept is None or event.message is None or event.id in kept:
                yield order.result(writes, number), event
        if "at" in (writes.get("position") or {}):
            for event in translator.update(str(position["next"]), writes):
                if event.kind != "error":
                    yield (ended, 0, 0, 0), event
    for asked in _asked_at(at, by_task):
        yield order.question(number_of(asked)), translator.question(asked)
    is_fork = isinstance(agent, FORKS) and "border" not in position  # its lanes tell how they failed
    if not is_fork or _is_final(by_task) or _join_fails(by_task):
        last = max((heads[task] for task in by_task if task in heads), default=ended)
        behind = (last, _LAST, 0, 0) if is_fork else order.question(_LAST)
        for failed in _failures(by_task, heads.keys()):
            yield behind, translator.error(at, failed)


class _Order:
    """Where in the order of all events stands what the tasks of one step told.

    What ran a lane has its result where that lane ended. Of other tool calls at once: first the
    results of those that neither asked nor failed, then the questions and failures, and what came
    of these where the step ended. Calls one after the other, and what a graph says and asks, stand
    in their order.
    """

    def __init__(self, agent: Agent, began: str, ended: str, lane_ends: Mapping[int, str]) -> None:
        self._began, self._ended, self._lane_ends = began, ended, lane_ends
        self._is_graph = isinstance(agent, GraphAgent)
        self._in_turn = isinstance(agent, ChatAgent) and not agent.parallel_tools

    def question(self, number: int) -> Key:
        """Return where the question of a call, or behind a message of a graph, stands."""
        if self._is_graph:
            return (self._ended, -1, number, 0)
        before = [end for nth, end in self._lane_ends.items() if nth < number and self._in_turn]
        return (max(before, default=self._began), 1, number, 0)

    def result(self, writes: Mapping[str, Any], number: int) -> Key:
        """Return where the result of a call, or a message of a graph, stands."""
        if number in self._lane_ends:
            failed = _has_failed(writes["__return__"])  # and then behind the failure
            return (self._lane_ends[number], 2 if failed else 1, number, 1)
        if self._in_turn or self._is_graph:
            return (*self.question(number)[:2], number, 1)
        if "__interrupt__" in writes or "__error__" in writes:
            return (self._ended, -1, number, 1)
        return (self._began, 0, number, 1)


def _has_failed(result: Mapping[str, Any]) -> bool:
    """Tell whether a lane failed: by its own result, or by that of the call that ran it."""
    told = result["position"].get("told", ())
    return "failed" in result or any(kind == "error" for _, _, kind, *_ in told)


def _heads(newest_first: Iterable[CheckpointTuple]) -> dict[str, str]:
    """Return the last checkpoint of each namespace, by the id of the task that ran there."""
    heads: dict[str, str] = {}
    for saved in newest_first:
        heads.setdefault(task_in(namespace_of(saved)), saved.checkpoint["id"])
    return heads


def _lane_ends(by_task: Mapping[str, Mapping[str, Any]], heads: Mapping[str, str]) -> dict[int, str]:
    """Return where the lanes ended that tell what they came to, by the numbers of their calls."""
    return {
        writes["__return__"]["number"]: heads[task]
        for task, writes in by_task.items()
        if task in heads and "position" in (writes.get("__return__") or {})
    }


def _come_to(translator: Translator, writes: Mapping[str, Any]) -> Iterator[tuple[int, AgentEvent]]:
    """Yield what a task came to, with its number, if it tells; failures stand where they arose."""
    result = writes.get("__return__")
    if isinstance(result, Mapping) and "position" in result:
        for event in translator.update("", result):
            if event.kind != "error":
                yield result["number"], event


def _is_final(by_task: Mapping[str, Mapping[str, Any]]) -> bool:
    """Tell whether the failure of a lane was kept as its result."""
    results = [writes.get("__return__") for writes in by_task.values()]
    return any(isinstance(result, Mapping) and "failed" in result for result in results)


def _join_fails(by_task: Mapping[str, Mapping[str, Any]]) -> bool:
    """Tell whether it was the join of lanes that failed: it alone, and not with what a lane raised."""
    shown = {task: _shown(each["__error__"]) for task, each in by_task.items() if "__error__" in each}
    failed = [task for task in shown if "__return__" not in by_task[task]]
    if len(failed) != 1:
        return False
    own = shown.pop(failed[0])
    return own not in shown.values() and not own.startswith(f"{StepFailedError.__name__}(")


def _kept(by_task: Mapping[str, Mapping[str, Any]]) -> set[str | None] | None:
    """Return the ids of the messages that a node wrote; None where it has not ended yet.

    What the tasks of a failed attempt said is told, and not kept.
    """
    for writes in by_task.values():
        if "by_tasks" in (writes.get("position") or {}):
            return {message.id for message in writes.get("messages", ())}
    return None


def _asked_at(at: str, by_task: Mapping[str, Mapping[str, Any]]) -> list[LangGraphInterrupt]:
    """Return the questions that tasks asked at an address, each once."""
    asked = [one for writes in by_task.values() for one in writes.get("__interrupt__", ())]
    return each_once(one for one in asked if asker(one.response_schema) == at)


def _failures(by_task: Mapping[str, Mapping[str, Any]], ran_lanes: Collection[str]) -> list[str]:
    """Return how a step failed: a node fails as its tool calls do, and a lane's agent in the lane."""
    shown = {
        task: _shown(writes["__error__"]) for task, writes in by_task.items() if "__error__" in writes
    }
    inside = {shown[task] for task in shown if task in ran_lanes}
    return [
        each
        for each in dict.fromkeys(shown.values())
        if each not in inside and not each.startswith(("CancelledError(", "KeyboardInterrupt("))
    ]


def _steps(newest_first: Iterable[CheckpointTuple]) -> list[tuple[CheckpointTuple, str]]:
    """Return the checkpoints that led to the head, each with the id of the one behind it.

    A lane that was left, by a new turn or by a fork that waited no more, ends as the step around it.
    """
    every = list(newest_first)
    by_id = {(namespace_of(saved), saved.checkpoint["id"]): saved for saved in every}
    heads: dict[str, CheckpointTuple] = {}
    for saved in every:
        heads.setdefault(namespace_of(saved), saved)
    ends: dict[tuple[str, str], str] = {}
    steps: list[tuple[CheckpointTuple, str]] = []
    for namespace in sorted(heads):
        saved, ended = heads[namespace], _HEAD
        around = saved.metadata.get("parents", {})
        if namespace and ("", around.get("")) not in ends:
            continue
        if namespace:
            ended = next(ends[each] for each in sorted(around.items())[::-1] if each in ends)
        chain = []
        while True:
            chain.append((saved, ended))
            ends[namespace, saved.checkpoint["id"]] = ended
            ended = saved.checkpoint["id"]
            before = (saved.parent_config or {}).get("configurable", {})
            parent = by_id.get((namespace, str(before.get("checkpoint_id"))))
            if parent is None:
                break
            saved = parent
        steps.extend(reversed(chain))
    return steps


def _shown(error: Any) -> str:
    return error if isinstance(error, str) else shown_error(error)
