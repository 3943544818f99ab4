"""The report of a check of a saver, which prints as a table."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Sign = Literal["+", "-", "?"]


@dataclass(frozen=True)
class SaverRow:
    """One ability of a saver.

    Attributes:
        name: The ability.
        works: Whether the saver has it; None if that was not tried.
        reason: Why not, in words; empty if it works.
    """

    name: str
    works: bool | None
    reason: str = ""

    @property
    def sign(self) -> Sign:
        """`+` if it works, `-` if it does not, `?` if it was not tried."""
        return "?" if self.works is None else "+" if self.works else "-"

    def __str__(self) -> str:
        return f"{self.sign} {self.name:16}{self.reason}".rstrip()


@dataclass(frozen=True)
class SaverReport:
    """The abilities of a saver, as `check_saver` tried them. It prints as a table.

    Attributes:
        saver: The full name of its class.
        package: The name of its package; empty if it is in none.
        version: The version of the package; empty without one.
        modes: "sync", "async", or both: the calls that it serves.
        rows: Its abilities.
        seconds: The duration of the check.
    """

    saver: str
    package: str
    version: str
    modes: tuple[str, ...]
    rows: tuple[SaverRow, ...]
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether all that was tried works."""
        return all(row.works is not False for row in self.rows)

    @property
    def failed(self) -> tuple[SaverRow, ...]:
        """The abilities that the saver does not have."""
        return tuple(row for row in self.rows if row.works is False)

    def __iter__(self) -> Iterator[SaverRow]:
        return iter(self.rows)

    def __getitem__(self, name: str) -> SaverRow:
        """Return the row of an ability.

        Raises:
            KeyError: It has no row of that name.
        """
        return {row.name: row for row in self.rows}[name]

    def __str__(self) -> str:
        name = self.saver.rpartition(".")[2]
        of = f" of {self.package} {self.version}" if self.package else ""
        return "\n".join([f"{name}{of}, {' and '.join(self.modes)}", *map(str, self.rows)])
