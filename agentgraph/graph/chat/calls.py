"""Finds the open tool calls of a chat agent's last message, and repairs calls that models get wrong."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast
from uuid import NAMESPACE_URL, uuid5

from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall, ToolCall, ToolMessage

from agentgraph.errors import AgentGraphError
from agentgraph.graph.nodes.view import View
from agentgraph.graph.paired_calls import call_id, calls_of
from agentgraph.graph.quoted_messages import is_call
from agentgraph.graph.read_back import Serializer
from agentgraph.graph.saving import save_fault
from agentgraph.graph.stamps import EventCall, address_of, stamp_in
from agentgraph.safe_repr import as_json
from agentgraph.tree.addresses import without_attempts


class OpenCall(NamedTuple):
    """A tool call that has no result yet.

    Attributes:
        call: The call; its arguments are a string if they are not valid JSON.
        number: Its index among all calls of the activation, from 0.
        error: Why its arguments cannot be read; None if they can.
    """

    call: ToolCall
    number: int
    error: str | None = None


def with_ids(view: View, message: AIMessage) -> AIMessage:
    """Return a message of an activation whose calls have unique ids: some models omit or repeat them.

    The ids are made of the place of the call, so that the same call again has the same one.
    """
    calls = calls_of(message)
    if len({*map(call_id, calls)} - {""}) == len(calls):
        return message
    where = f"{view.state.clock.turn} {without_attempts(view.address)} {messages_with_calls(view)}"
    seen, ids = {""}, list[str]()
    for place, call in enumerate(calls):
        known = call_id(call)
        ids.append(f"call_{uuid5(NAMESPACE_URL, f'{where} {place}').hex}" if known in seen else known)
        seen.add(known)
    new = [{**call, "id": made} for call, made in zip(calls, ids, strict=True)]
    valid = len(message.tool_calls)
    return message.model_copy(
        update={
            "tool_calls": new[:valid],
            "invalid_tool_calls": new[valid:],
            "content": _renumbered(message.content, calls, ids),
        }
    )


def _renumbered(content: Any, calls: Sequence[Any], ids: Sequence[str]) -> Any:
    """Return content in which the blocks of calls have the ids of these, in their order."""
    if not isinstance(content, list):
        return content
    left = [(call_id(call), made) for call, made in zip(calls, ids, strict=True)]
    blocks: list[object] = []
    for block in content:
        named = next((pair for pair in left if is_call(block) and pair[0] == _call_id_of(block)), None)
        if named is not None:
            left.remove(named)
            block = {**block, "call_id" if block.get("call_id") else "id": named[1]}
        blocks.append(block)
    return blocks


def messages_with_calls(view: View) -> int:
    """Return how many messages with calls an activation has said before the step at hand."""
    turn, count = view.state.clock.turn, 0
    for message in reversed(view.lane_messages):
        stamp = stamp_in(message.response_metadata)
        if stamp is None:
            continue
        if stamp.turn is not None and stamp.turn < turn:
            break
        count += stamp.address == view.address and bool(calls_of(message))
    return count


def event_call(view: View, opened: OpenCall) -> EventCall:
    """Return the place of an open call in its activation."""
    first = view.progress.get("tool_calls", 0)
    return EventCall(messages_with_calls(view) - 1, opened.number - first, str(opened.call["id"]))


def with_saved_calls(message: AIMessage, serializer: Serializer | None) -> AIMessage:
    """Return a message in which calls whose arguments cannot be saved are invalid calls.

    Like calls with invalid JSON they go back to the model with the reason.
    """
    faults: dict[int, str] = {}
    for call in calls_of(message):
        if serializer is not None and (fault := save_fault(serializer, call["args"])):
            why = f"they cannot be saved ({fault}); give very large numbers as texts, and nest less"
            faults[id(call)] = why
    if not faults:
        return message
    ids, content = [call["id"] for call in calls_of(message) if id(call) in faults], message.content
    if isinstance(content, list):
        content = [_emptied(block) if _call_id_of(block) in ids else block for block in content]
    return _with_invalid(message, faults).model_copy(update={"content": content})


def with_answers_refused(message: AIMessage, names: Collection[str], fault: str) -> AIMessage:
    """Return a message in which calls of some names are invalid calls, with a fault as the reason."""
    why = f"they do not fit the schema ({fault})"
    return _with_invalid(message, {id(c): why for c in message.tool_calls if c["name"] in names})


def _with_invalid(message: AIMessage, faults: Mapping[int, str]) -> AIMessage:
    """Return a message in which some calls are invalid ones; `faults` are by the `id` of the object."""
    valid = [call for call in message.tool_calls if id(call) not in faults]
    invalid = [call for call in message.invalid_tool_calls if id(call) not in faults]
    invalid += [_invalid(call, faults[id(call)]) for call in calls_of(message) if id(call) in faults]
    return message.model_copy(update={"tool_calls": valid, "invalid_tool_calls": invalid})


def _invalid(call: Any, fault: str) -> InvalidToolCall:
    args, error = _in_ascii(call["args"]), call.get("error") or fault
    return InvalidToolCall(
        type="invalid_tool_call", name=call["name"], args=args, id=call["id"], error=error
    )


def _in_ascii(args: object) -> str:
    text = args if isinstance(args, str) else as_json(args, in_ascii=True)
    return text.encode("ascii", "backslashreplace").decode()


def _call_id_of(block: Any) -> object:
    return (block.get("call_id") or block.get("id")) if is_call(block) else None


def _emptied(block: Any) -> dict[str, object]:
    return {key: {} if key in ("input", "args") else value for key, value in block.items()}


def without_calls(message: AIMessage) -> AIMessage:
    """Return a message without its calls, also without those in its content blocks."""
    content = message.content
    if isinstance(content, list):
        content = [block for block in content if not is_call(block)]
    raw = {key: value for key, value in message.additional_kwargs.items() if key != "tool_calls"}
    none: dict[str, object] = {"tool_calls": [], "invalid_tool_calls": []}
    return message.model_copy(update={**none, "content": content, "additional_kwargs": raw})


def last_message(view: View) -> AIMessage:
    """Return the message with the calls to run: the agent's last one in this activation."""
    for message in reversed(view.lane_messages):
        if isinstance(message, AIMessage) and address_of(message) == view.address:
            return message
    raise AgentGraphError(
        f"{view.address}: the tools node needs a message with tool calls before it; go to "
        f"{view.node_context.place.node!r}"
    )


def before_calls(view: View, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return messages without the calls of the agent's last message and without their results."""
    for at in reversed(range(len(messages))):
        message = messages[at]
        is_mine = isinstance(message, AIMessage) and address_of(message) == view.address
        if is_mine and (ids := {call["id"] for call in calls_of(message)}):
            reply = without_calls(cast(AIMessage, message))
            after = [m for m in messages[at + 1 :] if getattr(m, "tool_call_id", None) not in ids]
            return [*messages[:at], *([reply] if reply.text.strip() else ()), *after]
    return [*messages]


def open_calls(view: View) -> list[OpenCall]:
    """Return the calls that have no result yet, in their order."""
    message = last_message(view)
    results = results_after(message, view.lane_messages)
    first = view.progress.get("tool_calls", 0)
    calls, now = [], view.node_context.renamed_tools
    for number, call in enumerate(calls_of(message), first):
        if call["id"] not in results:
            error: Any = None
            if call.get("type") == "invalid_tool_call":
                error = call.get("error") or "they are not valid JSON"
            named: Any = {**call, "name": now.get(str(call["name"]), call["name"])} if now else call
            calls.append(OpenCall(named, number, error))
    return calls


def results_after(message: BaseMessage | None, messages: Sequence[BaseMessage]) -> set[str]:
    """Return the ids of the calls with a result after a message; without a message, of all results.

    Only later results count, as some models use the same ids again.
    """
    results = set()
    for each in reversed(messages):
        if each is message:
            break
        if isinstance(each, ToolMessage):
            results.add(each.tool_call_id)
    return results


def last_reply(messages: Sequence[BaseMessage]) -> AIMessage | None:
    """Return the last `AIMessage`, or None."""
    for each in reversed(messages):
        if isinstance(each, AIMessage):
            return each
    return None
