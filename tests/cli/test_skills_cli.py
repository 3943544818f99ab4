"""Skill files on the command line, run as a user runs it."""

import json
from pathlib import Path

import pytest
from commands import Commands

from agentgraph.skills import json_schema

SKILL = """\
kind: sequential
name: report
model: main
sub_agents:
  - kind: chat
    name: writer
    instruction: About {topic?}.
    tools: [search]
  - kind: human
    name: boss
    prompt: Print it?
    response_schema: {enum: ["yes", "no"]}
  - agent: critic
"""
REGISTRY = """
from pathlib import Path

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel


def search(topic: str) -> str:
    "Search for a topic."
    return topic


def say(ctx) -> str:
    return "Well done."


models = {"main": ScriptedChatModel(responses=[lambda messages: "told: " + messages[0].text])}
tools = {"search": search}
agents = {"critic": ag.function_agent("critic", say)}
critic = agents["critic"]
"""
WITH = ("--registry", "registry.py")
DONE, REFUSED, PAUSED = 0, 2, 3


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> Path:
    (tmp_path / "skill.yaml").write_text(SKILL)
    (tmp_path / "registry.py").write_text(REGISTRY)
    return tmp_path


def test_a_skill_file_runs_pauses_and_is_resumed_as_the_run_says(command: Commands) -> None:
    ended = command("run", "skill.yaml", "Go.", *WITH, "--thread", "t", "--values", '{"topic": "bees"}')
    assert (ended.code, ended.lines) == (
        PAUSED,
        ["report/writer: told: About bees.", "report/boss: [asks] Print it?"],
    )
    assert ended.go_on.endswith(
        "resume skill.yaml --registry registry.py --thread t --db agentgraph.db"
    )
    resumed = command.follow(ended.go_on, "--answer", "yes")
    assert (resumed.code, resumed.lines) == (
        DONE,
        ["report/boss: yes", "report/critic: Well done."],
    )
    events = command("events", "skill.yaml", *WITH, "--thread", "t")
    assert events.lines == [*ended.lines, *resumed.lines]


def test_the_command_to_resume_repeats_allow(command: Commands) -> None:
    (command.folder / "skill.yaml").write_text("{kind: human, name: boss, prompt: Print it}")
    ended = command("run", "skill.yaml", "Go.", "--allow", "a:b", "--allow", "c:*", "--thread", "t")
    assert ended.go_on.endswith(
        "resume skill.yaml --allow a:b --allow 'c:*' --thread t --db agentgraph.db"
    )


def test_a_skill_file_is_drawn(command: Commands) -> None:
    ended = command("draw", "skill.yaml", *WITH, "--tree")
    assert ended.lines == [
        "report (sequential)",
        "├─ writer (chat)",
        "├─ boss (human)",
        "└─ critic (function)",
    ]


def test_check_finds_no_faults_in_a_skill_file(command: Commands) -> None:
    ended = command("check", "skill.yaml", *WITH)
    assert (ended.code, ended.out, ended.err) == (DONE, "skill.yaml: no faults\n", "")


def test_check_prints_the_faults_one_a_line(command: Commands) -> None:
    (command.folder / "bad.yml").write_text("kind: loop\nname: end\nsub_agents: [critic]\nmax: 3\n")
    ended = command("check", "bad.yml")
    assert (ended.code, ended.out) == (REFUSED, "")
    assert ended.err.splitlines() == [
        "bad.yml:1: a loop needs the field 'max_iterations'; add it",
        "bad.yml:3: item 1 of 'sub_agents' should be an agent, and is 'critic'; write agent: critic",
        "bad.yml:4: a loop has no field 'max'; it has: name, model, description, kind, sub_agents, "
        "max_iterations, until",
    ]


@pytest.mark.parametrize("words", [["run", "skill.yaml", "Go."], ["draw", "skill.yaml"]])
def test_a_missing_registry_is_named_as_the_way_out(command: Commands, words: list[str]) -> None:
    ended = command(*words)
    assert (ended.code, ended.out) == (REFUSED, "")
    assert ended.err.startswith(
        "Error: 3 faults:\n- skill.yaml:3: unknown model 'main', because no models were given; pass "
        "models={'main': ...}, or on the command line --registry with a file that has such a dict "
        "'models'\n"
    )


def test_a_reference_is_imported_from_the_folder_of_the_file_where_it_is_allowed(
    command: Commands,
) -> None:
    (command.folder / "skills").mkdir()
    (command.folder / "skills" / "critics.py").write_text(f"{REGISTRY}\nPath('imported').touch()\n")
    (command.folder / "skills" / "skill.json").write_text('{"agent": "critics:critic"}')
    refused = command("run", "skills/skill.json", "Go.")
    assert (refused.code, refused.err) == (
        REFUSED,
        "Error: skills/skill.json:1: 'critics:critic' may not be imported; if you trust it, pass "
        "allow=['critics:critic'], or --allow critics:critic on the command line\n",
    )
    assert not (command.folder / "imported").exists()
    allowed = command("run", "skills/skill.json", "Go.", "--allow", "critics:critic")
    assert (allowed.code, allowed.lines) == (DONE, ["critic: Well done."])
    assert (command.folder / "imported").exists()


def test_a_python_file_takes_no_registry(command: Commands) -> None:
    ended = command("check", "registry.py:critic", *WITH)
    assert (ended.code, ended.err) == (
        REFUSED,
        "Error: --registry and --allow are only for skill files, got registry.py:critic\n",
    )
    assert command("run", "registry.py:critic", "Go.").lines == ["critic: Well done."]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model = 5", "registry.py defines none of tools, models, agents; define one, a dict by names"),
        ("tools = []", "registry.py:tools must be a dict by names, got a list"),
        ("1 / 0", "registry.py, line 1 cannot be loaded:\nZeroDivisionError: division by zero"),
        (None, "there is no file registry.py"),
    ],
)
def test_a_wrong_registry_is_refused(command: Commands, text: str | None, message: str) -> None:
    (command.folder / "registry.py").unlink()
    if text is not None:
        (command.folder / "registry.py").write_text(text)
    ended = command("check", "skill.yaml", *WITH)
    assert (ended.code, ended.err) == (REFUSED, f"Error: {message}\n")


def test_a_missing_skill_file_is_refused(command: Commands) -> None:
    ended = command("run", "none.yaml", "Go.")
    assert (ended.code, ended.err) == (
        REFUSED,
        "Error: none.yaml: the file cannot be read (No such file or directory); correct the path\n",
    )


def test_a_wrong_allow_is_refused(command: Commands) -> None:
    ended = command("check", "skill.yaml", "--allow", "os")
    assert (ended.code, ended.err) == (
        REFUSED,
        "Error: 'os' cannot be allowed; write 'module:name' with a public name, or 'module:*'\n",
    )


def test_the_schema_is_printed(command: Commands) -> None:
    ended = command("schema")
    assert (ended.code, json.loads(ended.out)) == (DONE, json_schema())


def test_the_help_names_skill_files(command: Commands) -> None:
    assert "or a skill file" in command("--help").out
    assert "--registry FILE.py" in command("run", "--help").out


def test_a_model_that_langchain_makes_by_name_needs_no_registry(command: Commands) -> None:
    (command.folder / "named.yml").write_text("{kind: chat, name: w, model: 'openai:gpt-5'}")
    ended = command("check", "named.yml")
    assert (ended.code, ended.out, ended.err) == (DONE, "named.yml: no faults\n", "")
