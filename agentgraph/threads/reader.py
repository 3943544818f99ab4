"""Reads what functions ask of a thread from its saver, sync or async."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph

from agentgraph.errors import AgentGraphError
from agentgraph.graph.saving import save_fault
from agentgraph.threads.savers import async_fault, saver_error, sync_fault
from agentgraph.threads.threads import (
    AllSaved,
    Keep,
    NextTasks,
    Reads,
    Request,
    Saved,
    SaveFault,
    State,
    checked_id,
)
from agentgraph.threads.time_travel import leading

T = TypeVar("T")


class Reader:
    """Answers the requests of functions that read threads."""

    def __init__(
        self, saver: BaseCheckpointSaver[Any], graph: CompiledStateGraph[Any, Any, Any, Any]
    ) -> None:
        self._saver, self._graph = saver, graph

    def read(self, reads: Reads[T], thread_id: str) -> T:
        """Run a function that reads a thread, and return its result.

        Raises:
            SaverError: The saver failed.
        """
        answer: Any = None
        while True:
            try:
                request = reads.send(answer)
            except StopIteration as stop:
                result: T = stop.value
                return result
            with self._named_errors(thread_id):
                answer = self._answer(request, thread_id)

    async def aread(self, reads: Reads[T], thread_id: str) -> T:
        """Run a function that reads a thread on the event loop, and return its result."""
        self._check_async()
        answer: Any = None
        while True:
            try:
                request = reads.send(answer)
            except StopIteration as stop:
                result: T = stop.value
                return result
            with self._named_errors(thread_id):
                answer = await self._aanswer(request, thread_id)

    def check_sync(self) -> None:
        """Refuse a saver that serves the async calls only."""
        if fault := sync_fault(self._saver):
            raise AgentGraphError(fault)

    def _check_async(self) -> None:
        if fault := async_fault(self._saver):
            raise AgentGraphError(fault)

    @contextmanager
    def _named_errors(self, thread_id: str) -> Iterator[None]:
        try:
            yield
        except AgentGraphError:
            raise
        except Exception as error:
            raise saver_error(error, self._saver, thread_id) from error

    def _answer(self, request: Request, thread_id: str) -> Any:
        match request:
            case Saved():
                return self._saver.get_tuple(_at(thread_id, request))
            case NextTasks():
                return self._graph.get_state(_at(thread_id, request)).tasks
            case State():
                with suppress(ValueError):  # the tree has no such lane any more
                    return self._graph.get_state(_at(thread_id, request)).values
                return {}
            case AllSaved():
                return leading(self._saver.list(config_of(thread_id)))
            case Keep(saved=saved, task_id=task_id, channel=channel, value=value):
                return self._saver.put_writes(saved.config, [(channel, value)], task_id)
            case SaveFault(value=value):
                return save_fault(self._saver.serde, value)

    async def _aanswer(self, request: Request, thread_id: str) -> Any:
        match request:
            case Saved():
                return await self._saver.aget_tuple(_at(thread_id, request))
            case NextTasks():
                return (await self._graph.aget_state(_at(thread_id, request))).tasks
            case State():
                with suppress(ValueError):
                    return (await self._graph.aget_state(_at(thread_id, request))).values
                return {}
            case AllSaved():
                return leading([saved async for saved in self._saver.alist(config_of(thread_id))])
            case Keep(saved=saved, task_id=task_id, channel=channel, value=value):
                return await self._saver.aput_writes(saved.config, [(channel, value)], task_id)
            case SaveFault(value=value):
                return save_fault(self._saver.serde, value)


def config_of(thread_id: str, namespace: str | None = None) -> RunnableConfig:
    """Return LangGraph's config for a thread, or for a namespace of it.

    Raises:
        AgentGraphError: It is no id of a thread.
    """
    config: RunnableConfig = {"configurable": {"thread_id": checked_id(thread_id)}}
    if namespace is not None:
        config["configurable"]["checkpoint_ns"] = namespace
    return config


def _at(thread_id: str, request: Saved | NextTasks | State) -> RunnableConfig:
    """Return LangGraph's config for what is asked: the latest checkpoint, unless one is named."""
    config = config_of(thread_id, request.namespace)
    if request.checkpoint_id is not None:
        config["configurable"]["checkpoint_id"] = request.checkpoint_id
    return config
