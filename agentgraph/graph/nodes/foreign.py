"""What becomes of the messages of a LangGraph graph that runs as an agent: one change at a time.

A graph is seen from outside: after each step its state has some list of messages, and middleware may
have replaced, removed or summarized any of them. The history is not that list. It has what was said,
and what ran, however little of it the graph still keeps. So each list is compared with what was told
before, by these rules:

- a message under a new id is said, unless it is a user's or a system message: that is context;
- a message that the agent said and that is another one now, under its id, is void, and said as it is;
- a message that was removed by its id (not with all others) is void, if it is a word that the agent
  said: an AI message without calls. All else that is gone is only forgotten by the graph;
- a message of the user's that was replaced under its id is replaced for all, and not told;
- what other agents said, and this one earlier, stays as it is.

Each change is a list of messages as LangGraph's reducer takes them, so that what is kept of changes
one after the other says all: also to a resume, which sees only the last list of the graph.

Pure: what changes is kept elsewhere.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    convert_to_messages,
)

from agentgraph.graph.comparing import is_same
from agentgraph.graph.history import calls_of
from agentgraph.graph.state import address_of, is_remove_all, stamped, with_id

M = TypeVar("M", bound=BaseMessage)


class Change(NamedTuple):
    """One change.

    Attributes:
        messages: Messages that are said, with a stamp; those of the user's that are replaced, without;
            and removals of what was said.
        void: The ids of what was told before and is void.
    """

    messages: list[BaseMessage]
    void: list[str]


class Told:
    """What became of a graph's messages so far.

    Attributes:
        said: What the agent said, by id, in order.
        rewritten: What the user said, as it is now, by id, where the graph replaced it.
    """

    def __init__(
        self,
        address: str,
        given: Sequence[BaseMessage],
        users: Iterable[BaseMessage] = (),
        before: Collection[str | None] = (),
    ) -> None:
        """Begin with nothing told.

        Args:
            address: The address of the agent.
            given: The messages that the graph was given, each with an id.
            users: The messages of the user's that may be replaced.
            before: The ids of all that was in the history before.
        """
        self.said: dict[str, BaseMessage] = {}
        self.rewritten: dict[str, BaseMessage] = {}
        self._address = address
        self._given = {message.id: message for message in given}
        self._users = {each.id for each in users if is_same(self._given.get(each.id), each)}
        self._before = {*before, *self._given}
        self._ever: set[str] = set()
        self._settled: dict[str, BaseMessage] = {}

    def take(self, messages: Iterable[BaseMessage]) -> None:
        """Take the messages of a change."""
        for message in messages:
            key = str(message.id)
            if isinstance(message, RemoveMessage):
                self.said.pop(key, None)
            elif address_of(message) is None:
                self.rewritten[key] = message
            else:
                self.said[key] = message
                self._ever.add(key)
            self._settled.pop(key, None)

    def begin_anew(self) -> Iterator[Change]:
        """Take back all that was said: the graph begins again with what it was given."""
        self.rewritten.clear()
        if void := list(self.said):
            yield self._taken([RemoveMessage(id=each) for each in void], void)

    def changes(
        self,
        messages: Sequence[BaseMessage],
        removed: Collection[str] = (),
        written: Iterable[BaseMessage] = (),
    ) -> Iterator[Change]:
        """Yield what changed, each change as it is taken.

        Args:
            messages: The messages that the graph has now, each with an id.
            removed: The ids of those that it removed by their ids since the last time.
            written: What its nodes wrote since: a removal of all beside it leaves nothing of it.
        """
        for message in messages:
            key = str(message.id)
            if self._settled.get(key) is not message:
                yield from self._changed(key, message)
                self._settled[key] = message
        left = {message.id for message in messages}
        for message in written:
            key = str(message.id)
            if message.id and not any(key in known for known in (left, removed, self._ever)):
                yield from self._changed(key, message)
        for key in removed:
            if key not in left and is_word(self.said.get(key)):
                yield self._taken([RemoveMessage(id=key)], [key])

    def _changed(self, key: str, message: BaseMessage) -> Iterator[Change]:
        if key in self.said:
            now = stamped(message, self._address)
            if not is_same(stamped(self.said[key], self._address), now):
                yield self._taken([now], [key])
        elif key in self._before:
            if key in self._users and self._is_rewritten(key, message):
                yield self._taken([message], [])
        elif is_said(message):
            yield self._taken([stamped(message, self._address)], [key] if key in self._ever else [])

    def _is_rewritten(self, key: str, message: BaseMessage) -> bool:
        was = self.rewritten.get(key, self._given.get(key))
        is_users = isinstance(message, HumanMessage) and address_of(message) is None
        return is_users and was is not None and not is_same(was, message)

    def _taken(self, messages: list[Any], void: list[str]) -> Change:
        self.take(messages)
        return Change(messages, void)


def is_said(message: BaseMessage) -> bool:
    """Tell whether a new message is said: not context, as a summary is that the user seems to say."""
    is_context = isinstance(message, HumanMessage | SystemMessage | RemoveMessage)
    return not is_context or address_of(message) is not None


def is_word(message: BaseMessage | None) -> bool:
    """Tell whether a message can be taken back: what a model said, without calls. What ran cannot."""
    return isinstance(message, AIMessage) and not calls_of(message)


def written_in(update: Any) -> Iterator[BaseMessage]:
    """Yield the messages of an update of a graph's state."""
    for several in _given_in(update):
        yield from (each for each in several if isinstance(each, BaseMessage))


def removed_in(update: Any) -> Iterator[str]:
    """Yield the ids of the messages that an update of a graph's state removes by their ids.

    One that removes all names none: what it leaves out is forgotten.

    >>> list(removed_in({"messages": [RemoveMessage(id="1")]}))
    ['1']
    """
    for several in _given_in(update):
        if not any(map(is_remove_all, several)):
            yield from (_id_of(each) for each in several if _is_removal(each))


def _given_in(update: Any) -> Iterator[Sequence[Any]]:
    """Yield what an update, or each of several, has as messages."""
    if isinstance(update, Mapping) and "messages" in update:
        given = update["messages"]
        yield given if isinstance(given, list | tuple) else [given]
    elif isinstance(update, list | tuple):
        for each in update:
            yield from _given_in(each)


def _is_removal(message: Any) -> bool:
    is_dict = isinstance(message, Mapping)
    return message.get("type") == "remove" if is_dict else isinstance(message, RemoveMessage)


def _id_of(message: Any) -> str:
    return str(message["id"] if isinstance(message, Mapping) else message.id)


def as_messages(given: Any, made_of: str) -> list[BaseMessage]:
    """Return messages in any form, each with an id; made-up ids are the same each time."""
    return [with_id(each, f"{made_of} {i}") for i, each in enumerate(convert_to_messages(given))]


def folded(messages: Iterable[M]) -> list[M]:
    """Return messages with each replaced by a later one of its id, and without those removed.

    >>> told = [AIMessage("One", id="1"), AIMessage("Two", id="2"), RemoveMessage(id="1")]
    >>> [message.text for message in folded(told)]
    ['Two']
    """
    left: dict[Any, M] = {}
    for i, message in enumerate(messages):
        key = message.id or i
        if isinstance(message, RemoveMessage) and key in left:
            del left[key]
        else:
            left[key] = message
    return list(left.values())
