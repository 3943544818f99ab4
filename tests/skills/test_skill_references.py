"""Imports of a skill file: only allowed ones work."""

import json
import sys
from textwrap import dedent

import pytest
from skill_files import GIVEN, MODEL

import agentgraph as ag

TOOLS = """
import os
from os import system
from pathlib import Path
from textwrap import dedent

from agentgraph.testing import ScriptedChatModel

__version__ = "1"
main = ScriptedChatModel(responses=["one"])


def find(topic: str) -> str:
    "Find a topic."
    return topic


def _private(topic: str) -> str:
    "Find a topic."
    return topic


def __getattr__(name):
    raise SystemExit("called")
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Make a module that can be imported, and forget it later."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "skill_tools.py").write_text(TOOLS)
    (folder / "skill_broken.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(folder)
    yield "skill_tools"
    sys.modules.pop("skill_tools", None)


TEXT = "{{kind: chat, name: writer, model: '{0}', tools: ['{1}']}}"


@pytest.mark.parametrize("allow", [["skill_tools:main", "skill_tools:find"], ["skill_tools:*"]])
def test_what_is_allowed_is_imported(skill, module, allow):
    made = skill(TEXT.format("skill_tools:main", "skill_tools:find"), allow=allow)
    tools = sys.modules[module]
    assert made == ag.chat_agent("writer", tools.main, tools=[tools.find])


def test_one_reference_may_be_allowed_as_a_text(skill, module):
    made = skill(TEXT.format("m", "skill_tools:find"), **GIVEN, allow="skill_tools:find")
    assert made == ag.chat_agent("writer", MODEL, tools=[sys.modules[module].find])


@pytest.mark.parametrize("allow", [[], ["os:*"], ["skill_tools:other"], ["skill_tool:*"]])
def test_what_is_not_allowed_is_not_imported(faults, module, allow):
    assert faults(TEXT.format("m", "skill_tools:find"), **GIVEN, allow=allow) == [
        "skill.yaml:1: 'skill_tools:find' may not be imported; if you trust it, pass "
        "allow=['skill_tools:find'], or --allow skill_tools:find on the command line"
    ]
    assert module not in sys.modules


@pytest.mark.parametrize(
    "name",
    [
        "skill_tools:__builtins__",
        "skill_tools:_private",
        "skill_tools:find.__globals__",
        "skill_tools:find.name",
        "skill_tools:find()",
        "__main__:find",
        "skill_tools.__init__:find",
        ".skill_tools:find",
        "skill_tools::find",
        "skill_tools:",
        ":find",
        "skill_tools:*",
        "skill_tools:find\n",
    ],
)
def test_a_reference_is_a_module_and_one_public_name(faults, module, name):
    text = json.dumps({"kind": "chat", "name": "writer", "model": "m", "tools": [name]})
    assert faults(text, **GIVEN, allow=["skill_tools:*"]) == [
        f"skill.yaml:1: {name!r} is not a reference; write 'module:name', with one public name after "
        "the colon"
    ]
    assert module not in sys.modules


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        *((each, "") for each in ("os", "Path", "system", "ScriptedChatModel", "missing")),
        ("fin", " (did you mean 'find'?)"),
    ],
)
def test_a_name_that_a_module_imports_or_lacks_is_not_allowed_with_it(faults, module, name, hint):
    allow = [f"skill_tools:{name}" if hint else "skill_tools:*"]
    assert faults(TEXT.format("m", f"skill_tools:{name}"), **GIVEN, allow=allow) == [
        f"skill.yaml:1: the module 'skill_tools' has no public name {name!r}{hint}; "
        "name one of its __all__, or without an __all__ one that it defines itself"
    ]


def test_it_may_be_allowed_by_its_name(skill, module):
    made = skill(TEXT.format("m", "skill_tools:dedent"), **GIVEN, allow=["skill_tools:dedent"])
    assert made == ag.chat_agent("writer", MODEL, tools=[dedent])


def test_all_of_a_module_is_its_list_where_it_has_one(faults, module, tmp_path):
    (tmp_path / "modules" / "skill_tools.py").write_text(f"__all__ = ['main']\n{TOOLS}")
    assert faults(
        TEXT.format("skill_tools:main", "skill_tools:find"), **GIVEN, allow=["skill_tools:*"]
    ) == [
        "skill.yaml:1: the module 'skill_tools' has no public name 'find'; name one of its "
        "__all__, or without an __all__ one that it defines itself"
    ]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("skill_broken:find", "ZeroDivisionError: division by zero"),
        ("skill_nowhere:find", "ModuleNotFoundError: No module named 'skill_nowhere'"),
    ],
)
def test_a_module_that_cannot_be_imported_is_reported(faults, module, name, reason):
    assert faults(TEXT.format("m", name), **GIVEN, allow=[name]) == [
        f"skill.yaml:1: {name!r} cannot be imported: {reason}"
    ]


@pytest.mark.parametrize("allowed", ["skill_tools", "*:*", "os:_exit", "os:path.join", "__main__:*", 5])
def test_only_references_can_be_allowed(tmp_path, allowed):
    (tmp_path / "skill.yaml").write_text("agent: critic")
    with pytest.raises(ag.AgentGraphError) as caught:
        ag.load(tmp_path / "skill.yaml", agents=GIVEN["agents"], allow=[allowed])
    assert str(caught.value) == (
        f"{allowed!r} cannot be allowed; write 'module:name' with a public name, or 'module:*'"
    )
