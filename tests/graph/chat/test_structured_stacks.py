"""Random stacks of middleware around structured answers: messages and answers as in `create_agent`."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel
from test_random_stacks import HOOKS, look, made

import agentgraph as ag
from agentgraph.graph.chat.output import wanted_by
from agentgraph.testing import ScriptedChatModel, call, calls

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Trip(BaseModel):
    city: str
    days: int = 1


def script(is_native: bool, misfits: int) -> Any:
    """Return a script that looks something up, fails a few times, and then answers."""

    def reply(sent: list[BaseMessage]) -> AIMessage:
        results = [each.text for each in sent if each.type == "tool"]
        number = f"c{len(sent)}"
        if not results:
            return calls(call("look", number, topic="bees"))
        if is_native:
            return AIMessage('{"city": "Rome"}')
        if sum("Error" in each for each in results) < misfits:
            return calls(call("Trip", number, days=2))
        return calls(call("Trip", number, city="Rome"))

    return reply


def shapes(messages: list[BaseMessage]) -> list[Any]:
    """Return what can be compared: of an answer LangChain words the result otherwise."""
    return [
        (
            each.type,
            "" if "Returning structured" in each.text or each.text.startswith("{") else each.text,
            [(made["name"], made["args"]) for made in getattr(each, "tool_calls", ())],
        )
        for each in messages
    ]


def ended(graph: Any, *, is_async: bool) -> Any:
    given: Any = {"messages": [HumanMessage("Go.")]}
    return asyncio.run(graph.ainvoke(given, CONFIG)) if is_async else graph.invoke(given, CONFIG)


@st.composite
def stacks(draw: st.DrawFn) -> list[tuple[str, str, int]]:
    does = st.sampled_from(["remind", "rewrite", "forget", "end"])
    return draw(st.lists(st.tuples(st.sampled_from(HOOKS), does, st.integers(1, 3)), max_size=4))


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@settings(max_examples=60, deadline=None)
@given(stack=stacks(), is_native=st.booleans(), misfits=st.integers(0, 2))
def test_a_structured_answer_in_a_random_stack_is_that_of_create_agent(
    is_async: bool, stack: list[tuple[str, str, int]], is_native: bool, misfits: int
) -> None:
    def options() -> dict[str, Any]:
        return {"middleware": [made(number, *each) for number, each in enumerate(stack)]}

    def model() -> ScriptedChatModel:
        profile: Any = {"structured_output": True} if is_native else None
        return ScriptedChatModel(responses=script(is_native, misfits), profile=profile)

    ours, theirs = model(), model()
    agent = ag.chat_agent("w", ours, tools=[look], output_schema=Trip, output_key="trip", **options())
    mine = ended(ag.compile_agent(agent, checkpointer=InMemorySaver()), is_async=is_async)
    graph = create_agent(
        theirs, [look], response_format=Trip, checkpointer=InMemorySaver(), **options()
    )
    his = ended(graph, is_async=is_async)
    assert [shapes(each) for each in ours.inputs] == [shapes(each) for each in theirs.inputs]
    value, wanted = mine["values"].get("trip"), wanted_by(Trip)
    assert wanted is not None
    answer = None if value is None else wanted.typed(value)
    assert answer == his.get("structured_response")
