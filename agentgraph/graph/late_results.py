"""Results of tools that came after their turn had ended, marked as such."""

from collections.abc import Mapping

from langchain_core.messages import ToolMessage

from agentgraph.safe_repr import as_json

_LATE = "late_result"
"""The key that marks the late result of a call of a `long_running` tool."""


def as_late(
    message: ToolMessage, name: str, own_id: str, label: str, args: Mapping[str, object] | None
) -> ToolMessage:
    """Return the late result of a call of a tool, marked as such.

    Args:
        message: The result.
        name: The name of the tool.
        own_id: The id of the call that no other one of the thread has.
        label: The provider's id of the call.
        args: The arguments of the call, by which a model distinguishes it from others with that label;
            None if there are none.
    """
    about = own_id if args is None else [own_id, as_json(args)]
    marked = {**message.additional_kwargs, _LATE: about}
    changes = {"name": name, "tool_call_id": label, "additional_kwargs": marked}
    return message.model_copy(update=changes)


def late_call_id(message: ToolMessage) -> str | None:
    """Return the call's own id that a late result was saved with; None if it has none."""
    about = message.additional_kwargs.get(_LATE)
    own_id = about[0] if isinstance(about, list) else about
    return own_id if isinstance(own_id, str) else None


def is_late(message: ToolMessage) -> bool:
    """Return whether a message is the late result of a call, which had another one at once."""
    return _LATE in message.additional_kwargs


def late_verb(message: ToolMessage) -> str:
    """Return the verb for a late result in a quote, with the call that it is about."""
    verb = "failed" if message.status == "error" else "returned"
    about = message.additional_kwargs[_LATE]
    made = f", made with {about[1]}" if isinstance(about, list) else ""
    return f"{message.name or 'tool'} {verb} for its call {message.tool_call_id}{made}"
