"""The prose of a file: docstrings and comments, error texts, Markdown outside of code, labels."""

import io
import json
import re
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

Prose = Iterator[tuple[int, str]]
"""Lines by number, and the text that starts there."""
QUOTES = re.compile(r"^[a-zA-Z]*(\"\"\"|'''|\"|')|(\"\"\"|'''|\"|')$")
CODE = re.compile(r"`[^`]*`|\"\w+\"|'\w+'")
FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
VOID = re.compile(r"=>\svoid\b|\bvoid:\s")
"""The type, and the state of a bar, which is data."""
SCRIPT = re.compile(r"(?://|^\s*/?\*+)(?P<comment>.*)|(?P<text>\"[^\"]* [^\"]*\"|`[^`]* [^`]*`)")


def prose(file: Path) -> Prose:
    """Yield the prose of a file; code in backticks and quoted words are left out."""
    for line, text in READERS[file.suffix](file.read_text()):
        yield line, CODE.sub("`x`", text)


def _python(source: str) -> Prose:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")
        elif token.type == tokenize.STRING and " " in token.string:
            yield token.start[0], QUOTES.sub("", token.string)


def _markdown(source: str) -> Prose:
    without_code = FENCED.sub(lambda block: "\n" * block[0].count("\n"), source)
    yield from enumerate(without_code.splitlines(), 1)


def _notebook(source: str) -> Prose:
    for cell in json.loads(source)["cells"]:
        if cell["cell_type"] == "markdown":
            yield from _markdown("".join(cell["source"]))


def _script(source: str) -> Prose:
    for line, text in enumerate(source.splitlines(), 1):
        for found in SCRIPT.finditer(VOID.sub("", text)):
            yield line, found["comment"] or found["text"] or ""


READERS: dict[str, Callable[[str], Prose]] = {
    ".py": _python,
    ".md": _markdown,
    ".ipynb": _notebook,
    ".js": _script,
}
