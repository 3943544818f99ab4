"""Reads the parts of LangGraph's v3 streams, which are in beta.

A part is an envelope with a stream mode, a namespace and data. In mode "messages" the data are events
of content blocks; pieces of text, reasoning and tool calls become chunks, as in the older versions.
"""

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk

from agentgraph.errors import AgentGraphError
from agentgraph.safe_repr import shown

_WITHOUT_CHUNK = (
    "message-start",
    "content-block-finish",
    "message-finish",
    "message-error",
    "usage",
)
"""Events that carry nothing new, or nothing that is said."""


class Protocol:
    """Reads the parts of one stream; the id of a message is only in its first event."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def chunk(self, event: Mapping[str, Any], metadata: Mapping[str, Any]) -> AIMessageChunk | None:
        """Return the chunk of a content block event; None if it has none.

        Raises:
            AgentGraphError: LangGraph's protocol has changed.
        """
        run = str(metadata.get("run_id", ""))
        match event:
            case {"event": "message-start"}:
                self._ids[run] = str(event.get("id") or f"lc_run--{run}")
                return None
            case {"event": "content-block-start", "content": {"type": "tool_call_chunk"} as call}:
                return self._chunk(run, "", tool_call_chunks=[_piece(call, event["index"])])
            case {"event": "content-block-start", "content": {"type": "text", "text": str(text)}}:
                return self._chunk(run, text) if text else None
            case {"event": "content-block-delta", "delta": {"type": "text-delta", "text": text}}:
                return self._chunk(run, text)
            case {"event": "content-block-delta", "delta": {"type": "tool-call-delta"} as call}:
                return self._chunk(run, "", tool_call_chunks=[_piece(call, event["index"])])
            case {"event": "content-block-delta", "delta": {"type": "reasoning-delta"} as block}:
                thought = {"type": "reasoning", "reasoning": block["reasoning"]}
                return self._chunk(run, [{**thought, "index": event["index"]}])
            case {"event": "content-block-start" | "content-block-delta"}:
                return None  # of a block that no text or call comes from
            case {"event": kind} if kind in _WITHOUT_CHUNK:
                return None
        raise AgentGraphError(
            f"{shown(event, 80)} is not a message event of LangGraph's v3 protocol that is known here; "
            'it is in beta and may have changed: use stream(..., version="v2") with STREAM_MODES'
        )

    def _chunk(self, run: str, content: Any, **calls: Any) -> AIMessageChunk:
        return AIMessageChunk(content=content, id=self._ids.get(run, f"lc_run--{run}"), **calls)


def _piece(call: Mapping[str, Any], index: int) -> Any:
    return tool_call_chunk(
        name=call.get("name"), args=call.get("args") or "", id=call.get("id"), index=index
    )
