"""What is wrong with middleware, told before anything runs."""

from typing import Any

import pytest
from driving import scripted
from langchain.agents.middleware import AgentMiddleware, PIIMiddleware, ToolRetryMiddleware
from langchain_core.tools import tool

import agentgraph as ag


@tool
def look(topic: str) -> str:
    """Look something up."""
    return topic


class Bringing(AgentMiddleware[Any, Any, Any]):
    tools = (look,)


def faults(**options: Any) -> tuple[str, ...]:
    with pytest.raises(ag.InvalidAgentError) as refused:
        ag.compile_agent(ag.chat_agent("writer", scripted(), **options))
    return refused.value.faults


def test_what_is_no_middleware_is_refused() -> None:
    assert faults(middleware=["no"]) == (
        "writer: 'no' is no middleware; pass instances of LangChain's AgentMiddleware, or what its "
        "decorators such as wrap_model_call give",
    )


def test_a_class_is_no_middleware() -> None:
    [fault] = faults(middleware=[ToolRetryMiddleware])
    assert "is no middleware (a class: call it)" in fault


def test_the_same_middleware_twice_is_refused() -> None:
    assert faults(middleware=[ToolRetryMiddleware(), ToolRetryMiddleware()]) == (
        "writer: two middlewares are named 'ToolRetryMiddleware'; leave one out, or give it a subclass "
        "or a `name` of its own",
    )


def test_a_tool_of_middleware_may_not_have_the_name_of_another() -> None:
    assert faults(middleware=[Bringing()], tools=[look]) == (
        "writer: 2 tools are named 'look'; a name means one tool, rename the others",
    )


def test_hooks_between_calls_are_refused() -> None:
    assert faults(middleware=[PIIMiddleware("email")]) == (
        "writer: the middleware 'PIIMiddleware[email]' has before_model, after_model, which chat "
        "agents do not run yet; use one that has wrap_model_call and wrap_tool_call only",
    )


def test_a_tool_of_middleware_may_need_approval_and_end_the_agent() -> None:
    agent = ag.chat_agent(
        "writer", scripted(), middleware=[Bringing()], approve=["look"], return_directly=["look"]
    )
    edges = {(e.source, e.target) for e in ag.compile_agent(agent).get_graph().edges}
    assert {("writer", "writer.approve"), ("writer.tools", "__end__")} <= edges
