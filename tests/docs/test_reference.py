"""The reference is whole: it describes every name that users import, and every error."""

import re
from pathlib import Path

import pytest

import agentgraph as ag
from agentgraph import AgentGraphError, Runner, agui, testing
from agentgraph.cli.commands import commands

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGES = {path.stem: path.read_text() for path in REFERENCE.glob("*.md")}
DIRECTIVE = re.compile(r"^ *\.\. (?:auto\w+|py:data|currentmodule):: ([\w.]+)", re.MULTILINE)


def described() -> list[str]:
    """Return the full name of everything that has an entry."""
    names, module = [], ""
    for text in PAGES.values():
        for found in DIRECTIVE.finditer(text):
            if "currentmodule" in found[0]:
                module = found[1]
            else:
                names.append(f"{module}.{found[1]}")
    return names


DESCRIBED = described()
ERRORS = [
    name
    for name in ag.__all__
    if isinstance(each := getattr(ag, name), type) and issubclass(each, AgentGraphError)
]


@pytest.mark.parametrize("module", [ag, agui, testing])
def test_every_public_name_is_described_once(module) -> None:
    counts = {name: DESCRIBED.count(f"{module.__name__}.{name}") for name in module.__all__}
    assert {name: count for name, count in counts.items() if count != 1} == {}


def test_every_method_of_the_runner_is_described_once() -> None:
    public = [name for name in vars(Runner) if not name.startswith("_")]
    assert [name for name in public if DESCRIBED.count(f"agentgraph.Runner.{name}") != 1] == []


@pytest.mark.parametrize("name", ERRORS)
def test_the_table_of_errors_says_what_to_do_and_the_http_status(name: str) -> None:
    rows = [line.split(" | ") for line in PAGES["errors"].splitlines() if line.startswith("| `")]
    statuses = {row[0].strip("| `"): row[-1].strip(" |") for row in rows}
    error = getattr(ag, name)
    if error is not AgentGraphError:
        assert statuses[name] == str(error.__new__(error).http_status)


def test_the_page_of_the_command_line_describes_every_command() -> None:
    assert "```{commands}" in PAGES["cli"]
    assert all(each.help for each in commands.commands.values())
