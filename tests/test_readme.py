"""The README is right: tried as a newcomer would, in a new folder, it prints what it says."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.commands import Commands
from helpers.openai_server import Call, OpenAIServer, Reply
from helpers.pages import BLOCK, follow, forgetting, ran, run_line

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
TEXT = README.read_text()
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
REAL = next(block["text"] for block in BLOCK.finditer(TEXT) if "openai:" in block["text"])
"""The example with real models."""
SET_UP = "make test"
"""The command that does not end here: this run is it."""


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
    clone: Path, program: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(clone)
    monkeypatch.syspath_prepend(clone)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    def shell(line: str) -> str:
        return "" if line.startswith(SET_UP) else run_line(line, program)

    with forgetting(clone):
        assert follow((each for each in BLOCK.finditer(TEXT) if each["text"] != REAL), shell) == 2


def test_the_example_with_real_models_runs_as_it_stands(
    openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.setenv("OPENAI_BASE_URL", openai_server.base_url)
    done = Reply(calls=(Call("1", "break_loop", ('{"final_result": "Good."}',)),))
    openai_server.script = ["Bees.", "Too short.", "Bees hum in May.", done]
    assert ran(REAL) == "Bees hum in May.\n"
    assert len([line for line in REAL.splitlines() if line]) == 5
    first = openai_server.requests[0]["messages"][0]
    assert first["content"] == "Write on bees."


def test_the_command_that_does_not_end_is_this_run() -> None:
    assert _recipe("test") == [".venv/bin/pytest -n 3 --dist worksteal"]
    assert any(line.startswith(SET_UP) for line in TEXT.splitlines())


def _recipe(target: str) -> list[str]:
    dry = ["make", "--dry-run", "--assume-old", ".venv/ready", target]
    shown = subprocess.run(dry, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in shown.stdout.splitlines() if not line.startswith("make")]


def test_the_readme_is_short_and_the_map_of_the_architecture_names_every_file() -> None:
    assert len(TEXT.splitlines()) <= 150
    folder = ROOT / "agentgraph"
    files = [path.name for path in folder.glob("*.py") if not path.name.startswith("__")]
    folders = [f"{path.parent.name}/" for path in folder.glob("*/__init__.py")]
    named = ARCHITECTURE.partition("## The folders")[2].partition("\n## ")[0].split()
    assert [name for name in (*files, *folders) if name not in named] == []
