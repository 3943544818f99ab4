"""Translates agent events to AG-UI events, as pure functions."""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, overload

from ag_ui.core import (
    PROTOCOL_VERSION,
    BaseEvent,
    CustomEvent,
    Interrupt,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    TokenUsage,
    aggregate_token_usage,
    token_usage_from_langchain_metadata,
)
from langchain_core.messages import AIMessage

from agentgraph.agui.conversation import Conversation
from agentgraph.agui.messages import Messages, metadata_of, time_of
from agentgraph.agui.plain import plain, plain_text
from agentgraph.agui.questions import as_interrupt, frontend_call
from agentgraph.agui.steps import Steps
from agentgraph.events.events import AgentEvent
from agentgraph.events.events import Interrupt as Question
from agentgraph.graph.values import OVERWRITE, is_deletion
from agentgraph.safe_repr import error_text


class Translator:
    """Emits one run to an AG-UI client: `started`, then `event` for each event, then its end.

    Args:
        run_input: The input of the run, from the client.
        merged: The names of values that a reducer merges. A written value is not their final value, so
            only the state at the end contains it.
    """

    def __init__(self, run_input: RunAgentInput, merged: AbstractSet[str] = frozenset()) -> None:
        self._input, self._merged = run_input, merged
        self._messages = Messages(Conversation(run_input.messages))
        self._steps = Steps()
        self._asked: dict[str, tuple[AgentEvent, Question]] = {}
        self._calls: dict[str, list[dict[str, object]]] = {}
        self._usage: list[TokenUsage] = []
        state = run_input.state
        self._state: dict[str, object] | None = dict(state) if isinstance(state, dict) else None

    @property
    def asks(self) -> bool:
        """Whether questions are pending."""
        return bool(self._asked)

    def wait_for(self, questions: Iterable[Question]) -> None:
        """Forget the questions that are not among those that wait: they have answers."""
        ids = {each.id for each in questions}
        self._asked = {key: each for key, each in self._asked.items() if key in ids}

    def started(self) -> Iterator[BaseEvent]:
        """Yield the first event."""
        yield RunStartedEvent(
            thread_id=self._input.thread_id,
            run_id=self._input.run_id,
            parent_run_id=self._input.parent_run_id,
            protocol_version=PROTOCOL_VERSION,
        )

    def snapshot(self) -> BaseEvent:
        """Return all messages of the conversation."""
        return self._messages.snapshot()

    def event(self, event: AgentEvent) -> Iterator[BaseEvent]:
        """Yield the AG-UI events of an agent event."""
        if event.kind == "discarded":
            yield from self._discarded(event)
            return
        is_reply = isinstance(event.message, AIMessage)
        yield from map(_finished, self._ended_by(event, is_reply))
        for name in self._steps.begun_by(event.address, event.run_path):
            yield StepStartedEvent(step_name=name, timestamp=time_of(event))
        yield from self._content(event)
        if event.kind == "error":
            yield from map(_finished, self._steps.ended(event.address))

    def finished(self, values: Mapping[str, object] | None = None) -> Iterator[BaseEvent]:
        """Yield the end of a run that did not fail.

        Args:
            values: The values of the thread, if known.
        """
        yield from self._end_all()
        questions = [each for each in self._asked.values() if frontend_call(each[1].value) is None]
        state = self._state if values is None else dict(values)
        if state is not None and (questions or state != (self._state or {})):
            yield StateSnapshotEvent(snapshot=state)
        outcome: RunFinishedSuccessOutcome | RunFinishedInterruptOutcome = RunFinishedSuccessOutcome()
        if questions:
            yield self._messages.snapshot()
            interrupts = [self._interrupt(*each) for each in questions]
            outcome = RunFinishedInterruptOutcome(interrupts=interrupts)
        elif self._asked:
            asked = [(question, frontend_call(question.value)) for _, question in self._asked.values()]
            ids = [self._messages.sent_call(call["id"], q.address) for q, call in asked if call]
            outcome = RunFinishedSuccessOutcome(pending_tool_call_ids=ids)
        yield RunFinishedEvent(
            thread_id=self._input.thread_id,
            run_id=self._input.run_id,
            outcome=outcome,
            usage=self._usage_of_run(),
        )

    def failed(self, error: Exception) -> Iterator[BaseEvent]:
        """Yield the end of a run that failed."""
        yield from self._end_all()
        yield RunErrorEvent(
            message=plain_text(error_text(error)), code=type(error).__name__, usage=self._usage_of_run()
        )

    def _content(self, event: AgentEvent) -> Iterator[BaseEvent]:
        message, action = event.message, event.action
        if message is not None:
            if event.partial:
                yield from self._messages.chunk(event, message)
            else:
                self._note(event, message)
                yield from self._messages.whole(event, message)
        elif action is not None and action.interrupted is not None:
            self._asked[action.interrupted.id] = (event, action.interrupted)
            if frontend_call(action.interrupted.value) is None:
                asked = self._interrupt(event, action.interrupted).model_dump(by_alias=True)
                yield _custom(event, interrupt=plain(asked))
        elif action is not None and action.values is not None:
            yield from self._written(event, action.values)
        else:
            yield _custom(event, **_data(event), **self._call_of(event))

    def _call_of(self, event: AgentEvent) -> dict[str, object]:
        if (call := event.call) is None:
            return {}
        sent = self._messages.call_around(call.id, event.address)
        return {"call": plain(call._asdict()), "tool_call_id": plain_text(sent)}

    def _note(self, event: AgentEvent, message: object) -> None:
        if not isinstance(message, AIMessage):
            return
        self._calls[event.address] = [dict(call) for call in message.tool_calls]
        about = message.response_metadata
        usage = token_usage_from_langchain_metadata(
            event.usage, provider=about.get("model_provider"), model=about.get("model_name")
        )
        if usage is not None:
            self._usage.append(usage)

    def _written(self, event: AgentEvent, values: Mapping[str, Any]) -> Iterator[BaseEvent]:
        state, patch = dict(self._state or {}), list[dict[str, object]]()
        for name, value in values.items():
            path = "/" + name.replace("~", "~0").replace("/", "~1")
            if is_deletion(value):
                if name in state and name not in self._merged:
                    del state[name]
                    patch.append({"op": "remove", "path": path})
                continue
            overwrites = isinstance(value, dict) and value.keys() == {OVERWRITE}
            if name in self._merged and not overwrites:
                continue
            state[name] = plain(value[OVERWRITE] if overwrites else value)
            patch.append({"op": "add", "path": path, "value": state[name]})
        if self._state is None and patch:
            yield StateSnapshotEvent(snapshot=dict(state), timestamp=time_of(event))
        elif patch:
            data = {"delta": patch, "timestamp": time_of(event), "metadata": metadata_of(event)}
            yield StateDeltaEvent.model_validate(data)
        self._state = state if patch else self._state

    def _discarded(self, event: AgentEvent) -> Iterator[BaseEvent]:
        names = frozenset(event.action.discarded if event.action else ())
        self._asked = {
            key: (asked, question)
            for key, (asked, question) in self._asked.items()
            if key not in names and asked.step not in names
        }
        yield from self._messages.discard(names)
        yield _custom(event, ids=sorted(map(plain_text, names)))

    def _ended_by(self, event: AgentEvent, is_reply: bool) -> list[str]:
        return self._steps.ended_by(event.address, event.run_path, is_message=is_reply)

    def _end_all(self) -> Iterator[BaseEvent]:
        yield from self._messages.end()
        yield from map(_finished, self._steps.ended())

    def _interrupt(self, event: AgentEvent, question: Question) -> Interrupt:
        interrupt = as_interrupt(question, self._calls.get(event.address, ()))
        if interrupt.tool_call_id:
            sent = self._messages.sent_call(interrupt.tool_call_id, event.address)
            interrupt = interrupt.model_copy(update={"tool_call_id": sent})
        return interrupt

    def _usage_of_run(self) -> list[TokenUsage] | None:
        return aggregate_token_usage(self._usage) or None


def _finished(name: str) -> BaseEvent:
    return StepFinishedEvent(step_name=name)


def _data(event: AgentEvent) -> dict[str, object]:
    action = event.action
    if event.error is not None:
        return {"error": plain_text(event.error)}
    if event.output is not None:
        return {"data": plain(event.output.custom)}
    if action is None or event.kind in ("exit", "break_loop"):
        return {}
    if action.transfer_to is not None:
        return {"transfer_to": action.transfer_to}
    if action.default is not None:
        return {"default": plain(action.default)}
    return {"chosen": action.chosen} if action.chosen is not None else {"data": plain(action.custom)}


def _custom(event: AgentEvent, **data: object) -> CustomEvent:
    value = {"agent_name": event.agent_name, "address": event.address, **data}
    return CustomEvent(
        name=f"agentgraph.{event.kind}",
        value=value,
        timestamp=time_of(event),
        metadata=metadata_of(event),
    )


@overload
def events(
    agent_events: AsyncIterable[AgentEvent], run_input: RunAgentInput
) -> AsyncIterator[BaseEvent]: ...
@overload
def events(agent_events: Iterable[AgentEvent], run_input: RunAgentInput) -> Iterator[BaseEvent]: ...
def events(
    agent_events: Iterable[AgentEvent] | AsyncIterable[AgentEvent], run_input: RunAgentInput
) -> Iterator[BaseEvent] | AsyncIterator[BaseEvent]:
    """Yield the AG-UI events of one run from agent events.

    Use it for events of other sources than `arun`, such as those of `rewind`, or of a replayed thread.
    It knows neither the thread nor the tree. So a value with a reducer is emitted as it was written,
    and the state is not emitted again at the end.

    >>> runner = Runner(function_agent("writer", lambda ctx: "A draft."))
    >>> sent = events(runner.query("Go."), RunAgentInput(thread_id="t", run_id="r", messages=[]))
    >>> [event.type.value for event in sent][1:4]
    ['STEP_STARTED', 'TEXT_MESSAGE_START', 'TEXT_MESSAGE_CONTENT']

    Args:
        agent_events: The events, sync or async, with chunks or without.
        run_input: Names the thread and the run. Its messages and state are in the client already, so
            they are not emitted again.

    Returns:
        An iterator, async if `agent_events` is. An exception of `agent_events` becomes a `RUN_ERROR`.
    """
    translator = Translator(run_input)
    if isinstance(agent_events, AsyncIterable) and not isinstance(agent_events, Iterator):
        return _atranslated(agent_events, translator)
    return _translated(agent_events, translator)


def _translated(agent_events: Iterable[AgentEvent], translator: Translator) -> Iterator[BaseEvent]:
    yield from translator.started()
    try:
        for event in agent_events:
            yield from translator.event(event)
    except Exception as error:
        yield from translator.failed(error)
    else:
        yield from translator.finished()


async def _atranslated(
    agent_events: AsyncIterable[AgentEvent], translator: Translator
) -> AsyncIterator[BaseEvent]:
    for sent in translator.started():
        yield sent
    try:
        async for event in agent_events:
            for sent in translator.event(event):
                yield sent
    except Exception as error:
        for sent in translator.failed(error):
            yield sent
    else:
        for sent in translator.finished():
            yield sent
