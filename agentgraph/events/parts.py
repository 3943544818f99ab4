"""Stream parts, opened: those of LangGraph in this process, and those of a server, which are JSON."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import AIMessageChunk, BaseMessage, messages_from_dict
from langchain_core.messages.tool import ToolCallChunk, tool_call_chunk

from agentgraph.errors import AgentGraphError, RemoteRunError
from agentgraph.safe_repr import shown


class Part(NamedTuple):
    """A part of a stream.

    Attributes:
        kind: The stream mode.
        data: What it tells.
        namespace: Where: `node:task` for each graph around, outermost first.
    """

    kind: str
    data: Any
    namespace: Sequence[str] = ()


class Asked(NamedTuple):
    """A LangGraph interrupt, as it comes from a server."""

    id: str
    value: Any
    response_schema: dict[str, Any] | None = None


class Parts:
    """Opens the parts of one stream.

    A server asked for "messages" sends the whole of a growing message each time; what is new in it
    becomes a chunk. Asked for "messages-tuple" it sends the chunks themselves.
    """

    def __init__(self) -> None:
        self._metadata: dict[str, Mapping[str, Any]] = {}
        self._grown: dict[str, BaseMessage] = {}

    def open(self, part: Any) -> Sequence[Part]:
        """Return what a part comes to, chunks and whole messages as messages.

        Raises:
            RemoteRunError: The part says that a run on a server failed.
            AgentGraphError: It does not say of what stream mode it is.
        """
        opened = _opened(part)
        match opened.kind:
            case "messages":
                message, metadata = opened.data
                return (_chunk(as_message(message), metadata, opened.namespace),)
            case "messages/metadata":
                self._metadata.update({key: told["metadata"] for key, told in opened.data.items()})
                return ()
            case "messages/partial":
                return [self._growth(as_message(told)) for told in opened.data]
            case "error":
                raise RemoteRunError(opened.data)
        return (opened,)

    def _growth(self, message: BaseMessage) -> Part:
        before = self._grown.get(message.id or "")
        self._grown[message.id or ""] = message
        told = len(before.text) if before else 0
        known = len(_calls(before)) if before else 0
        calls = [_first_chunk(call, known + i) for i, call in enumerate(_calls(message)[known:])]
        new = AIMessageChunk(content=str(message.text)[told:], id=message.id, tool_call_chunks=calls)
        return _chunk(new, self._metadata.get(message.id or "", {}))


def as_message(told: Any) -> BaseMessage:
    """Return a message that came as one, or as JSON."""
    if isinstance(told, BaseMessage):
        return told
    return messages_from_dict([{"type": told["type"], "data": dict(told)}])[0]


def as_question(told: Any) -> Any:
    """Return an interrupt that came as one, or as JSON."""
    if not isinstance(told, Mapping):
        return told
    return Asked(told["id"], told["value"], told.get("response_schema"))


def _opened(part: Any) -> Part:
    if isinstance(part, Mapping) and "type" in part:
        return Part(part["type"], part["data"], part.get("ns", ()))
    if hasattr(part, "event"):
        kind, *namespace = part.event.split("|")
        return Part(kind, part.data, namespace)
    if isinstance(part, tuple) and len(part) in (2, 3) and isinstance(part[-2], str):
        return Part(part[-2], part[-1], part[0] if len(part) == 3 else ())
    raise AgentGraphError(
        f"{shown(part, 80)} is no part of a LangGraph stream that says its mode; ask for a list of "
        "modes: stream(..., stream_mode=STREAM_MODES, subgraphs=True)"
    )


def _chunk(message: BaseMessage, metadata: Mapping[str, Any], namespace: Sequence[str] = ()) -> Part:
    """Return the part of a chunk; a server leaves its namespace out, the metadata hold it."""
    around = str(metadata.get("langgraph_checkpoint_ns", "")).split("|")[:-1]
    return Part("messages", (message, metadata), namespace or around)


def _calls(message: BaseMessage) -> list[Any]:
    return [*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ())]


def _first_chunk(call: Mapping[str, Any], index: int) -> ToolCallChunk:
    return tool_call_chunk(name=call["name"], args="", id=call["id"], index=index)
