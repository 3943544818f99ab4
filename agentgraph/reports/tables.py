"""Tables of texts, for terminals and for cells of notebooks."""

import html
from collections.abc import Mapping, Sequence

from agentgraph.safe_repr import cut

Rows = Sequence[Mapping[str, str]]
"""The rows of a table: the cells by the names of their columns, the same in each row."""
_LONGEST = 60
"""Maximum number of characters shown of a cell where there is no HTML."""


def text_table(rows: Rows) -> str:
    """Return a table as lines of text; empty without rows.

    >>> print(text_table([{"case": "bees", "tokens": "12"}, {"case": "ants", "tokens": "7"}]))
    case  tokens
    bees  12
    ants  7
    """
    lines = [[*rows[0]], *([*row.values()] for row in rows)] if rows else []
    cells = [[_shown(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in cells)


def is_cut(cell: str) -> bool:
    """Return whether `text_table` shows a part of a cell."""
    return _shown(cell) != " ".join(cell.split())


def _shown(cell: str) -> str:
    return cut(" ".join(cell.split()), _LONGEST)


def html_table(rows: Rows) -> str:
    """Return a table as HTML; texts are escaped."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in (rows[0] if rows else ()))
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row.values())}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
