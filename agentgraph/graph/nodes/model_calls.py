"""Counts calls of models, and asks for the prices of their replies, by LangChain's callbacks.

The callbacks are in the config of the running code, so calls count wherever they are made: in tools,
functions, middleware and graphs. They are there only where more than transfers is counted.

A price may be awaited, by a second, async callback. LangChain awaits that where a model is called
asynchronously. Where an async run calls a model synchronously, LangChain runs it in another event loop,
and drops its errors: then the meter raises them when the activation ends.
"""

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager, Callbacks
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import LLMResult
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphBubbleUp

from agentgraph.agents.costs import is_free, price_fault, reported
from agentgraph.agents.functions import discard, is_awaitable
from agentgraph.graph.failures import is_fatal
from agentgraph.graph.nodes.asking import awaited
from agentgraph.graph.nodes.calling import Contained
from agentgraph.graph.nodes.metering import Meter, PriceQuestion
from agentgraph.graph.sync_async import arun_calls, run_calls
from agentgraph.safe_repr import shown, shown_error

_DECISIONS = "langchain_core.decisions.base"
"""LangChain's module of decision models; chains are observed only if it is imported."""
_NO_TOKENS = UsageMetadata(input_tokens=0, output_tokens=0, total_tokens=0)
"""The usage with which prices are asked whether a model has one."""
_NO_PRICE = "has no price, so Limits(cost=) cannot bound it; return one from prices="
_NO_REPORT = (
    "reports no tokens (usage_metadata), so Limits(cost=) cannot bound it; let it report them, as "
    "ChatOpenAI(stream_usage=True) does"
)


class _Observer(BaseCallbackHandler):
    """Observes the calls of models for a meter; its errors reject them."""

    raise_error = True
    run_inline = True
    ignore_agent = ignore_retriever = ignore_custom_event = True
    ignore_chain: bool = True

    def __init__(self, meter: Meter) -> None:
        super().__init__()
        self.meter = meter
        self.ignore_chain = _DECISIONS not in sys.modules


class ModelCalls(_Observer):
    """Counts calls and tokens."""

    def __init__(self, meter: Meter) -> None:
        super().__init__(meter)
        self._decisions: set[UUID] = set()

    def on_chat_model_start(self, *_: object, **__: object) -> None:
        """Count a call of a chat model."""
        self.meter.call_model()

    def on_llm_start(self, *_: object, **__: object) -> None:
        """Count a call of a model that completes texts."""
        self.meter.call_model()

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: object) -> None:
        """Count its tokens."""
        self.meter.spend_tokens(reported(_usage_in(response)))

    def on_chain_start(
        self, *_: object, run_id: UUID, run_type: str | None = None, **__: object
    ) -> None:
        """Count a call of a decision model, which LangChain announces as a chain of this type."""
        if run_type == "llm":
            self.meter.call_model()
            self._decisions.add(run_id)

    def on_chain_end(self, outputs: object, *, run_id: UUID, **_: object) -> None:
        """Count the tokens of a decision."""
        if run_id in self._decisions:
            self._decisions.discard(run_id)
            self.meter.spend_decision(getattr(outputs, "usage", None))


class Prices(ModelCalls):
    """Counts, and asks for the price of each reply, and under a limit of cost before the first call."""

    def __init__(self, meter: Meter) -> None:
        super().__init__(meter)
        self._models: dict[UUID, str] = {}

    def on_chat_model_start(  # type: ignore[override]
        self, serialized: object, *_: object, run_id: UUID, metadata: object = None, **__: object
    ) -> None:
        """Count a call of a chat model, unless a limit of cost does not bound it."""
        if run_id in self._models:
            return
        model = self._models[run_id] = _name_of(serialized, metadata)
        self.meter.call_model()
        if self.meter.cost_limit is None:
            return
        if model not in self.meter.ledger.unbounded:
            self._ask(run_id, PriceQuestion(model, is_reply=False), _NO_TOKENS)
        else:
            self._check(model, is_made=False)

    def on_llm_start(self, *given: Any, **named: Any) -> None:
        """Count a call of a model that completes texts."""
        self.on_chat_model_start(*given, **named)

    def on_chain_start(self, *given: Any, run_type: str | None = None, **named: Any) -> None:
        """Count a call of a decision model."""
        if run_type == "llm":
            self.on_chat_model_start(*given, **named)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: object) -> None:
        """Count the tokens of a reply, and add its price."""
        self._end(run_id, _usage_in(response), self.meter.spend_tokens)

    def on_chain_end(self, outputs: object, *, run_id: UUID, **_: object) -> None:
        """Count the tokens of a decision, and add its price."""
        self._end(run_id, getattr(outputs, "usage", None), self.meter.spend_decision)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: object) -> None:
        """Forget a call that has no reply."""
        self._models.pop(run_id, None)
        if (question := self.meter.open_prices.pop(run_id, None)) is not None:
            discard(question.awaitable)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: object) -> None:
        """Forget a call that has no decision."""
        self.on_llm_error(error, run_id=run_id)

    def settle(self, question: PriceQuestion, price: object, *, is_made: bool) -> None:
        """Take the answer of `prices=`.

        Args:
            question: The question.
            price: The answer.
            is_made: Whether the call is made even if it is rejected.

        Raises:
            AgentGraphError: The answer is not a price, or a limit of cost does not bound the model.
        """
        model, is_reply = question.model, question.is_reply
        if (fault := price_fault(price)) is not None:
            text = f"returned {shown(price)} for the model {model!r}; {fault}"
            raise self.failed(question, text, is_made=is_made)
        if is_reply:
            self.meter.spend_cost(None if price is None else Decimal(price))  # type: ignore[arg-type]
        if price is None or not is_reply:
            self.meter.ledger.unbounded[model] = _NO_PRICE if price is None else None
        if not is_reply:
            self._check(model, is_made=is_made)

    def failed(self, question: PriceQuestion, text: str, *, is_made: bool) -> Exception:
        """Return the error of `prices=`, which nothing in the tree handles."""
        self.give_up(question, is_made=is_made)
        return self.meter.refuse(f"prices={shown(self.meter.ledger.prices)} {text}")

    def failed_with(self, question: PriceQuestion, error: Exception, *, is_made: bool) -> Exception:
        """Return the error for an exception of `prices=`."""
        if is_fatal(error) or isinstance(error, GraphBubbleUp):  # it cannot be awaited, or was stopped
            self.give_up(question, is_made=is_made)
            self.meter.raised = error
            return error
        text = f"failed for the model {question.model!r}: {shown_error(error)}; fix it and resume"
        return self.failed(question, text, is_made=is_made)

    def give_up(self, question: PriceQuestion, *, is_made: bool) -> None:
        """Count a reply without a price, or take back a call that is not made."""
        if question.is_reply:
            self.meter.spend_cost(None)
        elif not is_made:
            self.meter.untake("model_calls")

    def _end(
        self,
        run_id: UUID,
        given: UsageMetadata | None,
        spend: Callable[[UsageMetadata | None], None],
    ) -> None:
        if (model := self._models.pop(run_id, None)) is None:
            return
        usage = reported(given)
        spend(usage)
        if is_free(given):
            self.meter.spend_cost(Decimal(0))
        elif usage is None:
            self.meter.spend_cost(None)
            self.meter.ledger.unbounded[model] = _NO_REPORT
        else:
            self._ask(run_id, PriceQuestion(model, is_reply=True), usage)

    def _ask(self, run_id: UUID, question: PriceQuestion, usage: UsageMetadata) -> None:
        ledger = self.meter.ledger
        assert ledger.prices is not None
        try:
            with Contained():
                price = ledger.prices(question.model, _own(usage))
            if ledger.is_async and is_awaitable(price):
                self.meter.open_prices[run_id] = question._replace(awaitable=price)
                return
            price = run_calls(awaited(self.meter.address, "prices", ledger.prices, price))
        except Exception as error:
            raise self.failed_with(question, error, is_made=False) from error
        except BaseException:
            self.give_up(question, is_made=False)
            raise
        self.settle(question, price, is_made=False)

    def _check(self, model: str, *, is_made: bool) -> None:
        why, limit = self.meter.ledger.unbounded[model], self.meter.cost_limit
        if why is not None and limit is not None:
            if not is_made:
                self.meter.untake("model_calls")
            text = f"the model {model!r} {why}, or run without cost="
            raise self.meter.refuse(text, limit[0])


class AsyncPrices(_Observer):
    """Awaits the prices of an async run; LangChain may call it before or after `Prices`."""

    def __init__(self, prices: Prices) -> None:
        super().__init__(prices.meter)
        self._prices, self._loop = prices, _running_loop()

    async def on_chat_model_start(self, *given: Any, run_id: UUID, **named: Any) -> None:
        """Await whether a chat model has a price."""
        self._prices.on_chat_model_start(*given, run_id=run_id, **named)
        await self._settle(run_id)

    async def on_llm_start(self, *given: Any, run_id: UUID, **named: Any) -> None:
        """Await whether a model that completes texts has a price."""
        await self.on_chat_model_start(*given, run_id=run_id, **named)

    async def on_chain_start(self, *given: Any, run_id: UUID, **named: Any) -> None:
        """Await whether a decision model has a price."""
        self._prices.on_chain_start(*given, run_id=run_id, **named)
        await self._settle(run_id)

    async def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: object) -> None:
        """Await the price of a reply."""
        self._prices.on_llm_end(response, run_id=run_id)
        await self._settle(run_id)

    async def on_chain_end(self, outputs: object, *, run_id: UUID, **_: object) -> None:
        """Await the price of a decision."""
        self._prices.on_chain_end(outputs, run_id=run_id)
        await self._settle(run_id)

    async def _settle(self, run_id: UUID) -> None:
        opened = self.meter.open_prices
        if (question := opened.get(run_id)) is None:
            return
        address, fn = self.meter.address, self.meter.ledger.prices
        is_made = _running_loop() is not self._loop
        try:
            with Contained():
                price = await arun_calls(awaited(address, "prices", fn, question.awaitable))
        except BaseException as error:
            is_open = opened.pop(run_id, None) is not None
            if isinstance(error, Exception):
                if not is_open:  # the activation has ended: its code was cancelled
                    return
                raise self._prices.failed_with(question, error, is_made=is_made) from error
            if is_open:
                self._prices.give_up(question, is_made=is_made)
            raise
        if opened.pop(run_id, None) is not None:
            self._prices.settle(question, price, is_made=is_made)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def observed(config: RunnableConfig, meter: Meter) -> RunnableConfig:
    """Return a config in which calls of models count for a meter, and no longer for one around it."""
    observers: list[_Observer] = []
    if meter.ledger.prices is None:
        observers.append(ModelCalls(meter))
    else:
        observers.append(prices := Prices(meter))
        if meter.ledger.is_async:
            observers.append(AsyncPrices(prices))
    return {**config, "callbacks": _with_observers(config.get("callbacks"), observers, meter)}


def _with_observers(
    callbacks: Callbacks, observers: Sequence[BaseCallbackHandler], meter: Meter
) -> Callbacks:
    def is_replaced(each: BaseCallbackHandler) -> bool:
        return isinstance(each, _Observer) and each.meter.ledger is meter.ledger

    if not isinstance(callbacks, BaseCallbackManager):
        return [*(each for each in callbacks or () if not is_replaced(each)), *observers]
    manager = callbacks.copy()
    for each in filter(is_replaced, [*manager.handlers]):
        manager.remove_handler(each)
    for observer in observers:
        manager.add_handler(observer)
    return manager


def _usage_in(response: LLMResult) -> UsageMetadata | None:
    """Return the usage of a reply; each of several alternatives has that of all."""
    first = next((each for several in response.generations for each in several), None)
    return getattr(getattr(first, "message", None), "usage_metadata", None)


def _name_of(serialized: object, metadata: object) -> str:
    """Return the name of a model as it is called, or without one that of its class."""
    named = metadata.get("ls_model_name") if isinstance(metadata, Mapping) else None
    kind: object = serialized.get("name") if isinstance(serialized, Mapping) else None
    return str(named or kind or "")


def _own(usage: UsageMetadata) -> Any:
    """Return a usage that belongs to the user's function."""
    return {key: dict(each) if isinstance(each, Mapping) else each for key, each in usage.items()}
