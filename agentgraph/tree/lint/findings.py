"""The findings of a linted tree, and their texts."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from types import MappingProxyType
from typing import Literal, get_args

from agentgraph.safe_repr import shown
from agentgraph.tree.places import Place

FindingKind = Literal[
    "unwritten_value",
    "unread_value",
    "hidden_history",
    "unreachable",
    "endless_loop",
    "impossible_limit",
    "conflicting_writes",
]
"""The kinds of findings."""
KINDS: tuple[FindingKind, ...] = get_args(FindingKind)

PROBLEMS = MappingProxyType(
    {
        "unwritten_value": "nothing has written the value {name}, which it reads",
        "unread_value": "nothing reads the value {name}, which it writes",
        "hidden_history": "its instruction names {name}, whose messages it does not see",
        "unreachable": "nothing can reach {name}",
        "endless_loop": "nothing can end {name} before its last iteration",
        "impossible_limit": "{name} cannot hold",
        "conflicting_writes": "several write the value {name} in parallel, without a reducer",
    }
)
"""The problem of each kind of findings; `{name}` is the finding's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A likely mistake in a tree.

    Attributes:
        kind: "unwritten_value", "unread_value", "hidden_history", "unreachable", "endless_loop",
            "impossible_limit" or "conflicting_writes".
        address: The address of the agent, without iterations and other counters.
        name: The name of the value, agent, tool or limit.
        way: The addresses of the agents that run, in order, until the mistake shows; empty if there is
            no such way.
        advice: The remedy, one sentence.
    """

    kind: FindingKind
    address: str
    name: str
    way: tuple[str, ...]
    advice: str

    @property
    def problem(self) -> str:
        """The mistake, without the address and the remedy."""
        return PROBLEMS[self.kind].format(name=shown(self.name))

    def __str__(self) -> str:
        way = f" (way: {' -> '.join(self.way)})" if len(self.way) > 1 else ""
        return f"{self.address}: {self.problem}; {self.advice}{way}"


class Findings(list[Finding]):
    """The findings of a tree; a cell of a notebook shows them as a table."""

    def _repr_html_(self) -> str:
        if not self:
            return "<p>No findings.</p>"
        rows = [(each.address, f"{each.problem}; {each.advice}", " → ".join(each.way)) for each in self]
        cells = ("".join(f"<td>{escape(text)}</td>" for text in row) for row in rows)
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        head = "<tr><th>agent</th><th>mistake</th><th>way</th></tr>"
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def addresses(way: Iterable[Place]) -> tuple[str, ...]:
    """Return the addresses of a way."""
    return tuple(each.path for each in way)


def without_repeats(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings; of those of one kind, address and name only the first."""
    seen: set[tuple[str, str, str]] = set()
    for each in findings:
        key = (each.kind, each.address, each.name)
        if key not in seen:
            seen.add(key)
            yield each
