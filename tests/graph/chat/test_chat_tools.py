"""The tools of a chat agent: what they are given, what becomes of their results, and of questions."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterable
from itertools import permutations
from pathlib import Path
from typing import Annotated, Any

import pytest
from helpers import Drive, driven, failing, fresh, scripted, standing
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.testing import transcript

SECONDS = 5
"""How long a test waits for what must come."""


def call(name: str, id: str | None = "1", /, **args: Any) -> Any:
    """Return a call, which need not have an id."""
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


def broken(name: str, args: str, id: str | None = "1", error: str | None = None) -> Any:
    return {"name": name, "args": args, "id": id, "error": error, "type": "invalid_tool_call"}


def calls(*made: Any) -> AIMessage:
    """Return a message that calls tools, with arguments that are no JSON too."""
    valid = [each for each in made if each["type"] == "tool_call"]
    return AIMessage(
        "", tool_calls=valid, invalid_tool_calls=[each for each in made if each not in valid]
    )


def results(messages: Iterable[BaseMessage | None]) -> list[str]:
    """Return the tool messages as lines: whose result, how it went, and what it is."""
    return [
        f"{message.tool_call_id} {message.name} {message.status}: {message.text}"
        for message in messages
        if isinstance(message, ToolMessage)
    ]


def told_results(events: Iterable[ag.AgentEvent]) -> list[str]:
    return results(event.message for event in events)


def questions(events: Iterable[ag.AgentEvent]) -> dict[str, str]:
    """Return the ids of the questions that events tell, by what is asked."""
    asked = [event.action.interrupted for event in events if event.kind == "interrupted"]
    return {question.value: question.id for question in asked}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Adder(BaseTool):
    name: str = "add"
    description: str = "Add two numbers."

    def _run(self, a: int, b: int) -> int:
        return a + b


class Numbers(BaseModel):
    a: int = Field(ge=0)
    b: int = Field(ge=0)


def ask(what: str) -> str:
    """Ask a person."""
    return f"{what}: {interrupt(what)}"


def echo(text: str) -> str:
    """Give the text back."""
    return text


def fail(text: str) -> str:
    """Fail."""
    raise ValueError(text)


# kinds of tools


@pytest.mark.parametrize(
    "given",
    [
        add,
        tool(add),
        StructuredTool.from_function(add),
        StructuredTool.from_function(add, args_schema=Numbers),
        Adder(),
        lambda: None,
    ],
    ids=["function", "@tool", "StructuredTool", "args_schema", "BaseTool", "method"],
)
def test_a_tool_is_a_function_or_any_tool_of_langchain(drive: Drive, given: Any) -> None:
    class Calculator:
        def add(self, a: int, b: int) -> int:
            """Add two numbers."""
            return a + b

    if not isinstance(given, BaseTool) and given is not add:
        given = Calculator().add
    model = scripted(calls(call("add", a=2, b=3)), "Five.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[given]))

    events = list(drive.run(runner, "2 + 3?", thread_id="t"))

    assert transcript(events) == ['writer: [calls] add({"a": 2, "b": 3})', "writer: 5", "writer: Five."]
    assert {event.address for event in events} == {"writer"}
    assert results(model.inputs[1]) == ["1 add success: 5"]
    assert [message.type for message in model.inputs[1]] == ["human", "ai", "tool"]
    assert [each["function"]["name"] for each in model.tools] == ["add"]
    assert list(runner.events("t")) == events


def test_a_tool_may_be_async(drive: Drive) -> None:
    async def later(text: str) -> str:
        """Give the text back, later."""
        await asyncio.sleep(0)
        return text

    model = scripted(calls(call("later", text="now")), "Done.")
    writer = ag.chat_agent("writer", model, tools=[later])
    assert transcript(drive.run(ag.Runner(writer), "Go.")) == [
        'writer: [calls] later({"text": "now"})',
        "writer: now",
        "writer: Done.",
    ]


def test_a_tool_may_describe_its_arguments_by_a_json_schema(drive: Drive) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    }
    given = StructuredTool.from_function(add, args_schema=schema, description="Add.")
    model = scripted(calls(call("add", a=2, b=3)), "Five.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[given]))
    assert told_results(drive.run(runner, "Go.")) == ["1 add success: 5"]
    assert model.tools[0]["function"]["parameters"]["required"] == ["a", "b"]


def test_a_model_may_stream_its_calls_in_chunks_of_its_own(drive: Drive) -> None:
    class Chunks(RunnableLambda[Any, Any]):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self

    parts = [tool_call_chunk(name="add", args='{"a": 2, ', id="1", index=0)]
    parts.append(tool_call_chunk(args='"b": 3}', index=0))
    made = [AIMessageChunk("", tool_call_chunks=[part]) for part in parts]
    replies = [made[0] + made[1], AIMessage("Five.")]
    runner = ag.Runner(ag.chat_agent("writer", Chunks(lambda _: replies.pop(0)), tools=[add]))
    assert transcript(drive.run(runner, "Go.")) == [
        'writer: [calls] add({"a": 2, "b": 3})',
        "writer: 5",
        "writer: Five.",
    ]


def test_one_tool_needs_no_list(drive: Drive) -> None:
    model = scripted(calls(call("add", a=2, b=3)), "Five.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=tool(add)))
    assert told_results(drive.run(runner, "Go.")) == ["1 add success: 5"]


def test_a_result_says_who_called(drive: Drive) -> None:
    model = scripted(calls(call("add", a=2, b=3)), "Five.")
    tree = ag.loop("rounds", [ag.chat_agent("writer", model, tools=[add])], max_iterations=1)
    events = list(drive.run(ag.Runner(tree), "Go."))
    assert [(e.agent_name, e.address, str(e.run_path)) for e in events] == [
        ("writer", "rounds[0]/writer", "rounds/writer")
    ] * 3
    assert len({event.id for event in events}) == 3
    assert [event.message and event.message.id for event in events] == [event.id for event in events]


def test_async_tools_may_ask_and_act(drive: Drive, tmp_path: Path) -> None:
    async def aask(what: str) -> list[ToolMessage | ag.SetValues | ag.Exit]:
        """Ask a person."""
        await asyncio.sleep(0)
        return [ag.SetValues(**{what: interrupt(what)}), ag.Exit()]

    model = scripted(calls(call("aask", "1", what="a"), call("aask", "2", what="b")))
    tree = ag.sequential(
        "s", [ag.chat_agent("writer", model, tools=[aask]), ag.chat_agent("critic", scripted("Never."))]
    )
    path = tmp_path / "db"
    asked = questions(fresh(drive, path, tree, "run", "Go.", thread_id="t"))
    assert list(asked) == ["a", "b"]
    fresh(drive, path, tree, "resume", "t", {asked["b"]: "B"})
    told = fresh(drive, path, tree, "resume", "t", {asked["a"]: "A"})
    assert transcript(told) == ["s/writer: Done.", "s/writer: [exit]"]


# calls at once and in order


def test_the_calls_of_a_message_run_at_once(drive: Drive) -> None:
    together = threading.Barrier(3)

    def meet(name: str) -> str:
        """Wait for the others."""
        together.wait(SECONDS)
        return name

    model = scripted(calls(*(call("meet", n, name=f"n{n}") for n in "123")), "Met.")
    events = list(drive.run(ag.Runner(ag.chat_agent("writer", model, tools=[meet])), "Go."))
    assert sorted(told_results(events)) == [f"{n} meet success: n{n}" for n in "123"]
    assert results(model.inputs[1]) == [f"{n} meet success: n{n}" for n in "123"]


def test_async_calls_of_a_message_run_at_once() -> None:
    begun: list[str] = []

    async def meet(name: str) -> str:
        """Wait for the others."""
        begun.append(name)
        async with asyncio.timeout(SECONDS):
            while len(begun) < 3:
                await asyncio.sleep(0)
        return name

    model = scripted(calls(*(call("meet", n, name=f"n{n}") for n in "123")), "Met.")
    events = list(driven(ag.Runner(ag.chat_agent("writer", model, tools=[meet])).aquery("Go.")))
    assert sorted(told_results(events)) == [f"{n} meet success: n{n}" for n in "123"]


def test_the_calls_of_a_message_run_one_after_the_other_where_that_is_wanted(drive: Drive) -> None:
    log: list[str] = []
    alone = threading.Lock()

    def step(name: str) -> str:
        """Take a step."""
        assert alone.acquire(blocking=False)
        log.append(f"{name} begins")
        threading.Event().wait(0.02)
        log.append(f"{name} ends")
        alone.release()
        return name

    model = scripted(calls(*(call("step", n, name=n) for n in "abc")), "Done.")
    writer = ag.chat_agent("writer", model, tools=[step], parallel_tools=False)
    events = list(drive.run(ag.Runner(writer), "Go."))
    assert log == ["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]
    assert told_results(events) == ["a step success: a", "b step success: b", "c step success: c"]


def test_calls_in_order_wait_for_the_answer_to_a_question_before_them(
    drive: Drive, tmp_path: Path
) -> None:
    ran: Counter[str] = Counter()

    def count(name: str) -> str:
        """Count."""
        ran[name] += 1
        return name

    model = scripted(
        calls(
            call("count", "a", name="a"), call("ask", "b", what="Go on?"), call("count", "c", name="c")
        ),
        "Done.",
    )
    writer = ag.chat_agent("writer", model, tools=[count, ask], parallel_tools=False)

    first = fresh(drive, tmp_path / "db", writer, "run", "Go.", thread_id="t")
    assert transcript(first)[1:] == ["writer: a", "writer: [asks] Go on?"]
    assert ran == {"a": 1}
    second = fresh(drive, tmp_path / "db", writer, "resume", "t", "yes")
    assert transcript(second) == ["writer: Go on?: yes", "writer: c", "writer: Done."]
    assert ran == {"a": 1, "c": 1}
    assert len(model.inputs) == 2


def test_calls_in_order_stop_behind_one_that_fails(drive: Drive) -> None:
    ran: list[str] = []

    def count(name: str) -> str:
        """Count."""
        ran.append(name)
        if len(ran) == 2:
            raise ValueError("once")
        return name

    model = scripted(calls(*(call("count", n, name=n) for n in "abc")), "Done.")
    writer = ag.chat_agent("writer", model, tools=[count], parallel_tools=False, on_tool_error="raise")
    runner = ag.Runner(writer)
    failing(drive.run(runner, "Go.", thread_id="t"), ValueError)
    assert ran == ["a", "b"]
    assert transcript(drive.resume(runner, "t")) == ["writer: b", "writer: c", "writer: Done."]
    assert ran == ["a", "b", "b", "c"]


def test_results_are_told_as_they_come_and_sent_in_the_order_of_the_calls(drive: Drive) -> None:
    told = threading.Event()

    def slow() -> str:
        """Wait until the fast one was told."""
        assert told.wait(SECONDS)
        return "slow"

    def fast() -> str:
        """Be fast."""
        return "fast"

    model = scripted(calls(call("slow", "1"), call("fast", "2")), "Done.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[slow, fast]))
    events = []
    for event in drive.run(runner, "Go.", thread_id="t"):
        events.append(event)
        if event.text == "fast":
            told.set()

    assert transcript(events) == [
        "writer: [calls] slow({}), fast({})",
        "writer: fast",
        "writer: slow",
        "writer: Done.",
    ]
    assert results(model.inputs[1]) == ["1 slow success: slow", "2 fast success: fast"]
    again = list(runner.events("t"))
    assert sorted(again, key=events.index) == events
    assert (again[0], again[-1]) == (events[0], events[-1])


# calls that cannot run


@pytest.mark.parametrize("on_tool_error", ["return", "raise"])
def test_bad_arguments_go_back_to_the_model(drive: Drive, on_tool_error: Any) -> None:
    model = scripted(
        calls(call("add", "1", a="two", b=3)),
        calls(call("add", "2", a=2)),
        calls(call("add", "3", a=2, b=3)),
        "Five.",
    )
    writer = ag.chat_agent("writer", model, tools=[add], on_tool_error=on_tool_error)
    events = list(drive.run(ag.Runner(writer), "Go."))
    first, second, third = told_results(events)
    assert first == (
        "1 add error: Error invoking tool 'add' with kwargs {'a': 'two', 'b': 3} with error:\n"
        " a: Input should be a valid integer, unable to parse string as an integer\n"
        " Please fix the error and try again."
    )
    assert second == (
        "2 add error: Error invoking tool 'add' with kwargs {'a': 2} with error:\n"
        " b: Field required\n"
        " Please fix the error and try again."
    )
    assert third == "3 add success: 5"
    assert results(model.inputs[3]) == [first, second, third]


def test_a_call_to_an_unknown_tool_goes_back_to_the_model(drive: Drive) -> None:
    model = scripted(calls(call("multiply", a=2, b=3)), "I cannot.")
    writer = ag.chat_agent("writer", model, tools=[add, echo], on_tool_error="raise")
    assert told_results(drive.run(ag.Runner(writer), "Go.")) == [
        "1 multiply error: Error: multiply is not a valid tool, try one of [add, echo]."
    ]
    assert len(model.inputs) == 2


def test_arguments_that_are_no_json_go_back_to_the_model(drive: Drive) -> None:
    model = scripted(
        calls(broken("add", '{"a": 2,', "1", error="Expecting property name")),
        calls(call("echo", "2", text="good"), broken("add", "2 + 3", "3")),
        "Done.",
    )
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[add, echo], on_tool_error="raise"))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert sorted(told_results(events)) == [
        "1 add error: Error: the arguments of add cannot be read: Expecting property name. Call it "
        "again, with arguments that are a JSON object.",
        "2 echo success: good",
        "3 add error: Error: the arguments of add cannot be read: they are not valid JSON. Call it "
        "again, with arguments that are a JSON object.",
    ]
    assert results(model.inputs[2])[1:] == sorted(told_results(events))[1:]
    assert sorted(runner.events("t"), key=events.index) == events


def test_a_call_to_an_unknown_tool_may_fail_the_agent(drive: Drive) -> None:
    model = scripted(calls(call("multiply", a=2)), "Done.")
    tree = ag.sequential("s", [ag.chat_agent("writer", model, tools=[echo, add], unknown_tool="raise")])
    runner = ag.Runner(tree)
    events, raised = failing(drive.run(runner, "Go.", thread_id="t"), ag.InvalidOutputError)
    assert str(raised) == (
        "s/writer: the model called the unknown tool 'multiply'; the agent's tools: add, echo"
    )
    assert transcript(events)[1:] == [f"s/writer: [error] {raised!r}"]
    assert list(runner.events("t")) == events


def test_a_function_may_answer_calls_to_unknown_tools(drive: Drive) -> None:
    asked: list[Any] = []

    def answer(name: str, args: dict[str, Any]) -> str:
        asked.append((name, args))
        return f"{name} is not known"

    model = scripted(calls(call("multiply", "1", a=2), call("add", "2", a=1, b=1)), "Done.")
    writer = ag.chat_agent("writer", model, tools=[add], unknown_tool=answer)
    list(drive.run(ag.Runner(writer), "Go."))
    assert asked == [("multiply", {"a": 2})]
    assert results(model.inputs[1]) == [
        "1 multiply success: multiply is not known",
        "2 add success: 2",
    ]


def test_a_function_that_answers_unknown_calls_may_give_data(drive: Drive) -> None:
    model = scripted(calls(call("lookup", q="bees")), "Done.")
    writer = ag.chat_agent("writer", model, tools=[add], unknown_tool=lambda name, args: {"hits": None})
    assert told_results(drive.run(ag.Runner(writer), "Go.")) == ['1 lookup success: {"hits": null}']


# tools that fail


def test_an_exception_in_a_tool_goes_back_to_the_model(drive: Drive) -> None:
    model = scripted(calls(call("fail", "1", text="no"), call("echo", "2", text="yes")), "Done.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[fail, echo]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert results(model.inputs[1]) == [
        "1 fail error: Error: ValueError('no')\n Please fix your mistakes.",
        "2 echo success: yes",
    ]
    assert {event.kind for event in events} == {"message"}
    assert sorted(runner.events("t"), key=events.index) == events


def test_an_exception_in_a_tool_may_fail_the_agent_and_resume_runs_that_tool_alone(
    drive: Drive, tmp_path: Path
) -> None:
    ran: Counter[str] = Counter()
    done = threading.Event()

    def flaky() -> str:
        """Fail once."""
        ran["flaky"] += 1
        assert done.wait(SECONDS)
        if ran["flaky"] == 1:
            raise ConnectionError("down")
        return "up"

    def count() -> str:
        """Count."""
        ran["count"] += 1
        return "counted"

    def follow(events: Iterable[ag.AgentEvent]) -> Iterable[ag.AgentEvent]:
        for event in events:
            if event.text == "counted":
                done.set()
            yield event

    model = scripted(calls(call("flaky", "1"), call("count", "2")), "Done.")
    writer = ag.chat_agent("writer", model, tools=[flaky, count], on_tool_error="raise")
    tree = ag.sequential("s", [writer])
    runner = ag.Runner(tree)

    first, raised = failing(follow(drive.run(runner, "Go.", thread_id="t")), ConnectionError)
    second = list(drive.resume(runner, "t"))

    assert transcript(first)[1:] == ["s/writer: counted", "s/writer: [error] ConnectionError('down')"]
    assert raised.__notes__[:1] == ["This happened in the agent 'writer', at s/writer."]
    assert transcript(second) == ["s/writer: up", "s/writer: Done."]
    assert ran == {"flaky": 2, "count": 1}
    assert results(model.inputs[1]) == ["1 flaky success: up", "2 count success: counted"]
    assert sorted(runner.events("t"), key=[*first, *second].index) == [*first, *second]


def test_a_tool_that_failed_alone_is_tried_again_by_a_new_runner(drive: Drive, tmp_path: Path) -> None:
    tries: list[int] = []

    def flaky() -> str:
        """Fail once."""
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("down")
        return "up"

    model = scripted(calls(call("flaky")), "Done.")
    writer = ag.chat_agent("writer", model, tools=[flaky], on_tool_error="raise")
    with pytest.raises(ConnectionError, match="down"):
        fresh(drive, tmp_path / "db", writer, "run", "Go.", thread_id="t")
    second = fresh(drive, tmp_path / "db", writer, "resume", "t")
    assert transcript(second) == ["writer: up", "writer: Done."]
    assert transcript(fresh(drive, tmp_path / "db", writer, "events", "t")) == [
        "writer: [calls] flaky({})",
        "writer: [error] ConnectionError('down')",
        "writer: up",
        "writer: Done.",
    ]


@pytest.mark.parametrize("on_tool_error", ["return", "raise"])
def test_a_tool_that_handles_its_own_errors_is_left_to_do_so(drive: Drive, on_tool_error: Any) -> None:
    def refuse(text: str) -> str:
        """Refuse."""
        raise ToolException(text)

    given = StructuredTool.from_function(refuse, handle_tool_error=True)
    model = scripted(calls(call("refuse", text="Not today.")), "Done.")
    writer = ag.chat_agent(
        "writer", model, tools=[given], on_tool_error=on_tool_error, return_directly=["refuse"]
    )
    events = list(drive.run(ag.Runner(writer), "Go."))
    assert told_results(events) == ["1 refuse error: Not today."]
    assert events[-1].text == "Done."


def test_a_run_that_is_left_between_two_results_runs_no_tool_again() -> None:
    ran: Counter[str] = Counter()
    left = threading.Event()

    def slow() -> str:
        """Wait until the run is left."""
        ran["slow"] += 1
        assert left.wait(SECONDS)
        return "slow"

    def fast() -> str:
        """Be fast."""
        ran["fast"] += 1
        return "fast"

    model = scripted(calls(call("slow", "1"), call("fast", "2")), "Done.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[slow, fast]))
    events = runner.query("Go.", thread_id="t")
    assert any(event.text == "fast" for event in events)
    threading.Timer(0.1, left.set).start()
    events.close()  # type: ignore[attr-defined]
    assert transcript(runner.resume("t"))[-1] == "writer: Done."
    assert ran == {"slow": 1, "fast": 1}
    assert results(model.inputs[1]) == ["1 slow success: slow", "2 fast success: fast"]
    assert [event.text for event in runner.events("t")] == ["", "fast", "slow", "Done."]


# tools whose result ends the agent


def test_a_tool_that_returns_directly_ends_the_agent_with_its_result(drive: Drive) -> None:
    model, critic = scripted(calls(call("echo", text="The answer."))), scripted("Good.")
    writer = ag.chat_agent("writer", model, tools=[echo], return_directly=["echo"], output_key="draft")
    tree = ag.sequential("s", [writer, ag.chat_agent("critic", critic, instruction="On {draft}")])
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert transcript(events) == [
        's/writer: [calls] echo({"text": "The answer."})',
        "s/writer: The answer.",
        "s/writer/critic: Good.",
    ]
    assert critic.inputs[0][0].text == "On The answer."
    assert list(runner.events("t")) == events


def test_a_tool_may_say_itself_that_it_returns_directly(drive: Drive) -> None:
    direct = tool(return_direct=True)(echo)
    model = scripted(calls(call("echo", text="The answer.")))
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[direct, add]))
    assert transcript(drive.run(runner, "Go."))[1:] == ["writer: The answer."]


def test_of_several_tools_that_return_directly_the_last_call_counts(drive: Drive) -> None:
    model = scripted(
        calls(call("echo", "1", text="one"), call("echo", "2", text="two"), call("add", "3", a=1, b=1))
    )
    writer = ag.chat_agent(
        "writer", model, tools=[echo, add], return_directly="echo", output_key="draft"
    )
    runner = ag.Runner(writer)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values
    assert state["values"] == {"draft": "two"}
    assert results(state["messages"]) == [
        "1 echo success: one",
        "3 add success: 2",
        "2 echo success: two",
    ]
    assert sorted(told_results(events)) == sorted(results(state["messages"]))


def test_the_history_of_an_agent_that_returned_directly_is_a_conversation(drive: Drive) -> None:
    model = scripted(calls(call("echo", "1", text="one"), call("add", "2", a=1, b=1)), "I said one.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[echo, add], return_directly=["echo"]))
    list(drive.run(runner, "Go.", thread_id="t"))
    assert transcript(drive.run(runner, "What?", thread_id="t")) == ["writer: I said one."]
    assert results(model.inputs[1]) == ["1 echo success: one", "2 add success: 2"]


@pytest.mark.parametrize(
    "bad", [call("direct", text="no"), call("direct", word="no"), broken("direct", "{")]
)
def test_a_tool_that_fails_does_not_end_the_agent(drive: Drive, bad: Any) -> None:
    def direct(text: str) -> str:
        """Fail once."""
        if text == "no":
            raise ValueError(text)
        return text

    model = scripted(calls(bad), calls(call("direct", "2", text="yes")))
    writer = ag.chat_agent("writer", model, tools=[direct], return_directly=["direct"])
    events = list(drive.run(ag.Runner(writer), "Go."))
    assert [line.partition(":")[0] for line in told_results(events)] == [
        "1 direct error",
        "2 direct success",
    ]
    model.assert_finished()


def test_a_tool_that_returns_directly_waits_for_a_question_of_another_call(
    drive: Drive, tmp_path: Path
) -> None:
    ran: list[str] = []

    def direct() -> str:
        """Return directly."""
        ran.append("direct")
        return "The answer."

    model = scripted(calls(call("direct", "1"), call("ask", "2", what="Sure?")))
    writer = ag.chat_agent("writer", model, tools=[direct, ask], return_directly=["direct"])
    tree = ag.sequential("s", [writer, ag.chat_agent("critic", scripted("Good."))])

    first = fresh(drive, tmp_path / "db", tree, "run", "Go.", thread_id="t")
    assert transcript(first)[1:] == ["s/writer: The answer.", "s/writer: [asks] Sure?"]
    second = fresh(drive, tmp_path / "db", tree, "resume", "t", "yes")
    assert transcript(second) == ["s/writer: Sure?: yes", "s/writer/critic: Good."]
    assert ran == ["direct"]


def test_a_result_that_was_told_before_a_question_is_replayed_before_it(drive: Drive) -> None:
    model = scripted(calls(call("ask", "1", what="Sure?"), call("echo", "2", text="x")), "Done.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[ask, echo]))
    first = list(drive.run(runner, "Go.", thread_id="t"))
    second = list(drive.resume(runner, "t", "yes"))
    assert transcript([*first, *second])[1:] == [
        "writer: x",
        "writer: [asks] Sure?",
        "writer: Sure?: yes",
        "writer: Done.",
    ]
    assert list(runner.events("t")) == [*first, *second]


# tools that ask


@pytest.mark.parametrize(
    "order",
    [
        *(tuple((each,) for each in order) for order in permutations("abc")),
        (("a", "b", "c"),),
        (("c", "a"), ("b",)),
        (("b",), ("c", "a")),
    ],
    ids=lambda order: " ".join("+".join(part) for part in order),
)
def test_questions_of_tools_are_answered_in_any_order_by_new_runners(
    drive: Drive, tmp_path: Path, order: tuple[tuple[str, ...], ...]
) -> None:
    ran: Counter[str] = Counter()

    def decide(what: str) -> str:
        """Ask a person."""
        answer = interrupt(what)
        ran[what] += 1
        return f"{what}: {answer}"

    def count(what: str) -> str:
        """Count."""
        ran[what] += 1
        return what

    made = [call("decide", f"id {what}", what=what) for what in "abc"]
    model = scripted(calls(made[0], call("count", "id x", what="x"), *made[1:]), "Done.")
    writer = ag.chat_agent("writer", model, tools=[decide, count])
    tree = ag.loop("rounds", [ag.sequential("s", [writer])], max_iterations=1)
    path = tmp_path / "db"

    events = fresh(drive, path, tree, "run", "Go.", thread_id="t")
    asked = questions(events)
    assert list(asked) == ["a", "b", "c"]
    assert len(set(asked.values())) == 3
    assert told_results(events) == ["id x count success: x"]
    assert {e.address for e in events} == {"rounds[0]/s/writer"}
    left = dict(asked)
    for answered in order:
        assert len(model.inputs) == 1
        answers = {left.pop(what): what.upper() for what in answered}
        told = fresh(drive, path, tree, "resume", "t", answers)
        assert questions(told) == left
        assert sorted(told_results(told)) == [
            f"id {what} decide success: {what}: {what.upper()}" for what in sorted(answered)
        ]
        events += told

    assert transcript(events)[-1] == "rounds/s/writer: Done."
    assert results(model.inputs[1]) == [
        "id a decide success: a: A",
        "id x count success: x",
        "id b decide success: b: B",
        "id c decide success: c: C",
    ]
    assert ran == {"a": 1, "b": 1, "c": 1, "x": 1}
    again = fresh(drive, path, tree, "events", "t")
    assert again == standing(events)


def test_a_question_of_a_tool_is_answered_by_a_bare_answer_or_the_address(drive: Drive) -> None:
    model = scripted(calls(call("ask", what="One?")), calls(call("ask", what="Two?")), "Done.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[ask]))
    first = list(drive.run(runner, "Go.", thread_id="t"))
    (pending,) = runner.pending("t")
    assert (pending.value, pending.address, pending.agent_name) == ("One?", "writer", "writer")
    assert pending.response_schema is None
    second = list(drive.resume(runner, "t", None))
    third = list(drive.resume(runner, "t", {"writer": "2"}))
    assert transcript([*first, *second, *third]) == [
        'writer: [calls] ask({"what": "One?"})',
        "writer: [asks] One?",
        "writer: One?: None",
        'writer: [calls] ask({"what": "Two?"})',
        "writer: [asks] Two?",
        "writer: Two?: 2",
        "writer: Done.",
    ]
    assert list(runner.events("t")) == [*first, *second, *third]


def test_an_answered_question_of_a_tool_is_unknown_afterwards(drive: Drive) -> None:
    model = scripted(calls(call("ask", "1", what="a"), call("ask", "2", what="b")), "Done.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[ask]))
    asked = questions(drive.run(runner, "Go.", thread_id="t"))
    list(drive.resume(runner, "t", {asked["a"]: "A"}))
    with pytest.raises(ag.UnknownInterruptError) as caught:
        list(drive.resume(runner, "t", {asked["a"]: "A"}))
    assert str(caught.value) == (
        f"thread 't': the question {asked['a']!r} is not pending (was it answered already?); "
        f"pending: writer ({asked['b']})"
    )
    assert transcript(drive.resume(runner, "t", "B")) == ["writer: b: B", "writer: Done."]


@pytest.mark.parametrize("alone", [True, False])
def test_a_tool_may_ask_twice(drive: Drive, tmp_path: Path, alone: bool) -> None:
    ran: Counter[str] = Counter()

    def twice() -> str:
        """Ask two questions."""
        first = interrupt("first?")
        ran["between"] += 1
        second = interrupt("second?")
        ran["end"] += 1
        return f"{first} {second}"

    made = [call("twice", "1")] if alone else [call("twice", "1"), call("ask", "2", what="other?")]
    model = scripted(calls(*made), "Done.")
    writer = ag.chat_agent("writer", model, tools=[twice, ask])
    path = tmp_path / "db"

    one = questions(fresh(drive, path, writer, "run", "Go.", thread_id="t"))
    two = questions(fresh(drive, path, writer, "resume", "t", {one["first?"]: 1}))
    assert list(two) == ["second?", *list(one)[1:]]
    assert two["second?"] != one["first?"]
    with pytest.raises(ag.UnknownInterruptError):
        fresh(drive, path, writer, "resume", "t", {one["first?"]: 1})
    answers = dict.fromkeys(two.values(), 2)
    third = fresh(drive, path, writer, "resume", "t", answers)
    assert sorted(transcript(third)) == sorted(
        ["writer: 1 2", "writer: Done.", *([] if alone else ["writer: other?: 2"])]
    )
    assert ran == {"between": 2, "end": 1}
    assert len(model.inputs) == 2


def test_branches_with_tools_that_ask_are_answered_apart(drive: Drive, tmp_path: Path) -> None:
    models = {
        name: scripted(calls(*(call("ask", n, what=f"{name}{n}") for n in "12")), f"{name} is done.")
        for name in ("legal", "press")
    }
    agents = [ag.chat_agent(name, model, tools=[ask]) for name, model in models.items()]
    tree = ag.sequential("s", [ag.parallel("review", agents)])
    path = tmp_path / "db"

    events = fresh(drive, path, tree, "run", "Go.", thread_id="t")
    asked = questions(events)
    assert sorted(asked) == ["legal1", "legal2", "press1", "press2"]
    told = fresh(drive, path, tree, "resume", "t", {asked["press2"]: "x", asked["press1"]: "y"})
    assert sorted(questions(told)) == ["legal1", "legal2"]
    assert "s/review/press: press is done." in transcript(told)
    told = fresh(drive, path, tree, "resume", "t", {asked["legal2"]: "z"})
    assert questions(told) == {"legal1": asked["legal1"]}
    told = fresh(drive, path, tree, "resume", "t", "w")
    assert transcript(told) == ["s/review/legal: legal1: w", "s/review/legal: legal is done."]
    assert results(models["press"].inputs[1]) == [
        "1 ask success: press1: y",
        "2 ask success: press2: x",
    ]


@pytest.mark.parametrize("answers", [(None, False, 0), ("", [], None)])
def test_falsy_answers_are_answers(drive: Drive, tmp_path: Path, answers: tuple[Any, ...]) -> None:
    model = scripted(calls(*(call("ask", what, what=what) for what in "abc")), "Done.")
    writer = ag.chat_agent("writer", model, tools=[ask])
    path = tmp_path / "db"
    asked = questions(fresh(drive, path, writer, "run", "Go.", thread_id="t"))
    given = dict(zip(asked.values(), answers, strict=True))
    fresh(drive, path, writer, "resume", "t", {asked["b"]: given.pop(asked["b"])})
    fresh(drive, path, writer, "resume", "t", given)
    assert results(model.inputs[1]) == [
        f"{what} ask success: {what}: {answer}" for what, answer in zip("abc", answers, strict=True)
    ]


def test_equal_calls_ask_apart(drive: Drive, tmp_path: Path) -> None:
    model = scripted(calls(*(call("ask", n, what="same") for n in "123")), "Done.")
    writer = ag.chat_agent("writer", model, tools=[ask])
    path = tmp_path / "db"
    events = fresh(drive, path, writer, "run", "Go.", thread_id="t")
    first, second, third = (event.id for event in events if event.kind == "interrupted")
    fresh(drive, path, writer, "resume", "t", {third: "three"})
    fresh(drive, path, writer, "resume", "t", {second: "two", first: "one"})
    assert results(model.inputs[1]) == [
        "1 ask success: same: one",
        "2 ask success: same: two",
        "3 ask success: same: three",
    ]


@pytest.mark.parametrize("alone", [True, False])
def test_an_answer_to_a_tool_fits_its_schema(drive: Drive, alone: bool) -> None:
    def choose() -> str:
        """Choose."""
        return f"chose {interrupt('Which?', response_schema={'enum': ['a', 'b']})}"

    made = [call("choose", "1")] if alone else [call("choose", "1"), call("echo", "2", text="x")]
    model = scripted(calls(*made), "Done.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[choose, echo]))
    list(drive.run(runner, "Go.", thread_id="t"))
    (question,) = runner.pending("t")
    assert question.response_schema == {"enum": ["a", "b"]}
    with pytest.raises(ag.InvalidAnswerError) as caught:
        list(drive.resume(runner, "t", "c"))
    assert str(caught.value) == (
        "the answer 'c' to writer does not fit: must be one of ['a', 'b']; the question is still "
        "pending, answer it again to fit {'enum': ['a', 'b']}"
    )
    assert transcript(drive.resume(runner, "t", "b")) == ["writer: chose b", "writer: Done."]


@pytest.mark.parametrize("alone", [True, False])
def test_a_tool_that_fails_behind_its_question_keeps_the_answer(
    drive: Drive, tmp_path: Path, alone: bool
) -> None:
    tries: list[Any] = []

    def flaky() -> str:
        """Ask, and fail once."""
        tries.append(interrupt("Well?"))
        if len(tries) == 1:
            raise ConnectionError("down")
        return "up"

    made = [call("flaky", "1")] if alone else [call("flaky", "1"), call("echo", "2", text="x")]
    model = scripted(calls(*made), "Done.")
    writer = ag.chat_agent("writer", model, tools=[flaky, echo], on_tool_error="raise")
    path = tmp_path / "db"
    fresh(drive, path, writer, "run", "Go.", thread_id="t")
    with pytest.raises(ConnectionError, match="down"):
        fresh(drive, path, writer, "resume", "t", "yes")
    assert transcript(fresh(drive, path, writer, "resume", "t")) == ["writer: up", "writer: Done."]
    assert tries == ["yes", "yes"]


def test_a_question_beside_a_failure_is_put_when_the_failure_is_over(
    drive: Drive, tmp_path: Path
) -> None:
    tries: list[int] = []

    def flaky() -> str:
        """Fail once."""
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("down")
        return "up"

    model = scripted(calls(call("ask", "1", what="Well?"), call("flaky", "2")), "Done.")
    writer = ag.chat_agent("writer", model, tools=[ask, flaky], on_tool_error="raise")
    path = tmp_path / "db"
    with pytest.raises(ConnectionError):
        fresh(drive, path, writer, "run", "Go.", thread_id="t")
    told = fresh(drive, path, writer, "resume", "t")
    asked_again = ["writer: [asks] Well?", "writer: [discarded]", "writer: up"]
    assert sorted(transcript(told)) == asked_again
    told = fresh(drive, path, writer, "resume", "t", {questions(told)["Well?"]: "yes"})
    assert transcript(told) == ["writer: Well?: yes", "writer: Done."]
    assert len(tries) == 2


def test_an_exit_waits_for_the_answer_to_another_call(drive: Drive, tmp_path: Path) -> None:
    model = scripted(calls(call("exit", "1", final_result="Bye."), call("ask", "2", what="Sure?")))
    writer = ag.chat_agent("writer", model, tools=[ask], exit_tool=True, output_key="draft")
    tree = ag.sequential("s", [writer, ag.chat_agent("critic", scripted("Never."))])
    path = tmp_path / "db"
    first = fresh(drive, path, tree, "run", "Go.", thread_id="t")
    assert transcript(first)[1:] == ["s/writer: Bye.", "s/writer: [asks] Sure?"]
    second = fresh(drive, path, tree, "resume", "t", "yes")
    assert transcript(second) == ["s/writer: Sure?: yes", "s/writer: [exit]"]


def test_an_agent_that_stands_in_two_places_asks_in_each(drive: Drive, tmp_path: Path) -> None:
    model = scripted(
        *(
            reply
            for n in "12"
            for reply in (calls(call("ask", "1", what=n), call("echo", "2", text=n)), f"{n}.")
        )
    )
    writer = ag.chat_agent("writer", model, tools=[ask, echo])
    tree = ag.sequential("s", [writer, ag.sequential("t", [writer])])
    path = tmp_path / "db"
    events = fresh(drive, path, tree, "run", "Go.", thread_id="t")
    events += fresh(drive, path, tree, "resume", "t", {"s/writer": "one"})
    events += fresh(drive, path, tree, "resume", "t", {"s/t/writer": "two"})
    assert [event.text for event in events if event.address == "s/t/writer"] == [
        "",
        "2",
        "",
        "2: two",
        "2.",
    ]
    assert fresh(drive, path, tree, "events", "t") == events


def test_langgraph_alone_runs_and_resumes_a_compiled_agent() -> None:
    model = scripted(calls(call("ask", "1", what="a"), call("ask", "2", what="b")), "Done.")
    graph = ag.compile_agent(ag.chat_agent("writer", model, tools=[ask]), checkpointer=InMemorySaver())
    config: RunnableConfig = {"configurable": {"thread_id": "t"}}
    paused = graph.invoke({"messages": ["Go."]}, config)
    asked = {each.value: each.id for each in paused["__interrupt__"]}
    assert list(asked) == ["a", "b"]
    done = graph.invoke(Command(resume={asked["b"]: "B", asked["a"]: "A"}), config)
    assert [message.text for message in done["messages"]] == ["Go.", "", "a: A", "b: B", "Done."]


def test_langgraph_alone_runs_a_compiled_agent_without_a_saver() -> None:
    model = scripted(calls(call("echo", "1", text="a"), call("echo", "2", text="b")), "Done.")
    graph = ag.compile_agent(ag.chat_agent("writer", model, tools=[echo]))
    done = graph.invoke({"messages": ["Go."]})
    assert [message.text for message in done["messages"]] == ["Go.", "", "a", "b", "Done."]


def test_new_input_is_refused_while_a_tool_asks(drive: Drive) -> None:
    model = scripted(calls(call("ask", what="Sure?")), "Done.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[ask]))
    asked = questions(drive.run(runner, "Go.", thread_id="t"))
    with pytest.raises(ag.PendingInterruptError) as caught:
        list(drive.run(runner, "Again.", thread_id="t"))
    assert str(caught.value) == (
        f"thread 't' waits for answers to writer ({asked['Sure?']}); answer them with resume(), or "
        "run with drop_pending=True to drop them"
    )


@pytest.mark.parametrize("alone", [True, False])
def test_a_question_that_is_dropped_leaves_no_unanswered_call(
    drive: Drive, tmp_path: Path, alone: bool
) -> None:
    made = [call("ask", "1", what="Sure?")]
    if not alone:
        made.append(call("echo", "2", text="done"))
    model = scripted(calls(*made), "Fine.", "Again.")
    tree = ag.sequential(
        "s", [ag.chat_agent("writer", model, tools=[ask, echo]), ag.chat_agent("critic", model)]
    )
    path = tmp_path / "db"
    fresh(drive, path, tree, "run", "Go.", thread_id="t")
    told = fresh(drive, path, tree, "run", "Leave it.", thread_id="t", drop_pending=True)
    assert transcript(told) == ["s: [discarded]", "s/writer: Fine.", "s/writer/critic: Again."]
    assert results(model.inputs[1])[0] == "1 ask error: The call was not finished."
    assert [message.type for message in model.inputs[1]] == [
        *["human", "ai"],
        *["tool"] * len(made),
        "human",
    ]


def test_a_failed_call_is_answered_when_a_new_turn_begins(drive: Drive) -> None:
    model = scripted(calls(call("fail", text="no")), "Fine.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[fail], on_tool_error="raise"))
    failing(drive.run(runner, "Go.", thread_id="t"), ValueError)
    assert transcript(drive.run(runner, "Leave it.", thread_id="t")) == ["writer: Fine."]
    assert results(model.inputs[1]) == ["1 fail error: The call was not finished."]


# what reaches a tool


def test_state_store_runtime_config_and_call_id_reach_a_tool(drive: Drive) -> None:
    seen: dict[str, Any] = {}

    def look(
        q: str,
        runtime: ToolRuntime,
        state: Annotated[dict[str, Any], InjectedState],
        values: Annotated[dict[str, Any], InjectedState("values")],
        store: Annotated[BaseStore, InjectedStore()],
        call_id: Annotated[str, InjectedToolCallId],
        config: RunnableConfig,
    ) -> str:
        """Look around."""
        seen.update(runtime=runtime, state=state, values=values, store=store, id=call_id, config=config)
        return q

    store = InMemoryStore()
    store.put(("notes",), "a", {"text": "kept"})
    model = scripted(calls(call("look", "7", q="bees")), "Done.")
    tree = ag.sequential("s", [ag.chat_agent("writer", model, tools=[look])])
    runner = ag.Runner(tree, store=store)
    events = list(drive.run(runner, "Go.", thread_id="t", values={"topic": "bees"}))

    assert told_results(events) == ["7 look success: bees"]
    assert list(model.tools[0]["function"]["parameters"]["properties"]) == ["q"]
    assert (seen["id"], seen["runtime"].tool_call_id) == ("7", "7")
    assert seen["values"] == seen["state"]["values"] == seen["runtime"].state["values"]
    assert seen["values"] == {"topic": "bees"}
    assert [message.type for message in seen["state"]["messages"]] == ["human", "ai"]
    assert seen["store"].get(("notes",), "a").value == {"text": "kept"}
    assert seen["runtime"].store is seen["store"]
    assert seen["config"]["configurable"]["thread_id"] == "t"
    assert seen["runtime"].config["configurable"]["thread_id"] == "t"


def test_a_tool_sees_the_values_that_earlier_rounds_wrote(drive: Drive) -> None:
    def note(n: int, values: Annotated[dict[str, Any], InjectedState("values")]) -> ag.SetValues:
        """Note a number."""
        return ag.SetValues(seen=[*values.get("seen", []), n])

    model = scripted(calls(call("note", n=1)), calls(call("note", n=2)), "Done.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[note]))
    list(drive.run(runner, "Go.", thread_id="t"))
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values
    assert state["values"] == {"seen": [1, 2]}


def test_a_tool_in_a_branch_sees_what_was_there_before_the_fork(drive: Drive) -> None:
    def look(state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Look around."""
        return f"{[message.text for message in state['messages']]} {state['values']}"

    model = scripted(calls(call("look")), "Done.")
    tree = ag.sequential(
        "s",
        [
            ag.function_agent("first", lambda ctx: "Before.", output_key="said"),
            ag.parallel("p", [ag.chat_agent("writer", model, tools=[look])]),
        ],
    )
    assert told_results(drive.run(ag.Runner(tree), "Go.")) == [
        "1 look success: ['Go.', '[first] said: Before.', ''] {'said': 'Before.'}"
    ]


# what a tool may do


def test_a_tool_may_set_values(drive: Drive) -> None:
    def choose(topic: str) -> ag.SetValues:
        """Choose a topic."""
        return ag.SetValues(topic=topic)

    model = scripted(calls(call("choose", topic="bees")), "Chosen.")
    critic = scripted("Good.")
    tree = ag.sequential(
        "s",
        [
            ag.chat_agent("writer", model, tools=[choose], instruction="On {topic?}."),
            ag.chat_agent("critic", critic, instruction="On {topic}."),
        ],
    )
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert told_results(events) == ["1 choose success: Done."]
    assert [messages[0].text for messages in model.inputs] == ["On .", "On bees."]
    assert critic.inputs[0][0].text == "On bees."
    assert list(runner.events("t")) == events


def test_a_tool_may_update_values_and_messages_by_a_command(drive: Drive) -> None:
    def choose(topic: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Choose a topic."""
        said = ToolMessage(f"{topic} it is", tool_call_id=tool_call_id)
        return Command(update={"values": {"topic": topic}, "messages": [said]})

    model = scripted(calls(call("choose", "1", topic="bees"), call("echo", "2", text="x")), "Chosen.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[choose, echo]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert results(model.inputs[1]) == ["1 choose success: bees it is", "2 echo success: x"]
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values
    assert state["values"] == {"topic": "bees"}
    assert sorted(runner.events("t"), key=events.index) == events


def test_a_tool_may_say_more_than_its_result(drive: Drive) -> None:
    def note(text: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Note."""
        result = ToolMessage("noted", tool_call_id=tool_call_id)
        return Command(update={"messages": [result, HumanMessage(f"Mind {text}.")]})

    model = scripted(calls(call("note", "1", text="a"), call("note", "2", text="b")), "Done.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[note], history="input"))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert [f"{message.type}: {message.text}" for message in model.inputs[1]] == [
        "human: Go.",
        "ai: ",
        "tool: noted",
        "tool: noted",
        "human: Mind a.",
        "human: Mind b.",
    ]
    assert sorted(runner.events("t"), key=events.index) == events


def test_a_tool_may_keep_an_artifact(drive: Drive) -> None:
    @tool(response_format="content_and_artifact")
    def look() -> tuple[str, dict[str, Any]]:
        """Look."""
        return "two rows", {"rows": [1, 2]}

    model = scripted(calls(call("look")), "Done.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[look]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert isinstance(events[1].message, ToolMessage)
    assert (events[1].text, events[1].message.artifact) == ("two rows", {"rows": [1, 2]})
    assert list(runner.events("t")) == events


def test_a_tool_may_ask_a_model_of_its_own_without_telling_its_words(drive: Drive) -> None:
    inner = scripted("inner words")

    def consult(runtime: ToolRuntime) -> str:
        """Consult another model."""
        runtime.stream_writer({"progress": 1})
        return str(inner.invoke("Hi.").text).upper()

    model = scripted(calls(call("consult")), "Done.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[consult]))
    events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
    assert transcript(events) == [
        "writer: [calls] consult({})",
        'writer: [custom] {"progress": 1}',
        "writer: INNER WORDS",
        "writer: Done.",
    ]
    assert [event.text for event in events if event.partial and event.text] == ["Done."]


def test_a_key_of_a_command_is_a_value_under_its_own_name(drive: Drive) -> None:
    def note(topic: str, values: Annotated[dict[str, Any], InjectedState("values")]) -> Command[Any]:
        """Set a topic."""
        return Command(update={"topic": topic, "values": {"count": len(values)}})

    model = scripted(calls(call("note", topic="bees")), "Done.", "Bees.")
    tree = ag.sequential(
        "s",
        [
            ag.chat_agent("writer", model, tools=[note]),
            ag.chat_agent("critic", model, instruction="On {topic}, {count}."),
        ],
    )
    runner = ag.Runner(tree)
    list(drive.run(runner, "Go.", thread_id="t"))
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values
    assert state["values"] == {"topic": "bees", "count": 0}
    assert model.inputs[2][0].text == "On bees, 0."


class LastTopic(TypedDict):
    topic: Annotated[str, lambda _, new: new]


def test_values_that_several_calls_set_are_merged_in_the_order_of_the_calls(drive: Drive) -> None:
    begun = threading.Event()

    def choose(topic: str) -> ag.SetValues:
        """Choose a topic."""
        if topic == "bees":
            assert begun.wait(SECONDS)
        begun.set()
        return ag.SetValues(topic=topic, **{topic: True})

    model = scripted(
        calls(call("choose", "1", topic="bees"), call("choose", "2", topic="wasps")), "Chosen."
    )
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[choose]), values=LastTopic)
    list(drive.run(runner, "Go.", thread_id="t"))
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values
    assert state["values"] == {"topic": "wasps", "bees": True, "wasps": True}


def test_a_tool_may_tell_data_of_its_own(drive: Drive) -> None:
    def measure() -> list[Any]:
        """Measure."""
        return [ag.Custom({"done": 1}), ag.Custom({"done": 2})]

    model = scripted(calls(call("measure")), "Measured.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[measure]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert transcript(events) == [
        "writer: [calls] measure({})",
        'writer: [custom] {"done": 1}',
        'writer: [custom] {"done": 2}',
        "writer: Done.",
        "writer: Measured.",
    ]
    assert list(runner.events("t")) == events


def test_a_tool_may_end_the_run(drive: Drive) -> None:
    def stop() -> ag.Exit:
        """Stop."""
        return ag.Exit()

    model = scripted(calls(call("stop")))
    inner = ag.loop("l", [ag.chat_agent("writer", model, tools=[stop])], max_iterations=3)
    tree = ag.sequential("s", [inner, ag.chat_agent("critic", scripted("Never."))])
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert transcript(events) == [
        "s/l/writer: [calls] stop({})",
        "s/l/writer: Done.",
        "s/l/writer: [exit]",
    ]
    assert list(runner.events("t")) == events


@pytest.mark.parametrize("others", [0, 1])
def test_a_tool_may_end_the_loop_with_a_message_and_values(drive: Drive, others: int) -> None:
    def stop(
        tool_call_id: Annotated[str, InjectedToolCallId],
    ) -> list[ToolMessage | ag.BreakLoop | Any]:
        """Stop."""
        said = ToolMessage("Enough.", tool_call_id=tool_call_id)
        return [said, ag.SetValues(n=1), ag.BreakLoop(), ag.Custom("stopped")]

    made = [call("stop", "1"), *(call("echo", f"e{i}", text="x") for i in range(others))]
    model, critic = scripted(calls(*made)), scripted("Good.")
    writer = ag.chat_agent("writer", model, tools=[stop, echo], output_key="draft")
    tree = ag.sequential(
        "s",
        [
            ag.loop("l", [writer], max_iterations=3),
            ag.chat_agent("critic", critic, instruction="{n} {draft}", history="last"),
        ],
    )
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    lines = transcript(events)
    assert lines[-2:] == ["s/l/writer: [break_loop]", "s/l/critic: Good."]
    assert sorted(lines[1:-2]) == sorted(
        ["s/l/writer: Enough.", 's/l/writer: [custom] "stopped"', *["s/l/writer: x"] * others]
    )
    assert critic.inputs[0][0].text == "1 Enough."
    assert critic.inputs[0][-1].text.endswith("Enough.")
    assert sorted(runner.events("t"), key=events.index) == events


def test_a_tool_may_hand_over_to_another_agent(drive: Drive) -> None:
    def escalate(agent: str) -> ag.TransferTo:
        """Hand over."""
        return ag.TransferTo(agent)

    model = scripted(
        calls(call("escalate", "1", agent="nobody")), calls(call("escalate", "2", agent="boss"))
    )
    tree = ag.chat_agent(
        "clerk",
        model,
        tools=[escalate],
        sub_agents=[ag.chat_agent("boss", scripted("I decide."))],
    )
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert transcript(events) == [
        'clerk: [calls] escalate({"agent": "nobody"})',
        "clerk: Error: there is no agent nobody to transfer to; there are: boss.",
        'clerk: [calls] escalate({"agent": "boss"})',
        "clerk: Done.",
        "clerk: [transfer_to] boss",
        "clerk/boss: I decide.",
    ]
    assert told_results(events)[0].startswith("1 escalate error: ")
    assert list(runner.events("t")) == events


def test_an_exit_counts_before_a_break_and_a_break_before_a_result_that_returns(drive: Drive) -> None:
    def stop(how: str) -> str | ag.Exit | ag.BreakLoop:
        """Stop."""
        return {"exit": ag.Exit(), "break": ag.BreakLoop()}.get(how, how)

    def told(*ways: str) -> list[str]:
        model = scripted(calls(*(call("stop", way, how=way) for way in ways)), "Next.", "Next.")
        writer = ag.chat_agent("writer", model, tools=[stop], return_directly=["stop"])
        tree = ag.sequential(
            "s", [ag.loop("l", [writer], max_iterations=2), ag.chat_agent("last", scripted("End."))]
        )
        return transcript(drive.run(ag.Runner(tree), "Go."))[1 + len(ways) :]

    assert told("break", "exit", "text") == ["s/l/writer: [exit]"]
    assert told("text", "break") == ["s/l/writer: [break_loop]", "s/l/last: End."]
    assert told("text") == ["s/l/writer/writer: Next.", "s/l/last: End."]


@pytest.mark.parametrize(("given", "name"), [(ag.Exit(), "Exit"), (ag.BreakLoop(), "BreakLoop")])
@pytest.mark.parametrize("several", [False, True])
def test_an_action_that_the_annotation_does_not_name_is_refused(
    drive: Drive, given: Any, name: str, several: bool
) -> None:
    def stop() -> str:
        """Stop."""
        return [given] if several else given

    model = scripted(calls(call("stop")))
    tree = ag.loop("l", [ag.chat_agent("writer", model, tools=[stop])], max_iterations=2)
    events, raised = failing(drive.run(ag.Runner(tree), "Go."), ag.InvalidOutputError)
    assert str(raised) == (
        f"l[0]/writer: the tool 'stop' returned {name}, which its return annotation does not name; "
        f"add it, as in `-> str | {name}`, so that the graph has an edge for it"
    )
    assert transcript(events)[1:] == [f"l/writer: [error] {raised!r}"]


@pytest.mark.parametrize(
    "given",
    [
        Command(goto="critic"),
        Command(goto="critic", update={"values": {"a": 1}}),
    ],
    ids=["goto", "goto and update"],
)
def test_a_command_that_goes_elsewhere_is_refused(drive: Drive, given: Any) -> None:
    def go(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Go."""
        said = {"messages": [ToolMessage("Gone.", tool_call_id=tool_call_id)]}
        return Command(goto=given.goto, update={**(given.update or {}), **said})

    model = scripted(calls(call("go")))
    tree = ag.sequential("s", [ag.chat_agent("writer", model, tools=[go])])
    _, raised = failing(drive.run(ag.Runner(tree), "Go."), ag.InvalidOutputError)
    assert str(raised).startswith("s/writer: the tool 'go' returned Command(")
    assert str(raised).endswith(
        "; a command may update the state, and hand over to one agent by Command(goto=name, "
        "graph=Command.PARENT); return TransferTo(name), Exit() or BreakLoop() to go elsewhere"
    )


def test_a_tool_that_returns_a_question_is_refused(drive: Drive) -> None:
    def sure() -> ag.Ask:
        """Ask."""
        return ag.Ask("Sure?")

    model = scripted(calls(call("sure")), "Never.")
    runner = ag.Runner(ag.sequential("s", [ag.chat_agent("writer", model, tools=[sure])]))
    _, raised = failing(drive.run(runner, "Go."), ag.InvalidOutputError)
    assert str(raised) == (
        "s/writer: the tool 'sure' returned Ask(value='Sure?', response_schema=None); call "
        "langgraph.types.interrupt() in it, which returns the answer"
    )


def test_a_tool_that_is_gone_when_its_question_is_answered_goes_back_to_the_model(
    drive: Drive, tmp_path: Path
) -> None:
    model = scripted(calls(call("ask", what="Sure?")), "Done.")
    path = tmp_path / "db"
    fresh(drive, path, ag.chat_agent("writer", model, tools=[ask]), "run", "Go.", thread_id="t")
    told = fresh(drive, path, ag.chat_agent("writer", model, tools=[echo]), "resume", "t", "yes")
    assert transcript(told) == [
        "writer: Error: ask is not a valid tool, try one of [echo].",
        "writer: Done.",
    ]


def test_an_action_in_a_list_with_a_text_is_not_lost(drive: Drive) -> None:
    def stop() -> list[str | ag.Exit]:
        """Stop."""
        return ["Enough.", ag.Exit()]

    model = scripted(calls(call("stop")), "Never.")
    tree = ag.sequential("s", [ag.chat_agent("writer", model, tools=[stop])])
    assert transcript(drive.run(ag.Runner(tree), "Go."))[1:] == [
        "s/writer: Enough.",
        "s/writer: [exit]",
    ]


# ids of calls


def test_calls_without_ids_are_given_some(drive: Drive) -> None:
    model = scripted(
        calls(call("echo", None, text="a"), call("echo", "", text="b"), broken("echo", "{", None)),
        "Done.",
    )
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[echo]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    made = events[0].message
    assert isinstance(made, AIMessage)
    ids = [each["id"] for each in (*made.tool_calls, *made.invalid_tool_calls)]
    assert len(set(ids)) == 3
    assert all(ids)
    assert [line.split(" ", 1)[1] for line in results(model.inputs[1])][:2] == [
        "echo success: a",
        "echo success: b",
    ]
    assert [m.tool_call_id for m in model.inputs[1] if isinstance(m, ToolMessage)] == ids
    assert sorted(runner.events("t"), key=events.index) == events


def test_calls_with_one_id_are_told_apart(drive: Drive, tmp_path: Path) -> None:
    model = scripted(
        calls(call("ask", "1", what="a"), call("ask", "1", what="b"), call("echo", "1", text="c")),
        "Done.",
    )
    writer = ag.chat_agent("writer", model, tools=[ask, echo])
    path = tmp_path / "db"
    asked = questions(fresh(drive, path, writer, "run", "Go.", thread_id="t"))
    assert list(asked) == ["a", "b"]
    fresh(drive, path, writer, "resume", "t", {asked["b"]: "B"})
    fresh(drive, path, writer, "resume", "t", {asked["a"]: "A"})
    assert [line.partition(" ")[2] for line in results(model.inputs[1])] == [
        "ask success: a: A",
        "ask success: b: B",
        "echo success: c",
    ]


def test_a_model_may_use_one_id_in_every_round(drive: Drive, tmp_path: Path) -> None:
    ran: list[str] = []

    def count(name: str) -> str:
        """Count."""
        ran.append(name)
        return name

    model = scripted(
        *(calls(call("count", "1", name=name), call("ask", "2", what=name)) for name in "abc"), "Done."
    )
    writer = ag.chat_agent("writer", model, tools=[count, ask])
    path = tmp_path / "db"
    events = fresh(drive, path, writer, "run", "Go.", thread_id="t")
    for name in "ABC":
        events += fresh(drive, path, writer, "resume", "t", name)
    assert ran == ["a", "b", "c"]
    assert results(model.inputs[3]) == [
        line
        for name in "abc"
        for line in (f"1 count success: {name}", f"2 ask success: {name}: {name.upper()}")
    ]
    again = fresh(drive, path, writer, "events", "t")
    assert sorted(again, key=events.index) == events
    assert len({event.id for event in events}) == len(events)


def test_the_ids_of_calls_may_come_again_in_a_loop(drive: Drive) -> None:
    model = scripted(
        *(reply for n in "abc" for reply in (calls(call("echo", "1", text=n)), f"Round {n}."))
    )
    tree = ag.loop("l", [ag.chat_agent("writer", model, tools=[echo])], max_iterations=3)
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    assert [event.text for event in events] == [
        "",
        "a",
        "Round a.",
        "",
        "b",
        "Round b.",
        "",
        "c",
        "Round c.",
    ]
    assert results(model.inputs[5]) == [f"1 echo success: {n}" for n in "abc"]
    assert list(runner.events("t")) == events


# streams


def test_a_streamed_call_is_told_once_whole(drive: Drive) -> None:
    model = scripted(calls(call("add", a=2, b=3)), "Five it is.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[add]))
    events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
    assert transcript(events) == [
        'writer: [calls] add({"a": 2, "b": 3})',
        "writer: 5",
        "writer: Five it is.",
    ]
    assert [event.text for event in events if event.partial and event.text] == ["Five ", "it ", "is."]
    assert list(runner.events("t")) == [event for event in events if not event.partial]


def test_others_are_told_of_calls_and_results_as_text(drive: Drive) -> None:
    model, critic = scripted(calls(call("add", a=2, b=3)), "Five."), scripted("Good.")
    tree = ag.sequential(
        "s", [ag.chat_agent("writer", model, tools=[add]), ag.chat_agent("critic", critic)]
    )
    list(drive.run(ag.Runner(tree), "Go."))
    assert [f"{m.type}: {m.text}" for m in critic.inputs[0]] == [
        "human: Go.",
        'human: [writer] called add({"a": 2, "b": 3})',
        "human: [writer] add returned: 5",
        "human: [writer] said: Five.",
    ]
