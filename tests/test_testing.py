"""The scripted model and the transcript, as users of the library test with them."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from helpers import says, scripted, texts
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    message_chunk_to_message,
)
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.tools import tool
from pydantic import BaseModel

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, ScriptError, pairing_faults, transcript


def call(name: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": f"call_{name}", "type": "tool_call"}


def added_up(chunks: list[AIMessageChunk]) -> BaseMessage:
    total = chunks[0]
    for chunk in chunks[1:]:
        total += chunk
    return message_chunk_to_message(total)


def data(message: BaseMessage) -> dict[str, Any]:
    """Return all that a message holds but its id, of which each call makes a new one."""
    return message.model_dump(exclude={"id"})


@tool
def weather(city: str, days: int = 1) -> str:
    """Tell the weather."""
    return f"sun in {city}"


class Verdict(BaseModel):
    """A judgement."""

    good: bool


ASKS = AIMessage("", tool_calls=[call("weather", city="Rome")])


def test_a_script_is_followed_in_order_sync_async_and_streamed() -> None:
    model = scripted("first", ASKS, AIMessage("third"), "")
    said = [model.invoke("1"), asyncio.run(model.ainvoke("2")), added_up(list(model.stream("3")))]
    said.append(model.invoke("4"))
    assert [message.text for message in said] == ["first", "", "third", ""]
    assert said[1].tool_calls == ASKS.tool_calls
    assert len({message.id for message in said}) == 4


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt("stop")])
def test_an_exception_in_a_script_is_raised_as_it_is_and_the_next_response_follows(
    error: BaseException,
) -> None:
    model = scripted(error, error, "fine")
    for asked in (model.invoke, lambda text: list(model.stream(text))):
        with pytest.raises(type(error)) as caught:
            asked("hello")
        assert caught.value is error
    assert model.invoke("hello").text == "fine"


def test_a_function_in_a_script_is_called_with_the_input_and_gives_any_response() -> None:
    model = scripted(
        lambda messages: messages.pop().text.upper(),
        lambda messages: AIMessage(str(len(messages))),
        lambda messages: ValueError(messages[0].text),
        lambda messages: 3,
    )
    assert model.invoke("loud").text == "LOUD"
    assert model.invoke(["one", "two"]).text == "2"
    with pytest.raises(ValueError, match=r"^three$"):
        model.invoke("three")
    with pytest.raises(ScriptError) as caught:
        model.invoke("four")
    assert str(caught.value) == (
        "response 4 of the script is 3; use a text, an AIMessage, an exception, or a function from the "
        "messages to one of these"
    )
    assert [texts(sent) for sent in model.inputs] == [
        ["human: loud"],
        ["human: one", "human: two"],
        ["human: three"],
        ["human: four"],
    ]


def test_a_function_alone_is_a_script_without_end() -> None:
    model = ScriptedChatModel(responses=lambda messages: messages[-1].text.upper())
    assert [model.invoke(text).text for text in ("one", "two")] == ["ONE", "TWO"]
    assert model.left_over == []
    model.assert_finished()


def test_a_script_that_runs_out_says_how_long_it_was_and_what_came_last() -> None:
    model = scripted("one", ValueError("two"), "three")
    model.invoke("hello")
    with pytest.raises(ValueError, match="two"):
        model.invoke("hello")
    assert model.left_over == ["three"]
    with pytest.raises(ScriptError) as caught:
        model.assert_finished()
    assert str(caught.value) == (
        "1 of 3 responses are left over, the first is 'three', after 2 calls; remove them, or call the "
        "model more often"
    )
    model.invoke("hello")
    model.assert_finished()
    for asked in (model.invoke, lambda text: list(model.stream(text))):
        with pytest.raises(ScriptError, match=r"^the script has 3 responses, and this is call "):
            asked("hello")
    assert issubclass(ScriptError, ag.AgentGraphError)
    assert issubclass(ScriptError, AssertionError)
    with pytest.raises(ScriptError) as caught:
        scripted().invoke("hello")
    assert str(caught.value) == (
        "the script has 0 responses, and this is call 1; the last message sent is 'hello'"
    )


def test_threads_may_share_a_model() -> None:
    numbers = [str(i) for i in range(300)]
    model = scripted(*numbers)
    with ThreadPoolExecutor(16) as threads:
        said = list(threads.map(lambda text: model.invoke(text).text, numbers))
    assert sorted(said, key=int) == numbers
    assert sorted((sent[0].text for sent in model.inputs), key=int) == numbers
    model.assert_finished()


REPLIES: dict[str, str | AIMessage] = {
    "plain": "one two three",
    "odd whitespace": "  one\n\n\ttwo\u00a0 three \r\n",
    "nothing": "",
    "one long word": "x" * 10_000,
    "tool calls": AIMessage(
        "Let me see.",
        tool_calls=[call("weather", city='Zürich "north"', days=2), call("clock")],
    ),
    "a tool call alone": AIMessage(
        "", tool_calls=[call("weather", city="Rome", deep={"a": [1, None]})]
    ),
    "an invalid tool call": AIMessage(
        "", invalid_tool_calls=[invalid_tool_call(name="weather", args="Rome", id="1")]
    ),
    "blocks and calls": AIMessage(
        [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "one"}, "two"],
        tool_calls=[call("weather", city="Rome")],
    ),
    "usage": AIMessage(
        "one two",
        usage_metadata={"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
        response_metadata={"model_name": "scripted", "finish_reason": "stop"},
        additional_kwargs={"refusal": None, "score": 1},
    ),
}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_the_chunks_of_a_stream_add_up_to_the_whole(reply: str | AIMessage) -> None:
    model = scripted(reply, reply)
    chunks = list(model.stream("hello"))
    assert data(added_up(chunks)) == data(model.invoke("hello"))
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[-1].chunk_position == "last"


@given(text=st.text())
@settings(max_examples=100, deadline=None)
def test_a_stream_loses_nothing_of_any_text(text: str) -> None:
    assert "".join(chunk.text for chunk in scripted(text).stream("hello")) == text


def test_a_stream_gives_a_text_word_by_word_and_a_call_in_pieces() -> None:
    chunks = list(scripted("one  two\nthree").stream("hello"))
    assert [chunk.text for chunk in chunks] == ["one  ", "two\n", "three", ""]
    pieces = [piece for chunk in scripted(ASKS).stream("hello") for piece in chunk.tool_call_chunks]
    assert [(piece["name"], piece["args"], piece["id"]) for piece in pieces] == [
        ("weather", '{"city":', "call_weather"),
        (None, ' "Rome"}', None),
    ]


def test_the_id_of_a_message_that_has_one_is_kept() -> None:
    model = scripted(*[AIMessage("one two", id="mine")] * 2)
    assert {chunk.id for chunk in model.stream("hello")} == {model.invoke("hello").id} == {"mine"}


@pytest.mark.parametrize("asked", ["invoke", "stream"])
def test_a_model_that_counts_tokens_counts_a_word_as_one(asked: str) -> None:
    model = ScriptedChatModel(responses=["They hum all day."], counts_tokens=True)
    replies = [model.invoke("Tell me.")] if asked == "invoke" else list(model.stream("Tell me."))
    usage = [reply.usage_metadata for reply in replies if reply.usage_metadata]
    assert usage == [{"input_tokens": 2, "output_tokens": 4, "total_tokens": 6}]


def test_tools_that_are_bound_are_recorded_as_openai_describes_them_and_change_no_script() -> None:
    model = scripted(ASKS, "done")
    assert model.tools == []
    bound = model.bind_tools([weather, Verdict], tool_choice="any")
    assert [described["function"]["name"] for described in model.tools] == ["weather", "Verdict"]
    parameters = {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}}
    assert model.tools[0] == {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Tell the weather.",
            "parameters": {"type": "object", "properties": parameters, "required": ["city"]},
        },
    }
    assert bound.invoke("hello").tool_calls == ASKS.tool_calls
    assert bound.invoke("bye").text == "done"
    assert model.settings == [{"tool_choice": "any"}] * 2


def test_structured_output_is_a_call_of_the_schema() -> None:
    model = scripted(AIMessage("", tool_calls=[call("Verdict", good=True)]))
    assert model.with_structured_output(Verdict).invoke("Well?") == Verdict(good=True)


def result(name: str, content: str = "sun") -> ToolMessage:
    return ToolMessage(content, name=name, tool_call_id=f"call_{name}")


ASKED = AIMessage("", tool_calls=[call("weather", city="Rome"), call("clock")])
INVALID = AIMessage("", invalid_tool_calls=[invalid_tool_call(name="weather", args="Rome", id="1")])
UNANSWERED = "call {!r} of {!r} is not answered by the tool messages directly after it"
UNASKED = "a result of {!r} answers call {!r}, which the message before does not make"
CONVERSATIONS: dict[str, tuple[list[BaseMessage], list[str]]] = {
    "nothing": ([], []),
    "no calls": ([HumanMessage("Well?"), AIMessage("Well.")], []),
    "two rounds, in another order": (
        [ASKED, result("clock"), result("weather"), ASKED, result("weather"), result("clock")],
        [],
    ),
    "a call without an answer": (
        [ASKED, result("clock")],
        [UNANSWERED.format("call_weather", "weather")],
    ),
    "an invalid call without an answer": ([INVALID], [UNANSWERED.format("1", "weather")]),
    "a call without an id": (
        [AIMessage("", tool_calls=[{**call("clock"), "id": None}])],
        [UNANSWERED.format("", "clock")],
    ),
    "a person between a call and its answer": (
        [ASKED, result("clock"), HumanMessage("Well?"), result("weather")],
        [UNANSWERED.format("call_weather", "weather"), UNASKED.format("weather", "call_weather")],
    ),
    "an answer at the beginning": (
        [result("clock"), HumanMessage("Well?")],
        [UNASKED.format("clock", "call_clock")],
    ),
    "an answer twice": (
        [ASKED, result("weather"), result("clock"), result("clock")],
        ["call 'call_clock' of 'clock' is made 1 and answered 2 times"],
    ),
    "an answer to nobody": (
        [ASKED, result("weather"), result("clock"), ToolMessage("?", tool_call_id="7")],
        [UNASKED.format(None, "7")],
    ),
}


@pytest.mark.parametrize(("messages", "faults"), CONVERSATIONS.values(), ids=CONVERSATIONS)
def test_calls_and_results_must_match(messages: list[BaseMessage], faults: list[str]) -> None:
    assert pairing_faults(messages) == faults


def test_an_input_in_which_they_do_not_is_refused_with_all_its_faults() -> None:
    model = scripted("fine", lambda messages: "never asked", "never asked", "fine")
    model.invoke("hello")
    with pytest.raises(ScriptError) as caught:
        model.invoke([ASKED, result("weather"), HumanMessage("Well?")])
    assert str(caught.value) == (
        "input 2 of the model is not a valid conversation: call 'call_clock' of 'clock' is not "
        "answered by the tool messages directly after it"
    )
    with pytest.raises(ScriptError, match=r"is not answered .*; call 'call_clock' .* is not answered"):
        list(model.stream([ASKED]))
    assert [message.type for message in model.inputs[1]] == ["ai", "tool", "human"]
    assert model.invoke("hello").text == "fine"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_one_message_twice_in_a_script_becomes_two_messages_of_the_history(stream: bool) -> None:
    again = AIMessage("Again.")
    runner = ag.Runner(ag.loop("l", [ag.chat_agent("a", scripted(again, again))], max_iterations=2))
    events = list(runner.query("Go.", thread_id="t", stream=stream))
    assert transcript(events) == ["l/a: Again.", "l/a/a: Again."]
    history = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"]
    assert texts(history) == ["human: Go.", "ai: Again.", "ai: Again."]
    assert len({message.id for message in history}) == 3
    assert again == AIMessage("Again.")


def test_a_transcript_gives_a_run_in_lines_without_chunks() -> None:
    def editor(ctx: ag.Context) -> Iterator[Any]:
        if ctx.answered:
            yield ag.BreakLoop()
        else:
            yield ag.Custom({"found": [1, None]})
            yield ag.Ask("Print it?")

    tree = ag.sequential(
        "report",
        [
            ag.loop("refine", [ag.function_agent("editor", editor)], max_iterations=None),
            ag.chat_agent("writer", scripted("One\ntwo.")),
            ag.chat_agent("critic", scripted(ValueError("no"), "Good.")),
            ag.function_agent("last", lambda ctx: ag.Exit()),
        ],
    )
    runner = ag.Runner(tree)
    assert transcript(runner.query("Go.", thread_id="t")) == [
        'report/refine/editor: [custom] {"found": [1, null]}',
        "report/refine/editor: [asks] Print it?",
    ]
    events: list[ag.AgentEvent] = []
    with pytest.raises(ValueError, match="no"):
        events.extend(runner.resume("t", "yes", stream=True))
    assert transcript(events) == [
        "report/refine/editor: [break_loop]",
        "report/refine/writer: One\ntwo.",
        "report/refine/writer/critic: [error] ValueError('no')",
    ]
    assert transcript(runner.resume("t")) == [
        "report/refine/writer/critic: Good.",
        "report/refine/writer/critic/last: [exit]",
    ]


def said(*content: Any) -> ag.Output:
    return ag.Output(message=AIMessage(*content))


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ({"output": said("")}, ""),
        ({"output": said([{"type": "text", "text": "One."}])}, "One."),
        ({"output": ag.Output(custom=None)}, "[custom] null"),
        ({"action": ag.Action(custom={"a": 1})}, "[action]"),
    ],
    ids=lambda what: None if isinstance(what, dict) else what,
)
def test_a_transcript_has_a_line_for_any_event(what: dict[str, Any], line: str) -> None:
    event = next(iter(ag.Runner(says("a")).query("Go.")))
    made = ag.AgentEvent(agent_name="a", run_path=event.run_path, address="a", id="1", **what)
    assert transcript([made]) == [f"a: {line}"]
