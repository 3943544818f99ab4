"""The faults of savers: what they cannot do, and how they fail."""

import asyncio
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver

from agentgraph.agents.middleware import Mode
from agentgraph.errors import SaverError
from agentgraph.graph.failures import failures
from agentgraph.safe_repr import reason

_NEEDED = {
    "sync": ("get_tuple", "put", "put_writes"),
    "async": ("aget_tuple", "aput", "aput_writes"),
}
"""The methods that a saver needs for the calls of a mode."""
_CALLS = {
    "sync": "run, query, resume, pending, events and watch",
    "async": "arun, aquery, aresume, apending, aevents and awatch",
}
_WAYS_OUT = {
    "SQLITE_NOTADB": "it is not a SQLite database: name another file, or put a copy in its place",
    "SQLITE_CORRUPT": "the file is damaged: put a copy in its place, or start another file",
    "SQLITE_BUSY": "another process holds the file: try again when that is done",
    "SQLITE_LOCKED": "another connection holds the file: try again when that is done",
    "SQLITE_READONLY": "the file cannot be written: change its permissions, or use a copy",
    "SQLITE_FULL": "the disk is full: make room",
    "SQLITE_CANTOPEN": "look whether its folder is there, and the file may be read and written",
}
_CLOSED = ("closed", "no active connection")
_DATABASES = {"sqlite3", "psycopg", "psycopg_pool"}
"""The packages of databases; their exceptions are errors of the saver."""


def saver_fault(saver: BaseCheckpointSaver[Any], mode: Mode) -> str | None:
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


def saver_error(
    error: BaseException, saver: BaseCheckpointSaver[Any], thread_id: str | None = None
) -> SaverError:
    """Return the error to raise from an exception of a saver.

    ```
    except sqlite3.Error as error:
        raise saver_error(error, saver, thread_id) from error
    ```

    Args:
        error: What the saver raised.
        saver: The saver.
        thread_id: The thread that was read or run; None or empty if it was none.
    """
    path: str | None = getattr(saver, "path", None)
    at = f", the file {path}," if path else ""
    whose = f"thread {thread_id!r}: its saver" if thread_id else "the saver"
    return SaverError(
        f"{whose} {type(saver).__name__.lstrip('_')}{at} failed with {type(error).__name__}: "
        f"{reason(error)}; {way_out(error)}; what was saved before is kept",
        thread_id=thread_id or None,
        path=path,
    )


def is_of_database(error: BaseException) -> bool:
    """Return whether an exception comes from the saver: a database error that no agent raised."""
    packages = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return bool(packages & _DATABASES) and not failures(error)


def way_out(error: BaseException) -> str:
    """Return what to do about an exception of a saver."""
    code = "_".join(str(getattr(error, "sqlite_errorname", "")).split("_")[:2])
    if code in _WAYS_OUT:
        return _WAYS_OUT[code]
    if any(word in reason(error) for word in _CLOSED):
        return "use the runner while its saver is open"
    return "try again when the saver works"
