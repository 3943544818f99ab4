"""Schemas: what an answer must fit, as types and as JSON schemas."""

import json
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, Optional, Union
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from agentgraph import AgentGraphError
from agentgraph.agents.schemas import answer_fault, json_schema, plain, schema_fault
from agentgraph.graph.moments import addressed, asker, unaddressed


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


def fault(schema: Any, answer: Any) -> str | None:
    """Return what is said of an answer, as it is when a question was kept and read again."""
    assert schema_fault(schema) is None
    return answer_fault(json.loads(json.dumps(json_schema(schema))), answer)


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        (str, "yes"),
        (str, "yes\nno"),
        (int, 3),
        (float, 2.5),
        (float, 2),
        (bool, True),
        (type(None), None),
        (Literal["a", "b"], "b"),
        (Literal[1, 2], 2),
        (Literal["a", 1, None], None),
        (list, [1, "two", None]),
        (list[int], [1, 2]),
        (list[list[str]], [["a"], []]),
        (dict, {"a": 1}),
        (dict[str, int], {"a": 1, "b": 2}),
        (Optional[int], None),  # noqa: UP045
        (Optional[int], 1),  # noqa: UP045
        (int | str, "one"),
        (Union[list[int], dict[str, int], None], {"a": 1}),  # noqa: UP007
        (Annotated[int, Field(ge=1, le=5)], 5),
        (Annotated[str, Field(pattern="^[a-z]+$")], "abc"),
        (Address, {"street": "Elm", "number": 1}),
        (Person, {"name": "Eve"}),
        (Person, {"name": "Eve", "age": None, "homes": [{"street": "Elm", "number": 1}]}),
        (Strict, {"ok": False}),
        (Aliased, {"firstName": "Eve"}),
        (Review, {"verdict": "good"}),
        (Review, {"verdict": "bad", "why": "dull"}),
        (Point, {"x": 1}),
        (Point, {"x": 1, "y": 2.5}),
        (Colour, "red"),
        (Cat | Dog, {"kind": "dog", "barks": True}),
        (Annotated[Cat | Dog, Field(discriminator="kind")], {"kind": "cat", "lives": 9}),
        (list[Person], [{"name": "Eve"}]),
        (dict[str, Address], {"home": {"street": "Elm", "number": 1}}),
        (date, "2026-11-20"),
        (datetime, "2026-11-20T14:00:00Z"),
        (time, "14:00:00"),
        (timedelta, "PT5M"),
        (UUID, "12345678-1234-5678-1234-567812345678"),
        (Any, "anything"),
        (Any, None),
    ],
)
def test_an_answer_that_fits_a_type_has_no_fault(schema, answer):
    assert fault(schema, answer) is None


@pytest.mark.parametrize(
    ("schema", "answer", "told"),
    [
        (str, 1, "Input should be a valid string"),
        (str, None, "Input should be a valid string"),
        (int, "1", "Input should be a valid integer"),
        (int, True, "Input should be a valid integer"),
        (int, 1.5, "Input should be a valid integer"),
        (int, None, "Input should be a valid integer"),
        (float, "2.5", "Input should be a valid number"),
        (float, True, "Input should be a valid number"),
        (bool, 1, "Input should be a valid boolean"),
        (bool, "true", "Input should be a valid boolean"),
        (bool, None, "Input should be a valid boolean"),
        (type(None), False, "Input should be None"),
        (Literal["a", "b"], "c", "must be one of ['a', 'b']"),
        (Literal[1, 2], "1", "must be one of [1, 2]"),
        (Literal[1, 2], True, "must be one of [1, 2]"),
        (Literal["yes"], "no", "must be one of ['yes']"),
        (Colour, "green", "must be one of ['red', 'blue']"),
        (list[int], "1", "Input should be a valid array"),
        (list[int], [1, "2"], "1: Input should be a valid integer"),
        (list[int], {"0": 1}, "Input should be a valid array"),
        (dict[str, int], {"a": "1"}, "a: Input should be a valid integer"),
        (dict[str, int], [["a", 1]], "Input should be an object"),
        (Annotated[int, Field(ge=1, le=5)], 6, "Input should be less than or equal to 5"),
        (Address, {"street": "Elm"}, "number: Field required"),
        (Address, {"street": "Elm", "number": 0}, "number: Input should be greater than 0"),
        (Address, {"street": 1, "number": 1}, "street: Input should be a valid string"),
        (Address, {}, "street: Field required; number: Field required"),
        (Address, "Elm 1", "Input should be an object"),
        (Strict, {"ok": True, "why": "so"}, "why: Extra inputs are not permitted"),
        (Aliased, {"first_name": "Eve"}, "firstName: Field required"),
        (Review, {"verdict": "so so"}, "verdict: must be one of ['good', 'bad']"),
        (Review, {"verdict": "bad", "why": None}, "why: Input should be a valid string"),
        (Point, {"y": 1.0}, "x: Field required"),
        (
            Person,
            {"name": "Eve", "homes": [{"street": "Elm", "number": "1"}]},
            "homes.0.number: Input should be a valid integer",
        ),
    ],
)
def test_an_answer_that_does_not_fit_a_type_is_told_where_and_why(schema, answer, told):
    assert fault(schema, answer) == told


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        (Optional[int], "1"),  # noqa: UP045
        (Optional[int], True),  # noqa: UP045
        (int | str, None),
        (int | str, 1.5),
        (list[int] | None, ["a"]),
        (Cat | Dog, {"kind": "cat", "barks": True}),
        (Cat | Dog, {"kind": "cow"}),
        (Person, {"name": "Eve", "age": "3"}),
        (date, "soon"),
        (date, "0"),
        (date, 3),
        (datetime, "soon"),
        (datetime, "1700000000"),
        (time, "noon"),
        (timedelta, "soon"),
        (UUID, "12345"),
    ],
)
def test_an_answer_that_does_not_fit_a_type_is_refused(schema, answer):
    assert fault(schema, answer) is not None


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "string"}, ["", "a"], [1, None, ["a"]]),
        ({"type": "string", "minLength": 2}, ["ab"], ["a", ""]),
        ({"type": "string", "maxLength": 2}, ["ab", ""], ["abc"]),
        ({"type": "string", "pattern": "b+"}, ["abc"], ["ac"]),
        ({"type": "string", "pattern": "^b+$"}, ["bb"], ["abc"]),
        ({"type": "integer"}, [0, -3, 10**30], [True, "1", 1.5, None]),
        ({"type": "integer", "minimum": 1, "maximum": 3}, [1, 3], [0, 4]),
        ({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 3}, [2], [1, 3]),
        ({"type": "integer", "multipleOf": 5}, [0, 10], [4]),
        ({"type": "number"}, [0, 1, 2.5, -1e9], [True, "1", None]),
        ({"type": "number", "minimum": 0.5, "exclusiveMaximum": 1}, [0.5, 0.9], [0.4, 1]),
        ({"type": "boolean"}, [True, False], [0, 1, "true", None]),
        ({"type": "null"}, [None], [0, "", False]),
        ({"type": "array"}, [[], [1, "a", None]], ["a", {}, None]),
        ({"type": "array", "items": {"type": "integer"}}, [[], [1]], [["1"], [True]]),
        ({"type": "array", "items": True}, [[1, "a"]], [1]),
        ({"type": "array", "items": {}}, [[1, "a"]], [1]),
        ({"type": "array", "minItems": 1, "maxItems": 2}, [[1], [1, 2]], [[], [1, 2, 3]]),
        ({"type": "object"}, [{}, {"a": 1}], [[], "a", None]),
        (
            {"type": "object", "properties": {"a": {"type": "integer"}}},
            [{}, {"a": 1, "b": 2}],
            [{"a": "1"}],
        ),
        (
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            [{"a": 1}, {"a": 1, "b": 2}],
            [{}, {"b": 1}, {"a": None}],
        ),
        ({"type": "object", "required": ["a"]}, [{"a": None}, {"a": 1, "b": 2}], [{}, {"b": 1}]),
        (
            {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
            [{}, {"a": 1}],
            [{"b": 1}, {"a": 1, "b": 2}],
        ),
        (
            {"type": "object", "properties": {"a": {}}, "additionalProperties": True},
            [{}, {"a": 1, "b": 2}],
            [[]],
        ),
        (
            {"type": "object", "properties": {"a": {}}, "additionalProperties": {}},
            [{}, {"a": 1, "b": 2}],
            [[]],
        ),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, [{}, {"a": 1}], [{"a": "1"}]),
        ({"type": "object", "additionalProperties": {}}, [{}, {"a": 1}], [[]]),
        ({"type": "object", "additionalProperties": False}, [{}], [{"a": 1}]),
        ({"type": ["string", "null"]}, ["a", None], [1]),
        ({"type": ["string", "integer"], "minLength": 2, "minimum": 3}, ["ab", 3], ["a", 2, None]),
        ({"type": ["array", "null"], "items": {"type": "string"}}, [["a"], None], [[1], "a"]),
        ({"enum": ["a", 1, None, [2], {"b": 3}]}, ["a", 1, None, [2], {"b": 3}], ["b", "1", [], {}]),
        ({"enum": [1]}, [1], [True, "1"]),
        ({"enum": [True, 0]}, [True, 0], [1, False]),
        ({"type": "string", "enum": ["a", "b"]}, ["a"], ["c", 1]),
        ({"const": "a"}, ["a"], ["b", None]),
        ({"const": None}, [None], [0, "", False]),
        ({"const": False}, [False], [0, None]),
        ({"type": "string", "const": "a"}, ["a"], ["b"]),
        ({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 3}]}, ["a", 3], [2, None]),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, ["a", None], [1]),
        ({"anyOf": [{"type": "string"}]}, ["a"], [1]),
        ({"allOf": [{"type": "string"}]}, ["a"], [1]),
        (
            {"$ref": "#/$defs/id", "$defs": {"id": {"type": "integer"}}},
            [1],
            ["1"],
        ),
        (
            {
                "type": "array",
                "items": {"$ref": "#/$defs/pair"},
                "$defs": {
                    "id": {"type": "integer"},
                    "pair": {"type": "object", "properties": {"a": {"$ref": "#/$defs/id"}}},
                },
            },
            [[], [{"a": 1}]],
            [[{"a": "1"}]],
        ),
        ({}, [None, 0, "a", [], {}], []),
        ({"title": "Anything", "description": "...", "examples": [1]}, [None, 0, "a"], []),
    ],
    ids=lambda given: json.dumps(given) if isinstance(given, dict) else "",
)
def test_each_keyword_of_a_json_schema_is_checked(schema, good, bad):
    assert schema_fault(schema) is None
    assert json_schema(schema) == schema
    assert [answer for answer in good if answer_fault(schema, answer) is not None] == []
    assert [answer for answer in bad if answer_fault(schema, answer) is None] == []


def test_notes_change_nothing():
    notes = {
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
    schema = {"type": "integer", **notes}
    assert schema_fault(schema) is None
    assert answer_fault(schema, 3) is None
    assert answer_fault(schema, "3") == "Input should be a valid integer"


@pytest.mark.parametrize("answer", [None, False, True, 0, 1, 0.0, "", "0", [], {}, [None]])
def test_a_falsy_answer_is_checked_like_any_other(answer):
    fitting = {
        "null": answer is None,
        "boolean": isinstance(answer, bool),
        "integer": type(answer) is int,
        "string": isinstance(answer, str),
        "array": isinstance(answer, list),
        "object": isinstance(answer, dict),
    }
    for kind, fits in fitting.items():
        assert (answer_fault({"type": kind}, answer) is None) is fits


@pytest.mark.parametrize("answer", [None, False, 0, "", [], {}, "anything", {"a": [1]}])
def test_without_a_schema_every_answer_fits(answer):
    assert schema_fault(None) is None
    assert json_schema(None) is None
    assert answer_fault(None, answer) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(json_values, json_values)
def test_a_const_fits_itself_and_nothing_else(value, other):
    schema = {"const": value}
    assert answer_fault(schema, value) is None
    assert (answer_fault(schema, other) is None) == (in_json(value) == in_json(other))


def in_json(value: Any) -> str:
    """Return a value as text by which JSON schemas compare it: there 1 is 1.0, and no true."""

    def whole(each: Any) -> Any:
        if isinstance(each, dict):
            return {key: whole(inner) for key, inner in each.items()}
        if isinstance(each, list):
            return [whole(inner) for inner in each]
        return int(each) if isinstance(each, float) and each.is_integer() else each

    return json.dumps(whole(value), sort_keys=True)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (Folder, [{}, {"folders": [{"folders": []}]}], [{"folders": [{"folders": 1}]}]),
        (tuple[int, str], [[1, "a"]], [[1], ["a", 1], [1, "a", 2]]),
        (set[int], [[], [1, 2]], [[1, 1], ["a"]]),
        ({"not": {"type": "string"}}, [1, None], ["a"]),
        ({"if": {"type": "string"}, "then": {"minLength": 1}}, ["a", 1], [""]),
        ({"type": "object", "patternProperties": {"^a": {"type": "null"}}}, [{"b": 1}], [{"ab": 1}]),
        (
            {"patternProperties": {"^a": {}}, "properties": {"b": {}}, "additionalProperties": False},
            [{"a": 1, "b": 2}],
            [{"c": 1}],
        ),
        ({"type": "object", "minProperties": 1}, [{"a": 1}], [{}]),
        ({"type": "array", "uniqueItems": True}, [[1, 2]], [[1, 1]]),
        ({"type": "array", "contains": {"const": 1}}, [[2, 1]], [[2]]),
        ({"allOf": [{"type": "string"}, {"minLength": 1}]}, ["a"], ["", 1]),
        ({"oneOf": [{"type": "integer"}, {"minimum": 3}]}, [1, 3.5], [4, 2.5]),
        ({"properties": {"a": {"type": "string"}}}, [{}, {"a": "b"}, 1], [{"a": 1}]),
        (
            {"properties": {"a": {"type": "null"}}, "additionalProperties": {"type": "integer"}},
            [{"a": None, "b": 1}],
            [{"b": "1"}],
        ),
        ({"type": "array", "items": False}, [[]], [[1]]),
        ({"$ref": "#/$defs/a", "minLength": 1, "$defs": {"a": {"type": "string"}}}, ["a"], ["", 1]),
        ({"type": "object", "properties": {"more": {"$ref": "#"}}}, [{"more": {}}], [{"more": 1}]),
    ],
)
def test_types_and_schemas_of_every_kind_are_checked(schema, good, bad):
    assert [answer for answer in good if fault(schema, answer) is not None] == []
    assert [answer for answer in bad if fault(schema, answer) is None] == []


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (
            {"type": "text"},
            "type: must be one of "
            "['array', 'boolean', 'integer', 'null', 'number', 'object', 'string']",
        ),
        ({"$ref": "#/$defs/Person"}, "it refers to '#/$defs/Person', which is not in it"),
        ({"$ref": "https://example.org/x"}, "it refers to 'https://example.org/x', which is not in it"),
        (
            {"type": "object", "properties": {"a": "string"}},
            "properties.a: Input should be an object or a valid boolean",
        ),
    ],
)
def test_a_schema_that_is_none_is_refused_with_the_reason(schema, told):
    assert schema_fault(schema) == (
        f"the response schema {schema} is neither a type nor a JSON schema ({told})"
    )


def test_what_is_said_of_a_long_answer_is_short():
    assert len(str(fault({"uniqueItems": True}, ["x" * 10_000] * 2))) < 300


@pytest.mark.parametrize(
    "schema",
    [
        "yes",
        3,
        [],
        object(),
        fault,
        {"type": 5},
        {"anyOf": []},
        {"type": "string", "minLength": "two"},
        {"type": "string", "pattern": "("},
    ],
)
def test_what_is_neither_a_type_nor_a_schema_is_refused(schema):
    told = schema_fault(schema)
    assert told is not None
    assert told.startswith(f"the response schema {schema!r} is neither a type nor a JSON schema (")
    assert "\n" not in told


def test_a_type_becomes_the_json_schema_that_pydantic_gives_it():
    assert json_schema(int) == {"type": "integer"}
    assert json_schema(Literal["a", "b"]) == {"enum": ["a", "b"], "type": "string"}
    assert json_schema(Strict) == Strict.model_json_schema()


@pytest.mark.parametrize(
    "schema",
    [None, {"type": "integer"}, json_schema(Person), {"type": "integer", "$comment": "mine"}],
)
def test_a_schema_can_also_say_who_asks(schema):
    with_address = addressed(schema, "report/refine[1]/boss")
    assert asker(with_address) == "report/refine[1]/boss"
    assert unaddressed(with_address) == schema
    assert schema_fault(with_address) is None
    for answer in (3, "3", None, {"name": "Eve"}):
        assert answer_fault(with_address, answer) == answer_fault(schema, answer)


def test_a_schema_that_says_nothing_of_who_asks_stays_as_it_is():
    assert asker(None) is asker({"type": "integer"}) is None
    assert asker({"type": "integer", "$comment": "mine"}) is None
    assert unaddressed(None) is None
    assert unaddressed({"type": "integer"}) == {"type": "integer"}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, None),
        (False, False),
        (0, 0),
        ("größe\n", "größe\n"),
        ([1, (2, 3)], [1, [2, 3]]),
        ({"a": {"b": None}}, {"a": {"b": None}}),
        ({1: "one"}, {"1": "one"}),
        (Person(name="Eve"), {"name": "Eve", "age": None, "homes": []}),
        ([Address(street="Elm", number=1)], [{"street": "Elm", "number": 1}]),
        (Aliased(firstName="Eve"), {"firstName": "Eve"}),
        (Point(x=1), {"x": 1, "y": 0.0}),
        (Colour.RED, "red"),
        (date(2026, 11, 20), "2026-11-20"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ],
)
def test_a_value_becomes_plain_data(value, told):
    assert plain(value) == told
    assert json.loads(json.dumps(plain(value))) == told


@pytest.mark.parametrize(
    "answer", [Person(name="Eve"), Point(x=1), Aliased(firstName="Eve"), Colour.BLUE]
)
def test_a_value_of_a_type_fits_that_type_as_plain_data(answer):
    assert fault(type(answer), plain(answer)) is None


class Secret:
    def __repr__(self) -> str:
        return "<secret>"


def test_a_value_without_json_form_is_refused():
    with pytest.raises(AgentGraphError) as refused:
        plain({"a": [Secret()]})
    assert str(refused.value) == (
        "{'a': [<secret>]} has no JSON form (Unable to serialize unknown type: "
        f"{Secret!r}); use plain data: strings, numbers, lists, dicts"
    )


TAGGED = {
    "anyOf": [
        {"type": "object", "properties": {"do": {"const": "stop"}}, "required": ["do"]},
        {
            "type": "object",
            "properties": {"do": {"const": "go"}, "to": {"type": "string"}},
            "required": ["do", "to"],
        },
    ]
}
"""Two kinds of objects that one property tells apart."""


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ({"do": "stop"}, None),
        ({"do": "go", "to": "bed"}, None),
        ({"do": "go"}, "to: Field required"),
        ({"do": "go", "to": 3}, "to: Input should be a valid string"),
        ({"do": "run"}, "do: must be one of ['stop', 'go']"),
        ({"do": ["go"]}, "do: must be one of ['stop', 'go']"),
        ({}, "do: Field required; to: Field required"),
        ("go", "Input should be an object"),
    ],
)
def test_of_objects_that_a_constant_tells_apart_the_named_one_is_checked(answer, fault):
    assert answer_fault(TAGGED, answer) == fault
