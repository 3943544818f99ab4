"""Writes `llms.txt`, and each page as plain Markdown, for language models that read the pages."""

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

INTRODUCTION = """# agentgraph

> A Python library on LangGraph. A tree of agents compiles to one plain LangGraph graph. Each run is
> a stream of events that say which agent did what, in which iteration.

Install a checkout with `pip install .` (the distribution is called `langgraph-agentgraph`); import it
as `import agentgraph as ag`.

"""
INCLUDE = re.compile(r"```\{literalinclude\} (\S+)\n```")
API = re.compile(r"```\{eval-rst\}\n(.*?)```", re.S)
OTHER = re.compile(r"```\{(?:toctree|commands)\}.*?```\n*", re.S)
DIRECTIVE = re.compile(r"\.\. (?:auto\w+|currentmodule):: ([\w.]+)")


def write_texts(app: Sphinx, error: Exception | None) -> None:
    """Write the texts into the folder of the pages."""
    if error or app.builder.name != "html":
        return
    out, listed = Path(app.outdir), [INTRODUCTION]
    for name in _in_order(app, "index"):
        source = Path(app.env.doc2path(name))
        if source.suffix != ".md":
            continue
        text = as_markdown(source)
        (out / f"{name}.md").write_text(text)
        if name.endswith("/index") and name != "tutorials/index":
            listed.append(f"\n## {app.env.titles[name].astext()}\n\n")
        elif name != "index":
            listed.append(f"- [{app.env.titles[name].astext()}]({name}.md): {_first_sentence(text)}\n")
    (out / "llms.txt").write_text("".join(listed))


def _in_order(app: Sphinx, name: str) -> list[str]:
    """Return the pages as the tables of contents list them; pages without a section come first."""
    below = app.env.toctree_includes.get(name, [])
    plain = [each for each in below if each not in app.env.toctree_includes]
    ordered = [*plain, *(each for each in below if each not in plain)] if name == "index" else below
    return [name, *(page for each in ordered for page in _in_order(app, each))]


def as_markdown(source: Path) -> str:
    """Return a page with its included files and docstrings."""
    text = INCLUDE.sub(lambda found: _included(source.parent / found[1]), source.read_text())
    return OTHER.sub("", API.sub(lambda found: _described(found[1]), text))


def _included(path: Path) -> str:
    return f"```python\n{path.read_text()}```"


def _described(directives: str) -> str:
    module, parts = "", []
    for found in DIRECTIVE.finditer(directives):
        if "currentmodule" in found[0]:
            module = found[1]
            continue
        thing: Any = import_module(module)
        for name in found[1].split("."):
            thing = getattr(thing, name)
        parts.append(f"### `{found[1]}{_signature(thing)}`\n\n{inspect.getdoc(thing) or ''}\n")
    return "\n".join(parts)


def _signature(thing: object) -> str:
    try:
        given = inspect.signature(thing) if callable(thing) else None
    except ValueError:
        return ""
    if given is None:
        return ""
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in given.parameters.values()]
    return str(given.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def _first_sentence(text: str) -> str:
    """Return the first sentence after the heading, on one line."""
    paragraphs = [each for each in text.split("\n\n")[1:] if not each.startswith(("#", "|", "```"))]
    first = " ".join(paragraphs[0].split()) if paragraphs else ""
    return re.split(r"(?<=[.!?]) ", first)[0]


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", write_texts)
    return {"parallel_read_safe": True}
