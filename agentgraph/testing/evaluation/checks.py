"""Checks: functions of the result of a case, and their verdicts."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from numbers import Real
from typing import Any, cast

from agentgraph.agents.functions import discard, is_async, is_awaitable, takes_two
from agentgraph.errors import AgentGraphError
from agentgraph.graph.nodes.calling import current_task, is_cancelled
from agentgraph.graph.sync_async import Call
from agentgraph.reports.result import Result
from agentgraph.safe_repr import error_text, shown
from agentgraph.testing.evaluation.cases import Case

Check = Callable[..., object]
"""A function of a `Result`, or of a `Result` and its `Case`: it returns True, False or a score."""
Checks = Check | Iterable[Check] | Mapping[str, Check]
"""One check, several, or several by their names."""
_Outcome = tuple[object, BaseException | None]
"""The value that a check returned, and the exception that it raised."""
_ENDING = (KeyboardInterrupt, SystemExit)
"""The exceptions that end the evaluation."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a check about a result.

    Attributes:
        name: The name of the check.
        value: True, False, or a score; None if the check raised an exception.
        reason: The exception or the fault of a failed check; empty if it passed or returned False.
    """

    name: str
    value: bool | float | None
    reason: str = ""

    @property
    def failed(self) -> bool:
        """Whether the check returned False, raised an exception, or its score is too low."""
        return self.value is False or bool(self.reason)


@dataclass(frozen=True, slots=True)
class NamedCheck:
    """A check with a name, as `at_least` and the other functions of this package make it.

    Attributes:
        name: The name in reports.
        fn: The check.
        minimum: The lowest score that passes; None if each score does.
    """

    name: str
    fn: Check
    minimum: float | None = None

    def __call__(self, *arguments: object) -> object:
        """Ask the check about a result, as a test would.

        Raises:
            AssertionError: The check failed.
        """
        value = self.fn(*arguments)
        if self._is_low(value):
            raise AssertionError(self._too_low(value))
        return value

    async def verdict(self, result: Result, case: Case) -> Verdict:
        """Return the verdict about a result; it awaits calls, as described in `sync_async.py`."""
        arguments = (result, case) if _takes_case(self.fn) else (result,)
        value, error = await Call(_outcome, _aoutcome, (self.fn, *arguments))
        if error is not None:
            return Verdict(self.name, None, _reason(error))
        if isinstance(value, bool):
            return Verdict(self.name, value)
        discard(value)
        if not isinstance(value, Real) or not isfinite(value):
            return Verdict(
                self.name, None, f"it returned {shown(value)}; return True, False or a finite number"
            )
        return Verdict(self.name, float(value), self._too_low(value) if self._is_low(value) else "")

    def _is_low(self, value: Any) -> bool:
        return self.minimum is not None and value < self.minimum

    def _too_low(self, value: object) -> str:
        return f"{value} is less than {self.minimum}"


def named_checks(checks: Checks) -> tuple[NamedCheck, ...]:
    """Return checks with their names, which are unique.

    Raises:
        AgentGraphError: One is not a function.
    """
    if isinstance(checks, Mapping):
        return tuple(replace(_named(check), name=str(name)) for name, check in checks.items())
    several = checks if isinstance(checks, Iterable) else [checks]
    named: dict[str, NamedCheck] = {}
    for check in map(_named, several):
        alike = sum(each.name == check.name for each in named.values())
        name = f"{check.name} {alike + 1}" if alike else check.name
        named[name] = check
    return tuple(replace(check, name=name) for name, check in named.items())


def check_sync(checks: Iterable[NamedCheck]) -> None:
    """Reject checks that only `aevaluate` can await.

    Raises:
        AgentGraphError: There is one.
    """
    for check in checks:
        if is_async(check.fn):
            raise AgentGraphError(
                f"checks: {shown(check.name)} is async; pass a sync function, or await aevaluate(...)"
            )


def _named(check: object) -> NamedCheck:
    if isinstance(check, NamedCheck):
        return check
    if not callable(check):
        raise AgentGraphError(
            f"checks: {shown(check)} is not a function; pass functions of a Result, such as "
            "[lambda result: len(result.text) < 500]"
        )
    name = getattr(check, "__name__", type(check).__name__)
    return NamedCheck(name.strip("<>"), check)


def _reason(error: BaseException) -> str:
    """Return the text of an exception, with its type unless it is that of `assert`."""
    text = error_text(error)
    return text if isinstance(error, AssertionError) else f"{type(error).__name__}: {text}"


def _outcome(fn: Check, *arguments: object) -> _Outcome:
    """Call a check. Whatever it raises is its failure, unless that is to end the process."""
    try:
        return fn(*arguments), None
    except BaseException as error:
        if isinstance(error, _ENDING):
            raise
        return None, error


async def _aoutcome(fn: Check, *arguments: object) -> _Outcome:
    """Call a check on the event loop: a sync one in a thread, because it may ask a model."""
    if is_async(fn):  # from a thread its coroutine would be lost if the task is cancelled
        outcome = _outcome(fn, *arguments)
    else:
        outcome = await asyncio.to_thread(_outcome, fn, *arguments)
    returned, task = outcome[0], current_task()
    if not is_awaitable(returned):
        return outcome
    try:
        return await cast(Awaitable[object], returned), None
    except BaseException as error:
        is_closed = current_task() is not task  # the caller's event loop has ended
        if isinstance(error, _ENDING) or is_cancelled(error) or is_closed:
            raise
        return None, error


def _takes_case(fn: Check) -> bool:
    try:
        return takes_two(fn)
    except (TypeError, ValueError):  # a function without a signature
        return False


def at_least(minimum: float, check: Check) -> NamedCheck:
    """Return a check that fails if the score of another one is too low.

    >>> at_least(0.5, lambda result: 0.75).name
    'lambda at least 0.5'

    Args:
        minimum: The lowest score that passes.
        check: Returns a score.
    """
    named = _named(check)
    return NamedCheck(f"{named.name} at least {minimum:g}", named.fn, minimum)
