"""Values that cannot be compared, as arrays of numpy are, where middleware hands back messages."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from helpers import scripted
from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import tool

import agentgraph as ag
from agentgraph.graph.values import is_same
from agentgraph.testing import call, calls


@dataclass(eq=False)
class Array:
    """Gives no answer to `==`."""

    items: list[int]

    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth value of an array is ambiguous")

    __hash__ = None  # type: ignore[assignment]


@tool(response_format="content_and_artifact")
def measure() -> tuple[str, Any]:
    """Measure."""
    return "measured", Array([1, 2])


class Copying(AgentMiddleware[Any, Any, Any]):
    """Hands back copies of all messages, one of which it redacts."""

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        copies = [message.model_copy(deep=True) for message in state["messages"]]
        if copies[-1].type == "tool":
            copies[-1].content = "redacted"
        return {"messages": copies}


@pytest.mark.parametrize("is_async", [False, True])
def test_middleware_may_hand_back_messages_that_cannot_be_compared(is_async: bool) -> None:
    model = scripted(calls(call("measure")), calls(call("measure", "2")), "done")
    graph = ag.compile_agent(ag.chat_agent("a", model, tools=[measure], middleware=[Copying()]))
    given: Any = {"messages": ["Go."]}
    ended = asyncio.run(graph.ainvoke(given)) if is_async else graph.invoke(given)
    assert ended["messages"][-1].text == "done"
    assert [m.text for m in model.inputs[-1] if m.type == "tool"] == ["redacted", "redacted"]


def test_values_that_cannot_be_compared_are_the_same_where_what_is_in_them_is() -> None:
    assert is_same(Array([1]), Array([1]))
    assert not is_same(Array([1]), Array([2]))
