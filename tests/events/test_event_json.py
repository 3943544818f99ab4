"""An event as JSON is the same event, whatever it holds: bytes, half characters, dates, odd keys."""

import json
from collections import deque
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core import messages as lc
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from pydantic import BaseModel

import agentgraph as ag
from agentgraph.events.json_forms import as_json

BYTES = b"\x89PNG\xff\x00"
LOOKALIKE = {"$agentgraph": ["dict", {"$agentgraph": ["bytes", "eA=="]}]}
TAGS = ["dict", "items", "message", "tuple", "set", "str", "int", "bytes", "decimal", "uuid", "date"]
TEXTS = st.text(st.characters(exclude_categories=()))
SCALARS = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.integers(-(10**40), 10**40)),
    *(st.floats(allow_nan=False), st.decimals(allow_nan=False), TEXTS, st.binary()),
    *(st.datetimes(), st.datetimes(timezones=st.just(UTC)), st.dates(), st.times(), st.timedeltas()),
    *(st.uuids(), st.ip_addresses()),
)
KEYS = st.deferred(lambda: SCALARS | st.tuples(SCALARS, SCALARS) | st.frozensets(SCALARS, max_size=2))


def holding(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return containers of values: lists of all kinds, dicts that look like our own, messages."""
    return st.one_of(
        *(st.lists(inner).map(kind) for kind in (list, tuple, deque)),
        *(st.sets(KEYS), st.frozensets(KEYS)),
        st.dictionaries(TEXTS | st.just("$agentgraph"), inner),
        st.dictionaries(KEYS, inner, max_size=3),
        st.builds(lambda tag, value: {"$agentgraph": [tag, value]}, st.sampled_from(TAGS), inner),
        inner.map(lambda value: AIMessage("a", additional_kwargs={"value": value})),
    )


DATA = st.recursive(SCALARS | st.binary().map(bytearray) | st.just(Path("a/b")), holding, max_leaves=10)
FIELDS = st.dictionaries(TEXTS, DATA, max_size=2)
SAID = {
    "content": TEXTS | st.lists(TEXTS | FIELDS, max_size=2),
    "additional_kwargs": FIELDS,
    "response_metadata": FIELDS,
    "id": TEXTS | st.none(),
    "name": TEXTS | st.none(),
}
USAGE = st.sampled_from([None, UsageMetadata(input_tokens=1, output_tokens=2, total_tokens=3)])
CALL = st.fixed_dictionaries({"name": TEXTS, "args": FIELDS, "id": TEXTS, "type": st.just("tool_call")})
INVALID = st.fixed_dictionaries({"name": TEXTS, "args": TEXTS, "id": TEXTS, "error": TEXTS})
PIECE = st.fixed_dictionaries({"name": TEXTS, "args": TEXTS, "id": TEXTS, "index": st.just(0)})
RESULT = {"tool_call_id": TEXTS, "artifact": DATA, "status": st.sampled_from(["success", "error"])}
MADE = {"tool_calls": st.lists(CALL, max_size=2), "invalid_tool_calls": st.lists(INVALID, max_size=1)}
KINDS: list[tuple[list[Any], dict[str, Any]]] = [
    ([lc.HumanMessage, lc.HumanMessageChunk, lc.SystemMessage, lc.SystemMessageChunk], {}),
    ([lc.ChatMessage, lc.ChatMessageChunk], {"role": TEXTS}),
    ([lc.FunctionMessage], {"name": TEXTS}),
    ([AIMessage], {"usage_metadata": USAGE, **MADE}),
    ([lc.AIMessageChunk], {"usage_metadata": USAGE, "tool_call_chunks": st.lists(PIECE, max_size=1)}),
    ([ToolMessage, lc.ToolMessageChunk], RESULT),
]
MESSAGES = st.one_of(
    *(st.builds(kind, **{**SAID, **more}) for kinds, more in KINDS for kind in kinds),
    TEXTS.map(lambda id_: lc.RemoveMessage(id=id_)),
)


def event(**what: Any) -> ag.AgentEvent:
    path = ag.RunPath([ag.RunStep("a")])
    return ag.AgentEvent(**{"agent_name": "a", "run_path": path, "address": "a", "id": "1", **what})


def custom(data: Any) -> ag.AgentEvent:
    return event(output=ag.Output(custom=data))


def message(said: Any) -> ag.AgentEvent:
    return event(output=ag.Output(message=said))


def sent(given: ag.AgentEvent) -> ag.AgentEvent:
    """Return an event that went through JSON and UTF-8."""
    line = json.dumps(given.to_dict(), allow_nan=False).encode("utf-8")
    return ag.AgentEvent.from_dict(json.loads(line))


def data_of(given: ag.AgentEvent) -> Any:
    assert given.output is not None
    return given.output.custom


@given(DATA)
@example(LOOKALIKE)
@example({"$agentgraph": 1, "more": BYTES})
def test_any_data_goes_through_json(data: Any) -> None:
    asked = ag.Interrupt(id="1", address="a", agent_name="a", value=data, response_schema={"x": data})
    for each in (
        custom(data),
        event(action=ag.Action(custom=data)),
        event(action=ag.Action(interrupted=asked)),
    ):
        assert sent(each) == each


@given(MESSAGES, st.booleans())
def test_any_message_goes_through_json(said: Any, partial: bool) -> None:
    given = event(output=ag.Output(message=said, partial=partial))
    again = sent(given)
    assert again == given
    assert type(again.message) is type(said)
    assert given.to_sse().encode("utf-8")


@given(
    TEXTS,
    TEXTS,
    TEXTS,
    st.lists(TEXTS),
    st.lists(st.builds(ag.RunStep, TEXTS, st.none() | st.integers(0))),
)
def test_any_text_of_an_event_goes_through_json(
    name: str, error: str, own: str, discarded: list[str], steps: list[ag.RunStep]
) -> None:
    action = ag.Action(discarded=tuple(discarded), transfer_to=name, exit=True)
    given = event(agent_name=name, run_path=ag.RunPath(steps), address=name, id=own, thread_id=name)
    given = replace(given, action=action, error=error, turn=1, step=own, time=1795366000.123456)
    assert sent(given) == given


# The parts that do not return unchanged.


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


class Own(AIMessage):
    type: Any = "own"
    extra: Any = None


class Never(tzinfo):
    def utcoffset(self, when: datetime | None) -> timedelta:
        raise RuntimeError("never")


NEVER_TEXT = f"datetime.datetime(2026, 11, 1, 0, 0, tzinfo=<{__name__}.Never object>)"


class Mute:
    def __repr__(self) -> str:
        raise RuntimeError


def test_what_has_fields_becomes_an_object_of_them() -> None:
    again = sent(custom([Model(name="m", when=date(2026, 11, 1), inner=Point(1, BYTES)), Color.RED]))
    point = {"x": 1, "data": BYTES}
    assert data_of(again) == [{"name": "m", "when": date(2026, 11, 1), "inner": point}, "red"]
    assert sent(again) == again


def test_a_number_of_a_subclass_becomes_a_number() -> None:
    assert data_of(sent(custom([Size.BIG, True]))) == [3, True]


def test_a_message_of_a_class_of_ones_own_becomes_that_of_langchain() -> None:
    again = sent(message(Own("Bees.", extra=BYTES))).message
    assert type(again) is AIMessage
    assert (again.text, again.extra) == ("Bees.", BYTES)  # type: ignore[attr-defined]


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (object(), "<object object>"),
        (ValueError("x"), "ValueError('x')"),
        (len, "<built-in function len>"),
        (Point, f"{Point!r}"),
        (1j, "1j"),
        (Mute(), "<Mute, whose repr fails>"),
        (iter([1]), "<list_iterator object>"),
        (datetime(2026, 11, 1, tzinfo=Never()), NEVER_TEXT),
        (ENDLESS, ["[[...]]"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_form_becomes_a_text_without_memory_addresses(value: Any, text: Any) -> None:
    assert data_of(sent(custom([value, 2.5]))) == [text, 2.5]


def deep(levels: int) -> Any:
    return [deep(levels - 1)] if levels else 1


def test_lists_end_in_a_text_after_a_hundred_levels() -> None:
    assert as_json(deep(100)) == deep(100)
    assert json.dumps(as_json(deep(102))) == "[" * 100 + '"[[1]]"' + "]" * 100


@pytest.mark.parametrize("tag", ["Point", "model", "os.system", "lc", "object"])
def test_json_cannot_name_a_class_to_be_made(tag: str) -> None:
    data = {"$agentgraph": [tag, ["x"]]}
    given = custom(1).to_dict()
    given["output"]["custom"] = data
    assert data_of(ag.AgentEvent.from_dict(given)) == data


def test_json_of_an_older_version_has_defaults_for_what_it_lacks() -> None:
    given = event(error="no").to_dict()
    del given["thread_id"]
    assert ag.AgentEvent.from_dict(given) == event(error="no")


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (b"bees", {"$agentgraph": ["bytes", "YmVlcw=="]}),
        ((1, 2), {"$agentgraph": ["tuple", [1, 2]]}),
        ({1: "a"}, {"$agentgraph": ["items", [[1, "a"]]]}),
        (2**63 - 1, 2**63 - 1),
        (2**63, {"$agentgraph": ["int", "0x8000000000000000"]}),
        pytest.param({"b", "a"}, {"$agentgraph": ["set", ["a", "b"]]}, id="a set is sorted"),
    ],
    ids=repr,
)
def test_values_have_forms_that_other_programs_can_read(value: Any, form: Any) -> None:
    assert as_json(value) == form


# Server-sent events.


def received(stream: str) -> list[dict[str, str]]:
    """Read a stream as a browser does: a blank line ends an event, CR, LF and CRLF end a line."""
    events: list[dict[str, str]] = [{}]
    for line in stream.replace("\r\n", "\n").replace("\r", "\n").split("\n")[:-1]:
        field, _, value = line.partition(": ")
        if line:
            events[-1][field] = f"{events[-1][field]}\n{value}" if field in events[-1] else value
        else:
            events.append({})
    return events[:-1]


@given(st.text() | st.text("\r\n\t :\u2028\u2029\x85\x00é"))
def test_no_text_breaks_a_server_sent_event(text: str) -> None:
    question = ag.Interrupt(id="1", address="a", agent_name="a", value=text)
    given = [
        message(AIMessage(text)),
        custom({"text": text}),
        event(error=text, thread_id=text),
        event(action=ag.Action(interrupted=question)),
    ]
    read = received("".join(each.to_sse() for each in given))
    assert [ag.AgentEvent.from_dict(json.loads(each["data"])) for each in read] == given
    assert [list(each) for each in read] == [["event", "data"]] * 4


@pytest.mark.parametrize("own", ["a\nb", "a\r\nb", "a\n\ndata: {}", "a\rb", "a \ud800"])
def test_no_cursor_breaks_a_server_sent_event(own: str) -> None:
    given = event(cursor=own, error="no")
    (read,) = received(given.to_sse())
    assert list(read) == ["event", "id", "data"]
    assert read["id"] == " ".join(own.splitlines()).replace("\ud800", "\\ud800")
    assert ag.AgentEvent.from_dict(json.loads(read["data"])) == given
