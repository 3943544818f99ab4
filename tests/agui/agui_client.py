"""A client of AG-UI: posts run inputs, checks what comes, and keeps messages and state as browsers do.

The rules are those of the official client's verifier: what opens and closes in which order. Each event
must have the protocol's form. What is shown is kept as its reducer keeps it.
"""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any

import httpx
import jsonpatch
from ag_ui.core import Event
from pydantic import TypeAdapter

_EVENT: TypeAdapter[Any] = TypeAdapter(Event)
_OPENS = {"TEXT_MESSAGE_START", "TOOL_CALL_START", "REASONING_START", "REASONING_MESSAGE_START"}
_GOES_ON = {"TEXT_MESSAGE_CONTENT", "TOOL_CALL_ARGS", "REASONING_MESSAGE_CONTENT"}
_CLOSES = {"TEXT_MESSAGE_END", "TOOL_CALL_END", "REASONING_END", "REASONING_MESSAGE_END"}


class Verifier:
    """Refuses events in an order that the official client refuses."""

    def __init__(self) -> None:
        self.count = 0
        self.open: set[tuple[str, str]] = set()
        self.is_over = False

    def check(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        assert not self.is_over, f"{kind} after the end"
        assert (kind == "RUN_STARTED") == (self.count == 0), f"{kind} as number {self.count}"
        self.count += 1
        key = event.get("toolCallId", event.get("messageId", ""))
        entity = (kind.rpartition("_")[0], key)
        if kind in _OPENS:
            assert entity not in self.open, f"{entity} is open"
            self.open.add(entity)
        elif kind in _GOES_ON:
            assert entity in self.open, f"{entity} is not open"
        elif kind in _CLOSES:
            self.open.remove(entity)
        elif kind == "STEP_STARTED":
            assert ("STEP", event["stepName"]) not in self.open, f"{event['stepName']} is open"
            self.open.add(("STEP", event["stepName"]))
        elif kind == "STEP_FINISHED":
            self.open.remove(("STEP", event["stepName"]))
        elif kind == "RUN_FINISHED":
            assert self.open == set(), f"{self.open} are open"
            self.is_over = True
        elif kind == "RUN_ERROR":
            self.is_over = True


class Shown:
    """What a front end shows: messages and state."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.state: Any = {}

    def apply(self, event: dict[str, Any]) -> None:
        match event:
            case {"toolCallId": _}:
                self._apply_call(event)
            case {"type": "STATE_SNAPSHOT", "snapshot": state}:
                self.state = state
            case {"type": "STATE_DELTA", "delta": delta}:
                self.state = jsonpatch.apply_patch(self.state, delta)
            case {"type": "MESSAGES_SNAPSHOT", "messages": messages}:
                left = {m["id"]: m for m in messages}
                kept = [left.pop(m["id"]) for m in self.messages if m["id"] in left]
                self.messages = [*kept, *left.values()]
            case {"type": "TEXT_MESSAGE_START", "messageId": key}:
                if self._message(key) is None:
                    self.messages.append(
                        {"id": key, "role": event.get("role", "assistant"), "content": ""}
                        | {name: event[name] for name in ("name", "metadata") if name in event}
                    )
            case {"type": "TEXT_MESSAGE_CONTENT", "messageId": key, "delta": delta}:
                message = self._message(key)
                assert message is not None
                message["content"] = (message.get("content") or "") + delta
            case {"type": "REASONING_MESSAGE_START", "messageId": key}:
                self.messages.append({"id": key, "role": "reasoning", "content": ""})
            case {"type": "REASONING_MESSAGE_CONTENT", "messageId": key, "delta": delta}:
                message = self._message(key)
                assert message is not None
                message["content"] += delta

    def _apply_call(self, event: dict[str, Any]) -> None:
        match event:
            case {"type": "TOOL_CALL_START", "toolCallId": call, "parentMessageId": key}:
                message = self._message(key)
                if message is None:
                    message = {"id": key, "role": "assistant"}
                    self.messages.append(message)
                function = {"name": event["toolCallName"], "arguments": ""}
                made = {"id": call, "type": "function", "function": function}
                message.setdefault("toolCalls", []).append(made | {"metadata": event["metadata"]})
            case {"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": delta}:
                self._call(call)["function"]["arguments"] += delta
            case {"type": "TOOL_CALL_RESULT", "messageId": key, "toolCallId": call}:
                made = {"id": key, "role": "tool", "toolCallId": call, "content": event["content"]}
                owners = [i for i, m in enumerate(self.messages) if call in _calls(m)]
                at = owners[0] + 1 if owners else len(self.messages)
                while at < len(self.messages) and self.messages[at]["role"] == "tool":
                    at += 1
                self.messages.insert(at, made)

    def _message(self, key: str) -> dict[str, Any] | None:
        return next((message for message in self.messages if message["id"] == key), None)

    def _call(self, key: str) -> dict[str, Any]:
        calls = (call for message in self.messages for call in message.get("toolCalls", ()))
        return next(call for call in calls if call["id"] == key)


def _calls(message: dict[str, Any]) -> list[str]:
    return [call["id"] for call in message.get("toolCalls", ())]


class Refused(Exception):
    """The server answered with an error status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Client:
    """A client with one thread."""

    def __init__(self, url: str, thread_id: str, tools: Iterable[dict[str, Any]] = ()) -> None:
        self.url, self.thread_id, self.tools = url, thread_id, [*tools]
        self.shown = Shown()
        self.runs = 0
        self.events: list[dict[str, Any]] = []

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.shown.messages

    @property
    def lines(self) -> list[str]:
        """The messages as texts: who, what, which calls."""
        return [_line(message) for message in self.messages]

    @property
    def kinds(self) -> list[str]:
        """The types of the last run's events."""
        return [event["type"] for event in self.events]

    @property
    def outcome(self) -> Any:
        """How the last run ended."""
        return self.events[-1]["outcome"]

    def say(self, text: object, **more: Any) -> list[dict[str, Any]]:
        """Add a message of the user, and run."""
        self.messages.append({"id": f"u{len(self.messages)}", "role": "user", "content": text})
        return self.run(**more)

    def answer(self, *answers: object, **more: Any) -> list[dict[str, Any]]:
        """Answer the interrupts of the last run in order; None cancels one."""
        asked = self.outcome["interrupts"]
        resume = [
            {"interruptId": each["id"]}
            | ({"status": "cancelled"} if answer is None else {"status": "resolved", "payload": answer})
            for each, answer in zip(asked, answers, strict=True)
        ]
        return self.run(resume=resume, **more)

    def result(self, call_id: str, content: object, **more: Any) -> None:
        """Add the result of a tool of the front end."""
        tool = {"id": f"result-{call_id}", "role": "tool", "toolCallId": call_id, "content": content}
        self.messages.append(tool | more)

    def run(self, **more: Any) -> list[dict[str, Any]]:
        """Run, and return the events."""
        self.events = [*self.stream(**more)]
        return self.events

    def stream(self, **more: Any) -> Iterator[dict[str, Any]]:
        """Run, and yield each event as it comes."""
        self.runs += 1
        body = {
            "threadId": self.thread_id,
            "runId": f"r{self.runs}",
            "messages": deepcopy(self.messages),
            "state": deepcopy(self.shown.state),
            "tools": self.tools,
            "context": [],
            "forwardedProps": {},
            **more,
        }
        verifier = Verifier()
        with httpx.stream("POST", self.url, json=body, timeout=30) as response:
            if response.status_code != 200:
                response.read()
                raise Refused(response.status_code, response.text)
            for line in response.iter_lines():
                if line.startswith("data: "):
                    event = _EVENT.validate_json(line[6:]).model_dump(mode="json", by_alias=True)
                    verifier.check(event)
                    self.shown.apply(event)
                    yield event
        assert verifier.is_over, "the stream ended before the run"


def _line(message: dict[str, Any]) -> str:
    who = message.get("name") or message["role"]
    calls = "".join(
        f" [{call['function']['name']} {call['function']['arguments']}]"
        for call in message.get("toolCalls", ())
    )
    return f"{who}: {message.get('content') or ''}{calls}".replace(":  [", ": [")
