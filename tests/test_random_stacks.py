"""Random stacks of small middlewares: a chat agent says and asks what `create_agent` does."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, hook_config
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

CONFIG: Any = {"configurable": {"thread_id": "t"}}
HOOKS = ("before_agent", "before_model", "after_model", "after_agent")
ROUNDS = 6


@tool
def look(topic: str) -> str:
    """Look something up."""
    return f"{topic}!"


class Small(AgentMiddleware[Any, Any, Any]):
    """Does one thing, in one place, the nth time that it is asked."""

    def __init__(self, number: int, place: str, does: str, nth: int) -> None:
        super().__init__()
        self._name, self.place, self.does, self.nth, self.asked = f"m{number}", place, does, nth, 0

    @property
    def name(self) -> str:
        return self._name

    def is_due(self) -> bool:
        self.asked += 1
        return self.asked == self.nth


def made(number: int, place: str, does: str, nth: int) -> Small:
    """Return a middleware that has its one method only."""
    if place in HOOKS:
        return type("Hook", (Small,), {place: hook_config(can_jump_to=["end"])(_hook)})(
            number, place, does, nth
        )
    methods = {place: _wrap, f"a{place}": _awrap}
    return type("Wrap", (Small,), methods)(number, place, does, nth)


def _hook(self: Any, state: Any, runtime: Any) -> Any:
    if not self.is_due():
        return None
    messages = state["messages"]
    if not messages or (getattr(messages[-1], "tool_calls", ()) and self.does != "rewrite"):
        return None  # a model of theirs would be sent calls without results
    match self.does:
        case "add":
            return {"messages": [AIMessage(f"{self.name} adds")]}
        case "remind":
            return {"messages": [HumanMessage(f"{self.name} reminds")]}
        case "rewrite":
            last = messages[-1]
            return {"messages": [last.model_copy(update={"content": f"{last.text} by {self.name}"})]}
        case "forget" if messages[0].type == "human":
            return {"messages": [RemoveMessage(id=messages[0].id)]}
        case "end":
            return {"jump_to": "end", "messages": [AIMessage(f"{self.name} ends")]}
        case "ask":
            self.asked -= 1  # the hook is run again
            answer = interrupt(f"{self.name} asks")
            self.asked += 1
            return {"messages": [AIMessage(f"{self.name} was told {answer}")]}
    return None


def _wrap(self: Any, request: Any, handler: Any) -> Any:
    if self.is_due() and self.does in ("add", "end"):
        return _instead(self, request)
    return handler(request)


async def _awrap(self: Any, request: Any, handler: Any) -> Any:
    if self.is_due() and self.does in ("add", "end"):
        return _instead(self, request)
    return await handler(request)


def _instead(self: Any, request: Any) -> Any:
    if self.place == "wrap_model_call":
        return AIMessage(f"{self.name} answers")
    return ToolMessage(f"{self.name} answers", tool_call_id=request.tool_call["id"], name="look")


def script(sent: list[BaseMessage]) -> AIMessage:
    """Call a tool until there are results enough; the text tells what was sent."""
    told = "|".join(each.text for each in sent)
    if sum(each.type == "tool" for each in sent) < 2:
        return calls(call("look", f"c{len(sent)}", topic="bees"), text=told)
    return AIMessage(told)


def shapes(messages: list[BaseMessage]) -> list[Any]:
    return [(each.type, each.text, len(getattr(each, "tool_calls", ()))) for each in messages]


def driven(graph: Any, *, is_async: bool) -> list[Any]:
    """Run two turns, with all answers; return what was asked, and what the model was sent."""
    told: list[Any] = []
    for text in ("Go.", "On."):
        value: Any = {"messages": [HumanMessage(text)]}
        for _ in range(ROUNDS):
            if is_async:
                ended = asyncio.run(graph.ainvoke(value, CONFIG))
            else:
                ended = graph.invoke(value, CONFIG)
            asked = [each.value for each in ended.get("__interrupt__", ())]
            told.append(asked)
            if not asked:
                break
            value = Command(resume="yes")
    return told


@st.composite
def stacks(draw: st.DrawFn) -> list[tuple[str, str, int]]:
    place = st.sampled_from([*HOOKS, "wrap_model_call", "wrap_tool_call"])
    does = st.sampled_from(["add", "remind", "rewrite", "forget", "end", "ask"])
    return draw(st.lists(st.tuples(place, does, st.integers(1, 3)), max_size=4))


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@settings(max_examples=60, deadline=None)
@given(stack=stacks())
def test_a_random_stack_does_what_it_does_in_create_agent(
    is_async: bool, stack: list[tuple[str, str, int]]
) -> None:
    def middleware() -> list[Small]:
        return [made(number, *each) for number, each in enumerate(stack)]

    seen: list[Any] = []
    for is_ours in (True, False):
        model = ScriptedChatModel(responses=script)
        if is_ours:
            agent = ag.chat_agent("writer", model, tools=[look], middleware=middleware())
            graph: Any = ag.compile_agent(agent, checkpointer=InMemorySaver())
        else:
            graph = create_agent(model, [look], middleware=middleware(), checkpointer=InMemorySaver())
        asked = driven(graph, is_async=is_async)
        seen.append((asked, [shapes(each) for each in model.inputs]))
    assert seen[0] == seen[1]
