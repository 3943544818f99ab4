"""The config and the context of a run: what a call passes, merged with what its runner has.

Code inside a run may pass on the config that it got from LangGraph, as LangChain's tools do. A run of a
`Runner` is separate there too. So it takes the entries that users put into such a config: tags,
metadata, tracers, `configurable` values. Thread, checkpoint and stream are those of the run around.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Any
from uuid import uuid4

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from pydantic import ValidationError

from agentgraph.agents.schemas import validation_faults
from agentgraph.errors import AgentGraphError
from agentgraph.graph.internals import (
    READ,
    RUNTIME,
    StreamMessagesHandler,
    coerce_context,
)
from agentgraph.graph.nodes.replies import Replies
from agentgraph.graph.signal_handlers import is_of_a_handler
from agentgraph.journal.thread_config import checked_id, config_of
from agentgraph.safe_repr import reason, shown

_OF_CHECKPOINTS = ("checkpoint_id", "checkpoint_ns", "checkpoint_map")
"""The `configurable` keys by which LangGraph continues elsewhere than at the head of a thread."""
_OF_RUNS = ("__", "thread_id", "checkpoint_", "langgraph_", "agent_", "lc_agent_name")
"""How keys begin that a run puts into `configurable` and `metadata` of the config of its nodes."""

_KINDS: Sequence[tuple[str, type | UnionType, str]] = (
    ("tags", list | tuple, "a list of texts"),
    ("metadata", Mapping, "a dict"),
    ("callbacks", list | BaseCallbackManager, "a list of callback handlers"),
    ("recursion_limit", int, "a number of steps from 1 on"),
    ("max_concurrency", int, "a number of tasks from 1 on"),
)
"""Keys of a config, the types that LangChain merges or compares, and their names."""


def check_config(config: object) -> RunnableConfig:
    """Return a user's config.

    Raises:
        AgentGraphError: It is not a config, a key has the wrong type, or it names a checkpoint.
    """
    configurable = config.get("configurable") or {} if isinstance(config, Mapping) else None
    if not isinstance(config, Mapping) or not isinstance(configurable, Mapping):
        raise AgentGraphError(
            f"config must be LangGraph's config, got {shown(config)}; pass a dict such as "
            "{'callbacks': [...], 'tags': [...], 'configurable': {...}}"
        )
    if READ in configurable:
        config = _without_run(config)
        configurable = config["configurable"]
    _check_keys(config, configurable)
    for key in _OF_CHECKPOINTS:
        if key in configurable or key in config:
            raise AgentGraphError(
                f"config: the configurable {key!r} cannot be set, because a runner continues a thread "
                "at its latest checkpoint; to go back to an earlier one, also with another answer, use "
                "rewind(thread_id, at): visits(thread_id) lists the addresses and steps"
            )
    for key, kinds, wanted in _KINDS:
        value = config.get(key)
        if not isinstance(value, kinds | None) or (isinstance(value, int) and value < 1):
            raise AgentGraphError(f"config: {key!r} must be {wanted}, got {shown(value)}")
    every = config.get("callbacks")
    for each in every if isinstance(every, list) else ():
        if not isinstance(each, BaseCallbackHandler):
            raise AgentGraphError(
                f"config: {shown(each)} in 'callbacks' is not a callback handler of LangChain"
            )
    return RunnableConfig(**config)  # type: ignore[typeddict-item]


def _without_run(config: Mapping[object, Any]) -> Mapping[Any, Any]:
    """Return the config of a node without what the run around the node has put into it."""
    rest = {key: each for key, each in config.items() if key not in ("run_id", "run_name")}
    for key in ("configurable", "metadata"):
        entries = rest.get(key) or {}
        rest[key] = {
            name: value for name, value in entries.items() if not str(name).startswith(_OF_RUNS)
        }
    if (own_thread := thread_in(config)) is not None:
        rest["configurable"]["thread_id"] = own_thread
    if isinstance(callbacks := rest.get("callbacks"), BaseCallbackManager):
        rest["callbacks"] = own = callbacks.copy()
        for each in callbacks.handlers:
            if isinstance(each, StreamMessagesHandler | Replies):
                own.remove_handler(each)
    return rest


def _check_keys(config: Mapping[object, object], configurable: Mapping[object, object]) -> None:
    """Refuse keys that LangChain would ignore although they mean something.

    Raises:
        AgentGraphError: A key belongs into `configurable`, or is close to a known one.
    """
    known = [*RunnableConfig.__annotations__]
    for key in config:
        if key == "thread_id":
            right = shown({"configurable": {**configurable, key: config[key]}})
            raise AgentGraphError(
                "config: LangChain would ignore 'thread_id' next to 'configurable'; pass it inside, as "
                f"config={right}, or as thread_id={shown(config[key])}"
            )
        if key in known or not isinstance(key, str):
            continue
        if near := get_close_matches(key, known, 1):
            raise AgentGraphError(
                f"config: LangChain would ignore the key {shown(key)}; did you mean {near[0]!r}?"
            )


def thread_for(thread_id: str | None, config: object) -> str:
    """Return the thread of a turn: the one named, also in the config, or else a new one."""
    return thread_id if thread_id is not None else (thread_in(config) or str(uuid4()))


def thread_in(config: object) -> Any:
    """Return the thread that a config names; None if it names none, or that of the run around it."""
    configurable = config.get("configurable") if isinstance(config, Mapping) else None
    if not isinstance(configurable, Mapping):
        return None
    around = getattr(configurable.get(RUNTIME), "execution_info", None)
    named = configurable.get("thread_id")
    return None if around is not None and around.thread_id == named else named


def merged(
    thread_id: str,
    shared: RunnableConfig,
    config: RunnableConfig | None,
    further: Mapping[str, object],
) -> RunnableConfig:
    """Return the config of a run.

    Args:
        thread_id: The thread.
        shared: The config of all runs of the runner, which has been checked.
        config: The config of the call, which wins.
        further: Further keys of `configurable`.

    Raises:
        AgentGraphError: A config is invalid, or names another thread.
    """
    configs = [shared] if shared else []
    configs += [] if config is None else [check_config(config)]
    for each in configs:
        if (named := thread_in(each)) and named != thread_id:
            raise AgentGraphError(
                f"thread_id={shown(thread_id)}, but config names the thread {shown(named)}; leave one "
                "of them out"
            )
    own = config_of(checked_id(thread_id))
    own["configurable"].update(further)
    return merge_configs(*configs, own) if configs else own


def context_as(schema: Any, context: object) -> object:
    """Return a context as LangGraph passes it on: for a dict an object of the schema.

    Raises:
        AgentGraphError: The dict does not fit the schema.
    """
    try:
        return coerce_context(schema, context)
    except Exception as error:
        if is_of_a_handler(error):
            raise
        why = validation_faults(error) if isinstance(error, ValidationError) else reason(error)
        raise AgentGraphError(
            f"context={shown(context)} does not fit {schema.__name__} ({why}); pass a "
            f"{schema.__name__}, or a dict of its fields"
        ) from error
