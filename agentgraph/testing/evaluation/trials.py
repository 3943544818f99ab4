"""A trial of an evaluation, and the cells that tables show of some trials."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from functools import reduce
from typing import Any

from agentgraph.agents.costs import EXACT
from agentgraph.journal.spent import shown_cost
from agentgraph.reports.result import Result
from agentgraph.testing.evaluation.checks import Verdict

_PASSED, _FAILED = "✓", "✗"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run of a case, and the verdicts of the checks about it.

    Attributes:
        case: The id of the case.
        number: The number of the repeat, from 0.
        thread_id: The thread, `<name>/<case>/<number>`.
        status: The status of its turn: "done", "paused", "failed" or "stopped".
        text: The last text of an agent.
        error: The error of a failed or stopped run, about which no check is asked; else empty.
        verdicts: The verdicts, in the order of the checks.
        tokens: The tokens of the turn.
        cost: The cost of the turn; None if it is not known.
        seconds: Seconds for which agents worked in the turn.
        result: The result of the turn; None in a report that was loaded, or if nothing was saved.
    """

    case: str
    number: int
    thread_id: str
    status: str
    text: str = ""
    error: str = ""
    verdicts: tuple[Verdict, ...] = ()
    tokens: int = 0
    cost: Decimal | None = None
    seconds: float = 0.0
    result: Result | None = field(default=None, repr=False, compare=False)

    @property
    def failed(self) -> bool:
        """Whether the run failed or was stopped, or a check failed."""
        return self.status in ("failed", "stopped") or any(each.failed for each in self.verdicts)

    @property
    def reasons(self) -> list[str]:
        """The causes of the failure: the error of the run, or a line for each failed check."""
        failed = [each for each in self.verdicts if each.failed]
        lines = [f"{each.name}: {each.reason}" if each.reason else each.name for each in failed]
        return [self.error, *lines] if self.error else lines


def verdicts_of(trials: Iterable[Trial], name: str) -> Iterator[Verdict]:
    """Yield the verdicts of one check about some trials."""
    return (each for trial in trials for each in trial.verdicts if each.name == name)


def counted(words: Iterable[str]) -> str:
    """Return a word, or the numbers of several: "2 done, 1 failed"."""
    counts = Counter(words)
    return (
        next(iter(counts))
        if len(counts) == 1
        else ", ".join(f"{n} {each}" for each, n in counts.items())
    )


def cost_text(trials: Sequence[Trial]) -> str:
    """Return the sum of the costs as text; "unknown" if one is not known."""
    costs = [each.cost for each in trials]
    known = [each for each in costs if each is not None]
    whole = reduce(EXACT.add, known, Decimal(0))
    return shown_cost(whole if len(known) == len(costs) else None)


def verdicts_text(verdicts: Sequence[Verdict]) -> str:
    """Return a mark, or the number of passed verdicts; of scores the mean.

    >>> verdicts_text([Verdict("short", True)])
    '✓'
    >>> verdicts_text([Verdict("good", 0.5), Verdict("good", 1.0)])
    '0.75'
    """
    if not verdicts:
        return ""
    scores = [each.value for each in verdicts if isinstance(each.value, float)]
    failed = sum(each.failed for each in verdicts)
    if scores and len(scores) == len(verdicts):
        score = f"{sum(scores) / len(scores):.3g}"
        return f"{score} {_FAILED}" if failed else score
    if len(verdicts) == 1:
        return _FAILED if failed else _PASSED
    return f"{len(verdicts) - failed}/{len(verdicts)}"


def trial_to_dict(trial: Trial) -> dict[str, Any]:
    """Return a trial as JSON data, without its result."""
    data = {name: getattr(trial, name) for name in Trial.__slots__ if name != "result"}
    cost = None if trial.cost is None else shown_cost(trial.cost)
    return {**data, "cost": cost, "verdicts": [*map(asdict, trial.verdicts)]}


def trial_from_dict(data: Mapping[str, Any]) -> Trial:
    """Make a trial from the form of `trial_to_dict`."""
    cost = None if data["cost"] is None else Decimal(data["cost"])
    verdicts = tuple(Verdict(**each) for each in data["verdicts"])
    return Trial(**{**data, "cost": cost, "verdicts": verdicts})
