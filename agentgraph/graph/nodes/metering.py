"""Counts the spending of one activation, and rejects or asks where a limit is reached.

The calls of models are counted by callbacks (`model_calls.py`).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from decimal import Decimal
from functools import partial
from threading import Lock
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from langchain_core.messages.ai import UsageMetadata
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.errors import GraphDrained, GraphInterrupt
from langgraph.types import Interrupt

from agentgraph.agents.costs import Amount
from agentgraph.agents.limits import Limits, Measure
from agentgraph.errors import AgentGraphError, LimitError
from agentgraph.graph.failures import mark_of_limited
from agentgraph.graph.internals import SCRATCHPAD
from agentgraph.graph.limit_answers import KEY
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.spending import (
    AT,
    DECIDED,
    RUN,
    UNPRICED,
    Counts,
    Ledger,
    Loss,
    added,
    save_loss,
)
from agentgraph.graph.nodes.stopping import stopped_after
from agentgraph.graph.saving import saver_of, step_config
from agentgraph.graph.stamps import addressed
from agentgraph.graph.state import Update
from agentgraph.graph.sync_async import Call

T = TypeVar("T")

_TOLERANCE = 0.001
"""In seconds: a timer may be early by less."""


class PriceQuestion(NamedTuple):
    """A question for `prices=`.

    Attributes:
        model: The name of the model.
        is_reply: Whether it is about a reply, or about a call before it is made.
        awaitable: The answer to come, in async runs.
    """

    model: str
    is_reply: bool
    awaitable: object = None


class Meter:
    """Counts what one activation spends.

    Attributes:
        ledger: The spending of the turn.
        address: The address of the activation.
        open_prices: The questions that are not answered yet, by LangChain's id of the call. It lets a
            callback end after the code that called the model was cancelled.
        raised: The error that rejected more spending; it leaves the activation, whatever the code in
            it catches.
    """

    def __init__(
        self,
        ledger: Ledger,
        node_context: NodeContext,
        address: str,
        before: Counts,
        config: RunnableConfig,
    ) -> None:
        """Make a meter.

        Args:
            ledger: The spending of the turn.
            node_context: The place.
            address: The address of the activation.
            before: The spending of its lane before.
            config: LangGraph's config of the node.
        """
        self.ledger, self._node_context, self.address = ledger, node_context, address
        self._before, self._config = before, config
        self._agent = node_context.place.home.name
        self._bounds = (*node_context.bounds, (RUN, ledger.limits))
        self._own: Counts = {}
        self._lock = Lock()  # its tools may call models concurrently
        self._begun: list[str] = []
        self._clocks: tuple[str, ...] = ()
        self._began = 0.0
        self._before_step: dict[str, float] = {}
        self.open_prices: dict[UUID, PriceQuestion] = {}
        self.raised: BaseException | None = None

    async def read(self) -> None:
        """Add what this step has spent before a resume, if it is one of the root."""
        if not self._node_context.is_inner:
            await self.ledger.read_step(self._config)
            self._before_step = self.ledger.seconds()

    def begin(self, *, is_visit: bool) -> None:
        """Begin to work; a visit of an agent counts as a step when it begins.

        Raises:
            LimitError: A limit of steps or seconds is reached.
        """
        kind = self._node_context.place.kind
        if not kind.is_leaf:
            return
        self._check_limit("seconds")
        is_step = is_visit and not kind.is_inner
        if is_step and not self.ledger.has_begun(self.address):
            self.take("steps")
            self.ledger.begin(self.address)
            self._begun.append(self.address)
        self._clocks = tuple(dict.fromkeys([self._agent, *(name for name, _ in self._bounds)]))
        self._began = time.monotonic()
        self.ledger.work(self._clocks)

    def rest(self) -> None:
        """Stop the clock."""
        clocks, self._clocks = self._clocks, ()
        if clocks:
            self._note("seconds", time.monotonic() - self._began)
            self.ledger.rest(clocks)

    def take(self, measure: Measure) -> None:
        """Spend one more.

        Raises:
            LimitError: A limit is reached.
            GraphInterrupt: A limit is reached, and a person is asked.
            GraphDrained: A limit is reached, and another agent asks.
        """
        if (met := self.ledger.take(self._agent, measure, self._bounds)) is not None:
            self._raise_limit(measure, *met)
        self._note(measure, 1)

    def untake(self, measure: Measure) -> None:
        """Take back one that was not needed."""
        self.ledger.add(self._agent, measure, -1)
        self._note(measure, -1)

    def call_model(self) -> None:
        """Count a call of a model, before it is made; it may be rejected as in `check_model_call`."""
        self.check_model_call()
        self.take("model_calls")

    def check_model_call(self) -> None:
        """Refuse a call of a model before anything is made ready for it.

        Raises:
            LimitError: A limit is reached.
            GraphInterrupt: A limit is reached, and a person is asked.
            GraphDrained: A limit is reached, and another agent asks.
        """
        for measure in ("model_calls", "tokens", "cost", "seconds"):
            self._check_limit(measure)

    @property
    def cost_limit(self) -> tuple[str, Limits] | None:
        """The innermost limits of cost, and whose they are; None without any."""
        return next((each for each in self._bounds if each[1].cost is not None), None)

    def spend_cost(self, price: Decimal | None) -> None:
        """Add the price of a reply; None if it is not known."""
        measure, amount = (UNPRICED, 1) if price is None else ("cost", str(price))
        place = self._node_context.place
        is_one_of_several = self._agent in self._node_context.tree.several_times
        parts = [f"{measure}{AT}{place.path}"] if is_one_of_several else []
        for each in (measure, *parts):
            self.ledger.add(self._agent, each, amount)
            self._note(each, amount)

    def refuse(self, text: str, name: str = RUN) -> AgentGraphError:
        """Return the error for a call whose cost is not known; it leaves the activation.

        Args:
            text: Its text.
            name: The agent whose limit it is; `RUN` if the run ends.
        """
        error = AgentGraphError(f"{self.address}: {text}")
        self._mark(error, name)
        self.raised = error
        return error

    def spend_decision(self, usage: UsageMetadata | None) -> None:
        """Add the tokens of a decision, as its provider reports them."""
        self.spend_tokens(usage)
        if usage and self._node_context.tree.has_decision_models:
            for measure, tokens in zip(
                DECIDED, (usage["input_tokens"], usage["output_tokens"]), strict=True
            ):
                self.ledger.add(self._agent, measure, tokens)
                self._note(measure, tokens)

    def spend_tokens(self, usage: UsageMetadata | None) -> None:
        """Add the tokens of a reply, as its provider reports them."""
        if self.ledger.lacks_prices:
            self.spend_cost(None)
        if tokens := usage["total_tokens"] if usage else 0:
            self.ledger.add(self._agent, "tokens", tokens)
            self._note("tokens", tokens)
        elif usage is None and any(limits.tokens for _, limits in self._bounds):
            self.ledger.warn_once(
                f"{self.address}: the model reports no tokens (usage_metadata), so Limits(tokens=) "
                "does not bound it; use model_calls="
            )

    async def within(self, work: Callable[..., Awaitable[T]], *arguments: object) -> T:
        """Await the work of an agent while agents may work; a parallel node leaves that to its lanes.

        Raises:
            LimitError: It took longer.
        """
        seconds = self.ledger.seconds_left(self._bounds) if self._clocks else None
        if seconds is None:
            return await work(*arguments)
        try:
            with stopped_after(max(seconds, 0) + _TOLERANCE):
                return await work(*arguments)
        except TimeoutError as error:
            if not isinstance(error.__cause__, asyncio.CancelledError):
                raise
            self._check_limit("seconds")
            raise

    def saved(self) -> Counts:
        """Return the spending to save with the position: the turn's for the root, else the lane's."""
        self._close()
        if not self._node_context.is_inner:
            return self.ledger.saved()
        return added(self._before, self._own)

    async def lose(self) -> None:
        """Save the spending of the activation next to its step, which failed or paused."""
        self._close()
        saver, spent, now = saver_of(self._config), self._own, self.ledger.seconds()
        for name, seconds in self._before_step.items():  # what no lane in the step counts
            spent = added(spent, {name: {"seconds": now[name] - seconds}})
        if saver is not None and (spent or self._begun):
            loss = Loss(spent=spent, begun=self._begun)
            await save_loss(saver, step_config(self._config), loss)

    def _close(self) -> None:
        """Stop the clock; the price of a reply that is not known yet stays unknown."""
        self.rest()
        for run_id in [*self.open_prices]:
            question = self.open_prices.pop(run_id, None)
            if question is not None and question.is_reply:
                self.spend_cost(None)

    def _note(self, measure: str, amount: Amount) -> None:
        with self._lock:
            self._own = added(self._own, {self._agent: {measure: amount}})

    def _check_limit(self, measure: Measure) -> None:
        if (met := self.ledger.met(measure, self._bounds)) is not None:
            self._raise_limit(measure, *met)

    def _raise_limit(self, measure: Measure, name: str, limits: Limits) -> None:
        bound = self.ledger.bound(measure, name, limits)
        error = LimitError(self._agent, self.address, measure, bound, name or None)
        self._mark(error, name)
        asks = limits.on_limit == "ask" and saver_of(self._config) is not None
        if not asks or (name, measure) in self.ledger.denied:
            self.raised = error
        elif self.ledger.asks(self._asker(), name, measure):
            self.raised = self._question(error, measure, name, limits)
        else:
            self.raised = GraphDrained("another agent asks whether the limit may be exceeded")
        raise self.raised

    def _mark(self, error: AgentGraphError, name: str) -> None:
        inside = None if name == RUN else self._node_context.tree.names_inside(name)
        mark_of_limited(error, inside)

    def _asker(self) -> str:
        """Return the identity of the question: the activation's, or that of one of its tasks."""
        task = str(get_config()["configurable"]["checkpoint_ns"])
        return self.address if task == self._config["configurable"]["checkpoint_ns"] else task

    def _question(
        self, error: LimitError, measure: Measure, name: str, limits: Limits
    ) -> GraphInterrupt:
        """Return the question that asks a person for leave.

        It is not LangGraph's `interrupt`, which would take the answer to another question of the code
        that it interrupts. Its answer does not come back here: see `limit_answers.py`.
        """
        configurable = get_config()["configurable"]
        answered = len(configurable[SCRATCHPAD].resume)
        counted = f"{configurable['checkpoint_ns']}{f'|{answered}' if answered else ''}"
        leave = self.ledger.extensions(name, measure)
        schema: dict[str, object] = {"type": "boolean", KEY: [name, measure, leave]}
        more = limits.bounds[measure]
        text = f"T{error.reached[1:]}. May it be {more:{'f' if measure == 'cost' else 'g'}} more?"
        one = Interrupt.from_ns(text, counted, response_schema=addressed(schema, self.address))
        return GraphInterrupt((one,))


async def metered(
    activation: Any,
    meter: Meter,
    act: Callable[[Any], Update],
    aact: Callable[[Any], Awaitable[Update]],
) -> Update:
    """Run an activation, and return its update; save what it spends if it fails or pauses.

    Args:
        activation: The activation.
        meter: The meter that counts for it.
        act: Runs it, and returns its update.
        aact: Does so on the event loop.
    """
    await meter.read()
    try:
        if not activation.has_ended:
            meter.begin(is_visit=activation.begins_visit)
        update: Update = await Call(act, partial(meter.within, aact), (activation,))
        return update
    except GeneratorExit:  # no call can be made
        raise
    except BaseException:
        await meter.lose()
        raise
    finally:
        meter.rest()
