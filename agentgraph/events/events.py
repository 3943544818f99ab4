"""Agent events: frozen values with a JSON form and a server-sent form.

An event has exactly one of `output`, `action` and `error`; `kind` names the kind. An event that is
replayed from a checkpointer equals the one that was streamed, so it may hold any value that LangGraph's
savers can store.

The JSON form of an event as types, from which pydantic and FastAPI take its schema.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Literal, NotRequired

from langchain_core.messages import BaseMessage
from langchain_core.messages.ai import UsageMetadata
from pydantic import ConfigDict, GetCoreSchemaHandler, ValidatorFunctionWrapHandler, with_config
from pydantic_core import CoreSchema, core_schema
from typing_extensions import TypedDict

from agentgraph.agents.costs import reported
from agentgraph.agents.habits.names import hints_names
from agentgraph.agents.run_path import RunPath, RunStep
from agentgraph.events.json_forms import as_json, from_json, message_as_json, message_from_json
from agentgraph.graph.stamps import EventCall
from agentgraph.safe_repr import cut, reason

_keeps_further_keys = with_config(ConfigDict(extra="allow"))


@_keeps_further_keys
class MessageData(TypedDict):
    """A message in LangChain's form: `type` is "ai", "tool", ..., `data` has its fields."""

    type: str
    data: dict[str, Any]


@_keeps_further_keys
class OutputData(TypedDict):
    """The output of an agent; see `Output`."""

    message: MessageData | None
    custom: Any
    partial: bool


@_keeps_further_keys
class InterruptData(TypedDict):
    """A question; see `Interrupt`."""

    id: str
    address: str
    agent_name: str
    value: Any
    response_schema: dict[str, Any] | None
    deadline: NotRequired[float | None]


@_keeps_further_keys
class DefaultData(TypedDict):
    """A default that became the answer; see `DefaultAnswer`."""

    id: str
    answer: Any
    deadline: float


@_keeps_further_keys
class ActionData(TypedDict):
    """An action of an agent; see `Action`."""

    exit: bool
    break_loop: bool
    transfer_to: str | None
    chosen: NotRequired[str | None]
    values: NotRequired[dict[str, Any] | None]
    interrupted: InterruptData | None
    default: NotRequired[DefaultData | None]
    discarded: list[str]
    custom: Any


@_keeps_further_keys
class CallData(TypedDict):
    """A tool call; see `EventCall`."""

    message: int
    place: int
    id: str


@_keeps_further_keys
class AgentEventData(TypedDict):
    """The form of `AgentEvent.to_dict`; the run path is a list of `[agent_name, iteration]`."""

    agent_name: str
    run_path: list[list[str | int | None]]
    address: str
    output: NotRequired[OutputData | None]
    action: NotRequired[ActionData | None]
    error: NotRequired[str | None]
    id: str
    thread_id: NotRequired[str | None]
    turn: NotRequired[int | None]
    step: NotRequired[str | None]
    cursor: NotRequired[str | None]
    time: NotRequired[float | None]
    call: NotRequired[CallData | None]


Kind = Literal[
    "message",
    "custom",
    "exit",
    "break_loop",
    "transfer_to",
    "chosen",
    "values",
    "interrupted",
    "default",
    "discarded",
    "action",
    "error",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupt:
    """A question that waits for an answer.

    It is LangGraph's `Interrupt` and the agent that asks. Answer it with
    `runner.resume(thread_id, {question.id: answer})`.

    Attributes:
        id: The id by which it is answered; the same across processes and resumes.
        address: The activation that asks, such as `report/boss`; answers may use it as a key too.
        agent_name: The agent that asks.
        value: The question, as plain data. For a tool call that needs approval it has the form of
            LangChain's human-in-the-loop middleware.
        response_schema: The JSON schema that an answer must fit, if there is one.
        deadline: Until when an answer counts, in seconds since 1970; None if it waits as long as it
            takes. It stays the same when a resume asks again under the same id.
    """

    id: str
    address: str
    agent_name: str
    value: Any
    response_schema: dict[str, Any] | None = None
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class DefaultAnswer:
    """The answer to a question whose deadline has passed: its `default`.

    Attributes:
        id: The id of the question.
        answer: The default, as plain data.
        deadline: When the time was over, in seconds since 1970.
    """

    id: str
    answer: Any
    deadline: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The output of an agent: a message, or custom data.

    `output.message.text` is `event.text`, `output.partial` is `event.partial`.

    Attributes:
        message: The LangChain message; a chunk of one where `partial` is true.
        custom: The data of `Custom(data)`, if there is no message.
        partial: Whether this is a streamed chunk; the complete message follows under the same id.
    """

    message: BaseMessage | None = None
    custom: Any = None
    partial: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An action of an agent; exactly one attribute is set, and `event.kind` names it.

    Attributes:
        exit: The agent ended the run.
        break_loop: The agent ended the nearest loop.
        transfer_to: The name of the agent that continues after a transfer.
        chosen: The choice of a switch: the name of an agent, or "skip", "break_loop" or "exit".
        values: The values of the run that the agent's function, tool or graph wrote, by name, before
            reducers: a deletion is `DELETE`, an `Overwrite` has its plain form. Names that start with
            "_" and names declared `LOCAL` are left out.
        interrupted: The question that the agent asked.
        default: The default that became the answer to its question, because no person answered in time.
        discarded: The `id` or `step` values of earlier events that no longer count: output dropped by a
            retry, a fallback or a correction, events of a step that did not finish or of a losing
            branch, or a question that no longer needs an answer.
        custom: Data of a custom action.
    """

    exit: bool = False
    break_loop: bool = False
    transfer_to: str | None = None
    chosen: str | None = None
    values: Mapping[str, Any] | None = None
    interrupted: Interrupt | None = None
    default: DefaultAnswer | None = None
    discarded: tuple[str, ...] = ()
    custom: Any = None


@hints_names("AgentEvent")
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEvent:
    """An event of one agent in a run: exactly one of `output`, `action` and `error` is set.

    >>> writer = function_agent("writer", lambda ctx: "A draft.")
    >>> (event,) = Runner(loop("refine", [writer], max_iterations=1)).query("Go.")
    >>> event.agent_name, event.kind, event.text
    ('writer', 'message', 'A draft.')
    >>> event.address, event.run_path
    ('refine[0]/writer', RunPath('refine/writer'))

    It can be a field of a pydantic model, or the argument and result of a FastAPI endpoint: its JSON
    form is that of `to_dict`, and has a schema.

    Attributes:
        agent_name: The agent.
        run_path: The path of the run to the agent, with finished siblings and earlier iterations.
        address: The activation, unique in a run: `report/refine[1]/critic` is the agent `critic` in
            the second iteration of the loop `refine`.
        output: The message or custom data, if the event is an output.
        action: The action, if the event is one.
        error: The `repr` of the exception, if the agent failed.
        id: The id of the message or question, or else the event's own id.
        thread_id: The thread, if the run has one.
        turn: The turn of the thread, from 0.
        step: The step of the graph that emitted the event: the id of the LangGraph checkpoint that the
            step started from, a colon, and the name of the node. A `discarded` event may name a
            step, which discards all events of that step.
        cursor: The position in the stream of the thread: a text that is greater, as texts compare, than
            the cursors of all earlier events, including those of other runs on the thread. A replayed
            event has its original cursor. Ids cannot order events: chunks share the id of their
            message, and a question that is asked again keeps its id.
        time: The time of the event, in seconds since 1970, like `time.time()`. A replayed event has its
            original time, which is later than the times of all earlier events of the thread.
        call: The tool call in which custom data was emitted, which distinguishes calls of one message:
            the call of the chat agent at `address`, or else the call that runs an agent as a
            tool. The innermost call counts. None for all other events, for data that no tool emitted,
            and for data of tools inside a LangGraph graph.
    """

    agent_name: str
    run_path: RunPath
    address: str
    output: Output | None = None
    action: Action | None = None
    error: str | None = None
    id: str
    thread_id: str | None = None
    turn: int | None = None
    step: str | None = None
    cursor: str | None = None
    time: float | None = None
    call: EventCall | None = None

    @property
    def message(self) -> BaseMessage | None:
        """The message of the output, if it has one."""
        return self.output.message if self.output else None

    @property
    def text(self) -> str:
        """The text of the message; empty if there is no message."""
        return str(self.message.text) if self.message else ""

    @property
    def reasoning(self) -> str:
        """The reasoning that the model sent with the message; empty if there is none."""
        blocks = self.message.content_blocks if self.message else []
        return "".join(str(each.get("reasoning", "")) for each in blocks if each["type"] == "reasoning")

    @property
    def usage(self) -> UsageMetadata | None:
        """LangChain's token usage of the message; None if the model reported none."""
        usage: UsageMetadata | None = reported(getattr(self.message, "usage_metadata", None))
        return usage

    @property
    def partial(self) -> bool:
        """Whether this is a streamed chunk of a message."""
        return self.output is not None and self.output.partial

    @property
    def kind(self) -> Kind:
        """The kind of the event, one of `Kind`.

        An output is a "message" or "custom". An action is an "exit", "break_loop", "transfer_to",
        "chosen", "values", "interrupted", "default", "discarded", or "action" if it is a custom one.
        A failure is an "error".
        """
        if self.error is not None:
            return "error"
        if self.output is not None:
            return "custom" if self.output.message is None else "message"
        action = self.action or Action()
        if action.interrupted is not None:
            return "interrupted"
        if action.default is not None:
            return "default"
        if action.transfer_to is not None:
            return "transfer_to"
        if action.chosen is not None:
            return "chosen"
        if action.values is not None:
            return "values"
        if action.discarded:
            return "discarded"
        return "exit" if action.exit else "break_loop" if action.break_loop else "action"

    def to_dict(self) -> dict[str, Any]:
        """Return the event as JSON data, which `from_dict` converts back.

        The keys are the event's attributes, without `call` if it is None. The run path is a list of
        `[agent_name, iteration]`, and a message has LangChain's form `{"type": ..., "data": ...}`.
        Types unknown to JSON are encoded under the key "$agentgraph": bytes as
        `{"$agentgraph": ["bytes", "<base64>"]}`, a tuple as `{"$agentgraph": ["tuple", [...]]}`, a
        dict with keys that are not strings as `{"$agentgraph": ["items", [[key, value], ...]]}`;
        likewise sets, dates and times, UUIDs, decimals, paths, IP addresses, LangChain's messages, and
        numbers that are not finite or do not fit into 64 bits. A pydantic model or a dataclass becomes
        an object of its fields, and any other value a string; `from_dict` does not convert these back.
        """
        return event_as_json(self, [step_as_json(step) for step in self.run_path])

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "AgentEvent":
        """Return the event of the data of `to_dict`.

        >>> (event,) = Runner(function_agent("writer", lambda ctx: "A draft.")).query("Go.")
        >>> AgentEvent.from_dict(json.loads(json.dumps(event.to_dict()))) == event
        True

        Args:
            data: The result of `to_dict`, possibly after a round trip through JSON. It never creates
                objects of users' classes.
        """
        output, action = data.get("output"), from_json(data.get("action"))
        made = from_json({**data, "run_path": None, "output": None, "action": None})
        made["run_path"] = RunPath(RunStep(from_json(name), i) for name, i in data["run_path"])
        if output is not None:
            message = output["message"] and message_from_json(output["message"])
            made["output"] = Output(**{**from_json({**output, "message": None}), "message": message})
        if action is not None:
            asked = action["interrupted"] and Interrupt(**action["interrupted"])
            default = action.get("default") and DefaultAnswer(**action["default"])
            rest = {"default": default, "discarded": tuple(action["discarded"])}
            made["action"] = Action(**{**action, "interrupted": asked, **rest})
        if (call := made.get("call")) is not None:
            made["call"] = EventCall(**call)
        return cls(**made)

    def to_sse(self) -> str:
        r"""Return the event as a server-sent event: `event: message\nid: ...\ndata: {...}\n\n`.

        The event field is `kind`, or "partial" for a chunk. The id is `cursor`, so that a browser that
        reconnects names its position. The data is the result of `to_dict`.
        """
        kind = "partial" if self.partial else self.kind
        at = cut(" ".join((self.cursor or "").splitlines()), len(self.cursor or ""))
        line_id = f"id: {at}\n" if at else ""
        return f"event: {kind}\n{line_id}data: {json.dumps(self.to_dict())}\n\n"

    @classmethod
    def __get_pydantic_core_schema__(cls, _: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Have pydantic validate events by `from_dict` and serialize them by `to_dict`."""
        data = handler.generate_schema(AgentEventData)
        to_dict = core_schema.plain_serializer_function_ser_schema(cls.to_dict, return_schema=data)
        return core_schema.no_info_wrap_validator_function(_validated, data, serialization=to_dict)


_ALWAYS = [each.name for each in fields(AgentEvent) if each.name != "call"]
"""The keys that the JSON data of every event have."""
_WHOLE = [name for name in _ALWAYS if name not in ("run_path", "output", "action")]
"""Those whose values are not converted part by part."""
_values_of = attrgetter(*_WHOLE)


def event_as_json(event: AgentEvent, run_path: object) -> dict[str, Any]:
    """Return an event as `AgentEvent.to_dict` does, with this form of its run path."""
    data: dict[str, Any] = dict.fromkeys(_ALWAYS)
    data.update(zip(_WHOLE, map(as_json, _values_of(event)), strict=True))
    data["run_path"] = run_path
    if event.call is not None:
        data["call"] = as_json(event.call._asdict())
    if event.output is not None:
        message = event.message and message_as_json(event.message)
        custom, partial = as_json(event.output.custom), as_json(event.output.partial)
        data["output"] = {"message": message, "custom": custom, "partial": partial}
    if event.action is not None:
        data["action"] = as_json(event.action)
        data["action"]["discarded"] = [*map(as_json, event.action.discarded)]
    return data


def step_as_json(step: RunStep) -> list[Any]:
    """Return a step of a run path as JSON data."""
    return [as_json(step.agent_name), step.iteration]


def _validated(value: object, validate: ValidatorFunctionWrapHandler) -> AgentEvent:
    """Return an event from itself or its JSON form; raise a `ValueError` if it does not fit."""
    if isinstance(value, AgentEvent):
        return value
    data = validate(value)
    try:
        return AgentEvent.from_dict(data)
    except Exception as error:
        raise ValueError(
            f"the data is not an AgentEvent: {reason(error)}; pass the result of AgentEvent.to_dict"
        ) from error
