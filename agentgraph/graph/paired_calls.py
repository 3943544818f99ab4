"""Calls of tools, each followed by its results: in a history that a model is sent."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import cast

from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall, ToolCall, ToolMessage

from agentgraph.graph.quoted_messages import quoted
from agentgraph.graph.stamps import speaker_of

NO_RESULT = "No result of this call was kept."
"""The result of a call without a result: true whatever became of the call."""


def paired(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    """Return `messages` with each call followed by its results, in the order of the calls.

    Messages between them move after them, a call without a result gets one that says so, and a result
    without a call becomes a text. Ids of calls may repeat: a result belongs to the last message before
    it that has a call with its id.

    >>> call = {"name": "search", "args": {}, "id": "1", "type": "tool_call"}
    >>> from langchain_core.messages import HumanMessage
    >>> asked, late = AIMessage("", tool_calls=[call]), HumanMessage("And?")
    >>> [message.text for message in paired([asked, late])]
    ['', 'No result of this call was kept.', 'And?']
    >>> [message.text for message in paired([ToolMessage("3 hits", name="search", tool_call_id="1")])]
    ['search returned: 3 hits']
    """
    everything = list(messages)
    if _is_paired(everything):
        return everything
    answers = answers_in(everything)
    answering = {at for indexes in answers.values() for at in indexes}
    result: list[BaseMessage] = []
    for index, message in enumerate(everything):
        if not isinstance(message, ToolMessage):
            result.append(message)
        elif index not in answering:
            result.append(quoted(message, speaker_of(message)))
        if indexes := answers.get(index):
            calls = zip(calls_of(message), indexes, strict=True)
            result += [
                _unfinished(message, i, call) if at is None else everything[at]
                for i, (call, at) in enumerate(calls)
            ]
    return result


def _is_paired(messages: Sequence[BaseMessage]) -> bool:
    """Return whether each call has its results already: a fast check, made in every round of tools."""
    waiting: list[str] = []
    for message in messages:
        if message.type == "tool":
            if not waiting or cast(ToolMessage, message).tool_call_id != waiting.pop():
                return False
        elif waiting:
            return False
        elif message.type == "ai":
            waiting = [call_id(call) for call in calls_of(message)][::-1]
    return not waiting


def in_call_order(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    """Return messages with the results of the calls of one message in the order of its calls.

    >>> calls = [{"name": "search", "args": {}, "id": id, "type": "tool_call"} for id in "ab"]
    >>> late, early = (ToolMessage(f"{id} ended.", tool_call_id=id) for id in "ab")
    >>> [message.text for message in in_call_order([AIMessage("", tool_calls=calls), early, late])]
    ['', 'a ended.', 'b ended.']
    """
    ordered, calls = list(messages), dict[str, deque[tuple[int, int]]]()
    results: dict[int, list[tuple[int, int]]] = {}
    for index, message in enumerate(ordered):
        calls |= {call_id(call): deque[tuple[int, int]]() for call in calls_of(message)}
        for number, call in enumerate(calls_of(message)):
            calls[call_id(call)].append((index, number))
        if isinstance(message, ToolMessage) and (several := calls.get(message.tool_call_id)):
            # of calls that have one id each has a result, in their order; the last may have more
            asking, number = several.popleft() if len(several) > 1 else several[0]
            results.setdefault(asking, []).append((number, index))
    for pairs in results.values():
        moved = [ordered[index] for _, index in sorted(pairs)]
        for (_, index), message in zip(pairs, moved, strict=True):
            ordered[index] = message
    return ordered


def calls_of(message: BaseMessage) -> Sequence[ToolCall | InvalidToolCall]:
    """Return the calls of a message that need a result, invalid ones included."""
    if not isinstance(message, AIMessage):
        return ()
    if not message.invalid_tool_calls:
        return message.tool_calls
    return (*message.tool_calls, *message.invalid_tool_calls)


def call_id(call: ToolCall | InvalidToolCall) -> str:
    """Return the id that the result of a call must name."""
    return call["id"] or ""


def unanswered(messages: Sequence[BaseMessage]) -> dict[int, ToolCall | InvalidToolCall]:
    """Return the calls that have no result, each by its number among all calls."""
    every = ((i, at) for i, results in answers_in(messages).items() for at in enumerate(results))
    return {
        number: calls_of(messages[index])[place]
        for number, (index, (place, result)) in enumerate(every)
        if result is None
    }


def answers_in(messages: Sequence[BaseMessage]) -> dict[int, list[int | None]]:
    """Return for each message with calls the index of the result of each, None where it is missing."""
    answers: dict[int, list[int | None]] = {}
    waiting: dict[str, deque[tuple[int, int]]] = {}
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if calls_waiting := waiting.get(message.tool_call_id):
                asked_by, position = calls_waiting.popleft()
                answers[asked_by][position] = index
        elif calls := calls_of(message):
            answers[index] = [None] * len(calls)
            waiting.update((call_id(call), deque()) for call in calls)
            for position, call in enumerate(calls):
                waiting[call_id(call)].append((index, position))
    return answers


def _unfinished(message: BaseMessage, index: int, call: ToolCall | InvalidToolCall) -> ToolMessage:
    """Return the result of an unfinished call; its id is always the same, so that edits find it."""
    made_up = message.id and f"{message.id} {index}"
    return ToolMessage(
        NO_RESULT, id=made_up, name=call["name"], tool_call_id=call_id(call), status="error"
    )


def decision_in(result: BaseMessage) -> str | None:
    """Return the decision of a person that took the place of a tool's result, such as "reject".

    >>> mark = {"lc_source": "hitl_interrupt_decision", "lc_data": {"decision": "reject"}}
    >>> decision_in(ToolMessage("No.", tool_call_id="1", additional_kwargs=mark))
    'reject'
    """
    match result.additional_kwargs:
        case {"lc_source": "hitl_interrupt_decision", "lc_data": {"decision": str(kind)}}:
            return kind
    return None
