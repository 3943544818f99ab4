"""The distribution: its name, its version and its extras are the same wherever they are written."""

import re
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import agentgraph as ag
from agentgraph.errors import pip_install

ROOT = Path(__file__).parent.parent
PACKAGE = Path(ag.__file__).parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
NAMED = re.compile(r"pip_install\(\"(\w+)\"\)|pip_install\('(\w+)'\)")
"""An extra that the code names in a hint."""
WRONG_NAME = re.compile(r"pip install ['\"`]?agentgraph\b")
"""The distribution `agentgraph` is another project's."""


def test_the_version_is_that_of_the_distribution() -> None:
    (command,) = {each for each in entry_points(group="console_scripts") if each.name == "agentgraph"}
    assert command.dist is not None
    assert command.dist.version == ag.__version__


def test_a_hint_names_the_distribution() -> None:
    assert pip_install("cli") == f"pip install '{PROJECT['name']}[cli]'"


def test_each_extra_in_a_hint_exists() -> None:
    texts = [file.read_text() for file in PACKAGE.rglob("*.py")]
    named = {"".join(pair) for text in texts for pair in NAMED.findall(text)}
    assert {"agui", "cli", "inspect", "live", "notebook", "openai", "postgres", "svg"} <= named
    assert named <= EXTRAS.keys()


def test_no_text_installs_another_project() -> None:
    kinds = {".py", ".md", ".ipynb", ".toml", ".txt", ".js"}
    folders = [PACKAGE, ROOT / "docs", ROOT / "examples", ROOT / "notebooks"]
    found = (file for folder in folders for file in folder.rglob("*") if "_build" not in file.parts)
    files = [file for file in found if file.suffix in kinds]
    texts = {file: file.read_text() for file in [*files, *ROOT.glob("*.md")]}
    assert [str(file) for file, text in texts.items() if WRONG_NAME.search(text)] == []


def test_the_error_about_unknown_versions_names_the_bounds() -> None:
    internals = (PACKAGE / "graph" / "internals.py").read_text()
    named = re.compile(r"(langgraph|langchain-core)[<>=]")
    bounds = [each for each in PROJECT["dependencies"] if named.match(each)]
    assert len(bounds) == 2
    assert [each for each in bounds if each not in internals] == []
