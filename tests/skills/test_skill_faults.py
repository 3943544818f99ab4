"""Faults of skill files: each is reported with its line and what to do; most are in `faults.txt`."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from skill_files import CRITIC, GIVEN, cases

import agentgraph as ag
from agentgraph.skills.schema import KINDS


@pytest.mark.parametrize("case", [pytest.param(text, id=title) for title, text in cases("faults.txt")])
def test_what_is_at_fault_is_reported_with_its_line(
    faults: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.chdir(tmp_path)
    lines: list[str] = []
    expected: list[str] = []
    for line in case.splitlines():
        if line.startswith("!! "):
            expected.append(f"skill.yaml:{len(lines) or 1}: {line.removeprefix('!! ')}")
        else:
            lines.append(line)
    assert faults("\n".join(lines)) == expected
    assert [file.name for file in tmp_path.iterdir()] == ["skill.yaml"], "the text was evaluated"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("kind: chat\n\tname: x", "2: this is not YAML: found character '\\t' that cannot start any"),
        ("agent: critic\nname: \x07", "2: the character '\\x07' is not allowed here; take it out"),
        ('agent: "\\UFFFFFFFF"', "1: this is not YAML: "),
        ("agent: " + "9" * 5000, "1: a number is too large; put it in quotes if it is text"),
        ("[" * 10_000, "1: more than 64 mappings and lists are nested here; build the inner "),
        ("{a: " * 10_000, "1: more than 64 mappings and lists are nested here; build the inner "),
    ],
    ids=["a tab", "a control character", "no character", "a long number", "lists", "mappings"],
)
def test_a_text_that_is_not_a_skill_is_refused(faults: Any, text: str, fault: str) -> None:
    (found,) = faults(text)
    assert found.startswith(f"skill.yaml:{fault}")


def test_anchors_and_aliases_are_refused_before_they_grow(faults: Any) -> None:
    levels = "".join(f"  - &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    found = faults(f"kind: human\nname: boss\nprompt:\n  - &a0 [lol]\n{levels}")
    assert found[:2] == [
        "skill.yaml:4: the anchor &a0 is not allowed; take it out",
        "skill.yaml:5: the anchor &a1 is not allowed; take it out",
    ]
    assert "skill.yaml:5: the alias *a0 is not allowed; write out its value" in found


@pytest.mark.parametrize("data", [b"kind: \xff", b"\x80"])
def test_a_file_in_another_encoding_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "skill.yaml").write_bytes(data)
    with pytest.raises(
        ag.InvalidSkillError, match=r"skill\.yaml: this is not UTF-8 text \(.*\); save it"
    ):
        ag.load(tmp_path / "skill.yaml")


@pytest.mark.parametrize(
    ("name", "reason"), [("none.yaml", "No such file or directory"), ("", "Is a directory")]
)
def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(ag.InvalidSkillError) as caught:
        ag.load(tmp_path / name)
    fault = f"{tmp_path / name}: the file cannot be read ({reason}); correct the path"
    assert caught.value.faults == (fault,)


def test_the_faults_begin_with_the_path_as_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("skill.yaml").write_text("agent: critic")
    with pytest.raises(ag.InvalidSkillError) as caught:
        ag.load("skill.yaml", agents={"boss": CRITIC})
    assert str(caught.value) == "skill.yaml:1: unknown agent 'critic'; choose one of: boss"


def test_names_without_a_registry_say_where_they_are_given(faults: Any) -> None:
    assert faults("{kind: chat, name: writer, model: main, tools: [search]}", models={}) == [
        "skill.yaml:1: unknown model 'main', because no models were passed; pass models={'main': ...}, "
        "or on the command line --registry with a file that has such a dict 'models'",
        "skill.yaml:1: unknown tool 'search', because no tools were passed; pass tools={'search': ...}"
        ", or on the command line --registry with a file that has such a dict 'tools'",
    ]


def test_an_agent_made_in_python_is_reported_at_the_line_that_names_it(faults: Any) -> None:
    text = "kind: sequential\nname: report\nsub_agents:\n  - agent: bad\n  - agent: none\n"
    bad = ag.sequential("bad", [ag.loop("inner", [], max_iterations=1)])
    assert faults(text, agents={"bad": bad, "none": 5}) == [
        "skill.yaml:4: report/bad/inner: a loop needs at least one sub-agent",
        "skill.yaml:5: 'none' is a int, not an agent; make an agent with chat_agent, human, "
        "sequential, ...",
    ]


FIELDS = "kind name agent model tools sub_agents steps until is value retry planner executor workers"
MORE = "depends_on prompt max_iterations compensate m search critic a end skill_tools:find __main__:x"
MOST_KINDS = [kind for kind in KINDS if kind != "plan_execute"]
WORDS = st.sampled_from([*FIELDS.split(), *MORE.split(), *MOST_KINDS, "{x}", ""])
DATA = st.recursive(
    WORDS | st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=6),
    max_leaves=25,
)
SIGNS = st.sampled_from("kindametols: -[]{}\"'\n\t&*!|>%@?,#\\u12~<\0\x85\ud800é")


@settings(
    deadline=None,
    max_examples=300,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(text=DATA.map(json.dumps) | st.text(SIGNS, max_size=60))
def test_any_text_is_an_agent_or_has_faults(tmp_path: Path, text: str) -> None:
    file = tmp_path / "skill.yaml"
    file.write_bytes(text.encode(errors="surrogatepass"))
    faults: tuple[str, ...] = (str(file),)
    try:
        ag.load(file, **GIVEN)
    except ag.InvalidSkillError as error:
        faults = error.faults
    assert faults
    assert all(fault.startswith(str(file)) for fault in faults)
