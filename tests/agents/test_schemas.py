"""Schemas: what an answer must fit, as types and as JSON schemas."""

import json
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import Enum
from math import inf, nan
from typing import Annotated, Any, Literal, NotRequired, Optional, Union
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from agentgraph import AgentGraphError
from agentgraph.agents.schemas import answer_fault, json_schema, plain, schema_fault
from agentgraph.graph.stamps import Asker, EventOrder, addressed, asker_of
from agentgraph.safe_repr import shown


class Address(BaseModel):
    street: str
    number: int = Field(gt=0)


class Person(BaseModel):
    name: str
    age: int | None = None
    homes: list[Address] = []


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    ok: bool


class Aliased(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    first_name: str = Field(alias="firstName")


class Review(TypedDict):
    verdict: Literal["good", "bad"]
    why: NotRequired[str]


@dataclass
class Point:
    x: int
    y: float = 0.0


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    barks: bool


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Folder(BaseModel):
    folders: "list[Folder]" = []


ELM = {"street": "Elm", "number": 1}
UUID_1 = "12345678-1234-5678-1234-567812345678"
STRING = "Input should be a valid string"
INTEGER = "Input should be a valid integer"
NUMBER = "Input should be a valid number"
OBJECT = "Input should be an object"


def fault(schema: Any, answer: Any) -> str | None:
    """Return the fault of an answer to a question that was saved and read again."""
    assert schema_fault(schema) is None
    return answer_fault(json.loads(json.dumps(json_schema(schema))), answer)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (str, ["yes", "yes\nno"], [(1, STRING), (None, STRING)]),
        (int, [3], [("1", INTEGER), (True, INTEGER), (1.5, INTEGER), (None, INTEGER)]),
        (float, [2.5, 2], [("2.5", NUMBER), (True, NUMBER)]),
        (bool, [True], [(n, "Input should be a valid boolean") for n in (1, "true", None)]),
        (type(None), [None], [(False, "Input should be None")]),
        (Literal["a", "b"], ["b"], [("c", "must be one of ['a', 'b']")]),
        (Literal[1, 2], [2], [(answer, "must be one of [1, 2]") for answer in ("1", True)]),
        (Literal["a", 1, None], [None], [("b", "must be one of ['a', 1, None]")]),
        (Literal["yes"], ["yes"], [("no", "must be one of ['yes']")]),
        (Colour, ["red"], [("green", "must be one of ['red', 'blue']")]),
        (list, [[1, "two", None]], [("a", "Input should be a valid array")]),
        (list[int], [[1]], [({"0": 1}, "Input should be a valid array"), ([1, "2"], f"1: {INTEGER}")]),
        (list[list[str]], [[["a"], []]], [([["a", 1]], f"0.1: {STRING}")]),
        (dict[str, int], [{"a": 1}], [({"a": "1"}, f"a: {INTEGER}"), ([], OBJECT)]),
        (Optional[int], [None, 1], [("1", f"{INTEGER}; Input should be None")]),  # noqa: UP045
        (int | str, ["one", 1], [(None, f"{INTEGER}; {STRING}"), (1.5, f"{INTEGER}; {STRING}")]),
        (Union[list[int], None], [[1], None], [(["a"], f"0: {INTEGER}")]),  # noqa: UP007
        (Annotated[int, Field(le=5)], [5], [(6, "Input should be less than or equal to 5")]),
        (
            Address,
            [ELM],
            [
                ({"street": "Elm"}, "number: Field required"),
                (ELM | {"street": 1}, f"street: {STRING}"),
                (ELM | {"number": 0}, "number: Input should be greater than 0"),
                ({}, "street: Field required; number: Field required"),
                ("Elm 1", OBJECT),
            ],
        ),
        (
            Person,
            [{"name": "Eve"}, {"name": "Eve", "age": None, "homes": [ELM]}],
            [({"name": "Eve", "homes": [ELM | {"number": "1"}]}, f"homes.0.number: {INTEGER}")],
        ),
        (Strict, [{"ok": 1 > 2}], [({"ok": True, "why": "so"}, "why: Extra inputs are not permitted")]),
        (Aliased, [{"firstName": "Eve"}], [({"first_name": "Eve"}, "firstName: Field required")]),
        (
            Review,
            [{"verdict": "good"}, {"verdict": "bad", "why": "dull"}],
            [
                ({"verdict": "so so"}, "verdict: must be one of ['good', 'bad']"),
                ({"verdict": "bad", "why": None}, f"why: {STRING}"),
            ],
        ),
        (Point, [{"x": 1}, {"x": 1, "y": 2.5}], [({"y": 1.0}, "x: Field required")]),
        (
            Cat | Dog,
            [{"kind": "dog", "barks": True}],
            [
                ({"kind": "cat", "barks": True}, "lives: Field required"),
                ({"kind": "cow"}, "kind: must be one of ['cat', 'dog']"),
                ({}, "kind: Field required; lives: Field required; barks: Field required"),
            ],
        ),
        (Annotated[Cat | Dog, Field(discriminator="kind")], [{"kind": "cat", "lives": 9}], []),
        (date, ["2026-11-20"], [(day, "Input should be a valid date") for day in ("soon", "0")]),
        (date, [], [(3, STRING)]),
        (datetime, ["2026-11-20T14:00:00Z"], [("1700000000", "Input should be a valid date-time")]),
        (time, ["14:00:00"], [("noon", "Input should be a valid time")]),
        (timedelta, ["PT5M"], [("soon", "Input should be a valid duration")]),
        (UUID, [UUID_1], [("12345", "Input should be a valid uuid")]),
        (Any, ["anything", None], []),
        (Folder, [{}, {"folders": [{"folders": []}]}], [({"folders": [1]}, f"folders.0: {OBJECT}")]),
        (tuple[int, str], [[1, "a"]], [([1], "must have at least 2 items, and has 1")]),
        (set[int], [[], [1, 2]], [([1, 1], "[1, 1] has non-unique elements")]),
    ],
)
def test_an_answer_must_fit_a_type(schema: Any, good: list[Any], bad: list[tuple[Any, str]]) -> None:
    assert [answer for answer in good if fault(schema, answer) is not None] == []
    assert [(answer, fault(schema, answer)) for answer, _ in bad] == bad


PAIR = {
    "type": "array",
    "items": {"$ref": "#/$defs/pair"},
    "$defs": {
        "id": {"type": "integer"},
        "pair": {"type": "object", "properties": {"a": {"$ref": "#/$defs/id"}}},
    },
}
PATTERNS = {"patternProperties": {"^a": {}}, "properties": {"b": {}}, "additionalProperties": False}
PROPERTIES: Any = {"type": "object", "properties": {"a": {"type": "integer"}}}
NOTES = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "answer",
    "$comment": "for us",
    "title": "Answer",
    "description": "A number.",
    "default": 1,
    "examples": [1, 2],
    "deprecated": True,
    "readOnly": False,
    "writeOnly": False,
}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "string"}, ["", "a"], [1, None, ["a"]]),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "abc"], ["a", "", "abcd"]),
        ({"type": "string", "pattern": "^b+$"}, ["bb"], ["abc"]),
        ({"type": "integer"}, [0, -3, 10**30], [True, "1", 1.5, 1.0, None]),
        ({"type": "integer", "minimum": 1, "maximum": 3}, [1, 3], [0, 4]),
        ({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 3}, [2], [1, 3]),
        ({"type": "integer", "multipleOf": 5}, [0, 10], [4]),
        ({"type": "number"}, [0, 1, 2.5, -1e9], [True, "1", None]),
        ({"type": "number", "minimum": 0.5, "exclusiveMaximum": 1}, [0.5, 0.9], [0.4, 1]),
        ({"type": "boolean"}, [True, False], [0, 1, 0.0, "true", "", [], None]),
        ({"type": "null"}, [None], [0, "", False, [], {}]),
        ({"type": "array"}, [[], [1, "a", None]], ["a", {}, None]),
        ({"type": "array", "items": {"type": "integer"}}, [[], [1]], [["1"], [True]]),
        ({"type": "array", "minItems": 1, "maxItems": 2}, [[1], [1, 2]], [[], [1, 2, 3]]),
        ({"type": "object"}, [{}, {"a": 1}], [[], "a", None]),
        (PROPERTIES, [{}, {"a": 1, "b": 2}], [{"a": "1"}]),
        ({**PROPERTIES, "required": ["a"]}, [{"a": 1}, {"a": 1, "b": 2}], [{}, {"b": 1}, {"a": None}]),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, [{}, {"a": 1}], [{"a": "1"}]),
        ({"properties": {"a": {"type": "string"}}}, [{}, {"a": "b"}, 1], [{"a": 1}]),
        ({"type": ["string", "null"]}, ["a", None], [1]),
        ({"type": ["string", "integer"], "minLength": 2, "minimum": 3}, ["ab", 3], ["a", 2, None]),
        ({"enum": ["a", 1, None, [2], {"b": 3}]}, ["a", 1, None, [2], {"b": 3}], ["b", "1", [], {}]),
        ({"enum": [True, 0]}, [True, 0], [1, False]),
        ({"const": None}, [None], [0, "", False]),
        ({"const": False}, [False], [0, None]),
        ({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 3}]}, ["a", 3], [2, None]),
        ({"oneOf": [{"type": "integer"}, {"minimum": 3}]}, [1, 3.5], [4, 2.5]),
        ({"allOf": [{"type": "string"}, {"minLength": 1}]}, ["a"], ["", 1]),
        ({"if": {"type": "string"}, "then": {"minLength": 1}}, ["a", 1], [""]),
        (PAIR, [[], [{"a": 1}]], [[{"a": "1"}]]),
        ({"$ref": "#/$defs/a", "minLength": 1, "$defs": {"a": {"type": "string"}}}, ["a"], ["", 1]),
        ({"type": "object", "properties": {"more": {"$ref": "#"}}}, [{"more": {}}], [{"more": 1}]),
        ({}, [None, 0, "a", [], {}], []),
        ({"type": "integer", **NOTES}, [3], ["3"]),
        (None, [None, False, 0, "", [], {}, "anything"], []),
    ],
    ids=lambda given: json.dumps(given)[:60] if isinstance(given, dict) else "",
)
def test_an_answer_must_fit_a_json_schema(schema: Any, good: list[Any], bad: list[Any]) -> None:
    assert schema_fault(schema) is None
    assert json_schema(schema) == schema
    assert [answer for answer in good if answer_fault(schema, answer) is not None] == []
    assert [answer for answer in bad if answer_fault(schema, answer) is None] == []


STOP = {"properties": {"do": {"const": "stop"}}, "required": ["do"]}
GO = {"properties": {"do": {"const": "go"}, "to": {"type": "string"}}, "required": ["do", "to"]}
TAGGED: Any = {"anyOf": [{"type": "object", **STOP}, {"type": "object", **GO}]}
UNCHECKED = "a number in it cannot be checked"
DEEP: Any = []
for _ in range(50_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("schema", "answer", "text"),
    [
        ({"type": ["string", "null"]}, 1, "Input should be a valid string or None"),
        ({"minimum": 3}, 2, "Input should be greater than or equal to 3"),
        ({"exclusiveMinimum": 3}, 3, "Input should be greater than 3"),
        ({"exclusiveMaximum": 3}, 3, "Input should be less than 3"),
        ({"multipleOf": 3}, 4, "Input should be a multiple of 3"),
        ({"minItems": 1}, [], "must have at least 1 item, and has 0"),
        ({"maxItems": 2}, [1, 2, 3], "must have at most 2 items, and has 3"),
        (PATTERNS, {"ab": 1, "b": 2}, None),
        (PATTERNS, {"ab": 1, "b": 2, "c": 3}, "c: Extra inputs are not permitted"),
        ({"oneOf": [{}, {}]}, 1, "fits more than one of its alternatives"),
        ({"multipleOf": 0.5}, inf, f"{UNCHECKED} (cannot convert Infinity to integer ratio)"),
        ({"multipleOf": 0.5}, nan, f"{UNCHECKED} (cannot convert float NaN to integer)"),
        ({"items": {"$ref": "#"}}, DEEP, "it is nested too deep to be checked"),
        (TAGGED, {"do": "stop"}, None),
        (TAGGED, {"do": "go", "to": "bed"}, None),
        (TAGGED, {"do": "go"}, "to: Field required"),
        (TAGGED, {"do": "go", "to": 3}, f"to: {STRING}"),
        (TAGGED, {"do": "run"}, "do: must be one of ['stop', 'go']"),
        (TAGGED, {"do": ["go"]}, "do: must be one of ['stop', 'go']"),
        (TAGGED, {}, "do: Field required; to: Field required"),
        (TAGGED, "go", "Input should be an object"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_a_fault_is_put_in_few_words(schema: Any, answer: Any, text: str | None) -> None:
    assert answer_fault(schema, answer) == text


def test_what_is_said_of_a_long_answer_is_short() -> None:
    assert len(str(answer_fault({"uniqueItems": True}, ["x" * 10_000] * 2))) <= 201


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(json_values, json_values)
def test_a_const_fits_itself_and_nothing_else(value: Any, other: Any) -> None:
    assert answer_fault({"const": value}, value) is None
    assert (answer_fault({"const": value}, other) is None) == (in_json(value) == in_json(other))


def in_json(value: Any) -> str:
    """Return a value as text by which JSON schemas compare it: there 1 is 1.0, and not true."""

    def whole(each: Any) -> Any:
        if isinstance(each, dict):
            return {key: whole(inner) for key, inner in each.items()}
        if isinstance(each, list):
            return [whole(inner) for inner in each]
        return int(each) if isinstance(each, float) and each.is_integer() else each

    return json.dumps(whole(value), sort_keys=True)


KINDS = "type: must be one of ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string']"


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "text"}, KINDS),
        ({"$ref": "#/$defs/Person"}, "it refers to '#/$defs/Person', which is not in it"),
        ({"$ref": "https://example.org/x"}, "it refers to 'https://example.org/x', which is not in it"),
        ({"properties": {"a": "string"}}, "properties.a: Input should be an object or a valid boolean"),
        ({"type": "string", "pattern": "("}, "pattern: Input should be a valid regex"),
        ({"minLength": "two"}, f"minLength: {INTEGER}"),
        ({"anyOf": []}, "anyOf: must have at least 1 item, and has 0"),
        ({"examples": [{"$ref": "no"}], "type": 5}, None),
        (fault, "a function is not a type"),
        ("yes", None),
        (3, None),
        ([], None),
        (object(), None),
    ],
    ids=lambda given: "" if given is None or isinstance(given, str) else type(given).__name__,
)
def test_what_is_neither_a_type_nor_a_schema_is_refused(schema: Any, why: str | None) -> None:
    text = str(schema_fault(schema))
    assert text.startswith(f"the response schema {shown(schema)} is neither a type nor a JSON schema (")
    assert "\n" not in text
    assert why is None or text.removesuffix("; pass a pydantic model or another type").endswith(
        f"({why})"
    )


def test_a_type_becomes_the_json_schema_that_pydantic_gives_it() -> None:
    assert json_schema(Literal["a", "b"]) == {"enum": ["a", "b"], "type": "string"}
    assert json_schema(Strict) == Strict.model_json_schema()


@pytest.mark.parametrize("schema", [None, json_schema(Person), {"type": "integer", "$comment": "mine"}])
def test_a_schema_can_also_say_who_asks(schema: Any) -> None:
    with_address = addressed(schema, "report/refine[1]/boss")
    assert asker_of(with_address) == Asker("report/refine[1]/boss", schema=schema)
    assert asker_of(schema) == Asker(schema=schema)
    order = EventOrder(1, 1_795_487_607_497_893, "1ef:boss")
    assert asker_of(addressed(with_address, "boss", 2, order)) == Asker("boss", 2, order, schema)
    assert schema_fault(with_address) is None
    for answer in (3, "3", None, {"name": "Eve"}):
        assert answer_fault(with_address, answer) == answer_fault(schema, answer)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (None, None),
        (False, False),
        (0, 0),
        ("größe\n", "größe\n"),
        ([1, (2, 3)], [1, [2, 3]]),
        ({1: {"b": None}}, {"1": {"b": None}}),
        (Person(name="Eve"), {"name": "Eve", "age": None, "homes": []}),
        ([Address(street="Elm", number=1)], [ELM]),
        (Aliased(firstName="Eve"), {"firstName": "Eve"}),
        (Point(x=1), {"x": 1, "y": 0.0}),
        (Colour.RED, "red"),
        (date(2026, 11, 20), "2026-11-20"),
        (UUID(UUID_1), UUID_1),
    ],
)
def test_a_value_becomes_plain_data_that_fits_its_type(value: Any, data: Any) -> None:
    assert json.loads(json.dumps(plain(value))) == plain(value) == data
    if not isinstance(value, dict | list | None):
        assert fault(type(value), data) is None


def test_a_value_without_json_form_is_refused() -> None:
    with pytest.raises(AgentGraphError) as refused:
        plain({"a": [fault]})
    assert str(refused.value) == (
        f"{{'a': [{shown(fault)}]}} has no JSON form (Unable to serialize unknown type: "
        f"{type(fault)!r}); use plain data: strings, numbers, lists, dicts"
    )
