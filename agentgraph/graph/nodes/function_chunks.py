"""The chunks that a function yields, or that models stream which it calls.

LangGraph streams the chunks of models by a callback handler. Chunks that a function yields itself are
passed to the same handler, unless their model has streamed them already. In version v3 of its streams
LangGraph streams the result of `model.invoke` as events of content blocks, and the result of
`model.stream` only at its end, as one chunk: so chunks that a function yields earlier are passed on
there.
"""

from uuid import uuid4

from langchain_core.messages import (
    AIMessageChunk,
    BaseMessage,
    BaseMessageChunk,
    message_chunk_to_message,
)
from langgraph.graph.message import push_message

from agentgraph.graph.internals import StreamMessagesHandlerV2
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.replies import stream_handlers
from agentgraph.graph.stamps import renamed


class Chunks:
    """Joins the chunks that a function yields to messages, and streams them.

    A message ends where something else is yielded, where a chunk says that it is the last, and where
    one comes with another id. All chunks of one call of a model have one id: see `Replies`.
    """

    def __init__(self, activation: Activation) -> None:
        self._activation, self._replies = activation, activation.output.replies
        self._handlers = stream_handlers(activation.config)
        self._is_v3 = all(isinstance(each, StreamMessagesHandlerV2) for each in self._handlers)
        self._joined: BaseMessageChunk | None = None
        self._ids: set[str] = set()
        self._ended: dict[str | None, BaseMessageChunk] = {}
        self._renamed: dict[str, str] = {}

    def id_of(self, text: str) -> str | None:
        """Return the id of the streamed message with a function's text; None if none has it."""
        streamed = self._replies.texts.items() if self._replies else ()
        return next((key for key, each in streamed if each == text), None)

    def continues(self, chunk: BaseMessageChunk) -> bool:
        """Return whether a chunk belongs to the message that is being joined, or begins one."""
        joined = self._joined
        return joined is None or (not _is_last(joined) and chunk.id in (None, *self._ids))

    def add(self, chunk: BaseMessageChunk) -> None:
        """Add a chunk to its message, and stream it; not if it changes a message of the history."""
        self._ids.update([chunk.id] if chunk.id else [])
        if self._joined is not None:
            chunk = chunk.model_copy(update={"id": self._joined.id})
        else:
            chunk = self._first(chunk)
        self._joined = chunk if self._joined is None else self._joined + chunk
        if self._replies is not None and self._is_ours:
            self._replies.add(str(chunk.id), str(chunk.text))
        if self._handlers and self._is_passed_on:
            push_message(chunk, state_key=None)

    def _first(self, chunk: BaseMessageChunk) -> BaseMessageChunk:
        """Return the first chunk of a message, or one that continues a message that has ended."""
        output, replies, key = self._activation.output, self._replies, chunk.id or str(uuid4())
        key = self._renamed.get(key, key)
        self._joined = self._ended.get(key)
        is_streamed = replies is not None and key in replies.texts
        is_known = output.own_message(key) is not None
        if replies is not None and not (is_streamed or is_known) and output.is_taken(key):
            self._renamed[key] = replies.new_id()
            key = self._renamed[key]
            chunk = renamed(chunk, key)
        self._is_ours = not is_streamed and not is_known
        is_over = any(key in each.seen for each in self._handlers)
        self._is_passed_on = self._is_ours or (self._is_v3 and not is_over)
        return chunk if chunk.id == key else chunk.model_copy(update={"id": key})

    def end(self) -> BaseMessage | None:
        """Return the message that the chunks make, if there are any; a later chunk may add to it."""
        if self._joined is None:
            return None
        ended, self._joined, self._ids = self._joined, None, set()
        if not _is_last(ended):
            self._ended[ended.id] = ended
        return message_chunk_to_message(ended)


def _is_last(chunk: BaseMessageChunk) -> bool:
    return isinstance(chunk, AIMessageChunk) and chunk.chunk_position == "last"
