"""Models that reuse ids, agents of all kinds that ask them, and what a consumer of the events holds."""

import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import PrivateAttr

import agentgraph as ag
from helpers import middleware, retrying

STYLES = ("missing", "empty", "constant", "first", "changing")
"""Which ids chunks have: none; ""; the same in all; one in the first alone; another each time."""


class Reused(BaseChatModel):
    """A model that numbers its replies, and fails in the middle of some."""

    name_of: str = "m"
    style: str = "constant"
    fails: tuple[int, ...] = ()
    _calls: int = PrivateAttr(default=0)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)

    @property
    def _llm_type(self) -> str:
        return "reused"

    def _next(self) -> int:
        with self._lock:
            self._calls += 1
            return self._calls

    def _id(self, part: int) -> str | None:
        first = {"empty": "", "constant": "chatcmpl-1", "first": "resp-1", "changing": f"part-{part}"}
        return first.get(self.style) if part == 0 or self.style != "first" else None

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any
    ) -> ChatResult:
        number = self._next()
        if number in self.fails:
            raise ConnectionError("The line broke.")
        reply = AIMessage(f"{self.name_of} {number}", id=self._id(0))
        return ChatResult(generations=[ChatGeneration(message=reply)])

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any
    ) -> Iterator[ChatGenerationChunk]:
        number = self._next()
        for part, word in enumerate((self.name_of, " ", str(number))):
            yield ChatGenerationChunk(message=AIMessageChunk(word, id=self._id(part)))
            if number in self.fails:
                raise ConnectionError("The line broke.")

    async def _astream(self, *args: Any, **options: Any) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._stream(*args, **options):
            yield chunk

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


def _function(fn: Callable[[ag.Context, Reused], Any]) -> Callable[[str, Reused], ag.Agent]:
    def made(name: str, model: Reused) -> ag.Agent:
        return ag.function_agent(name, lambda ctx: fn(ctx, model), retry=_AGAIN)

    return made


_AGAIN = retrying(4, on=ConnectionError)


def _aware(name: str, model: Reused) -> ag.Agent:
    async def answers(ctx: ag.Context) -> Any:
        return await model.ainvoke("?")

    return ag.function_agent(name, answers, retry=_AGAIN)


def _yields(name: str, model: Reused) -> ag.Agent:
    def answers(ctx: ag.Context) -> Iterator[Any]:
        yield from model.stream("?")

    return ag.function_agent(name, answers, retry=_AGAIN)


def _classifies(ctx: ag.Context, model: Reused) -> str:
    return f"class {len(model.invoke('?').text)}"


def _passing(name: str, model: Reused) -> ag.Agent:
    passes = middleware(before_model=lambda state: None)
    return ag.chat_agent(name, model, middleware=[passes], retry=_AGAIN)


def _graph(flat: bool) -> Callable[[str, Reused], ag.Agent]:
    return lambda name, model: ag.graph_agent(name, create_agent(model), flat=flat, retry=_AGAIN)


LEAVES: Mapping[str, Callable[[str, Reused], ag.Agent]] = {
    "chat": lambda name, model: ag.chat_agent(name, model, retry=_AGAIN),
    "chat with middleware": _passing,
    "function": _function(lambda ctx, model: model.invoke("?")),
    "coroutine": _aware,
    "generator": _yields,
    "function of a text": _function(lambda ctx, model: (model | StrOutputParser()).invoke("?")),
    "function that classifies": _function(_classifies),
    "graph": _graph(flat=False),
    "flat graph": _graph(flat=True),
}
"""Agents that say one message in each activation, by a name and the model that they ask."""


def held(events: Iterable[ag.AgentEvent]) -> dict[str, str]:
    """Return the texts by id that a consumer holds, who applies `discarded`; check each event."""
    texts: dict[str, str] = {}
    steps: dict[str, str | None] = {}
    complete: set[str] = set()
    for event in events:
        for name in (event.action and event.action.discarded) or ():
            named = [key for key in texts if key == name or steps[key] == name]
            assert named, f"{name} was discarded, and no reader had it"
            for key in named:
                texts.pop(key)
                complete.discard(key)
        if event.message is not None:
            assert event.id not in complete, f"{event.id} came again after its message"
            texts[event.id] = texts.get(event.id, "") + event.text if event.partial else event.text
            steps[event.id] = event.step
            complete.update([] if event.partial else [event.id])
    assert texts.keys() == complete, "chunks were left without a message"
    return texts


def check(
    events: Sequence[ag.AgentEvent], again: Sequence[ag.AgentEvent], history: Sequence[BaseMessage]
) -> None:
    """Check that consumer, replay and history have the same messages, each once."""
    said = [message for message in history if "agentgraph" in message.response_metadata]
    ids = Counter(message.id for message in said)
    assert {*ids.values()} <= {1}
    texts = {str(message.id): message.text for message in said}
    assert {event.id: event.text for event in again if event.message is not None} == texts
    assert held(events) == texts
