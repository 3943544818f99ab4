"""The notebooks run as they are committed: offline, and their last cell with a real client."""

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from openai_server import Body, OpenAIServer

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
ALL = sorted(NOTEBOOKS.glob("*.ipynb"))
VARYING = re.compile(r"\d+(\.\d+)? ?m?s\b|\d+:\d\d|[0-9a-f]{8,}[-0-9a-f]*|[ ─━]+")
"""What differs from run to run: times, ids, and the room that these take."""


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell: Any) -> list[str]:
    """Return what a cell shows as text, without what differs: branches speak in any order."""
    texts = [
        output.text if output.output_type == "stream" else output.data.get("text/plain", "")
        for output in cell.outputs
    ]
    return sorted(VARYING.sub(" ", "".join(texts)).splitlines())


def answered(body: Body) -> str:
    """Answer a request in plain text, in which each agent finds what it needs; or by its schema."""
    if "response_format" in body:
        report = {"title": "A", "sentences": 1}
        return json.dumps({"customer": "Ada", "euros": 6, "is_closed": True, **report})
    return f"1. Answer to {len(body['messages'])} messages."


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_a_notebook_shows_what_is_committed_and_speaks_with_a_real_model(
    path: Path, openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    openai_server.script = [answered] * 50
    notebook = read(path)
    committed = [shown(cell) for cell in code(notebook)]
    last = code(notebook)[-1].source
    key = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": openai_server.base_url}
    notebook.cells.append(nbformat.v4.new_code_cell(f"os.environ.update({key!r})"))  # type: ignore[no-untyped-call]
    notebook.cells.append(nbformat.v4.new_code_cell(last))  # type: ignore[no-untyped-call]
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(NOTEBOOKS)}}).execute()
    assert [shown(cell) for cell in code(notebook)[:-2]] == committed
    assert openai_server.requests
    assert shown(code(notebook)[-1]) != committed[-1]


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_a_notebook_is_one_question_in_a_few_cells_with_outputs(path: Path) -> None:
    notebook = read(path)
    first = notebook.cells[0]
    assert first.cell_type == "markdown"
    assert re.match(rf"# {path.stem[:2]}\. .+\?\n", first.source)
    assert len(code(notebook)) <= 12
    assert [cell.source for cell in code(notebook) if cell.execution_count is None] == []
    assert [cell.id for cell in notebook.cells if "execution" in cell.metadata] == []
    assert notebook.metadata.language_info.version == "3.11"
    assert any("studio" in cell.metadata.get("tags", []) for cell in code(notebook))


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_a_notebook_shows_pictures_that_need_nothing_from_elsewhere(path: Path) -> None:
    kinds = {
        kind for cell in code(read(path)) for output in cell.outputs for kind in output.get("data", {})
    }
    assert {"text/vnd.mermaid", "image/svg+xml", "text/html"} <= kinds
    text = path.read_text()
    assert "<script" not in text
    assert str(Path.home()) not in text
    assert str(NOTEBOOKS.parent) not in text


def test_studio_has_a_graph_for_each_notebook() -> None:
    config = json.loads((NOTEBOOKS.parent / "langgraph.json").read_text())
    assert len(config["graphs"]) == len(ALL) == 11
