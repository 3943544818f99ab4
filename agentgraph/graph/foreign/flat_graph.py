"""Takes a compiled LangGraph graph apart, so that its nodes can run in a lane.

The problem: a graph inside a graph has its own checkpoints, and several supersteps for each step of the
outer one. A graph that takes one route at a time needs none of that.

The rule: a node of LangGraph is a runnable followed by writers. The writers decide what follows: they
write to the channels of the state, to the channel that triggers the next node, and packets for nodes
(`Send`). They read and write through two functions in the config, and here these are ours. So reducers,
conditional edges, `Command(goto=...)` and input schemas work by LangGraph's own code.

An agent of LangChain is simpler: what a node returns is its update, and at most one function says what
follows. So `route` asks that function, without the writers: they would merge the update twice.

This is the only file that knows how a compiled graph is made.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.graph import END
from langgraph.types import Send

from agentgraph.graph.copied_values import own_list, private
from agentgraph.graph.internals import (
    DEFAULT_RECURSION_LIMIT,
    READ,
    SEND,
    TASKS,
    TRIGGER,
    PregelTaskWrites,
    local_read,
)
from agentgraph.graph.open_types import Channel
from agentgraph.graph.value_channels import only_merges_messages

Write = tuple[str, Any]
"""The name of a channel, and what was written to it."""
Read = Callable[..., Any]
"""Reads channels by their names; with `fresh=True` it sees what the node wrote itself."""


class FlatGraph:
    """The parts of a compiled graph.

    Attributes:
        nodes: Its nodes by name, LangGraph's `PregelNode`s.
        channels: The channels of its state by name.
        most_steps: How many of its nodes may run in one activation.
    """

    def __init__(self, graph: Any) -> None:
        self._graph, self._builder = graph, graph.builder
        self.nodes: Mapping[str, Any] = graph.nodes
        self.channels: Mapping[str, Channel] = graph.builder.channels
        self._config: RunnableConfig = {**(graph.config or {})}  # type: ignore[typeddict-item]
        self.most_steps = self._config.pop("recursion_limit", DEFAULT_RECURSION_LIMIT)

    def successors(self, name: str) -> list[str]:
        """Return the nodes that can follow a node as far as its edges say; `END` for the end."""
        builder = self._builder
        ends = [end for start, end in builder.edges if start == name]
        for branch in builder.branches.get(name, {}).values():
            ends += (branch.ends or {each: each for each in [*builder.nodes, END]}).values()
        ends += (name in builder.nodes and builder.nodes[name].ends) or ()
        return [*dict.fromkeys(ends or [END])]

    def route(
        self, name: str, state: Callable[[], Mapping[str, object]], config: RunnableConfig
    ) -> str:
        """Return the node after one that has one way on, or one function that decides; or `END`.

        Args:
            name: The node that has ended.
            state: Called for the state that it left, where that decides.
            config: LangGraph's config.
        """
        if name not in self._builder.branches:
            return str(dict(self._builder.edges)[name])
        [branch] = self._builder.branches[name].values()
        choice = branch.path.invoke(state(), config)
        first = choice[0] if isinstance(choice, list) else choice
        return first.node if isinstance(first, Send) else str(branch.ends[first])

    def input_of(self, name: str, read: Read) -> object:
        """Return the input of a node: the channels that its schema names, in its form."""
        node = self.nodes[name]
        values = read(node.channels)
        return node.mapper(private(values)) if node.mapper else values

    def final(self, read: Read) -> object:
        """Return the output of the graph."""
        return read(self._graph.output_channels)

    def reading(
        self, channels: Mapping[str, Channel], steps: int, writes: Sequence[Write] = ()
    ) -> Read:
        """Return the function by which nodes read the channels: LangGraph's own, with its arguments.

        Args:
            channels: The channels with their values.
            steps: How many nodes ran before in this activation.
            writes: The writes of the node, which conditional edges see.
        """
        scratchpad: Any = SimpleNamespace(step=steps + 1, stop=self.most_steps)
        task = PregelTaskWrites((), "", writes, ())
        is_shared = only_merges_messages(channels.get("messages"))
        read = _read_own_messages if is_shared else local_read
        return partial(read, scratchpad, channels, self._builder.managed, task)

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
        node, merged = self.nodes[name], {**config, "run_name": name}
        if self._config or node.metadata or node.tags:
            own = {"metadata": node.metadata or {}, "tags": [*(node.tags or ())]}
            merged = {**merge_configs(self._config, merged, own)}  # type: ignore[arg-type]
        return redirected(cast(RunnableConfig, merged), self._is_own_channel, read, writes.append)

    def _is_own_channel(self, channel: str) -> bool:
        return channel in self.channels or channel == TASKS or channel.startswith(TRIGGER)


def redirected(
    config: RunnableConfig, is_ours: Callable[[str], bool], read: Read, write: Callable[[Write], object]
) -> RunnableConfig:
    """Return a config of a task in which the running code reads and writes our state.

    Args:
        config: LangGraph's config of the task.
        is_ours: Whether a channel belongs to that state. Writes to other channels, such as the answers
            of persons, go where they went before.
        read: Reads channels.
        write: Takes what is written to a channel of that state.
    """
    configurable = config["configurable"]
    outer = configurable[SEND]

    def send(writes: Sequence[Write]) -> None:
        others = []
        for each in writes:
            if is_ours(each[0]):
                write(each)
            else:
                others.append(each)
        if others:
            outer(others)

    return {**config, "configurable": {**configurable, READ: read, SEND: send}}


def with_state(
    config: RunnableConfig,
    names: Collection[str],
    state: Callable[[bool], Mapping[str, object]],
    write: Callable[[dict[str, object]], None],
) -> RunnableConfig:
    """Return a config through which the state of an agent is read and written.

    Args:
        config: The config of a LangGraph task.
        names: The keys of that state; all other keys are read from and written to the tree's channels.
        state: Returns the state: with True as it is now, with False as it was before the task.
        write: Takes an update of it.
    """
    outer_read = config["configurable"][READ]

    def read(select: str | Sequence[str], fresh: bool = False) -> object:
        if isinstance(select, str):
            return state(fresh).get(select) if select in names else outer_read(select, fresh)
        values, others = state(fresh), [name for name in select if name not in names]
        own = {name: values[name] for name in select if name in names and name in values}
        return {**own, **outer_read(others, fresh)} if others else own

    return redirected(config, names.__contains__, read, lambda each: write(dict([each])))


def _read_own_messages(
    scratchpad: Any,
    channels: Any,
    managed: Any,
    task: PregelTaskWrites,
    select: list[str] | str,
    fresh: bool = False,
) -> Any:
    """Read channels that share messages, as `local_read`: a message is copied when it is reached."""
    values = local_read(scratchpad, channels, managed, task, select, fresh)
    if select == "messages":
        return own_list(cast(list[Any], values))
    if isinstance(select, list) and "messages" in values:
        values["messages"] = own_list(values["messages"])
    return values


def following(writes: Sequence[Write]) -> tuple[list[str], list[Send]]:
    """Return the next nodes, and the packets for nodes, that the writers of a node wrote."""
    names = [name.removeprefix(TRIGGER) for name, _ in writes if name.startswith(TRIGGER)]
    packets = [value for name, value in writes if name == TASKS and isinstance(value, Send)]
    return [*dict.fromkeys(name for name in names if name != END)], packets
