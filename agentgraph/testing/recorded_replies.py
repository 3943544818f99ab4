"""A model that plays a recorded reply in chunks, and the handler that collects real chunks."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager, Callbacks
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from agentgraph.events.json_forms import from_json, message_as_json, message_from_json

_OWN_IDS = ("lc_run-", "run-")
"""Prefixes of LangChain's generated ids, which differ from run to run."""
_EMPTY: tuple[object, ...] = (None, "", [], {})
_PARSED = ("tool_calls", "invalid_tool_calls")


class ReplayedModel(BaseChatModel):
    """A chat model with one reply, or with one exception after any chunks before it."""

    reply: Any = None
    chunks: Sequence[Any] = ()
    raised: Any = None
    cache: Any = False

    @property
    def _llm_type(self) -> str:
        return "played"

    def _generate(self, messages: list[BaseMessage], *_: object, **__: object) -> ChatResult:
        if self.raised is not None:
            raise self.raised
        return ChatResult(generations=[ChatGeneration(message=self.reply)])

    async def _agenerate(self, messages: list[BaseMessage], *_: object, **__: object) -> ChatResult:
        return self._generate(messages)

    def _stream(
        self, messages: list[BaseMessage], *_: object, **__: object
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in self.chunks or ([] if self.reply is None else [_as_chunk(self.reply)]):
            yield ChatGenerationChunk(message=chunk)
        if self.raised is not None:
            raise self.raised

    async def _astream(
        self, messages: list[BaseMessage], *_: object, **__: object
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._stream(messages):
            yield chunk


class ReceivedChunks(BaseCallbackHandler):
    """Collects the chunks in which a model streams its reply.

    Attributes:
        chunks: The chunks so far.
    """

    run_inline = True
    ignore_chain = ignore_agent = ignore_retriever = ignore_custom_event = True

    def __init__(self) -> None:
        super().__init__()
        self.chunks: list[AIMessageChunk] = []

    def on_chat_model_start(self, *_: object, **__: object) -> None:
        """Start from scratch: if several models are called, the last one replies."""
        self.chunks = []

    def on_llm_new_token(self, token: object, *, chunk: object = None, **_: object) -> None:
        """Add a chunk."""
        message = getattr(chunk, "message", None)
        if isinstance(message, AIMessageChunk):
            self.chunks.append(message)

    def added_to(self, callbacks: Callbacks) -> Callbacks:
        """Return callbacks with this handler."""
        if not isinstance(callbacks, BaseCallbackManager):
            return [*(callbacks or ()), self]
        manager = callbacks.copy()
        manager.add_handler(self)
        return manager


def compact(message: BaseMessage) -> dict[str, object]:
    """Convert a message to JSON, without empty fields and without a provider's headers."""
    data: Any = message_as_json(message)["data"]
    metadata = {key: each for key, each in data["response_metadata"].items() if key != "headers"}
    kept = {**data, "response_metadata": metadata}
    if str(data.get("id") or "").startswith(_OWN_IDS):
        kept["id"] = None
    return {key: each for key, each in kept.items() if key == "content" or each not in _EMPTY}


def reply_from_json(data: Mapping[str, object]) -> BaseMessage:
    """Make a reply from the form of `compact`."""
    return message_from_json({"type": data["type"], "data": dict(data)})


def chunk_as_json(chunk: AIMessageChunk) -> object:
    """Convert a chunk to JSON, or to its text if it has nothing else."""
    data = compact(chunk)
    if "tool_call_chunks" in data:  # the calls are parsed from them
        data = {key: each for key, each in data.items() if key not in _PARSED}
    is_text = data.keys() <= {"type", "content"} and isinstance(data["content"], str)
    return data["content"] if is_text else data


def chunk_from_json(data: str | Mapping[str, object]) -> AIMessageChunk:
    """Make a chunk from the form of `chunk_as_json`."""
    if isinstance(data, str):
        return AIMessageChunk(content=data)
    fields = from_json({key: each for key, each in data.items() if key != "type"})
    return AIMessageChunk(**fields)


def _as_chunk(reply: AIMessage) -> AIMessageChunk:
    fields = {name: getattr(reply, name) for name in AIMessage.model_fields if name != "type"}
    return AIMessageChunk(**fields, chunk_position="last")
