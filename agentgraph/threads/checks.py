"""Checks of what calls pass: ids of threads, values and messages."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.types import Command

from agentgraph.errors import AgentGraphError
from agentgraph.graph.saving import cannot_be_encoded, name_fault
from agentgraph.graph.values import Reducers
from agentgraph.safe_repr import shown
from agentgraph.threads.requests import FindSaveFault, GetState, Reads


def checked_id(thread_id: object) -> str:
    """Return a thread id that all savers can store.

    Raises:
        AgentGraphError: It cannot be a thread id.
    """
    if not isinstance(thread_id, str) or not thread_id:
        raise AgentGraphError(
            f"thread_id must be a non-empty string, got {shown(thread_id)}; pass the name of a thread, "
            "such as 'monday', or leave it out of a run for a new one"
        )
    if "\0" in thread_id or cannot_be_encoded(thread_id):
        raise AgentGraphError(
            f"thread_id {shown(thread_id)} has a zero byte or half a surrogate pair in it, which "
            "databases cannot store; pass another name"
        )
    return thread_id


def check_mapping(values: object) -> None:
    """Refuse values of a run that are not a mapping."""
    if not isinstance(values, Mapping | None):
        raise AgentGraphError(
            f"values must be a mapping, got {shown(values)}; pass a dict such as {{'topic': 'bees'}}"
        )


def check_saved(messages: Sequence[BaseMessage], values: Mapping[str, Any]) -> Reads[None]:
    """Refuse messages and values that cannot be saved.

    Raises:
        AgentGraphError: One cannot be saved.
    """
    for message in messages:
        if (fault := (yield FindSaveFault(message))) is not None:
            raise _unsaved(f"the message {shown(message.content)}", fault)
    for name, value in values.items():
        if (fault := name_fault(name)) is not None:
            raise AgentGraphError(f"the name {shown(name)} in values= {fault}")
        if (fault := (yield FindSaveFault(value))) is not None:
            raise _unsaved(f"the value {shown(name)}, {shown(value)},", fault)


def check_types(reducers: Reducers, given: Any) -> Reads[None]:
    """Refuse input with values that do not fit their declared types, after their reducers.

    Args:
        reducers: How values are merged, and their types.
        given: The input of a graph: a state, a command, or None.

    Raises:
        AgentGraphError: A value does not fit.
        ReducerError: A reducer failed.
    """
    update = given.update if isinstance(given, Command) else given
    values = update.get("values") if isinstance(update, Mapping) else None
    if values and reducers.fields:
        present = (yield GetState()).values.get("values", {})
        reducers.merged(present, values)


def _unsaved(named: str, fault: str) -> AgentGraphError:
    return AgentGraphError(
        f"{named} cannot be saved ({fault}); pass plain data: texts, numbers, lists, dicts"
    )
