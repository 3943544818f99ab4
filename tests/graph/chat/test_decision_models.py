"""Calls of LangChain's decision models count as calls of models: in hooks, tools and functions."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from helpers.decisions import TOKENS, Judge
from langchain.agents.middleware import AgentMiddleware
from langchain_core.decisions import Noul

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

REQUEST: Any = {"state": "Bees.", "questions": {"risky": Noul(instructions="Is it risky?")}}


def judge() -> None:
    Judge().invoke(REQUEST)


async def ajudge() -> None:
    await Judge().ainvoke(REQUEST)


class BeforeAgent(AgentMiddleware[Any, Any, Any]):
    def before_agent(self, state: object, runtime: object) -> None:
        judge()

    async def abefore_agent(self, state: object, runtime: object) -> None:
        await ajudge()


class AroundModel(AgentMiddleware[Any, Any, Any]):
    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        judge()
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        await ajudge()
        return await handler(request)


class AroundTool(AgentMiddleware[Any, Any, Any]):
    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        judge()
        return handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        await ajudge()
        return await handler(request)


def look(topic: str) -> str:
    """Look something up."""
    return f"{topic} hum."


def judged(topic: str) -> str:
    """Look something up, if that is right."""
    judge()
    return look(topic)


def chat(*middleware: AgentMiddleware[Any, Any, Any], tool: Callable[[str], str] = look) -> ag.Agent:
    """Return an agent whose model is called twice, and its tool once."""

    def reply(messages: Any) -> Any:
        return "Done." if messages[-1].type == "tool" else calls(call(tool.__name__, topic="Bees"))

    model = ScriptedChatModel(responses=reply)
    return ag.chat_agent("bot", model, tools=[tool], middleware=middleware)


def decides(ctx: object) -> str:
    judge()
    return "Done."


def judge_in_branches() -> ag.Agent:
    return ag.parallel("both", [ag.function_agent("a", decides), ag.function_agent("b", decides)])


TREES: dict[str, tuple[Callable[[], ag.Agent], int, int]] = {
    "before the agent": (lambda: chat(BeforeAgent()), 3, 1),
    "around the model": (lambda: chat(AroundModel()), 4, 2),
    "around a tool": (lambda: chat(AroundTool()), 3, 1),
    "in a tool": (lambda: chat(tool=judged), 3, 1),
    "in a function": (lambda: ag.function_agent("bot", decides), 1, 1),
    "in branches": (judge_in_branches, 2, 2),
}
"""Trees, with the number of calls of models, and of decisions among them."""


def invoke(runner: ag.Runner, way: str, *args: Any, **options: Any) -> ag.Result:
    if way == "sync":
        return runner.invoke(*args, **options)
    return asyncio.run(runner.ainvoke(*args, **options))


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("name", TREES)
def test_a_decision_counts_as_a_call_with_its_tokens(name: str, way: str) -> None:
    tree, model_calls, decisions = TREES[name]
    runner = ag.Runner(tree(), limits=ag.Limits(model_calls=50))
    with_limits = invoke(runner, way, "Go.").spent
    assert (with_limits.model_calls, with_limits.tokens) == (model_calls, decisions * TOKENS)


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("name", TREES)
def test_a_limit_of_calls_refuses_a_decision_or_the_call_after_it(name: str, way: str) -> None:
    tree, model_calls, _ = TREES[name]
    runner = ag.Runner(tree(), limits=ag.Limits(model_calls=model_calls))
    assert invoke(runner, way, "Go.").status == "done"
    runner = ag.Runner(tree(), limits=ag.Limits(model_calls=model_calls - 1 or 1))
    if model_calls > 1:
        with pytest.raises(ag.LimitError, match=r"Limits\.model_calls"):
            invoke(runner, way, "Go.")


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_limit_of_tokens_counts_decisions(way: str) -> None:
    tree = ag.sequential("both", [ag.function_agent("a", decides), ag.function_agent("b", decides)])
    runner = ag.Runner(tree, limits=ag.Limits(tokens=TOKENS))
    with pytest.raises(ag.LimitError, match=r"Limits\.tokens, which is 10"):
        invoke(runner, way, "Go.", thread_id="t")
    done = invoke(runner, way, thread_id="t", limits=ag.Limits(tokens=5 * TOKENS))
    assert (done.status, done.spent.tokens, done.spent.model_calls) == ("done", 2 * TOKENS, 2)


class Held(AroundTool):
    """Holds its model, as LangChain's auto mode and router do."""

    def __init__(self) -> None:
        self.classifier = Judge()


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_decision_model_of_middleware_is_counted_without_limits(way: str) -> None:
    runner = ag.Runner(ag.sequential("s", [chat(Held()), ag.function_agent("last", lambda ctx: "Hm.")]))
    result = invoke(runner, way, "Go.", thread_id="t")
    assert (result.spent.model_calls, result.spent.tokens) == (3, TOKENS)
    assert runner.thread("t").spent == runner.result("t").spent == result.spent


class Asks(Held):
    """Asks its model before the agent, and before its tool."""

    def before_agent(self, state: object, runtime: object) -> None:
        self.classifier.invoke(REQUEST)

    async def abefore_agent(self, state: object, runtime: object) -> None:
        await self.classifier.ainvoke(REQUEST)


@pytest.mark.parametrize("way", ["sync", "async"])
def test_usage_has_the_decisions_of_each_part_of_a_turn(way: str) -> None:
    tree = ag.sequential("s", [chat(Asks()), ag.human("boss", "Well?"), says_counted(), chat_again()])
    runner = ag.Runner(tree)
    first = invoke(runner, way, "Go.", thread_id="t")
    rest = invoke(runner, way, thread_id="t", answers="Yes.")
    reply = next(event.usage for event in rest.events if event.agent_name == "counted")
    assert reply is not None
    assert first.usage.total["total_tokens"] == 2 * TOKENS
    assert first.usage.by_agent["bot"]["output_tokens"] == 2 * (TOKENS - 7)
    assert rest.usage.by_agent["again"]["input_tokens"] == 7
    assert rest.usage.total["total_tokens"] == TOKENS + reply["total_tokens"]
    whole = 3 * TOKENS + reply["total_tokens"]
    thread = runner.thread("t")
    for usage in (thread.usage, runner.result("t").usage):
        assert usage.total["total_tokens"] == thread.spent.tokens == whole
        assert usage.by_agent.keys() == {"bot", "again", "counted"}
    forks = runner.fork_many("t", "s/counted", {"same": {}})
    assert forks["same"].usage.total["total_tokens"] == TOKENS + reply["total_tokens"]


def says_counted() -> ag.Agent:
    model = ScriptedChatModel(responses=lambda messages: "Hm.", counts_tokens=True)
    return ag.chat_agent("counted", model)


def chat_again() -> ag.Agent:
    model = ScriptedChatModel(responses=lambda messages: "Done.")
    return ag.chat_agent("again", model, middleware=[Asks()])
