"""Agent events: frozen values with a JSON and a server-sent form."""

import json
import pickle
from dataclasses import FrozenInstanceError, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    ToolMessage,
    ToolMessageChunk,
)

from agentgraph import Action, AgentEvent, Interrupt, Output, RunPath, RunStep

QUESTION = Interrupt(
    id="q1",
    address="report/refine[1]/boss",
    agent_name="boss",
    value={"text": "Print\nit?", "draft": ["größe", None]},
    response_schema={"type": "boolean"},
)
CALL = {"name": "search", "args": {"q": "größe\n", "n": [1, None]}, "id": "c1", "type": "tool_call"}
USAGE = {
    "input_tokens": 7,
    "output_tokens": 3,
    "total_tokens": 10,
    "input_token_details": {"cache_read": 2},
}
MESSAGES = [
    AIMessage("Bees buzz.", id="1", name="writer", response_metadata={"agentgraph": "report/writer"}),
    AIMessage("", tool_calls=[CALL, {**CALL, "id": "c2"}], usage_metadata=USAGE),
    AIMessage(
        "", invalid_tool_calls=[{**CALL, "args": "{", "error": "bad", "type": "invalid_tool_call"}]
    ),
    AIMessage([{"type": "text", "text": "See."}, {"type": "image", "url": "http://a/b.png"}, "so"]),
    AIMessage(
        [{"type": "reasoning", "reasoning": "Hm."}, {"type": "tool_use", "id": "c1", "input": {}}]
    ),
    AIMessage("größe 🐝\r\n\u2028\x00\"'\\", additional_kwargs={"refusal": None, "n": 1.5}),
    HumanMessage("Write.", name="eve"),
    HumanMessage([{"type": "text", "text": "See."}]),
    SystemMessage("Be kind."),
    ToolMessage("3 hits", tool_call_id="c1", name="search", artifact={"hits": [1, 2, 3]}),
    ToolMessage("no", tool_call_id="c1", status="error"),
    ToolMessage([{"type": "image", "url": "http://a/b.png"}], tool_call_id="c1"),
    ChatMessage("Hm.", role="critic"),
    FunctionMessage("3", name="count"),
]
CHUNKS = [
    AIMessageChunk("Bees ", id="1"),
    AIMessageChunk([{"type": "text", "text": "Bees", "index": 0}], id="1"),
    AIMessageChunk(
        "",
        tool_call_chunks=[
            {"name": "search", "args": '{"q', "id": "c1", "index": 0, "type": "tool_call_chunk"},
            {"name": None, "args": '": 1}', "id": None, "index": 0, "type": "tool_call_chunk"},
        ],
    ),
    AIMessageChunk("", usage_metadata=USAGE, chunk_position="last"),
    HumanMessageChunk("Write."),
    ToolMessageChunk("3 hits", tool_call_id="c1"),
]


def event(**told) -> AgentEvent:
    """Return an event of the agent `writer`."""
    given = {
        "agent_name": "writer",
        "run_path": RunPath([RunStep("report"), RunStep("refine"), RunStep("writer", 1)]),
        "address": "report/refine[1]/writer",
        "id": "e1",
        "thread_id": "t1",
        "turn": 0,
        "step": "1ef:writer",
        "time": 1795366000.123456,
    }
    return AgentEvent(**{**given, **told})


EVENTS = {
    "message": event(output=Output(message=AIMessage("Bees buzz.", id="1"))),
    "partial": event(output=Output(message=AIMessageChunk("Bees ", id="1"), partial=True)),
    "custom": event(output=Output(custom={"done": 3})),
    "exit": event(action=Action(exit=True)),
    "break_loop": event(action=Action(break_loop=True)),
    "transfer_to": event(action=Action(transfer_to="critic")),
    "discarded": event(action=Action(discarded=("1", "2"))),
    "interrupted": event(action=Action(interrupted=QUESTION)),
    "action": event(action=Action(custom={"vote": ["yes", None]})),
    "error": event(error="ValueError('größe\\n')", thread_id=None),
}


def through_json(told: AgentEvent) -> AgentEvent:
    return AgentEvent.from_dict(json.loads(json.dumps(told.to_dict(), allow_nan=False)))


@pytest.mark.parametrize(("name", "told"), EVENTS.items())
def test_the_kind_of_an_event_is_what_happened(name, told):
    assert told.kind == ("message" if name == "partial" else name)


def test_an_error_is_told_before_all_else():
    assert event(error="no", output=Output(custom=1), action=Action(exit=True)).kind == "error"


def test_custom_data_may_be_falsy():
    assert [event(output=Output(custom=data)).kind for data in (None, 0, "", [], {})] == ["custom"] * 5


def test_the_message_and_its_text_are_at_hand():
    message = AIMessage([{"type": "text", "text": "Bees "}, {"type": "text", "text": "buzz."}])
    said = event(output=Output(message=message))
    assert said.message is message
    assert said.text == "Bees buzz."
    assert type(said.text) is str


@pytest.mark.parametrize("name", ["custom", "exit", "discarded", "interrupted", "error"])
def test_an_event_without_a_message_has_no_text(name):
    assert (EVENTS[name].message, EVENTS[name].text, EVENTS[name].partial) == (None, "", False)


def test_only_a_chunk_is_partial():
    assert {name for name, told in EVENTS.items() if told.partial} == {"partial"}


@pytest.mark.parametrize("told", EVENTS.values(), ids=EVENTS)
def test_an_event_of_every_kind_comes_back_from_json(told):
    assert through_json(told) == told


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: f"{m.type} {m.content!r}")
def test_a_message_of_every_type_comes_back_from_json(message: BaseMessage):
    again = through_json(event(output=Output(message=message)))
    assert type(again.message) is type(message)
    assert again.message == message
    assert again.message.model_dump() == message.model_dump()


@pytest.mark.parametrize("chunk", CHUNKS, ids=lambda m: f"{m.type} {m.content!r}")
def test_a_chunk_of_every_type_comes_back_from_json(chunk: BaseMessage):
    again = through_json(event(output=Output(message=chunk, partial=True)))
    assert type(again.message) is type(chunk)
    assert again.message.model_dump() == chunk.model_dump()
    assert again.partial


def test_chunks_that_came_back_from_json_can_be_added_up():
    pieces = [
        {"name": "search", "args": '{"q', "id": "c1", "index": 0, "type": "tool_call_chunk"},
        {"name": None, "args": '": 1}', "id": None, "index": 0, "type": "tool_call_chunk"},
    ]
    chunks = [
        through_json(event(output=Output(message=AIMessageChunk("", tool_call_chunks=[piece]))))
        for piece in pieces
    ]
    whole = chunks[0].message + chunks[1].message
    assert [(call["name"], call["args"]) for call in whole.tool_calls] == [("search", {"q": 1})]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)
paths = st.lists(st.builds(RunStep, st.text(), st.none() | st.integers(0))).map(RunPath)


@given(json_values, json_values, st.text(), paths)
def test_any_plain_data_comes_back_from_json(data, schema, text, path):
    asked = replace(QUESTION, value=data, response_schema={"const": schema})
    for told in (
        event(output=Output(custom=data), run_path=path, agent_name=text),
        event(output=Output(message=AIMessage(text, additional_kwargs={"a": data})), id=text),
        event(action=Action(interrupted=asked), address=text),
        event(action=Action(custom=data), thread_id=text),
        event(error=text),
    ):
        assert through_json(told) == told


def test_an_event_is_told_as_readable_data():
    assert event(output=Output(custom={"done": 3})).to_dict() == {
        "agent_name": "writer",
        "run_path": [["report", None], ["refine", None], ["writer", 1]],
        "address": "report/refine[1]/writer",
        "output": {"message": None, "custom": {"done": 3}, "partial": False},
        "action": None,
        "error": None,
        "id": "e1",
        "thread_id": "t1",
        "turn": 0,
        "step": "1ef:writer",
        "time": 1795366000.123456,
    }


def test_a_question_is_told_with_all_that_an_answer_needs():
    assert EVENTS["interrupted"].to_dict()["action"]["interrupted"] == {
        "id": "q1",
        "address": "report/refine[1]/boss",
        "agent_name": "boss",
        "value": {"text": "Print\nit?", "draft": ["größe", None]},
        "response_schema": {"type": "boolean"},
    }


def test_to_dict_gives_data_of_its_own():
    data = {"done": [1]}
    told = event(output=Output(custom=data))
    told.to_dict()["output"]["custom"]["done"].append(2)
    assert data == {"done": [1]}


def test_to_dict_names_every_field():
    assert list(EVENTS["exit"].to_dict()) == [
        "agent_name",
        "run_path",
        "address",
        "output",
        "action",
        "error",
        "id",
        "thread_id",
        "turn",
        "step",
        "time",
    ]
    assert {field.name for field in fields(AgentEvent)} == set(EVENTS["exit"].to_dict())


@pytest.mark.parametrize(("name", "told"), EVENTS.items())
def test_a_server_sent_event_has_a_kind_an_id_and_one_line_of_data(name, told):
    lines = told.to_sse().split("\n")
    assert lines[:2] == [f"event: {name}", "id: e1"]
    assert lines[2].startswith("data: ")
    assert lines[3:] == ["", ""]
    assert AgentEvent.from_dict(json.loads(lines[2].removeprefix("data: "))) == told


def server_sent(stream: str) -> list[dict[str, str]]:
    """Read a stream as a browser does: a blank line ends an event, CR, LF and CRLF end a line."""
    events, current = [], {}
    for line in stream.replace("\r\n", "\n").replace("\r", "\n").split("\n")[:-1]:
        field, _, value = line.partition(": ")
        if line:
            current[field] = f"{current[field]}\n{value}" if field in current else value
        else:
            events.append(current)
            current = {}
    return [*events, current] if current else events


@given(st.text() | st.text("\r\n\t :\u2028\u2029\x85\x00é"), json_values)
def test_no_text_breaks_a_server_sent_event(text, data):
    told = [
        event(output=Output(message=AIMessage(text))),
        event(output=Output(custom={"text": text, "data": data})),
        event(error=text, thread_id=text),
        event(action=Action(interrupted=replace(QUESTION, value=text))),
    ]
    received = server_sent("".join(each.to_sse() for each in told))
    assert [AgentEvent.from_dict(json.loads(each["data"])) for each in received] == told
    assert [list(each) for each in received] == [["event", "id", "data"]] * 4


@pytest.mark.parametrize("id", ["a\nb", "a\r\nb", "a\n\ndata: {}", "a\rb"])
def test_no_id_breaks_a_server_sent_event(id):
    told = event(output=Output(message=AIMessage("Bees.", id=id)), id=id)
    (received,) = server_sent(told.to_sse())
    assert list(received) == ["event", "id", "data"]
    assert AgentEvent.from_dict(json.loads(received["data"])) == told


@pytest.mark.parametrize(
    ("value", "attribute"),
    [
        (EVENTS["message"], "id"),
        (EVENTS["message"], "output"),
        (Output(custom=1), "custom"),
        (Action(exit=True), "exit"),
        (QUESTION, "value"),
    ],
    ids=lambda given: type(given).__name__ if not isinstance(given, str) else given,
)
def test_events_cannot_be_changed(value, attribute):
    with pytest.raises(FrozenInstanceError):
        setattr(value, attribute, "other")


def test_events_take_their_fields_by_name_only():
    with pytest.raises(TypeError):
        AgentEvent("writer", RunPath(), "report/writer")


@pytest.mark.parametrize("told", EVENTS.values(), ids=EVENTS)
def test_an_event_comes_back_from_pickle(told):
    assert pickle.loads(pickle.dumps(told)) == told


def test_events_show_who_did_what():
    assert repr(event(action=Action(exit=True))).startswith(
        "AgentEvent(agent_name='writer', run_path=RunPath('report/refine/writer'), "
        "address='report/refine[1]/writer', output=None, action=Action(exit=True"
    )
