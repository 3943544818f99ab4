"""Random stacks of small middlewares: a chat agent asks and sends what `create_agent` does."""

import operator
from typing import Annotated, Any, NotRequired

import pytest
from beside_langchain import run_graph, run_tree
from helpers import Async, Drive, Sync, look, middleware, shapes
from helpers.sampling import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware import AgentState
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.channels import EphemeralValue, UntrackedValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import interrupt

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

HOOKS = ("before_agent", "before_model", "after_model", "after_agent")


class Kinds(AgentState[Any]):
    """State of each kind, which all middleware of a stack shares."""

    count: NotRequired[int]
    log: NotRequired[Annotated[list[str], operator.add]]
    untracked: NotRequired[Annotated[Any, UntrackedValue]]
    passed: NotRequired[Annotated[str, EphemeralValue]]


class Small:
    """Does one thing the nth time that it is called; a hook notes the state each time."""

    def __init__(self, number: int, does: str, nth: int) -> None:
        self.name, self.does, self.nth, self.called = f"m{number}", does, nth, 0
        self.noted: list[Any] = []

    def hook(self, state: Any) -> Any:
        seen = [state.get(key) for key in ("count", "log", "passed")]
        self.noted.append([*seen, "untracked" in state])
        given = self.done(state) if self.is_due() else {}
        count = {"count": state.get("count", 0) + 1} if self.nth != 2 else {}
        kept = {"log": [self.name], "untracked": print} if self.does != "ask" else {}
        return {**given, **count, **kept, "passed": f"by {self.name}"}

    def wrap_model_call(self, request: Any) -> Any:
        is_instead = self.is_due() and self.does in ("add", "end")
        return AIMessage(f"{self.name} answers") if is_instead else (yield request)

    def wrap_tool_call(self, request: Any) -> Any:
        is_instead = self.is_due() and self.does in ("add", "end")
        answer = ToolMessage(f"{self.name} answers", tool_call_id=request.tool_call["id"], name="look")
        return answer if is_instead else (yield request)

    def is_due(self) -> bool:
        self.called += 1
        return self.called == self.nth

    def done(self, state: Any) -> dict[str, Any]:
        messages = state["messages"]
        if not messages or (getattr(messages[-1], "tool_calls", ()) and self.does != "rewrite"):
            return {}  # the model of create_agent would be sent calls without results
        last = messages[-1]
        match self.does:
            case "add":
                return {"messages": [AIMessage(f"{self.name} adds")]}
            case "remind":
                return {"messages": [HumanMessage(f"{self.name} reminds")]}
            case "rewrite":
                text = f"{last.text} by {self.name}"
                return {"messages": [last.model_copy(update={"content": text})]}
            case "retract" if last.type == "ai":
                return {"messages": [RemoveMessage(id=last.id)]}
            case "renew":
                kept = [last] if last.type == "human" else []
                everything = RemoveMessage(id=REMOVE_ALL_MESSAGES)
                return {"messages": [everything, HumanMessage(f"{self.name} sums up"), *kept]}
            case "forget" if messages[0].type == "human":
                return {"messages": [RemoveMessage(id=messages[0].id)]}
            case "end":
                return {"jump_to": "end", "messages": [AIMessage(f"{self.name} ends")]}
            case "ask":
                self.called -= 1  # the hook is called again with the answer
                answer = interrupt(f"{self.name} asks")
                self.called += 1
                return {"messages": [AIMessage(f"{self.name} heard {answer}")]}
        return {}


def made(number: int, place: str, does: str, nth: int) -> Any:
    """Return a middleware that has one method only."""
    small = Small(number, does, nth)
    method = small.hook if place in HOOKS else getattr(small, place)
    found: Any = middleware(small.name, state=Kinds, jumps=["end"], **{place: method})
    found.noted = small.noted
    return found


def script(sent: list[BaseMessage]) -> AIMessage:
    """Call a tool until there are two results; the text says what was sent."""
    text = "|".join(each.text for each in sent)
    if sum(each.type == "tool" for each in sent) < 2:
        return calls(call("look", f"c{len(sent)}", topic="bees"), text=text)
    return AIMessage(text)


STACKS = st.lists(
    st.tuples(
        st.sampled_from([*HOOKS, "wrap_model_call", "wrap_tool_call"]),
        st.sampled_from(["add", "remind", "rewrite", "forget", "retract", "renew", "end", "ask"]),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.by_turns("way")
@pytest.mark.parametrize("way", [Sync, Async])
@pytest.mark.parametrize("lane", ["root", "branch"])
@settings(max_examples=examples(15), deadline=None)
@given(stack=STACKS)
def test_a_random_stack_does_what_it_does_in_create_agent(
    way: Drive, lane: str, stack: list[tuple[str, str, int]]
) -> None:
    seen: list[Any] = []
    for is_ours in (True, False):
        model: Any = ScriptedChatModel(responses=script)
        middleware: Any = [made(number, *each) for number, each in enumerate(stack)]
        if is_ours:
            agent = ag.chat_agent("writer", model, tools=[look], middleware=middleware)
            tree = agent if lane == "root" else ag.parallel("p", [ag.sequential("s", [agent])])
            *asked, _ = run_tree(way, tree, ["Go.", "On."], lambda question: "yes")
        else:
            graph = create_agent(model, [look], middleware=middleware, checkpointer=InMemorySaver())
            *asked, _ = run_graph(way, graph, ["Go.", "On."], lambda question: "yes")
        seen.append((asked, [shapes(each) for each in model.inputs], [m.noted for m in middleware]))
    assert seen[0] == seen[1]
