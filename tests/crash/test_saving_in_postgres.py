"""Connections to PostgreSQL are cut at each call that saves, and runs die there, in every kind of tree.

What must hold is what holds for any saver that fails: see `test_saving.py`, `test_deaths.py`.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import psycopg
import pytest
from campaign import EXAMPLES, CameOutError, ended, shown
from helpers import Sync
from helpers.databases import Databases, cut_locks
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from saved_trees import TREES
from test_deaths import Deaths
from test_saving import DRIVES, STEP, Failing, Faults, blamed, check_failing

import agentgraph as ag

CUT = "SELECT pg_terminate_backend(%s, 5000)"
"""Ends a connection, and waits until it has ended."""


class Cuts(Faults):
    """Cuts the connection just before the n-th call that saves."""

    def __init__(self, uri: str, fail_at: int) -> None:
        super().__init__("once", fail_at)
        self.uri, self.connection = uri, 0

    def check(self, error: BaseException) -> None:
        assert type(error) is ag.SaverError, shown(error)
        assert isinstance(error.__cause__, psycopg.OperationalError), repr(error.__cause__)

    def before(self) -> None:
        """Cut the connection, if it is time."""
        if self._fails():
            self.times += 1
            with psycopg.connect(self.uri, autocommit=True) as other:
                other.execute(CUT, (self.connection,))

    def _patched(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **options: Any) -> Any:
            self.before()
            return method(*args, **options)

        return call

    def _apatched(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        async def call(*args: Any, **options: Any) -> Any:
            self.before()
            return await method(*args, **options)

        return call


class InPostgres(Failing):
    """A thread in a database; each call has a connection of its own."""

    faults: Cuts

    def use(self, act: Callable[[ag.Runner], Any], aact: Callable[[ag.Runner], Any]) -> Any:
        results: list[Any] = []
        error = ended(lambda: results.append(self._use(act, aact)))
        if error is not None:
            raise CameOutError(error)
        return results[0]

    def _use(self, act: Callable[[ag.Runner], Any], aact: Callable[[ag.Runner], Any]) -> Any:
        if self.drive is Sync:
            with PostgresSaver.from_conn_string(self.faults.uri) as saver:
                self.faults.connection = saver.conn.info.backend_pid
                return act(self.runner(saver))

        async def in_a_loop() -> Any:
            async with AsyncPostgresSaver.from_conn_string(self.faults.uri) as saver:
                self.faults.connection = saver.conn.info.backend_pid
                return await aact(self.runner(saver))

        return asyncio.run(in_a_loop())


@pytest.fixture
def cut(postgres: str, tmp_path: Path) -> Iterator[Callable[[str, str, int], InPostgres]]:
    """Make threads, each in a database of its own."""
    names: list[str] = []

    def make(tree: str, drive: str, fail_at: int) -> InPostgres:
        names.append(f"cut_{len(names)}")
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {names[-1]}")
        uri = postgres.replace("/postgres?", f"/{names[-1]}?")
        with PostgresSaver.from_conn_string(uri) as saver:
            saver.setup()
        return InPostgres(tree, f"{drive}-memory", tmp_path / names[-1], Cuts(uri, fail_at))

    yield make
    with psycopg.connect(postgres, autocommit=True) as connection:
        for name in names:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


CASES = [
    (tree, drive)
    for number, tree in enumerate(TREES)
    for drive in (DRIVES if EXAMPLES else [DRIVES[number % 4 // 2]])
    if EXAMPLES or number % 6 == 0
]


@pytest.mark.parametrize(("tree", "drive"), CASES)
def test_a_lost_connection_is_nobodys_failure(
    tree: str, drive: str, cut: Callable[[str, str, int], InPostgres]
) -> None:
    whole = cut(tree, drive, 0)
    fails = blamed(whole.finish())
    for number in range(1 + len(tree) % STEP, whole.faults.calls + 1, STEP):
        driven = cut(tree, drive, number)
        try:
            check_failing(whole, driven, fails)
        except BaseException as error:
            error.add_note(f"The connection was cut at call {number} of {whole.faults.calls}.")
            raise


class CutLocks(Faults):
    """Cuts the connection by which a run holds its lock, just before the n-th call that saves."""

    def __init__(self, uri: str, fail_at: int) -> None:
        super().__init__("once", fail_at)
        self.uri = uri

    def check(self, error: BaseException) -> None:
        assert type(error) is ag.SaverError, shown(error)
        assert error.thread_id == "t"
        assert isinstance(error.__cause__, psycopg.OperationalError), repr(error.__cause__)
        assert "does not hold the lock" in str(error)

    def before(self) -> None:
        """Cut the connection, if it is time."""
        if self._fails():
            self.times += 1
            assert cut_locks(self.uri) == 1

    def _patched(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **options: Any) -> Any:
            self.before()
            return method(*args, **options)

        return call

    def _apatched(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        async def call(*args: Any, **options: Any) -> Any:
            self.before()
            return await method(*args, **options)

        return call


@pytest.mark.parametrize(("tree", "drive"), CASES if EXAMPLES else CASES[::2])
def test_a_lost_lock_is_nobodys_failure_and_nothing_is_saved_after_it(
    tree: str, drive: str, databases: Databases, tmp_path: Path
) -> None:
    def driven(fail_at: int) -> Failing:
        url = databases.make()
        return Failing(tree, f"{drive}-{url}", tmp_path / str(fail_at), CutLocks(url, fail_at))

    whole = driven(0)
    fails = blamed(whole.finish())
    for number in range(1 + len(tree) % STEP, whole.faults.calls + 1, STEP):
        try:
            check_failing(whole, driven(number), fails)
        except BaseException as error:
            error.add_note(f"The lock was cut at call {number} of {whole.faults.calls}.")
            raise


@pytest.mark.parametrize(("tree", "drive"), CASES if EXAMPLES else CASES[1::2])
def test_a_turn_that_died_behind_a_save_in_postgres_comes_to_its_end(
    tree: str, drive: str, databases: Databases, tmp_path: Path
) -> None:
    def driven(die_at: int) -> Failing:
        return Failing(tree, f"{drive}-{databases.make()}", tmp_path / str(die_at), Deaths(die_at))

    whole = driven(0)
    fails = blamed(whole.finish())
    for number in range(1 + (len(tree) + 7) % STEP, whole.faults.calls + 1, STEP):
        try:
            check_failing(whole, driven(number), fails)
        except BaseException as error:
            error.add_note(f"It died instead of save {number} of {whole.faults.calls}.")
            raise
