"""The node of a leaf: makes the activation, runs the leaf, writes the update; and leaves that ask."""

import asyncio
import json
from abc import abstractmethod
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, cast

from langchain_core.messages import HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.errors import NodeTimeoutError
from langgraph.types import TimeoutPolicy

from agentgraph.agents.agents import HumanAgent, Retry, Timeout
from agentgraph.agents.budgets import history_function
from agentgraph.agents.middleware import Mode
from agentgraph.agents.schemas import json_schema
from agentgraph.agents.templates import fill
from agentgraph.errors import AgentGraphError
from agentgraph.graph.deadlines import deadline_of
from agentgraph.graph.history import unchanged
from agentgraph.graph.lane_position import question_data
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.caching import stored_update
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.metering import metered
from agentgraph.graph.nodes.reporter import Reporter, ask
from agentgraph.graph.nodes.retries import retries_of
from agentgraph.graph.state import LaneState, Update
from agentgraph.graph.sync_async import arun_calls, run_calls


class LeafNode(Runnable[LaneState, Update]):
    """The node of a leaf; a subclass does its work in `run` and `arun`.

    The run timeout is enforced here, inside the activation, so that its error gets the address; the
    idle timeout is left to LangGraph.

    Attributes:
        policies: LangGraph's policies for the node.
        retry: Its retry policies, as given.
        runs_trees: Whether the node runs a graph that may itself be a compiled tree.
        runs_lanes: Whether the node runs lanes.
    """

    runs_trees = False
    runs_lanes = False

    def __init__(
        self, node_context: NodeContext, *, retry: Retry = None, timeout: Timeout = None
    ) -> None:
        self.node_context = node_context
        self.name = node_context.place.node
        self._entered = partial(
            Activation, node_context, runs_lanes=self.runs_lanes, runs_trees=self.runs_trees
        )
        self._timeout = TimeoutPolicy.coerce(timeout)
        self.policies: dict[str, Any] = {}
        self.retry = retry
        self._retries = retries_of(retry, self.name) if retry else None
        if self._retries is not None:
            self.policies["retry_policy"] = self._retries.policies
        if self._timeout and self._timeout.idle_timeout:
            self.policies["timeout"] = replace(self._timeout, run_timeout=None)

    @cached_property
    def asks_history(self) -> bool:
        """Whether a function chooses what the agent sees."""
        return history_function(self.node_context.history) not in (None, unchanged)

    @property
    def needs_no_graph(self) -> bool:
        """Whether it can run as an item without its own graph, as long as it does not ask."""
        return False

    @abstractmethod
    def run(self, activation: Activation) -> None:
        """Run the agent."""

    async def arun(self, activation: Activation) -> None:
        """Run the agent without blocking the event loop."""
        self.run(activation)

    def invoke(self, input: LaneState, config: RunnableConfig | None = None, **_: object) -> Update:
        """Run one activation, and return its update of the lane's state."""
        activation = self._entered(input, config or {})
        try:
            with Reporter(activation):
                if activation.meter is None:
                    return self._act(activation)
                return run_calls(metered(activation, activation.meter, self._act, self._aact))
        except Exception as error:
            if self._retries is not None and self._retries.asks:
                with Reporter(activation):
                    run_calls(self._retries.ask(error, activation.address))
            raise

    async def ainvoke(
        self, input: LaneState, config: RunnableConfig | None = None, **_: object
    ) -> Update:
        """Run once, as `invoke` does, without blocking the event loop."""
        activation = self._entered(input, config or {})
        try:
            with Reporter(activation):
                if activation.meter is None:
                    return await self._aact(activation)
                return await arun_calls(metered(activation, activation.meter, self._act, self._aact))
        except Exception as error:
            if self._retries is not None and self._retries.asks:
                with Reporter(activation):
                    await arun_calls(self._retries.ask(error, activation.address))
            raise

    def _act(self, activation: Activation) -> Update:
        """Run the agent, unless it has ended before, and return the update."""
        if activation.has_ended:
            return run_calls(activation.awaited_update())
        var_child_runnable_config.set(activation.config)
        if self._timeout:
            raise AgentGraphError(
                f"{activation.address}: timeout= needs arun() or ainvoke(): a sync call cannot be "
                "stopped; use these, or leave it out and set a timeout on the model"
            )
        self.run(activation)
        if activation.output.replies is not None:
            activation.output.lose_chunks(activation.output.message_ids)
        if entry := activation.cache_entry:
            return run_calls(stored_update(activation, entry))
        asks = self.node_context.has_boundary
        return run_calls(activation.awaited_update()) if asks else activation.update()

    async def _aact(self, activation: Activation) -> Update:
        if activation.has_ended:
            return await arun_calls(activation.awaited_update())
        var_child_runnable_config.set(activation.config)
        if self._timeout and self._timeout.run_timeout:
            async with _stopped(self.node_context.place.node, float(self._timeout.run_timeout)):  # type: ignore[arg-type]
                await self.arun(activation)
        else:
            await self.arun(activation)
        if activation.output.replies is not None:
            activation.output.lose_chunks(activation.output.message_ids)
        if entry := activation.cache_entry:
            return await arun_calls(stored_update(activation, entry))
        asks = self.node_context.has_boundary
        return await arun_calls(activation.awaited_update()) if asks else activation.update()


class TalkNode(LeafNode):
    """A leaf that makes calls, sync or async; a subclass says in `talk` which ones.

    Attributes:
        mode_faults: Why the node cannot run in a mode; a `Runner` checks this before it runs.
    """

    mode_faults: Mapping[Mode, str] = MappingProxyType({})

    @abstractmethod
    async def talk(self, activation: Activation) -> None:
        """Run the node by calls."""

    def run(self, activation: Activation) -> None:
        """Run the node."""
        if fault := self.mode_faults.get("sync"):
            raise AgentGraphError(f"{activation.address}: {fault}")
        run_calls(self.talk(activation))

    def arun(self, activation: Activation) -> Coroutine[Any, Any, None]:
        """Run the node on the event loop."""
        if fault := self.mode_faults.get("async"):
            raise AgentGraphError(f"{activation.address}: {fault}")
        return arun_calls(self.talk(activation))


@asynccontextmanager
async def _stopped(node: str, seconds: float) -> AsyncIterator[None]:
    began = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout(seconds) as timeout:
            yield
    except TimeoutError:
        if not timeout.expired():
            raise
        elapsed = asyncio.get_running_loop().time() - began
        raise NodeTimeoutError(node, elapsed, kind="run", run_timeout=seconds) from None


class HumanNode(LeafNode):
    """Asks, and emits the answer; does nothing before the question, as a resume runs it again."""

    def __init__(self, node_context: NodeContext) -> None:
        super().__init__(node_context)
        self.agent = cast(HumanAgent, node_context.place.agent)
        self.response_schema = json_schema(self.agent.response_schema)
        self.deadline = deadline_of(self.agent.timeout, self.agent.default)

    def run(self, activation: Activation) -> None:
        """Ask the prompt, filled from the values."""
        prompt = self.agent.prompt
        asked = (
            fill(prompt, activation.view.seen.values, self.agent.name)
            if isinstance(prompt, str)
            else activation.output.plain("the prompt", prompt)
        )
        answer = ask(question_data(asked, self.response_schema, self.deadline), activation)
        activation.output.emit_message(HumanMessage(_text(answer)))
        if self.agent.output_key:
            activation.output.set_values({self.agent.output_key: answer})


class QuestionNode(LeafNode):
    """Asks the question of a function agent, and passes the answer back to it."""

    def __init__(self, node_context: NodeContext, retry: Retry) -> None:
        super().__init__(node_context, retry=retry)
        self.name = node_context.place.nodes.question

    def run(self, activation: Activation) -> None:
        """Ask the question in the position."""
        if activation.asked is None:
            raise AgentGraphError(
                f"{activation.address}: no question to ask; go to {self.node_context.place.node!r}"
            )
        answer = ask(activation.asked, activation)
        asked = activation.view.asked
        activation.continue_at(self.node_context.place.node, answer=[answer], asked=asked)
        if calls := activation.view.position.get("calls"):
            activation.carry_calls(calls)


def _text(answer: object) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
