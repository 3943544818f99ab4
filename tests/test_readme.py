"""The README tells the truth: its code runs, and prints what stands below it."""

import contextlib
import io
import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", re.DOTALL)


def test_every_block_of_code_prints_what_the_readme_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(README.read_text())
    assert len(blocks) == 4
    names: dict[str, object] = {}
    for code, expected in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, "README.md", "exec"), names)
        assert out.getvalue() == expected


def test_the_readme_is_short():
    assert len(README.read_text().splitlines()) <= 200


def test_the_map_names_every_file():
    folder = README.parent / "agentgraph"
    names = {path.name for path in folder.glob("*.py")} - {"__init__.py", "__main__.py"}
    folders = {f"{path.parent.name}/" for path in folder.glob("*/__init__.py")}
    text = README.read_text().partition("```\nagentgraph/")[2].partition("```")[0]
    assert {name for name in names | folders if name not in text} == set()
