"""The parts of events, messages and values that tests compare."""

import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage
from pydantic import BaseModel

import agentgraph as ag
from agentgraph.show.lines import event_text


def unvoided(events: Iterable[ag.AgentEvent]) -> list[ag.AgentEvent]:
    """Return the events that no later one discards."""
    left: list[ag.AgentEvent] = []
    for event in events:
        if event.kind == "discarded" and event.action:
            void = event.action.discarded
            left = [each for each in left if each.id not in void and each.step not in void]
        else:
            left.append(event)
    return left


def shapes(messages: Sequence[BaseMessage]) -> list[Any]:
    """Return the comparable parts of messages: all but ids, names and metadata."""
    return [
        (
            each.type,
            each.text,
            [(c["name"], c["args"], c["id"]) for c in getattr(each, "tool_calls", ())],
            getattr(each, "tool_call_id", None),
            getattr(each, "status", None),
        )
        for each in messages
    ]


def read(lines: Iterable[str]) -> list[ag.AgentEvent]:
    """Return the events in lines of JSON, without chunks."""
    events = [ag.AgentEvent.from_dict(json.loads(line)) for line in lines]
    return [event for event in events if not event.partial]


def check_heard(heard: Sequence[ag.AgentEvent], again: Sequence[ag.AgentEvent]) -> None:
    """Check that `events()` yields each event once that all runs yielded and none discarded."""
    assert unvoided(heard) == again
    times = [event.time for event in again]
    assert times == sorted(set(times))
    for number, event in enumerate(heard):
        assert event.id not in {each.id for each in unvoided(heard[:number])}


def texts(messages: Iterable[BaseMessage], *, system: bool = True) -> list[str]:
    """Return messages as lines: `human: Go.`"""
    return [f"{each.type}: {each.text}" for each in messages if system or each.type != "system"]


def visits(events: Iterable[ag.AgentEvent]) -> list[tuple[str, str]]:
    """Return the addresses and run paths of a run, each once."""
    return list(dict.fromkeys((event.address, str(event.run_path)) for event in events))


def lines(events: Iterable[ag.AgentEvent]) -> list[str]:
    """Return events as lines led by their addresses: `report/refine[1]/critic: [break_loop]`."""
    return [f"{event.address}: {event_text(event)}" for event in events if not event.partial]


def results(messages: Iterable[BaseMessage]) -> str:
    """Return the tool results among messages; a model may reply with it: `1 echo success: a`."""
    found = (each for each in messages if isinstance(each, ToolMessage))
    return " | ".join(f"{each.tool_call_id} {each.name} {each.status}: {each.text}" for each in found)


def sent(messages: Iterable[BaseMessage]) -> str:
    """Return all messages; a model may reply with it, to show what it was sent."""
    return " | ".join(texts(messages))


def sent_flat(messages: Iterable[BaseMessage]) -> str:
    """Return the messages for a model, without the empty lines in summaries."""
    return sent(messages).replace("\n\n", " ")


def town() -> dict[str, Any]:
    """Return the JSON schema of an answer that names a city."""
    properties = {"city": {"type": "string"}, "people": {"type": "integer", "minimum": 1}}
    return {"title": "Town", "type": "object", "properties": properties, "required": ["city"]}


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal and of one type, and so is all that is in them."""
    if type(one) is not type(other) or one != other:
        return False
    if isinstance(one, Mapping):
        return all(any(same(k, j) and same(v, w) for j, w in other.items()) for k, v in one.items())
    if isinstance(one, list | tuple | deque):
        return all(map(same, one, other))
    if isinstance(one, set | frozenset):
        return all(any(same(each, mine) for mine in other) for each in one)
    if isinstance(one, BaseModel) or is_dataclass(one):
        return all(map(same, vars(one).values(), vars(other).values()))
    return True


def emit(event: ag.AgentEvent) -> None:
    """Print an event as a line of JSON, which `read` takes."""
    print(json.dumps(event.to_dict()), flush=True)


def texts_in(runner: ag.Runner) -> list[str]:
    """Return the texts of all messages that the state of the thread "t" has."""
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}})
    return [each.text for each in state.values["messages"]]


async def texts_of(run: ag.AsyncRun) -> list[str]:
    """Return the texts of all events of a run."""
    return [event.text async for event in run]
