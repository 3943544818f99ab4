"""Names who runs a tree, for idempotency keys: code of an agent, of a tool, or of a node of a graph.

A name is made of what a retry, a resume and a rewind give again: addresses, nodes, steps, calls, and
how many trees the same attempt had started before.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from itertools import count
from typing import Any, NamedTuple
from uuid import UUID
from weakref import WeakKeyDictionary

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config

from agentgraph.graph.internals import ensure_config

AROUND = "agentgraph_around"
"""The key in the `configurable` of a config for the names of the code that runs a graph."""


class Caller(NamedTuple):
    """Code that runs a tree.

    Attributes:
        identity: The identity that distinguishes it from all other code that runs on the thread.
        attempt: An object that is another one in each attempt of it.
    """

    identity: Sequence[object]
    attempt: Any


CALLER: ContextVar[Callable[[], Caller] | None] = ContextVar("caller", default=None)
"""Returns the code that runs, if it is that of an activation."""
_STARTED: WeakKeyDictionary[object, Iterator[int]] = WeakKeyDictionary()
"""Counts the trees that attempts have started."""


def called(config: RunnableConfig | None, own: RunnableConfig | None) -> RunnableConfig | None:
    """Return the config of a tree that is started, which names the code that starts it, if any.

    Args:
        config: The config.
        own: The config with which the tree is bound.
    """
    caller, inherited = CALLER.get(), ensure_config(own, config)
    configurable = inherited["configurable"]
    if caller is not None:
        identity, attempt = caller()
    elif configurable.get("checkpoint_ns"):
        identity, attempt = nodes_within(inherited), attempt_of_run()
    else:
        return config
    number = 0 if attempt is None else next(_STARTED.setdefault(attempt, count()))
    around = [*configurable.get(AROUND, ()), [*identity, number]]
    given = (config or {}).get("configurable") or {}
    return {**(config or {}), "configurable": {**given, AROUND: around}}


def attempt_of_run() -> Any:
    """Return an object that lives as long as a run of LangChain, an attempt of a tool or of a node."""
    return (var_child_runnable_config.get() or {}).get("callbacks")


def nodes_within(config: RunnableConfig, around: str = "") -> list[object]:
    """Return the node that runs in each graph inside a namespace, its step, and which task it is there.

    LangGraph's id of a checkpoint has the number of the step that runs from it. The other identity of
    the tasks of one step, several packets for one node, is known of the innermost ones.
    """
    configurable = config["configurable"]
    parts = configurable["checkpoint_ns"].removeprefix(around).strip("|").split("|")
    checkpoints: Mapping[str, str] = configurable.get("checkpoint_map") or {}
    named: list[object] = []
    for part in filter(None, parts):
        if not part.isdigit():  # LangGraph's count of all attempts
            step = UUID(checkpoints[around]).clock_seq if around in checkpoints else None
            named.append([part.partition(":")[0], step])
        around = f"{around}|{part}" if around else part
    return [*named, config["metadata"].get("langgraph_path")] if named else named
