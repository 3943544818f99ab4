"""Runs that are watched in a notebook, executed in a kernel."""

import re
from typing import Any

import nbformat
from nbclient import NotebookClient

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


def executed() -> tuple[list[Any], list[Any]]:
    """Run cells in a kernel, and return their outputs and all messages about displays."""
    cells = [nbformat.v4.new_code_cell(cell.strip()) for cell in CELLS.split("----")]  # type: ignore[no-untyped-call]
    notebook = nbformat.v4.new_notebook(cells=cells)  # type: ignore[no-untyped-call]
    displays = []

    class Client(NotebookClient):
        def process_message(self, msg: Any, *args: Any) -> Any:
            if "display" in msg["msg_type"]:
                displays.append(msg)
            return super().process_message(msg, *args)

    Client(notebook, timeout=60).execute()
    return [cell.outputs for cell in notebook.cells], displays


def shown(output: Any) -> list[str]:
    return [re.sub(r"\d\.\d s", "0.0 s", line) for line in output.data["text/plain"].split("\n")]


def test_in_a_notebook_the_tree_is_one_output_that_is_updated_a_few_times_a_second() -> None:
    [_, ran, resumed, failed], displays = executed()
    assert [output.output_type for output in (*ran, *resumed)] == ["display_data"] * 2
    assert shown(ran[0]) == [
        "agent    kind        state    time  last",
        "s        sequential  ? asks  0.0 s",
        "├─ much  function    ✓ done  0.0 s  <script>alert(1)</script>",
        "├─ hum   function    ✓ done  0.0 s  Hum.",
        "└─ boss  human       ? asks  0.0 s  [asks] Print?",
    ]
    assert shown(resumed[0])[1] == "s        sequential  ✓ done  0.0 s"
    assert shown(resumed[0])[-1] == "└─ boss  human       ✓ done  0.0 s  yes"
    assert shown(failed[0])[1] == "fax    function  ✗ failed  0.0 s  [error] ValueError('jammed')"
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
