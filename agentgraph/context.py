"""What a function agent is called with."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage
from langchain_core.tools.base import _DirectlyInjectedToolArg
from langgraph.runtime import Runtime, get_runtime

from agentgraph.addresses import Cursor, RunPaths, address, iteration
from agentgraph.agents import HistoryPolicy
from agentgraph.history import Entry, unchanged, visible
from agentgraph.run_path import RunPath
from agentgraph.state import address_of, speaker_of

if TYPE_CHECKING:
    from agentgraph.places import Place


class Context(_DirectlyInjectedToolArg):
    """What a function agent, the `until` of a loop, a check, or a tool knows of the run.

    ```
    def writer(ctx: Context) -> str:
        return f"Draft {ctx.iteration + 1} about {ctx.values['topic']}."
    ```

    A tool gets one as the parameter that is annotated so, whatever its name; the model is not told of
    it, as of LangGraph's `ToolRuntime`, which has the same base class. There `messages` are all
    messages of the run.

    Attributes:
        values: The values of the run, as a read-only mapping; write them by `SetValues`.
        answered: Whether this call follows the answer to an `Ask`.
        answer: That answer, as plain data; None before.
    """

    def __init__(
        self,
        place: "Place",
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
        self.values: Mapping[str, Any] = MappingProxyType(dict(values))
        self.answered = bool(answer)
        self.answer: Any = answer[0] if answer else None

    @cached_property
    def messages(self) -> list[BaseMessage]:
        """What this agent may see, by its `history`; for `until` and checks all as it is.

        What others said is a user message that names the speaker, as in google-adk:
        `[critic] said: Too short.`
        """
        return visible(
            self._messages,
            self._history,
            self._place.name,
            self.address,
            self._paths.of,
            self._under_way,
        )

    @property
    def name(self) -> str:
        """The agent's name."""
        return self._place.name

    @cached_property
    def entries(self) -> list[Entry]:
        """The whole history, whatever this agent may see, with who said what and where."""
        return [Entry(m, speaker_of(m), address_of(m), self._paths.of) for m in self._messages]

    @cached_property
    def address(self) -> str:
        """The address of this activation, such as `report/refine[1]/critic`."""
        return address(self._place, self._cursor[: len(self._place.counts)])

    @property
    def run_path(self) -> RunPath:
        """How the run got here."""
        return self._paths.at(self._place, self._cursor[: len(self._place.counts)])

    @property
    def iteration(self) -> int | None:
        """The iteration of the nearest loop, counted from 0; None outside a loop."""
        return iteration(self._place, self._cursor)

    @property
    def runtime(self) -> Runtime[Any]:
        """LangGraph's runtime: its store, its context, its stream writer."""
        return get_runtime()
