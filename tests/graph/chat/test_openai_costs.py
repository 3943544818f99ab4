"""Costs of replies of the real `ChatOpenAI`, with a server on the loopback address."""

from decimal import Decimal
from typing import Any

import pytest
from helpers import Drive, failing, retrying
from helpers.costs import CENT, costs
from helpers.openai_server import Failure, OpenAIServer, Reply
from langchain.agents.middleware import ModelFallbackMiddleware
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

import agentgraph as ag

pytestmark = pytest.mark.by_turns("drive")
streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def chat_model(server: OpenAIServer, name: str = "gpt-4o", **options: Any) -> ChatOpenAI:
    options = {"stream_usage": True, "max_retries": 0, **options}
    return ChatOpenAI(base_url=server.base_url, api_key="test", model=name, **options)


def price(model: str, usage: Any) -> Decimal | None:
    """Return the price: a cached token costs a tenth of another one, and one of output twice that."""
    if model != "gpt-4o":
        return None
    cached = usage.get("input_token_details", {}).get("cache_read", 0)
    return CENT * (usage["input_tokens"] - cached + 2 * usage["output_tokens"]) + CENT / 10 * cached


@streamed
def test_cached_tokens_cost_less(openai_server: OpenAIServer, drive: Drive, stream: bool) -> None:
    openai_server.script = [Reply(["One ", "two."]), Reply(["Three."], cached=3)]
    agents = [ag.chat_agent(name, chat_model(openai_server)) for name in ("a", "b")]
    runner = ag.Runner(ag.sequential("s", agents), prices=price)
    events = list(drive.run(runner, "Go.", thread_id="t", stream=stream))
    assert any(event.partial for event in events) == stream
    sent = [event.usage["input_tokens"] for event in events if event.usage and not event.partial]
    a, b = CENT * (sent[0] + 4), CENT * (sent[1] - 3 + 2) + CENT / 10 * 3
    assert costs(runner.thread("t").spent) == {"": a + b, "a": a, "b": b}


@streamed
def test_a_stream_without_a_usage_has_no_cost_and_is_not_bounded(
    openai_server: OpenAIServer, drive: Drive, stream: bool
) -> None:
    openai_server.script = ["One.", "Two."]
    writer = ag.chat_agent("w", chat_model(openai_server, stream_usage=False))
    runner = ag.Runner(ag.loop("l", [writer], max_iterations=2), prices=price)
    list(drive.run(runner, "Go.", thread_id="t", stream=stream))
    assert (runner.thread("t").spent.cost is None) == stream


@streamed
def test_failed_calls_cost_nothing_and_a_fallback_has_its_own_price(
    openai_server: OpenAIServer, drive: Drive, stream: bool
) -> None:
    openai_server.script = [Failure(500, "down"), "One.", Failure(500, "down"), "Two."]
    models = chat_model(openai_server, "o3"), chat_model(openai_server)
    agents = [
        ag.chat_agent("a", models[0], middleware=[ModelFallbackMiddleware(models[1])]),
        ag.chat_agent("b", models[1], retry=retrying()),
    ]
    runner = ag.Runner(ag.sequential("s", agents), prices=price)
    list(drive.run(runner, "Go.", thread_id="t", stream=stream))
    spent = runner.thread("t").spent
    assert (spent.model_calls, spent.cost) == (4, CENT * (1 + 2 + 4 + 2))


class Title(BaseModel):
    title: str


@pytest.mark.parametrize("options", [{}, {"n": 2}], ids=["one", "alternatives"])
def test_the_usage_of_a_request_counts_once(
    openai_server: OpenAIServer, drive: Drive, options: dict[str, int]
) -> None:
    openai_server.script = ['{"title": "Bees"}']
    writer = ag.chat_agent("w", chat_model(openai_server, **options), output_schema=Title)
    runner = ag.Runner(writer, prices=price, limits=ag.Limits(cost=1))
    list(drive.run(runner, "Go.", thread_id="t"))
    assert runner.result("t").output == Title(title="Bees")
    spent = runner.thread("t").spent
    assert (spent.cost, spent.tokens) == (CENT * (1 + 2 * 2), 3)


def test_a_budget_stops_before_a_model_of_an_unknown_name(
    openai_server: OpenAIServer, drive: Drive
) -> None:
    openai_server.script = ["One."]
    agents = [
        ag.chat_agent("a", chat_model(openai_server)),
        ag.chat_agent("b", chat_model(openai_server, "my-model")),
    ]
    runner = ag.Runner(ag.sequential("s", agents), prices=price, limits=ag.Limits(cost=1))
    _, error = failing(ag.Runner.run(runner, "Go.", thread_id="t"), ag.AgentGraphError)
    assert str(error).startswith("s/b: the model 'my-model' has no price")
    assert [body["model"] for body in openai_server.requests] == ["gpt-4o"]
