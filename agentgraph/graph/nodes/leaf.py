"""The node of a leaf: it enters, runs, and writes what it said; and the leaves that ask a person."""

import asyncio
import json
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

from langchain_core.messages import HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.errors import NodeTimeoutError
from langgraph.types import RetryPolicy, TimeoutPolicy

from agentgraph.agents.agents import HumanAgent
from agentgraph.agents.schemas import json_schema
from agentgraph.agents.templates import fill
from agentgraph.errors import AgentGraphError
from agentgraph.graph.failures import arose_at_border
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.state import LaneState, Question, Update


class LeafNode(Runnable[LaneState, Update]):
    """The node of a leaf; a kind of leaf says what it does in `run` and `arun`.

    How long a run may take is watched here, where the address is known; how long it may be idle
    is LangGraph's to watch.

    Attributes:
        policies: LangGraph's policies for the node.
        runs_trees: Whether a graph runs in it that may itself be a compiled tree.
    """

    runs_trees = False

    def __init__(self, node_context: NodeContext, *, retry: Any = None, timeout: Any = None) -> None:
        self.node_context = node_context
        self.name = node_context.place.node
        self._timeout = TimeoutPolicy.coerce(timeout)
        self.policies: dict[str, Any] = {}
        if retry:
            self.policies["retry_policy"] = _of_the_agent(retry) if node_context.has_border else retry
        if self._timeout and self._timeout.idle_timeout:
            self.policies["timeout"] = replace(self._timeout, run_timeout=None)

    @abstractmethod
    def run(self, activation: Activation) -> None:
        """Do what the agent does."""

    async def arun(self, activation: Activation) -> None:
        """Do what the agent does, without blocking the event loop."""
        self.run(activation)

    def invoke(self, input: LaneState, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Run once, from the state of the lane to what the node writes."""
        activation = Activation(self.node_context, input, config or {}, runs_trees=self.runs_trees)
        with activation.reported():
            if activation.has_ended:
                return activation.update()
            var_child_runnable_config.set(activation.config)
            if self._timeout:
                raise AgentGraphError(
                    f"{activation.address}: timeout= needs arun() or ainvoke(): a sync call cannot be "
                    "stopped; use these, or leave it out and set a timeout on the model"
                )
            self.run(activation)
            return activation.update()

    async def ainvoke(self, input: LaneState, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Run once, as `invoke` does, without blocking the event loop."""
        activation = Activation(self.node_context, input, config or {}, runs_trees=self.runs_trees)
        with activation.reported():
            if activation.has_ended:
                return activation.update()
            var_child_runnable_config.set(activation.config)
            if self._timeout and self._timeout.run_timeout:
                async with _stopped(self.node_context.place.node, float(self._timeout.run_timeout)):  # type: ignore[arg-type]
                    await self.arun(activation)
            else:
                await self.arun(activation)
            return activation.update()


def _of_the_agent(retry: RetryPolicy | Sequence[RetryPolicy]) -> list[RetryPolicy]:
    """Return policies that try the agent again, but no function that is asked when it has ended."""
    policies = [retry] if isinstance(retry, RetryPolicy) else retry
    return [policy._replace(retry_on=_unless_at_border(policy)) for policy in policies]


def _unless_at_border(policy: RetryPolicy) -> Callable[[Exception], bool]:
    kinds: Any = policy.retry_on
    if isinstance(kinds, Sequence):
        kinds = tuple(kinds)

    def retries(error: Exception) -> bool:
        if arose_at_border(error):
            return False
        return isinstance(error, kinds) if isinstance(kinds, type | tuple) else bool(kinds(error))

    return retries


@asynccontextmanager
async def _stopped(node: str, seconds: float) -> AsyncIterator[None]:
    """Stop what takes longer, with the error that LangGraph's own timeouts raise."""
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
    """Asks, and says the answer. Nothing comes before the question: a resume runs all again."""

    def __init__(self, node_context: NodeContext) -> None:
        super().__init__(node_context)
        self.agent = cast(HumanAgent, node_context.place.agent)
        self.response_schema = json_schema(self.agent.response_schema)

    def run(self, activation: Activation) -> None:
        """Ask the prompt, filled from the values."""
        prompt = self.agent.prompt
        asked = (
            fill(prompt, activation.values, self.agent.name)
            if isinstance(prompt, str)
            else activation.plain("the prompt", prompt)
        )
        answer = activation.ask(Question(value=asked, response_schema=self.response_schema))
        activation.emit_message(HumanMessage(_text(answer)))
        if self.agent.output_key:
            activation.set_values({self.agent.output_key: answer})


class QuestionNode(LeafNode):
    """Asks what a function agent left to ask, and hands the answer back to it."""

    def __init__(self, node_context: NodeContext) -> None:
        super().__init__(node_context)
        self.name = node_context.place.question_node

    def run(self, activation: Activation) -> None:
        """Ask the question that stands in the position."""
        if activation.asked is None:
            raise AgentGraphError(
                f"{activation.address}: no question to ask; go to {self.node_context.place.node!r}"
            )
        activation.continue_at(self.node_context.place.node, answer=[activation.ask(activation.asked)])


def _text(answer: Any) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
