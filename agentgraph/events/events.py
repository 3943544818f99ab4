"""Agent events: what agents do, as frozen values with a JSON and a server-sent form.

An event has one of `output`, `action` and `error`, and `kind` says which. It is the same live and told
again from a saver, so it may hold whatever LangGraph's savers keep; two are equal if all they say is.
"""

import json
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from langchain_core.messages import BaseMessage

from agentgraph.agents.run_path import RunPath, RunStep
from agentgraph.events.json_forms import as_json, from_json, message_as_json, message_from_json
from agentgraph.safe_repr import cut

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
        discarded: The ids, or the `step`s, of events that were told before and are void: what a
            retry, a fallback or a correction has thrown away, what a step had told that did not end,
            what the loser of a race said, a question that nobody has to answer any more.
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
        turn: The turn of the thread in which it happened, from 0.
        step: The step of the graph that told it: the id of LangGraph's checkpoint behind which that
            ran, a colon, and the name of its node. What was told in a step that was cut short is
            `discarded` under this name.
        time: When it happened, in seconds since 1970, as `time.time()` counts; the same live and told
            again, and later than all that the thread told before.
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
    time: float | None = None

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
        tuple is `{"$agentgraph": ["tuple", [...]]}`, a dict with other keys than texts is
        `{"$agentgraph": ["items", [[key, value], ...]]}`. So are sets, dates and times, UUIDs,
        decimals, paths, addresses, LangChain's messages, and numbers that are not finite or have
        more than 64 bits. A pydantic model or a dataclass is told as an object of its fields, and
        anything else as a text; neither is made again.
        """
        output = self.output and replace(self.output, message=None)
        plain = replace(self, run_path=RunPath(), output=output)
        told = {each.name: as_json(getattr(plain, each.name)) for each in fields(self)}
        told["run_path"] = [[as_json(step.agent_name), step.iteration] for step in self.run_path]
        if self.message is not None:
            told["output"]["message"] = message_as_json(self.message)
        if self.action is not None:
            told["action"]["discarded"] = [*map(as_json, self.action.discarded)]
        return told

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "AgentEvent":
        """Return the event that `to_dict` told.

        >>> (event,) = Runner(function_agent("writer", lambda ctx: "A draft.")).query("Go.")
        >>> AgentEvent.from_dict(json.loads(json.dumps(event.to_dict()))) == event
        True

        Args:
            data: What `to_dict` gave, also by way of JSON. No types of yours are made from it.
        """
        output, action = data.get("output"), from_json(data.get("action"))
        made = from_json({**data, "run_path": None, "output": None, "action": None})
        made["run_path"] = RunPath(RunStep(from_json(name), i) for name, i in data["run_path"])
        if output is not None:
            message = output["message"] and message_from_json(output["message"])
            made["output"] = Output(**{**from_json({**output, "message": None}), "message": message})
        if action is not None:
            asked = action["interrupted"] and Interrupt(**action["interrupted"])
            discarded = tuple(action["discarded"])
            made["action"] = Action(**{**action, "interrupted": asked, "discarded": discarded})
        return cls(**made)

    def to_sse(self) -> str:
        r"""Return the event as a server-sent event: `event: message\nid: ...\ndata: {...}\n\n`.

        Its name is the event's `kind`, or "partial" for a chunk; its data that of `to_dict`.
        """
        kind = "partial" if self.partial else self.kind
        line_id = cut(" ".join(self.id.splitlines()), len(self.id))
        return f"event: {kind}\nid: {line_id}\ndata: {json.dumps(self.to_dict())}\n\n"
