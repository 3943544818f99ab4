"""Who asks a question, and when: keywords of its JSON schema, which every server keeps."""

from collections.abc import Sequence
from typing import Any

from agentgraph.graph.moments import Moment

_ADDRESS = "x-agentgraph-address"
"""The keyword under which a question says who asks: LangGraph's interrupts have no field for it."""
_CALL = "x-agentgraph-call"
"""The keyword under which it says which of the agent's tool calls asks."""
_MOMENT = "x-agentgraph-told"
"""The keyword under which it says when it was asked."""


def addressed(
    schema: dict[str, Any] | None,
    address: str,
    call: int | None = None,
    moment: Sequence[Any] | None = None,
) -> dict[str, Any]:
    """Return a JSON schema that also says who asks, and when.

    Args:
        schema: The schema.
        address: The address of who asks.
        call: The number of the tool call that asks, if one does.
        moment: When it is asked.
    """
    carried = {_ADDRESS: address, _CALL: call, _MOMENT: moment and list(moment)}
    return {**(schema or {}), **{key: value for key, value in carried.items() if value is not None}}


def asker(schema: Any) -> str | None:
    """Return the address that `addressed` wrote into a schema, if there is one."""
    return schema.get(_ADDRESS) if isinstance(schema, dict) else None


def asking_call(schema: dict[str, Any] | None) -> int:
    """Return the number of the tool call that `addressed` wrote into a schema, else 0."""
    return int((schema or {}).get(_CALL, 0))


def asked_when(schema: dict[str, Any] | None) -> Moment | None:
    """Return the moment that `addressed` wrote into a schema, if there is one."""
    found = (schema or {}).get(_MOMENT)
    return Moment(*found) if found else None


def unaddressed(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the schema that `addressed` was given; None where it only says who asks."""
    return {k: v for k, v in (schema or {}).items() if k not in (_ADDRESS, _CALL, _MOMENT)} or None
