"""Structured answers as in LangChain's `create_agent`: messages, errors, what middleware sees."""

import asyncio
import json
from typing import Any

import pytest
from helpers import Drive, enforcing, scripted, shapes, town
from helpers.sampling import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware import after_agent, after_model
from langchain.agents.structured_output import (
    ProviderStrategy,
    StructuredOutputValidationError,
    ToolStrategy,
)
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from test_random_stacks import HOOKS, look, made
from test_structured_answers import Dish, Place, Refusal, Trip, calling, ran

import agentgraph as ag
from agentgraph.graph.chat.output import answer_format_of
from agentgraph.testing import ScriptedChatModel, call, calls

pytestmark = pytest.mark.by_turns("drive")

CONFIG: Any = {"configurable": {"thread_id": "t"}}


BAD = calling(days=2)
TWO = calls(call("Trip", "1", city="a"), call("Trip", "2", city="b"))
SCHEMAS = [Trip, Place, Dish, town(), ProviderStrategy(Trip, strict=True)]
HANDLED = {
    "all": True,
    "by a text": "Say it again.",
    "another kind": ValueError,
    "of kinds": (StructuredOutputValidationError,),
    "by a function": lambda error: "Again!",
}


@pytest.mark.parametrize(
    ("make", "schema", "replies"),
    [
        *[(enforcing, schema, ['{"city": "Rome"}']) for schema in SCHEMAS],
        *[
            (
                scripted,
                ToolStrategy(Trip, handle_errors=handled, tool_message_content="Booked."),
                [bad, calls(call("Trip", "3", city="Rome"))],
            )
            for bad in (BAD, TWO)
            for handled in HANDLED.values()
        ],
    ],
    ids=[
        *["model", "dataclass", "typed dict", "JSON schema", "strict"],
        *[f"{bad}: {handled}" for bad in ("misfit", "two answers") for handled in HANDLED],
    ],
)
def test_messages_and_errors_are_those_of_create_agent(
    drive: Drive, make: Any, schema: Any, replies: list[Any]
) -> None:
    ours, theirs = both(drive, schema, make, *replies)
    assert ours == theirs


def both(drive: Drive, schema: Any, make: Any, *replies: Any) -> tuple[Any, Any]:
    """Return the messages of our agent and of LangChain's, or the types of the errors."""

    def ours() -> Any:
        runner = ag.Runner(ag.chat_agent("w", make(*replies), output_schema=schema))
        list(drive.run(runner, "Go.", thread_id="t"))
        return shapes(runner.graph.get_state(CONFIG).values["messages"])

    def theirs() -> Any:
        agent: Any = create_agent(make(*replies), response_format=schema)
        return shapes(agent.invoke({"messages": [("user", "Go.")]})["messages"])

    found = []
    for each in (ours, theirs):
        try:
            found.append(each())
        except Exception as error:
            found.append(type(error))
    return found[0], found[1]


def script(is_enforced: bool, misfits: int) -> Any:
    """Return a script that looks something up, fails a few times, and then answers."""

    def reply(sent: list[BaseMessage]) -> AIMessage:
        results = [each.text for each in sent if each.type == "tool"]
        number = f"c{len(sent)}"
        if not results:
            return calls(call("look", number, topic="bees"))
        if is_enforced:
            return AIMessage('{"city": "Rome"}')
        if sum("Error" in each for each in results) < misfits:
            return calls(call("Trip", number, days=2))
        return calls(call("Trip", number, city="Rome"))

    return reply


def compared(messages: list[BaseMessage]) -> list[Any]:
    """Return what can be compared: the result of the call that is the answer has another text."""
    return [
        (
            each.type,
            "" if "Returning structured" in each.text or each.text.startswith("{") else each.text,
            [(made["name"], made["args"]) for made in getattr(each, "tool_calls", ())],
        )
        for each in messages
    ]


@st.composite
def stacks(draw: st.DrawFn) -> list[tuple[str, str, int]]:
    does = st.sampled_from(["remind", "rewrite", "forget", "end"])
    return draw(st.lists(st.tuples(st.sampled_from(HOOKS), does, st.integers(1, 3)), max_size=4))


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@settings(max_examples=examples(15), deadline=None)
@given(stack=stacks(), is_enforced=st.booleans(), misfits=st.integers(0, 2))
def test_in_a_random_stack_of_middleware_the_answer_is_that_of_create_agent(
    is_async: bool, stack: list[tuple[str, str, int]], is_enforced: bool, misfits: int
) -> None:
    profile: Any = {"structured_output": True} if is_enforced else None
    responses = script(is_enforced, misfits)
    ours, theirs = (ScriptedChatModel(responses=responses, profile=profile) for _ in range(2))

    def options() -> dict[str, Any]:
        middleware = [made(number, *each) for number, each in enumerate(stack)]
        return {"tools": [look], "middleware": middleware}

    def ended(graph: Any) -> Any:
        given: Any = {"messages": [HumanMessage("Go.")]}
        return asyncio.run(graph.ainvoke(given, CONFIG)) if is_async else graph.invoke(given, CONFIG)

    agent = ag.chat_agent("w", ours, output_schema=Trip, output_key="trip", **options())
    value = ended(ag.compile_agent(agent, checkpointer=InMemorySaver()))["values"].get("trip")
    their_agent = create_agent(theirs, response_format=Trip, checkpointer=InMemorySaver(), **options())
    expected = ended(their_agent).get("structured_response")
    assert [compared(each) for each in ours.inputs] == [compared(each) for each in theirs.inputs]
    wanted = answer_format_of(Trip)
    assert wanted is not None
    assert (None if value is None else wanted.typed(value)) == expected


@pytest.mark.parametrize(
    ("make", "schema", "reply"),
    [
        (scripted, Trip, calling(city="Rome", begin="2026-01-02")),
        (enforcing, Trip, '{"city": "Rome", "begin": "2026-01-02"}'),
        (scripted, Place, calling("Place", city="Rome")),
        (scripted, town(), calling("Town", city="Rome")),
        (scripted, ToolStrategy(Trip | Refusal), calling("Refusal", why="x")),
        (scripted, ToolStrategy(Place | Trip), calling(city="Rome")),
    ],
    ids=["call", "provider", "dataclass", "JSON schema", "several types", "types that both fit"],
)
def test_middleware_sees_the_answer_as_in_create_agent(
    drive: Drive, make: Any, schema: Any, reply: Any
) -> None:
    seen: list[Any] = []

    @after_model
    def look_at(state: Any, runtime: Any) -> None:
        seen.append(state.get("structured_response"))

    @after_agent
    def look_last(state: Any, runtime: Any) -> None:
        seen.append(state.get("structured_response"))

    middleware = [look_at, look_last]
    theirs: Any = create_agent(make(reply), response_format=schema, middleware=middleware)
    theirs.invoke({"messages": [("user", "Go.")]})
    expected = [(type(each), each) for each in seen]
    seen.clear()
    _, value = ran(drive, make(reply), schema, middleware=middleware)
    assert [(type(each), each) for each in seen] == expected
    assert value == json.loads(json.dumps(value))
