"""Joins the modules of the page into one module, and its style sheets into one text.

Joining only removes lines, because the modules use few forms: each import is
`import {a, b} from "./x.js";`, `export` is always before a declaration, and no two modules declare the
same name at the top.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PAGE = Path(__file__).parent / "page"
"""The folder of the page."""
ENTRY, RENDER = "cell.js", "renderCell"
"""The first module of a cell, and its function that fills a cell."""
IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+\.js)";\n', re.MULTILINE)
_DOC = re.compile(r"^ */\*\*(?:[^*]|\*(?!/))*\*/\n", re.MULTILINE)
"""A comment with types, which the joined module does not need."""
_EXPORT = re.compile(r"^export (?=(?:async )?function\b|const\b|let\b|class\b)", re.MULTILINE)


@cache
def joined_modules(entry: str) -> str:
    """Return the text of a module, joined with all modules that it imports.

    Args:
        entry: The name of the module.
    """
    texts = (_DOC.sub("", IMPORT.sub("", text)) for text in modules(entry).values())
    return "\n".join(_EXPORT.sub("", text) for text in texts)


def cell_module() -> str:
    """Return the module of a cell, in the form that anywidget needs."""
    return f"{joined_modules(ENTRY)}\nexport default {{render: {RENDER}}};\n"


def joined_styles() -> str:
    """Return the style sheets of the page."""
    return "\n".join(path.read_text("utf-8") for path in sorted(PAGE.glob("*.css")))


def modules(entry: str) -> dict[str, str]:
    """Return the texts of a module and its imports, by name; each import comes first."""
    return dict(_needed(entry, set()))


def _needed(name: str, seen: set[str]) -> Iterator[tuple[str, str]]:
    seen.add(name)
    text = (PAGE / name).read_text("utf-8")
    for _, other in IMPORT.findall(text):
        if other not in seen:
            yield from _needed(other, seen)
    yield name, text
