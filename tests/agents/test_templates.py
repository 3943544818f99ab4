"""Templates: placeholders are filled from the values, all other text stays."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgraph import AgentGraphError, MissingValueError
from agentgraph.agents.templates import fill

VALUES = {
    "topic": "bees",
    "a": "{b}",
    "b": "}}",
    "odd": r"\1 \g<name> \n $ %s",
    "größe": "g",
    "話題": "w",
    "_t2": "t",
    "Topic": "B",
    "none": None,
    "zero": 0,
    "empty": "",
    "real": 2.5,
    "true": True,
    "list": [1, "two"],
    "tuple": (1, "two"),
    "map": {"größe": [1, None]},
    "nothing": [],
    "user": "u",
    "x": "x",
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("", ""),
        ("Write about {topic}, {topic}{Topic}.", "Write about bees, beesB."),
        ("{größe} {話題} {_t2}", "g w t"),
        ("<{topic?}> <{missing?}>", "<bees> <>"),
        ("<{empty}> <{empty?}> <{none?}> <{zero?}> <{nothing?}>", "<> <> <None> <0> <[]>"),
        ("{none} {zero} {real} {true}", "None 0 2.5 True"),
        ("{list} {tuple} {map}", '[1, "two"] [1, "two"] {"größe": [1, null]}'),
        ("{odd}", r"\1 \g<name> \n $ %s"),
        ("{a} {{{b}}}", "{b} {}}}"),
        ("{{topic}} {{}} {{ {topic} }}", "{topic} {} { bees }"),
        ("{{{topic}}} {{{{topic}}}}", "{bees} {{topic}}"),
        ('{"a": {"b": {topic}}}', '{"a": {"b": bees}}'),
        (
            'About {topic}, as {"a": {"b": 1}}, {"t": "{topic}"} or {{so}}: {"c": {"d": 2}}',
            'About bees, as {"a": {"b": 1}}, {"t": "bees"} or {so}: {"c": {"d": 2}}',
        ),
    ],
)
def test_placeholders_are_filled_and_doubled_braces_are_braces(template: str, text: str) -> None:
    assert fill(template, VALUES, "writer") == text


@pytest.mark.parametrize(
    "text",
    [
        '{"a": {"b": {"c": {}}}}',
        '[{"a": 1}, {"b": [{"c": 2}]}]',
        '{\n  "a": {\n    "b": 1}}',
        "{'a': {'b': 1}}",
        "function f() { return {a: {b: 1}} }",
        "h1 { color: red; }",
        *("{ topic }", "{topic }", "{}", "{0}", "{1a}", "{a-b}", "{a b}", "{topic??}", "{?}"),
        *("{", "}", "}}", "{topic", "topic}", "{top{ic", "a } b { c"),
        *("{user.name}", "{user.__class__.__init__.__globals__}", "{x[0]}", "{x['a']}"),
        *("{x!r}", "{x!s}", "{x:>5}", "{x:}", "{x=}", "{x()}"),
    ],
)
def test_any_other_text_in_braces_stays_as_it_is(text: str) -> None:
    assert fill(text, VALUES, "writer") == text


@pytest.mark.parametrize(
    ("template", "values", "missing", "there"),
    [
        ("About {topic}.", {"tone": "dry", "length": 3}, "topic", "length, tone"),
        ("{a} {b} {c}", {"a": 1}, "b", "a"),
        ("{Topic}", {"topic": "bees"}, "Topic", "topic; did you mean 'topic'?"),
        ("{topic}", {}, "topic", "none"),
    ],
)
def test_the_first_missing_value_is_named(template: str, values: Any, missing: str, there: str) -> None:
    with pytest.raises(MissingValueError) as refused:
        fill(template, values, "writer")
    assert str(refused.value) == (
        f"writer: the template names {{{missing}}}, but the run has no value of that name (available: "
        f"{there}); pass it with values=, or write {{{missing}?}} if it may be missing"
    )
    assert isinstance(refused.value, AgentGraphError)
    assert (refused.value.agent_name, refused.value.placeholder) == ("writer", missing)
    assert refused.value.available == tuple(sorted(values))


plain_text = st.text(st.characters(exclude_characters="{}"), max_size=8)
text_in_braces = st.recursive(
    plain_text,
    lambda inner: st.lists(inner).map(lambda parts: "{" + "".join(parts) + "}"),
    max_leaves=10,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | plain_text,
    lambda inner: st.lists(inner) | st.dictionaries(plain_text, inner),
    max_leaves=20,
)


@given(text_in_braces)
def test_a_text_with_its_braces_doubled_becomes_the_text(text: str) -> None:
    assert fill(text.replace("{", "{{").replace("}", "}}"), {}, "writer") == text


@given(json_values, st.sampled_from([None, 1]))
def test_json_stays_as_it_is(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    assert fill(text, {}, "writer") == text


@given(plain_text, st.text())
def test_any_value_is_filled_in_as_it_is(around: str, value: str) -> None:
    assert fill(f"{around}{{x}}{around}", {"x": value}, "writer") == f"{around}{value}{around}"


@pytest.mark.parametrize("piece", ["{topic} and ", "{{{topic}}}", '{"a": {"b": 1}}', "{", "{a"])
def test_a_long_template_is_filled(piece: str) -> None:
    """At quadratic cost this does not end in the time of a test run."""
    filled = fill(piece * 100_000 + "{" + "a" * 1_000_000, VALUES, "writer")
    assert filled.count("bees") == (100_000 if "topic" in piece else 0)
