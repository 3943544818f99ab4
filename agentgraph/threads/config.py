"""The config and the context of a run: what a call passes, merged with what its runner has.

Code inside a run may pass on the config that LangGraph has given to it, as LangChain's tools do. A run
of a `Runner` is one of its own there too. So it takes what users put into such a config: tags,
metadata, tracers, `configurable` values. Thread, checkpoint and stream are those of the run around.

Runs inside other runs: a `Runner` in a tool, a node, or anything else that LangGraph runs.

LangGraph finds in a context variable the node in which code runs, and takes each graph that is run
there for a subgraph of the node, with its saver, stream, limits and callbacks. A run of a `Runner` is
a run of its own. So all calls of LangGraph are made in a copy of the caller's context in which that
variable is not set. All other variables stay: a tenant, a request id, and those by which LangSmith and
OpenTelemetry nest their traces.

Code inside a run must not wait for the end of that run, so what a run is inside of is noted. Nor must
code that the garbage collector calls: what it interrupted may hold what the run needs to end.
"""

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextvars import Context, ContextVar, copy_context
from difflib import get_close_matches
from types import UnionType
from typing import Any, ParamSpec, TypeVar
from uuid import uuid4

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs, var_child_runnable_config
from langgraph.runtime import RunControl, get_runtime
from pydantic import ValidationError

from agentgraph.agents.schemas import validation_faults
from agentgraph.errors import AgentGraphError
from agentgraph.graph.internals import (
    READ,
    RUNTIME,
    StreamMessagesHandler,
    coerce_context,
    tool_call_writer,
)
from agentgraph.graph.nodes.callers import CALLER
from agentgraph.graph.nodes.replies import LISTENING, Replies
from agentgraph.graph.nodes.stopping import Stop
from agentgraph.graph.read_back import cannot_be_encoded
from agentgraph.graph.signal_handlers import is_of_a_handler
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


def checked_id(thread_id: object) -> str:
    """Return a thread id that all savers can store.

    Raises:
        AgentGraphError: It cannot be a thread id.
    """
    if not isinstance(thread_id, str) or not thread_id:
        raise AgentGraphError(
            f"thread_id must be a non-empty string, got {shown(thread_id)}; pass the name of a thread, "
            "such as 'monday', or leave it out of a run for a new one"
        )
    if "\0" in thread_id or cannot_be_encoded(thread_id):
        raise AgentGraphError(
            f"thread_id {shown(thread_id)} has a zero byte or half a surrogate pair in it, which "
            "databases cannot store; pass another name"
        )
    return thread_id


def config_of(
    thread_id: str, namespace: str | None = None, checkpoint_id: str | None = None
) -> RunnableConfig:
    """Return LangGraph's config for a thread, a namespace of it, or a checkpoint in the namespace.

    Raises:
        AgentGraphError: The thread id is invalid.
    """
    configurable: dict[str, object] = {"thread_id": checked_id(thread_id)}
    if namespace is not None:
        configurable["checkpoint_ns"] = namespace
    if checkpoint_id is not None:
        configurable["checkpoint_id"] = checkpoint_id
    return {"configurable": configurable}


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
                "config: LangChain would ignore 'thread_id' beside 'configurable'; pass it inside, as "
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
        config: That of the call, which wins.
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
    own = config_of(thread_id)
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


P = ParamSpec("P")
T = TypeVar("T")

_AROUND: ContextVar[tuple[RunControl, ...]] = ContextVar("around", default=())
"""The controls of all that is around this run."""


def call_outside(fn: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Call a function as if it were called outside of all that LangGraph runs."""
    if var_child_runnable_config.get() is None:
        return fn(*args, **options)
    return outside().run(fn, *args, **options)


async def await_outside(fn: Callable[[], Coroutine[object, object, T]]) -> T:
    """Call a function and await what it returns, as if outside of all that LangGraph runs."""
    if var_child_runnable_config.get() is None:
        return await fn()

    async def called() -> T:  # if it is cancelled before it begins, there is nothing to await yet
        return await fn()

    return await asyncio.get_running_loop().create_task(called(), context=outside())


def outside() -> Context:
    """Return a copy of the context in which nothing of LangGraph is around."""
    context = copy_context()
    context.run(_leave)
    return context


def apart() -> Context:
    """Return a copy of the context for a run in the background, for whose end nothing around waits."""
    context = outside()
    context.run(_AROUND.set, ())
    return context


def is_within(control: RunControl) -> bool:
    """Return whether this code is part of a run, or of a run inside it."""
    return control in _controls() or control in _AROUND.get()


def is_collecting() -> bool:
    """Return whether the garbage collector calls this code."""
    return _collecting == [threading.get_ident()]


_collecting: list[int] = []
"""The thread in which the garbage collector runs, if it does."""


def _note_collection(phase: str, _: object) -> None:
    _collecting[:] = [threading.get_ident()] if phase == "start" else []


gc.callbacks.append(_note_collection)


def _leave() -> None:
    _AROUND.set((*_AROUND.get(), *_controls()))
    var_child_runnable_config.set(None)
    tool_call_writer.set(None)
    LISTENING.set(None)
    CALLER.set(None)


def _controls() -> list[Stop]:
    """Return the controls of the node in which this code runs, the innermost first."""
    runtime = get_runtime() if var_child_runnable_config.get() else None
    return [*runtime.control.chain()] if runtime and isinstance(runtime.control, Stop) else []
