"""Test helpers: a chat model that follows a script, transcripts, cassettes, and evaluations."""

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    InvalidToolCall,
    ToolCall,
    ToolMessage,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from agentgraph.agents.functions import discard, is_awaitable
from agentgraph.errors import AgentGraphError
from agentgraph.events.events import AgentEvent
from agentgraph.graph.paired_calls import call_id, calls_of
from agentgraph.safe_repr import shown
from agentgraph.show.lines import event_text

if TYPE_CHECKING:
    from agentgraph.testing.checking_savers import check_saver
    from agentgraph.testing.evaluation.address_checks import ends_within, no_call_before, spends_at_most
    from agentgraph.testing.evaluation.cases import Case
    from agentgraph.testing.evaluation.checks import NamedCheck, Verdict, at_least
    from agentgraph.testing.evaluation.report import Change, Comparison, Report
    from agentgraph.testing.evaluation.running import aevaluate, evaluate
    from agentgraph.testing.evaluation.thread_cases import acase_from, case_from
    from agentgraph.testing.evaluation.trials import Trial
    from agentgraph.testing.fixtures import cassette
    from agentgraph.testing.recording import recorded
    from agentgraph.testing.saver_report import SaverReport, SaverRow

__all__ = [
    "Case",
    "Change",
    "Comparison",
    "NamedCheck",
    "Reply",
    "Report",
    "Response",
    "SaverReport",
    "SaverRow",
    "ScriptError",
    "ScriptedChatModel",
    "Trial",
    "Verdict",
    "acase_from",
    "aevaluate",
    "at_least",
    "call",
    "calls",
    "case_from",
    "cassette",
    "check_saver",
    "ends_within",
    "evaluate",
    "no_call_before",
    "pairing_faults",
    "recorded",
    "spends_at_most",
    "transcript",
]

_LOADED_WHEN_USED = {
    "Case": "agentgraph.testing.evaluation.cases",
    "Change": "agentgraph.testing.evaluation.report",
    "Comparison": "agentgraph.testing.evaluation.report",
    "NamedCheck": "agentgraph.testing.evaluation.checks",
    "Report": "agentgraph.testing.evaluation.report",
    "SaverReport": "agentgraph.testing.saver_report",
    "SaverRow": "agentgraph.testing.saver_report",
    "Trial": "agentgraph.testing.evaluation.trials",
    "Verdict": "agentgraph.testing.evaluation.checks",
    "acase_from": "agentgraph.testing.evaluation.thread_cases",
    "aevaluate": "agentgraph.testing.evaluation.running",
    "at_least": "agentgraph.testing.evaluation.checks",
    "case_from": "agentgraph.testing.evaluation.thread_cases",
    "cassette": "agentgraph.testing.fixtures",
    "check_saver": "agentgraph.testing.checking_savers",
    "ends_within": "agentgraph.testing.evaluation.address_checks",
    "evaluate": "agentgraph.testing.evaluation.running",
    "no_call_before": "agentgraph.testing.evaluation.address_checks",
    "recorded": "agentgraph.testing.recording",
    "spends_at_most": "agentgraph.testing.evaluation.address_checks",
}


def __getattr__(name: str) -> object:
    """Import on first use: cassettes need LangChain's agents, and the fixture needs pytest."""
    if name not in _LOADED_WHEN_USED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LOADED_WHEN_USED[name]), name)


Reply = str | AIMessage | BaseException
Response = Reply | Callable[[list[BaseMessage]], Reply]
"""A text, a message, an exception to raise, or a function from the input to one of these."""


class ScriptError(AgentGraphError, AssertionError):
    """A scripted model was called too often, too rarely, or with messages that no provider accepts.

    It is also an `AssertionError`, so that a test fails with it.
    """


class ScriptedChatModel(BaseChatModel):
    """A chat model that returns one response of its script for each call, in order.

    A single function as the script is called for every response, without end. A response is streamed in
    chunks: word by word, tool calls in two pieces. Threads may share the model. Like the providers, it
    rejects messages in which tool calls and results do not match: it raises `ScriptError` with the
    `pairing_faults`. With `profile={"structured_output": True}` it acts like a provider that enforces
    an `output_schema`: its script has the answer as JSON. By default the script has a call of the tool
    with the schema's name.

    >>> model = ScriptedChatModel(responses=["hello", lambda messages: messages[-1].text])
    >>> model.invoke("hi").text, model.invoke("bye").text
    ('hello', 'bye')
    """

    responses: list[Any] | Callable[..., Any]
    """The script: a `Response` for each call, or a function from the input to each of them."""
    counts_tokens: bool = False
    """Whether replies have `usage_metadata`: each word counts as one token."""

    _inputs: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _bound_settings: list[dict[str, Any]] = PrivateAttr(default_factory=list)
    _tools: list[dict[str, Any]] = PrivateAttr(default_factory=list)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)

    @property
    def inputs(self) -> list[list[BaseMessage]]:
        """The messages of each call of the model."""
        return self._inputs

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools of the last `bind_tools`, in OpenAI's form: `{"type": "function", ...}`."""
        return self._tools

    @property
    def settings(self) -> list[dict[str, Any]]:
        """The bound settings of each call, such as `tool_choice`, without the tools."""
        return self._bound_settings

    @property
    def left_over(self) -> list[Any]:
        """The responses that no call has used; empty if the script is a function."""
        return [] if callable(self.responses) else self.responses[len(self._inputs) :]

    def assert_finished(self) -> None:
        """Check that no response is left over.

        Raises:
            ScriptError: Some are left; the error has their number, and shows the first.
        """
        if left := self.left_over:
            asked = len(self._inputs)
            raise ScriptError(
                f"{len(left)} of {asked + len(left)} responses are left over, the first is "
                f"{left[0]!r}, after {asked} calls; remove them, or call the model more often"
            )

    def bind_tools(
        self, tools: Sequence[Any], **kwargs: object
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools as every chat model does; only the script decides on calls.

        Args:
            tools: LangChain tools, functions, or dicts in OpenAI's form.
            **kwargs: Passed on to `bind`.

        Returns:
            The model with the tools; it shares its script and records with this one.
        """
        self._tools = [convert_to_openai_tool(tool) for tool in tools]
        return self.bind(tools=self._tools, **kwargs)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **settings: object,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages, settings))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **settings: object,
    ) -> Iterator[ChatGenerationChunk]:
        for message in _chunks(self._reply(messages, settings)):
            chunk = ChatGenerationChunk(message=message)
            if run_manager:
                run_manager.on_llm_new_token(str(message.text), chunk=chunk)
            yield chunk

    def _reply(self, messages: list[BaseMessage], settings: dict[str, object]) -> AIMessage:
        with self._lock:
            call = len(self._inputs)
            self._inputs.append(list(messages))
            self._bound_settings.append(
                {key: settings[key] for key in settings.keys() - {"tools", "stream"}}
            )
        if faults := pairing_faults(messages):
            raise ScriptError(
                f"input {call + 1} of the model is not a valid conversation: {'; '.join(faults)}"
            )
        reply = self._response(call, messages)
        if callable(reply):
            reply = reply(list(messages))
        if isinstance(reply, BaseException):
            raise reply
        if not isinstance(reply, str | AIMessage):
            if is_awaitable(reply):
                discard(reply)
            raise ScriptError(
                f"response {call + 1} of the script is {shown(reply)}; use a text, an AIMessage, an "
                "exception, or a function from the messages to one of these"
            )
        said = AIMessage(reply) if isinstance(reply, str) else reply.model_copy()
        if self.counts_tokens:
            said.usage_metadata = _usage(messages, said)
        return said

    def _response(self, call: int, messages: list[BaseMessage]) -> object:
        if callable(self.responses):
            return self.responses
        if call >= len(self.responses):
            raise ScriptError(
                f"the script has {len(self.responses)} responses, and this is call {call + 1}; the "
                f"last message sent is {messages[-1].text if messages else ''!r}"
            )
        return self.responses[call]


def _usage(messages: Sequence[BaseMessage], reply: AIMessage) -> UsageMetadata:
    sent, said = (sum(len(m.text.split()) for m in each) for each in (messages, [reply]))
    return UsageMetadata(input_tokens=sent, output_tokens=said, total_tokens=sent + said)


def pairing_faults(messages: Sequence[BaseMessage]) -> list[str]:
    """Return the mismatches of tool calls and results in `messages`; an empty list if all match.

    The tool messages directly after a message must answer each of its calls, including invalid ones,
    exactly once. Each tool message must answer a call.

    >>> pairing_faults([ToolMessage("3 hits", name="search", tool_call_id="1")])
    ["a result of 'search' answers call '1', which the message before does not make"]

    Args:
        messages: The messages for a model, the oldest first.
    """
    groups: list[tuple[Sequence[ToolCall | InvalidToolCall], list[ToolMessage]]] = [((), [])]
    for message in messages:
        if isinstance(message, ToolMessage):
            groups[-1][1].append(message)
        else:
            groups.append((calls_of(message), []))
    return [fault for group in groups if any(group) for fault in _faults(*group)]


def _faults(
    calls: Sequence[ToolCall | InvalidToolCall], results: Sequence[ToolMessage]
) -> Iterator[str]:
    made, answered = Counter(map(call_id, calls)), Counter(map(attrgetter("tool_call_id"), results))
    names = {result.tool_call_id: result.name for result in results}
    names |= {call_id(call): call["name"] for call in calls}
    for each, name in names.items():
        if not made[each]:
            yield f"a result of {name!r} answers call {each!r}, which the message before does not make"
        elif not answered[each]:
            yield f"call {each!r} of {name!r} is not answered by the tool messages directly after it"
        elif made[each] != answered[each]:
            yield f"call {each!r} of {name!r} is made {made[each]} and answered {answered[each]} times"


def call(name: str, id: str | None = None, /, **args: object) -> ToolCall:
    """Return a tool call for `calls`: `call("search", topic="bees")`.

    Args:
        name: The name of the tool.
        id: The id of the call; by default `calls` assigns one.
        **args: The arguments of the tool.
    """
    return ToolCall(name=name, args=args, id=id, type="tool_call")


def calls(*made: ToolCall, text: str = "") -> AIMessage:
    """Return a response that calls tools; calls without an id are numbered.

    >>> calls(call("search", topic="bees")).tool_calls[0]["id"]
    '1'

    Args:
        *made: The calls, each made by `call`.
        text: The text of the message.
    """
    named = [{**each, "id": each["id"] or str(nth)} for nth, each in enumerate(made, 1)]
    return AIMessage(text, tool_calls=named)


def transcript(events: Iterable[AgentEvent]) -> list[str]:
    """Return one line of text per event, without chunks.

    The texts may have control characters of a terminal, which `print_event` removes.

    ```
    transcript(runner.query("bees"))
    ['report/writer: A draft.', 'report/writer/critic: [break_loop]', 'report/boss: [asks] Print it?']
    ```

    Args:
        events: The events of `run`, `resume` or `events` of a runner.
    """
    return [f"{event.run_path}: {event_text(event)}" for event in events if not event.partial]


def _chunks(reply: AIMessage) -> Iterator[AIMessageChunk]:
    if isinstance(reply.content, str):
        for word in re.findall(r"\s*\S+\s*|\s+", reply.content):
            yield AIMessageChunk(content=word, id=reply.id)
    else:
        yield AIMessageChunk(content=reply.content, id=reply.id)
    for index, call in enumerate([*reply.tool_calls, *reply.invalid_tool_calls]):
        args = call["args"] if isinstance(call["args"], str) else json.dumps(call["args"])
        half = len(args) // 2
        head = tool_call_chunk(name=call["name"], args=args[:half], id=call["id"], index=index)
        tail = tool_call_chunk(args=args[half:], index=index)
        yield AIMessageChunk(content="", tool_call_chunks=[head], id=reply.id)
        yield AIMessageChunk(content="", tool_call_chunks=[tail], id=reply.id)
    yield AIMessageChunk(
        content="",
        id=reply.id,
        additional_kwargs=reply.additional_kwargs,
        response_metadata=reply.response_metadata,
        usage_metadata=reply.usage_metadata,
        chunk_position="last",
    )
