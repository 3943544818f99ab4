"""`agentgraph new` makes a project; its tests pass and its tree runs, with and without a key."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from cli_agents import REFUSED
from helpers.commands import Commands
from helpers.openai_server import OpenAIServer

from agentgraph.cli import new

RUN_TESTS = "import sys, pytest\nsys.exit(pytest.main(['-q', '-p', 'no:cacheprovider']))"
FILES = {".env.example", ".gitignore", "README.md", "langgraph.json", "pyproject.toml"}
FILES |= {"report.py", "test_report.py"}


@pytest.fixture
def project(command: Commands) -> Path:
    """Make a project, and have the commands run in its folder."""
    made = command("new", "haiku-2")
    assert (made.code, made.err) == (0, "")
    assert made.lines[-5:] == [
        "Next:",
        "  cd haiku-2",
        '  pip install -e ".[dev]"',
        "  pytest",
        '  agentgraph run report.py:report "bees"',
    ]
    command.folder /= "haiku-2"
    return command.folder


def test_the_folder_has_the_files_of_a_project_named_as_it(project: Path) -> None:
    assert {path.name for path in project.iterdir()} == FILES
    assert tomllib.loads((project / "pyproject.toml").read_text())["project"]["name"] == "haiku-2"
    config = json.loads((project / "langgraph.json").read_text())
    assert config["graphs"] == {"haiku-2": "./report.py:graph"}
    assert (project / "README.md").read_text().startswith("# haiku-2\n")
    assert all("$" not in path.read_text() for path in project.iterdir())


def test_its_tests_pass_without_a_key(project: Path, program: Commands) -> None:
    (project / "run_tests.py").write_text(RUN_TESTS)
    program.folder = project
    ended = program("run_tests.py", env={"OPENAI_API_KEY": ""})
    assert ended.code == 0, ended.out
    assert "3 passed" in ended.out


@pytest.mark.parametrize(
    ("dot_env", "env"), [("", {}), ("OPENAI_API_KEY=\n", {}), ("OPENAI_API_KEY=x\n", {"OFFLINE": "1"})]
)
def test_its_tree_runs_offline(
    project: Path, command: Commands, dot_env: str, env: dict[str, str]
) -> None:
    (project / ".env").write_text(dot_env)
    ended = command("run", "report.py:report", "bees", "--thread", "t", env=env)
    assert (ended.code, ended.err) == (0, "Done: thread t, saved in agentgraph.db.\n")
    assert ended.lines == [
        "report[0]/writer: This text was written without a model.",
        "report[0]/critic: Add a second sentence.",
        "report[1]/writer: This text was written without a model. Set OPENAI_API_KEY to use one.",
        'report[1]/critic: [calls] break_loop({"final_result": "Good."})',
        "report[1]/critic: [result] break_loop: Good.",
        "report[1]/critic: [break_loop]",
    ]
    again = command("run", "report.py:report", "wasps", "--thread", "t", env=env)
    assert again.code == 0
    assert command("check", "report.py:report").lines == ["report: no faults"]
    assert command("draw", "report.py:report").code == 0
    assert [line.split()[0] for line in command("threads", "report.py:report").lines] == ["t"]


def test_a_key_in_its_env_file_has_a_model_answer(
    project: Path, command: Commands, openai_server: OpenAIServer
) -> None:
    openai_server.script = ["Bees hum.", "Too short."] * 3
    (project / ".env").write_text(f"OPENAI_API_KEY=test\nOPENAI_BASE_URL={openai_server.base_url}\n")
    command.folder = project.parent  # the file is found beside the tree
    ended = command("run", "haiku-2/report.py:report", "bees")
    assert ended.lines[:2] == ["report[0]/writer: Bees hum.", "report[0]/critic: Too short."]
    assert {request["model"] for request in openai_server.requests} == {"gpt-5-mini"}


def test_a_variable_that_is_set_wins_over_the_env_file(
    project: Path, command: Commands, openai_server: OpenAIServer
) -> None:
    openai_server.script = ["Bees hum.", "Too short."] * 3
    (project / ".env").write_text("OPENAI_API_KEY=test\nOPENAI_BASE_URL=http://127.0.0.1:9\n")
    env = {"OPENAI_BASE_URL": openai_server.base_url}
    assert command("run", "report.py:report", "bees", env=env).code == 0


def test_the_env_file_beside_a_skill_file_is_not_read(command: Commands) -> None:
    (command.folder / "skill.yaml").write_text("{kind: chat, name: w, model: 'openai:gpt-5'}")
    (command.folder / ".env").write_text("OPENAI_API_KEY=test\nOPENAI_BASE_URL=http://127.0.0.1:9\n")
    ended = command("run", "skill.yaml", "bees")
    assert ended.code == REFUSED
    assert ended.err.startswith("Error: w: the model 'openai:gpt-5' needs OPENAI_API_KEY, which is not")


def test_an_env_file_that_cannot_be_read_is_named(project: Path, command: Commands) -> None:
    (project / ".env").write_bytes(b"OPENAI_API_KEY=\xff\n")
    ended = command("check", "report.py:report")
    assert (ended.code, ended.out) == (REFUSED, "")
    assert ended.err.startswith("Error: .env cannot be read: ")
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("name", ["a b", "a/b", "..", "2024", "-", "x-", "", "größe", "$name", "a.b"])
def test_a_name_that_is_not_valid_is_rejected(command: Commands, name: str) -> None:
    before = {*command.folder.iterdir()}
    ended = command("new", "--", name)
    assert (ended.code, ended.out) == (REFUSED, "")
    assert ended.err == (
        f"Error: {name!r} is not a valid name of a project; use letters, digits, - and _, and a "
        "letter first\n"
    )
    assert {path.name for path in {*command.folder.iterdir()} - before} <= {".in", ".out", ".err"}


def test_only_an_empty_folder_is_filled(command: Commands) -> None:
    (command.folder / "empty").mkdir()
    (command.folder / "full").mkdir()
    (command.folder / "full" / "report.py").write_text("mine")
    (command.folder / "file").touch()
    assert command("new", "empty").code == 0
    for name, fault in {
        "empty": "the folder empty is not empty; choose another name, or empty it",
        "full": "the folder full is not empty; choose another name, or empty it",
        "file": "file exists and is not a folder; choose another name",
        "x" * 300: f"the folder {'x' * 300} cannot be made: File name too long; choose another name or "
        "folder",
    }.items():
        ended = command("new", name)
        assert (ended.code, ended.out, ended.err) == (REFUSED, "", f"Error: {fault}\n")
    assert (command.folder / "full" / "report.py").read_text() == "mine"


def test_the_files_are_formatted_and_every_template_is_used(project: Path) -> None:
    templates = Path(new.__file__).with_name("project")
    assert len([*templates.iterdir()]) == len(FILES)
    ruff = Path(sys.executable).with_name("ruff")
    rules = 'lint.select = ["B", "E", "F", "I", "N", "UP"]'
    (project / "ruff.toml").write_text(f"line-length = 104\n{rules}")
    for arguments in (["check"], ["format", "--check"]):
        subprocess.run([ruff, *arguments, "--config=ruff.toml", "."], cwd=project, check=True)
