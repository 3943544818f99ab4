"""The state of the lanes that a node runs, for `get_state(subgraphs=True)`: Studio and the SDK read it.

LangGraph looks for the state of a node's inner graph in the namespace of the node's task. A node that
runs lanes saves nothing there: each lane is the graph of a task that the node calls, in a namespace
inside that one. The tasks are found by the saved results, questions and failures of the node's step,
which have the ids of the tasks. LangGraph makes these ids of the step, and of the name and the number
of each call (`task_ids.py`), so the names and numbers that fit are looked for. A lane that runs, or was
killed, has saved nothing with the step, but its own checkpoints.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.types import Interrupt, PregelTask, StateSnapshot

from agentgraph.graph.internals import ERROR, INTERRUPT, PULL, PUSH, RETURN, SAVER
from agentgraph.graph.nodes.lane import Lane, attempts_in, namespace_of_attempt
from agentgraph.graph.nodes.saved_calls import number_of
from agentgraph.graph.open_types import Graph, Saver
from agentgraph.graph.saving import list_checkpoints
from agentgraph.graph.sync_async import Call
from agentgraph.graph.task_ids import called_tasks, joined, node_task
from agentgraph.graph.task_results import TAG, ours

_MORE = 64
"""How far numbers of calls are looked for, beyond those that are known."""
_STATE = ("messages", "values", "position")
"""The part of the result of a lane without checkpoints that is its state."""


class _CalledTask(NamedTuple):
    """A task that the node has called.

    Attributes:
        id: Its id.
        name: Its name: the first node of its lane, or what runs tool calls.
        number: The number of its call.
        writes: Its saved writes, by channel.
    """

    id: str
    name: str
    number: int
    writes: Mapping[str, Any]


class LaneStates:
    """Reads the state of the lanes of one node.

    Attributes:
        graphs: The graphs of the lanes, by their first nodes; None for other tasks.
        repeats: Whether a lane may run several times in one step.
    """

    def __init__(self, lanes: Sequence[Lane], others: Iterable[str] = ()) -> None:
        self.graphs: Mapping[str, Graph | None] = {
            **{lane.place.node: lane.graph for lane in lanes},
            **dict.fromkeys(others),
        }
        self.repeats = any(lane.place.is_called for lane in lanes)
        self._lanes = lanes

    @cached_property
    def _once(self) -> list[tuple[str, int]]:
        return [(lane.place.node, lane.place.rank) for lane in self._lanes]

    async def snapshot(self, config: RunnableConfig, *, subgraphs: bool) -> StateSnapshot:
        """Return the state of the node, whose tasks are the lanes that have begun.

        Args:
            config: LangGraph's config, with the saver and the namespace of the node's task.
            subgraphs: Whether the states of the lanes are read; else the tasks have their configs.
        """
        own = config["configurable"]
        saver, thread_id, namespace = own[SAVER], str(own["thread_id"]), str(own["checkpoint_ns"])
        step = await _step_of(saver, thread_id, namespace)
        found = [] if step is None else await self._called_tasks(saver, thread_id, namespace, step)
        past = Counter(each["task"] for each in attempts_in(step))
        tasks: list[PregelTask] = []
        for each in found:
            tasks += [await self._task(each, own, past[each.id], subgraphs)]
        return StateSnapshot(
            values={},
            next=tuple(each.name for each in found if not _has_ended(each)),
            config={"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace}},
            metadata=step.metadata if step else None,
            created_at=step.checkpoint["ts"] if step else None,
            parent_config=None,
            tasks=tuple(tasks),
            interrupts=tuple(asked for task in tasks for asked in task.interrupts),
        )

    async def _called_tasks(
        self, saver: Saver, thread_id: str, namespace: str, step: CheckpointTuple
    ) -> list[_CalledTask]:
        _, node, own = _parts_of(namespace)
        number = step.metadata.get("step", 0) + 1
        task_id = called_tasks(step.checkpoint["id"], namespace, number, (PULL, node))
        by_task: dict[str, dict[str, Any]] = {}
        for task, channel, value in step.pending_writes or ():
            by_task.setdefault(task, {})[channel] = value
        writes = {task: each for task, each in by_task.items() if task != own}
        found: dict[str, _CalledTask] = {}
        for name, call in self._likely([*writes.values()]):
            if (task := task_id(name, call)) in writes:
                found[task] = _CalledTask(task, name, call, writes[task])
        if INTERRUPT not in by_task.get(own, {}):  # it is not at rest
            last = max((each.number for each in found.values()), default=0)
            for name, call in self._running(last):
                if (task := task_id(name, call)) not in found and self.graphs[name] is not None:
                    at = {"thread_id": thread_id, "checkpoint_ns": f"{namespace}|{name}:{task}"}
                    arguments = ({"configurable": at},)
                    if await Call(saver.get_tuple, saver.aget_tuple, arguments) is not None:
                        found[task] = _CalledTask(task, name, call, {})
        return sorted(found.values(), key=lambda each: each.number)

    def _likely(self, written: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, int]]:
        """Yield names and numbers of calls, of which some are those of the tasks that wrote."""
        if not self.repeats:
            yield from self._once
            return
        results = [ours(each.get(RETURN)) for each in written]
        known = [number_of(each["call"]) for each in results if each.get(TAG) == "unended"]
        known += [each["number"] for each in results if isinstance(each.get("number"), int)]
        for number in dict.fromkeys([*known, *range(len(written) * 4 + _MORE)]):
            yield from ((name, number) for name in self.graphs)

    def _running(self, last: int) -> Iterator[tuple[str, int]]:
        if not self.repeats:
            yield from self._once
            return
        for number in range(last + 1 + _MORE):
            yield from ((name, number) for name in self.graphs)

    async def _task(
        self, found: _CalledTask, own: Mapping[str, Any], attempt: int, subgraphs: bool
    ) -> PregelTask:
        graph = self.graphs[found.name]
        state: RunnableConfig | StateSnapshot | None = None
        if graph is not None:
            within = joined(str(own["checkpoint_ns"]), found.name)
            at = {"thread_id": own["thread_id"]}
            at["checkpoint_ns"] = namespace_of_attempt(within, found.id, attempt)
            state = RunnableConfig(configurable=at)
            if subgraphs:
                state = await _state_of(graph, found, {**at, SAVER: own[SAVER]})
        return PregelTask(
            id=found.id,
            name=found.name,
            path=(PUSH, (PULL, _parts_of(str(own["checkpoint_ns"]))[1]), found.number),
            error=found.writes.get(ERROR),
            interrupts=_questions_of(found, state),
            state=state,
            result={"messages": _messages_in(found)} if _has_ended(found) else None,
        )


async def _step_of(saver: Saver, thread_id: str, namespace: str) -> CheckpointTuple | None:
    """Return the checkpoint from which the task of a node runs; None if there is none."""
    around, node, task = _parts_of(namespace)
    config = RunnableConfig(configurable={"thread_id": thread_id, "checkpoint_ns": around})

    def is_it(saved: CheckpointTuple) -> bool:
        number = saved.metadata.get("step", 0) + 1
        return node_task(saved.checkpoint["id"], around, number, node) == task

    last: CheckpointTuple | None = await Call(saver.get_tuple, saver.aget_tuple, (config,))
    if last is None or is_it(last):
        return last
    return next(filter(is_it, await list_checkpoints(saver, config)), None)


def _parts_of(namespace: str) -> tuple[str, str, str]:
    """Return the namespace around a node's, its name, and the id of its task.

    >>> _parts_of("both:1|left:2")
    ('both:1', 'left', '2')
    """
    around, _, last = namespace.rpartition("|")
    node, _, task = last.partition(":")
    return around, node, task


async def _state_of(graph: Graph, found: _CalledTask, at: dict[str, Any]) -> StateSnapshot:
    """Return the state of a lane; of one that saved no checkpoints, as its result has it."""
    read = partial(graph.get_state, subgraphs=True), partial(graph.aget_state, subgraphs=True)
    state: StateSnapshot = await Call(*read, (RunnableConfig(configurable=at),))
    result = ours(found.writes.get(RETURN))
    if state.created_at is not None or not result:
        return state
    if "failed" in result:  # a leaf: the message with its failure is that of the lanes' node
        return state._replace(values={"messages": []}, next=(found.name,))
    return state._replace(values={key: result[key] for key in _STATE if key in result})


def _questions_of(found: _CalledTask, state: object) -> tuple[Interrupt, ...]:
    """Return the open questions of a task; the state of its lane knows which are answered."""
    if _has_ended(found):
        return ()
    if isinstance(state, StateSnapshot) and state.created_at is not None:
        return state.interrupts
    return tuple(found.writes.get(INTERRUPT, ()))


def _has_ended(found: _CalledTask) -> bool:
    return RETURN in found.writes


def _messages_in(found: _CalledTask) -> object:
    """Return the messages in the result of a task; those of an agent that a function ran are apart."""
    result = ours(found.writes[RETURN])
    return result.get("said") or result.get("messages", [])
