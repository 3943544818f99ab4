"""Runs the cases of an evaluation, each on its own thread, and asks checks about the results.

The problem: an evaluation of hundreds of cases takes long and costs money. It is killed in the middle,
a provider fails, a case is edited. Then all that is done must count, and nothing may count twice.

The rule: the thread of a trial is `<name>/<case>/<number>`, and its turn is named by the digest of the
case, so `advance` brings it as far as it can go, however often it is called. The digest says how a
later call finds the thread:

    the thread                        the trial
    is not there                      runs
    has a turn of this digest         continues; it is read if it has ended
    has a turn of another digest      the case has changed: the thread is deleted, and the trial runs
    has no turn of an evaluation      is rejected: another program made it

All threads are looked up before anything runs or is deleted. A run that failed has ended, unless the
caller wants failed ones to continue.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple, cast

from agentgraph.agents.limits import Limits
from agentgraph.errors import (
    SaverError,
    ThreadBusyError,
    ThreadError,
    TreeChangedError,
    TurnFailedError,
)
from agentgraph.graph.graph_classes import RootGraph
from agentgraph.graph.sync_async import Call
from agentgraph.journal.locks import holding
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.journal.turn_records import turn_records
from agentgraph.reports.result import Result
from agentgraph.reports.thread_list import status_of
from agentgraph.safe_repr import error_text, shown
from agentgraph.testing.evaluation.cases import Case, CaseTurn
from agentgraph.testing.evaluation.checks import NamedCheck
from agentgraph.testing.evaluation.trials import Trial
from agentgraph.threads.advancing import aadvance, advance, result_at, until_free
from agentgraph.threads.begin import Advance
from agentgraph.threads.engine import Engine, RunOptions

_COUNTED = 10**15
"""A limit that no run reaches: with a limit all that a run spends is counted."""
_TURN = "case "
"""The start of the names of the turns of evaluations."""


class Planned(NamedTuple):
    """A trial that is to run.

    Attributes:
        case: Its case.
        number: The number of the repeat.
        thread_id: Its thread.
        found: Whether the thread is "new", has "begun" the case, or another version of it ("changed").
    """

    case: Case
    number: int
    thread_id: str
    found: Literal["new", "begun", "changed"] = "new"

    @property
    def turn_ids(self) -> list[str]:
        """The names of its turns."""
        return [f"{_TURN}{self.case.digest} {number}" for number in range(len(self.case.turns))]


class Evaluation:
    """The trials of an evaluation, and how each of them runs.

    Attributes:
        engine: Runs the tree.
        name: The name.
        planned: The trials.
        checks: The checks.
        is_stopping: Whether no trial starts anything any more.
    """

    def __init__(
        self,
        engine: Engine,
        name: str,
        planned: Sequence[Planned],
        checks: Sequence[NamedCheck],
        *,
        retries: bool,
    ) -> None:
        self.engine, self.name, self.planned, self.checks = engine, name, planned, checks
        self.is_stopping, self._retries = False, retries
        bounds = cast(RootGraph, engine.graph).limits.bounds
        self._limits = None if bounds.keys() - {"transfers"} else Limits(steps=_COUNTED)

    async def look_up(self) -> None:
        """Find the thread of each trial; it awaits calls.

        Raises:
            ThreadError: A thread is not of an evaluation, or another tree ran it.
        """
        self.planned = [
            each._replace(found=await self._read(self._found, each.thread_id, each.turn_ids))
            for each in self.planned
        ]

    async def trial(self, planned: Planned) -> Trial:
        """Run or read a trial, and ask the checks; it awaits calls."""
        case, thread_id = planned.case, planned.thread_id
        trial = Trial(case=case.id, number=planned.number, thread_id=thread_id, status="failed")
        try:
            result = await self._result(planned)
        except TreeChangedError as error:
            raise self._changed_tree(thread_id) from error
        except SaverError:
            raise
        except Exception as error:
            return replace(trial, error=f"{type(error).__name__}: {error_text(error)}")
        spent = result.spent
        trial = replace(
            trial,
            status=result.status,
            text=result.text,
            error=_error(result),
            tokens=spent.tokens,
            cost=spent.cost,
            seconds=spent.seconds,
            result=result,
        )
        if trial.error:
            return trial
        verdicts = [await check.verdict(result, case) for check in self.checks]
        return replace(trial, verdicts=tuple(verdicts))

    async def _result(self, planned: Planned) -> Result:
        thread_id, is_begun = planned.thread_id, planned.found == "begun"
        if planned.found == "changed":
            await self._read(_deleted, thread_id, planned.turn_ids)
        if is_begun and not self._retries and (failed := await self._failed(thread_id)):
            return failed
        for turn_id, turn in zip(planned.turn_ids, planned.case.turns, strict=True):
            result = await self._advanced(thread_id, turn_id, turn)
            if result.status != "done":
                break
        return result

    async def _advanced(self, thread_id: str, turn_id: str, turn: CaseTurn) -> Result:
        """Bring a turn to its end, or to a question to which the case has no answer."""
        answers: dict[str, object] = {}
        how = RunOptions(False, self._limits, values=turn.values)
        while not self.is_stopping:
            wanted = Advance(turn.input, turn_id, answers, turn.values)
            try:
                result: Result = await Call(_advance, _aadvance, (self.engine, thread_id, wanted, how))
            except (SaverError, TreeChangedError):
                raise
            except Exception as error:
                if (failed := await self._failed(thread_id)) is None:
                    raise
                failed.error.__cause__ = error
                return failed
            answers = turn.answers_to(result.pending, result.events)
            if not answers and not _has_died(result):
                return result
        raise KeyboardInterrupt  # in the thread of a trial; the caller's has one already

    async def _found(self, saver: ThreadSaver, turn_ids: Sequence[str]) -> str:
        """Return the state of the thread of a case whose turns have these names.

        Raises:
            ThreadError: The thread is not of an evaluation, or another tree ran it.
        """
        records = [each.turn_id for each in await turn_records(saver)]
        saved = await saver.checkpoint()
        if not records and saved is None:
            return "new"
        if not records or not all(each.startswith(_TURN) for each in records):
            raise ThreadError(
                f"evaluation {shown(self.name)}: thread {shown(saver.thread_id)} is not of an "
                "evaluation; pass another name=",
                saver.thread_id,
            )
        if _are_others(records, turn_ids):
            return "changed"
        position = saved.position if saved else None
        if position is not None and position["tree"] != saver.tree.fingerprint:
            raise self._changed_tree(saver.thread_id)
        return "begun"

    def _changed_tree(self, thread_id: str) -> ThreadError:
        return ThreadError(
            f"evaluation {shown(self.name)}: another tree ran thread {shown(thread_id)}; pass another "
            "name= for the changed tree",
            thread_id,
        )

    async def _failed(self, thread_id: str) -> Result | None:
        """Return the result of a turn whose last run failed; None for another status."""
        if await self._read(status_of, thread_id) != "failed":
            return None
        failed: Result = await self._read(result_at, thread_id, None)
        return failed

    def _read(self, reads: Callable[..., Any], thread_id: str, *arguments: object) -> Call:
        return Call(self.engine.read, self.engine.aread, (reads, thread_id, *arguments))


async def _deleted(saver: ThreadSaver, turn_ids: Sequence[str]) -> None:
    """Delete a thread, once no run is active on it, unless another call has begun the case on it."""
    while True:
        await until_free(saver)
        with suppress(ThreadBusyError):  # another call was first
            await holding(saver.saver, [saver.checked_id], _deleted_of(saver, turn_ids))
            return


async def _deleted_of(saver: ThreadSaver, turn_ids: Sequence[str]) -> None:
    if _are_others([each.turn_id for each in await turn_records(saver)], turn_ids):
        await saver.delete()


def _are_others(turns: Sequence[str], turn_ids: Sequence[str]) -> bool:
    """Return whether the turns of a thread are of another version of a case."""
    return not all(each in turn_ids for each in turns)


_advance = partial(advance, wait=True)
_aadvance = partial(aadvance, wait=True)


def _has_died(result: Result) -> bool:
    """Return whether the run that was waited for ended before its turn, and no person stopped it."""
    return result.status == "stopped" and result.stop_reason is None


def _error(result: Result) -> str:
    """Return why a run failed or was stopped, as it is saved; empty if neither happened."""
    if isinstance(result.error, TurnFailedError):
        return f"{result.error.address}: {result.error.error}"
    return f"a person stopped it: {result.stop_reason}" if result.status == "stopped" else ""
