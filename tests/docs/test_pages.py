"""The pages of `docs/` are right: done as a page says, in a new folder, each prints what it says."""

import os
import re
import sys
from pathlib import Path

import pytest
from helpers.commands import Commands
from helpers.openai_server import OpenAIServer
from helpers.pages import BLOCK, NOT_RUN, follow, forgetting, run_line

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    str(path.relative_to(DOCS)): path.read_text()
    for path in sorted(DOCS.rglob("*.md"))
    if "_build" not in path.parts
}
SERVER = "127.0.0.1"
"""In the pages that need servers, which `tests/server/test_guides_of_servers.py` runs."""
REAL = re.compile(r"chat_agent\([^)]*\"openai:[^)]*\)\n(?!except)")
"""In the pages that ask a real model, here on the loopback address; a call that raises asks none."""
RUN = [
    name
    for name, text in PAGES.items()
    if SERVER not in text and {"python", "sh"} & {each["language"] for each in BLOCK.finditer(text)}
]


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")  # by langgraph-supervisor
@pytest.mark.parametrize("name", [name for name in RUN if not name.startswith("reference")])
def test_every_command_and_block_of_code_prints_what_a_page_says(
    name: str,
    program: Commands,
    openai_server: OpenAIServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(Path(sys.prefix) / "bin")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.setenv("OPENAI_BASE_URL", openai_server.base_url)
    openai_server.script = ["Bees hum."] * 20
    text = NOT_RUN.sub("", PAGES[name])
    with forgetting(tmp_path):
        follow(BLOCK.finditer(text), lambda line: run_line(line, program), (DOCS / name).parent)
    assert bool(REAL.search(text)) == bool(openai_server.requests)


@pytest.mark.parametrize("name", PAGES)
def test_a_link_leads_to_a_page_or_a_heading(name: str) -> None:
    text = re.sub(r"```.*?```", "", PAGES[name], flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        page = ((DOCS / name).parent / path).resolve() if path else DOCS / name
        assert page.is_file(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
            assert anchor in [_anchor(each) for each in headings], target


def _anchor(heading: str) -> str:
    """Return the anchor of a heading, as MyST and GitHub make it."""
    return re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-"))


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_in_a_table_of_contents(name: str) -> None:
    folder, _, page = name.removesuffix(".md").rpartition("/")
    listing = [PAGES.get("index.md", ""), PAGES.get(f"{folder}/index.md", "")]
    entries = [line for text in listing for line in text.splitlines()]
    assert name == "index.md" or page in entries or f"{folder}/{page}".strip("/") in entries


@pytest.mark.parametrize("name", [name for name in PAGES if name.startswith("guides/")])
def test_a_guide_is_short(name: str) -> None:
    assert len(PAGES[name].splitlines()) <= 80


@pytest.mark.parametrize("name", PAGES)
def test_a_sentence_is_short(name: str) -> None:
    text = re.sub(r"```.*?```|<!--.*?-->", "", PAGES[name], flags=re.DOTALL)
    paragraphs = re.split(r"\n\n|\n(?=- |\| |: )", re.sub(r"`[^`]*`", "x", text))
    plain = [" ".join(each.split()) for each in paragraphs if not each.startswith("|")]
    sentences = [each for text in plain for each in re.split(r"(?<=[.:;!?])\s", text)]
    assert [each for each in sentences if len(each.split()) > 25] == []
