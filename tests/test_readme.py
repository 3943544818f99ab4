"""The README tells the truth: tried as a newcomer would, in a new folder, it prints what it says."""

import contextlib
import io
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
BLOCK = re.compile(r"(?:`(?P<file>[\w.]+)`:\n\n)?```(?P<language>\w+)\n(?P<text>.*?)```", re.DOTALL)
SET_UP = ("make test", "make studio")
"""The commands that do not end here: this very run is the one, tests/server starts the other."""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a new folder with the files that a clone has, set up with the environment of this run."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(lambda name: (ROOT / name).is_file(), found.stdout.splitlines()):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tmp_path / name)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(Path(sys.prefix) / "bin")
    (tmp_path / ".venv" / "ready").touch()
    return tmp_path


def test_every_command_and_block_of_code_prints_what_the_readme_says(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(clone)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    names: dict[str, object] = {"__name__": "readme"}
    activated: list[str] = []
    printed, compared = "", 0
    for block in BLOCK.finditer(README.read_text()):
        match block["language"]:
            case "python":
                printed = ran(block["text"], names)
                if block["file"]:
                    (clone / block["file"]).write_text(block["text"])
            case "sh":
                typed = block["text"].splitlines()
                printed = shell([*activated, *typed])
                activated += [line for line in typed if line.startswith(". ")]
            case "text":
                assert printed == block["text"]
                compared += 1
    assert compared == 4


def ran(code: str, names: dict[str, object]) -> str:
    """Run a block of code, and return what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "README.md", "exec"), names)
    return out.getvalue()


def shell(typed: list[str]) -> str:
    """Run commands as they are typed, and return what they print; a run may pause."""
    lines = (line.partition("  #")[0] for line in typed if line and not line.startswith(SET_UP))
    script = "\n".join(f"{line} || test $? = 3 || exit 1" for line in lines)
    run = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_commands_that_do_not_end_are_those_that_are_tested_elsewhere() -> None:
    assert _recipe("test") == [".venv/bin/pytest -n 3 --dist worksteal"]
    assert _recipe("studio") == ["LANGGRAPH_CLI_NO_ANALYTICS=1 .venv/bin/langgraph dev --no-browser"]
    assert all(
        any(line.startswith(each) for line in README.read_text().splitlines()) for each in SET_UP
    )


def _recipe(target: str) -> list[str]:
    shown = subprocess.run(
        ["make", "--dry-run", "--assume-old", ".venv/ready", target],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in shown.stdout.splitlines() if not line.startswith("make")]


def test_the_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) <= 200


def named() -> Iterator[str]:
    """Yield the files and folders that the map has to name."""
    folder = ROOT / "agentgraph"
    yield from (path.name for path in folder.glob("*.py") if not path.name.startswith("__"))
    yield from (f"{path.parent.name}/" for path in folder.glob("*/__init__.py"))


def test_the_map_names_every_file() -> None:
    text = README.read_text().partition("```\nagentgraph/")[2].partition("```")[0]
    assert [name for name in named() if name not in text.split()] == []
