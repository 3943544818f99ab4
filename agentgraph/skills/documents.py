"""The text of a skill file as plain data, with the line of everything in it and the faults found."""

from dataclasses import dataclass
from typing import Any, NamedTuple

Path = tuple[str | int, ...]
"""Where something stands: the keys and the places in lists that lead to it."""


class Fault(NamedTuple):
    """Something that is wrong in a file.

    Attributes:
        line: Its line, from 1.
        text: What is wrong, and what to do.
        path: Where it stands.
    """

    line: int
    text: str
    path: Path = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a file says.

    Attributes:
        data: Its content as plain data.
        lines: The line of each part of it.
        faults: What is wrong with the text; the data at their paths means nothing.
    """

    data: Any
    lines: dict[Path, int]
    faults: tuple[Fault, ...]

    def line_of(self, path: Path) -> int:
        """Return the line of the part at a path, or of the nearest one around it."""
        while path not in self.lines and path:
            path = path[:-1]
        return self.lines.get(path, 1)
