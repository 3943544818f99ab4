"""The report of an evaluation, and the comparison of two reports; both print as tables."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from agentgraph.errors import AgentGraphError
from agentgraph.reports.tables import html_table, is_cut, text_table
from agentgraph.safe_repr import cut, shown
from agentgraph.testing.evaluation.cases import file_fault
from agentgraph.testing.evaluation.trials import (
    Trial,
    cost_text,
    counted,
    trial_from_dict,
    trial_to_dict,
    verdicts_of,
    verdicts_text,
)

_VERSION = "agentgraph_report"
_COLUMNS = ("case", "status", "passed", "tokens", "cost", "seconds", "failure")
"""The columns of a report, and of a comparison, that are not those of checks."""
_LONGEST = 2000
"""Maximum number of characters shown of a failure below the table, which shows its start."""
_NONE = "-"
"""A cell of a report without the case or the check."""


@dataclass(frozen=True, repr=False)
class Report:
    """The trials of an evaluation; it prints as a table, and a notebook shows it as one.

    Attributes:
        name: The name of the evaluation.
        trials: The trials, in the order of the cases.
    """

    name: str
    trials: tuple[Trial, ...]

    @property
    def failed(self) -> tuple[Trial, ...]:
        """The trials that failed; empty if all passed."""
        return tuple(each for each in self.trials if each.failed)

    @cached_property
    def by_case(self) -> dict[str, list[Trial]]:
        """The trials of each case, by its id."""
        several: dict[str, list[Trial]] = {}
        for each in self.trials:
            several.setdefault(each.case, []).append(each)
        return several

    @cached_property
    def checks(self) -> list[str]:
        """The names of the checks."""
        return [*dict.fromkeys(each.name for trial in self.trials for each in trial.verdicts)]

    @property
    def rows(self) -> list[dict[str, str]]:
        """The table: a row for each case, with its repeats together, and one for all cases."""
        rows = [{"case": case, **self._cells(trials)} for case, trials in self.by_case.items()]
        for row, trials in zip(rows, self.by_case.values(), strict=True):
            row["failure"] = "; ".join(dict.fromkeys(each for one in trials for each in one.reasons))
        return [*rows, {"case": self.summary, **self._cells(self.trials), "failure": ""}]

    @property
    def summary(self) -> str:
        """The number of passed and of all trials, such as "3 of 4 passed"."""
        return f"{len(self.trials) - len(self.failed)} of {len(self.trials)} passed"

    def compare(self, other: "Report") -> "Comparison":
        """Compare this report with another one, such as that of a changed tree.

        Args:
            other: The report on the right.

        Returns:
            The differences, as a table.
        """
        return Comparison(self, other)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON data, without the results."""
        return {_VERSION: 1, "name": self.name, "trials": [*map(trial_to_dict, self.trials)]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Report":
        """Make a report from the form of `to_dict`.

        Raises:
            AgentGraphError: The data is not a report.
        """
        try:
            if data[_VERSION] != 1:
                raise ValueError(data[_VERSION])
            return cls(data["name"], tuple(map(trial_from_dict, data["trials"])))
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise AgentGraphError(
                f"{shown(data)} is not a report; write it with report.to_dict()"
            ) from error

    def save(self, path: str | PathLike[str]) -> None:
        """Write the report to a file, without the results; `Report.load` reads it.

        Args:
            path: The file, JSON.

        Raises:
            AgentGraphError: The file cannot be written.
        """
        text = json.dumps(self.to_dict(), indent=1)
        try:
            Path(path).write_text(f"{text}\n", "utf-8")
        except OSError as error:
            raise AgentGraphError(
                f"the report {path} cannot be written ({file_fault(error)}); name another file"
            ) from error

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Report":
        """Read a report from a file.

        Args:
            path: The file.

        Raises:
            AgentGraphError: The file cannot be read, or is not a report.
        """
        try:
            data = json.loads(Path(path).read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise AgentGraphError(
                f"the report {path} cannot be read ({file_fault(error)}); name a file of report.save()"
            ) from error
        return cls.from_dict(data)

    @cached_property
    def _has_costs(self) -> bool:
        return any(each.cost is not None for each in self.trials)

    def _cells(self, trials: Sequence[Trial]) -> dict[str, str]:
        """Return the cells of some trials but the first and the last."""
        costs = {"cost": cost_text(trials)} if self._has_costs else {}
        return {
            "status": counted(each.status for each in trials),
            **{_column(name): verdicts_text([*verdicts_of(trials, name)]) for name in self.checks},
            "tokens": str(sum(each.tokens for each in trials)),
            **costs,
            "seconds": f"{sum(each.seconds for each in trials):.2f} s",
        }

    def __repr__(self) -> str:
        rows = self.rows
        long = [row for row in rows if is_cut(row["failure"])]
        failures = [f"\n{row['case']}: {cut(row['failure'], _LONGEST)}" for row in long]
        return "\n".join([self.name, text_table(rows), *failures])

    def _repr_html_(self) -> str:
        return html_table(self.rows)


@dataclass(frozen=True, slots=True)
class Change:
    """A difference of two reports in one case.

    Attributes:
        case: The id of the case.
        what: "status", or the name of a check.
        left: The cell of the left report.
        right: The cell of the right report.
    """

    case: str
    what: str
    left: str
    right: str


@dataclass(frozen=True, repr=False)
class Comparison:
    """The differences of two reports; it prints as a table, and a notebook shows it as one.

    Attributes:
        left: The report that was compared.
        right: The other report.
    """

    left: Report
    right: Report

    @property
    def changes(self) -> list[Change]:
        """The differences in statuses and checks, in the order of the cases on the left."""
        return [*self._changes()]

    @property
    def worse(self) -> list[str]:
        """The ids of the cases of which more trials fail on the right, as parts of all trials."""
        return [case for case, left, right in self._both() if _failing(right) > _failing(left)]

    @property
    def better(self) -> list[str]:
        """The ids of the cases of which fewer trials fail on the right, as parts of all trials."""
        return [case for case, left, right in self._both() if _failing(right) < _failing(left)]

    @property
    def rows(self) -> list[dict[str, str]]:
        """The table: the totals of both reports, then a row for each change."""
        names = self.left.name, self.right.name
        is_clear = len({*names, "case", "what"}) == len(names) + 2
        left, right = names if is_clear else ("left", "right")
        totals = [{"passed": each.summary, **each.rows[-1]} for each in (self.left, self.right)]
        hidden = ("case", "status", "failure")
        measures = dict.fromkeys(name for each in totals for name in each if name not in hidden)
        changes = [
            *(Change("all", name, *(each.get(name, _NONE) for each in totals)) for name in measures),
            *self.changes,
        ]
        return [
            {"case": each.case, "what": each.what, left: each.left, right: each.right}
            for each in changes
        ]

    def _both(self) -> Iterator[tuple[str, list[Trial], list[Trial]]]:
        left, right = self.left.by_case, self.right.by_case
        return ((case, trials, right[case]) for case, trials in left.items() if case in right)

    def _changes(self) -> Iterator[Change]:
        left, right = ({row["case"]: row for row in each.rows[:-1]} for each in (self.left, self.right))
        checks = [each for each in self.left.checks if each in self.right.checks]
        trials = [each.by_case for each in (self.left, self.right)]
        for case in dict.fromkeys((*left, *right)):
            rows = [each.get(case, {}) for each in (left, right)]
            cells = [row.get("status", _NONE) for row in rows]
            if cells[0] != cells[1]:
                yield Change(case, "status", *cells)
            for check in checks if all(rows) else ():
                rates = [_rate(each[case], check) for each in trials]
                if rates[0] != rates[1]:
                    yield Change(case, check, *(row[_column(check)] for row in rows))

    def __repr__(self) -> str:
        return text_table(self.rows)

    def _repr_html_(self) -> str:
        return html_table(self.rows)


def _failing(trials: Sequence[Trial]) -> float:
    return sum(each.failed for each in trials) / len(trials)


def _rate(trials: Sequence[Trial], check: str) -> tuple[float, float] | None:
    """Return the part of verdicts that failed, and the mean score; None without verdicts."""
    verdicts = [*verdicts_of(trials, check)]
    if not verdicts:
        return None
    failed, scores = sum(each.failed for each in verdicts), sum(each.value or 0 for each in verdicts)
    return failed / len(verdicts), scores / len(verdicts)


def _column(check: str) -> str:
    """Return the name of the column of a check."""
    return f"{check} (check)" if check in _COLUMNS else check
