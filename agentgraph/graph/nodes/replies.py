"""The replies of models in an activation: which ids they get, and which of them were not said.

The id of a reply is a label of its provider. Gateways give one id to all replies, caches give a reply
again with its id, and some providers give the first chunk another id than the others. In the history
an id is one message. So each reply gets an id that no other message has, when its first chunk is
streamed or when it is complete: its own, unless that is taken. Its chunks and its message all have it.

`Replies` is a callback handler that names replies. A chunk must have its name before LangGraph's own
handler streams it, but LangChain calls handlers in any order. So in a config for models LangGraph's
handler is replaced by one that shares its state, and names each chunk first (`Naming`). A function
without a consumer of chunks has no such handler: the replies of its models are counted, and the chunks
of each get one id, by `REPLY_COUNTER`, which LangChain finds in a context variable.
"""

from collections.abc import Collection, Iterable, Mapping
from contextvars import ContextVar
from threading import Lock
from typing import Any, Protocol, Self
from uuid import UUID, uuid4

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers.context import register_configure_hook

from agentgraph.graph.internals import StreamMessagesHandler, StreamMessagesHandlerV2
from agentgraph.graph.stamps import PROVIDER_ID, renamed

AUTOMATIC = "lc_run-"
"""The beginning of an id that LangChain assigns to a reply without one; the rest is that of the run."""


class Receiver(Protocol):
    """The owner of the ids of replies: the output of an activation."""

    def is_taken(self, message_id: str) -> bool:
        """Return whether another message has an id, or may have it."""

    def received(self, reply_id: str) -> None:
        """Note that a model has replied."""

    def name_chunk(self, message: BaseMessage, run_id: UUID) -> None:
        """Give the chunks of a call of a model the id of the first one."""


class _Listening(BaseCallbackHandler):
    run_inline = True
    ignore_agent = ignore_chain = ignore_retriever = ignore_custom_event = True


class Replies(_Listening):
    """Gives ids to the replies of models, and knows what was streamed of them.

    Attributes:
        texts: The streamed text of each reply, by its id.
    """

    names_all = False
    """Whether each reply gets its own id here, also if it is not streamed."""

    def __init__(self, receiver: Receiver) -> None:
        """Begin without replies of what they belong to."""
        self.texts: dict[str, str] = {}
        self._receiver, self._lock = receiver, Lock()
        self._running: dict[UUID, str] = {}
        self._naming_handlers: dict[int, BaseCallbackHandler] = {}
        self._given: set[str] = set()

    def config(self, config: RunnableConfig) -> RunnableConfig:
        """Return a config for code whose models' replies are received, and make it that of the context.

        LangChain and LangGraph merge the two, so that of the context must not have other handlers.
        """
        callbacks = config.get("callbacks")
        if isinstance(callbacks, BaseCallbackManager):
            manager = callbacks.copy()
            manager.handlers = self._observed(manager.handlers)
            manager.inheritable_handlers = self._observed(manager.inheritable_handlers)
            observed: RunnableConfig = {**config, "callbacks": manager}
        else:
            observed = {**config, "callbacks": self._observed(callbacks or ())}
        var_child_runnable_config.set(observed)
        return observed

    def _observed(self, handlers: Iterable[BaseCallbackHandler]) -> list[BaseCallbackHandler]:
        return [*(self._naming(each) for each in handlers), self]

    def _naming(self, handler: BaseCallbackHandler) -> BaseCallbackHandler:
        """Return a handler; in the place of LangGraph's one that names what it streams."""
        if not isinstance(handler, StreamMessagesHandler):
            return handler
        if id(handler) not in self._naming_handlers:
            kind = NamingV2 if isinstance(handler, StreamMessagesHandlerV2) else Naming
            self._naming_handlers[id(handler)] = kind.in_place_of(handler, self)
        return self._naming_handlers[id(handler)]

    def has_assigned(self, message_id: str) -> bool:
        """Return whether a reply got an id here."""
        return message_id in self._given

    def new_id(self) -> str:
        """Return the id for what is streamed without a model, for an id that is taken."""
        new_id = str(uuid4())
        self._given.add(new_id)
        return new_id

    def unsaid(self, said: Collection[str | None]) -> list[str]:
        """Return the ids of replies that were streamed, except those of some messages."""
        return [each for each in self.texts if each not in said]

    def add(self, reply_id: str, text: str) -> None:
        """Add what was streamed of a reply."""
        self.texts[reply_id] = self.texts.get(reply_id, "") + text

    def name_chunk(self, chunk: object, run_id: UUID) -> None:
        """Give a chunk the id of its reply."""
        if isinstance(chunk, ChatGenerationChunk) and chunk.message.id is not None:
            own = chunk.message.id or f"{AUTOMATIC}-{run_id}"  # LangChain leaves empty ones
            message, reply_id = chunk.message, self._id_of(run_id, own)
            if message.id != reply_id:
                message.id = reply_id
                if not own.startswith(AUTOMATIC) and reply_id not in self.texts:
                    message.response_metadata = {**message.response_metadata, PROVIDER_ID: own}

    def name_event(self, event: Any, run_id: UUID) -> None:
        """Give the reply its id in version v3 of LangGraph's streams."""
        if isinstance(event, dict) and event.get("event") == "message-start":
            event["id"] = self._id_of(run_id, str(event.get("id") or f"{AUTOMATIC}-{run_id}"))

    def on_llm_new_token(
        self, token: object, *, run_id: UUID, chunk: object = None, **_: object
    ) -> None:
        """Note the text of a chunk."""
        self.name_chunk(chunk, run_id)
        if isinstance(chunk, ChatGenerationChunk) and chunk.message.id:
            self.add(chunk.message.id, str(chunk.message.text))

    def on_stream_event(self, event: Any, *, run_id: UUID, **_: object) -> None:
        """Note what is streamed in version v3."""
        self.name_event(event, run_id)
        match event:
            case {"event": "content-block-start", "content": {"text": str(text)}} | {
                "event": "content-block-delta",
                "delta": {"text": str(text)},
            }:
                self.add(self._id_of(run_id, f"{AUTOMATIC}-{run_id}"), text)

    def name(self, response: LLMResult, run_id: UUID) -> None:
        """Give a complete reply its id."""
        for generation in _chat_generations(response):
            message = generation.message
            if message.id and (self.names_all or run_id in self._running):
                reply_id = self._id_of(run_id, message.id)
                if message.id != reply_id:
                    generation.message = renamed(message, reply_id)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: object) -> None:
        """Give a complete reply its id, and count it."""
        self.name(response, run_id)
        for generation in _chat_generations(response):
            self._receiver.received(str(generation.message.id))

    def _id_of(self, run_id: UUID, own: str) -> str:
        """Return the id of the reply of a call whose first chunk has its own id."""
        if run_id not in self._running:
            self._running[run_id] = self._new_id(run_id, own)
        return self._running[run_id]

    def _new_id(self, run_id: UUID, own: str) -> str:
        """Return the id for a new reply: its own, unless it is taken."""
        is_unique = own.startswith(f"{AUTOMATIC}-{run_id}")
        with self._lock:
            is_free = is_unique or not (self.names_all or self._receiver.is_taken(own))
            if own in self._given or not is_free:
                own = str(uuid4())
            self._given.add(own)
        return own


class Naming(StreamMessagesHandler):
    """LangGraph's handler that streams chunks, which names them before."""

    replies: Replies

    @classmethod
    def in_place_of(cls, handler: StreamMessagesHandler, replies: Replies) -> Self:
        """Return a handler that shares the state of another one."""
        made = cls.__new__(cls)
        made.__dict__ = {**handler.__dict__, "replies": replies}
        return made

    def on_llm_new_token(self, *args: Any, **named: Any) -> None:
        """Stream a chunk."""
        self.replies.name_chunk(named.get("chunk"), named["run_id"])
        super().on_llm_new_token(*args, **named)

    def on_llm_end(self, *args: Any, **named: Any) -> None:
        """Stream a reply that was not streamed in chunks."""
        self.replies.name(args[0], named["run_id"])
        super().on_llm_end(*args, **named)


class NamingV2(Naming, StreamMessagesHandlerV2):
    """The same for version v3 of LangGraph's streams."""

    def on_stream_event(self, event: Any, **named: Any) -> None:
        """Stream a part of a reply."""
        self.replies.name_event(event, named["run_id"])
        super().on_stream_event(event, **named)


class _ReplyCounter(_Listening):
    def on_llm_new_token(
        self, token: object, *, run_id: UUID, chunk: object = None, **_: object
    ) -> None:
        """Give a chunk the id of its reply."""
        if (receiver := RECEIVER.get()) is not None and isinstance(chunk, ChatGenerationChunk):
            receiver.name_chunk(chunk.message, run_id)

    def on_llm_end(self, response: LLMResult, **_: object) -> None:
        """Count a reply."""
        if (receiver := RECEIVER.get()) is not None:
            for generation in _chat_generations(response):
                receiver.received(str(generation.message.id))


REPLY_COUNTER = _ReplyCounter()
RECEIVER: ContextVar[Receiver | None] = ContextVar("hearer", default=None)
"""The activation whose function runs, to which `LISTENER` reports."""
LISTENING: ContextVar[BaseCallbackHandler | None] = ContextVar("listening", default=None)
"""`LISTENER` in the function of an agent, where LangChain finds it; None elsewhere."""
register_configure_hook(LISTENING, inheritable=True)


def stream_handlers(config: Mapping[str, Any]) -> list[StreamMessagesHandler]:
    """Return LangGraph's handlers that stream chunks."""
    callbacks = config.get("callbacks")
    every = callbacks.handlers if isinstance(callbacks, BaseCallbackManager) else callbacks
    return [each for each in every if isinstance(each, StreamMessagesHandler)] if every else []


def _chat_generations(response: LLMResult) -> list[ChatGeneration]:
    """Return the reply in the result of a call of a model, if it has one."""
    first = response.generations[0][:1] if response.generations else []
    return [each for each in first if isinstance(each, ChatGeneration)]
