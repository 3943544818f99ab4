"""The input of a call of a model or a tool, as JSON data with a hash, and the diff of two inputs.

The data is the same in each run: it contains no ids of messages or tool calls, and no settings of a
model other than its tools, `tool_choice` and the schema of its answer.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile, zip_longest
from operator import eq
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableBinding, RunnableWithFallbacks
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, SecretStr

from agentgraph.agents.schemas import json_schema
from agentgraph.events.json_forms import as_json
from agentgraph.safe_repr import as_json as as_text
from agentgraph.safe_repr import cut
from agentgraph.testing.cassette_files import Entry, Form, Question, mark_of

_IDS = ("id", "call_id", "tool_use_id", "index")
"""The keys of content blocks that differ from run to run."""
_CONTEXT = 40
"""Number of characters shown before the first difference."""
_SETTINGS = ("tool_choice", "response_format")
_HEADERS = ("default_headers", "default_query", "extra_headers", "extra_query", "headers")


def model_question(model: object, messages: Sequence[BaseMessage]) -> Question:
    """Make the question of a model call: its messages, and the tools and settings bound to it."""
    sent = [message_form(each) for each in messages]
    offered = _offered(model)
    marks, tools = [mark_of(each) for each in sent], mark_of(offered)
    asked = {"messages": marks, "offered": tools}
    return Question(asked, {**dict(zip(marks, sent, strict=True)), tools: offered}, mark_of(asked))


def tool_question(name: str, arguments: Mapping[str, object]) -> Question:
    """Make the question of a tool call."""
    asked = {"tool": name, "arguments": as_json(dict(arguments))}
    return Question(asked, {}, mark_of(asked))


def secrets_of(model: object) -> Iterator[str]:
    """Yield the keys and headers of a model, or those bound to it."""
    if isinstance(model, RunnableWithFallbacks):
        for each in model.runnables:
            yield from secrets_of(each)
        return
    settings: dict[str, object] = {}
    if isinstance(model, RunnableBinding):
        settings = dict(model.kwargs)
        yield from secrets_of(model.bound)
    elif isinstance(model, BaseModel):
        settings = {**(getattr(model, "model_kwargs", None) or {}), **dict(model)}
    for name, value in settings.items():
        if isinstance(value, SecretStr):
            yield value.get_secret_value()
        elif name in _HEADERS and isinstance(value, Mapping):
            yield from map(str, value.values())


def difference(entries: Sequence[Entry], parts: Form, question: Question) -> str:
    """Describe the difference between a question and the most similar recorded one."""
    recorded = max((each["asked"] for each in entries), key=lambda each: _alike(each, question.asked))
    if "tool" in question.asked:
        return _shown("the call", recorded, question.asked)
    before, now = recorded.get("messages", []), question.asked["messages"]
    for number, (old, new) in enumerate(zip_longest(before, now)):
        if old != new:
            return _shown(f"message {number}", parts.get(old), question.parts.get(new))
    old, new = parts.get(recorded.get("offered"), {}), question.parts[question.asked["offered"]]
    names = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    if not names:
        return "the stored hash differs, as if the file had been edited"
    if names != ["tools"]:
        return _shown(names[0], old.get(names[0]), new.get(names[0]))
    old, new = old.get("tools", {}), new.get("tools", {})
    name = next(name for name in sorted({*old, *new}) if old.get(name) != new.get(name))
    return _shown(f"the tool {name!r}", old.get(name), new.get(name))


def _alike(recorded: Form, asked: Form) -> int:
    return _shared(recorded.get("messages", ()), asked.get("messages", ()))


def _shared(one: Sequence[object], other: Sequence[object]) -> int:
    return sum(1 for _ in takewhile(bool, map(eq, one, other)))


def _shown(what: str, recorded: object, asked: object) -> str:
    old, new = _as_text(recorded), _as_text(asked)
    start = max(_shared(old, new) - _CONTEXT, 0)
    ahead = "…" if start else ""
    old, new = (f"{ahead}{cut(each[start:], 300)}" for each in (old, new))
    return f"{what} differs:\n  recorded: {old}\n  asked:    {new}"


def _as_text(part: object) -> str:
    match part:
        case None:
            return "nothing"
        case {"type": kind, "content": str(text), **rest}:
            return f"{kind}: {text}" + (f" {as_text(rest)}" if rest else "")
    return part if isinstance(part, str) else as_text(part)


def message_form(message: BaseMessage) -> dict[str, object]:
    """Return a message as data without ids."""
    data: dict[str, object] = {"type": message.type, "content": _content(message.content)}
    if message.name:
        data["name"] = message.name
    if isinstance(message, AIMessage) and (calls := [*message.tool_calls, *message.invalid_tool_calls]):
        data["calls"] = [[call["name"], call["args"]] for call in calls]
    if isinstance(message, ToolMessage) and message.status != "success":
        data["status"] = message.status
    form: dict[str, object] = as_json(data)
    return form


def _content(content: object) -> object:
    if not isinstance(content, list):
        return content
    return [_block(each) if isinstance(each, dict) else each for each in content]


def _block(block: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in block.items() if key not in _IDS}


def _offered(model: object) -> dict[str, object]:
    settings: dict[str, Any] = {}
    while isinstance(model, RunnableBinding | RunnableWithFallbacks):
        if isinstance(model, RunnableBinding):
            settings = {**model.kwargs, **settings}
        model = model.bound if isinstance(model, RunnableBinding) else model.runnable
    offered = {name: _schema(settings[name]) for name in _SETTINGS if settings.get(name) is not None}
    if tools := dict(map(_tool, settings.get("tools") or ())):
        offered["tools"] = tools
    form: dict[str, object] = as_json(offered)
    return form


def _schema(setting: object) -> object:
    return json_schema(setting) if isinstance(setting, type) else setting


def _tool(tool: Any) -> tuple[str, object]:
    try:
        form = convert_to_openai_tool(tool)
    except Exception:  # a provider's own tool
        form = tool
    function = form.get("function", form) if isinstance(form, Mapping) else {}
    return str(function.get("name") or function.get("type") or tool), function
