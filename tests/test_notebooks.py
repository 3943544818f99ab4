"""The notebooks run as they are committed, offline and with a real client; one test watches a run."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from helpers.openai_server import Body, OpenAIServer
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
ALL = sorted(NOTEBOOKS.glob("*.ipynb"))
VARYING = re.compile(r"\d+(\.\d+)? ?m?s\b|\d+:\d\d|[0-9a-f]{8,}[-0-9a-f]*|[ ─━]+")
"""The parts that differ from run to run: times, ids, and the room that these take."""

each_notebook = pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)


def code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell: Any) -> list[str]:
    """Return the sorted text output of a cell, without parts that differ; branches run in any order."""
    texts = [
        output.text if output.output_type == "stream" else output.data.get("text/plain", "")
        for output in cell.outputs
    ]
    return sorted(VARYING.sub(" ", "".join(texts)).splitlines())


def answered(body: Body) -> str:
    """Answer a request in plain text, in which each agent finds what it needs; or by its schema."""
    if "response_format" in body:
        report = {"title": "A", "sentences": 1}
        note = {"booked": False, "summary": "A question."}
        return json.dumps({"customer": "Ada", "euros": 6, "is_closed": True, **report, **note})
    return f"1. Answer to {len(body['messages'])} messages."


CASSETTE_MODES = "CI", "AGENTGRAPH_CASSETTES"
"""Variables that may forbid to record a cassette, as on a build server; notebooks record some."""

BEGIN = """
import gc, sys
sys.modules["mermaidx"] = None
import agentgraph, langchain_openai
gc.freeze()
"""
"""The first code of a kernel: the garbage collection of `%reset` then skips the imported modules."""


@pytest.fixture(scope="module")
def kernel() -> Iterator[KernelManager]:
    """Start one kernel for all notebooks, as importing LangGraph takes seconds.

    It has no mermaidx, which needs seconds for each picture; the committed pictures are checked below,
    and how pictures are made in `tests/show/test_drawing.py`.
    """
    manager = KernelManager()
    manager.start_kernel(cwd=str(NOTEBOOKS))
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=120)
    client.execute_interactive(BEGIN, timeout=120)
    client.stop_channels()
    yield manager
    manager.shutdown_kernel(now=True)
    manager.context.destroy()


def running(notebook: Any) -> list[Any]:
    """Return the cells that make a runner of the tree."""
    return [cell for cell in code(notebook) if "ag.Runner(agent" in cell.source]


def cells_for_a_key(notebook: Any) -> list[Any]:
    """Return copies of the cells that choose a model, make the tree, and run it first and last."""
    runs = running(notebook)
    chosen = [
        cell
        for cell in code(notebook)
        if "OPENAI_API_KEY" in cell.source or is_tagged(cell) or cell in (runs[0], runs[-1])
    ]
    return [nbformat.v4.new_code_cell(cell.source) for cell in chosen]


def is_tagged(cell: Any) -> bool:
    return "studio" in cell.metadata.get("tags", [])


@each_notebook
def test_a_notebook_shows_what_is_committed_and_speaks_with_a_real_model(
    path: Path, kernel: KernelManager, openai_server: OpenAIServer
) -> None:
    openai_server.script = [answered] * 50
    notebook: Any = nbformat.read(path, as_version=4)
    committed = [shown(cell) for cell in code(notebook)]
    key = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": openai_server.base_url}
    forget = f"import os\nfor name in {[*CASSETTE_MODES, *key]}: os.environ.pop(name, None)\n%reset -f"
    cells = [nbformat.v4.new_code_cell(source) for source in (forget, f"os.environ.update({key})")]
    with_key = cells_for_a_key(notebook)
    notebook.cells = [cells[0], *notebook.cells, cells[1], *with_key]
    runs = NotebookClient(notebook, km=kernel, timeout=120)
    runs.execute()
    runs.kc.stop_channels()
    assert [shown(cell) for cell in code(notebook)[1 : 1 + len(committed)]] == committed
    assert {body["model"] for body in openai_server.requests} == {"gpt-5-mini"}


@each_notebook
def test_a_notebook_leads_with_its_tree_and_the_name_of_its_model(path: Path) -> None:
    notebook: Any = nbformat.read(path, as_version=4)
    imports, tree, *_ = code(notebook)
    assert set(re.findall(r"^\w+", imports.source, re.MULTILINE)) <= {"import", "from"}
    assert re.search("^agent = ", tree.source, re.MULTILINE)
    if "SCRIPTED" in imports.source:
        assert re.match(
            'MODEL = .*"openai:gpt-5-mini".* if .*"OPENAI_API_KEY".* else SCRIPTED', tree.source
        )
        (script,) = re.findall("^from offline.* import SCRIPTED$", imports.source, re.MULTILINE)
        assert script == f"from offline.{path.stem[3:]} import SCRIPTED"
    before = code(notebook)[: code(notebook).index(running(notebook)[0])]
    assert sum(len(cell.source.splitlines()) for cell in before) <= 75


@each_notebook
def test_a_notebook_is_one_task_in_a_few_cells_with_outputs(path: Path) -> None:
    notebook: Any = nbformat.read(path, as_version=4)
    first = notebook.cells[0]
    assert first.cell_type == "markdown"
    assert re.match(rf"# {path.stem[:2]}\. [A-Z].+[^?.]\n", first.source)
    assert len(code(notebook)) <= 12
    assert [cell.source for cell in code(notebook) if cell.execution_count is None] == []
    assert [cell.id for cell in notebook.cells if "execution" in cell.metadata] == []
    assert notebook.metadata.language_info.version == "3.11"
    assert any(is_tagged(cell) for cell in code(notebook))


@each_notebook
def test_a_notebook_shows_pictures_that_need_nothing_from_elsewhere(path: Path) -> None:
    cells = code(nbformat.read(path, as_version=4))
    kinds = {kind for cell in cells for output in cell.outputs for kind in output.get("data", {})}
    assert {"text/vnd.mermaid", "image/svg+xml", "text/html"} <= kinds
    text = path.read_text()
    assert [each for each in ("<script", str(Path.home()), str(NOTEBOOKS.parent)) if each in text] == []


def test_studio_has_a_graph_for_each_notebook() -> None:
    config = json.loads((NOTEBOOKS.parent / "langgraph.json").read_text())
    assert len(config["graphs"]) == len(ALL) == 18


# a watched run

CELLS = """
import asyncio
import agentgraph as ag

def much(ctx):
    yield from (ag.Custom(n) for n in range(200))
    yield "<script>alert(1)</script>"

async def hum(ctx) -> str:
    await asyncio.sleep(0)
    return "Hum."

def fails(ctx) -> str:
    raise ValueError("jammed")

agents = [ag.function_agent("much", much), ag.function_agent("hum", hum), ag.human("boss", "Print?")]
runner = ag.Runner(ag.sequential("s", agents))
----
ag.watch(runner, "Go.", thread_id="t")
----
await ag.awatch(runner, thread_id="t", answers="yes")
----
try:
    ag.watch(ag.Runner(ag.function_agent("fax", fails)), "Go.")
except ValueError as error:
    print(error)
"""


def executed(kernel: KernelManager) -> tuple[list[Any], list[Any]]:
    """Run cells in a kernel, and return their outputs and all messages about displays."""
    notebook: Any = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(cell.strip()) for cell in CELLS.split("----")]
    displays = []

    class Client(NotebookClient):
        def process_message(self, msg: Any, *args: Any) -> Any:
            if "display" in msg["msg_type"]:
                displays.append(msg)
            return super().process_message(msg, *args)

    runs = Client(notebook, km=kernel, timeout=60)
    runs.execute()
    runs.kc.stop_channels()
    return [cell.outputs for cell in notebook.cells], displays


def drawn(output: Any) -> list[str]:
    return [re.sub(r"\d\.\d s", "0.0 s", line) for line in output.data["text/plain"].split("\n")]


def test_in_a_notebook_the_tree_is_one_output_that_is_updated_a_few_times_a_second(
    kernel: KernelManager,
) -> None:
    [_, ran, resumed, failed], displays = executed(kernel)
    assert [output.output_type for output in (*ran, *resumed)] == ["display_data"] * 2
    assert drawn(ran[0]) == [
        "agent    kind        state    time  last",
        "s        sequential  ? asks  0.0 s",
        "├─ much  function    ✓ done  0.0 s  <script>alert(1)</script>",
        "├─ hum   function    ✓ done  0.0 s  Hum.",
        "└─ boss  human       ? asks  0.0 s  [asks] Print?",
    ]
    assert drawn(resumed[0])[1] == "s        sequential  ✓ done  0.0 s"
    assert drawn(resumed[0])[-1] == "└─ boss  human       ✓ done  0.0 s  yes"
    assert drawn(failed[0])[1] == "fax    function  ✗ failed  0.0 s  [error] ValueError('jammed')"
    assert failed[1].text == "jammed\n"
    page = ran[0].data["text/html"]
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    first = displays[0]["parent_header"]["msg_id"]
    cell = [message for message in displays if message["parent_header"]["msg_id"] == first]
    kinds = [message["msg_type"] for message in cell]
    assert kinds[0] == "display_data"
    assert set(kinds[1:]) == {"update_display_data"}
    took = (cell[-1]["header"]["date"] - cell[0]["header"]["date"]).total_seconds()
    assert 2 <= len(kinds) <= 3 + 8 * took
    assert len({message["content"]["transient"]["display_id"] for message in cell}) == 1


SYNC_CALLS = [
    """
import asyncio, tempfile
import agentgraph as ag
path = tempfile.mkdtemp() + "/runs.db"
tree = ag.sequential("s", [ag.function_agent("a", lambda ctx: "A"), ag.human("h", "Well?")])
runner = ag.Runner(tree, checkpointer=path)
print(runner.invoke("Go.", thread_id="t").status)
""",
    """
async with ag.async_sqlite_saver(path) as saver:
    print((await ag.Runner(tree, checkpointer=saver).ainvoke("Go.", thread_id="u")).status)
    print(runner.invoke("Go.", thread_id="v").status)
    run = ag.Runner(tree, checkpointer=saver).arun("Go.", thread_id="w")
    await anext(run)
    try:
        runner.invoke("Go.", thread_id="x")
    except ag.AgentGraphError as error:
        print(str(error)[:57])
    print((await asyncio.to_thread(runner.invoke, "Go.", thread_id="y")).status)
    await run.aclose()
""",
    """print(runner.invoke(thread_id="t", answers="yes").status)""",
]


def test_sync_calls_work_in_a_kernel_but_not_beside_an_async_run_on_their_file(
    kernel: KernelManager,
) -> None:
    cells = [nbformat.v4.new_code_cell(source) for source in SYNC_CALLS]
    runs = NotebookClient(nbformat.v4.new_notebook(cells=cells), km=kernel, timeout=60)
    runs.execute()
    runs.kc.stop_channels()
    printed = [line for cell in cells for each in cell.outputs for line in each.text.splitlines()]
    refused = "thread 'x': a sync run on the event loop would block the "
    assert printed == ["paused", "paused", "paused", refused, "paused", "done"]
