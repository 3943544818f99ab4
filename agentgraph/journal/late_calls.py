"""The calls of `long_running` tools whose results come in a later turn, and these results.

A call is known by its activation, the number of its message in it, and its place in that message. The
provider's id of the call is a label, which may come again. So a result that names a call by it is
rejected where several open calls have it; each has a unique id for that.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from agentgraph.agents.tool_results import LONG_RUNNING
from agentgraph.errors import AgentGraphError
from agentgraph.events.events import AgentEvent
from agentgraph.graph.late_results import as_late, late_call_id
from agentgraph.graph.paired_calls import call_id, calls_of
from agentgraph.safe_repr import shown


class _Turn(Protocol):
    """A turn: its number, what the user said, and the events."""

    @property
    def number(self) -> int: ...
    @property
    def messages(self) -> Sequence[BaseMessage]: ...
    @property
    def events(self) -> Sequence[AgentEvent]: ...


@dataclass(frozen=True)
class LateCall:
    """A call of a `long_running` tool whose result is still to come.

    Attributes:
        tool_call_id: The id of the call, for the `ToolMessage` that brings the result.
        name: The name of the tool.
        args: The arguments of the call.
        agent_name: The agent that made it.
        address: The address of the activation that made it.
        turn: The number of the turn in which it was made.
        answer: The text that the tool returned at once.
        id: An id that no other call of the thread has, such as `desk/clerk:0.2.1`: the address, the
            turn, the number of the message in the activation, the place in the message. The
            `ToolMessage` may have it in place of `tool_call_id`, which some providers repeat.
    """

    tool_call_id: str
    name: str
    args: Mapping[str, Any]
    agent_name: str
    address: str
    turn: int
    answer: str
    id: str = field(default="", compare=False)


def open_calls(turns: Iterable[_Turn]) -> list[LateCall]:
    """Return the calls of `long_running` tools whose results no later input has brought, in order."""
    waiting: dict[str, LateCall] = {}
    order: dict[str, int] = {}
    for turn in turns:
        for message in turn.messages:
            if isinstance(message, ToolMessage):
                named = late_call_id(message) or _of_label(waiting, message.tool_call_id)
                waiting.pop(named, None)
        made: dict[tuple[str, str], tuple[str, Mapping[str, object]]] = {}
        numbers: dict[str, int] = defaultdict(int)
        for event in turn.events:
            said, at = event.message, event.address
            if isinstance(said, AIMessage) and (calls := calls_of(said)):
                for place, call in enumerate(calls):
                    named, given = f"{at}:{turn.number}.{numbers[at]}.{place}", call["args"]
                    order[named] = len(order)
                    made[at, call_id(call)] = named, given if isinstance(given, Mapping) else {}
                numbers[at] += 1
            elif isinstance(said, ToolMessage) and LONG_RUNNING in said.additional_kwargs:
                label = said.tool_call_id
                named, args = made.get((at, label), (f"{at}:{turn.number}.{label}", {}))
                name, text = said.name or "", str(said.text)
                waiting[named] = LateCall(
                    label, name, args, event.agent_name, at, turn.number, text, named
                )
    return sorted(waiting.values(), key=lambda call: order.get(call.id, -1))


def _of_label(waiting: Mapping[str, LateCall], label: str) -> str:
    """Return the id of the call that a provider's id names: as results of old threads have it."""
    return next((named for named, call in waiting.items() if call.tool_call_id == label), "")


def late_results(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    """Return the results in the input of a turn whose calls are not in it."""
    calls = {call_id(call) for message in messages for call in calls_of(message)}
    results = [message for message in messages if isinstance(message, ToolMessage)]
    return [result for result in results if result.tool_call_id not in calls]


def named_results(
    turns: Sequence[_Turn],
    messages: Sequence[BaseMessage],
    late: Sequence[ToolMessage],
    thread_id: str,
) -> list[BaseMessage]:
    """Return the input of a turn in which late results have the names of their tools and calls.

    Raises:
        AgentGraphError: One comes twice, or is of no call that waits for a result, or of several.
    """
    waiting = {call.id: call for call in open_calls(turns)}
    labels = Counter(
        call_id(call)
        for turn in turns
        for event in turn.events
        if event.message is not None
        for call in calls_of(event.message)
    )
    named: dict[int, BaseMessage] = {}
    # A name of one call alone comes first: it may leave one for a provider's id.
    for result in sorted(late, key=lambda each: each.tool_call_id not in waiting):
        call = waiting.pop(_named_by(result, waiting, thread_id))
        is_repeated = labels[call.tool_call_id] > 1
        about = call.id, call.tool_call_id, call.args if is_repeated else None
        named[id(result)] = as_late(result, call.name, *about)
    return [named.get(id(message), message) for message in messages]


def _named_by(result: ToolMessage, waiting: Mapping[str, LateCall], thread_id: str) -> str:
    """Return the id of the call that a late result names, by its own id or by the provider's."""
    label = result.tool_call_id
    if label in waiting:
        return label
    several = [call for call in waiting.values() if call.tool_call_id == label]
    if len(several) == 1:
        return several[0].id
    if several:
        there = ", ".join(f"{call.id} ({call.name})" for call in several)
        raise AgentGraphError(
            f"thread {shown(thread_id)}: several open calls have the id {shown(label)}; pass the id of "
            f"one of them in open_calls as tool_call_id: {there}"
        )
    others = ", ".join(f"{call.tool_call_id} ({call.name})" for call in waiting.values())
    raise AgentGraphError(
        f"thread {shown(thread_id)}: no call {shown(label)} of a long_running tool waits for a result; "
        f"available: {others or 'none'}"
    )
