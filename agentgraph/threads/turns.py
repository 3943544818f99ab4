"""Begins a turn, and recovers the results of an unfinished turn before it.

The problem: LangGraph commits a step when its node has ended. Until then the results are only pending
writes at the lane's last checkpoint (of tool calls and lanes that ended), or checkpoints of inner lanes
that have not ended. New input on the thread starts a new turn and drops all of these. The user has
seen those messages as events, and tools have had their effects, but the agents would not know.

Just running the old step again is not good enough: it repeats its effects. Nor is dropping it: a chat
model's call without a result makes the history invalid for the next request.

The rule: what finished is added to the new turn's input, before the user's messages.

- Input that no node has read: all of it.
- A node that ended, but was not committed: what it wrote.
- Tool calls: the results, in the order of the calls; a call without one gets `UNFINISHED`.
- A graph agent: its messages.
- Branches, steps and items: their messages and values, in declared order, each step after those that it
  depends on. Of a lane that has not ended this is the finished work of its agents. Of items it is the
  part that would have left them: by the `output_mode`, under "last" of those alone that had ended. A
  list of their results is not written, because it would be taken for a whole one.

The messages of an agent that runs as a tool are not included: its caller gets the result, if any.

For example: `run("Weather?")` is killed after the tool call `now` has ended, before `later` has; then
`run("Stop.")` starts its turn with: the result of `now`, "The call was not finished." for `later`, and
the user's "Stop."
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast
from uuid import uuid4

from langchain_core.messages import (
    BaseMessage,
    ToolMessage,
    convert_to_messages,
)
from langgraph.types import Command

from agentgraph.agents.agents import EachAgent
from agentgraph.agents.kinds import staying_keys
from agentgraph.errors import AgentGraphError, PendingInterruptError, SaverError
from agentgraph.graph.agent_records import RecordChanges, collected
from agentgraph.graph.copied_values import detached
from agentgraph.graph.known_messages import new_messages
from agentgraph.graph.lane_position import Position
from agentgraph.graph.message_changes import folded, with_id
from agentgraph.graph.nodes.decisions import decided
from agentgraph.graph.nodes.each import joining
from agentgraph.graph.paired_calls import call_id, calls_of, in_call_order, unanswered
from agentgraph.graph.signal_handlers import is_of_a_handler
from agentgraph.graph.stamps import address_of, stamped
from agentgraph.graph.task_results import TAG
from agentgraph.graph.unstamped import StampedInput, unstamped
from agentgraph.graph.values import check_mapping, maps_in
from agentgraph.journal.changed_trees import opened
from agentgraph.journal.late_calls import late_results, named_results
from agentgraph.journal.lines import (
    address_at,
    before_edits,
    check_whole,
    leading_checkpoints,
    order_of,
    place_of,
    position_in,
)
from agentgraph.journal.pending import PendingQuestions, pending_questions
from agentgraph.journal.saved import Saved, Written
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.reports.thread import thread
from agentgraph.safe_repr import reason, shown
from agentgraph.tree.addresses import address, as_cursor
from agentgraph.tree.places import Place, Tree

Input = str | BaseMessage | Sequence[Any] | Mapping[str, Any] | Command[Any]
"""The input of a turn: a text, a message, or a list of messages in any form that LangChain accepts.

As a LangGraph graph takes it: `{"messages": [...]}`, or `Command(resume=answer)`, which resumes."""

_FOR_VALUES = ", and values of the run as values={...}"
"""The advice in an error for an input that is a mapping, as a LangGraph graph takes it."""

UNFINISHED = "The call was not finished."
"""The result given to a tool call that an abandoned turn left without one."""

_NEVER = 2**63
"""Later than all times."""
_WITH_MESSAGES = ("tool", "node", "message", "call", "lane")
"""The results that have messages; of lanes where the tree has no such fork any more."""
_LANE_DEPTH = 2
"""How many parts a lane's namespace has within that of its enclosing lane."""


class Recovered(NamedTuple):
    """The recovered data: messages, written values, and changes to middleware state, each in order."""

    messages: list[BaseMessage]
    values: list[Mapping[str, object]]
    middleware: list[RecordChanges]


def as_input(messages: Input, values: Mapping[str, object] | None) -> StampedInput:
    """Return the input of a compiled tree, without stamps.

    Raises:
        AgentGraphError: The messages cannot be read, or the values are not a mapping.
    """
    if isinstance(messages, dict) and "messages" in messages:
        messages = _messages_of(messages)
    several = isinstance(messages, Sequence) and not isinstance(messages, str)
    try:
        converted = convert_to_messages(messages if several else [messages])  # type: ignore[list-item, arg-type]
    except Exception as error:
        if is_of_a_handler(error):
            raise
        raise AgentGraphError(
            f"{shown(messages)} cannot be read as messages ({reason(error)}); pass a text, a LangChain "
            f"message, or a list of messages{_FOR_VALUES if isinstance(messages, dict) else ''}"
        ) from error
    turn = StampedInput(messages=detached(unstamped(converted)))
    if values is not None:
        check_mapping(values)
        turn |= {"values": detached(dict(values))} if values else {}
    return turn


def _messages_of(state: Mapping[str, Any]) -> Input:
    """Return the messages of an input in the form of LangGraph's state.

    Raises:
        AgentGraphError: It has other keys.
    """
    if others := [name for name in state if name != "messages"]:
        raise AgentGraphError(
            f"the input has the keys {', '.join(map(shown, others))} in addition to 'messages'; pass "
            "{'messages': [...]} or the messages alone, and values={...} for the rest"
        )
    messages: Input = state["messages"]
    return messages


def named_messages(messages: Input) -> list[BaseMessage]:
    """Return the messages of an input, each with an id by which it is found on the thread.

    Raises:
        AgentGraphError: They cannot be read.
    """
    return [with_id(each, str(uuid4())) for each in as_input(messages, None)["messages"]]


async def new_turn(
    saver: ThreadSaver,
    saved: Saved | None,
    messages: Input,
    values: Mapping[str, object] | None,
    drop_pending: bool,
    waiting: Sequence[BaseMessage] = (),
) -> StampedInput:
    """Return the input of a new turn, with what is recovered of an unfinished one.

    Args:
        saver: The thread.
        saved: Its latest checkpoint; None if it begins.
        messages: The input.
        values: The values to write before the turn.
        drop_pending: Whether to drop pending questions.
        waiting: Messages that were sent before, and that nothing has read; they come first.

    Raises:
        AgentGraphError: The messages or the values cannot be read or saved.
        ThreadError: A message has the id of another one of the thread.
        PendingInterruptError: Questions are pending, and `drop_pending` is false.
    """
    turn = as_input(messages, values)
    turn["messages"] = saver.saved_messages(turn["messages"])
    if "values" in turn:
        turn["values"] = saver.saved_values(turn["values"])
    if saved is not None:
        check_whole(saver, saved)
        turn["messages"] = await _new_messages(saver, turn["messages"])
    if late := late_results(turn["messages"]):
        turns = (await thread(saver, saver.reducers)).turns
        turn["messages"] = named_results(turns, turn["messages"], late, saver.thread_id)
    turn["messages"] = [*waiting, *turn["messages"]]
    if saved is None or not saved.next_node:
        return turn
    if not drop_pending:
        _check_answered(saver.thread_id, await pending_questions(saver, await opened(saver, saved)))
    recovered = await _recovered(saver, saved)
    more = {
        # one map after the other, for the reducers to merge
        "values": [dict(each) for each in [*recovered.values, turn.get("values", {})] if each],
        "middleware": collected({}, recovered.middleware),
    }
    return StampedInput(
        messages=[*recovered.messages, *turn["messages"]],
        **{name: written for name, written in more.items() if written},
    )


def _check_answered(thread_id: str, waiting: PendingQuestions) -> None:
    """Reject a turn before the questions of the last one are answered, and their answers are taken.

    Raises:
        PendingInterruptError: They are not.
    """
    kept = [each.question for each in waiting.kept]
    if not (waiting.questions or kept):
        return
    there = ", ".join(f"{q.address} ({q.id})" for q in waiting.questions or kept)
    raise PendingInterruptError(
        f"thread {shown(thread_id)} waits for answers to {there}; answer them with "
        "resume(), or run with drop_pending=True to drop them"
        if waiting.questions
        else f"thread {shown(thread_id)} has answers to {there} that no run has taken; continue it "
        "with resume(), or run with drop_pending=True to drop them",
        thread_id,
    )


async def _new_messages(saver: ThreadSaver, messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """Return the messages of an input that the thread does not have, and its removals.

    Raises:
        ThreadError: One has the id of a message of the thread, and other content.
    """
    if not any(message.id for message in messages):
        return messages
    there = (await saver.state()).values.get("messages", ())
    return new_messages(messages, there, saver.thread_id)


async def _recovered(saver: ThreadSaver, saved: Saved) -> Recovered:
    """Return the recovered data of a turn that stopped at the root's checkpoint `saved`, the head.

    If the tree has changed and agents that ran are missing, all that can be found is recovered.
    """
    if (begun := saved.turn_input) is not None:
        changes = begun.get("middleware")
        return Recovered(begun["messages"], begun["values"], [changes] if changes else [])
    state = await _state_at(saver, saved)
    _, origin = await before_edits(saver, saved)
    place = _place(saver.tree, position_in(saver.tree, origin))
    runs_lanes = place is not None and place.kind.is_parallel
    every = await leading_checkpoints(saver, origin.id) if runs_lanes else []
    messages = state.get("messages", [])
    return await _of_step(saver, every, origin, messages, messages)


async def _state_at(saver: ThreadSaver, saved: Saved) -> Written:
    """Return the state at a checkpoint, by channel; empty if the tree no longer has the lane."""
    try:
        state = await saver.state(saved.namespace, saved.id)
    except SaverError as error:
        if isinstance(error.__cause__, ValueError):
            return {}
        raise
    values: Written = state.values
    return values


async def _of_step(
    saver: ThreadSaver,
    every: Sequence[Saved],
    saved: Saved,
    messages: Sequence[BaseMessage],
    seen: Sequence[BaseMessage],
) -> Recovered:
    """Return the results of the step after a checkpoint.

    Args:
        saver: The saver of the thread.
        every: The checkpoints in which lanes are found.
        saved: The checkpoint.
        messages: The messages of the lane until then.
        seen: Those messages, after those of the lanes around it.
    """
    tree = saver.tree
    position, by_task = position_in(tree, saved), saved.writes
    if position is None or position["next"] is None:
        return Recovered([], [], [])
    ended = next((each for each in by_task.values() if "at" in (each.get("position") or {})), None)
    if ended is not None:
        recovered = _written(ended)
        return _joined(
            [recovered, _of_calls(tree, ended["position"], (), [*messages, *recovered.messages])]
        )
    place = _place(tree, position)
    if place is not None and place.kind.is_parallel:
        return await _of_lanes(saver, every, saved, place, seen)
    return _of_calls(tree, position, saved.results.values(), messages)


def _of_calls(
    tree: Tree,
    position: Position,
    returned: Iterable[Written],
    lane_messages: Sequence[BaseMessage],
) -> Recovered:
    """Return the results of tool calls, or a graph's messages; each open call gets a result."""
    with_messages = [each for each in returned if each[TAG] in _WITH_MESSAGES]
    results = {each["number"]: each for each in with_messages if "number" in each}
    place = _place(tree, position)
    at = address(place, as_cursor(position["cursor"])) if place else ""
    calls = _open_calls(place, position, at, lane_messages)
    messages: list[BaseMessage] = []
    for number in sorted({*results, *calls}):
        result = results.get(number)
        messages += result["messages"] if result else [_unfinished(calls[number], at)]
    messages = folded(messages)
    before = _before_inner(place, at, lane_messages)
    messages += [_unfinished(call, at) for call in unanswered([*before, *messages]).values() if at]
    return _joined(map(_written, results.values()))._replace(
        messages=in_call_order(messages), middleware=[]
    )


async def _of_lanes(
    saver: ThreadSaver,
    every: Sequence[Saved],
    saved: Saved,
    place: Place,
    seen: Sequence[BaseMessage],
) -> Recovered:
    """Return the results of lanes, in order; lanes that undo steps come after the steps."""
    tree = saver.tree
    in_order: list[tuple[tuple[int, int], Recovered]] = []
    results = {task: each for task, each in saved.results.items() if "finished" in each}
    ended = [*results.values()]
    for task, (lane, head) in _lanes(tree, every, saved, place).items():
        result = results.pop(task, None)
        position = head.position
        at = address_at(tree, head) or (position and position.get("at"))
        if not at or _is_rejected(result):  # it has not begun, or lost
            continue
        when = result["finished"] if result else _NEVER
        order = (1, when) if lane.undoes else (0, order_of(lane, at))
        came = _written(result) if result else await _of_lane(saver, every, head, seen)
        in_order.append((order, _leaving(place, came, seen, has_ended=result is not None)))
    in_order += [
        ((0, result["number"]), _leaving(place, _written(result), seen))
        for result in results.values()
        if not _is_rejected(result)
    ]
    by_number = {each["number"]: each for each in ended}
    if (joined := decided(by_number, first_wins=place.kind.first_wins)) is not None:  # the others lost
        came_in = (_leaving(place, _written(each), seen) for each in joined.values())
        return _without_local(saver, _joined(came_in))
    in_order.sort(key=lambda item: item[0])
    recovered = _without_local(saver, _joined(each for _, each in in_order))
    return recovered._replace(middleware=[]) if place in tree.called else recovered


def _is_rejected(result: Written | None) -> bool:
    return result is not None and not result.get("accepted", True)


def _without_local(saver: ThreadSaver, recovered: Recovered) -> Recovered:
    if not (local := saver.reducers.local):
        return recovered
    rest: list[Mapping[str, object]] = [
        {n: v for n, v in each.items() if n not in local} for each in recovered.values
    ]
    return recovered._replace(values=rest)


def _leaving(
    place: Place, came: Recovered, seen: Sequence[BaseMessage], *, has_ended: bool = True
) -> Recovered:
    """Return the writes that leave a lane of a node: of an item's lane some do not."""
    agent = cast(EachAgent, place.agent)
    if not place.kind.has_items:
        return came
    staying = staying_keys(agent)
    if not has_ended and agent.mode == "last":
        agent = replace(agent, output_mode="none")
    values = [{k: v for k, v in each.items() if k not in staying} for each in came.values]
    return Recovered(
        joining(agent, came.messages, {message.id for message in seen}),
        [each for each in values if each],
        [],
    )


async def _of_lane(
    saver: ThreadSaver,
    every: Sequence[Saved],
    head: Saved,
    around: Sequence[BaseMessage],
) -> Recovered:
    recovered = _written(await _state_at(saver, head))
    said = recovered.messages
    step = await _of_step(saver, every, head, said, [*around, *said])
    recovered = _joined([recovered, step])
    return recovered._replace(messages=folded(recovered.messages))


def _written(written: Written) -> Recovered:
    writes, changes = maps_in(written.get("values")), written.get("middleware")
    return Recovered([*(written.get("messages") or ())], writes, [changes] if changes else [])


def _joined(several: Iterable[Recovered]) -> Recovered:
    several = [*several]
    return Recovered(
        [message for recovered in several for message in recovered.messages],
        [write for recovered in several for write in recovered.values],
        [changes for recovered in several for changes in recovered.middleware],
    )


def _lanes(
    tree: Tree, every: Sequence[Saved], saved: Saved, place: Place
) -> dict[str, tuple[Place, Saved]]:
    """Return the lanes that ran in a step, with their last checkpoints, by the ids of their tasks."""
    lanes = {lane.node: lane for lane in tree.lanes(place)}
    outer, began = saved.namespace, saved.id
    heads: dict[str, tuple[Place, Saved]] = {}
    for each in every:
        inside = each.namespace.removeprefix(f"{outer}|" if outer else "").split("|")
        node, _, task = inside[-1].partition(":")
        if (
            len(inside) == _LANE_DEPTH
            and node in lanes
            and each.metadata.get("parents", {}).get(outer) == began
        ):
            heads.setdefault(task, (lanes[node], each))
    return heads


def _open_calls(
    place: Place | None, position: Position, at: str, messages: Sequence[BaseMessage]
) -> dict[int, object]:
    if place is None or not place.chat or position["next"] == place.node:
        return {}
    last = next(
        (
            i
            for i in range(len(messages))[::-1]
            if address_of(messages[i]) == at and calls_of(messages[i])
        ),
        None,
    )
    if last is None:
        return {}
    results = [each for each in messages[last:] if isinstance(each, ToolMessage)]
    first = (position.get("chat") or {}).get("tool_calls", 0)
    return {first + number: call for number, call in unanswered([messages[last], *results]).items()}


def _before_inner(
    place: Place | None, at: str, messages: Sequence[BaseMessage]
) -> Iterator[BaseMessage]:
    """Yield the messages of a flattened graph in the activation in which one of its nodes is next."""
    if place is not None and place.kind.is_inner:
        home = at.rpartition("/")[0]
        yield from (each for each in messages if (address_of(each) or "").rpartition("/")[0] == home)


def _unfinished(call: Any, at: str) -> BaseMessage:
    message = ToolMessage(UNFINISHED, name=call["name"], tool_call_id=call_id(call), status="error")
    return stamped(message, at)


def _place(tree: Tree, position: Position | None) -> Place | None:
    """Return the place whose node is next, if the tree has it and the cursor fits it."""
    place = place_of(tree, position)
    fits = place is not None and position and len(position["cursor"]) == len(place.counts)
    return place if fits else None
