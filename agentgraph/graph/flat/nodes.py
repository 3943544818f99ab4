"""The nodes of a graph that is laid flat: one that begins it, and one for each of its own.

A node of the graph gets the state as LangGraph would give it. What its writers write is merged by the
reducers of the graph's channels, and its messages enter the history by the rules for chat agents
(`graph/chat/step.py`). The state is saved as the record of the agent, as changes. Where the graph goes
on is in the position, like everything that says where a lane is.

Several packets for one node (`Send`) run as LangGraph tasks, so that none that ended runs again.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast
from uuid import uuid4

from langchain_core.messages import BaseMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.errors import ParentCommand
from langgraph.graph import START
from langgraph.graph.message import add_messages
from langgraph.types import Command, Overwrite, RetryPolicy

from agentgraph.agents.agents import GraphAgent, InnerNode
from agentgraph.errors import InvalidOutputError, MaxIterationsError, SeveralWaysError
from agentgraph.graph.chat.step import Step
from agentgraph.graph.chat.talking import Call, Talk, arun_talk, run_talk
from agentgraph.graph.flat.parts import FlatGraph, Write
from agentgraph.graph.history import is_said
from agentgraph.graph.message_log import as_messages, written_in
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.chunks import Chunks
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.emitter import Writer, with_writer
from agentgraph.graph.nodes.graph_input import graph_input
from agentgraph.graph.nodes.handoff import handoff_of
from agentgraph.graph.nodes.items import take_output
from agentgraph.graph.nodes.kept import messages_among, open_results
from agentgraph.graph.nodes.leaf import LeafNode
from agentgraph.graph.nodes.schedule import (
    GatedTask,
    Schedule,
    Start,
    arun_tasks,
    check_threads,
    run_tasks,
    slots,
)
from agentgraph.graph.nodes.stoppable_graph import stoppable_node
from agentgraph.graph.nodes.stopping import Contained, inner_stop
from agentgraph.graph.state import GRAPH_AGENT, Position, Progress, TaskResult, with_id
from agentgraph.tree.places import Place

_INSTEAD = "or make it more than {}"


class FlatNode(LeafNode):
    """A node of the lane that runs a node of the graph; subclasses say in `talk` what it does.

    Attributes:
        agent: The graph agent.
        graph: The parts of its graph.
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
        self.graph, self.inner = FlatGraph(self.agent), inner
        node, around = self.graph.node(inner), place.policy("retry") or ()
        around = [around] if isinstance(around, RetryPolicy) else around
        several = [*(node.retry_policy or ()), *around]
        timeout = node.timeout or place.policy("timeout")
        self._stoppable = stoppable_node(node)
        super().__init__(node_context, retry=several, timeout=timeout)
        if node.trace_policy is not None:
            self.policies["trace_policy"] = node.trace_policy

    @abstractmethod
    def talk(self, activation: Activation) -> Talk[None]:
        """Return the talk that the node runs."""

    def run(self, activation: Activation) -> None:
        """Run the node."""
        run_talk(self.talk(activation))

    async def arun(self, activation: Activation) -> None:
        """Run the node on the event loop."""
        await arun_talk(self.talk(activation))

    def step(self, activation: Activation) -> Step:
        """Return the state of the graph."""
        return Step(
            activation,
            self.graph.channels,
            activation.visible(self.agent.history),
            keeps_edits=self.graph.keeps_state,
        )

    def written(
        self, step: Step, packet: Sequence[Any], config: RunnableConfig, steps: int
    ) -> Talk[list[Write]]:
        """Run the node of the graph, and return what it wrote.

        Args:
            step: The state before.
            packet: The input of the node, as the only item; empty if it gets the state.
            config: LangGraph's config of our node, or of the task in it.
            steps: How many nodes ran before in this activation.
        """
        writes: list[Write] = []
        read = self.graph.reading(step, steps, writes)
        given = packet[0] if packet else self.graph.given_to(self.inner, read)
        configured = self.graph.configured(self.inner, config, read, writes)
        try:
            yield Call(self._invoke, self._ainvoke, (given, configured))
        except ParentCommand as left:
            command = left.args[0]
            if command.graph != config["configurable"].get("checkpoint_ns"):
                raise
            for writer in self.graph.node(self.inner).flat_writers:  # it came from a graph in the node
                writer.invoke(command, configured)
        return writes

    def go_on(self, activation: Activation, step: Step, writes: Sequence[Write]) -> None:
        """Continue at the next node of the graph, or end.

        Raises:
            SeveralWaysError: The graph goes on at several nodes.
            InvalidOutputError: It goes on at an unknown node.
        """
        ways = self.graph.ways(writes)
        names = [*ways.nodes, *(name for name, _ in ways.packets)]
        if len({*names}) > 1 or (ways.nodes and ways.packets):
            home = self.node_context.place.home
            raise SeveralWaysError(home.name, activation.address, [*dict.fromkeys(names)])
        following = self._place_of(activation, names[0]) if names else None
        packets = [given for _, given in ways.packets]
        activation.check(f"what it sends to {names[0]!r}" if packets else "what it sends", packets)
        step.say()
        if following is not None:
            self._continue_at(activation, step, following, packets)
        elif self.agent.output is None:
            self.end(activation, step)
        else:
            self._continue_at(activation, step, self.node_context.place.home, [])

    def _continue_at(
        self, activation: Activation, step: Step, place: Place, packets: list[Any]
    ) -> None:
        """Continue at a node of the graph; or at its end, where the output is still to be said."""
        before = activation.progress
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
        if passed := step.keep():
            progress["passed"] = passed
        activation.continue_at(place.node, cursor=cursor, chat=progress)

    def _place_of(self, activation: Activation, name: str) -> Place:
        """Return the place of a node of the graph."""
        places = self.node_context.tree.children[self.node_context.place.home]
        found = [place for place in places if cast(InnerNode, place.agent).node == name]
        if not found:
            names = ", ".join(repr(cast(InnerNode, place.agent).node) for place in places)
            raise InvalidOutputError(
                f"{activation.address}: the graph goes on at {name!r}, which is not one of its nodes: "
                f"{names}"
            )
        return found[0]

    def end(self, activation: Activation, step: Step) -> None:
        """End the agent, and drop the state of the graph unless it is kept."""
        if self.agent.output is not None:
            read = self.graph.reading(step, 0)
            take_output(activation, self.agent.output(self.graph.final(read)))
        text = activation.last_text()
        if text is None and (before := activation.said_before()):
            text = str(before[-1].text)
        if self.agent.output_key and text is not None:
            activation.set_values({self.agent.output_key: text})
        self.leave(step)

    def leave(self, step: Step) -> None:
        """Keep the state of the graph, or drop it."""
        if not self.graph.keeps_state:
            step.forget()
        step.keep()

    def _invoke(self, given: Any, config: RunnableConfig) -> None:
        with Contained():  # a `StopIteration` would end the talk
            self.graph.node(self.inner).node.invoke(given, config)

    async def _ainvoke(self, given: Any, config: RunnableConfig) -> None:
        await self._stoppable.ainvoke(given, config)


class EntryNode(FlatNode):
    """Begins the graph: writes its input, and continues at its first node.

    Where the agent has an `output`, the graph ends here too: if that fails, no node runs again.
    """

    def __init__(self, node_context: NodeContext) -> None:
        super().__init__(node_context, START)

    def talk(self, activation: Activation) -> Talk[None]:
        """Write the input; or say the output."""
        step = self.step(activation)
        if activation.progress.get("ended"):
            self.end(activation, step)
            return
        given = graph_input(self.agent, activation)
        if not self.graph.keeps_state:
            step.forget()
        elif isinstance(given, Mapping) and "messages" in given:
            given = {**given, "messages": self._answered(activation, step, given["messages"])}
        writes = yield from self.written(step, [given], activation.config, 0)
        if self.graph.says_messages:
            self._see(activation, step, [value for name, value in writes if name == "messages"])
            step.merge_writes([write for write in writes if write[0] != "messages"])
        else:
            step.merge_writes(writes)
        self.go_on(activation, step, writes)

    def _answered(self, activation: Activation, step: Step, given: Any) -> Any:
        """Return messages, after results for calls that an earlier activation left open, if any."""
        is_kept = not self.graph.says_messages
        kept = self.graph.reading(step, 0)(["messages"]).get("messages") if is_kept else step.messages
        if not open_results(messages_among(kept), []):
            return given
        known = as_messages(given, activation.address)
        return [*open_results(messages_among(kept), known), *known]

    def _see(self, activation: Activation, step: Step, several: Sequence[Any]) -> None:
        """Show the graph the messages of its input; by default it sees what the agent sees."""
        if self.agent.input is None:
            return
        flat = [each for given in several for each in (given if isinstance(given, list) else [given])]
        known = as_messages(flat, activation.address)
        before = step.messages if self.graph.keeps_state else []
        step.see(cast(Any, add_messages(cast(Any, before), cast(Any, known))))


class InnerGraphNode(FlatNode):
    """Runs a node of the graph; several packets for it (`Send`) each in a task."""

    def __init__(self, node_context: NodeContext) -> None:
        super().__init__(node_context, cast(InnerNode, node_context.place.agent).node)
        name = node_context.place.call_task
        self.task, self.atask = GatedTask(name, self._run_packet), GatedTask(name, self._arun_packet)

    def talk(self, activation: Activation) -> Talk[None]:
        """Run the node."""
        steps = activation.progress.get("steps", 0)
        if steps >= self.graph.most_steps:
            raise MaxIterationsError(
                f"{activation.address}: {steps} nodes of the graph have run in this activation; if "
                "that is right, raise its limit: graph.with_config(recursion_limit=...)"
            )
        step, chunks = self.step(activation), Chunks(activation)
        try:
            writes = yield from self._written(activation, step, chunks)
        except ParentCommand as left:
            self._hand_over(activation, step, left.args[0])
        else:
            step.merge_writes(writes)
            self.go_on(activation, step, writes)
        chunks.void()

    def _written(self, activation: Activation, step: Step, chunks: Chunks) -> Talk[list[Write]]:
        """Run the node, and return what it wrote."""
        progress = activation.progress
        packets = progress.get("packets", [])
        if len(packets) > 1:
            return (yield from self._sent(activation, step, chunks, packets))
        config = self._marked(activation, activation.config, chunks)
        return (yield from self.written(step, packets, config, progress.get("steps", 0)))

    def _sent(
        self, activation: Activation, step: Step, chunks: Chunks, packets: Sequence[Any]
    ) -> Talk[list[Write]]:
        """Run the node for each packet, in a task, and return what all wrote."""
        check_threads(self.node_context.place.node, activation.config, _INSTEAD)
        schedule = Schedule([()] * len(packets), inner_stop())

        def starts(task: GatedTask) -> list[Start]:
            return [
                task.start_with(activation, step, chunks, n, packet) for n, packet in enumerate(packets)
            ]

        run = partial(run_tasks, starts(self.task), schedule)
        arun = partial(arun_tasks, starts(self.atask), schedule, slots=slots(activation.config))
        ended: Mapping[int, TaskResult] = yield Call(run, arun)
        said = [message for result in ended.values() for message in result["messages"]]
        activation.add_emitted(said)
        step.note_said(message.id for message in said)
        return [tuple(write) for result in ended.values() for write in result["writes"]]

    def _run_packet(self, *arguments: Any) -> TaskResult:
        return run_talk(self._packet(*arguments))

    async def _arun_packet(self, *arguments: Any) -> TaskResult:
        return await arun_talk(self._packet(*arguments))

    def _packet(
        self, activation: Activation, step: Step, chunks: Chunks, number: int, given: Any
    ) -> Talk[TaskResult]:
        """Run the node for one packet, and return what it wrote as the result of the task."""
        emitter = activation.new_emitter(is_concurrent=True)
        with activation.reported(number, emitter):
            config = with_writer(get_config(), Writer(emitter, passes_ours=True))
            config = self._marked(activation, config, chunks)
            writes = yield from self.written(step, [given], config, activation.progress.get("steps", 0))
            writes = [*map(_with_ids, writes)]
            activation.check("what the node writes", writes)
            said = [activation.stamped(each) for each in self._new(step, writes)]
            for message in said:
                emitter.add_message(message)
        position = Position(next=None, cursor=[], tree="", at=activation.address, told=emitter.end())
        return TaskResult(
            messages=said, values=[], position=position, acts={}, number=number, writes=writes
        )

    def _new(self, step: Step, writes: Sequence[Write]) -> list[BaseMessage]:
        """Return the new messages that the agent says."""
        known = {message.id for message in step.messages}
        written = written_in([{name: value} for name, value in writes if self.graph.says_messages])
        return [message for message in written if message.id not in known and is_said(message)]

    def _marked(self, activation: Activation, config: RunnableConfig, chunks: Chunks) -> RunnableConfig:
        """Return a config whose models are those of the agent, if it says their messages."""
        if not self.graph.says_messages:
            return config
        metadata = {GRAPH_AGENT: activation.address, **config.get("metadata", {}), **activation.mark}
        return chunks.config({**config, "metadata": metadata})

    def _hand_over(self, activation: Activation, step: Step, command: Command[Any]) -> None:
        """End with a transfer, as LangGraph's handoff tools make it.

        Raises:
            InvalidOutputError: It names several agents, or an unknown one.
        """
        handoff = handoff_of(activation, command, step.messages)
        step.merge({"messages": handoff.messages})
        step.say()
        names = sorted(handoff.values.keys() - self.graph.channels.own.keys())
        activation.set_values({name: handoff.values[name] for name in names})
        activation.transfer(handoff.target)
        self.leave(step)


def _with_ids(write: Write) -> Write:
    """Return a write whose messages have ids."""
    name, value = write
    if name != "messages" or isinstance(value, Overwrite):
        return write
    given = value if isinstance(value, list | tuple) else [value]
    return name, [with_id(each, str(uuid4())) for each in convert_to_messages(given)]
