"""What a person may answer to a question about tool calls, as a JSON schema."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.tools import BaseTool
from pydantic import TypeAdapter

from agentgraph.agents.json_schemas import references
from agentgraph.agents.middleware import DECISIONS
from agentgraph.agents.schemas import schema_fault


def answer_schema(request: Any, tools: Sequence[BaseTool]) -> dict[str, Any] | None:
    """Return the JSON schema of the answer to a question of LangChain's middleware; None for others.

    It wants a decision for each action, in order, of a kind that is allowed for it; an edited call must
    be one of a tool that there is, with arguments as that tool wants them.
    """
    if not _is_request(request):
        return None
    edits, defs = _edited_actions(tools)
    text = {"type": "string"}
    kinds = {
        "approve": _object({"type": {"const": "approve"}}),
        "edit": _object({"type": {"const": "edit"}, "edited_action": edits}),
        "reject": _object({"type": {"const": "reject"}, "message": text}, required=["type"]),
        "respond": _object({"type": {"const": "respond"}, "message": text}),
    }
    each = [
        {"anyOf": [kinds[kind] for kind in dict.fromkeys(config["allowed_decisions"])]}
        for config in request["review_configs"]
    ]
    in_order = {"type": "array", "prefixItems": each, "minItems": len(each), "maxItems": len(each)}
    return {**_object({"decisions": in_order}), "$defs": defs}


def _is_request(value: Any) -> bool:
    match value:
        case {"action_requests": [_, *_] as actions, "review_configs": [_, *_] as configs}:
            return len(actions) == len(configs) and all(map(_is_config, configs))
    return False


def _is_config(config: Any) -> bool:
    match config:
        case {"allowed_decisions": [_, *_] as allowed}:
            return all(kind in DECISIONS for kind in allowed)
    return False


def _edited_actions(tools: Sequence[BaseTool]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of an edited call, by reference, and the definitions that it needs."""
    actions, defs = [], {}
    for tool in tools:
        args, own = _args(tool)
        defs.update(own)
        actions.append(_object({"name": {"const": tool.name}, "args": args}))
    defs["edited_action"] = {"anyOf": actions}
    return {"$ref": "#/$defs/edited_action"}, defs


def _args(tool: BaseTool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of a tool's arguments, and its definitions, named so that no other has them.

    One that is at fault, or refers to anything but its definitions, is left to the tool.
    """
    schema: Any = tool.tool_call_schema
    given = schema if isinstance(schema, dict) else TypeAdapter(schema).json_schema()
    found = {"type": "object", **given}
    defs = found.get("$defs", {})
    new = {f"#/$defs/{name}": f"#/$defs/{tool.name}.{name}" for name in defs}
    if schema_fault(found) or not new.keys() >= {*references(found)}:
        return {"type": "object"}, {}
    found.pop("$defs", None)
    return _referring(found, new), {f"{tool.name}.{k}": _referring(v, new) for k, v in defs.items()}


def _referring(schema: Any, new: Mapping[str, str]) -> Any:
    """Return a schema with new references in the place of others."""
    if isinstance(schema, list):
        return [_referring(each, new) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _referring(value, new) for key, value in schema.items()}
    return {**found, "$ref": new[schema["$ref"]]} if schema.get("$ref") in new else found


def _object(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    names = list(properties) if required is None else required
    return {
        "type": "object",
        "properties": properties,
        "required": names,
        "additionalProperties": False,
    }
