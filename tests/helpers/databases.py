"""Databases of a PostgreSQL server for tests, and savers opened by a path or a database's URL."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

import agentgraph as ag

Place = Path | str
"""Where threads are kept: the path of a SQLite file, or the URL of a database."""
_TEMPLATE = "agentgraph_template"
_CUT = """
SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_locks WHERE locktype = 'advisory'
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class Databases:
    """Creates databases on a server, which have LangGraph's tables."""

    def __init__(self, server: str) -> None:
        self._server, self._numbers, self._made = server, count(), list[str]()
        names = [name for (name,) in self.ask(server, "SELECT datname FROM pg_database")]
        if _TEMPLATE not in names:
            self.ask(server, f"CREATE DATABASE {_TEMPLATE}")
            ag.postgres_saver(self.url(_TEMPLATE)).close()

    def url(self, name: str) -> str:
        return self._server.replace("/postgres?", f"/{name}?")

    def make(self, *, of: str = _TEMPLATE) -> str:
        """Create a database, a copy of another one, and return its URL."""
        name = f"agentgraph_{id(self)}_{next(self._numbers)}"
        self.ask(self._server, f"CREATE DATABASE {name} TEMPLATE {of}")
        self._made.append(name)
        return self.url(name)

    def drop(self) -> None:
        for name in self._made:
            self.ask(self._server, f"DROP DATABASE {name} WITH (FORCE)")

    @staticmethod
    def ask(url: str, query: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(query)
            return cursor.fetchall() if cursor.description else []


def cut_locks(url: str) -> int:
    """Have the server end all connections of a database that hold locks, and return how many."""
    ((number,),) = Databases.ask(url, _CUT)
    return int(number)


@contextmanager
def saver_at(place: Place) -> Iterator[Any]:
    with ag.sqlite_saver(place) if isinstance(place, Path) else ag.postgres_saver(place) as saver:
        yield saver


@asynccontextmanager
async def asaver_at(place: Place) -> AsyncIterator[Any]:
    if isinstance(place, Path):
        async with ag.async_sqlite_saver(place) as saver:
            yield saver
    else:
        with ag.postgres_saver(place) as saver:
            yield saver
