"""Renders Mermaid text as an SVG with a legend, and as a page; nothing is sent over the network."""

import html
import re
from functools import lru_cache
from importlib.util import find_spec
from zlib import crc32

from agentgraph.errors import AgentGraphError, pip_install
from agentgraph.safe_repr import printable
from agentgraph.show.legend import legend

_CONFIG = {"htmlLabels": False, "flowchart": {"htmlLabels": False, "wrappingWidth": 600}}
_LABELS = (
    (
        "opacity:0.5;background-color:rgba(232,232,232, 0.8);fill:rgba(232,232,232, 0.8);",
        "fill:#f1f5f9;",
    ),
)
"""Replaced styles of Mermaid: labels of edges become opaque, because a page may be dark."""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<meta name="color-scheme" content="light dark" />
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'" />
<title>{title}</title>
<style>
body {{ margin: 2rem; font: 16px/1.5 system-ui, sans-serif; color: #1f2937; background: #ffffff }}
h1 {{ margin: 0; font-size: 1.3rem }}
p {{ margin: .2rem 0 1.2rem; color: #6b7280 }}
main {{ overflow-x: auto }}
svg {{ max-width: 100%; height: auto }}
@media (prefers-color-scheme: dark) {{
  body {{ color: #e5e7eb; background: #111827 }}
  p {{ color: #9ca3af }}
}}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{caption}</p>
<main>
{svg}
</main>
</body>
</html>
"""


def can_render() -> bool:
    """Return whether the package that renders Mermaid text is installed."""
    try:
        return find_spec("mermaidx") is not None
    except ValueError:  # a test has replaced the module
        return False


@lru_cache(maxsize=32)
def as_svg(text: str, kinds: tuple[str, ...]) -> str:
    """Render Mermaid text as an SVG with a legend.

    Args:
        text: The Mermaid text.
        kinds: The classes of the text that the legend explains; if empty, there is no legend.

    Raises:
        AgentGraphError: The package mermaidx is missing.
    """
    try:
        import mermaidx
    except ImportError as error:
        raise AgentGraphError(
            f"an SVG needs the package mermaidx; run {pip_install('svg')}, or use the Mermaid text, "
            "which needs no package"
        ) from error
    drawn = mermaidx.render(text, config=_CONFIG).svg()
    for style, better in _LABELS:
        drawn = drawn.replace(style, better)
    drawn = re.sub(r"&amp;#(\d+);", r"&#\1;", drawn)  # Mermaid leaves its codes to the browser
    return _in_its_size(drawn, kinds)


def as_page(drawing: str, title: str, caption: str) -> str:
    """Put an SVG in a page.

    Args:
        drawing: The SVG.
        title: The title of the page.
        caption: The text below the title.
    """
    shown = {"title": html.escape(printable(title)), "caption": html.escape(printable(caption))}
    return _PAGE.format(svg=drawing, **shown)


def _in_its_size(drawing: str, kinds: tuple[str, ...]) -> str:
    """Add a legend and a fixed size to an SVG, with a unique id so that its styles stay separate."""
    x, y, width, height = map(float, re.findall(r'viewBox="(\S+) (\S+) (\S+) (\S+)"', drawing)[0])
    below, wide, high = legend(kinds, x, y + height, width)
    size = f"{max(width, wide):g}", f"{height + high:g}"
    sized = re.sub(
        r'width="100%"(.*?)style="[^"]*"(.*?)viewBox="[^"]*"',
        rf'width="{size[0]}" height="{size[1]}"\1\2viewBox="{x:g} {y:g} {size[0]} {size[1]}"',
        drawing,
        count=1,
    )
    sized = sized.removesuffix("</svg>") + below + "</svg>"
    return sized.replace("my-svg", f"graph-{crc32(drawing.encode()):08x}")
