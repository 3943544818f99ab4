"""What cannot be saved is refused where it is written, and the step can be tried again."""

import threading
from pathlib import Path
from typing import Any

import pytest
from helpers import Drive, scripted
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from value_runs import Thread

import agentgraph as ag
from agentgraph.agents.signals import CheckResult
from agentgraph.graph.saving import save_fault
from agentgraph.testing import call, calls

LOCK = threading.Lock()
NO_LOCK = "Type is not msgpack serializable: _thread.lock"
SURROGATE = "a text in it has a lone surrogate, which is not a character"


@pytest.fixture(params=["memory", "disk"])
def thread(request: pytest.FixtureRequest, drive: Drive, tmp_path: Path) -> Thread:
    return Thread(drive, tmp_path / "x.db" if request.param == "disk" else None)


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def leaf(name: str, given: Any, runs: list[str], instead: Any = "mended") -> ag.Agent:
    """Return a function agent that gives an item the first time, and another one from then on."""

    def fn(ctx: ag.Context) -> Any:
        runs.append(name)
        return given if runs.count(name) == 1 else instead

    return ag.function_agent(name, fn)


UNSAVABLE = {
    "a value": (ag.SetValues(fine=1, db=LOCK), "the value 'db'", NO_LOCK),
    "a value inside": (ag.SetValues(db={"a": [LOCK]}), "the value 'db'", NO_LOCK),
    "a big number": (ag.SetValues(n=2**64), "the value 'n'", "Integer exceeds 64-bit range"),
    "half a character": (ag.SetValues(t=["\ud800"]), "the value 't'", SURROGATE),
    "a name with half a character": (ag.SetValues(t={"\ud800": 1}), "the value 't'", None),
    "what is nested too deep": (ag.SetValues(t=deep(300)), "the value 't'", "Recursion limit reached"),
    "custom data": (ag.Custom({"n": 10**30}), "custom data", "Integer exceeds 64-bit range"),
    "a question": (ag.Ask(10**30), "the question", "Integer exceeds 64-bit range"),
    "a text": ("\ud800", "the message", SURROGATE),
    "a message": (AIMessage("x", additional_kwargs={"l": LOCK}), "the message", None),
    "content": (AIMessage([{"type": "text", "text": "\udfff"}]), "the message", SURROGATE),
}


@pytest.mark.parametrize("case", UNSAVABLE)
def test_what_a_function_gives_and_cannot_be_saved_is_refused(thread: Thread, case: str) -> None:
    given, named, why = UNSAVABLE[case]
    runs: list[str] = []
    tree = ag.sequential(
        "s", [leaf("a", "one", runs), leaf("b", given, runs), leaf("c", "three", runs)]
    )
    told = thread.run(tree)
    assert isinstance(thread.error, ag.InvalidOutputError)
    assert str(thread.error).startswith(f"s/b: {named} cannot be saved (")
    assert why is None or f"({why})" in str(thread.error)
    assert [(event.agent_name, event.kind) for event in told] == [("a", "message"), ("b", "error")]
    thread.resume(tree)
    assert thread.error is None
    assert runs == ["a", "b", "b", "c"]
    messages = [event.text for event in thread.events(tree) if event.kind == "message"]
    assert messages == ["one", "mended", "three"]


def test_in_a_branch_the_step_is_tried_again_and_nothing_else(thread: Thread) -> None:
    runs: list[str] = []
    bad = leaf("b", ag.SetValues(db=LOCK), runs, ag.SetValues(db="a name"))
    branch = ag.sequential("s", [leaf("a", "one", runs), bad])
    tree = ag.parallel("p", [branch, leaf("c", "three", runs)], on_error="wait")
    thread.run(tree)
    assert str(thread.error).startswith("p/s/b: the value 'db' cannot be saved")
    thread.resume(tree)
    assert (thread.error, thread.values(tree)) == (None, {"db": "a name"})
    assert sorted(runs) == ["a", "b", "b", "c"]


def test_without_a_saver_nothing_is_refused() -> None:
    tree = ag.function_agent("a", lambda ctx: ag.SetValues(db=LOCK))
    assert ag.compile_agent(tree).invoke({"messages": ["Go."]})["values"] == {"db": LOCK}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (ag.SetValues(db=LOCK), "the value 'db' of the tool 'act'"),
        (ag.Custom(10**30), "custom data of the tool 'act'"),
        (ToolMessage("x", tool_call_id="1", artifact=LOCK), "the result of the tool 'act'"),
        ("\ud800", "the result of the tool 'act'"),
        (Command(update={"values": {"db": 10**30}}), "the value 'db' of the tool 'act'"),
    ],
    ids=["values", "custom", "artifact", "text", "command"],
)
@pytest.mark.parametrize("count", [1, 2])
def test_what_a_tool_gives_and_cannot_be_saved_is_refused(
    thread: Thread, given: Any, named: str, count: int
) -> None:
    ran: list[str] = []

    def act() -> Any:
        """Act."""
        ran.append("act")
        return given if len(ran) == 1 else "Done."

    def wait() -> str:
        """Wait."""
        ran.append("wait")
        return "Waited."

    asked = calls(call("act", "1"), *[call("wait", "2")] * (count - 1))
    tree = ag.chat_agent("a", scripted(asked, "Ended."), tools=[act, wait], parallel_tools=False)
    thread.run(tree)
    assert isinstance(thread.error, ag.InvalidOutputError)
    assert str(thread.error).startswith(f"a: {named} cannot be saved (")
    thread.resume(tree)
    assert thread.error is None
    assert ran == ["act", "act", "wait"][: count + 1]


def test_a_reply_that_cannot_be_saved_is_refused_and_the_model_asked_again(thread: Thread) -> None:
    model = scripted(AIMessage("No.", additional_kwargs={"n": 10**30}), "Ended.")
    tree = ag.chat_agent("a", model)
    thread.run(tree)
    assert str(thread.error).startswith("a: the message cannot be saved (")
    thread.resume(tree)
    assert (thread.error, len(model.inputs)) == (None, 2)


def test_a_structured_answer_that_cannot_be_saved_is_refused(thread: Thread) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    model = scripted('{"n": 1000000000000000000000000000000}', '{"n": 1}')
    tree = ag.chat_agent("a", model, output_schema=schema, output_key="out")
    thread.run(tree)
    assert str(thread.error).startswith("a: the value 'out' cannot be saved (Integer exceeds")
    thread.resume(tree)
    assert (thread.error, thread.values(tree)) == (None, {"out": {"n": 1}})


def test_a_persons_prompt_that_cannot_be_saved_is_refused(thread: Thread) -> None:
    tree = ag.human("h", {"n": 10**30})
    thread.run(tree)
    assert str(thread.error).startswith("h: the question cannot be saved (Integer exceeds")
    assert thread.pending(tree) == []


def test_what_a_function_interrupts_with_and_cannot_be_saved_is_refused(thread: Thread) -> None:
    tree = ag.function_agent("a", lambda ctx: interrupt(LOCK))
    told = thread.run(tree)
    assert str(thread.error).startswith(f"a: the question cannot be saved ({NO_LOCK})")
    assert [(event.agent_name, event.kind) for event in told] == [("a", "error")]


def test_a_message_of_a_graph_that_cannot_be_saved_is_refused(thread: Thread) -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("say", lambda state: {"messages": [AIMessage("\ud800")]})
    builder.add_edge(START, "say")
    builder.add_edge("say", END)
    tree = ag.graph_agent("g", builder.compile())
    thread.run(tree)
    assert str(thread.error).startswith(f"g: the message cannot be saved ({SURROGATE})")


@pytest.mark.parametrize(
    "verdict",
    [
        CheckResult(values={"db": LOCK}),
        CheckResult(custom=(10**30,)),
        CheckResult(messages=(HumanMessage("\ud800"),)),
    ],
    ids=["values", "custom", "message"],
)
def test_what_a_check_gives_and_cannot_be_saved_is_refused(
    thread: Thread, verdict: CheckResult
) -> None:
    from agentgraph.agents.agents import CheckedAgent

    given = [verdict]
    inner = ag.function_agent("a", lambda ctx: "one")

    def check(ctx: Any, said: Any, attempt: int) -> CheckResult:
        return given.pop() if given else CheckResult()

    tree = CheckedAgent(agent=inner, check=check)
    thread.run(tree)
    assert isinstance(thread.error, ag.InvalidOutputError)
    assert " of a check cannot be saved (" in str(thread.error)
    thread.resume(tree)
    assert thread.error is None


@pytest.mark.parametrize(
    ("messages", "values", "named"),
    [
        ("Go.", {"db": LOCK}, "the value 'db', <unlocked _thread.lock"),
        ("\ud800", {}, "the message '\\ud800' cannot be saved"),
        ([HumanMessage("x", additional_kwargs={"l": LOCK})], {}, "the message 'x' cannot be saved"),
    ],
    ids=["values", "text", "message"],
)
def test_input_that_cannot_be_saved_is_refused_and_nothing_written(
    thread: Thread, messages: Any, values: dict[str, Any], named: str
) -> None:
    tree = ag.function_agent("a", lambda ctx: "one")
    told = thread.call(tree, None, "run", messages, thread_id="t", values=values)
    assert (type(thread.error), told) == (ag.AgentGraphError, [])
    assert named in str(thread.error)
    thread.events(tree)
    assert isinstance(thread.error, ag.UnknownThreadError)


def test_values_that_cannot_be_saved_are_refused_by_a_resume(thread: Thread) -> None:
    tree = ag.human("h", "{topic}?")
    thread.run(tree)
    assert isinstance(thread.error, ag.MissingValueError)
    thread.resume(tree, values={"topic": LOCK})
    assert type(thread.error) is ag.AgentGraphError
    thread.resume(tree, values={"topic": "bees"})
    assert [asked.value for asked in thread.pending(tree)] == ["bees?"]


@pytest.mark.parametrize("answer", [10**30, "\ud800", ["\udfff"], deep(300), deep(5000), LOCK])
def test_an_answer_that_cannot_be_saved_is_refused_and_the_question_stays(
    thread: Thread, answer: Any
) -> None:
    tree = ag.human("h", "Well?", output_key="said")
    thread.run(tree)
    (asked,) = thread.pending(tree)
    thread.resume(tree, None, answer)
    assert isinstance(thread.error, ag.InvalidAnswerError)
    assert [each.id for each in thread.pending(tree)] == [asked.id]
    thread.resume(tree, None, "yes")
    assert (thread.error, thread.values(tree)) == (None, {"said": "yes"})


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
)
def test_a_message_of_plain_text_is_not_serialized_to_be_looked_at(message: Any) -> None:
    assert save_fault(Unread(), message) is None


@pytest.mark.parametrize("value", ["ü?", {"a": ("?", {1, 2}, b"?")}, HumanMessage("ü?"), 2**64 - 1])
def test_what_can_be_saved_is_not_refused(value: Any) -> None:
    assert save_fault(JsonPlusSerializer(), value) is None
