"""The view of an activation: its place, its address, and the state that its agent may read.

The messages and values are those at the start of the step: what the activation itself says and writes
is in its `Output`, and is visible after its node has ended.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from agentgraph.agents.agents import HistoryPolicy
from agentgraph.agents.budgets import history_function, with_function
from agentgraph.agents.entries import Entry
from agentgraph.graph.agent_records import AgentRecord
from agentgraph.graph.history import PathReader, chosen_by, visible
from agentgraph.graph.lane_position import Progress, Task
from agentgraph.graph.nodes.asking import asked
from agentgraph.graph.nodes.callers import Caller
from agentgraph.graph.nodes.context import ActivationContext, NodeContext, RunState
from agentgraph.graph.nodes.tasks import with_tasks
from agentgraph.graph.stamps import ADDRESS, STAMP, address_of, stamp_in
from agentgraph.graph.state import LaneState
from agentgraph.tree.addresses import (
    address,
    as_cursor,
    attempt,
    attempts,
    transfers_at,
    without_attempts,
)


class View:
    """The view of an activation.

    Attributes:
        node_context: Its place.
        position: The position of its lane.
        cursor: The counters at the place.
        address: Its address.
        home_address: The address of its agent: for a node of a flattened graph, the graph's.
        progress: The progress of a chat agent.
        state: The messages and values at the start of the step.
        tasks: The tasks of the agents around it by transfers, the innermost last.
        seen: The messages and values as its agent sees them: with its tasks.
        lane_messages: The messages of its lane.
        received: Number of messages that it has just taken from the mailbox; they are in the state.
        history: The `history` of its agent; once its function was asked, that with the answer.
    """

    def __init__(self, node_context: NodeContext, state: LaneState, config: RunnableConfig) -> None:
        """Look at the state.

        Args:
            node_context: The place.
            state: The state of the lane.
            config: LangGraph's config of the node.
        """
        self.node_context = node_context
        self.position = node_context.arrived(state.get("position"))
        self.cursor = as_cursor(self.position["cursor"])
        self.address = node_context.address(self.cursor)
        is_inner = node_context.place.kind.is_inner
        self.home_address = self.address.rpartition("/")[0] if is_inner else self.address
        self.progress: Progress = self.position.get("chat", {})
        self.state = self.seen = node_context.run_state(state, config)
        self.tasks: Sequence[Task] = ()
        if "tasks" in self.position:
            self.tasks = self.position["tasks"]
            self.seen = with_tasks(self.state, self.tasks)
        self.lane_messages: Sequence[BaseMessage] = state.get("messages", ())
        self.received = 0
        self.history: HistoryPolicy = node_context.history
        self._answer = self.position.get("answer", [])
        self._untracked = state.get("untracked")
        self._values = state.get("values")

    def receive(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages of the user that were sent to the run: as if they had been there before it."""
        self.state, self.received = self.state.with_new(messages, []), len(messages)
        self.seen = with_tasks(self.state, self.tasks) if self.tasks else self.state

    @property
    def is_answered(self) -> bool:
        """Whether it follows the answer to a question."""
        return bool(self._answer)

    @property
    def asked(self) -> int:
        """How many questions the function has asked in this activation."""
        return self.position.get("asked", 0)

    @property
    def lane_values(self) -> Mapping[str, object]:
        """The values of its lane, without those of the lanes around it."""
        if not self.node_context.is_inner:
            return self.state.values
        return self.state.reducers.applied({}, self._values or [])

    @property
    def record(self) -> AgentRecord:
        """The saved record of this agent's middleware."""
        return self.state.middleware.get(self.node_context.place.home.node, {})

    @property
    def untracked(self) -> Mapping[str, object]:
        """The unsaved state of its middleware; empty at the start of each activation and resume."""
        at, values = self._untracked or ("", {})
        return values if at == self.home_address and self.progress else {}

    def context(self, history: HistoryPolicy, state: RunState | None = None) -> ActivationContext:
        """Return the context for the agent's function; of `state` instead of what its agent sees."""
        state = state or self.seen
        return ActivationContext(
            self.node_context.place,
            self.cursor,
            self.node_context.paths,
            state,
            history=history,
            own_count=self._own_count,
            answer=self._answer,
            asked=self.asked if self._answer else 0,
            address=self.address,
            shorten=self.node_context.shorten,
            said=self.state.messages,
        )

    async def ask_history(self) -> None:
        """Ask the function of `history`, so that async runs await it before its messages are read."""
        fn = cast(Callable[[list[Entry]], object], history_function(self.history))
        entries: list[list[Entry]] = []

        def noted(several: list[Entry]) -> list[BaseMessage]:
            entries.append(several)
            return []

        self.visible(noted)
        came = await asked(self.address, "history", fn, *entries)
        messages = chosen_by(fn, came, self.address)
        self.history = with_function(self.history, lambda _: messages)

    def visible(self, history: HistoryPolicy) -> list[BaseMessage]:
        """Return the messages that the agent sees in mid-activation, when calls may be open."""
        messages, place, paths = self.state.messages, self.node_context.place, self.node_context.paths
        turn = self.state.clock.turn
        return visible(
            self.seen.messages,
            history,
            place.home.name,
            self.home_address,
            PathReader(paths, messages, turn, place, self.cursor)
            if paths.has_chains
            else paths.at_message,
            self._own_count,
            is_open=True,
            inner_names=paths.inner_names,
            shorten=self.node_context.shorten,
        )

    def transferred(self) -> Sequence[str]:
        """Return the names of the agents that were transferred to since the last message before."""
        context = self.node_context
        names = () if context.transfers_index is None else self.cursor[context.transfers_index]
        for message in reversed(self.state.messages) if names else ():
            stamp = stamp_in(message.response_metadata)
            if stamp is None or stamp.turn != self.state.clock.turn:
                break
            if (
                known := transfers_at(context.tree, stamp.address, context.place, self.cursor)
            ) is not None:
                return cast(Sequence[str], names[known:])
        return cast(Sequence[str], names)

    def earlier_messages(self) -> list[BaseMessage]:
        """Return the messages of this activation from earlier steps."""
        before = self.state.messages[len(self.state.messages) - self._own_count :]
        inside = f"{self.home_address}/"
        at = [(message, address_of(message) or "") for message in before]
        return [each for each, there in at if there == self.home_address or there.startswith(inside)]

    @property
    def _own_count(self) -> int:
        """How many messages at the end of the history are from this activation or earlier attempts."""
        home = self.node_context.place.home
        if not self.progress and not (home.repeats and attempt(home, self.cursor)):
            return self.received
        mine = {self.home_address}
        if home.repeats:
            mine |= {address(home, each) for each in attempts(home, self.cursor[: len(home.counts)])}
        inside = tuple(f"{each}/" for each in mine) if home.kind.is_flattened else ()
        count = 0
        for message in reversed(self.state.messages):
            at = (message.response_metadata.get(STAMP) or [""])[ADDRESS]
            if at not in mine and not at.startswith(inside):
                break
            count += 1
        return count

    def identity(self) -> list[object]:
        """Return the identity of the activation on the thread, in all its attempts."""
        return [self.state.clock.turn, without_attempts(self.address)]

    def caller(self) -> Caller:
        """Return the code of the activation."""
        return Caller(self.identity(), self)
