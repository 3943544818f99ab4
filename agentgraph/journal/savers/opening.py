"""Savers: how those of agentgraph's own are opened, and what savers cannot do."""

import asyncio
from collections.abc import Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver

from agentgraph.agents.middleware import Mode
from agentgraph.errors import AgentGraphError, SaverError, pip_install
from agentgraph.graph.open_types import Saver
from agentgraph.graph.sync_async import Call
from agentgraph.journal.savers.urls import is_database_url
from agentgraph.safe_repr import reason, shown

if TYPE_CHECKING:
    from agentgraph.journal.savers.postgres import DatabaseSaver
    from agentgraph.journal.savers.sqlite import FileSaver

_NEEDED = {
    "sync": ("get_tuple", "put", "put_writes"),
    "async": ("aget_tuple", "aput", "aput_writes"),
}
"""The methods that a saver needs for the calls of a mode."""
_CALLS = {
    "sync": "run, query, resume, pending, events and watch",
    "async": "arun, aquery, aresume, apending, aevents and awatch",
}
_BY_ID = ("langgraph.checkpoint.sqlite", "langgraph.checkpoint.postgres")
"""LangGraph's savers that list all namespaces of a thread by id."""
MAX_CONNECTIONS = 5
"""The most connections of a saver to its database, if nothing else is said."""
_MOST_NAMESPACES = 32
"""Of more, all are listed at once."""


def open_saver(
    name: str | PathLike[str], allow: Iterable[type | str] = ()
) -> "DatabaseSaver | FileSaver":
    """Open a saver for sync and async calls, by the path of a SQLite file or the URL of a database.

    Args:
        name: The path or the URL.
        allow: Your own types whose objects are read too.

    Raises:
        SaverError: It cannot be opened.
        AgentGraphError: It is a URL of an unknown kind, or `allow` names no type.
    """
    if isinstance(name, str) and is_database_url(name):
        return postgres_saver(name, allow=allow)
    from agentgraph.journal.savers.sqlite import file_saver

    return file_saver(name, allow)


def postgres_saver(
    url: str, *, allow: Iterable[type | str] = (), max_connections: int = MAX_CONNECTIONS
) -> "DatabaseSaver":
    """Open LangGraph's `PostgresSaver` for sync and async calls; its tables are created if need be.

    ```
    with postgres_saver("postgresql://ann@db.example.org/runs") as saver:
        runner = Runner(report, checkpointer=saver)
    ```

    However many runs it has, it has at most `max_connections` connections. One locks the threads of
    its runs by advisory locks, for all processes and machines. The others are a pool that all runs
    share: one call at a time takes one, and those that are not needed close after seconds. A process
    that runs little has two. The locks need a session: connect to the server itself, or to a pooler in
    its session mode.

    A run that loses the connection of its lock (the server restarts, the network is cut) does not
    save any more: it ends with a `SaverError`, and the thread can be resumed. A process that was
    killed frees its locks at once; one whose machine or network is gone does so after about 30 s.

    A database is read as strictly as a file: see `sqlite_saver`.

    Args:
        url: "postgresql://user:password@host:port/database", with libpq's parameters after a `?`. A
            password may be left to PGPASSWORD or ~/.pgpass; errors do not show it.
        allow: Your own types whose objects are read too: classes, or "module:Name".
        max_connections: The most connections of the saver, at least 2. With 2, the calls of all its
            runs wait for one another; on a near server that costs nothing.

    Returns:
        The saver, ready to use; the end of a `with` block closes it.

    Raises:
        SaverError: The database cannot be opened, its tables cannot be created, a pooler does not keep
            sessions, or the packages are not installed: `pip install 'langgraph-agentgraph[postgres]'`.
        AgentGraphError: It is no such URL, `allow` names no type, or `max_connections` is less than 2.
    """
    if type(max_connections) is not int or max_connections < 2:
        raise AgentGraphError(
            f"max_connections={shown(max_connections)} is out of range; pass an integer of at least "
            "2: one connection for locks, and one for reads and writes"
        )
    if not is_database_url(url):
        raise AgentGraphError(
            f"{shown(url)} is not the URL of a database; pass postgresql://user@host/database"
        )
    try:
        from agentgraph.journal.savers.postgres import opened
    except ImportError as error:
        raise SaverError(
            f"PostgreSQL needs packages that are not installed ({reason(error)}): "
            f"{pip_install('postgres')}"
        ) from None
    return opened(url, allow, max_connections)


def saver_fault(saver: Saver, mode: Mode) -> str | None:
    """Return why a saver does not support sync or async calls, and which one does; None if it does."""
    is_sync, name = mode == "sync", type(saver).__name__.lstrip("_")
    needed = _NEEDED[mode]
    lacks = any(getattr(type(saver), each) is getattr(BaseCheckpointSaver, each) for each in needed)
    kinds = {kind.__name__ for kind in type(saver).__mro__}
    runs_on_loop = isinstance(getattr(saver, "loop", None), asyncio.AbstractEventLoop)
    only_refuses = type(saver).aget_tuple.__qualname__.startswith("SqliteSaver.")
    if not lacks and not (runs_on_loop if is_sync else only_refuses):
        return None
    if kinds & {"SqliteSaver", "AsyncSqliteSaver"}:
        instead = f"{'' if is_sync else 'async_'}sqlite_saver() on the same file"
    elif type(saver).__module__.startswith("langgraph."):
        instead = name.removeprefix("Async") if is_sync else f"Async{name}"
    else:
        instead = f"a saver that has {mode} methods"
    why = f"it has no {mode} methods" if lacks or not is_sync else "it runs on an event loop"
    return (
        f"{name} serves only {_CALLS['async' if is_sync else 'sync']}: {why}; call these, or use "
        f"{instead}"
    )


async def namespaces_since(saver: Saver, thread_id: str, since: str) -> Sequence[str | None] | None:
    """Return the namespaces to list for a thread's checkpoints since an id; None if that is not known.

    None in the list means all namespaces, in one listing.

    A saver in memory lists one namespace after the other, LangGraph's databases all of them by id. For
    that SQLite sorts all checkpoints of a thread; our files know by an index which namespaces have new
    ones. How other savers do it is not known.
    """
    if isinstance(saver, InMemorySaver):
        saved = saver.storage.get(thread_id, {})
        return [name for name, ids in saved.items() if max(ids, default="") >= since]
    if isinstance(saver, KnowsNamespaces):
        several = saver.namespaces_since, saver.anamespaces_since
        names: Sequence[str] = await Call(*several, (thread_id, since))
        return names if len(names) <= _MOST_NAMESPACES else (None,)
    modules = [kind.__module__ for kind in type(saver).__mro__]
    return (None,) if any(module.startswith(_BY_ID) for module in modules) else None


@runtime_checkable
class KnowsNamespaces(Protocol):
    """A saver that finds the namespaces of new checkpoints without reading any."""

    def namespaces_since(self, thread_id: str, since: str) -> Sequence[str]:
        """Return the namespaces of a thread that have checkpoints with an id or later ones."""

    async def anamespaces_since(self, thread_id: str, since: str) -> Sequence[str]:
        """Return them on the event loop."""
