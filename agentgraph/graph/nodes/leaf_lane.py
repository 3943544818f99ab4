"""A lane that is one leaf: it runs in the task that would run its graph.

A graph costs three checkpoints and five writes for each run of a lane, and half of its time. A leaf
needs none of them: its messages and writes, and its place, are in the result of its task, which
LangGraph saves with the step of its node. So the events of an item carry the name of that step, by
which a kill discards them; those of a branch or step a separate name, made of the same checkpoint.

Two things need the graph, and are found out only as the leaf runs:

- It asks by `Ask`, or by a node of another kind that follows it. Then the lane continues in its graph,
  whose first node returns the leaf's earlier result (`FirstNode`).
- It calls LangGraph's `interrupt`, which a task cannot answer by the question's address. Then it runs
  again in its graph, as a resume would run it again anyway. If its code names `interrupt`, or that of a
  function it calls, it runs there at once.

A resume continues in the graph where that has saved anything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from langchain_core.callbacks import BaseCallbackManager, Callbacks
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.graph import START

from agentgraph.agents.functions import names_interrupt
from agentgraph.graph.delta_channels import changes_of_lane
from agentgraph.graph.failures import clear_limit_mark
from agentgraph.graph.internals import (
    PULL,
    RESUMING,
    RUNTIME,
    SCRATCHPAD,
    SEND,
    STREAM,
    TASK_ID,
    TRIGGER,
    ChannelWrite,
    RunnableSeq,
)
from agentgraph.graph.lane_position import Position
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.context import PARENT_STATE, NodeContext, RunState
from agentgraph.graph.nodes.emitter import own_writer
from agentgraph.graph.nodes.function import FunctionNode
from agentgraph.graph.nodes.lane import (
    BegunLeaf,
    Lane,
    LaneCall,
    LaneResult,
    NeedsTask,
    continued,
    own_counts,
    result_of,
)
from agentgraph.graph.nodes.leaf import LeafNode
from agentgraph.graph.nodes.stopping import LaneStop
from agentgraph.graph.saving import has_begun
from agentgraph.graph.spans import SpannedNode, Spans, is_traced
from agentgraph.graph.stamps import step_name
from agentgraph.graph.state import LaneState, Update
from agentgraph.graph.sync_async import Call, arun_calls, run_calls

_SHOWN = frozenset({"updates", "custom", "messages"})
"""The stream modes in which a leaf without a graph shows all that its graph would."""

Outcome = tuple[LaneResult, Exception | None]
"""The result of a lane until it ended or failed, and the failure if it did."""


class FirstNode(FunctionNode):
    """The node of a function that is a lane, which may have run in the lane's task already."""

    @property
    def needs_no_graph(self) -> bool:
        """Whether its code does not name LangGraph's `interrupt`, and nothing is cached."""
        return self.agent.cache_policy is None and not names_interrupt(self.agent.fn)

    def invoke(self, input: LaneState, config: RunnableConfig | None = None, **_: object) -> Update:
        """Return the earlier result of the function, or call it."""
        return _returned(input, config) or super().invoke(input, config)

    async def ainvoke(
        self, input: LaneState, config: RunnableConfig | None = None, **_: object
    ) -> Update:
        """Return the earlier result of the function, or call it on the event loop."""
        return _returned(input, config) or await super().ainvoke(input, config)


def _returned(state: LaneState, config: RunnableConfig | None) -> Update | None:
    outer: RunState = (config or {})["configurable"][PARENT_STATE]
    return None if "answer" in state["position"] else outer.returned


class _Run(NamedTuple):
    """One run of a leaf in a task.

    Attributes:
        node: The runnable: the node, with a run for handlers if there are any.
        context: Its place.
        state: Its input.
        config: Its config.
        sent: The writes of its code to channels.
    """

    node: Runnable[LaneState, Update]
    context: NodeContext
    state: LaneState
    config: RunnableConfig
    sent: list[tuple[str, object]]

    async def update(self, spans: Spans | None) -> Update:
        """Run the leaf, and return its update; stream what the graph of the lane would stream."""
        stream, config = self.config["configurable"].get(STREAM), self.config
        modes = () if stream is None else stream.modes
        if spans is not None:
            config = await spans.enter(SpannedNode(self.context), self.state, config)
        token = var_child_runnable_config.set(config)
        try:
            if "tasks" in modes:
                self._stream("tasks", {"input": self.state, "triggers": ()})
            update: Update = await Call(self.node.invoke, self.node.ainvoke, (self.state, config))
        except Exception as error:
            if "tasks" in modes and not isinstance(error, GraphBubbleUp):
                self._stream("tasks", {"error": repr(error), "interrupts": [], "result": {}})
            raise
        finally:
            var_child_runnable_config.reset(token)
        if "updates" in modes:
            self._stream("updates", update)
        if "tasks" in modes:
            self._stream("tasks", {"error": None, "interrupts": [], "result": update})
        return update

    def _stream(self, mode: str, data: Mapping[str, object]) -> None:
        configurable = self.config["configurable"]
        *around, own = configurable["checkpoint_ns"].split("|")
        name, _, task = own.partition(":")
        part = {name: data} if mode == "updates" else {"id": task, "name": name, **data}
        configurable[STREAM]((tuple(around), mode, part))

    def result(self, update: Update) -> LaneResult:
        """Return the result of the lane, with the notes and the place of the leaf."""
        was = update["position"]
        position = Position(next=None, cursor=[], tree="", at=was["at"], clock=was["clock"])
        if "told" in was:
            position["told"] = was["told"]
        if "spent" in was:
            position["spent"] = was["spent"]
        messages: list[BaseMessage] = update.get("messages") or []
        sent = [value for channel, value in self.sent if channel == "messages"]
        if sent or len(messages) > 1:
            messages = changes_of_lane((), [*sent, messages])
        state = {**update, "messages": messages}
        return {**result_of(state), "position": position}


def in_its_task(lane: Lane) -> Lane:
    """Return a lane as one that runs in its task, if it is one leaf that needs nothing of a graph."""
    place = lane.place
    node = lane.graph.nodes[place.node].bound if place.kind.is_leaf else None
    is_alone = not lane.graph.nodes.keys() - {START, place.node, place.nodes.question}
    if not is_alone or not isinstance(node, LeafNode) or node.node_context.has_boundary:
        return lane
    is_retried = place.policy("retry") or place.policy("timeout")
    return LeafLane(*lane) if node.needs_no_graph and not is_retried else lane


def shows_graphs(activation: Activation, lanes: Sequence[Lane]) -> bool:
    """Return whether the graphs of lanes are seen in a run: where their states stream.

    Or whether a person is asked about a limit: a leaf that must ask would run again in its graph.
    """
    config = activation.node_config
    stream = config["configurable"].get(STREAM)
    is_streamed = stream is not None and not _SHOWN.issuperset(stream.modes)
    return is_streamed or _may_ask(activation, lanes)


def _may_ask(activation: Activation, lanes: Sequence[Lane]) -> bool:
    ledger = activation.view.state.ledger
    if ledger is None or not ledger.is_full:
        return False
    leaves = [lane.node.node_context for lane in lanes if isinstance(lane, LeafLane)]
    bounds = [limits for leaf in leaves for _, limits in leaf.bounds]
    return any(limits.on_limit == "ask" for limits in (ledger.limits, *bounds))


class LeafLane(Lane):
    """A lane that is one leaf."""

    __slots__ = ()

    @property
    def node(self) -> LeafNode:
        """The node of the leaf."""
        return cast(LeafNode, self.graph.nodes[self.place.node].bound)

    def attempt(self, call: LaneCall) -> Outcome:
        """Run it, and return its result and its failure, as a lane does."""
        return run_calls(self._talk(call))

    async def aattempt(self, call: LaneCall) -> Outcome:
        """Run it on the event loop, as `attempt` does in threads."""
        return await arun_calls(self._talk(call))

    async def _talk(self, call: LaneCall) -> Outcome:
        around, in_pool = get_config(), call.way == "pool"
        if call.way == "graph":
            return await self._in_graph(call)
        if around["configurable"].get(RESUMING) and await has_begun(around):
            if in_pool:
                raise NeedsTask
            return await self._in_graph(call)
        callbacks: Any = around.get("callbacks")
        spans = Spans(callbacks.parent_run_id) if is_traced(callbacks) else None
        try:
            run = self._entered(call, around)
            update = await run.update(spans)
        except GraphInterrupt:
            update = None
        except BaseException as error:
            if spans is not None:
                await spans.close(error)
            if isinstance(error, GraphBubbleUp) or not isinstance(error, Exception):
                raise
            clear_limit_mark(error, call.node_context.place.name)
            return result_of({}), error
        if update is not None and update["position"]["next"] is None:
            return run.result(update), None
        begun = BegunLeaf(update, spans)
        if in_pool:
            raise NeedsTask(begun)
        return await self._in_graph(continued(call, begun))

    async def _in_graph(self, call: LaneCall) -> Outcome:
        outcome: Outcome = await Call(super().attempt, super().aattempt, (call,))
        return outcome

    def _entered(self, call: LaneCall, around: RunnableConfig) -> _Run:
        """Return the run of the leaf; its config is that of a node of the lane's graph."""
        node, configurable = self.node, around["configurable"]
        runtime, name = configurable[RUNTIME], self.place.node
        counts = configurable[SCRATCHPAD] if call.way == "pool" else own_counts(configurable)
        info = runtime.execution_info
        runs_in = call.node_context.place.node if self.place.is_item else name
        step = step_name(info.checkpoint_id if info else "", runs_in)
        namespace = f"{configurable['checkpoint_ns']}|{name}:{configurable[TASK_ID]}"
        position = call.node_context.first_position(self.place, call.cursor)
        state, sent = LaneState(messages=[], values=[], position=position), list[tuple[str, object]]()
        metadata = {
            **around.get("metadata", {}),
            "langgraph_checkpoint_ns": namespace,
            "langgraph_path": (PULL, name),
            "langgraph_step": 1,
            "langgraph_triggers": (f"{TRIGGER}{name}",),
        }
        callbacks = around.get("callbacks")
        handlers = callbacks.handlers if isinstance(callbacks, BaseCallbackManager) else callbacks
        if handlers:
            metadata["checkpoint_ns"] = configurable["checkpoint_ns"]
            metadata |= node.node_context.metadata(position, has_path=True)
            callbacks = _of_node(callbacks)
        config = {
            **around,
            "callbacks": callbacks,
            "metadata": metadata,
            "configurable": {
                **configurable,
                "checkpoint_ns": namespace,
                PARENT_STATE: replace(call.see(), step=step),
                RUNTIME: runtime.override(
                    control=LaneStop(call.control), stream_writer=own_writer(runtime.stream_writer)
                ),
                SCRATCHPAD: counts,
                SEND: sent.extend,
            },
        }
        runs = RunnableSeq(node, ChannelWrite(()), name=name) if handlers else node
        return _Run(runs, node.node_context, state, cast(RunnableConfig, config), sent)


def _of_node(callbacks: Callbacks) -> Callbacks:
    """Return callbacks whose next run has the tag of a node, and not that of what a task runs."""
    if not isinstance(callbacks, BaseCallbackManager):
        return callbacks
    manager = callbacks.copy()
    tags = [tag for tag in manager.tags if not tag.startswith("seq:step:")]
    manager.tags = [*tags, "graph:step:1"]
    return manager
