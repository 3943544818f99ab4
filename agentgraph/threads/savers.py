"""The faults of savers: what they cannot do."""

import asyncio
from collections.abc import Sequence

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver

from agentgraph.agents.middleware import Mode
from agentgraph.graph.open_types import Saver

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


def namespaces_since(saver: Saver, thread_id: str, since: str) -> Sequence[str | None] | None:
    """Return the namespaces to list for a thread's checkpoints since an id; None if that is not known.

    None in the list means all namespaces, in one listing.

    A saver in memory lists one namespace after the other, LangGraph's databases all of them by id. How
    other savers do it is not known.
    """
    if isinstance(saver, InMemorySaver):
        saved = saver.storage.get(thread_id, {})
        return [name for name, ids in saved.items() if max(ids, default="") >= since]
    modules = [kind.__module__ for kind in type(saver).__mro__]
    return (None,) if any(module.startswith(_BY_ID) for module in modules) else None
