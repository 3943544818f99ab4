"""The messages of a LangGraph graph: compares the list in its state with those that were emitted.

A LangGraph graph does not say which messages its agent said. It only shows, after each step, the list
of messages in its state; middleware may have replaced, removed or summarized any of them. The history
of the run must not follow that list: it has all messages and all finished work, even if the graph
removes them to save context. So each list is compared with the messages so far (`MessageLog`). The
rules are those for hooks in `effects.py`, except that earlier messages of this agent never change, as
those of others. (In a flattened graph they may.) A removal of all messages takes nothing back, because
it is not by id.

For example, after `Hm.`, a call and its result, a node removes all three by id and adds a summary as a
human message: `Hm.` is discarded, the call and its result stay in the history, the summary is context.

The list is there when a step of the graph has ended. A result of a call is said before, when its tool
ends: the others of the step may take long, or ask. So results are said in the order of their ends, and
in the history they are in the order of the graph's lists.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import (
    BaseMessage,
    RemoveMessage,
    ToolMessage,
    convert_to_messages,
)

from agentgraph.graph.effects import MessageChange, Owner, answered_in, change_by, must_not_replace
from agentgraph.graph.message_changes import is_remove_all, with_id
from agentgraph.graph.paired_calls import call_id, calls_of, in_call_order
from agentgraph.graph.stamps import address_of
from agentgraph.graph.values import is_same


class MessageLog:
    """The messages of a graph so far, to compare the next list with.

    In the history a message may have another id than in the graph: see `Replies`. So a message is known
    by the id that it has in the history, and `ids` has that of each id in the graph that differs.

    Attributes:
        said: The messages of the agent by id, as they were said.
        rewritten: The user's messages that the graph replaced, by id.
        ids: The ids that messages have in the history, by those that they have in the graph.
        is_taken: Returns whether another message has an id, or may get it.
    """

    def __init__(
        self,
        address: str,
        inputs: Sequence[BaseMessage],
        users: Iterable[BaseMessage] = (),
        before: Iterable[BaseMessage] = (),
    ) -> None:
        """Make an empty log.

        Args:
            address: The address of the agent.
            inputs: The input messages of the graph, each with an id.
            users: The user's messages that may be replaced.
            before: All messages in the history.
        """
        self.said: dict[str, BaseMessage] = {}
        self.rewritten: dict[str, BaseMessage] = {}
        self.ids: dict[str, str] = {}
        self.is_taken: Callable[[str], bool] = lambda _: False
        self._address = address
        self._inputs = {message.id: message for message in inputs}
        self._users = {each.id for each in users if is_same(self._inputs.get(each.id), each)}
        self._history = {message.id: message for message in before}
        self._known: dict[str | None, BaseMessage] = {}
        self._ever: set[str] = set()
        self._settled: dict[str, BaseMessage] = {}
        self._results: dict[str, str | None] = {}
        self._listed: dict[str | None, int] = {}

    def add_known(self, messages: Iterable[BaseMessage]) -> None:
        """Take messages that the graph had before."""
        self._known.update({each.id: each for each in messages})

    def take(self, messages: Iterable[BaseMessage], ids: Mapping[str, str] | None = None) -> None:
        """Apply the messages of a change, and the ids that they have in the graph."""
        self.ids.update(ids or {})
        for message in messages:
            key = str(message.id)
            if isinstance(message, RemoveMessage):
                self.said.pop(key, None)
            elif address_of(message) is None:
                self.rewritten[key] = message
            else:
                self.said[key] = message
                self._ever.add(key)
                self._results |= dict.fromkeys(map(call_id, calls_of(message)))
                if isinstance(message, ToolMessage):
                    self._results[message.tool_call_id] = key
            self._settled.pop(key, None)

    def restart(self) -> Iterator[MessageChange]:
        """Void all messages of the agent: the graph starts again from its input."""
        self.rewritten.clear()
        self._results.clear()
        self._listed.clear()
        if discarded := list(self.said):
            yield MessageChange("taken back", [RemoveMessage(id=each) for each in discarded], discarded)

    def in_order(self) -> list[BaseMessage]:
        """Return the messages of the agent in the order of the graph's lists.

        Results that are in none of them, as they were removed in their step, are in that of the calls.
        """
        messages = in_call_order(self.said.values())
        listed = [message for message in messages if message.id in self._listed]
        rest = iter(sorted(listed, key=lambda message: self._listed[message.id]))
        return [next(rest) if message.id in self._listed else message for message in messages]

    def results(
        self, written: Iterable[BaseMessage], removed: Collection[str]
    ) -> Iterator[MessageChange]:
        """Apply and yield the results, among messages that a node wrote, of calls that are said.

        Args:
            written: The messages.
            removed: The ids of messages that were removed by id since the last list.
        """
        for message in written:
            if isinstance(message, ToolMessage) and (key := message.id):
                is_open = self._results.get(message.tool_call_id, "") is None
                if is_open and key not in removed and not self._is_known(key, message):
                    yield from self._changed(key, message)

    def changes(
        self,
        messages: Sequence[BaseMessage],
        removed: Collection[str] = (),
        written: Iterable[BaseMessage] = (),
    ) -> Iterator[MessageChange]:
        """Apply and yield the changes since the last list.

        Args:
            messages: The messages that the graph has now, each with an id.
            removed: The ids of messages that were removed by id since the last list.
            written: The messages written by its nodes since; a removal of all in the same step may have
                dropped them from the list.
        """
        ids = {message.id for message in messages}
        for message in messages:
            key = str(message.id)
            if self._settled.get(key) is not message:
                yield from self._repeated(key, message, ids)
                yield from self._changed(key, message)
                self._listed.setdefault(self._history_id(key), len(self._listed))
                self._settled[key] = message
        for message in written:
            key = str(message.id)
            known = (ids, removed, self._ever)
            if message.id and not any(key in each or self._history_id(key) in each for each in known):
                yield from self._changed(key, message)
        for key in removed:
            if key not in ids:
                yield from self._changed(key, RemoveMessage(id=self._history_id(key)))

    def _history_id(self, key: str) -> str:
        return self.ids.get(key, key)

    def _is_known(self, key: str, message: BaseMessage) -> bool:
        return self._history_id(key) in self._ever or self._is_of_others(key, message)

    def _changed(self, key: str, message: BaseMessage) -> Iterator[MessageChange]:
        own = self._history_id(key)
        was = self.said.get(own) or self.rewritten.get(key) or self._inputs.get(key)
        owner: Owner = "none"
        if own in self.said or key in self._users:
            owner = "here" if own in self.said else "user"
        elif self._is_of_others(key, message):
            owner = "other"
        if own != key and not isinstance(message, RemoveMessage):
            message = message.model_copy(update={"id": own})
        answered = answered_in(was, [*self.said.values()]) if was is not None else ()
        is_taken = owner == "none" and own not in self._ever and self.is_taken(own)
        change = change_by(
            message, was, owner, "hook", self._address, "", is_taken=is_taken, answered=answered
        )
        if change.effect == "said":
            said_as = str(change.messages[0].id)
            if said_as != key:
                self.ids[key] = said_as
            if said_as in self._ever:
                change.discarded.append(said_as)
        if change.messages:
            yield change

    def _is_of_others(self, key: str, message: BaseMessage) -> bool:
        """Return whether a message is one that the graph had before, or hands back as it was."""
        was = self._inputs.get(key) or self._known.get(key)
        if was is None:
            was = self._history.get(key)
            return was is not None and was.type == message.type and was.content == message.content
        return not must_not_replace(message, was)

    def _repeated(
        self, key: str, message: BaseMessage, ids: Collection[str | None]
    ) -> Iterator[MessageChange]:
        """Void the result of a call that ran again: a kill had lost it in the graph's own state."""
        if isinstance(message, ToolMessage) and not self._is_known(key, message):
            lost = self._results.get(message.tool_call_id)
            if lost is not None and lost not in {*map(self._history_id, map(str, ids)), *self._listed}:
                yield MessageChange("taken back", [RemoveMessage(id=lost)], [lost])


def written_in(update: object) -> Iterator[BaseMessage]:
    """Yield the messages of an update of a graph's state."""
    for several in _messages_of(update):
        yield from (each for each in several if isinstance(each, BaseMessage))


def removed_in(update: object) -> Iterator[str]:
    """Yield the ids of the messages that an update of a graph's state removes by id.

    A removal of all messages yields none: the graph only forgets them.

    >>> list(removed_in({"messages": [RemoveMessage(id="1")]}))
    ['1']
    """
    for several in _messages_of(update):
        if not any(map(is_remove_all, several)):
            yield from (_id_of(each) for each in several if _is_removal(each))


def _messages_of(update: object) -> Iterator[Sequence[object]]:
    if isinstance(update, Mapping) and "messages" in update:
        value = update["messages"]
        yield value if isinstance(value, list | tuple) else [value]
    elif isinstance(update, list | tuple):
        for each in update:
            yield from _messages_of(each)


def _is_removal(message: object) -> bool:
    if isinstance(message, Mapping):
        return message.get("type") == "remove"
    return isinstance(message, RemoveMessage)


def _id_of(message: Any) -> str:
    return str(message["id"] if isinstance(message, Mapping) else message.id)


def as_messages(messages: Any, made_of: str) -> list[BaseMessage]:
    """Return messages given in any form, each with an id; generated ids are the same each time."""
    return [with_id(each, f"{made_of} {i}") for i, each in enumerate(convert_to_messages(messages))]
