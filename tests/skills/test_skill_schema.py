"""The JSON schema of skill files accepts what `load` accepts, and rejects wrong forms."""

import json
import re
from inspect import signature
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from skill_files import GIVEN

import agentgraph as ag
from agentgraph.skills import json_schema
from agentgraph.skills.schema import KINDS


def test_the_json_schema_has_each_kind_with_a_word_on_each_field():
    schema = json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert json.loads(json.dumps(schema)) == schema
    reference, kinds = schema["oneOf"]
    assert reference == {"$ref": "#/$defs/Reference"}
    assert set(kinds["discriminator"]["mapping"]) == set(KINDS)
    for name, part in schema["$defs"].items():
        assert part["additionalProperties"] is False, name
        assert all(each["description"] for each in part["properties"].values()), name


def test_the_fields_of_a_kind_are_the_options_of_its_builder_that_are_no_functions():
    for kind, model in KINDS.items():
        options = signature(model.builder).parameters
        fields = model.model_fields.keys() - {"kind"} - ({"model"} - options.keys())
        functions = options.keys() & {"model_input", "middleware", "key", "accept"}
        assert options.keys() - fields == functions, kind
        assert fields <= options.keys(), kind


def test_the_json_schema_says_what_a_field_may_be():
    loop = json_schema()["$defs"]["Loop"]
    assert loop["required"] == ["kind", "name", "sub_agents", "max_iterations"]
    assert loop["properties"]["kind"]["const"] == "loop"
    assert loop["properties"]["max_iterations"]["anyOf"] == [
        {"minimum": 1, "type": "integer"},
        {"type": "null"},
    ]
    tool = json_schema()["$defs"]["Chat"]["properties"]["tools"]["items"]
    assert tool["oneOf"][:2] == [{"type": "string"}, {"$ref": "#/$defs/AgentTool"}]
    until = json_schema()["$defs"]["Until"]
    assert (list(until["properties"]), until["required"]) == (["value", "is"], ["value", "is"])


fits = Draft202012Validator(json_schema()).is_valid
BOSS: dict[str, Any] = {"kind": "human", "name": "boss", "prompt": "Print it?"}
EVERY_KIND: dict[str, dict[str, Any]] = {
    "human": BOSS,
    "chat": {
        "kind": "chat",
        "name": "writer",
        "model": "m",
        "tools": ["search", {"agent": "critic"}, {"type": "web_search"}],
        "retry": {"max_attempts": 2},
        "timeout": 5,
    },
    "loop": {
        "kind": "loop",
        "name": "refine",
        "max_iterations": None,
        "until": {"value": "x", "is": True},
        "sub_agents": [BOSS, {"agent": "critic"}],
    },
    "sequential": {"kind": "sequential", "name": "report", "model": "m", "sub_agents": [BOSS]},
    "parallel": {"kind": "parallel", "name": "checks", "sub_agents": [BOSS], "on_error": "first"},
    "workflow": {
        "kind": "workflow",
        "name": "flow",
        "steps": [BOSS, {"agent": "critic"}, {"agent": {**BOSS, "name": "b"}, "depends_on": ["boss"]}],
    },
    "supervisor": {"kind": "supervisor", "name": "editor", "model": "m", "workers": [BOSS]},
    "reference": {"agent": "critic"},
}
CHANGES: list[dict[str, Any]] = [
    {"name": 5},
    {"kind": "chatt"},
    {"max_iterations": 0},
    {"max_iterations": True},
    {"nothing": 1},
    {"model": ["m"]},
    {"sub_agents": BOSS},
    {"sub_agents": ["critic"]},
    {"sub_agents": [{"agent": "critic", "name": "x"}]},
    {"sub_agents": [5]},
    {"tools": [{"agnt": "critic"}]},
    {"tools": [{"agent": "critic", "descr": "x"}]},
    {"until": {"value": "x"}},
    {"until": {"value": "x", "is": [1]}},
    {"retry": {"max_attempts": 0}},
    {"timeout": 0},
    {"timeout": 0.5},
    {"history": "al"},
    {"history": "input"},
    {"steps": [{"depends_on": ["boss"]}]},
    {"steps": [{"agent": BOSS, "input": "x", "compensate": {"agent": "critic"}}]},
    {"workers": []},
    {"max_concurrency": None},
    {"agent": {"kind": "human"}},
    {"description": None},
]


def test_the_json_schema_takes_what_is_loaded(skill):
    for kind, data in EVERY_KIND.items():
        skill(json.dumps(data))
        assert fits(data), kind


@pytest.mark.parametrize("change", CHANGES, ids=repr)
def test_the_json_schema_refuses_what_has_a_wrong_form(tmp_path, change):
    for kind, data in EVERY_KIND.items():
        changed = {**data, **change}
        (tmp_path / "skill.yaml").write_text(json.dumps(changed))
        faults: tuple[str, ...] = ()
        try:
            ag.load(tmp_path / "skill.yaml", **GIVEN)
        except ag.InvalidSkillError as error:
            faults = error.faults
        of_form = [fault for fault in faults if not re.search(r":1: [\w/]+: ", fault)]
        assert fits(changed) == (of_form == []), kind


def test_each_field_left_out_is_refused_by_both(faults):
    for data in EVERY_KIND.values():
        for name in data:
            less = {key: value for key, value in data.items() if key != name}
            if not fits(less):
                assert faults(json.dumps(less) if less else "{}")
