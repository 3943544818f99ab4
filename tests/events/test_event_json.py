"""An event as JSON holds what JSON lacks: bytes, half characters, dates, tuples, keys of any kind."""

import json
from collections import deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any

import pytest
from helpers import scripted
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    InvalidToolCall,
    RemoveMessage,
    SystemMessage,
    SystemMessageChunk,
    ToolCall,
    ToolCallChunk,
    ToolMessage,
    ToolMessageChunk,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.tools import tool
from pydantic import BaseModel

import agentgraph as ag

BYTES = b"\x89PNG\xff\x00"
HALF = "bees \ud800 \udfff!"
LOOKALIKES = [
    {"$agentgraph": ["bytes", "eA=="]},
    {"$agentgraph": ["dict", {"$agentgraph": ["bytes", "eA=="]}]},
    {"$agentgraph": 1, "more": BYTES},
]
TAGS = ["dict", "items", "message", "tuple", "set", "str", "int", "bytes", "decimal", "uuid", "date"]
TEXTS = st.text(st.characters(exclude_categories=()))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False)
    | st.decimals(allow_nan=False)
    | TEXTS
    | st.binary()
    | st.datetimes()
    | st.datetimes(timezones=st.just(UTC))
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.ip_addresses()
)
KEYS = st.deferred(lambda: SCALARS | st.tuples(SCALARS, SCALARS) | st.frozensets(SCALARS, max_size=2))
DATA = st.recursive(
    SCALARS | st.binary().map(bytearray) | st.just(Path("a/b")),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.lists(inner).map(deque)
        | st.sets(KEYS)
        | st.frozensets(KEYS)
        | st.dictionaries(TEXTS | st.just("$agentgraph"), inner)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.builds(lambda tag, told: {"$agentgraph": [tag, told]}, st.sampled_from(TAGS), inner)
        | inner.map(lambda data: AIMessage("a", additional_kwargs={"data": data}))
    ),
    max_leaves=10,
)
FIELDS = st.dictionaries(TEXTS, DATA, max_size=2)
CALLS = st.lists(
    st.builds(
        lambda name, args, call: ToolCall(name=name, args=args, id=call, type="tool_call"),
        TEXTS,
        FIELDS,
        TEXTS,
    ),
    max_size=2,
)
INVALID = st.builds(
    lambda name, args, error: [InvalidToolCall(name=name, args=args, id="1", error=error)],
    TEXTS,
    TEXTS,
    TEXTS,
)
USAGE = st.just(UsageMetadata(input_tokens=1, output_tokens=2, total_tokens=3)) | st.none()
BLOCKS = TEXTS | st.lists(TEXTS | st.dictionaries(TEXTS, DATA, max_size=2), max_size=2)
SAID = {
    "content": BLOCKS,
    "response_metadata": FIELDS,
    "id": TEXTS | st.none(),
    "name": TEXTS | st.none(),
}
REPLY = {**SAID, "usage_metadata": USAGE}
RESULT = {
    **SAID,
    "tool_call_id": TEXTS,
    "artifact": DATA,
    "status": st.sampled_from(["success", "error"]),
}
CHUNK = st.builds(
    lambda name, args: [ToolCallChunk(name=name, args=args, id="1", index=0, type="tool_call_chunk")],
    TEXTS,
    TEXTS,
)
MESSAGES = st.one_of(
    st.builds(HumanMessage, **SAID),
    st.builds(SystemMessage, **SAID),
    st.builds(ChatMessage, **SAID, role=TEXTS),
    st.builds(FunctionMessage, **{**SAID, "name": TEXTS}),
    st.builds(AIMessage, **REPLY, tool_calls=CALLS, invalid_tool_calls=INVALID),
    st.builds(AIMessageChunk, **REPLY, tool_call_chunks=CHUNK),
    st.builds(HumanMessageChunk, **SAID),
    st.builds(SystemMessageChunk, **SAID),
    st.builds(ChatMessageChunk, **SAID, role=TEXTS),
    st.builds(ToolMessage, **RESULT),
    st.builds(ToolMessageChunk, **RESULT),
    TEXTS.map(lambda id_: RemoveMessage(id=id_)),
)


def event(**what):
    path = ag.RunPath([ag.RunStep("a")])
    return ag.AgentEvent(agent_name="a", run_path=path, address="a", id="1", **what)


def says(message):
    return event(output=ag.Output(message=message))


def sent(told):
    """Return an event that went through JSON and UTF-8."""
    line = json.dumps(told.to_dict(), allow_nan=False).encode("utf-8")
    return ag.AgentEvent.from_dict(json.loads(line))


EVENTS = {
    "content": says(HumanMessage([{"type": "image", "source": {"data": BYTES}}, HALF])),
    "text": says(AIMessage(HALF, id=HALF)),
    "chunk": event(output=ag.Output(message=AIMessageChunk(HALF), partial=True)),
    "additional_kwargs": says(AIMessage("a", additional_kwargs={"audio": {"data": BYTES}})),
    "response_metadata": says(AIMessage("a", response_metadata={"logprob": float("-inf")})),
    "artifact": says(ToolMessage("a", tool_call_id="1", artifact=BYTES)),
    "artifacts": says(ToolMessage("a", tool_call_id="1", artifact={"files": [BYTES, b""]})),
    "custom": event(output=ag.Output(custom={"data": BYTES, HALF: HALF, "inf": float("inf")})),
    "action": event(action=ag.Action(custom=[BYTES, HALF])),
    "question": event(
        action=ag.Action(interrupted=ag.Interrupt(id="1", address="a", agent_name="a", value=BYTES))
    ),
    "error": event(error=HALF),
}


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_goes_through_json_and_is_the_same(name):
    assert sent(EVENTS[name]) == EVENTS[name]


@pytest.mark.parametrize("data", LOOKALIKES)
def test_what_looks_like_our_own_key_stays_what_it_is(data):
    told = event(output=ag.Output(custom=data))
    assert sent(told) == sent(sent(told)) == told


@given(DATA)
def test_any_data_goes_through_json(data):
    asked = ag.Interrupt(id="1", address="a", agent_name="a", value=data, response_schema={"x": data})
    for told in (
        event(output=ag.Output(custom=data)),
        event(action=ag.Action(custom=data)),
        event(action=ag.Action(interrupted=asked)),
    ):
        assert sent(told) == told


@given(MESSAGES)
def test_any_message_goes_through_json(message):
    told = says(message)
    again = sent(told)
    assert again == told
    assert type(again.message) is type(message)
    assert told.to_sse().encode("utf-8")


@given(TEXTS, TEXTS, TEXTS, st.lists(TEXTS))
def test_any_text_of_an_event_goes_through_json(name, error, id, discarded):
    told = ag.AgentEvent(
        agent_name=name,
        run_path=ag.RunPath([ag.RunStep(name)]),
        address=name,
        action=ag.Action(discarded=tuple(discarded)),
        error=error,
        id=id,
        thread_id=name,
    )
    assert sent(told) == told


@dataclass
class Point:
    x: int
    data: bytes


class Model(BaseModel):
    name: str
    when: date
    inner: Point


class Color(Enum):
    RED = "red"


class Size(IntEnum):
    BIG = 3


class Never(tzinfo):
    def utcoffset(self, when: datetime | None) -> timedelta:
        raise RuntimeError("never")


NEVER = datetime(2026, 11, 1, tzinfo=Never())


class Own(AIMessage):
    type: Any = "own"
    extra: Any = None


def test_what_has_fields_is_told_as_an_object_of_them():
    data = {"model": Model(name="m", when=date(2026, 11, 1), inner=Point(1, BYTES)), "color": Color.RED}
    again = sent(event(output=ag.Output(custom=data)))
    point = {"x": 1, "data": BYTES}
    assert again.output.custom == {
        "model": {"name": "m", "when": date(2026, 11, 1), "inner": point},
        "color": "red",
    }
    assert sent(again) == again


def test_a_number_or_text_of_a_subclass_is_told_as_its_base():
    assert sent(event(output=ag.Output(custom=[Size.BIG, True]))).output.custom == [3, True]


def test_a_message_of_a_class_of_ones_own_is_told_as_that_of_langchain():
    again = sent(says(Own("Bees.", extra=BYTES)))
    assert type(again.message) is AIMessage
    assert (again.text, again.message.extra) == ("Bees.", BYTES)


def test_what_has_no_form_is_told_as_the_same_text_each_time():
    def told(value):
        return event(output=ag.Output(custom=[value, 1])).to_dict()["output"]["custom"]

    round_and_round: list[Any] = []
    round_and_round.append(round_and_round)
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    for value in (NEVER, object(), Point, ValueError("x"), iter([1]), round_and_round, deep, len, 1j):
        first, one = json.loads(json.dumps(told(value)))
        assert one == 1
        assert "0x" not in json.dumps(first)
    assert told(object())[0] == told(object())[0] == "<object object>"
    assert told(ValueError("x"))[0] == "ValueError('x')"


def test_no_class_is_made_that_json_names():
    for tag in ("Point", "model", "os.system", "lc", "object"):
        data = {"$agentgraph": [tag, ["x"]]}
        told = event(output=ag.Output(custom=1)).to_dict()
        told["output"]["custom"] = data
        assert ag.AgentEvent.from_dict(told).output.custom == data


def test_an_event_of_before_has_what_it_lacks_by_default():
    told = event(error="no").to_dict()
    del told["thread_id"]
    assert ag.AgentEvent.from_dict(told) == event(error="no")


def test_bytes_have_a_form_that_other_programs_can_read():
    told = event(output=ag.Output(custom=b"bees"))
    assert told.to_dict()["output"]["custom"] == {"$agentgraph": ["bytes", "YmVlcw=="]}


def test_a_server_sent_event_can_be_written_whatever_it_holds():
    for told in EVENTS.values():
        assert told.to_sse().encode("utf-8").endswith(b"\n\n")
    assert EVENTS["text"].to_sse().startswith("event: message\n")
    odd = event(output=ag.Output(custom=1)).__class__(
        agent_name="a", run_path=ag.RunPath([]), address="a", id=f"1\n{HALF}", error="no"
    )
    assert odd.to_sse().split("\n")[1] == "id: 1 bees \\ud800 \\udfff!"


def test_what_has_no_json_form_is_told_as_a_text():
    class Mute:
        def __repr__(self):
            raise RuntimeError

    told = says(ToolMessage("a", tool_call_id="1", artifact=[Mute(), 2.5])).to_dict()
    assert told["output"]["message"]["data"]["artifact"] == ["<Mute, whose repr fails>", 2.5]


def test_a_tool_with_bytes_as_its_artifact_is_told_as_json(drive):
    @tool(response_format="content_and_artifact")
    def draw() -> tuple[str, bytes]:
        """Draws."""
        return "Drawn.", BYTES

    call = {"name": "draw", "args": {}, "id": "1"}
    tree = ag.chat_agent("a", scripted(AIMessage("", tool_calls=[call]), "There."), tools=[draw])
    told = list(drive.run(ag.Runner(tree), "Go."))
    assert told[1].message.artifact == BYTES
    assert [sent(each) for each in told] == told
