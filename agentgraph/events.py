"""Agent events: what agents do, as frozen values with a JSON and a server-sent form."""

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any, Literal

from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from pydantic_core import to_jsonable_python

from agentgraph.run_path import RunPath, RunStep
from agentgraph.shown import cut, shown

_OURS = "$agentgraph"
"""The only key of an object that stands for something which JSON lacks."""
_PLAIN = (str, int, float, bool, type(None))

Kind = Literal[
    "message",
    "custom",
    "exit",
    "break_loop",
    "transfer_to",
    "interrupted",
    "discarded",
    "action",
    "error",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupt:
    """A question that waits for an answer.

    It is LangGraph's `Interrupt`, with who asks: `runner.resume(thread_id, {question.id: answer})`.

    Attributes:
        id: What answers name it by; the same across processes and resumes.
        address: The activation that asks, such as `report/boss`; answers may name it by this, too.
        agent_name: The agent that asks.
        value: What is asked, as plain data; of a tool call that a person must approve in the shape
            of LangChain's human-in-the-loop middleware.
        response_schema: The JSON schema that an answer must fit, if there is one.
    """

    id: str
    address: str
    agent_name: str
    value: Any
    response_schema: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What an agent said: a message, or data of its own.

    `output.message.text` is `event.text`, `output.partial` is `event.partial`.

    Attributes:
        message: The LangChain message; a chunk of one where `partial` is true.
        custom: The data of `Custom(data)`, where there is no message.
        partial: Whether this is a streamed chunk; the whole message follows under the same id.
    """

    message: BaseMessage | None = None
    custom: Any = None
    partial: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What an agent did besides speaking; one of these, which `event.kind` names.

    Attributes:
        exit: It ended the run.
        break_loop: It ended the nearest loop.
        transfer_to: The agent that it handed over to.
        interrupted: The question that it asked.
        discarded: The ids of messages, whole ones or chunks, that were told and are void: a retry,
            a fallback or a correction has thrown them away.
        custom: Data of an action of one's own.
    """

    exit: bool = False
    break_loop: bool = False
    transfer_to: str | None = None
    interrupted: Interrupt | None = None
    discarded: tuple[str, ...] = ()
    custom: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEvent:
    """Something that one agent did at one point of a run; one of `output`, `action` and `error`.

    >>> writer = function_agent("writer", lambda ctx: "A draft.")
    >>> (event,) = Runner(loop("refine", [writer], max_iterations=1)).query("Go.")
    >>> event.agent_name, event.kind, event.text
    ('writer', 'message', 'A draft.')
    >>> event.address, event.run_path
    ('refine[0]/writer', RunPath('refine/writer'))

    Attributes:
        agent_name: The agent.
        run_path: How the run got there: finished siblings and earlier iterations included.
        address: The place of the activation, unique in a run: `report/refine[1]/critic` is the agent
            `critic` in the second iteration of the loop `refine`.
        output: What it said, if this is what happened.
        action: What it did, if this is what happened.
        error: The `repr` of the exception that it failed with, if this is what happened.
        id: The event's id; that of its message or question, if it has one.
        thread_id: The thread, if the run has one.
    """

    agent_name: str
    run_path: RunPath
    address: str
    output: Output | None = None
    action: Action | None = None
    error: str | None = None
    id: str
    thread_id: str | None = None

    @property
    def message(self) -> BaseMessage | None:
        """The message that was said, if one was."""
        return self.output.message if self.output else None

    @property
    def text(self) -> str:
        """The text of the message; empty where there is none."""
        return str(self.message.text) if self.message else ""

    @property
    def partial(self) -> bool:
        """Whether this is a streamed chunk of a message."""
        return self.output is not None and self.output.partial

    @property
    def kind(self) -> Kind:
        """What happened, in a word: "message", or another one of `Kind`.

        Of what agents say it is "message" or "custom", of what they do "exit", "break_loop",
        "transfer_to", "interrupted", "discarded", or "action" for one of your own; else "error".
        """
        if self.error is not None:
            return "error"
        if self.output is not None:
            return "custom" if self.output.message is None else "message"
        action = self.action or Action()
        if action.interrupted is not None:
            return "interrupted"
        if action.transfer_to is not None:
            return "transfer_to"
        if action.discarded:
            return "discarded"
        return "exit" if action.exit else "break_loop" if action.break_loop else "action"

    def to_dict(self) -> dict[str, Any]:
        """Return the event as JSON data, from which `from_dict` makes it again.

        Its keys are those of the event's attributes. The run path is a list of
        `[agent_name, iteration]`, and a message has LangChain's form `{"type": ..., "data": ...}`.
        What JSON lacks is under a key of ours: bytes are `{"$agentgraph": ["bytes", "<base64>"]}`, a
        number that is not finite is `{"$agentgraph": ["float", "nan"]}`.
        """
        output, action = self.output, self.action
        return {
            "agent_name": self.agent_name,
            "run_path": [[step.agent_name, step.iteration] for step in self.run_path],
            "address": self.address,
            "output": output
            and {
                "message": output.message and _as_json(message_to_dict(output.message)),
                "custom": _as_json(output.custom),
                "partial": output.partial,
            },
            "action": action and _as_json(action),
            "error": self.error,
            "id": self.id,
            "thread_id": self.thread_id,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "AgentEvent":
        """Return the event that `to_dict` told.

        >>> (event,) = Runner(function_agent("writer", lambda ctx: "A draft.")).query("Go.")
        >>> AgentEvent.from_dict(json.loads(json.dumps(event.to_dict()))) == event
        True

        Args:
            data: What `to_dict` gave, also by way of JSON.
        """
        output, action = _from_json(data["output"]), _from_json(data["action"])
        return cls(
            **{
                **data,
                "run_path": RunPath(RunStep(name, i) for name, i in data["run_path"]),
                "output": output
                and Output(
                    **{
                        **output,
                        "message": output["message"] and messages_from_dict([output["message"]])[0],
                    }
                ),
                "action": action
                and Action(
                    **{
                        **action,
                        "interrupted": action["interrupted"] and Interrupt(**action["interrupted"]),
                        "discarded": tuple(action["discarded"]),
                    }
                ),
            }
        )

    def to_sse(self) -> str:
        r"""Return the event as a server-sent event: `event: message\nid: ...\ndata: {...}\n\n`.

        Its name is the event's `kind`, or "partial" for a chunk; its data that of `to_dict`.
        """
        kind = "partial" if self.partial else self.kind
        line_id = cut(" ".join(self.id.splitlines()), len(self.id))
        return f"event: {kind}\nid: {line_id}\ndata: {json.dumps(self.to_dict())}\n\n"


def _as_json(value: Any) -> Any:
    """Return a value as JSON data, from which `_from_json` makes it again; objects by pydantic."""
    match value:
        case dict():
            told = {str(key): _as_json(each) for key, each in value.items()}
            return {_OURS: ["dict", told]} if _OURS in told else told
        case list() | tuple():
            return [_as_json(each) for each in value]
        case bytes() | bytearray():
            return {_OURS: ["bytes", b64encode(value).decode()]}
        case float() if not isfinite(value):
            return {_OURS: ["float", repr(float(value))]}
        case Action() | Interrupt():
            return {field.name: _as_json(getattr(value, field.name)) for field in fields(value)}
        case _ if type(value) in _PLAIN:
            return value
    try:
        return _as_json(to_jsonable_python(value, fallback=str, bytes_mode="base64"))
    except Exception:
        return shown(value)


def _from_json(value: Any) -> Any:
    match value:
        case {"$agentgraph": ["bytes", str(text)], **others} if not others:
            return b64decode(text)
        case {"$agentgraph": ["float", str(text)], **others} if not others:
            return float(text)
        case {"$agentgraph": ["dict", dict(told)], **others} if not others:
            return {key: _from_json(each) for key, each in told.items()}
        case dict():
            return {key: _from_json(each) for key, each in value.items()}
        case list():
            return [_from_json(each) for each in value]
    return value
