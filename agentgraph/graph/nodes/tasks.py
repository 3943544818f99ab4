"""The tasks that transfers carry: what a target sees in the place of the history, and for how long.

A transfer may say what the other agent has to do: `Command(goto=Send("bob", {...}))`, or the arguments
of a handoff tool. LangGraph passes such a payload to one run of one node. Here the target may take many
steps, pause, transfer to agents inside it, and get the run back. So the task is in the position of the
lane, and holds for the visit: as long as the next agent is the target or inside it.

The history itself does not change: other agents never see a task. Messages of the history that a task
names are saved as their ids, and values that the visit writes are written to the run, and to the task.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import eq
from typing import cast

from langchain_core.messages import BaseMessage, HumanMessage

from agentgraph.graph.copied_values import detached
from agentgraph.graph.history import REQUEST
from agentgraph.graph.lane_position import Position, Task
from agentgraph.graph.message_changes import with_id
from agentgraph.graph.nodes.context import RunState
from agentgraph.graph.values import Reducers, Write, is_same
from agentgraph.tree.addresses import Cursor, as_cursor, counts_around, places_to
from agentgraph.tree.places import Place, Tree


def with_tasks(state: RunState, tasks: Sequence[Task]) -> RunState:
    """Return the state that an agent sees that has tasks, the innermost last."""
    messages, values = state.messages, state.values
    for task in tasks:
        values = {**values, **state.reducers.all_typed(task.get("values", {}))}
        if "messages" in task:
            since = _messages_since(state.messages, task.get("since"))
            before = messages[: len(messages) - len(since)] if task.get("is_added") else ()
            messages = [*before, *_whole(task["messages"], state.messages), *since]
    return replace(state, messages=messages, values=values)


def task_of(
    messages: Sequence[BaseMessage] | None,
    values: Mapping[str, object],
    seen: RunState,
    *,
    is_added: bool = False,
) -> Task:
    """Return the task of a transfer: without the values, and the messages, that the state has.

    Args:
        messages: The messages that the target sees in the place of the history; None if it sees that.
        values: The values that it sees.
        seen: The state of the agent that transfers.
        is_added: Whether the target sees the history before the messages.
    """
    known = {message.id: message for message in seen.messages if message.id}
    new = {k: v for k, v in values.items() if not (k in seen.values and is_same(v, seen.values[k]))}
    task = Task(values=detached(new))
    if messages is not None:
        task["messages"] = [
            str(each.id) if is_same(known.get(str(each.id)), each) else detached(each)
            for each in messages
        ]
    if is_added:
        task["is_added"] = True
    return task


def request_of(text: str, made_of: str) -> HumanMessage:
    """Return the message of a user that asks an agent what a call wants; its id is made of a text."""
    return with_id(HumanMessage(text, additional_kwargs={REQUEST: True}), made_of)


def new_task(task: Task, place: Place, target: Place, seen: RunState) -> Task:
    """Return a task of a visit that begins next.

    Args:
        task: The task.
        place: The place that transfers.
        target: The place to which it does.
        seen: The state before the visit, with what this step says.
    """
    since = seen.messages[-1].id if seen.messages else None
    is_back = target in places_to(place)
    return {**task, "to": target.node, "since": since, **({"is_back": True} if is_back else {})}


def lasting(
    tree: Tree,
    tasks: Sequence[Task],
    before: Cursor,
    position: Position,
    writes: Sequence[Write],
    reducers: Reducers,
) -> list[Task]:
    """Return the tasks whose visits continue at a position.

    Args:
        tree: The tree.
        tasks: The tasks of an activation.
        before: Its counters.
        position: The position after it.
        writes: The values that it wrote.
        reducers: How values are merged.
    """
    place, cursor = tree.by_node.get(position["next"] or ""), as_cursor(position["cursor"])
    return [
        written(task, writes, reducers)
        for task in tasks
        if place is not None and _lasts(task, place, before, cursor)
    ]


def _lasts(task: Task, place: Place, before: Cursor, cursor: Cursor) -> bool:
    """Return whether a visit continues at a place: that of the target, or inside it.

    Counters of transfers only grow in it, or are cut back where a check sends the target back.
    """
    target = next((each for each in places_to(place) if each.node == task["to"]), None)
    if target is None or (task.get("is_back") and place.home is not target):
        return False
    counts = counts_around(target)
    pairs = zip(counts, before, cursor, strict=False)
    return all(
        all(map(eq, was, now)) if count.kind == "transfers" else was == now for count, was, now in pairs
    )


def written(task: Task, writes: Sequence[Write], reducers: Reducers) -> Task:
    """Return a task whose values are those after writes."""
    values = reducers.all_typed(task.get("values", {}))
    own = [{k: v for k, v in each["values"].items() if k in values} for each in writes]
    if not any(own):
        return task
    merged = reducers.applied(values, [Write(by="", values=each) for each in own])
    return {**task, "values": {name: merged[name] for name in values if name in merged}}


def _messages_since(messages: Sequence[BaseMessage], last: str | None) -> Sequence[BaseMessage]:
    if last is None:
        return messages
    for at in reversed(range(len(messages))):
        if messages[at].id == last:
            return messages[at + 1 :]
    return messages


def _whole(messages: Sequence[BaseMessage | str], history: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages of a task, those that it only names as the history has them."""
    if not any(isinstance(each, str) for each in messages):
        return cast(list[BaseMessage], [*messages])
    known = {message.id: message for message in history}
    found = [known.get(each) if isinstance(each, str) else each for each in messages]
    return [each for each in found if each is not None]
