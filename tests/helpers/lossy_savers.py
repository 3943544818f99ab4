"""Savers that keep less than LangGraph's: as some on the package index do."""

from collections.abc import Iterator
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Interrupt


def without_schemas(value: Any) -> Any:
    """Return a saved value in which questions are a value and an id, as `RedisSaver` restores them."""
    if isinstance(value, Interrupt):
        return Interrupt(value=value.value, id=value.id)
    if isinstance(value, tuple | list):
        return [without_schemas(each) for each in value]
    return value


class LosingSerializer(JsonPlusSerializer):
    """A serializer that drops the schemas of questions."""

    def loads_typed(self, data: Any) -> Any:
        return without_schemas(super().loads_typed(data))


class LosingSaver(InMemorySaver):
    """A saver in memory that drops the schemas of questions."""

    def __init__(self) -> None:
        super().__init__(serde=LosingSerializer())


class PathKeySaver(InMemorySaver):
    """A saver that rejects a write under two paths, as `MongoDBSaver`'s unique index does.

    Attributes:
        paths: The path of each task that was written, by checkpoint and task.
    """

    def __init__(self) -> None:
        super().__init__()
        self.paths: dict[tuple[str, str, str], set[str]] = {}
        self._path_of: dict[tuple[Any, ...], str] = {}

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        at = config["configurable"]
        where = at["checkpoint_ns"], at["checkpoint_id"], task_id
        for number, (channel, _) in enumerate(writes):
            key = at["thread_id"], *where, WRITES_IDX_MAP.get(channel, number)
            before = self._path_of.setdefault(key, task_path)
            if before != task_path:
                raise RuntimeError(f"E11000: {channel} under {before!r}, then {task_path!r}")
        self.paths.setdefault(where, set()).add(task_path)
        super().put_writes(config, writes, task_id, task_path)


class UnknownSaver(BaseCheckpointSaver[str]):
    """A saver of which only LangGraph's interface is known."""

    def __init__(self) -> None:
        super().__init__()
        self._saver = InMemorySaver()

    def get_tuple(self, config: Any) -> Any:
        return self._saver.get_tuple(config)

    def list(self, config: Any, **options: Any) -> Iterator[Any]:
        return self._saver.list(config, **options)

    def put(self, *arguments: Any) -> Any:
        return self._saver.put(*arguments)

    def put_writes(self, *arguments: Any) -> None:
        self._saver.put_writes(*arguments)

    def get_next_version(self, current: Any, channel: None) -> Any:
        return self._saver.get_next_version(current, channel)

    async def aget_tuple(self, config: Any) -> Any:
        return self.get_tuple(config)

    async def alist(self, config: Any, **options: Any) -> Any:
        for each in self.list(config, **options):
            yield each

    async def aput(self, *arguments: Any) -> Any:
        return self.put(*arguments)

    async def aput_writes(self, *arguments: Any) -> None:
        self.put_writes(*arguments)

    def delete_thread(self, thread_id: str) -> None:
        self._saver.delete_thread(thread_id)

    async def adelete_thread(self, thread_id: str) -> None:
        self.delete_thread(thread_id)
