"""Computes the view of an activation at the start of a step again, from the checkpoints.

A node makes a `View` from the state of its lane and, for an inner lane, from the state that the
enclosing node showed to the lane. The saver has both: the lane's state at the checkpoint of the step,
and the state around it with the results of earlier tasks. So the functions of a node compute the view
again, from the outermost lane inwards.

Only the reducers of values are called, no other user function. If a user function decides what a lane
sees, `Views.remarks` says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, cast

from langchain_core.runnables import RunnableConfig

from agentgraph.agents.agents import (
    ChatAgent,
    FunctionAgent,
    agent_tools,
)
from agentgraph.agents.entries import Item
from agentgraph.agents.functions import yields
from agentgraph.agents.middleware import any_has
from agentgraph.agents.prebuilt.plans import Request
from agentgraph.graph.lane_position import Position
from agentgraph.graph.nodes.context import PARENT_STATE, NodeContext, RunState
from agentgraph.graph.nodes.each import EachNode
from agentgraph.graph.nodes.lane import LaneResult, last_text, task_in
from agentgraph.graph.nodes.lanes_node import Results
from agentgraph.graph.nodes.run_calls import request_to
from agentgraph.graph.nodes.view import View
from agentgraph.graph.nodes.workflow import WorkflowNode, after_step
from agentgraph.graph.stamps import number_at
from agentgraph.graph.state import LaneState
from agentgraph.graph.tagged_containers import unmarked
from agentgraph.graph.task_results import TAG
from agentgraph.graph.values import Write
from agentgraph.journal.lines import position_in
from agentgraph.journal.saved import NO_TASK, Saved, parts_of
from agentgraph.journal.steps import AgentStep
from agentgraph.journal.story import Story
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.tree.addresses import Cursor, as_cursor, counts_around, number_of_item
from agentgraph.tree.places import Place


class Views:
    """Makes the views of activations of one thread.

    Attributes:
        remarks: Unknown parts of the views, each once.
    """

    def __init__(self, saver: ThreadSaver, story: Story) -> None:
        """Make the views of a story.

        Args:
            saver: The thread.
            story: A history line from the root's step with the activation.
        """
        self.remarks: dict[str, None] = {}
        self._saver, self._tree, self._story = saver, saver.tree, story
        self._known: dict[tuple[str, Place], View] = {}
        self._first: dict[str, Saved] = {}
        for saved in story.every:
            first = self._first.setdefault(saved.namespace, saved)
            if not saved.begins_turn and (first.begins_turn or saved.id < first.id):
                self._first[saved.namespace] = saved

    async def at(self, agent_step: AgentStep) -> View:
        """Return the view of an activation in a step."""
        if agent_step.task is None:
            return await self._view(agent_step.saved, agent_step.place)
        outer = await self._lane_state(agent_step.saved, agent_step.place, agent_step.cursor)
        node_context = self._context(agent_step.place)
        position = node_context.position(agent_step.place.nodes.entry, agent_step.cursor)
        return _view(node_context, LaneState(messages=[], values=[], position=position), outer)

    async def after(
        self, agent_steps: Sequence[AgentStep], next_: Saved | None
    ) -> Mapping[str, object]:
        """Return the values of the run after steps of one lane, as far as they have ended.

        These are the values before the first step, with the writes of the steps.

        Args:
            agent_steps: The steps, in order.
            next_: The checkpoint after the last step, if it has ended.
        """
        first, *rest = agent_steps
        state = (await self.at(first)).state
        later = [*(each.saved for each in rest), *_some(next_)]
        if first.task is None and any(each.is_manual for each in later):
            last = agent_steps[-1].saved if next_ is None else next_
            return (await self._view(last, agent_steps[-1].place)).state.values
        for agent_step in agent_steps:
            written = _written(agent_step, is_first=agent_step is first)
            if agent_step.saved.namespace or agent_step.task is not None:
                writes = [cast(Write, each) for several in written for each in several or ()]
                state = state.with_new((), state.reducers.loaded(writes))
            else:
                values = reduce(state.reducers.replayed, written, state.values)
                state = replace(state, values=values)
        return state.values

    async def _view(self, saved: Saved, place: Place) -> View:
        key = str(saved.id), place
        if key not in self._known:
            self._known[key] = await self._new_view(saved, place)
        return self._known[key]

    async def _new_view(self, saved: Saved, place: Place) -> View:
        namespace = saved.namespace
        channels: Any = (await self._saver.state(namespace, saved.id)).values
        position = position_in(self._tree, saved) or saved.position
        if position is not None and "tasks" in position:  # whose values a rewind may have edited
            position = Position({**position, "tasks": channels["position"]["tasks"]})
        empty: object = [] if namespace else {}
        state = {"messages": [], "values": empty, **channels, "position": position}
        outer = await self._outer_state(namespace) if namespace else None
        return _view(self._context(place), cast(LaneState, state), outer)

    async def _outer_state(self, namespace: str) -> RunState:
        first = self._first[namespace]
        *around, node, name = parts_of(namespace)
        key = "|".join(around)
        fork_id = first.metadata["parents"][key]
        fork = self._story.by_key.get((key, fork_id))
        if fork is None:
            fork = cast(Saved, await self._saver.checkpoint(key, fork_id))
        place = self._tree.by_node[node.partition(":")[0]]
        lanes = self._tree.lanes(place)
        lane = next(each for each in lanes if each.node == name.partition(":")[0])
        position = first.position
        cursor = as_cursor(position["cursor"]) if position else ()
        return await self._lane_state(fork, lane, cursor, first)

    async def _lane_state(
        self,
        fork: Saved,
        lane: Place,
        cursor: Cursor,
        first: Saved | None = None,
    ) -> RunState:
        """Return the state that a node shows to a lane.

        Args:
            fork: The checkpoint from which the node runs.
            lane: The first place of the lane.
            cursor: The counters there.
            first: The first checkpoint of the lane; None without checkpoints.
        """
        around = cast(Place, lane.parent)
        view = await self._view(fork, around)
        call = cursor[len(counts_around(lane))] if lane.is_called else None
        if lane.workflow is not None:
            return self._in_step(view, fork, lane)
        if lane.is_item:
            return self._in_item(view, fork, number_of_item(call))
        if around.chat is not None:
            return self._in_call(view, fork, around.chat, lane, number_of_item(call))
        if lane.is_run and first is not None:
            return self._in_run(view, fork, cast(FunctionAgent, around.agent), call, first)
        return view.seen

    def _in_step(self, view: View, fork: Saved, lane: Place) -> RunState:
        node = WorkflowNode(view.node_context, ())
        undoing = self._tasks_that_undo(fork)
        results = {
            result["number"]: result
            for task, result in fork.results.items()
            if task not in undoing and "finished" in result
        }
        steps = node.agent.steps
        if lane.undoes:
            names = [step.name for step in steps if step.compensate is not None]
            undone = names[lane.index - len(steps)]
            number = next(n for n, step in enumerate(node.steps) if step.name == undone)
            return after_step(view, cast(LaneResult, results[number]))
        step = steps[lane.index]
        if callable(step.input):
            self._remark(f"{view.address}: input= is a function; its result is not saved")
        return node.sees(view, step, cast(Results, results))

    def _tasks_that_undo(self, fork: Saved) -> set[str]:
        """Return the tasks that undo steps of a workflow; their results have no numbers."""
        nodes = {place.node for place in self._tree.places if place.undoes}
        return {
            task_in(namespace)
            for namespace in self._first
            if parts_of(namespace) and parts_of(namespace)[-1].partition(":")[0] in nodes
        }

    def _in_item(self, view: View, fork: Saved, number: int) -> RunState:
        node, results = EachNode(view.node_context, ()), [*fork.results.values()]
        looked_up = next(each for each in results if each[TAG] == "items")
        keys = [*map(str, looked_up["keys"] or ())]
        key = looked_up["keys"][number] if keys else None
        item = Item(number, key, unmarked(looked_up["values"][number]))
        if isinstance(node.agent.input, Request):  # a step of a plan; the results have its input
            ended = {keys[each["number"]]: each for each in results if "finished" in each}
            needed = [each for each in node.needed(view, item) if each in ended]
            texts = {each: last_text(cast(LaneResult, ended[each])) for each in needed}
            return node.sees_request(view, replace(item, results=texts))
        if callable(node.agent.input):
            self._remark(f"{view.address}: input= is a function; its text for the item is not saved")
            return node.with_item(view, item)
        return node.sees(view, item)

    def _in_call(self, view: View, fork: Saved, agent: ChatAgent, lane: Place, number: int) -> RunState:
        from agentgraph.graph.chat.called_tools import arguments_of, call_state
        from agentgraph.graph.chat.calls import open_calls

        tool = next(each for each in agent_tools(agent) if each.agent.name == lane.given_name)
        opened = next((each for each in open_calls(view) if each.number == number), None)
        seen = view.seen
        if not agent.parallel_tools:
            before = [e for e in fork.results.values() if e[TAG] == "tool" and e["number"] < number]
            for each in sorted(before, key=lambda each: int(each["number"])):
                seen = seen.with_new((), seen.reducers.loaded(each["values"]))
        if view.node_context.place.asks_approval or any_has(agent.middleware, "wrap_tool_call"):
            self._remark(
                f"{view.address}: middleware or a person may have changed the arguments of the call; "
                "the model's arguments are shown"
            )
        try:
            if opened is not None:
                return call_state(tool, view, seen, number, arguments_of(tool.args_schema, opened.call))
        except ValueError:
            pass
        self._remark(f"{view.address}: the arguments of call {number} are not saved")
        return seen

    def _in_run(
        self,
        view: View,
        fork: Saved,
        agent: FunctionAgent,
        call: Any,
        first: Saved,
    ) -> RunState:
        carried, position = view.position.get("calls") or (), first.position
        results = [each for each in (*carried, *fork.results.values()) if each[TAG] == "call"]
        seen = view.seen
        for each in _had(results, first):
            seen = seen.with_new((), seen.reducers.loaded(each["values"]))
        if yields(agent.fn):
            self._remark(
                f"{view.address}: values that the function wrote before it ran the agent are not shown"
            )
        request = position.get("request", "") if position else ""
        message = request_to(view.address, call, request)
        return replace(seen, messages=[message])

    def _remark(self, text: str) -> None:
        self.remarks[text] = None

    def _context(self, place: Place) -> NodeContext:
        saver = self._saver
        return NodeContext(saver.tree, place, saver.paths, saver.reducers)


def _some(saved: Saved | None) -> list[Saved]:
    return [] if saved is None else [saved]


def _had(results: Sequence[Mapping[str, Any]], first: Saved) -> list[Mapping[str, Any]]:
    """Return the results that a function had when it made another call, in the order of its calls.

    Args:
        results: The results of the calls.
        first: The first checkpoint of the other call.
    """
    after = first.position.get("after") if first.position else None
    if after is None:  # saved by an older version
        began = number_at(first.first_time)
        return [each for each in results if each["ended"] <= began]
    count, *more = after
    had = [each for each in results if (made := each.get("made", 0)) < count or made in more]
    return sorted(had, key=lambda each: each.get("made", 0))


def _written(agent_step: AgentStep, *, is_first: bool) -> list[Any]:
    """Return the writes of values in a step, in order: those before its start, and its node's.

    The state of the first step already has the writes before its start.
    """
    by_task = agent_step.saved.writes
    if agent_step.task is not None:
        return [agent_step.saved.results.get(agent_step.task, {}).get("values")]
    own, before = by_task.get(agent_step.saved.task, {}), by_task.get(NO_TASK, {})
    written = [] if is_first else [before.get("values")]
    written += [own.get("values")] if "position" in own else []
    return [each for each in written if each]


def _view(node_context: NodeContext, state: LaneState, outer: RunState | None) -> View:
    config: RunnableConfig = {} if outer is None else {"configurable": {PARENT_STATE: outer}}
    return View(node_context, state, config)
