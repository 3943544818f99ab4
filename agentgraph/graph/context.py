"""The context of one activation, as users' functions are called with it."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.runtime import Runtime, get_runtime
from typing_extensions import override

from agentgraph.agents.agents import HistoryPolicy
from agentgraph.agents.context import Context, Entry
from agentgraph.agents.run_path import RunPath
from agentgraph.graph.history import unchanged, visible
from agentgraph.graph.state import address_of, speaker_of
from agentgraph.tree.addresses import Cursor, RunPaths, address, iteration
from agentgraph.tree.places import Place


class ActivationContext(Context):
    """The context of one activation; messages, entries and run paths are made when asked for."""

    def __init__(
        self,
        place: Place,
        cursor: Cursor,
        paths: RunPaths,
        *,
        messages: Sequence[BaseMessage],
        values: Mapping[str, Any],
        history: HistoryPolicy = unchanged,
        under_way: int = 0,
        answer: Sequence[Any] = (),
    ) -> None:
        self._place, self._cursor, self._paths = place, cursor, paths
        self._messages, self._history, self._under_way = messages, history, under_way
        self.values = MappingProxyType(dict(values))
        self.answered = bool(answer)
        self.answer = answer[0] if answer else None

    @cached_property
    @override
    def messages(self) -> list[BaseMessage]:
        return visible(
            self._messages,
            self._history,
            self._place.name,
            self.address,
            self._paths.of,
            self._under_way,
        )

    @property
    @override
    def name(self) -> str:
        return self._place.name

    @cached_property
    @override
    def entries(self) -> list[Entry]:
        return [Entry(m, speaker_of(m), address_of(m), self._paths.of) for m in self._messages]

    @cached_property
    @override
    def address(self) -> str:
        return address(self._place, self._cursor[: len(self._place.counts)])

    @property
    @override
    def run_path(self) -> RunPath:
        return self._paths.at(self._place, self._cursor[: len(self._place.counts)])

    @property
    @override
    def iteration(self) -> int | None:
        return iteration(self._place, self._cursor)

    @property
    @override
    def runtime(self) -> Runtime[Any]:
        return get_runtime()
