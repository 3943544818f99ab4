"""Joins the modules of the page into one, and its style sheets.

The modules keep to a few forms, so that joining them is cutting out lines: each import is
`import {a, b} from "./x.js";`, `export` stands only before a declaration, and no name is declared at
the top of two modules.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PAGE = Path(__file__).parent / "page"
"""The folder of the page."""
ENTRY, RENDER = "cell.js", "renderCell"
"""The module that a cell begins with, and its function that fills a cell."""
IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+\.js)";\n', re.MULTILINE)
_DOC = re.compile(r"^ */\*\*(?:[^*]|\*(?!/))*\*/\n", re.MULTILINE)
"""A comment with the types of what follows: no reader of the joined module needs them."""
_EXPORT = re.compile(r"^export (?=(?:async )?function\b|const\b|let\b|class\b)", re.MULTILINE)


@cache
def joined_modules(entry: str) -> str:
    """Return one module that does what a module and all that it needs do.

    Args:
        entry: The name of the module.
    """
    texts = (_DOC.sub("", IMPORT.sub("", text)) for text in modules(entry).values())
    return "\n".join(_EXPORT.sub("", text) for text in texts)


def cell_module() -> str:
    """Return the module of a cell, in the form that anywidget takes."""
    return f"{joined_modules(ENTRY)}\nexport default {{render: {RENDER}}};\n"


def joined_styles() -> str:
    """Return the style sheets of the page."""
    return "\n".join(path.read_text("utf-8") for path in sorted(PAGE.glob("*.css")))


def modules(entry: str) -> dict[str, str]:
    """Return the texts of a module and of all that it needs, by name; what is needed comes first."""
    return dict(_needed(entry, set()))


def _needed(name: str, seen: set[str]) -> Iterator[tuple[str, str]]:
    seen.add(name)
    text = (PAGE / name).read_text("utf-8")
    for _, other in IMPORT.findall(text):
        if other not in seen:
            yield from _needed(other, seen)
    yield name, text
