"""Reads what functions ask of a thread from its saver, sync or async."""

from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph.state import CompiledStateGraph

from agentgraph.errors import AgentGraphError
from agentgraph.saving import save_fault
from agentgraph.threads import AllSaved, NextTasks, Reads, Request, Saved, SaveFault

T = TypeVar("T")


class Reader:
    """Answers the requests of functions that read threads."""

    def __init__(
        self, saver: BaseCheckpointSaver[Any], graph: CompiledStateGraph[Any, Any, Any, Any]
    ) -> None:
        self._saver, self._graph = saver, graph

    def read(self, reads: Reads[T], thread_id: str) -> T:
        """Run a function that reads a thread, and return its result."""
        answer: Any = None
        while True:
            try:
                request = reads.send(answer)
            except StopIteration as stop:
                result: T = stop.value
                return result
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
            answer = await self._aanswer(request, thread_id)

    def check_sync(self) -> None:
        """Refuse a saver that serves the async calls only."""
        if isinstance(self._saver, AsyncSqliteSaver):
            raise AgentGraphError(
                "an async SQLite saver serves arun, aresume, apending and aevents only; for their sync "
                "twins open the file with sqlite_saver()"
            )

    def _check_async(self) -> None:
        if isinstance(self._saver, SqliteSaver):
            raise AgentGraphError(
                "a sync SQLite saver serves run, resume, pending and events only; for their async "
                "twins open the file with async_sqlite_saver()"
            )

    def _answer(self, request: Request, thread_id: str) -> Any:
        match request:
            case Saved(namespace=namespace):
                return self._saver.get_tuple(config_of(thread_id, namespace))
            case NextTasks(namespace=namespace):
                return self._graph.get_state(config_of(thread_id, namespace)).tasks
            case AllSaved():
                return list(self._saver.list(config_of(thread_id)))
            case SaveFault(value=value):
                return save_fault(self._saver.serde, value)

    async def _aanswer(self, request: Request, thread_id: str) -> Any:
        match request:
            case Saved(namespace=namespace):
                return await self._saver.aget_tuple(config_of(thread_id, namespace))
            case NextTasks(namespace=namespace):
                return (await self._graph.aget_state(config_of(thread_id, namespace))).tasks
            case AllSaved():
                return [saved async for saved in self._saver.alist(config_of(thread_id))]
            case SaveFault(value=value):
                return save_fault(self._saver.serde, value)


def config_of(thread_id: str, namespace: str | None = None) -> RunnableConfig:
    """Return LangGraph's config for a thread, or for a namespace of it."""
    config: RunnableConfig = {"configurable": {"thread_id": str(thread_id)}}
    if namespace is not None:
        config["configurable"]["checkpoint_ns"] = namespace
    return config
