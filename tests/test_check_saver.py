"""`check_saver` tries what savers keep, and names what is missing."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers.lossy_savers import LosingSaver, PathKeySaver
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag
from agentgraph.graph.internals import INTERRUPT, RETURN
from agentgraph.graph.sync_async import arun_calls, run_calls
from agentgraph.testing import SaverReport, SaverRow, check_saver
from agentgraph.testing.checking_savers import _row
from agentgraph.testing.saver_checks import CHECKS

NAMES = [*CHECKS, "kill"]
FILE = "AGENTGRAPH_CHECKED_FILE"
"""The environment variable with the file that another process opens, too."""


@contextmanager
def in_a_file() -> Iterator[Any]:
    with ag.sqlite_saver(Path(os.environ[FILE])) as saver:
        yield saver


@asynccontextmanager
async def async_in_a_file() -> AsyncIterator[Any]:
    async with ag.async_sqlite_saver(Path(os.environ[FILE])) as saver:
        yield saver


@pytest.mark.parametrize(("make", "modes"), [(in_a_file, ("sync",)), (async_in_a_file, ("async",))])
def test_a_saver_on_a_file_keeps_all_also_over_a_kill(
    make: Callable[[], Any], modes: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FILE, str(tmp_path / "x.db"))
    report = check_saver(make)
    assert {row.name: (row.works, row.reason) for row in report} == dict.fromkeys(NAMES, (True, ""))
    assert (report.modes, report.ok, report.failed) == (modes, True, ())
    with ag.sqlite_saver(tmp_path / "x.db") as saver:
        assert ag.Runner(ag.human("h", "?"), checkpointer=saver).threads() == []


def test_a_saver_in_memory_is_not_tried_with_a_kill() -> None:
    report = check_saver(InMemorySaver)
    assert [row.sign for row in report] == ["+"] * len(CHECKS) + ["?"]
    assert report["kill"].reason == "not tried: another process does not see the threads"
    assert report.ok
    lines = str(report).splitlines()
    assert lines[0] == f"InMemorySaver of langgraph-checkpoint {report.version}, sync and async"
    assert lines[1] == "+ answers"
    assert lines[-1].startswith("? kill            not tried: ")


class Changing(InMemorySaver):
    def change(self, writes: list[Any]) -> list[Any]:
        return writes

    def get_tuple(self, config: Any) -> Any:
        saved = super().get_tuple(config)
        return saved and saved._replace(pending_writes=self.change(saved.pending_writes or []))

    def list(self, config: Any, **bounds: Any) -> Any:
        for saved in super().list(config, **bounds):
            yield saved._replace(pending_writes=self.change(saved.pending_writes or []))

    async def aget_tuple(self, config: Any) -> Any:
        return self.get_tuple(config)

    def get_delta_channel_history(self, **options: Any) -> Any:
        found = super().get_delta_channel_history(**options)
        return {key: {**each, "writes": self.change(each["writes"])} for key, each in found.items()}

    async def aget_delta_channel_history(self, **options: Any) -> Any:
        return self.get_delta_channel_history(**options)


class NoQuestions(Changing):
    def change(self, writes: list[Any]) -> list[Any]:
        return [each for each in writes if each[1] != INTERRUPT]


class NoResults(Changing):
    def change(self, writes: list[Any]) -> list[Any]:
        return [each for each in writes if each[1] != RETURN]


class NoInfinity(Changing):
    def change(self, writes: list[Any]) -> list[Any]:
        return [(task, name, _without_infinity(value)) for task, name, value in writes]


def _without_infinity(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_infinity(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_infinity(each) for each in value]
    return None if value == float("inf") else value


class ByText(Changing):
    """A saver that sorts the writes of a task by their numbers as texts."""

    def change(self, writes: list[Any]) -> list[Any]:
        by_task: dict[str, list[Any]] = {}
        for each in writes:
            by_task.setdefault(each[0], []).append(each)
        return [
            each
            for several in by_task.values()
            for _, each in sorted(enumerate(several), key=lambda pair: str(pair[0]))
        ]


class NoDelete(InMemorySaver):
    def delete_thread(self, thread_id: str) -> None:
        raise NotImplementedError

    async def adelete_thread(self, thread_id: str) -> None:
        raise NotImplementedError


class KeepsDeleted(InMemorySaver):
    def delete_thread(self, thread_id: str) -> None:
        pass

    async def adelete_thread(self, thread_id: str) -> None:
        pass


MISSING: list[tuple[type[InMemorySaver], str, str]] = [
    (NoQuestions, "answers", "the questions are at: [], in the place of ['desk/one', 'desk/q/two']"),
    (NoResults, "fail and resume", "s/last, s/p/done, s/p/flaky ran, in the place of"),
    (NoResults, "replay", "the events of the paused thread are"),
    (NoInfinity, "types", "inf came back as None"),
    (ByText, "order", "the results are in the order: ['[0, 1, 10, 11, 2"),
    (NoDelete, "delete", "SaverError: thread 'check-"),
    (KeepsDeleted, "delete", "the deleted thread is still there"),
]


def row(name: str, saver: Any, mode: str) -> SaverRow:
    made = _row(name, saver, CHECKS[name])
    return run_calls(made) if mode == "sync" else asyncio.run(arun_calls(made))


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize(("saver", "name", "why"), MISSING)
def test_what_a_saver_loses_is_named(
    saver: type[InMemorySaver], name: str, why: str, mode: str
) -> None:
    found = row(name, saver(), mode)
    assert (found.sign, why in found.reason) == ("-", True), found.reason


@pytest.mark.parametrize("saver", [LosingSaver, PathKeySaver])
@pytest.mark.parametrize("name", CHECKS)
def test_what_agentgraph_does_not_need_of_a_saver_is_not_missed(
    name: str, saver: Callable[[], Any]
) -> None:
    assert str(row(name, saver(), "sync")) == f"+ {name}"


def test_what_works_sync_alone_does_not_work() -> None:
    class Half(InMemorySaver):
        async def adelete_thread(self, thread_id: str) -> None:
            raise NotImplementedError

    found = check_saver(Half)["delete"]
    assert (found.works, found.reason.partition(": ")[0]) == (False, "async")


@pytest.mark.parametrize("made", [None, "runs.db", object()])
def test_what_is_no_saver_is_refused(made: object) -> None:
    with pytest.raises(ag.AgentGraphError, match="is not a saver of LangGraph; return one"):
        check_saver(lambda: made)


def test_a_saver_is_checked_from_code_on_an_event_loop(tmp_path: Path) -> None:
    async def main() -> SaverReport:
        return check_saver(lambda: ag.async_sqlite_saver(tmp_path / "x.db"))

    assert asyncio.run(main()).modes == ("async",)


def test_a_saver_whose_async_methods_only_refuse_serves_sync_calls() -> None:
    class Half(InMemorySaver):
        async def aget_tuple(self, config: Any) -> Any:
            raise NotImplementedError("call get_tuple")

    assert check_saver(Half).modes == ("sync",)


def test_a_saver_without_methods_is_refused() -> None:
    class Nothing(BaseCheckpointSaver[Any]):
        pass

    with pytest.raises(ag.AgentGraphError, match="Nothing has no methods for sync or async calls"):
        check_saver(Nothing)


def test_a_function_that_another_process_cannot_get_is_not_tried_with_a_kill(tmp_path: Path) -> None:
    report = check_saver(lambda: ag.sqlite_saver(tmp_path / "x.db"))
    assert report["kill"].sign == "?"
    assert "pass a function of a module" in report["kill"].reason


def test_a_report_has_rows_by_name() -> None:
    rows = SaverRow("answers", True), SaverRow("kill", None, "not tried"), SaverRow("copy", False, "no")
    report = SaverReport("a.b.Saver", "", "", ("async",), rows)
    assert (report["copy"].reason, report.ok, report.failed) == ("no", False, rows[2:])
    assert str(report).splitlines()[0] == "Saver, async"
    with pytest.raises(KeyError):
        report["sing"]
