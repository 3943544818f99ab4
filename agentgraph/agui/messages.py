"""Messages as AG-UI events: streamed in chunks, or at once."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ag_ui.core import (
    AudioPart,
    BaseEvent,
    ContentPart,
    CustomEvent,
    DataSource,
    DocumentPart,
    FileSource,
    ImagePart,
    MessagesSnapshotEvent,
    PartSource,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TextPart,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    UrlSource,
    VideoPart,
)
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    ToolCall,
    ToolCallChunk,
    ToolMessage,
)

from agentgraph.agui.conversation import OURS, REASONING, Conversation, SentCall, SentMessage
from agentgraph.agui.plain import plain, plain_text
from agentgraph.events.events import AgentEvent

Events = Iterator[BaseEvent]

_PARTS: dict[str, type[ImagePart | AudioPart | VideoPart | DocumentPart]] = {
    "image": ImagePart,
    "audio": AudioPart,
    "video": VideoPart,
    "file": DocumentPart,
}
"""AG-UI's parts by the types of LangChain's content blocks."""


class _Open:
    def __init__(self, sent: SentMessage) -> None:
        self.sent = sent
        self.has_text = False
        self.reasoning: SentMessage | None = None
        self.is_thinking = False
        self.by_index: dict[object, SentCall | None] = {}
        self.last: SentCall | None = None
        self.calls: dict[str, SentCall] = {}


class Messages:
    """Emits messages, and stores the client's conversation."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._open: dict[str, _Open] = {}

    def chunk(self, event: AgentEvent, message: BaseMessage) -> Events:
        """Yield the events of a chunk."""
        is_known = event.id in self._conversation and event.id not in self._open
        if is_known or not isinstance(message, AIMessageChunk):
            return
        for thought in _thoughts(message):
            yield from self._think(event, thought)
        if text := str(message.text):
            yield from self._emit_text(event, text)
        for piece in message.tool_call_chunks:
            yield from self._call_piece(event, piece)

    def whole(self, event: AgentEvent, message: BaseMessage) -> Events:
        """Yield the remaining events of a message, and close it."""
        if isinstance(message, ToolMessage):
            yield from self._result(event, message)
        elif isinstance(message, AIMessage):
            yield from self._reply(event, message)
        elif event.id not in self._conversation:
            role = "user" if isinstance(message, HumanMessage) else "assistant"
            yield from self._emit_text(event, event.text, role)
            yield from self._close(event.id)

    def end(self) -> Events:
        """Close all open messages."""
        for message_id in [*self._open]:
            yield from self._close(message_id)

    def discard(self, names: frozenset[str]) -> Events:
        """Take back the messages with one of these ids or steps."""
        if self._conversation.remove(names):
            for message_id in [key for key in self._open if key not in self._conversation]:
                yield from self._close(message_id)
            yield self.snapshot()

    def snapshot(self) -> MessagesSnapshotEvent:
        """Return all messages of the conversation."""
        return MessagesSnapshotEvent(messages=self._conversation.snapshot())

    def _reply(self, event: AgentEvent, message: AIMessage) -> Events:
        if event.id in self._conversation and event.id not in self._open:
            return
        opened = self._open.get(event.id)
        if opened is None or opened.reasoning is None:
            for thought in _thoughts(message):
                yield from self._think(event, thought)
        opened = self._of(event)
        calls = self._calls_of(event.id, message)
        text, before = plain_text(message.text), opened.sent.text
        is_more = text.startswith(before) and text != before
        if is_more or not (opened.has_text or calls):
            yield from self._emit_text(event, text[len(before) :])
        for call_id, name, arguments in calls:
            yield from self._call(event, call_id, name, arguments)
        yield from self._close(event.id)
        if self._corrected(opened.sent, text, calls):
            yield self.snapshot()
        blocks = [each for each in _blocks(message) if each.get("type") in _PARTS]
        if blocks:
            value = {"message_id": event.id, "content": plain(blocks)}
            yield CustomEvent(name="agentgraph.content", value=value, metadata=metadata_of(event))

    def _corrected(self, sent: SentMessage, text: str, calls: list[tuple[str, str, str]]) -> bool:
        right = {call_id: SentCall(call_id, name, [args]) for call_id, name, args in calls}
        is_same = sent.text == text and sent.calls.keys() == right.keys()
        if is_same and all(_are_equal(sent.calls[key], right[key]) for key in right):
            return False
        sent.pieces, sent.calls = [text], right
        return True

    def _result(self, event: AgentEvent, message: ToolMessage) -> Events:
        answers = self._conversation.open_call(message.tool_call_id, event.address)
        if event.id in self._conversation or answers is None:
            return
        sent = SentMessage(event.id, "tool", event.agent_name, metadata_of(event))
        sent.answers = answers
        sent.metadata[OURS]["status"] = message.status
        sent.content = _content(message)
        self._conversation.add(sent)
        yield ToolCallResultEvent(
            message_id=sent.id,
            tool_call_id=sent.answers,
            content=sent.content,
            role="tool",
            timestamp=time_of(event),
            metadata=sent.metadata,
        )

    def _of(self, event: AgentEvent, role: str = "assistant") -> _Open:
        """Return the open message of an event; open it if it is new."""
        if event.id not in self._open:
            sent = SentMessage(event.id, role, event.agent_name, metadata_of(event))
            self._open[event.id] = _Open(self._conversation.add(sent))
        return self._open[event.id]

    def _emit_text(self, event: AgentEvent, text: str, role: str = "assistant") -> Events:
        yield from self._stop_thinking(event.id)
        opened = self._of(event, role)
        if not opened.has_text:
            opened.has_text = True
            yield TextMessageStartEvent(
                message_id=event.id,
                role="user" if role == "user" else "assistant",
                name=event.agent_name,
                timestamp=time_of(event),
                metadata=opened.sent.metadata,
            )
        if text := plain_text(text):
            opened.sent.pieces.append(text)
            yield TextMessageContentEvent(message_id=event.id, delta=text)

    def _think(self, event: AgentEvent, thought: str) -> Events:
        opened = self._of(event)
        key = event.id + REASONING
        if not opened.is_thinking:
            opened.is_thinking = True
            yield ReasoningStartEvent(message_id=key, timestamp=time_of(event))
            yield ReasoningMessageStartEvent(message_id=key, metadata=opened.sent.metadata)
            if opened.reasoning is None:
                sent = SentMessage(key, "reasoning", event.agent_name, opened.sent.metadata)
                opened.reasoning = self._conversation.add(sent)
        if opened.reasoning is not None:
            opened.reasoning.pieces.append(plain_text(thought))
        yield ReasoningMessageContentEvent(message_id=key, delta=plain_text(thought))

    def _stop_thinking(self, message_id: str) -> Events:
        opened = self._open.get(message_id)
        if opened is not None and opened.is_thinking:
            opened.is_thinking = False
            yield ReasoningMessageEndEvent(message_id=message_id + REASONING)
            yield ReasoningEndEvent(message_id=message_id + REASONING)

    def _call_piece(self, event: AgentEvent, piece: ToolCallChunk) -> Events:
        """Yield a piece of a call; parts that are still unclear follow with the complete message."""
        opened = self._of(event)
        index, call_id, name = piece.get("index"), piece.get("id"), piece.get("name")
        is_first = (index not in opened.by_index) if index is not None else bool(call_id)
        if is_first:
            opened.last = None
            known = call_id and self._conversation.call_id(event.id, str(call_id))
            if known and name and known not in opened.calls:
                yield from self._begin_call(event, known, str(name))
                opened.last = opened.calls[known]
            if index is not None:
                opened.by_index[index] = opened.last
        call = opened.by_index[index] if index is not None else opened.last
        if call is not None and (args := plain_text(piece.get("args") or "")):
            call.pieces.append(args)
            yield ToolCallArgsEvent(tool_call_id=call.id, delta=args)

    def _call(self, event: AgentEvent, call_id: str, name: str, arguments: str) -> Events:
        opened = self._of(event)
        if call_id not in opened.calls:
            yield from self._begin_call(event, call_id, name)
        call = opened.calls[call_id]
        if not call.arguments:
            call.pieces.append(arguments)
            yield ToolCallArgsEvent(tool_call_id=call_id, delta=arguments)

    def _begin_call(self, event: AgentEvent, call_id: str, name: str) -> Events:
        yield from self._stop_thinking(event.id)
        opened = self._of(event)
        opened.calls[call_id] = opened.sent.calls[call_id] = SentCall(call_id, name)
        yield ToolCallStartEvent(
            tool_call_id=call_id,
            tool_call_name=name,
            parent_message_id=event.id,
            timestamp=time_of(event),
            metadata=opened.sent.metadata,
        )

    def _calls_of(self, message_id: str, message: AIMessage) -> list[tuple[str, str, str]]:
        several: dict[str, tuple[str, str, str]] = {}
        for label, name, arguments in _calls(message_id, message):
            sent = self._conversation.call_id(message_id, label, several)
            several[sent] = sent, name, arguments
        return [*several.values()]

    def sent_call(self, label: str, address: str) -> str:
        """Return the emitted id of the last call with a provider's id at an address."""
        return self._conversation.sent_call(label, address)

    def call_around(self, label: str, address: str) -> str:
        """Return the emitted id of the last such call at an address or around it."""
        return self._conversation.call_around(label, address)

    def _close(self, message_id: str) -> Events:
        yield from self._stop_thinking(message_id)
        opened = self._open.pop(message_id)
        if opened.has_text:
            yield TextMessageEndEvent(message_id=message_id)
        for call_id in opened.calls:
            yield ToolCallEndEvent(tool_call_id=call_id)


def metadata_of(event: AgentEvent) -> dict[str, dict[str, object]]:
    """Return the origin of an event, as the metadata of AG-UI events."""
    about = {"agent_name": event.agent_name, "address": event.address, "step": event.step}
    return {OURS: {key: value for key, value in about.items() if value is not None}}


def time_of(event: AgentEvent) -> int | None:
    """Return the time of an event, in milliseconds since 1970."""
    return None if event.time is None else int(event.time * 1000)


def _calls(message_id: str, message: AIMessage) -> list[tuple[str, str, str]]:
    calls: list[ToolCall | InvalidToolCall] = [*message.tool_calls, *message.invalid_tool_calls]
    return [
        (
            str(call.get("id") or f"{message_id}-{index}"),
            str(call.get("name") or ""),
            _arguments(call.get("args")),
        )
        for index, call in enumerate(calls)
    ]


def _arguments(args: object) -> str:
    return plain_text(args) if isinstance(args, str) else json.dumps(plain(args or {}))


def _are_equal(sent: SentCall, right: SentCall) -> bool:
    if sent.name != right.name:
        return False
    try:
        return bool(json.loads(sent.arguments) == json.loads(right.arguments))
    except ValueError:
        return sent.arguments == right.arguments


def _blocks(message: BaseMessage) -> list[Mapping[str, object]]:
    """Return the content blocks of a message; empty if the content is only a text."""
    is_text = isinstance(message.content, str) and not message.additional_kwargs
    return [] if is_text else [*message.content_blocks]


def _thoughts(message: BaseMessage) -> Iterator[str]:
    for block in _blocks(message):
        if block.get("type") == "reasoning" and block.get("reasoning"):
            yield str(block["reasoning"])


def _content(message: ToolMessage) -> str | list[ContentPart]:
    """Return the content of a tool's message: its text, or parts if AG-UI has types for all."""
    if isinstance(message.content, str):
        return plain_text(message.content)
    parts = [_part(block) for block in message.content_blocks]
    if any(part is None for part in parts):
        return json.dumps(plain(message.content), ensure_ascii=False)
    return [part for part in parts if part is not None]


def _part(block: Mapping[str, object]) -> ContentPart | None:
    match block:
        case {"type": "text", "text": text}:
            return TextPart(text=plain_text(text))
        case {"type": str(kind)} if kind in _PARTS and (source := _source(block)) is not None:
            return _PARTS[kind](source=source)
    return None


def _source(block: Mapping[str, Any]) -> PartSource | None:
    kind = block.get("mime_type")
    match block:
        case {"base64": str(data)}:
            return DataSource(value=data, mime_type=kind or "application/octet-stream")
        case {"url": str(url)}:
            return UrlSource(value=url, mime_type=kind)
        case {"file_id": str(file)}:
            return FileSource(value=file, mime_type=kind)
    return None
