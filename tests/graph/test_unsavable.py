"""What functions, tools, graphs and checks give is refused if it cannot be saved, and can be mended.

What is refused of questions, answers and input is in `tests/transcripts/refused_values.txt`.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from helpers import Drive, gives, scripted
from helpers.forked import Thread
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.channels import UntrackedValue
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

import agentgraph as ag
from agentgraph.agents.agents import CheckedAgent
from agentgraph.agents.signals import CheckResult
from agentgraph.graph.saving import save_fault
from agentgraph.testing import call, calls

LOCK = threading.Lock()
NO_LOCK = r"\(Type is not msgpack serializable: _thread.lock\)"
TOO_BIG = r"\(Integer exceeds 64-bit range\)"
SURROGATE = r"\(a text in it has a lone surrogate, which is not a character\)"


@pytest.fixture
def thread_of(drive: Drive, tmp_path: Path) -> Callable[[ag.Agent], Thread]:
    return lambda tree: Thread(drive, tree, tmp_path / "threads.db")


def said(thread: Thread) -> list[str]:
    return [event.text for event in thread.events() if event.kind == "message"]


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        pytest.param(ag.SetValues(fine=1, db=LOCK), f"the value 'db' .*{NO_LOCK}", id="a value"),
        pytest.param(ag.SetValues(db={"a": [LOCK]}), f"the value 'db' .*{NO_LOCK}", id="one inside"),
        pytest.param(ag.SetValues(n=2**64), f"the value 'n' .*{TOO_BIG}", id="a big number"),
        pytest.param(ag.SetValues(t=["\ud800"]), f"the value 't' .*{SURROGATE}", id="half a character"),
        pytest.param(ag.SetValues(t={"\ud800": 1}), "the value 't' ", id="a key with half a character"),
        pytest.param(
            ag.SetValues(t=deep(300)), r"the value 't' .*\(Recursion limit", id="deep nesting"
        ),
        pytest.param(ag.Custom({"n": 10**30}), f"custom data .*{TOO_BIG}", id="custom data"),
        pytest.param(ag.Ask(10**30), f"the question .*{TOO_BIG}", id="a question"),
        pytest.param("\ud800", f"the message .*{SURROGATE}", id="a text"),
        pytest.param(AIMessage("x", additional_kwargs={"l": LOCK}), "the message ", id="a message"),
        pytest.param(
            AIMessage([{"type": "text", "text": "\udfff"}]), f"the message .*{SURROGATE}", id="content"
        ),
    ],
)
def test_what_a_function_gives(thread_of: Any, given: Any, fault: str) -> None:
    agents = [gives("a", "one", "ran twice"), gives("b", given, "mended"), gives("c", "three")]
    thread = thread_of(ag.sequential("s", agents))
    with pytest.raises(ag.InvalidOutputError, match=f"^s/b: {fault}"):
        thread.run()
    assert thread.resume() == ["mended", "three"]
    assert said(thread) == ["one", "mended", "three"]


def test_without_a_saver_nothing_is_refused() -> None:
    graph = ag.compile_agent(gives("a", ag.SetValues(db=LOCK)))
    assert graph.invoke({"messages": ["Go."]})["values"] == {"db": LOCK}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        pytest.param(ag.SetValues(db=LOCK), "the value 'db' of the tool 'act'", id="a value"),
        pytest.param(ag.Custom(10**30), "custom data of the tool 'act'", id="custom data"),
        pytest.param(
            ToolMessage("x", tool_call_id="1", artifact=LOCK),
            "the result of the tool 'act'",
            id="artifact",
        ),
        pytest.param("\ud800", "the result of the tool 'act'", id="a text"),
        pytest.param(
            Command(update={"values": {"db": 10**30}}),
            "the value 'db' of the tool 'act'",
            id="a command",
        ),
    ],
)
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("on_tool_error", ["return", "raise"])
def test_what_a_tool_gives_is_refused_and_the_tool_does_not_run_again(
    thread_of: Any, given: Any, named: str, count: int, on_tool_error: Any
) -> None:
    ran: list[str] = []

    def act() -> Any:
        """Act."""
        ran.append("act")
        return given

    def wait() -> str:
        """Wait."""
        ran.append("wait")
        return "Waited."

    asked = calls(call("act", "1"), *[call("wait", "2")] * (count - 1))
    model = scripted(asked, "Ended.")
    options: Any = {"parallel_tools": False, "on_tool_error": on_tool_error}
    thread = thread_of(ag.chat_agent("a", model, tools=[act, wait], **options))
    if on_tool_error == "raise":
        with pytest.raises(ag.InvalidOutputError, match=f"^a: {named} cannot be saved "):
            thread.run()
        assert thread.resume()[-1] == "Ended."
    elif named.startswith("the result"):
        with pytest.warns(RuntimeWarning, match=r"^a: the .* of the tool 'act', .* cannot be saved"):
            assert thread.run()[-1] == "Ended."
    else:
        assert thread.run()[-1] == "Ended."
    assert ran == ["act", "wait"][:count]
    results = [each for each in model.inputs[-1] if isinstance(each, ToolMessage)]
    assert len(results) == count
    assert "cannot be saved" in str(results[0].text) or results[0].artifact == MARKER


MARKER = {"$agentgraph_unsaved": "_thread.lock", "why": NO_LOCK.strip("()\\")}


@pytest.mark.parametrize(
    "verdict",
    [
        pytest.param(CheckResult(values={"db": LOCK}), id="values"),
        pytest.param(CheckResult(custom=(10**30,)), id="custom data"),
        pytest.param(CheckResult(messages=(HumanMessage("\ud800"),)), id="a message"),
    ],
)
def test_what_a_check_gives(thread_of: Any, verdict: CheckResult) -> None:
    given = [verdict]

    def check(ctx: Any, said: Any, attempt: int) -> CheckResult:
        return given.pop() if given else CheckResult()

    thread = thread_of(CheckedAgent(agent=gives("a", "one"), check=check))
    with pytest.raises(ag.InvalidOutputError, match=r"^a: .* of a check cannot be saved "):
        thread.run()
    thread.resume()
    assert said(thread) == ["one"]


class State(MessagesState):
    v: Any


class Unsaved(MessagesState):
    v: Annotated[Any, UntrackedValue]


def graph_of(node: Callable[[Any], Any], kept: Any = State, **options: Any) -> ag.Agent:
    graph = StateGraph(kept).add_node("one", node).add_node("two", lambda state: {})
    return ag.graph_agent("g", graph.add_edge(START, "one").add_edge("one", "two").compile(), **options)


def test_a_message_of_a_graph(thread_of: Any) -> None:
    with pytest.raises(ag.InvalidOutputError, match=f"^g: the message cannot be saved {SURROGATE}"):
        thread_of(graph_of(lambda state: {"messages": [AIMessage("\ud800")]})).run()


def test_the_input_of_a_graph(thread_of: Any) -> None:
    given = [LOCK]
    tree = graph_of(lambda state: {"messages": [AIMessage("one")]}, input=lambda ctx: {"v": [*given]})
    thread = thread_of(tree)
    with pytest.raises(ag.InvalidOutputError, match=r"^g: .* of the graph cannot be saved .*lock"):
        thread.run()
    given.clear()
    assert thread.resume() == ["one"]


def test_the_state_of_a_graph_unless_it_is_never_saved(thread_of: Any) -> None:
    given: list[Any] = [LOCK, LOCK]

    def node(state: Any) -> Any:
        return {"v": given.pop() if given else 1, "messages": [AIMessage("one")]}

    assert thread_of(graph_of(node, Unsaved)).run() == ["one"]
    thread = thread_of(graph_of(node))
    with pytest.raises(ag.InvalidOutputError, match=r"^g: .* of the graph cannot be saved .*lock"):
        thread.run()
    assert thread.resume() == ["one"]


def test_a_type_error_of_a_node_of_a_graph_stays_what_it_is(thread_of: Any) -> None:
    def node(state: Any) -> Any:
        raise TypeError("it is mine")

    with pytest.raises(TypeError, match="it is mine"):
        thread_of(graph_of(node)).run()


class Unread:
    """A serializer that must not be asked."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        raise AssertionError(obj)


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("x" * 1_000_000),
        AIMessage("", tool_calls=[{"name": "a", "args": {"n": [1, {"b": None}]}, "id": "1"}]),
        ToolMessage("x", tool_call_id="1", name="t", id="2"),
    ],
    ids=["long", "with calls", "of a tool"],
)
def test_a_message_of_plain_text_is_not_serialized_to_be_checked(message: Any) -> None:
    assert save_fault(Unread(), message) is None


@pytest.mark.parametrize(
    "value",
    ["ü?", {"a": ("?", {1, 2}, b"?")}, HumanMessage("ü?"), 2**64 - 1, -(2**63), [*range(31)]],
    ids=str,
)
def test_what_can_be_saved_is_not_refused(value: Any) -> None:
    assert save_fault(JsonPlusSerializer(), value) is None
