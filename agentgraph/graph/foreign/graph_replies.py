"""The replies of models, and the calls of tools with their results, in a graph that an agent runs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.types import Command

from agentgraph.graph.nodes.callers import Caller, attempt_of_run, nodes_within
from agentgraph.graph.nodes.replies import Receiver, Replies
from agentgraph.graph.nodes.view import View
from agentgraph.graph.stamps import PROVIDER_ID

_Call = tuple[str | None, Mapping[str, Any] | None, object]
"""A call of a tool, as callbacks have it: its id, what they say of the tool, and the arguments."""
_DATA = (str, int, float, list, dict, type(None))
"""Types of arguments that a model may have given; others were injected."""


class GraphReplies(Replies):
    """Gives ids to the replies of models in a graph, and to results whose id another message has.

    In the state of the graph, to which its own reducers apply, a message replaces the one with its id:
    a result would take the place of another call's. As it knows which calls run, it also names the code
    of the graph for the idempotency keys of trees that this runs.
    """

    names_all = True
    ignore_agent = False

    def __init__(self, receiver: Receiver, there: Sequence[BaseMessage] = ()) -> None:
        """Begin without replies and results of what they belong to.

        Args:
            receiver: The owner of the chunks.
            there: The messages of the graph, if they are known.
        """
        super().__init__(receiver)
        self._messages = there
        self._known: dict[str, BaseMessage] = {}
        self._running_tools: dict[UUID, _Call] = {}

    def on_chat_model_start(
        self, serialized: object, messages: Sequence[Sequence[BaseMessage]], **_: object
    ) -> None:
        """Note the messages of the graph."""
        self._known.update({each.id: each for each in messages[0] if each.id})

    def on_tool_start(
        self,
        serialized: Mapping[str, Any] | None,
        input_str: object,
        *,
        run_id: UUID,
        tool_call_id: str | None = None,
        inputs: object = None,
        **__: object,
    ) -> None:
        """Note which call a tool runs for."""
        self._running_tools[run_id] = (tool_call_id, serialized, inputs)

    def on_tool_error(self, *_: object, run_id: UUID, **__: object) -> None:
        """Forget the call."""
        self._running_tools.pop(run_id, None)

    def on_tool_end(self, output: object, *, run_id: UUID, **_: object) -> None:
        """Give the result of a call another id if another message has its own.

        It is the last one: an update may repeat messages of the state, and call ids come again.
        """
        call = self._running_tools.pop(run_id, None)
        call_id = call and call[0]
        results = [each for each in _results_in(output) if each.tool_call_id == call_id]
        if results and (own := results[-1].id):
            with self._lock:
                self._name_result(results[-1], own)

    def caller(
        self, view: View, config: RunnableConfig, packet: int | None = None
    ) -> Callable[[], Caller]:
        """Return the name of the code of the graph, where that runs.

        Args:
            view: The activation of the agent.
            config: The config with which the graph runs.
            packet: The number of the packet for which a node of a flat graph runs.
        """
        around: str = config["configurable"].get("checkpoint_ns", "")

        def code() -> Caller:
            run, nodes = attempt_of_run(), nodes_within(get_config(), around)
            call = self._call(getattr(run, "parent_run_id", None))
            return Caller([*view.identity(), packet, nodes, call], run if nodes or call else code)

        return code

    def _call(self, run_id: UUID | None) -> list[object]:
        """Return the identity of the tool call that is a run; an empty one if there is none."""
        if run_id is None or run_id not in self._running_tools:
            return []
        call_id, tool, inputs = self._running_tools[run_id]
        given = inputs if isinstance(inputs, Mapping) else {}
        arguments = {name: value for name, value in given.items() if isinstance(value, _DATA)}
        return [call_id, (tool or {}).get("name"), arguments]

    def _name_result(self, message: ToolMessage, own: str) -> None:
        if (
            self._known.get(own, message) is not message
            or self.has_assigned(own)
            or any(own in (m.id, m.response_metadata.get(PROVIDER_ID)) for m in self._messages)
        ):
            message.response_metadata = {PROVIDER_ID: own, **message.response_metadata}
            own = message.id = str(uuid4())
        self._known[own] = message


def _results_in(output: Any) -> Iterator[ToolMessage]:
    if isinstance(output, ToolMessage):
        yield output
    elif isinstance(output, Command):
        update = output.update if isinstance(output.update, Mapping) else {}
        yield from _results_in(update.get("messages"))
    elif isinstance(output, list):
        for each in output:
            yield from _results_in(each)
