"""Templates: placeholders are filled from the values, all other text stays."""

import json
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgraph import AgentGraphError, MissingValueError
from agentgraph.agents.templates import fill

BEES = {"topic": "bees"}


def filled(template: str, **values: object) -> str:
    return fill(template, values, "writer")


def test_a_placeholder_is_filled_from_the_values():
    assert filled("Write about {topic}.", topic="bees") == "Write about bees."


def test_every_placeholder_is_filled_wherever_it_stands():
    assert filled("{a}{b}{a} and {b}", a="x", b="y") == "xyx and y"


def test_a_template_without_placeholders_stays_as_it_is():
    assert filled("Write.") == "Write."
    assert filled("") == ""


@pytest.mark.parametrize("name", ["topic", "topic_2", "_topic", "Topic", "größe", "話題"])
def test_any_plain_name_can_be_a_placeholder(name):
    assert filled(f"<{{{name}}}>", **{name: "bees"}) == "<bees>"


def test_an_optional_placeholder_is_filled_where_there_is_a_value():
    assert filled("About {topic?}.", topic="bees") == "About bees."


def test_an_optional_placeholder_is_nothing_where_there_is_none():
    assert filled("About {topic?}.") == "About ."


@pytest.mark.parametrize("value", ["", 0, False, None, [], {}])
def test_an_empty_value_is_a_value(value):
    assert filled("<{x}>", x=value) == filled("<{x?}>", x=value) != "<{x}>"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("bees", "bees"),
        (3, "3"),
        (2.5, "2.5"),
        (True, "True"),
        (None, "None"),
        ([1, "two"], '[1, "two"]'),
        ({"größe": [1, None]}, '{"größe": [1, null]}'),
    ],
)
def test_text_is_filled_in_as_it_is_and_lists_and_maps_as_json(value, text):
    assert filled("{x}", x=value) == text


def test_a_tuple_is_filled_in_as_the_list_that_a_checkpoint_makes_of_it():
    assert filled("{x}", x=(1, "two")) == filled("{x}", x=[1, "two"])


def test_doubled_braces_are_braces():
    assert filled("{{topic}}", **BEES) == "{topic}"
    assert filled("{{}}") == "{}"
    assert filled("{{ {topic} }}", **BEES) == "{ bees }"


def test_a_placeholder_in_doubled_braces_is_filled_within_braces():
    assert filled("{{{topic}}}", **BEES) == "{bees}"
    assert filled("{{{{topic}}}}", **BEES) == "{{topic}}"


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        '{"a": {"b": 1}}',
        '{"a": {"b": {"c": {}}}}',
        '[{"a": 1}, {"b": [{"c": 2}]}]',
        '{\n  "a": {\n    "b": 1}}',
        "{'a': {'b': 1}}",
        "function f() { return {a: {b: 1}} }",
        "h1 { color: red; }",
        "{ topic }",
        "{topic }",
        "{}",
        "{0}",
        "{1a}",
        "{a-b}",
        "{a b}",
        "{topic??}",
        "{?}",
        "{",
        "}",
        "}}",
        "{topic",
        "topic}",
        "{top{ic",
        "a } b { c",
    ],
)
def test_any_other_text_in_braces_stays_as_it_is(text):
    assert filled(text, **BEES) == text


@pytest.mark.parametrize(
    "text",
    [
        "{user.name}",
        "{user.__class__.__init__.__globals__}",
        "{x[0]}",
        "{x['a']}",
        "{x!r}",
        "{x!s}",
        "{x:>5}",
        "{x:}",
        "{x=}",
        "{x()}",
    ],
)
def test_attributes_indexes_conversions_and_format_specs_stay_as_they_are(text):
    assert filled(text, user="bees", x="bees") == text


def test_placeholders_are_filled_beside_json():
    template = 'About {topic}, as {"a": {"b": 1}}, {"t": "{topic}"} or {{so}}: {"c": {"d": 2}}'
    assert filled(template, **BEES) == (
        'About bees, as {"a": {"b": 1}}, {"t": "bees"} or {so}: {"c": {"d": 2}}'
    )


def test_a_placeholder_in_nested_json_is_filled_and_no_brace_is_lost():
    assert filled('{"a": {"b": {topic}}}', **BEES) == '{"a": {"b": bees}}'


def test_a_value_that_looks_like_a_template_is_not_filled_again():
    assert filled("{a} {b}", a="{b}", b="{a}") == "{b} {a}"
    assert filled("{a}", a="{missing}") == "{missing}"
    assert filled("{a}", a="{{x}}") == "{{x}}"
    assert filled("{{{a}}}", a="}}") == "{}}}"


def test_a_value_is_filled_in_with_all_its_characters():
    assert filled("<{x}>", x=r"\1 \g<name> \n $ %s") == r"<\1 \g<name> \n $ %s>"


def test_a_missing_value_is_told_with_the_placeholder_the_agent_and_the_values_there_are():
    with pytest.raises(MissingValueError) as refused:
        fill("About {topic}.", {"tone": "dry", "length": 3}, "writer")
    assert str(refused.value) == (
        "writer: the template names {topic}, but the run has no value of that name (there are: "
        "length, tone); pass it with values=, or write {topic?} where it may be missing"
    )
    assert isinstance(refused.value, AgentGraphError)
    assert refused.value.agent_name == "writer"
    assert refused.value.placeholder == "topic"
    assert refused.value.available == ("length", "tone")


def test_a_missing_value_is_told_where_there_are_none():
    with pytest.raises(MissingValueError) as refused:
        fill("About {topic}.", {}, "writer")
    assert str(refused.value) == (
        "writer: the template names {topic}, but the run has no value of that name (there are: none); "
        "pass it with values=, or write {topic?} where it may be missing"
    )


def test_the_first_missing_value_is_told():
    with pytest.raises(MissingValueError) as refused:
        filled("{a} {b} {c}", a=1)
    assert refused.value.placeholder == "b"


def test_a_name_of_another_case_is_another_value():
    with pytest.raises(MissingValueError):
        filled("{Topic}", topic="bees")


plain_text = st.text(st.characters(exclude_characters="{}"), max_size=8)
text_in_braces = st.recursive(
    plain_text, lambda inner: st.lists(inner).map(lambda parts: "{" + "".join(parts) + "}")
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | plain_text,
    lambda inner: st.lists(inner) | st.dictionaries(plain_text, inner),
    max_leaves=20,
)


@given(text_in_braces)
def test_text_with_all_its_braces_doubled_is_told_as_it_was(text):
    assert filled(text.replace("{", "{{").replace("}", "}}")) == text


@given(json_values, st.sampled_from([None, 1]))
def test_json_stays_as_it_is(value, indent):
    text = json.dumps(value, indent=indent)
    assert filled(text) == text


@given(plain_text, st.text())
def test_any_value_is_filled_in_as_it_is(around, value):
    assert filled(f"{around}{{x}}{around}", x=value) == f"{around}{value}{around}"


@pytest.mark.parametrize("piece", ["{topic} and text, ", "{{{topic}}}", '{"a": {"b": 1}}', "{", "{a"])
def test_a_template_is_filled_in_linear_time(piece):
    def seconds(length: int) -> float:
        template = piece * (length // len(piece))
        begin = perf_counter()
        filled(template, **BEES)
        return perf_counter() - begin

    short, long = (min(seconds(length) for _ in range(3)) for length in (50_000, 1_000_000))
    assert long < 100 * short


def test_a_brace_with_a_million_letters_behind_it_is_read_in_linear_time():
    begin = perf_counter()
    assert len(filled("{" + "a" * 1_000_000)) == 1_000_001
    assert perf_counter() - begin < 5
