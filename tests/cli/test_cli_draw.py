"""`draw`: to files, and runs on their graphs."""

import re
from xml.etree import ElementTree

import pytest
from cli_agents import PAUSED, REFUSED
from helpers.commands import Commands

pytestmark = pytest.mark.usefixtures("agents")

SVG = "{http://www.w3.org/2000/svg}"


def test_a_run_is_drawn_on_its_graph_as_text_svg_and_page(command: Commands) -> None:
    asking = "agents.py:asking"
    assert command("run", asking, "Go.", "--thread", "t", "--no-input").code == PAUSED
    lines = [re.sub(r"\d+ ms|\d+\.\d s", "T", line.strip()) for line in drawn(command, "--thread", "t")]
    assert 'first["first<br/>1x, T"]:::function' in lines
    assert 'boss[/"boss<br/>1x, not ended"/]:::person' in lines
    assert "class printer pale" in lines

    db = str(command.folder / "agentgraph.db")
    ended = command("draw", asking, "--svg", "a.svg", "--html", "a.html", "--thread", "t", "--db", db)
    assert ended.out == "Drawn: a.svg.\nDrawn: a.html.\n"
    svg = (command.folder / "a.svg").read_text()
    texts = {"".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(f"{SVG}text")}
    assert {"start", "printer", "person", "did not run", "end"} <= texts
    page = (command.folder / "a.html").read_text()
    assert svg in page
    assert "<h1>asking</h1>\n<p>Thread t: 2 steps</p>" in page
    assert re.findall(r"<script|src=|href=", page) == []


def drawn(command: Commands, *options: str) -> list[str]:
    return command("draw", "agents.py:asking", *options).lines


def test_what_cannot_be_drawn_is_refused(command: Commands) -> None:
    assert command("run", "agents.py:asking", "Go.", "--thread", "t", "--no-input").code == PAUSED
    unknown = command("draw", "agents.py:asking", "--thread", "none")
    assert (unknown.code, unknown.out) == (REFUSED, "")
    assert "none" in unknown.err
    nowhere = command("draw", "agents.py:asking", "--svg", "no/a.svg")
    assert (nowhere.code, nowhere.out) == (REFUSED, "")
    why = "No such file or directory; name another file"
    assert nowhere.err == f"Error: no/a.svg cannot be written: {why}\n"


def test_without_the_package_there_is_the_text_and_the_extra_is_named(command: Commands) -> None:
    (command.folder / "without.py").write_text(
        "import sys; sys.modules['mermaidx'] = None\nfrom agents import asking"
    )
    ended = command("draw", "without.py:asking", "--svg", "a.svg")
    assert ended.code == REFUSED
    assert ended.err == (
        "Error: an SVG needs the package mermaidx; run pip install 'langgraph-agentgraph[svg]', or "
        "use the Mermaid text, which needs no package\n"
    )
    assert not (command.folder / "a.svg").exists()
    assert command("draw", "without.py:asking").lines[0] == "graph LR"
