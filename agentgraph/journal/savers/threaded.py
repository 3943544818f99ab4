"""Async calls of a saver whose methods are sync: in threads, so on any event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)

from agentgraph.graph.collecting import read_all
from agentgraph.graph.open_types import Saver

T = TypeVar("T")


class AsyncInThreads(Saver):
    """Makes the async calls of a saver by its sync methods, in threads.

    Attributes:
        threads: Where the threads are; None for the event loop's own.
    """

    threads: Executor | None = None

    async def _in_thread(self, call: Callable[..., T], *args: object, **options: object) -> T:
        made = partial(copy_context().run, call, *args, **options)
        return await asyncio.get_running_loop().run_in_executor(self.threads, made)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint, as `get_tuple` does."""
        return await self._in_thread(self.get_tuple, config)

    async def alist(
        self, config: RunnableConfig | None, **options: Any
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, as `list` does."""
        for each in await self._in_thread(lambda: read_all(self.list(config, **options))):
            yield each

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint, as `put` does."""
        return await self._in_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, object]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Save writes, as `put_writes` does."""
        await self._in_thread(self.put_writes, config, writes, task_id, task_path)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the history of channels, as `get_delta_channel_history` does."""
        return await self._in_thread(self.get_delta_channel_history, config=config, channels=channels)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread, as `delete_thread` does."""
        await self._in_thread(self.delete_thread, thread_id)
