"""Takes the nodes of a compiled LangGraph graph out of it, so that they can run in a lane.

The problem: a graph inside a graph has checkpoints of its own, and several supersteps for each step of
the outer one. A graph that takes one way at a time needs none of that.

The rule: a node of LangGraph is a runnable followed by writers. The writers decide what follows: they
write to the channels of the state, to the channel that triggers the next node, and packets for nodes
(`Send`). They read and write through two functions in the config, and here these are ours. So reducers,
conditional edges, `Command(goto=...)` and input schemas work by LangGraph's own code.

This is the only file that knows how a compiled graph is made.
"""

from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.graph import END
from langgraph.types import Send

from agentgraph.agents.agents import GraphAgent
from agentgraph.graph.chat.step import Channels, Step
from agentgraph.graph.internals import (
    DEFAULT_RECURSION_LIMIT,
    READ,
    SEND,
    TASKS,
    TRIGGER,
    PregelTaskWrites,
    local_read,
)

Write = tuple[str, Any]
"""The name of a channel, and what was written to it."""
Read = Callable[..., Any]
"""Reads channels by their names; with `fresh=True` it sees what the node wrote itself."""


class Ways(NamedTuple):
    """Where a graph goes on after a node.

    Attributes:
        nodes: The next nodes, each once.
        packets: The inputs that were sent to nodes by `Send`, with the names of the nodes.
    """

    nodes: list[str]
    packets: list[tuple[str, Any]]


class FlatGraph:
    """The parts of a compiled graph.

    Attributes:
        agent: The agent that the graph is.
        channels: The channels of its state; without `messages`, if these are what the agent says.
        says_messages: Whether the agent says the messages in the state.
        keeps_state: Whether its state is kept over activations and turns.
        most_steps: How many of its nodes may run in one activation.
    """

    def __init__(self, agent: GraphAgent) -> None:
        graph: Any = agent.graph
        self.agent, self._graph = agent, graph
        self.says_messages = agent.output is None
        others = ("messages",) if self.says_messages else ()
        self.channels = Channels(graph.builder.channels, others=others)
        self.keeps_state = graph.checkpointer is True
        self.config: RunnableConfig = {**(graph.config or {})}  # type: ignore[typeddict-item]
        self.most_steps = self.config.pop("recursion_limit", DEFAULT_RECURSION_LIMIT)

    def node(self, name: str) -> Any:
        """Return a node of the graph, LangGraph's `PregelNode`."""
        return self._graph.nodes[name]

    def given_to(self, name: str, read: Read) -> Any:
        """Return what a node gets: the channels that its schema names, in the form of that schema."""
        node = self.node(name)
        found = read(node.channels)
        return node.mapper(found) if node.mapper else found

    def final(self, read: Read) -> Any:
        """Return the output of the graph."""
        return read(self._graph.output_channels)

    def reading(self, step: Step, steps: int, writes: Sequence[Write] = ()) -> Read:
        """Return the function by which nodes read the channels: LangGraph's own, with its arguments.

        Args:
            step: The state.
            steps: How many nodes ran before in this activation.
            writes: What the node writes, which conditional edges see.
        """
        scratchpad: Any = SimpleNamespace(step=steps + 1, stop=self.most_steps)
        builder = self._graph.builder
        task = PregelTaskWrites((), "", writes, ())
        return partial(local_read, scratchpad, step.channels(builder.channels), builder.managed, task)

    def configured(
        self, name: str, config: RunnableConfig, read: Read, writes: list[Write]
    ) -> RunnableConfig:
        """Return the config under which a node and its writers run.

        Args:
            name: The node.
            config: LangGraph's config of our node.
            read: Reads the channels.
            writes: Receives what is written.
        """
        node, merged = self.node(name), {**config, "run_name": name}
        if self.config or node.metadata or node.tags:
            own = {"metadata": node.metadata or {}, "tags": [*(node.tags or ())]}
            merged = {**merge_configs(self.config, merged, own)}  # type: ignore[arg-type]
        configurable: Any = merged.get("configurable", {})
        outer = configurable[SEND]

        def send(several: Sequence[Write]) -> None:
            """Take what is for this graph; answers of persons are LangGraph's own to keep."""
            for write in several:
                if self._is_ours(write[0]):
                    writes.append(write)
                else:
                    outer([write])

        ways = {READ: read, SEND: send}
        return cast(RunnableConfig, {**merged, "configurable": {**configurable, **ways}})

    def _is_ours(self, channel: str) -> bool:
        is_known = channel in self._graph.builder.channels
        return is_known or channel == TASKS or channel.startswith(TRIGGER)

    def ways(self, writes: Sequence[Write]) -> Ways:
        """Return where the graph goes on, as the writers of a node wrote it."""
        names = [name.removeprefix(TRIGGER) for name, _ in writes if name.startswith(TRIGGER)]
        packets = [value for name, value in writes if name == TASKS]
        sent = [(each.node, each.arg) for each in packets if isinstance(each, Send)]
        return Ways([*dict.fromkeys(name for name in names if name != END)], sent)

    def drawn_ways(self, name: str) -> list[str]:
        """Return the nodes that can follow a node as far as its edges say; `END` for the end."""
        builder = self._graph.builder
        ways = [end for start, end in builder.edges if start == name]
        for branch in builder.branches.get(name, {}).values():
            ways += (branch.ends or {each: each for each in [*builder.nodes, END]}).values()
        spec = builder.nodes.get(name)
        ways += [*(spec.ends or ())] if spec is not None else []
        return [*dict.fromkeys(ways or [END])]
