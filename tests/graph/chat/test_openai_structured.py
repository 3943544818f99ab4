"""Structured answers of the real `ChatOpenAI`, on the loopback address."""

import json
from typing import Any

import pytest
from helpers import Drive
from langchain.agents.structured_output import ToolStrategy
from langchain_openai import ChatOpenAI
from langgraph.types import RetryPolicy
from openai_server import Body, Call, Failure, OpenAIServer, Reply
from pydantic import BaseModel

import agentgraph as ag
from agentgraph.testing import transcript

CONFIG: Any = {"configurable": {"thread_id": "t"}}
RETRY = RetryPolicy(max_attempts=2, initial_interval=0.01)


class Trip(BaseModel):
    """Where to."""

    city: str
    days: int


def look(city: str) -> str:
    """Looks something up."""
    return f"{city} is old."


def model(server: OpenAIServer, name: str = "gpt-4.1", **options: Any) -> ChatOpenAI:
    return ChatOpenAI(base_url=server.base_url, api_key="test", model=name, max_retries=0, **options)


def ran(drive: Drive, agent: ag.Agent, stream: bool) -> tuple[list[ag.AgentEvent], Any]:
    runner = ag.Runner(agent)
    events = list(drive.run(runner, "Go.", thread_id="t", stream=stream))
    told = [event for event in events if not event.partial and event.kind != "discarded"]
    assert list(runner.events("t")) == told
    return events, runner.graph.get_state(CONFIG).values["values"]


def names(body: Body) -> list[str]:
    return [tool["function"]["name"] for tool in body.get("tools", [])]


LOOKS = Reply(calls=(Call("a", "look", ("", '{"city": ', '"Rome"}')),))
ANSWER = Reply(['{"city": "Rome', '", "days": 3}'])
CALLS = Reply(calls=(Call("b", "Trip", ("", '{"city": "Rome"', ', "days": 3}')),))
streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@streamed
def test_the_provider_keeps_to_the_schema_with_strict_tools_and_a_retry(
    openai_server: OpenAIServer, drive: Drive, stream: bool
) -> None:
    openai_server.script = [LOOKS, Failure(500, "down"), Reply(["Rome."]), ANSWER]
    agent = ag.chat_agent(
        "w",
        model(openai_server),
        tools=[look],
        output_schema=Trip,
        output_key="trip",
        retry=RETRY,
    )
    events, values = ran(drive, agent, stream)
    assert values == {"trip": {"city": "Rome", "days": 3}}
    assert transcript(events)[-1] == 'w: {"city": "Rome", "days": 3}'
    assert any(event.partial for event in events) is stream
    for body in openai_server.requests:
        assert body["response_format"]["type"] == "json_schema"
        schema = body["response_format"]["json_schema"]
        assert (schema["name"], sorted(schema["schema"]["properties"])) == ("Trip", ["city", "days"])
        assert [tool["function"]["strict"] for tool in body["tools"]] == [True]
        assert names(body) == ["look"]
        assert "tool_choice" not in body
    assert openai_server.requests[-1]["messages"][-1]["content"] == (
        "The reply does not fit the schema: it is not valid JSON. Reply again, with the JSON alone."
    )


@streamed
def test_the_answer_is_a_call_where_the_strategy_says_so(
    openai_server: OpenAIServer, drive: Drive, stream: bool
) -> None:
    openai_server.script = [LOOKS, Failure(500, "down"), CALLS, "Thanks."]
    first = ag.chat_agent(
        "w",
        model(openai_server),
        tools=[look],
        output_schema=ToolStrategy(Trip),
        output_key="trip",
        retry=RETRY,
    )
    last = ag.chat_agent("z", model(openai_server), instruction="Answer {trip}.")
    _, values = ran(drive, ag.sequential("s", [first, last]), stream)
    assert values == {"trip": {"city": "Rome", "days": 3}}
    *asked, read = openai_server.requests
    for body in asked:
        assert names(body) == ["look", "Trip"]
        assert body["tool_choice"] == "required"
        assert "response_format" not in body
    assert [message["content"] for message in read["messages"]][2:] == [
        '[w] called look({"city": "Rome"})',
        "[w] look returned: Rome is old.",
        '[w] said: {"city": "Rome", "days": 3}',
    ]


@streamed
def test_a_model_without_a_profile_answers_by_a_call(
    openai_server: OpenAIServer, drive: Drive, stream: bool
) -> None:
    openai_server.script = [CALLS]
    agent = ag.chat_agent(
        "w", model(openai_server, "test-model"), output_schema=Trip, output_key="trip"
    )
    events, values = ran(drive, agent, stream)
    assert values == {"trip": {"city": "Rome", "days": 3}}
    assert [event.text for event in events if not event.partial] == [
        "",
        json.dumps({"city": "Rome", "days": 3}),
    ]
    assert names(openai_server.requests[0]) == ["Trip"]


@streamed
@pytest.mark.parametrize("tools", [[], [look]], ids=["without tools", "with tools"])
def test_what_was_bound_is_sent(
    openai_server: OpenAIServer, drive: Drive, stream: bool, tools: list[Any]
) -> None:
    openai_server.script = [ANSWER]
    bound = model(openai_server).bind(temperature=0.3, parallel_tool_calls=False)
    agent = ag.chat_agent("w", bound, tools=tools, output_schema=Trip)
    ran(drive, agent, stream)
    (body,) = openai_server.requests
    assert (body["temperature"], body["parallel_tool_calls"]) == (0.3, False)
    assert body["response_format"]["type"] == "json_schema"


@streamed
def test_a_tool_choice_that_was_bound_is_sent(
    openai_server: OpenAIServer, drive: Drive, stream: bool
) -> None:
    openai_server.script = [LOOKS]
    bound = model(openai_server).bind_tools([look], tool_choice="look", strict=True)
    agent = ag.chat_agent("w", bound, tools=[look], return_directly=["look"])
    ran(drive, agent, stream)
    (body,) = openai_server.requests
    assert body["tool_choice"] == {"type": "function", "function": {"name": "look"}}
    assert body["tools"][0]["function"]["strict"] is True


@streamed
def test_the_last_answer_without_tools_keeps_to_the_schema(
    openai_server: OpenAIServer, drive: Drive, stream: bool
) -> None:
    openai_server.script = [LOOKS, ANSWER]
    agent = ag.chat_agent(
        "w",
        model(openai_server),
        tools=[look],
        output_schema=Trip,
        output_key="trip",
        max_iterations=1,
        on_max_iterations="answer",
    )
    _, values = ran(drive, agent, stream)
    assert values == {"trip": {"city": "Rome", "days": 3}}
    assert "tools" not in openai_server.requests[1]
    assert openai_server.requests[1]["response_format"]["type"] == "json_schema"
