"""The scripted model and the transcript, as users of the library test with them."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
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


def streamed(model: ScriptedChatModel, sent: Any = "hello") -> list[AIMessageChunk]:
    return list(model.stream(sent))


def astreamed(model: ScriptedChatModel, sent: Any = "hello") -> list[AIMessageChunk]:
    async def all_chunks() -> list[AIMessageChunk]:
        return [chunk async for chunk in model.astream(sent)]

    return asyncio.run(all_chunks())


def invoked(model: ScriptedChatModel) -> AIMessage:
    return model.invoke("hello")


def ainvoked(model: ScriptedChatModel) -> AIMessage:
    return asyncio.run(model.ainvoke("hello"))


def added_up(chunks: list[AIMessageChunk]) -> BaseMessage:
    total = chunks[0]
    for chunk in chunks[1:]:
        total += chunk
    return message_chunk_to_message(total)


def data(message: BaseMessage) -> dict[str, Any]:
    """Return all that a message holds but its id, of which each call makes a new one."""
    return message.model_dump(exclude={"id"})


invokes = pytest.mark.parametrize("invoke", [invoked, ainvoked], ids=["sync", "async"])
streams = pytest.mark.parametrize("stream", [streamed, astreamed], ids=["sync", "async"])


@tool
def weather(city: str, days: int = 1) -> str:
    """Tell the weather."""
    return f"sun in {city}"


class Verdict(BaseModel):
    """A judgement."""

    good: bool


class TestAScript:
    @invokes
    def test_is_followed_in_order(self, invoke: Callable[..., AIMessage]) -> None:
        asks = AIMessage("", tool_calls=[call("weather", city="Rome")])
        model = ScriptedChatModel(responses=["first", asks, AIMessage("third"), ""])

        said = [invoke(model) for _ in range(4)]

        assert [message.text for message in said] == ["first", "", "third", ""]
        assert said[1].tool_calls == [call("weather", city="Rome")]
        assert len({message.id for message in said}) == 4

    @invokes
    @pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt("stop")])
    def test_raises_an_exception_and_goes_on_behind_it(
        self, invoke: Callable[..., AIMessage], error: BaseException
    ) -> None:
        model = ScriptedChatModel(responses=[error, "fine"])
        with pytest.raises(type(error)) as caught:
            invoke(model)
        assert caught.value is error
        assert invoke(model).text == "fine"

    @streams
    def test_raises_an_exception_where_it_streams(self, stream: Callable[..., Any]) -> None:
        model = ScriptedChatModel(responses=[ValueError("no"), "fine"])
        with pytest.raises(ValueError, match=r"^no$"):
            stream(model)
        assert added_up(stream(model)).text == "fine"

    def test_calls_a_function_with_the_input_and_takes_what_it_gives(self) -> None:
        model = ScriptedChatModel(
            responses=[
                lambda messages: messages[-1].text.upper(),
                lambda messages: AIMessage(str(len(messages))),
                lambda messages: ValueError(messages[0].text),
            ]
        )
        assert model.invoke("loud").text == "LOUD"
        assert model.invoke(["one", "two"]).text == "2"
        with pytest.raises(ValueError, match=r"^three$"):
            model.invoke("three")

    def test_records_what_was_sent_call_by_call(self) -> None:
        model = ScriptedChatModel(responses=["a", ValueError("no"), lambda messages: "c"])
        model.invoke("one")
        with pytest.raises(ValueError, match="no"):
            model.invoke([("system", "be kind"), ("user", "two")])
        list(model.stream("three"))

        assert [[(m.type, m.text) for m in sent] for sent in model.inputs] == [
            [("human", "one")],
            [("system", "be kind"), ("human", "two")],
            [("human", "three")],
        ]

    def test_keeps_a_record_that_functions_cannot_change(self) -> None:
        model = ScriptedChatModel(responses=[lambda messages: messages.pop().text])
        given = [HumanMessage("one"), HumanMessage("two")]
        assert model.invoke(given).text == "two"
        assert [message.text for message in model.inputs[0]] == ["one", "two"]
        assert len(given) == 2

    @invokes
    def test_that_runs_out_says_how_long_it_was_and_what_came_last(
        self, invoke: Callable[..., AIMessage]
    ) -> None:
        model = ScriptedChatModel(responses=["one", "two"])
        invoke(model)
        invoke(model)
        with pytest.raises(ScriptError) as caught:
            invoke(model)
        assert str(caught.value) == (
            "the script has 2 responses, and this is call 3; the last message sent is 'hello'"
        )
        assert isinstance(caught.value, ag.AgentGraphError)
        assert isinstance(caught.value, AssertionError)

    def test_that_runs_out_says_so_where_it_streams(self) -> None:
        with pytest.raises(ScriptError, match="the script has 0 responses, and this is call 1"):
            streamed(ScriptedChatModel(responses=[]))

    def test_with_responses_left_over_says_how_many_and_which(self) -> None:
        model = ScriptedChatModel(responses=["one", "two", ValueError("three")])
        model.invoke("hello")
        model.invoke("hello")
        assert [repr(response) for response in model.left_over] == ["ValueError('three')"]
        with pytest.raises(ScriptError) as caught:
            model.assert_finished()
        assert str(caught.value) == (
            "1 of 3 responses are left over, the first is ValueError('three'); calls so far: 2"
        )

    def test_that_is_finished_complains_of_nothing(self) -> None:
        model = ScriptedChatModel(responses=["one", ValueError("two")])
        model.invoke("hello")
        with pytest.raises(ValueError, match="two"):
            model.invoke("hello")
        model.assert_finished()
        assert model.left_over == []

    def test_may_be_shared_by_threads(self) -> None:
        texts = [str(i) for i in range(300)]
        model = ScriptedChatModel(responses=list(texts))
        with ThreadPoolExecutor(16) as threads:
            said = list(threads.map(lambda text: model.invoke(text).text, texts))
        assert sorted(said, key=int) == texts
        assert sorted((sent[0].text for sent in model.inputs), key=int) == texts
        model.assert_finished()


REPLIES: dict[str, str | AIMessage] = {
    "plain": "one two three",
    "odd whitespace": "  one\n\n\ttwo\u00a0 three \r\n",
    "whitespace alone": " \n\t ",
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
    "content blocks": AIMessage(
        [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "one two"}]
    ),
    "blocks and calls": AIMessage(
        [{"type": "text", "text": "one"}, "two"], tool_calls=[call("weather", city="Rome")]
    ),
    "usage": AIMessage(
        "one two",
        usage_metadata={"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
        response_metadata={"model_name": "scripted", "finish_reason": "stop"},
        additional_kwargs={"refusal": None, "score": 1},
    ),
}


class TestStreaming:
    @streams
    @pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
    def test_gives_chunks_that_add_up_to_the_whole(
        self, stream: Callable[..., list[AIMessageChunk]], reply: str | AIMessage
    ) -> None:
        model = ScriptedChatModel(responses=[reply, reply])
        chunks = stream(model)
        assert data(added_up(chunks)) == data(model.invoke("hello"))
        assert len({chunk.id for chunk in chunks}) == 1
        assert chunks[-1].chunk_position == "last"

    @given(text=st.text())
    @settings(max_examples=100, deadline=None)
    def test_loses_nothing_of_any_text(self, text: str) -> None:
        chunks = streamed(ScriptedChatModel(responses=[text]))
        assert "".join(chunk.text for chunk in chunks) == text

    @streams
    def test_gives_a_text_word_by_word(self, stream: Callable[..., list[AIMessageChunk]]) -> None:
        chunks = stream(ScriptedChatModel(responses=["one  two\nthree"]))
        assert [chunk.text for chunk in chunks] == ["one  ", "two\n", "three", ""]

    @streams
    def test_gives_a_tool_call_in_pieces(self, stream: Callable[..., list[AIMessageChunk]]) -> None:
        model = ScriptedChatModel(responses=[AIMessage("", tool_calls=[call("weather", city="Rome")])])
        pieces = [piece for chunk in stream(model) for piece in chunk.tool_call_chunks]
        assert [(piece["name"], piece["args"], piece["id"]) for piece in pieces] == [
            ("weather", '{"city":', "call_weather"),
            (None, ' "Rome"}', None),
        ]

    def test_keeps_the_id_of_a_message_that_has_one(self) -> None:
        model = ScriptedChatModel(responses=[AIMessage("one two", id="mine")] * 2)
        assert {chunk.id for chunk in streamed(model)} == {model.invoke("hello").id} == {"mine"}


class TestTools:
    def test_that_are_bound_are_recorded_as_openai_describes_them(self) -> None:
        model = ScriptedChatModel(responses=[])
        assert model.tools == []
        model.bind_tools([weather, Verdict])
        assert [described["function"]["name"] for described in model.tools] == ["weather", "Verdict"]
        assert model.tools[0] == {
            "type": "function",
            "function": {
                "name": "weather",
                "description": "Tell the weather.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "city": {"type": "string"},
                        "days": {"type": "integer", "default": 1},
                    },
                    "required": ["city"],
                },
            },
        }

    def test_leave_the_script_in_charge(self) -> None:
        asks = AIMessage("", tool_calls=[call("weather", city="Rome")])
        model = ScriptedChatModel(responses=[asks, asks, "done"])
        bound = model.bind_tools([weather], tool_choice="any")

        assert bound.invoke("hello").tool_calls == asks.tool_calls
        chunks: Any = list(bound.stream("hello"))
        assert added_up(chunks).model_dump()["tool_calls"] == asks.tool_calls
        assert asyncio.run(bound.ainvoke("bye")).text == "done"
        assert [sent[-1].text for sent in model.inputs] == ["hello", "hello", "bye"]

    def test_are_what_structured_output_is_made_of(self) -> None:
        model = ScriptedChatModel(responses=[AIMessage("", tool_calls=[call("Verdict", good=True)])])
        assert model.with_structured_output(Verdict).invoke("Well?") == Verdict(good=True)


def result(name: str, content: str = "sun") -> ToolMessage:
    return ToolMessage(content, name=name, tool_call_id=f"call_{name}")


ASKED = AIMessage("", tool_calls=[call("weather", city="Rome"), call("clock")])
FAULTY: dict[str, tuple[list[BaseMessage], list[str]]] = {
    "a call without an answer": (
        [ASKED, result("clock")],
        ["call 'call_weather' of 'weather' is not answered by the tool messages directly after it"],
    ),
    "an invalid call without an answer": (
        [AIMessage("", invalid_tool_calls=[invalid_tool_call(name="weather", args="Rome", id="1")])],
        ["call '1' of 'weather' is not answered by the tool messages directly after it"],
    ),
    "a call without an id": (
        [AIMessage("", tool_calls=[{**call("clock"), "id": None}])],
        ["call '' of 'clock' is not answered by the tool messages directly after it"],
    ),
    "a person between a call and its answer": (
        [ASKED, result("clock"), HumanMessage("Well?"), result("weather")],
        [
            "call 'call_weather' of 'weather' is not answered by the tool messages directly after it",
            "a result of 'weather' answers call 'call_weather', which the message before does not make",
        ],
    ),
    "an answer at the beginning": (
        [result("clock"), HumanMessage("Well?")],
        ["a result of 'clock' answers call 'call_clock', which the message before does not make"],
    ),
    "an answer twice": (
        [ASKED, result("weather"), result("clock"), result("clock")],
        ["call 'call_clock' of 'clock' is made 1 and answered 2 times"],
    ),
    "an answer to nobody": (
        [ASKED, result("weather"), result("clock"), ToolMessage("?", tool_call_id="7")],
        ["a result of None answers call '7', which the message before does not make"],
    ),
}


class TestTheInput:
    @pytest.mark.parametrize(("messages", "faults"), FAULTY.values(), ids=FAULTY)
    def test_that_is_no_conversation_has_faults(
        self, messages: list[BaseMessage], faults: list[str]
    ) -> None:
        assert pairing_faults(messages) == faults

    @pytest.mark.parametrize(
        "messages",
        [
            [],
            [HumanMessage("Well?"), AIMessage("Well.")],
            [ASKED, result("weather"), result("clock"), AIMessage("Sun.")],
            [ASKED, result("clock"), result("weather"), ASKED, result("weather"), result("clock")],
        ],
        ids=["nothing", "no calls", "a round", "two rounds, in another order"],
    )
    def test_that_is_a_conversation_has_none(self, messages: list[BaseMessage]) -> None:
        assert pairing_faults(messages) == []

    @invokes
    def test_that_is_no_conversation_is_refused(self, invoke: Callable[..., AIMessage]) -> None:
        model = ScriptedChatModel(responses=["fine", lambda messages: "never asked", "fine"])
        invoke(model)
        with pytest.raises(ScriptError) as caught:
            model.invoke([ASKED, result("weather"), HumanMessage("Well?")])
        assert str(caught.value) == (
            "input 2 of the model is not a valid conversation: call 'call_clock' of 'clock' is not "
            "answered by "
            "the tool messages directly after it"
        )
        assert [message.type for message in model.inputs[1]] == ["ai", "tool", "human"]
        assert invoke(model).text == "fine"

    def test_is_refused_with_all_its_faults(self) -> None:
        with pytest.raises(ScriptError) as caught:
            ScriptedChatModel(responses=["fine"]).invoke([ASKED, HumanMessage("Well?")])
        assert str(caught.value).count("is not answered") == 2

    @streams
    def test_is_refused_where_it_streams(self, stream: Callable[..., Any]) -> None:
        model = ScriptedChatModel(responses=["fine"])
        with pytest.raises(ScriptError, match="input 1 of the model is not a valid conversation"):
            stream(model, [ASKED])


class TestOneMessageTwiceInAScript:
    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_becomes_two_messages_of_the_history(self, stream: bool) -> None:
        again = AIMessage("Again.")
        model = ScriptedChatModel(responses=[again, again])
        tree = ag.loop("refine", [ag.chat_agent("writer", model)], max_iterations=2)
        runner = ag.Runner(tree)

        events = list(runner.query("Go.", thread_id="t", stream=stream))

        assert transcript(events) == ["refine/writer: Again.", "refine/writer/writer: Again."]
        history = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"]
        assert [message.text for message in history] == ["Go.", "Again.", "Again."]
        assert len({message.id for message in history}) == 3
        assert again == AIMessage("Again.")


def event(**what: Any) -> ag.AgentEvent:
    path = ag.RunPath([ag.RunStep("report"), ag.RunStep("writer")])
    return ag.AgentEvent(agent_name="writer", run_path=path, address="report/writer", id="1", **what)


class TestATranscript:
    def test_tells_a_run_in_lines(self) -> None:
        def editor(ctx: ag.Context) -> Iterator[Any]:
            if not ctx.answered:
                yield "Looking."
                yield ag.Custom({"found": [1, None]})
                yield ag.Ask("Print it?")
            else:
                yield f"You said {ctx.answer}."
                yield ag.BreakLoop()

        def last(ctx: ag.Context) -> Iterator[str | ag.Exit]:
            yield ag.Exit()

        tree = ag.sequential(
            "report",
            [
                ag.loop("refine", [ag.function_agent("editor", editor)], max_iterations=None),
                ag.chat_agent("writer", ScriptedChatModel(responses=["One\ntwo."])),
                ag.chat_agent("critic", ScriptedChatModel(responses=[ValueError("no"), "Good."])),
                ag.function_agent("last", last),
            ],
        )
        runner = ag.Runner(tree)

        assert transcript(runner.query("Go.", thread_id="t")) == [
            "report/refine/editor: Looking.",
            'report/refine/editor: [custom] {"found": [1, null]}',
            "report/refine/editor: [asks] Print it?",
        ]
        told: list[ag.AgentEvent] = []
        with pytest.raises(ValueError, match="no"):
            told.extend(runner.resume("t", "yes", stream=True))
        assert transcript(told) == [
            "report/refine/editor: You said yes.",
            "report/refine/editor: [break_loop]",
            "report/refine/writer: One\ntwo.",
            "report/refine/writer/critic: [error] ValueError('no')",
        ]
        assert transcript(runner.resume("t")) == [
            "report/refine/writer/critic: Good.",
            "report/refine/writer/critic/last: [exit]",
        ]

    def test_leaves_chunks_out(self) -> None:
        chunk = ag.Output(message=AIMessageChunk("One"), partial=True)
        assert transcript([event(output=chunk)]) == []

    @pytest.mark.parametrize(
        ("what", "line"),
        [
            ({"output": ag.Output(message=AIMessage("One."))}, "One."),
            ({"output": ag.Output(message=HumanMessage(""))}, ""),
            ({"output": ag.Output(message=AIMessage([{"type": "text", "text": "One."}]))}, "One."),
            ({"output": ag.Output(custom={"a": 1})}, '[custom] {"a": 1}'),
            ({"output": ag.Output(custom=None)}, "[custom] null"),
            ({"action": ag.Action(exit=True)}, "[exit]"),
            ({"action": ag.Action(break_loop=True)}, "[break_loop]"),
            ({"action": ag.Action(custom={"a": 1})}, "[action]"),
            (
                {
                    "action": ag.Action(
                        interrupted=ag.Interrupt(
                            id="2", address="report/writer", agent_name="writer", value="Print it?"
                        )
                    )
                },
                "[asks] Print it?",
            ),
            ({"error": "ValueError('no')"}, "[error] ValueError('no')"),
        ],
        ids=lambda what: None if isinstance(what, dict) else what,
    )
    def test_has_a_line_for_every_kind_of_event(self, what: dict[str, Any], line: str) -> None:
        assert transcript([event(**what)]) == [f"report/writer: {line}"]


def test_a_function_alone_is_a_script_without_end() -> None:
    model = ScriptedChatModel(responses=lambda messages: messages[-1].text.upper())
    assert [model.invoke(text).text for text in ("one", "two", "three")] == ["ONE", "TWO", "THREE"]
    assert model.left_over == []
    model.assert_finished()


@pytest.mark.parametrize("asked", ["invoke", "stream"])
def test_a_model_that_counts_tokens_tells_a_word_as_one(asked: str) -> None:
    model = ScriptedChatModel(responses=["They hum all day."], counts_tokens=True)
    replies = [model.invoke("Tell me.")] if asked == "invoke" else list(model.stream("Tell me."))
    usage = [reply.usage_metadata for reply in replies if reply.usage_metadata]
    assert usage == [{"input_tokens": 2, "output_tokens": 4, "total_tokens": 6}]
