"""Code in prose that names something public, such as `ag.loop`, links to the reference."""

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

import agentgraph
from agentgraph import Runner

NAME = re.compile(r"(?P<prefix>ag\.|[Rr]unner\.|await runner\.)?(?P<name>\w+)(?P<call>\(.*)?", re.S)


OURS = ("ag.", "runner.", "await runner.")
"""How our names begin on the pages that also have those of other libraries."""


def target_of(code: str) -> str | None:
    """Return the full name of what code names; a plain lower-case word may be any word."""
    found = NAME.fullmatch(code)
    if not found:
        return None
    name = found["name"]
    match found["prefix"]:
        case None:
            is_clear = name[0].isupper() or "_" in name or found["call"]
            return f"agentgraph.{name}" if is_clear and name in agentgraph.__all__ else None
        case "ag.":
            return f"agentgraph.{name}" if name in agentgraph.__all__ else None
        case _:
            is_public = not name.startswith("_") and hasattr(Runner, name)
            return f"agentgraph.Runner.{name}" if is_public else None


class CodeLinks(SphinxTransform):
    """Makes references of literals that name something public."""

    default_priority = 500

    def apply(self, **_: Any) -> None:
        for literal in [*self.document.findall(nodes.literal)]:
            code = literal.astext()
            target = target_of(code)
            is_other = self.env.docname.startswith("migrate/") and not code.startswith(OURS)
            if target is None or is_other or _is_linked(literal, target):
                continue
            link = addnodes.pending_xref(
                "",
                refdoc=self.env.docname,
                refdomain="py",
                reftype="obj",
                reftarget=target,
                refexplicit=True,
                refwarn=True,
            )
            literal.replace_self(link)
            link += literal


def _is_linked(node: nodes.Node, target: str) -> bool:
    """Return whether code is in a link or a title, or in the description of what it names."""
    while (node := node.parent) is not None:
        if isinstance(node, nodes.reference | nodes.title | addnodes.pending_xref):
            return True
        if isinstance(node, addnodes.desc):
            return any(target in each["ids"] for each in node.findall(addnodes.desc_signature))
    return False


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_transform(CodeLinks)
    return {"parallel_read_safe": True}
