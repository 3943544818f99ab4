"""LangGraph's part of a leaf's task, for a leaf that runs without one (`nodes/leaf_pool.py`).

Id, path, namespace and config are those of the task: what is saved, streamed and traced of the leaf has
the same names, a resume finds its result, and LangGraph finds it too if it calls the task after all.
"""

import asyncio
import time
import weakref
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.runnables import RunnableConfig
from langgraph.runtime import ExecutionInfo

from agentgraph.graph.internals import (
    CALL,
    NODE_FINISHED,
    PUSH,
    READ,
    READ_STATE,
    RETURN,
    RUNTIME,
    SAVER,
    SCRATCHPAD,
    SEND,
    TASK_ID,
    PregelScratchpad,
    PregelTaskWrites,
    call_async_task,
    call_task,
    local_read,
    map_output_updates,
)
from agentgraph.graph.result_saver import ResultSaver, result_saver
from agentgraph.graph.saving import loop_around
from agentgraph.graph.spans import of_task
from agentgraph.graph.task_ids import called_tasks

_TRIGGERS = (PUSH,)
_OF_LOOP = (
    *("_emit", "channels", "checkpoint", "checkpointer", "durability", "managed", "output_keys"),
    *("retry_policy", "cache_policy", "step", "stop", "store", "stream"),
)
"""The attributes of LangGraph's loop that are read."""
_WATCHED = frozenset({"tasks", "debug", "checkpoints"})
"""The stream modes that show LangGraph's tasks."""


class LeafTask:
    """Stands in for LangGraph's task of a leaf, also for the tasks that the leaf's code calls.

    Attributes:
        id: Its id.
        name: Its name.
        path: LangGraph's path of it; its third part is its call number.
        config: LangGraph's config of what runs in it.
        writes: The writes of its code to channels.
    """

    __slots__ = ("__weakref__", "config", "id", "name", "path", "writes")

    def __init__(self, id: str, name: str, path: tuple[Any, ...]) -> None:
        self.id, self.name, self.path = id, name, path
        self.config: Any = {}
        self.writes: list[tuple[str, Any]] = []


class LeafTasks:
    """Makes the stand-ins for the tasks of the leaves of one node.

    Attributes:
        saver: Saves their results; None if nothing is saved.
        submit: LangGraph's function that runs something in the run's threads, or on its event loop.
        event_loop: On which they run in async runs; else None.
        has_handlers: Whether callback handlers receive the leaves' runs.
        is_streamed: Whether LangGraph streams the work in a task to a consumer of the stream.
    """

    def __init__(self, config: RunnableConfig, loop: Any, node: Any) -> None:
        """Begin.

        Args:
            config: LangGraph's config of the node.
            loop: LangGraph's loop around it.
            node: LangGraph's task of the node.
        """
        self._loop, self._call = loop, config["configurable"][CALL]
        self.saver: ResultSaver | None = result_saver(config)
        self.submit: Callable[..., Any] = self._call.keywords["submit"]()
        self.event_loop: asyncio.AbstractEventLoop | None = self._call.keywords.get("loop")
        self.is_streamed = bool(self._call.keywords.get("stream"))
        callbacks = config.get("callbacks")
        is_manager = isinstance(callbacks, BaseCallbackManager)
        self.has_handlers = bool(callbacks.handlers if is_manager else callbacks)  # type: ignore[union-attr]

        own, checkpoint_id = node.config["configurable"], loop.checkpoint["id"]
        self._path, self._within = node.path, own["checkpoint_ns"]
        self._id = called_tasks(checkpoint_id, self._within, loop.step, node.path)
        named = ("run_name", "run_id")
        self._config = {key: each for key, each in node.config.items() if key not in named}
        self._config["callbacks"] = of_task(callbacks)
        self._metadata = {
            **node.config.get("metadata", {}),
            "langgraph_step": loop.step,
            "langgraph_triggers": _TRIGGERS,
        }
        run_id = node.config.get("run_id")
        self._info = partial(
            ExecutionInfo,
            checkpoint_id,
            thread_id=own.get("thread_id"),
            run_id=str(run_id) if run_id else None,
        )
        self._runtime, self._scratchpad = own[RUNTIME], own[SCRATCHPAD]
        around = own.get("checkpoint_map", {})
        self._configurable = {
            **own,
            READ_STATE: None,
            SAVER: loop.checkpointer or own.get(SAVER),
            "checkpoint_map": {**around, self._within: checkpoint_id},
            "checkpoint_id": None,
        }

    def made(self, name: str, number: int) -> LeafTask:
        """Return the stand-in for the task with a name and a call number."""
        path, loop = (PUSH, self._path, number, True), self._loop
        made = LeafTask(self._id(name, number), name, path)
        namespace = f"{self._within}|{name}:{made.id}"
        scratchpad = PregelScratchpad(
            step=loop.step,
            stop=loop.stop,
            call_counter=_Counter(),
            interrupt_counter=count().__next__,
            get_null_resume=self._scratchpad.get_null_resume,
            resume=[],
            subgraph_counter=count().__next__,
        )
        info = self._info(namespace, made.id, node_first_attempt_time=time.time())
        writes = PregelTaskWrites(path, name, made.writes, _TRIGGERS)
        made.config = {
            **self._config,
            "run_name": name,
            "metadata": {
                **self._metadata,
                "langgraph_node": name,
                "langgraph_path": path,
                "langgraph_checkpoint_ns": namespace,
            },
            "configurable": {
                **self._configurable,
                TASK_ID: made.id,
                SEND: made.writes.extend,
                READ: partial(local_read, scratchpad, loop.channels, loop.managed, writes),
                "checkpoint_ns": namespace,
                SCRATCHPAD: scratchpad,
                RUNTIME: self._runtime.override(store=loop.store, execution_info=info),
                CALL: partial(self._call.func, weakref.ref(made), **self._call.keywords),
            },
        }
        return made

    def stream(self, task: LeafTask, result: object) -> None:
        """Stream the result of a leaf, as LangGraph streams that of a task."""
        loop = self._loop
        if loop.stream is not None and "updates" in loop.stream.modes:
            loop._emit("updates", map_output_updates, loop.output_keys, [(task, [(RETURN, result)])])


class _Counter:
    """Counts the tasks that the code of a leaf calls; nodes put their own counter in its place."""

    __slots__ = ("_counter",)

    def __init__(self) -> None:
        self._counter = count().__next__

    def __call__(self) -> int:
        return self._counter()


def leaf_tasks(config: RunnableConfig) -> LeafTasks | None:
    """Return the maker of the stand-ins of a node's tasks; None where LangGraph must call the tasks.

    It must if a consumer watches tasks, if something but their results is saved or kept of them, or if
    this LangGraph is not known.

    Args:
        config: LangGraph's config of the node.
    """
    configurable: dict[str, Any] = config["configurable"]
    (loop, node), call = loop_around(config), configurable.get(CALL)
    if loop is None or call is None or call.func not in (call_task, call_async_task):
        return None
    if not all(hasattr(loop, name) for name in _OF_LOOP) or (task := node()) is None:
        return None
    modes = () if loop.stream is None else loop.stream.modes
    is_watched = not _WATCHED.isdisjoint(modes) or configurable.get(NODE_FINISHED)
    is_saved_later = loop.checkpointer is not None and result_saver(config) is None
    has_policy = loop.retry_policy or loop.cache_policy or call.keywords.get("retry_policy")
    if is_watched or is_saved_later or has_policy:
        return None
    return LeafTasks(config, loop, task)
