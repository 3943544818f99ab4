"""The notebooks run as they are committed: offline, and their last cell with a real client."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from openai_server import Body, OpenAIServer

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
ALL = sorted(NOTEBOOKS.glob("*.ipynb"))
VARYING = re.compile(r"\d+(\.\d+)? ?m?s\b|\d+:\d\d|[0-9a-f]{8,}[-0-9a-f]*|[ ─━]+")
"""What differs from run to run: times, ids, and the room that these take."""

each_notebook = pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)


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


@pytest.fixture(scope="module")
def kernel() -> Iterator[KernelManager]:
    """Start one kernel for all notebooks, as importing LangGraph takes seconds."""
    manager = KernelManager()
    manager.start_kernel(cwd=str(NOTEBOOKS))
    yield manager
    manager.shutdown_kernel(now=True)
    manager.context.destroy()


@each_notebook
def test_a_notebook_shows_what_is_committed_and_speaks_with_a_real_model(
    path: Path, kernel: KernelManager, openai_server: OpenAIServer
) -> None:
    openai_server.script = [answered] * 50
    notebook: Any = nbformat.read(path, as_version=4)
    committed = [shown(cell) for cell in code(notebook)]
    key = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": openai_server.base_url}
    forget = f"%reset -f\nimport os\nfor name in {[*key]}: os.environ.pop(name, None)\n%reset -f"
    cells = [nbformat.v4.new_code_cell(source) for source in (forget, f"os.environ.update({key})")]
    again = nbformat.v4.new_code_cell(code(notebook)[-1].source)
    notebook.cells = [cells[0], *notebook.cells, cells[1], again]
    runs = NotebookClient(notebook, km=kernel, timeout=120)
    runs.execute()
    runs.kc.stop_channels()
    assert [shown(cell) for cell in code(notebook)[1:-2]] == committed
    assert openai_server.requests
    assert shown(again) != committed[-1]


@each_notebook
def test_a_notebook_is_one_question_in_a_few_cells_with_outputs(path: Path) -> None:
    notebook: Any = nbformat.read(path, as_version=4)
    first = notebook.cells[0]
    assert first.cell_type == "markdown"
    assert re.match(rf"# {path.stem[:2]}\. .+\?\n", first.source)
    assert len(code(notebook)) <= 12
    assert [cell.source for cell in code(notebook) if cell.execution_count is None] == []
    assert [cell.id for cell in notebook.cells if "execution" in cell.metadata] == []
    assert notebook.metadata.language_info.version == "3.11"
    assert any("studio" in cell.metadata.get("tags", []) for cell in code(notebook))


@each_notebook
def test_a_notebook_shows_pictures_that_need_nothing_from_elsewhere(path: Path) -> None:
    cells = code(nbformat.read(path, as_version=4))
    kinds = {kind for cell in cells for output in cell.outputs for kind in output.get("data", {})}
    assert {"text/vnd.mermaid", "image/svg+xml", "text/html"} <= kinds
    text = path.read_text()
    assert [each for each in ("<script", str(Path.home()), str(NOTEBOOKS.parent)) if each in text] == []


def test_studio_has_a_graph_for_each_notebook() -> None:
    config = json.loads((NOTEBOOKS.parent / "langgraph.json").read_text())
    assert len(config["graphs"]) == len(ALL) == 11
