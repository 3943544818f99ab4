"""Random stacks of small middlewares: a chat agent says and asks what `create_agent` does."""

import asyncio
import operator
from typing import Annotated, Any, NotRequired

import pytest
from helpers import Async, Drive, Sync, standing
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.channels import EphemeralValue, UntrackedValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
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


class Kinds(AgentState[Any]):
    """State of each kind, which all middleware of a stack shares."""

    count: NotRequired[int]
    log: NotRequired[Annotated[list[str], operator.add]]
    untracked: NotRequired[Annotated[Any, UntrackedValue]]
    passed: NotRequired[Annotated[str, EphemeralValue]]


class Small(AgentMiddleware[Any, Any, Any]):
    """Does one thing, in one place, the nth time that it is asked; notes its state each time."""

    state_schema = Kinds

    def __init__(self, number: int, place: str, does: str, nth: int) -> None:
        super().__init__()
        self._name, self.place, self.does, self.nth, self.asked = f"m{number}", place, does, nth, 0
        self.noted: list[Any] = []

    @property
    def name(self) -> str:
        return self._name

    def is_due(self) -> bool:
        self.asked += 1
        return self.asked == self.nth

    def note(self, state: Any) -> None:
        self.noted.append([state.get(key) for key in ("count", "log", "passed")])
        self.noted[-1].append("untracked" in state)


def made(number: int, place: str, does: str, nth: int) -> Small:
    """Return a middleware that has its one method only."""
    if place in HOOKS:
        return type("Hook", (Small,), {place: hook_config(can_jump_to=["end"])(_hook)})(
            number, place, does, nth
        )
    methods = {place: _wrap, f"a{place}": _awrap}
    return type("Wrap", (Small,), methods)(number, place, does, nth)


def _hook(self: Any, state: Any, runtime: Any) -> Any:
    self.note(state)
    given = _done(self, state) or {}
    count = {"count": state.get("count", 0) + 1} if self.nth != 2 else {}
    kept = {"log": [self.name], "untracked": print} if self.does != "ask" else {}
    return {**given, **count, **kept, "passed": f"by {self.name}"}


def _done(self: Any, state: Any) -> Any:
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
        case "retract" if messages[-1].type == "ai":
            return {"messages": [RemoveMessage(id=messages[-1].id)]}
        case "renew":
            keep = messages[-1:] if messages[-1].type == "human" else []
            everything = RemoveMessage(id=REMOVE_ALL_MESSAGES)
            return {"messages": [everything, HumanMessage(f"{self.name} sums up"), *keep]}
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


def theirs(drive: Drive, model: Any, middleware: Any) -> list[Any]:
    """Run two turns, with all answers; return what was asked."""
    graph: Any = create_agent(model, [look], middleware=middleware, checkpointer=InMemorySaver())
    told: list[Any] = []
    for text in ("Go.", "On."):
        value: Any = {"messages": [HumanMessage(text)]}
        for _ in range(ROUNDS):
            if drive is Async:
                ended = asyncio.run(graph.ainvoke(value, CONFIG))
            else:
                ended = graph.invoke(value, CONFIG)
            told.append([each.value for each in ended.get("__interrupt__", ())])
            if not told[-1]:
                break
            value = Command(resume="yes")
    return told


def ours(drive: Drive, lane: str, model: Any, middleware: Any) -> list[Any]:
    """Run two turns as `theirs`; what is told again is what was told, and is not void."""
    agent = ag.chat_agent("writer", model, tools=[look], middleware=middleware)
    runner = ag.Runner(agent if lane == "root" else ag.parallel("p", [ag.sequential("s", [agent])]))
    told: list[Any] = []
    events: list[ag.AgentEvent] = []
    for text in ("Go.", "On."):
        new = list(drive.run(runner, text, thread_id="t"))
        for _ in range(ROUNDS):
            events += new
            told.append([e.action.interrupted.value for e in new if e.kind == "interrupted"])
            if not told[-1]:
                break
            new = list(drive.resume(runner, "t", "yes"))
    assert list(runner.events("t")) == standing(events)
    return told


@st.composite
def stacks(draw: st.DrawFn) -> list[tuple[str, str, int]]:
    place = st.sampled_from([*HOOKS, "wrap_model_call", "wrap_tool_call"])
    does = st.sampled_from(["add", "remind", "rewrite", "forget", "retract", "renew", "end", "ask"])
    return draw(st.lists(st.tuples(place, does, st.integers(1, 3)), max_size=4))


@pytest.mark.parametrize("way", [Sync, Async])
@pytest.mark.parametrize("lane", ["root", "branch"])
@settings(max_examples=60, deadline=None)
@given(stack=stacks())
def test_a_random_stack_does_what_it_does_in_create_agent(
    way: Drive, lane: str, stack: list[tuple[str, str, int]]
) -> None:
    seen: list[Any] = []
    for is_ours in (True, False):
        model = ScriptedChatModel(responses=script)
        middleware = [made(number, *each) for number, each in enumerate(stack)]
        asked = ours(way, lane, model, middleware) if is_ours else theirs(way, model, middleware)
        seen.append((asked, [shapes(each) for each in model.inputs], [m.noted for m in middleware]))
    assert seen[0] == seen[1]
