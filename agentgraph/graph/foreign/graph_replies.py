"""The replies of models and the results of tools in a graph that an agent runs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.types import Command

from agentgraph.graph.nodes.replies import Hearer, Replies
from agentgraph.graph.stamps import PROVIDER_ID


class GraphReplies(Replies):
    """Gives ids to the replies of models in a graph, and to results whose id another message has.

    In the state of the graph, to which its own reducers apply, a message replaces the one with its id:
    a result would take the place of another call's.
    """

    names_all = True
    ignore_agent = False

    def __init__(self, hearer: Hearer) -> None:
        """Begin without replies and results of what they belong to."""
        super().__init__(hearer)
        self._known: dict[str, BaseMessage] = {}
        self._running_tools: dict[UUID, str | None] = {}

    def on_chat_model_start(
        self, serialized: object, messages: Sequence[Sequence[BaseMessage]], **_: object
    ) -> None:
        """Note the messages of the graph."""
        self._known.update({each.id: each for each in messages[0] if each.id})

    def on_tool_start(
        self, *_: object, run_id: UUID, tool_call_id: str | None = None, **options: object
    ) -> None:
        """Note which call a tool runs for."""
        self._running_tools[run_id] = tool_call_id

    def on_tool_error(self, *_: object, run_id: UUID, **__: object) -> None:
        """Forget the call."""
        self._running_tools.pop(run_id, None)

    def on_tool_end(self, output: object, *, run_id: UUID, **_: object) -> None:
        """Give the result of a call another id if another message has its own.

        It is the last one: an update may repeat messages of the state, and call ids come again.
        """
        call = self._running_tools.pop(run_id, None)
        results = [each for each in _results_in(output) if each.tool_call_id == call]
        if results and (own := results[-1].id):
            with self._lock:
                self._name_result(results[-1], own)

    def _name_result(self, message: ToolMessage, own: str) -> None:
        """Give a result another id than its own if another message has that."""
        if self._known.get(own, message) is not message:
            message.response_metadata = {PROVIDER_ID: own, **message.response_metadata}
            own = message.id = str(uuid4())
        self._known[own] = message


def _results_in(output: Any) -> Iterator[ToolMessage]:
    """Yield the tool messages in what a tool returned."""
    if isinstance(output, ToolMessage):
        yield output
    elif isinstance(output, Command):
        update = output.update if isinstance(output.update, Mapping) else {}
        yield from _results_in(update.get("messages"))
    elif isinstance(output, list):
        for each in output:
            yield from _results_in(each)
