"""A step of a flattened graph: its node reads the state, and its writes are merged.

A node of the graph gets the state as LangGraph would pass it. The graph's reducers merge the writes of
its writers, and its messages enter the history by the rules for chat agents (`graph/chat/step.py`). The
state is saved as the record of the agent, as changes. The position says where the graph continues, as
it says for every lane.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import cast

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import NodeCancelledError, ParentCommand
from langgraph.prebuilt import ToolNode
from langgraph.types import RetryPolicy

from agentgraph.agents.agents import GraphAgent, InnerNode
from agentgraph.errors import InvalidOutputError, SeveralWaysError
from agentgraph.graph.chat.channels import Channels
from agentgraph.graph.chat.step import Step
from agentgraph.graph.copied_values import private
from agentgraph.graph.foreign.flat_graph import FlatGraph, Read, Write, following
from agentgraph.graph.foreign.stoppable_graph import stoppable_node
from agentgraph.graph.lane_position import Progress
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.asking import asked
from agentgraph.graph.nodes.calling import Contained, is_cancelled
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.function_output import take_output
from agentgraph.graph.nodes.leaf import TalkNode
from agentgraph.graph.spans import of_task
from agentgraph.graph.sync_async import Call
from agentgraph.tree.places import Place


class FlatNode(TalkNode):
    """A node of the lane that runs a node of the graph.

    Attributes:
        agent: The graph agent.
        graph: The parts of its graph.
        emits_messages: Whether the agent emits the messages in the state.
        keeps_state: Whether the state is kept over activations and turns.
        places: The places of all nodes of the graph, by name.
    """

    runs_trees = True

    def __init__(self, node_context: NodeContext, inner: str) -> None:
        """Make a node.

        Args:
            node_context: The place.
            inner: The name of the node of the graph.
        """
        place = node_context.place
        self.agent = cast(GraphAgent, place.home.agent)
        self.graph, self.inner = FlatGraph(self.agent.graph), inner
        self.emits_messages = self.agent.output is None
        self.keeps_state = getattr(self.agent.graph, "checkpointer", None) is True
        others = ("messages",) if self.emits_messages else ()
        inner_places = node_context.tree.children[place.home]
        self.places = {cast(InnerNode, each.agent).node: each for each in inner_places}
        self._channels = Channels(self.graph.channels, others=others)
        node, around = self.graph.nodes[inner], place.policy("retry") or ()
        around = [around] if isinstance(around, RetryPolicy) else around
        several = [*(node.retry_policy or ()), *around]
        timeout = node.timeout or place.policy("timeout")
        self._stoppable = stoppable_node(node)
        super().__init__(node_context, retry=several, timeout=timeout)
        if node.trace_policy is not None:
            self.policies["trace_policy"] = node.trace_policy

    def step(self, activation: Activation) -> Step:
        """Return the state of the graph."""
        return Step(
            activation,
            self._channels,
            activation.view.visible(activation.view.history),
            keeps_edits=self.keeps_state,
            is_graph=True,
        )

    def reading(self, step: Step, steps: int = 0, writes: Sequence[Write] = ()) -> Read:
        """Return the function by which the nodes of the graph read its state."""
        return self.graph.reading(step.channels(self.graph.channels), steps, writes)

    async def written(
        self, activation: Activation, step: Step, packet: Sequence[object], config: RunnableConfig
    ) -> list[Write]:
        """Run the node of the graph, and return what it wrote.

        Args:
            activation: The activation.
            step: The state before.
            packet: The input of the node, as the only item; empty if it gets the state.
            config: LangGraph's config of our node, or of the task in it.
        """
        writes: list[Write] = []
        read = self.reading(step, activation.view.progress.get("steps", 0), writes)
        node_input = private(packet[0]) if packet else self._input(read)
        silent: RunnableConfig = {**config, "callbacks": of_task(config.get("callbacks"))}
        configured = self.graph.configured(self.inner, silent, read, writes)
        try:
            await Call(self._invoke, self._ainvoke, (node_input, configured))
        except ParentCommand as parent:
            command = parent.args[0]
            if command.graph != config["configurable"].get("checkpoint_ns"):
                raise
            for writer in self.graph.nodes[self.inner].flat_writers:  # it came from a graph in the node
                writer.invoke(command, configured)
        return writes

    def _input(self, read: Read) -> object:
        """Return the input of the node of the graph; a `ToolNode` gets only the calls without a result.

        A person may have rejected the others, and a hook may jump to the tools all the same.
        """
        node_input = self.graph.input_of(self.inner, read)
        is_tools = isinstance(self.graph.nodes[self.inner].bound, ToolNode)
        return without_answered(node_input) if is_tools else node_input

    def proceed(self, activation: Activation, step: Step, writes: Sequence[Write]) -> None:
        """Continue at the next node of the graph, or end.

        Raises:
            SeveralWaysError: The graph continues at several nodes.
            InvalidOutputError: It continues at an unknown node.
        """
        nodes, packets = following(writes)
        names = [*dict.fromkeys([*nodes, *(packet.node for packet in packets)])]
        if len(names) > 1 or (nodes and packets):
            raise SeveralWaysError(self.node_context.place.home.name, activation.address, names)
        if names and names[0] not in self.places:
            raise InvalidOutputError(
                f"{activation.address}: the graph continues at {names[0]!r}, which is not one of its "
                f"nodes: {', '.join(map(repr, self.places))}"
            )
        sent = [packet.arg for packet in packets]
        if sent:
            sent = activation.output.saved(f"what it sends to {names[0]!r}", sent)
        step.emit_changes()
        if names:
            self._continue_at(activation, step, self.places[names[0]], sent)
        elif self.agent.output is None:
            self.finish(activation, step)
        else:
            self._continue_at(activation, step, self.node_context.place.home, [])

    def _continue_at(
        self, activation: Activation, step: Step, place: Place, packets: list[object]
    ) -> None:
        """Continue at a node of the graph; or at its end, where the output is still to be said."""
        before = activation.view.progress
        visits = before.get("visits", {})
        cursor = [*activation.cursor[: len(place.home.counts)]]
        progress = Progress(steps=before.get("steps", -1) + 1, visits=visits)
        if place.kind.is_inner:
            visit = visits.get(place.name, 0)
            progress["visits"] = {**visits, place.name: visit + 1}
            cursor.append(visit)
        else:
            progress["ended"] = True
        if packets:
            progress["packets"] = packets
        if passed := step.save_edits():
            progress["passed"] = passed
        activation.continue_at(place.node, cursor=cursor, chat=progress)

    async def end(self, activation: Activation, step: Step) -> None:
        """Emit the result of `output`, and end the agent."""
        if self.agent.output is not None:
            final = private(self.graph.final(self.reading(step)))
            output = await asked(activation.address, "output", self.agent.output, final)
            take_output(activation, output)
        self.finish(activation, step)

    def finish(self, activation: Activation, step: Step) -> None:
        """End the agent, and drop the state of the graph unless it is kept."""
        self._write_text(activation)
        self.save_or_drop(step)

    def _write_text(self, activation: Activation) -> None:
        text = activation.output.last_text()
        if text is None and (before := activation.view.earlier_messages()):
            text = str(before[-1].text)
        if self.agent.output_key and text is not None:
            activation.output.set_values({self.agent.output_key: text})

    def save_or_drop(self, step: Step) -> None:
        """Keep the state of the graph, or drop it."""
        if not self.keeps_state:
            step.forget()
        step.save_edits()

    def _invoke(self, node_input: object, config: RunnableConfig) -> None:
        with Contained():  # a `StopIteration` would end the talk
            self.graph.nodes[self.inner].node.invoke(node_input, config)

    async def _ainvoke(self, node_input: object, config: RunnableConfig) -> None:
        try:
            await self._stoppable.ainvoke(node_input, config)
        except asyncio.CancelledError as error:
            if is_cancelled(error):
                raise
            raise NodeCancelledError(self.inner) from error  # as LangGraph does for its own nodes


def without_answered(state: object) -> object:
    """Return the input of a `ToolNode` without the calls of the last reply that have a result.

    As LangChain's own edge has it, that is a list of calls; the node then reads the state itself.
    """
    messages = state.get("messages") if isinstance(state, Mapping) else None
    if not isinstance(state, Mapping) or not isinstance(messages, list):
        return state
    at = max((i for i, each in enumerate(messages) if isinstance(each, AIMessage)), default=None)
    if at is None:
        return state
    results = Counter(each.tool_call_id for each in messages[at:] if isinstance(each, ToolMessage))
    open_ones = []
    for call in messages[at].tool_calls:
        if results[call["id"]]:
            results[call["id"]] -= 1
        else:
            open_ones.append(call)
    if len(open_ones) == len(messages[at].tool_calls):
        return state
    none = messages[at].model_copy(update={"tool_calls": []})
    return open_ones or {**state, "messages": [*messages[:at], none, *messages[at + 1 :]]}
