"""The messages of a conversation as an AG-UI client stores them, during a run.

A client has its own messages, and adds streamed ones. AG-UI can only take messages back by a snapshot
of all remaining ones, so this module stores them.

A client identifies a call only by its id, while some providers repeat ids. So a call whose id is in
another message is sent under a new id, and its result names that id.
"""

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import accumulate, count

from ag_ui.core import (
    AssistantMessage,
    ContentPart,
    FunctionCall,
    Message,
    ReasoningMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)

OURS = "agentgraph"
"""The key of our data in the metadata of events, messages, calls and interrupts."""

REASONING = "-reasoning"
"""The suffix of the id of a message's reasoning, after the id of the message."""


@dataclass
class SentCall:
    """A tool call as it was sent: its name, and the pieces of its arguments."""

    id: str
    name: str
    pieces: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        """The arguments, as JSON text."""
        return "".join(self.pieces)


@dataclass
class SentMessage:
    """A message of an agent as it was sent.

    Attributes:
        id: Its id.
        role: "assistant", "user", "reasoning" or "tool".
        name: The agent that wrote it.
        metadata: Its origin; see `OURS`.
        pieces: The pieces of its text.
        calls: Its tool calls by id.
        answers: The id of the call whose result it is.
        content: The content of a result.
    """

    id: str
    role: str
    name: str | None
    metadata: dict[str, dict[str, object]]
    pieces: list[str] = field(default_factory=list)
    calls: dict[str, SentCall] = field(default_factory=dict)
    answers: str = ""
    content: str | list[ContentPart] = ""

    @property
    def text(self) -> str:
        """The text that was sent so far."""
        return "".join(self.pieces)

    def message(self) -> Message:
        """Return the message in AG-UI's form."""
        match self.role:
            case "tool":
                return ToolMessage(
                    id=self.id,
                    content=self.content,
                    tool_call_id=self.answers,
                    metadata=self.metadata,
                )
            case "reasoning":
                return ReasoningMessage(id=self.id, content=self.text, metadata=self.metadata)
            case "user":
                return UserMessage(
                    id=self.id, content=self.text, name=self.name, metadata=self.metadata or None
                )
        calls = [
            ToolCall(
                id=call.id,
                function=FunctionCall(name=call.name, arguments=call.arguments),
                metadata=self.metadata,
            )
            for call in self.calls.values()
        ]
        return AssistantMessage(
            id=self.id,
            name=self.name,
            content=self.text or (None if calls else ""),
            tool_calls=calls or None,
            metadata=self.metadata,
        )


class Conversation:
    """The messages, in the order of their arrival.

    Args:
        messages: The messages that the client sent.
    """

    def __init__(self, messages: Iterable[Message]) -> None:
        self._messages: dict[str, Message | SentMessage] = {each.id: each for each in messages}

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._messages

    def add(self, sent: SentMessage) -> SentMessage:
        """Add a message, or replace the one with its id."""
        self._messages[sent.id] = sent
        return sent

    def keep(self, message: Message) -> None:
        """Add a message of the client, or replace the one with its id."""
        self._messages[message.id] = message

    def call_id(self, message_id: str, label: str, before: Container[str] = ()) -> str:
        """Return the id under which a call is sent.

        Args:
            message_id: The id of its message.
            label: The provider's id of the call.
            before: The ids under which earlier calls of the message are sent.
        """
        others = (each for key, each in self._messages.items() if key != message_id)
        if label not in before and not any(label in _call_ids(each) for each in others):
            return label
        own = f"{label}-{message_id}"
        several = (f"{own}-{n}" if n else own for n in count())
        return next(each for each in several if each not in before)

    def sent_call(self, label: str, address: str) -> str:
        """Return the id under which the last call with a provider's id was sent at an address.

        Args:
            label: The provider's id of the call.
            address: The address of the agent, or of a node of a flattened graph.
        """
        return next(iter(self._sent_at(label, address)), label)

    def call_around(self, label: str, address: str) -> str:
        """Return the id under which the last such call was sent at an address or around it."""
        around = accumulate(address.split("/"), "{}/{}".format)
        several = (
            each for at in reversed([*around]) for each in self._sent_at(label, at, exactly=True)
        )
        return next(several, label)

    def open_call(self, label: str, address: str) -> str | None:
        """Return the id of the last such call without a result; None if all have results."""
        sent = self._sent_at(label, address)
        answered = {*map(_answered_by, self._messages.values())}
        return next((each for each in sent if each not in answered), None if sent else label)

    def _sent_at(self, label: str, address: str, *, exactly: bool = False) -> list[str]:
        around = address.rpartition("/")[0]
        exact, others = list[str](), list[str]()
        for key, message in reversed(self._messages.items()):
            at = _address_of(message)
            if at is not None and (at == address or at.rpartition("/")[0] == around):
                own = f"{label}-{key}"
                ids = [i for i in _call_ids(message) if i == label or i.startswith(own)]
                (exact if at == address else others).extend(ids)
        return exact if exactly else exact or others

    def remove(self, discarded: AbstractSet[str]) -> bool:
        """Remove the messages with a discarded id or step, and return whether there were any.

        The step of a message that an earlier run sent is in its metadata, which clients send back. The
        official client keeps reasoning that is missing in a snapshot, so reasoning stays without text.
        """
        gone = [
            (key, each)
            for key, each in self._messages.items()
            if not discarded.isdisjoint(_names(key, each)) and not _is_blank(each)
        ]
        for key, each in gone:
            if each.role == "reasoning":
                self._messages[key] = SentMessage(key, "reasoning", None, each.metadata or {})
            else:
                del self._messages[key]
        return bool(gone)

    def snapshot(self) -> list[Message]:
        """Return all messages, each result of a tool after the message that called it."""
        messages = [m.message() if isinstance(m, SentMessage) else m for m in self._messages.values()]
        owners = {call.id: m.id for m in messages for call in _calls(m)}
        results: dict[str, list[Message]] = {}
        for each in messages:
            if isinstance(each, ToolMessage) and each.tool_call_id in owners:
                results.setdefault(owners[each.tool_call_id], []).append(each)
        placed = {each.id for several in results.values() for each in several}
        return [
            each
            for message in messages
            if message.id not in placed
            for each in (message, *results.get(message.id, ()))
        ]


def _is_blank(message: Message | SentMessage) -> bool:
    if isinstance(message, SentMessage):
        return message.role == "reasoning" and not message.text
    return isinstance(message, ReasoningMessage) and not message.content


def _call_ids(message: Message | SentMessage) -> Collection[str]:
    return message.calls if isinstance(message, SentMessage) else [call.id for call in _calls(message)]


def _answered_by(message: Message | SentMessage) -> str:
    """Return the id of the call whose result a message is; empty for other messages."""
    if isinstance(message, SentMessage):
        return message.answers
    return message.tool_call_id if isinstance(message, ToolMessage) else ""


def _address_of(message: Message | SentMessage) -> str | None:
    owners: list[Message | SentMessage | ToolCall] = [message]
    owners += [] if isinstance(message, SentMessage) else _calls(message)
    for each in owners:
        ours = (each.metadata or {}).get(OURS)
        if isinstance(ours, dict) and isinstance(at := ours.get("address"), str):
            return at
    return None


def _calls(message: Message) -> Sequence[ToolCall]:
    return (message.tool_calls or ()) if isinstance(message, AssistantMessage) else ()


def _names(key: str, message: Message | SentMessage) -> Iterator[str]:
    """Yield the id of a message, that of the message of its reasoning, and its step."""
    yield key.removesuffix(REASONING)
    owners: list[Message | SentMessage | ToolCall] = [message]
    if not isinstance(message, SentMessage):
        owners += _calls(message)
    for each in owners:
        ours = (each.metadata or {}).get(OURS)
        if isinstance(ours, dict) and isinstance(step := ours.get("step"), str):
            yield step
