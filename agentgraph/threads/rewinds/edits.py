"""The changes of a rewind before a visit: messages that are added, or that replace others.

A message under the id of one that is there takes its place, in the history of the lane that has that
one: the lane of the visit, or one around it. It has the agent and the address of the old one, and is
emitted at the number that it gets here; the old one is discarded from then on. It is a write of no task
at the checkpoint from which the lane's step on the way to the visit begins; if the message belongs to a
step of a workflow that the visit depends on, it is in the result of that step. A replay needs no more
than the message, whose stamp says that it is edited (`journal/replay.py: entries_at`).

A later rewind to the same visit preserves a message that replaced another: it came before the visit.
Messages and values that were added for one visit are not preserved.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple
from uuid import uuid4

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from agentgraph.errors import AgentGraphError
from agentgraph.graph.message_changes import with_id
from agentgraph.graph.paired_calls import call_id, calls_of
from agentgraph.graph.stamps import (
    STAMP,
    Note,
    address_of,
    edited_stamp,
    is_edited,
    now,
    number_of,
    step_name,
)
from agentgraph.graph.values import is_same
from agentgraph.journal.entries import entries_at
from agentgraph.journal.saved import NO_TASK, Saved
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.reports.visits import FoundVisit
from agentgraph.safe_repr import shown
from agentgraph.threads.rewinds.copied_steps import CopiedStep
from agentgraph.threads.rewinds.new_line import NewLine

Written = Mapping[str, Sequence[BaseMessage]]
"""The messages that take the place of others, by the checkpoint or the task that has those."""


class Edits(NamedTuple):
    """The treatment of the messages of a rewind.

    Attributes:
        added: Messages of the user that are added before the visit.
        placed: Those that take the place of others.
        discarded: The ids of the messages that they discard, without those of earlier rewinds.
        first_number: The number of the first of them that is emitted; None if none is.
    """

    added: Sequence[BaseMessage] = ()
    placed: Written = MappingProxyType({})
    discarded: Sequence[str] = ()
    first_number: int | None = None


class _Present(NamedTuple):
    """A message that is there before a visit.

    Attributes:
        message: The message.
        saved: The checkpoint from which the step on the way begins before which it is there.
        where: The id of that, if its lane has the message; or of the task whose result has it.
    """

    message: BaseMessage
    saved: Saved
    where: str


async def edits_of(
    saver: ThreadSaver, target: FoundVisit, line: NewLine, last: int, given: Sequence[BaseMessage]
) -> Edits:
    """Return the treatment of the messages of a rewind, and of those of rewinds before it.

    Args:
        saver: The thread.
        target: The visit.
        line: The new line.
        last: The number of the last event on the thread.
        given: The messages.

    Raises:
        AgentGraphError: One can neither be added nor take the place of another.
    """
    route = line.route()
    placed = {str(saved.id): _placed_at(saved) for saved in route}
    if not any(each.id for each in given):
        new = [with_id(each, str(uuid4())) for each in given if _check_new(saver, each)]
        return Edits(new, _lists(placed))
    present: dict[str, _Present] = {}
    for saved, *rest in (route[i:] for i in range(len(route))):
        own_id = str(saved.id)
        state = await saver.state(saved.namespace, own_id)
        present |= {str(m.id): _Present(m, saved, own_id) for m in state.values.get("messages", [])}
        present |= {key: _Present(m, saved, own_id) for key, m in placed[own_id].items()}
        present |= {str(m.id): _Present(m, saved, task) for task, m in _needed(line, saved, rest)}
    added: list[BaseMessage] = []
    discarded: list[str] = []
    entries = (
        entry for saved in [*target.present.every, *target.story.every] for entry in entries_at(saved)
    )
    number = max([last, now(), *map(number_of, entries)])
    for message in given:
        was = present.get(str(message.id)) if message.id else None
        if was is None:
            _check_not_later(saver, target, message)
            _check_new(saver, message)
            added.append(with_id(message, str(uuid4())))
        elif not _is_same(message, was.message):
            _check_like(saver, message, was.message)
            _check_calls(saver, message, was.message, present.values())
            number += 2  # the number between is that of the event that discards the old one
            began = line.new_id(str(was.saved.id))
            step = step_name(began, was.saved.next_node or "")
            edited = _in_place(message, was.message, number, step)
            placed.setdefault(was.where, {})[str(message.id)] = edited
            discarded += [str(message.id)] if address_of(edited) is not None else []
    several = _lists(placed)
    emitted = (each for messages in several.values() for each in messages if each.id in discarded)
    return Edits(added, several, discarded, min(map(number_of, emitted), default=None))


def has_edits(every: Iterable[Saved]) -> bool:
    """Return whether a rewind put a message in the place of another in the steps after checkpoints."""
    entries = (entry for saved in every for entry in entries_at(saved))
    return any(not isinstance(each, Note) and is_edited(each) for each in entries)


def _placed_at(saved: Saved) -> dict[str, BaseMessage]:
    written = saved.writes.get(NO_TASK, {}).get("messages")
    return {str(each.id): each for each in written} if isinstance(written, list) else {}


def _needed(line: NewLine, saved: Saved, route: Sequence[Saved]) -> Iterator[tuple[str, BaseMessage]]:
    """Yield the messages that tasks of a step have given on which the visit depends, with the task."""
    place = line.tree.by_node.get(saved.next_node or "")
    if place is not None and (route or line.agent_step.task is not None):
        for task in CopiedStep(line, saved, place).needed(route):
            yield from ((task.id, each) for each in task.result["messages"])


def _lists(placed: Mapping[str, Mapping[str, BaseMessage]]) -> dict[str, list[BaseMessage]]:
    return {where: [*messages.values()] for where, messages in placed.items() if messages}


def _in_place(message: BaseMessage, was: BaseMessage, number: int, step: str) -> BaseMessage:
    """Return a message as it takes the place of another: said by who said that, at that address."""
    marks = {**was.additional_kwargs, **message.additional_kwargs}
    changes: dict[str, object] = {"additional_kwargs": marks}
    if (stamp := edited_stamp(was, number, step)) is not None:
        metadata = {**message.response_metadata, STAMP: stamp}
        changes |= {"name": was.name, "response_metadata": metadata}
    return message.model_copy(update=changes)


def _is_same(message: BaseMessage, was: BaseMessage) -> bool:
    """Return whether a message is the one that is there: it says the same."""
    metadata = {key: value for key, value in was.response_metadata.items() if key != STAMP}
    return is_same(message, was.model_copy(update={"response_metadata": metadata}))


def _check_like(saver: ThreadSaver, message: BaseMessage, was: BaseMessage) -> None:
    is_other_call = isinstance(message, ToolMessage) and (
        message.tool_call_id != getattr(was, "tool_call_id", None)
    )
    if message.type == was.type and not is_other_call:
        return
    kind = "result of another call" if is_other_call else f"message of type {was.type!r}"
    raise AgentGraphError(
        f"thread {shown(saver.thread_id)}: messages= has {shown(message)} under the id of a {kind}; "
        "pass the message that is there, with other content"
    )


def _check_calls(
    saver: ThreadSaver, message: BaseMessage, was: BaseMessage, present: Iterable[_Present]
) -> None:
    results = (each.message for each in present if isinstance(each.message, ToolMessage))
    answered = {each.tool_call_id for each in results}
    lost = {call_id(each) for each in calls_of(was)} & answered - {*map(call_id, calls_of(message))}
    if lost:
        raise AgentGraphError(
            f"thread {shown(saver.thread_id)}: the message {shown(message.id)} in messages= is without "
            f"the call {shown(min(lost))}, whose result is there; "
            "keep it, or go back to before the result"
        )


def _check_not_later(saver: ThreadSaver, target: FoundVisit, message: BaseMessage) -> None:
    """Refuse a message under the id of one that is on the thread, but not before the visit."""
    every = [*target.present.every, *target.story.every] if message.id else []
    ids = {entry.id for saved in every for entry in entries_at(saved)}
    ids |= {each.id for saved in every for each in _written_by_users(saved)}
    if message.id and message.id in ids:
        raise AgentGraphError(
            f"thread {shown(saver.thread_id)}: the message {shown(message.id)} in messages= is not "
            f"before {target.agent_step.visit.address}, or not in what is seen there; go back to what "
            "comes after it, or leave it out"
        )


def _written_by_users(saved: Saved) -> Iterator[BaseMessage]:
    for writes in saved.writes.values():
        if "outline" in (writes.get("position") or {}):
            yield from writes.get("messages") or ()


def _check_new(saver: ThreadSaver, message: BaseMessage) -> bool:
    """Refuse a message that cannot be added: only one of the user can."""
    if isinstance(message, HumanMessage):
        return True
    raise AgentGraphError(
        f"thread {shown(saver.thread_id)}: messages= has {shown(message)}, which is not a message of "
        "the user, and no message before the visit has its id; pass a message of the user, or one of "
        "the thread with other content"
    )
