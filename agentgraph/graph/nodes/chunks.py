"""The chunks that a function yields, or that models stream which it calls.

LangGraph streams the chunks of models by a callback handler. Chunks that a function yields itself are
passed to the same handler, unless their model has streamed them already. In version v3 of its streams
LangGraph streams what `model.invoke` gives as events of content blocks, and what `model.stream` gives
only at its end, as one chunk: so chunks that a function yields before are passed on there.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.messages import BaseMessage, BaseMessageChunk, message_chunk_to_message
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.graph.message import push_message

from agentgraph.graph.internals import StreamMessagesHandler, StreamMessagesHandlerV2
from agentgraph.graph.nodes.activation import Activation


class Chunks(BaseCallbackHandler):
    """Joins the chunks that a function yields, and streams them; voids what was streamed in vain."""

    run_inline = True

    def __init__(self, activation: Activation) -> None:
        self._activation = activation
        self._handlers = _handlers(activation.config)
        self._is_v3 = all(isinstance(each, StreamMessagesHandlerV2) for each in self._handlers)
        self._joined: BaseMessageChunk | None = None
        self._ended: dict[str | None, BaseMessageChunk] = {}
        self._streamed: dict[str, str] = {}
        self._ids: dict[UUID, str] = {}

    def config(self, config: RunnableConfig) -> RunnableConfig:
        """Return a config for the function, whose models are listened to if chunks are streamed."""
        return merge_configs(config, {"callbacks": [self]}) if self._handlers else config

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, **_: Any) -> None:
        """Note that a model has streamed a chunk."""
        if isinstance(chunk, ChatGenerationChunk) and chunk.message.id:
            self._add(chunk.message)

    def on_stream_event(self, event: Mapping[str, Any], *, run_id: UUID, **_: Any) -> None:
        """Note what a model has streamed in version v3."""
        match event:
            case {"event": "message-start"}:
                self._ids[run_id] = str(event.get("id") or f"lc_run--{run_id}")
            case {"event": "content-block-start", "content": {"text": str(text)}} | {
                "event": "content-block-delta",
                "delta": {"text": str(text)},
            }:
                self._note(self._ids.get(run_id, f"lc_run--{run_id}"), text)

    def id_of(self, text: str) -> str | None:
        """Return the id of the streamed message with a text, for what a function says; None if none."""
        return next((key for key, streamed in self._streamed.items() if streamed == text), None)

    def continues(self, chunk: BaseMessageChunk) -> bool:
        """Return whether a chunk belongs to the message that is being joined, or begins one."""
        return self._joined is None or chunk.id in (None, self._joined.id)

    def add(self, chunk: BaseMessageChunk) -> None:
        """Add a chunk to its message, and stream it; not if it changes a message of the history."""
        if chunk.id is None:
            chunk = chunk.model_copy(update={"id": self._joined.id if self._joined else str(uuid4())})
        if self._joined is None:
            self._joined = self._ended.get(chunk.id)
            is_known = self._activation.current_message(chunk.id) is not None
            self._is_ours = chunk.id not in self._streamed and not is_known
            is_over = any(chunk.id in each.seen for each in self._handlers)
            self._is_passed_on = self._is_ours or (self._is_v3 and not is_over)
        self._joined = chunk if self._joined is None else self._joined + chunk
        if self._handlers and self._is_ours:
            self._add(chunk)
        if self._handlers and self._is_passed_on:
            push_message(chunk, state_key=None)

    def end(self) -> BaseMessage | None:
        """Return the message that the chunks make, if there are any; a later chunk may add to it."""
        if self._joined is None:
            return None
        ended, self._joined = self._joined, None
        self._ended[ended.id] = ended
        return message_chunk_to_message(ended)

    def void(self) -> None:
        """Void the chunks of messages that the function did not say."""
        left = sorted(self._streamed.keys() - self._activation.said_ids)
        if left := [each for each in left if self._activation.current_message(each) is None]:
            self._activation.emitter.add_note("discarded", left)

    def _add(self, chunk: BaseMessage) -> None:
        self._note(str(chunk.id), str(chunk.text))

    def _note(self, key: str, text: str) -> None:
        self._streamed[key] = self._streamed.get(key, "") + text


def streams_chunks(config: RunnableConfig) -> bool:
    """Return whether chunks are streamed in this run."""
    return bool(_handlers(config))


def _handlers(config: RunnableConfig) -> list[Any]:
    """Return LangGraph's handlers that stream chunks."""
    given = config.get("callbacks")
    every = given.handlers if isinstance(given, BaseCallbackManager) else given
    return [each for each in every if isinstance(each, StreamMessagesHandler)] if every else []
