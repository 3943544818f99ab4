"""The result of a tool as JSON: messages, `Command` objects and signals, alone or in a list."""

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.types import Command

from agentgraph.agents.signals import BreakLoop, Custom, Exit, SetValues, TransferTo
from agentgraph.agents.tool_results import Answer, Content
from agentgraph.events.json_forms import as_json, from_json, message_from_json
from agentgraph.safe_repr import shown
from agentgraph.testing.recorded_replies import compact

_FIELDS: dict[type, tuple[str, ...]] = {
    Answer: ("text",),
    BreakLoop: (),
    Command: ("update", "goto", "graph"),
    Content: ("content",),
    Custom: ("data",),
    Exit: (),
    TransferTo: ("agent_name",),
}
"""The types of results other than messages, with their stored fields."""
_KINDS: dict[str, Callable[..., object]] = {kind.__name__: kind for kind in (*_FIELDS, SetValues)}


class UnrecordableError(Exception):
    """A value has no exact form as JSON; the text shows the value."""


def returned_as_json(returned: object) -> object:
    """Convert the result of a tool to JSON.

    Raises:
        UnrecordableError: The result would differ in playback.
    """
    if isinstance(returned, list):
        return [*map(_item_as_json, returned)]
    return _item_as_json(returned)


def is_of_run(returned: object, state: Callable[[], Mapping[str, Any]]) -> bool:
    """Return whether the result of a tool has meaning only in this run.

    Handoff tools pass on the whole history, and others replace or remove messages by their ids.

    Args:
        returned: The result.
        state: Returns the state that the tool saw.
    """
    commands = [each for each in _several(returned) if isinstance(each, Command)]
    if any(each.graph == Command.PARENT for each in commands):
        return True
    updates = [each.update for each in commands if isinstance(each.update, Mapping)]
    messages = [message for update in updates for message in _several(update.get("messages", ()))]
    ids = {message.id for message in messages if getattr(message, "id", None)}
    return bool(ids) and any(each.id in ids for each in state()["messages"])


def _several(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def returned_from_json(form: Any) -> object:
    """Make a tool's result from the form of `returned_as_json`."""
    return [*map(_item_from_json, form)] if isinstance(form, list) else _item_from_json(form)


def _item_as_json(item: Any) -> dict[str, object]:
    kind = type(item)
    if kind is ToolMessage:
        return {"ToolMessage": compact(item)}
    if kind is SetValues:
        fields = item.values
    elif kind in _FIELDS:
        fields = {name: getattr(item, name) for name in _FIELDS[kind] if getattr(item, name)}
    else:
        return {"value": _exact(item, item)}
    return {kind.__name__: {name: _exact(each, item) for name, each in fields.items()}}


def _exact(value: object, item: object) -> object:
    form = as_json(value)
    if from_json(form) != value:
        raise UnrecordableError(shown(item))
    return form


def _item_from_json(form: dict[str, Any]) -> object:
    ((kind, data),) = form.items()
    if kind == "ToolMessage":
        return message_from_json({"type": "tool", "data": data})
    if kind == "value":
        return from_json(data)
    return _KINDS[kind](**{name: from_json(each) for name, each in data.items()})
