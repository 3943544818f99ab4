"""Reads the parts of a LangGraph stream, from this process or as JSON from a server.

Reads the parts of LangGraph's v3 streams, which are in beta.

A part is an envelope with a stream mode, a namespace and data. In mode "messages" the data are events
of content blocks; pieces of text, reasoning and tool calls become chunks, as in the older versions.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import (
    AIMessageChunk,
    BaseMessage,
    InvalidToolCall,
    ToolCall,
    messages_from_dict,
)
from langchain_core.messages.tool import ToolCallChunk, tool_call_chunk

from agentgraph.errors import AgentGraphError, RemoteRunError
from agentgraph.safe_repr import shown

_WITHOUT_CHUNK = (
    "message-start",
    "content-block-finish",
    "message-finish",
    "message-error",
    "usage",
)
"""Kinds of events without new content."""


class BlockReader:
    """Reads the content block events of one stream; only the first event of a message has its id."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def chunk(self, event: Mapping[str, Any], metadata: Mapping[str, object]) -> AIMessageChunk | None:
        """Return the chunk of a content block event, or None if it adds no content.

        Raises:
            AgentGraphError: LangGraph's protocol has changed.
        """
        run = str(metadata.get("run_id", ""))
        match event:
            case {"event": "message-start"}:
                self._ids[run] = str(event.get("id") or f"lc_run--{run}")
                return None
            case {"event": "content-block-start", "content": {"type": "tool_call_chunk"} as call}:
                return self._chunk(run, "", tool_call_chunks=[_call_chunk(call, event["index"])])
            case {"event": "content-block-start", "content": {"type": "text", "text": str(text)}}:
                return self._chunk(run, text) if text else None
            case {"event": "content-block-delta", "delta": {"type": "text-delta", "text": text}}:
                return self._chunk(run, text)
            case {"event": "content-block-delta", "delta": {"type": "tool-call-delta"} as call}:
                return self._chunk(run, "", tool_call_chunks=[_call_chunk(call, event["index"])])
            case {"event": "content-block-delta", "delta": {"type": "reasoning-delta"} as block}:
                thought = {"type": "reasoning", "reasoning": block["reasoning"]}
                return self._chunk(run, [{**thought, "index": event["index"]}])
            case {"event": "content-block-start" | "content-block-delta"}:
                return None  # the block has no text or call
            case {"event": kind} if kind in _WITHOUT_CHUNK:
                return None
        raise AgentGraphError(
            f"{shown(event, 80)} is not a known message event of LangGraph's v3 protocol, which is in "
            'beta; use stream(..., version="v2") with STREAM_MODES'
        )

    def _chunk(
        self, run: str, content: str | list[str | dict[str, object]], **calls: Any
    ) -> AIMessageChunk:
        return AIMessageChunk(content=content, id=self._ids.get(run, f"lc_run--{run}"), **calls)


def _call_chunk(call: Mapping[str, Any], index: int) -> ToolCallChunk:
    return tool_call_chunk(
        name=call.get("name"), args=call.get("args") or "", id=call.get("id"), index=index
    )


class OpenedPart(NamedTuple):
    """A part of a stream.

    Attributes:
        kind: The stream mode.
        data: Its content, in LangGraph's form for the mode.
        namespace: `node:task` for each enclosing graph, outermost first.
    """

    kind: str
    data: Any
    namespace: Sequence[str] = ()


class Question(NamedTuple):
    """A LangGraph interrupt that a server sent."""

    id: str
    value: object
    response_schema: dict[str, object] | None = None


class PartReader:
    """Reads the parts of one stream.

    In mode "messages" a server sends the message so far after each new piece; the new piece becomes
    a chunk. In mode "messages-tuple" a server sends the chunks themselves.
    """

    def __init__(self) -> None:
        self._metadata: dict[str, Mapping[str, object]] = {}
        self._grown: dict[str, BaseMessage] = {}
        self._protocol = BlockReader()

    def open(self, part: object) -> Sequence[OpenedPart]:
        """Split a part into its parts, with chunks and messages as LangChain messages.

        Raises:
            RemoteRunError: The part reports a failed run on a server.
            AgentGraphError: The part does not name its stream mode.
        """
        opened = _opened(part)
        match opened.kind:
            case "messages":
                message, metadata = opened.data
                if isinstance(message, Mapping) and "event" in message:  # of version v3
                    message = self._protocol.chunk(message, metadata)
                return (
                    ()
                    if message is None
                    else (_chunk(as_message(message), metadata, opened.namespace),)
                )
            case "messages/metadata":
                self._metadata.update({key: entry["metadata"] for key, entry in opened.data.items()})
                return ()
            case "messages/partial":
                return [self._growth(as_message(entry)) for entry in opened.data]
            case "error":
                raise RemoteRunError(opened.data)
        return (opened,)

    def _growth(self, message: BaseMessage) -> OpenedPart:
        before = self._grown.get(message.id or "")
        self._grown[message.id or ""] = message
        length = len(before.text) if before else 0
        known = len(_calls(before)) if before else 0
        calls = [_first_chunk(call, known + i) for i, call in enumerate(_calls(message)[known:])]
        new = AIMessageChunk(content=str(message.text)[length:], id=message.id, tool_call_chunks=calls)
        return _chunk(new, self._metadata.get(message.id or "", {}))


def as_message(message: Any) -> BaseMessage:
    """Return a message from itself or its JSON form."""
    if isinstance(message, BaseMessage):
        return message
    return messages_from_dict([{"type": message["type"], "data": dict(message)}])[0]


def as_question(question: object) -> Any:
    """Return an interrupt from itself or its JSON form."""
    if not isinstance(question, Mapping):
        return question
    return Question(question["id"], question["value"], question.get("response_schema"))


def _opened(part: Any) -> OpenedPart:
    match part:
        case {"type": "event", "method": str(kind), "params": {"namespace": inside, "data": data}}:
            return OpenedPart(kind, data, inside)
    if isinstance(part, Mapping) and "data" in part and "type" in part:
        return OpenedPart(part["type"], part["data"], part.get("ns", ()))
    if hasattr(part, "event"):
        kind, *namespace = part.event.split("|")
        return OpenedPart(kind, part.data, namespace)
    if isinstance(part, tuple) and len(part) in (2, 3) and isinstance(part[-2], str):
        return OpenedPart(part[-2], part[-1], part[0] if len(part) == 3 else ())
    raise AgentGraphError(
        f"{shown(part, 80)} is not a part of a LangGraph stream with a mode; pass a list of "
        "modes: stream(..., stream_mode=STREAM_MODES, subgraphs=True)"
    )


def _chunk(
    message: BaseMessage, metadata: Mapping[str, object], namespace: Sequence[str] = ()
) -> OpenedPart:
    """Make the part of a chunk; servers send its namespace only in the metadata."""
    around = str(metadata.get("langgraph_checkpoint_ns", "")).split("|")[:-1]
    return OpenedPart("messages", (message, metadata), namespace or around)


def _calls(message: BaseMessage) -> list[ToolCall | InvalidToolCall]:
    return [*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ())]


def _first_chunk(call: ToolCall | InvalidToolCall, index: int) -> ToolCallChunk:
    return tool_call_chunk(name=call["name"], args="", id=call["id"], index=index)
