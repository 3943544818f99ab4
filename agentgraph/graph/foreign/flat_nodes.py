"""The nodes of a flattened graph: one that starts it, and one for each of its nodes.

Several packets for one node (`Send`) run as LangGraph tasks, so that none that ended runs again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast
from uuid import uuid4

from langchain_core.messages import BaseMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.errors import ParentCommand
from langgraph.graph import END, START
from langgraph.graph.message import Messages, add_messages
from langgraph.types import Command, Overwrite

from agentgraph.agents.agents import InnerNode
from agentgraph.agents.middleware import Mode
from agentgraph.errors import MaxIterationsError
from agentgraph.graph.chat.step import Step
from agentgraph.graph.foreign.flat_graph import Write
from agentgraph.graph.foreign.flat_step import FlatNode
from agentgraph.graph.foreign.graph_input import graph_input
from agentgraph.graph.foreign.graph_replies import GraphReplies
from agentgraph.graph.foreign.handoffs import end_by_command, handoff_of, ignored
from agentgraph.graph.foreign.message_log import as_messages, written_in
from agentgraph.graph.foreign.stateful_graph import messages_among, open_results
from agentgraph.graph.graph_classes import LaneNode
from agentgraph.graph.lane_position import Position
from agentgraph.graph.message_changes import with_id
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.callers import CALLER
from agentgraph.graph.nodes.concurrency import AT_ONCE
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.emitter import Writer, with_writer
from agentgraph.graph.nodes.gated_task import TaskCall, talk_tasks
from agentgraph.graph.nodes.reporter import Reporter
from agentgraph.graph.nodes.schedule import Schedule
from agentgraph.graph.nodes.stopping import inner_stop
from agentgraph.graph.nodes.task_calls import tasks_call
from agentgraph.graph.stamps import GRAPH_AGENT, now
from agentgraph.graph.task_results import TaskResult


class EntryNode(FlatNode):
    """Begins the graph: writes its input, and continues at its first node.

    Where the agent has an `output`, the graph ends here too: if that fails, no node runs again.
    """

    def __init__(self, node_context: NodeContext) -> None:
        super().__init__(node_context, START)

    async def talk(self, activation: Activation) -> None:
        """Write the input; or say the output."""
        if self.asks_history:
            await activation.view.ask_history()
        step = self.step(activation)
        if activation.view.progress.get("ended"):
            await self.end(activation, step)
            return
        state = await graph_input(self.agent, activation)
        if not self.keeps_state:
            step.forget()
        elif isinstance(state, Mapping) and "messages" in state:
            state = {**state, "messages": self._answered(activation, step, state["messages"])}
        writes = await self.written(activation, step, [state], activation.config)
        if self.emits_messages:
            self._see(activation, step, [value for name, value in writes if name == "messages"])
            step.merge_writes([write for write in writes if write[0] != "messages"])
        else:
            step.merge_writes(writes)
        self.proceed(activation, step, writes)

    def _answered(self, activation: Activation, step: Step, messages: object) -> object:
        earlier = (
            step.messages if self.emits_messages else self.reading(step)(["messages"]).get("messages")
        )
        if not open_results(messages_among(earlier), []):
            return messages
        known = as_messages(messages, activation.address)
        return [*open_results(messages_among(earlier), known), *known]

    def _see(self, activation: Activation, step: Step, several: Sequence[object]) -> None:
        """Show the graph the messages of its input; by default it sees what the agent sees."""
        if self.agent.input is None:
            return
        flat = [
            each
            for messages in several
            for each in (messages if isinstance(messages, list) else [messages])
        ]
        known = as_messages(flat, activation.address)
        before = step.messages if self.keeps_state else []
        step.see(cast(list[BaseMessage], add_messages(cast(Messages, before), cast(Messages, known))))


class InnerGraphNode(FlatNode):
    """Runs a node of the graph; several packets for it (`Send`) each in a task."""

    def __init__(self, node_context: NodeContext) -> None:
        super().__init__(node_context, cast(InnerNode, node_context.place.agent).node)
        self.tasks = talk_tasks(node_context.place.nodes.call, self._packet)

    async def talk(self, activation: Activation) -> None:
        """Run the node."""
        steps = activation.view.progress.get("steps", 0)
        if steps >= self.graph.most_steps:
            raise MaxIterationsError(
                f"{activation.address}: {steps} nodes of the graph have run in this activation; if "
                "that is right, raise its limit: graph.with_config(recursion_limit=...)"
            )
        if self.asks_history:
            await activation.view.ask_history()
        step = self.step(activation)
        replies = GraphReplies(activation.output, step.messages)
        if self.emits_messages:
            activation.output.replies = replies
        writes, commands = await self._written(activation, step, replies)
        step.merge_writes(writes)
        if commands:
            self._apply_handoffs(activation, step, commands)
        else:
            self.proceed(activation, step, writes)

    async def _written(self, activation: Activation, step: Step, replies: GraphReplies) -> "_Written":
        packets = activation.view.progress.get("packets", [])
        if len(packets) > 1:
            return await self._sent(activation, step, replies, packets)
        config = self._marked(activation, activation.config, replies)
        return await self._commanded(activation, step, packets, config)

    async def _commanded(
        self, activation: Activation, step: Step, packet: Sequence[object], config: RunnableConfig
    ) -> "_Written":
        try:
            writes = await self.written(activation, step, packet, config)
        except ParentCommand as parent:
            call = packet[0].get("tool_call") if packet and isinstance(packet[0], Mapping) else None
            return _Written([], [(parent.args[0], call["id"] if call else None)])
        return _Written(writes, [])

    async def _sent(
        self, activation: Activation, step: Step, replies: GraphReplies, packets: Sequence[object]
    ) -> "_Written":
        schedule = Schedule([()] * len(packets), inner_stop())

        def start(mode: Mode, n: int, call: TaskCall) -> object:
            return call(self.tasks[mode], activation, step, replies, n, packets[n])

        ended: Mapping[int, TaskResult] = await tasks_call(schedule, start)
        messages = [message for result in ended.values() for message in result["messages"]]
        activation.output.add_emitted(messages)
        writes = [tuple(write) for result in ended.values() for write in result["writes"]]
        commands = [each["acts"]["parent"] for each in ended.values() if "parent" in each["acts"]]
        return _Written(cast(list[Write], writes), [*map(tuple, commands)])

    async def _packet(
        self, activation: Activation, step: Step, replies: GraphReplies, number: int, packet: object
    ) -> TaskResult:
        """Run the node for one packet, and return what it wrote as the result of the task."""
        emitter, began = activation.output.new_emitter(is_concurrent=True), now()
        with Reporter(activation, number, emitter):
            config = with_writer(get_config(), Writer(emitter, passes_ours=True))
            config = self._marked(activation, config, replies, number)
            written, commands = await self._commanded(activation, step, [packet], config)
            writes = self._with_ids(activation, step, written)
            saved = activation.output.saved("what the node writes", [writes, commands])
            writes, commands = saved
            messages = self._new_messages(activation, step, writes)
            for message in messages:
                emitter.add_message(message)
        position = Position(next=None, cursor=[], tree="", at=activation.address, told=emitter.end())
        acts = {"parent": commands[0]} if commands else {}
        return TaskResult(
            agentgraph="node",
            messages=messages,
            values=[],
            position=position,
            acts=acts,
            number=number,
            began=began,
            writes=writes,
        )

    def _with_ids(self, activation: Activation, step: Step, writes: Sequence[Write]) -> list[Write]:
        """Return writes of a packet whose messages have ids, which those of no other packet have."""
        seen = {message.id: message for message in step.messages}
        return [
            (
                name,
                [self._owned(activation, seen, each) for each in convert_to_messages(_listed(value))],
            )
            if name == "messages" and not isinstance(value, Overwrite)
            else (name, value)
            for name, value in writes
        ]

    def _owned(
        self, activation: Activation, seen: Mapping[str | None, BaseMessage], message: BaseMessage
    ) -> BaseMessage:
        if not self.emits_messages:
            return with_id(message, str(uuid4()))
        return activation.output.owned(message, seen.get(message.id), is_said=True, is_concurrent=True)

    def _new_messages(
        self, activation: Activation, step: Step, writes: Sequence[Write]
    ) -> list[BaseMessage]:
        known = {message.id for message in step.messages}
        written = written_in([{name: value} for name, value in writes if self.emits_messages])
        changes = [activation.output.change_by(m, "hook", is_seen=m.id in known) for m in written]
        return [m for change in changes if change.effect == "said" for m in change.messages]

    def _marked(
        self, activation: Activation, config: RunnableConfig, replies: GraphReplies, *packet: int
    ) -> RunnableConfig:
        CALLER.set(replies.caller(activation.view, config, *packet))
        config = replies.config(config)
        if not self.emits_messages:
            return config
        metadata = {GRAPH_AGENT: activation.address, **config.get("metadata", {}), **activation.mark}
        return {**config, "metadata": metadata}

    def _apply_handoffs(
        self, activation: Activation, step: Step, commands: Sequence[tuple[Command[str], str | None]]
    ) -> None:
        """Do what commands to the parent graph say, as LangGraph's handoff tools make them.

        Of several transfers the last one is carried out.

        Raises:
            InvalidOutputError: One names several agents, or an unknown one.
        """
        handoffs = [
            handoff_of(activation, command, step.messages, step.own, call=call)
            for command, call in commands
        ]
        leading = [i for i, each in enumerate(handoffs) if each.target or each.leaving]
        goes = False
        for i, each in enumerate(handoffs):
            handoff = ignored(each) if i in leading[:-1] else each
            step.merge({"messages": handoff.messages})
            step.emit_changes()
            goes = end_by_command(activation, handoff, self._channels.own) or goes
        if not goes:
            self._write_text(activation)
        self.save_or_drop(step)


def flat_node(node_context: NodeContext) -> LaneNode:
    """Return the node that begins the graph, or runs one of its nodes, with its drawn ways on."""
    place = node_context.place
    is_inner = place.kind.is_inner
    node = InnerGraphNode(node_context) if is_inner else EntryNode(node_context)
    successors, has_output = node.graph.successors(node.inner), not node.emits_messages
    others = [node.places[successor].node for successor in successors if successor in node.places]
    if is_inner and has_output and END in successors:
        others.append(place.home.node)
    may_end = not is_inner if has_output else END in successors
    return LaneNode(
        node,
        place.kind.capabilities(place.agent) if may_end else None,
        others,
        is_free=True,
        reads=("middleware", "untracked"),
        picture=cast(InnerNode, place.agent).graph if is_inner else None,
        at_once=AT_ONCE if is_inner else 0,
    )


class _Written(NamedTuple):
    """The output of a node of the graph.

    Attributes:
        writes: Its writes to the channels of the graph.
        commands: Its commands to the parent graph, each with the id of the call that made it.
    """

    writes: list[Write]
    commands: Sequence[tuple[Command[str], str | None]]


def _listed(value: object) -> list[Any]:
    return [*value] if isinstance(value, list | tuple) else [value]
