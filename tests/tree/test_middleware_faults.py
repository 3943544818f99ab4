"""What is wrong with middleware, told before anything runs."""

from typing import Any

import pytest
from helpers import scripted
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ToolRetryMiddleware,
    before_model,
)
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


def test_two_ways_to_ask_for_approval_are_refused() -> None:
    asks = HumanInTheLoopMiddleware({"look": True})
    assert faults(middleware=[asks], tools=[look], approve=["look"]) == (
        "writer: it has both approve= and a HumanInTheLoopMiddleware, which would ask twice; leave one "
        "out",
    )


def test_an_async_hook_needs_an_async_run() -> None:
    @before_model
    async def wait(state: Any, runtime: Any) -> None:
        return None

    runner = ag.Runner(ag.chat_agent("writer", scripted("x"), middleware=[wait]))
    told = "writer: the middleware 'wait' has abefore_model, but no before_model"
    with pytest.raises(ag.AgentGraphError, match=told):
        list(runner.query("Go."))


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ("yes", "is 'yes'; use True, False, or a mapping as LangChain's InterruptOnConfig"),
        (None, "is None; use True, False, or a mapping as LangChain's InterruptOnConfig"),
        ({}, "allows None; give it allowed_decisions, of approve, edit, reject, respond"),
        (
            {"allowed_decisions": []},
            "allows []; give it allowed_decisions, of approve, edit, reject, respond",
        ),
        (
            {"allowed_decisions": ["accept"]},
            "allows ['accept']; give it allowed_decisions, of approve, edit, reject, respond",
        ),
        (
            {"allowed_decision": ["approve"]},
            "has unknown keys 'allowed_decision'; use allowed_decisions, description, "
            "args_schema, when",
        ),
        (
            {"allowed_decisions": ["approve"], "when": "always"},
            "has when='always'; pass a sync function of a request",
        ),
        (
            {"allowed_decisions": ["approve"], "description": 5},
            "has description=5; pass a text, or a sync function of a call",
        ),
    ],
    ids=str,
)
def test_a_rule_that_langchain_would_not_keep_is_refused(rule: Any, fault: str) -> None:
    assert faults(tools=[look], approve={"look": rule}) == (f"writer: approve['look'] {fault}",)


def test_rules_may_be_true_and_false_and_what_langchain_takes() -> None:
    rule = {"allowed_decisions": ["approve", "reject"], "description": lambda *given: "Look?"}
    for each in (True, False, rule, {**rule, "when": lambda request: True, "args_schema": {}}):
        ag.compile_agent(ag.chat_agent("writer", scripted(), tools=[look], approve={"look": each}))


def test_what_decides_on_approval_must_be_sync_and_its_mode_known() -> None:
    async def needs(made: Any) -> bool:
        return True

    mode, told = faults(tools=[look], approve=needs, interrupt_mode="both")
    assert mode == "writer: interrupt_mode='both' is not known; use 'batched' or 'per_call'"
    assert told.endswith("is async; pass a sync function of a call")
    assert faults(tools=[look], approve={"mail": True}) == (
        "writer: approve names 'mail', which is not one of its tools: look",
    )


def test_a_tool_of_middleware_may_need_approval_and_end_the_agent() -> None:
    agent = ag.chat_agent(
        "writer", scripted(), middleware=[Bringing()], approve=["look"], return_directly=["look"]
    )
    edges = {(e.source, e.target) for e in ag.compile_agent(agent).get_graph().edges}
    assert {("writer", "writer.approve"), ("writer.tools", "__end__")} <= edges
