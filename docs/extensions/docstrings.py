"""Docstrings are Markdown, so that `help()` reads well: autodoc is given reStructuredText instead."""

import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.domains.python import PyObject
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.pycode import ModuleAnalyzer

import agentgraph

CONSTANTS = {
    "agentgraph.Agent": "agentgraph.agents.agents",
    "agentgraph.DELETE": "agentgraph.graph.values",
    "agentgraph.LOCAL": "agentgraph.agents.signals",
    "agentgraph.SKIP": "agentgraph.agents.signals",
    "agentgraph.STREAM_MODES": "agentgraph.events.translation",
    "agentgraph.testing.Response": "agentgraph.testing",
    "agentgraph.testing.Reply": "agentgraph.testing",
}
"""The modules that assign these names. Their docstrings are in the source, not on the value."""

SECTIONS = Config(napoleon_use_ivar=True)
"""`Attributes:` of a dataclass make no second entry for each field."""
WITHOUT_SIGNATURE = tuple(
    f"agentgraph.{each}." for each in ("agents.agents", "events", "journal", "reports", "threads")
)
"""The modules of classes that users read, and do not make."""

FENCE = re.compile(r"^([ ]*)```(\w*)\n(.*?)^\1```[ ]*$", re.M | re.S)
CODE = re.compile(r"(?<![`:\w])`([^`]+)`(?!`)(?=(\w?))")
DOCTEST = re.compile(r" *(?:>>>|\.\.\. )")


def docstring_as_rst(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Turn a docstring into reStructuredText, its sections into fields."""
    if name in CONSTANTS:
        module, constant = CONSTANTS[name], name.rpartition(".")[2]
        lines[:] = ModuleAnalyzer.for_module(module).find_attr_docs().get(("", constant), [])
    text = as_rst("\n".join(lines))
    if what not in ("attribute", "data", "property"):  # these have no sections
        text = str(GoogleDocstring(text, SECTIONS, app, what, name, obj, options))
    lines[:] = text.split("\n")


def without_signature(
    app: Sphinx,
    what: str,
    name: str,
    obj: Any,
    options: Any,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None] | None:
    """Leave out the signature of a class that users do not call."""
    module = f"{getattr(obj, '__module__', '')}."
    is_read = what == "class" and obj is not agentgraph.Runner and module.startswith(WITHOUT_SIGNATURE)
    return ("", None) if is_read else None


def as_rst(text: str) -> str:
    """Convert fenced blocks and code in backticks."""
    parts, last = [], 0
    for fence in FENCE.finditer(text):
        parts += [_prose(text[last : fence.start()]), _block(fence)]
        last = fence.end()
    return "".join([*parts, _prose(text[last:])])


def _block(fence: re.Match[str]) -> str:
    indent = f"{fence[1]}   "
    body = "\n".join(f"   {line}" if line.strip() else "" for line in fence[3].splitlines())
    return f"\n{fence[1]}.. code-block:: {fence[2] or 'default'}\n\n{body or indent}\n"


def _prose(text: str) -> str:
    """Convert prose; a doctest, up to the next blank line, stays as it is."""
    groups: list[tuple[bool, list[str]]] = []
    is_test = False
    for line in text.split("\n"):
        is_test = bool(DOCTEST.match(line)) or (is_test and bool(line.strip()))
        if groups and groups[-1][0] == is_test:
            groups[-1][1].append(line)
        else:
            groups.append((is_test, [line]))
    return "\n".join("\n".join(each) if test else _literals("\n".join(each)) for test, each in groups)


def _literals(text: str) -> str:
    """Double the backticks; a letter that follows them, as in `Event`s, is separated."""
    return CODE.sub(_literal, text)


def _literal(code: re.Match[str]) -> str:
    whole = re.sub(r"\s*\n\s*", " ", code[1])
    return f"``{whole}``" + (r"\ " if code[2] else "")


def setup(app: Sphinx) -> dict[str, Any]:
    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"
    app.connect("autodoc-process-docstring", docstring_as_rst)
    app.connect("autodoc-process-signature", without_signature)
    return {"parallel_read_safe": True}
