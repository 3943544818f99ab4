"""Reads the schema of a run's values: the reducers and the types that its fields declare."""

import warnings
from dataclasses import replace
from typing import Any

from langgraph.channels.ephemeral_value import EphemeralValue
from langgraph.channels.last_value import LastValue
from langgraph.channels.topic import Topic
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.graph import StateGraph

from agentgraph.agents.functions import is_async
from agentgraph.errors import InvalidAgentError
from agentgraph.graph.declared import declared_fields, without_local
from agentgraph.graph.internals import ROOT
from agentgraph.graph.value_channels import merges, operand_of, reducer_of
from agentgraph.graph.values import Reducers
from agentgraph.safe_repr import shown, shown_error

_NOT_VALUES = ("messages", "jump_to")
"""Fields of LangGraph's `MessagesState` and LangChain's `AgentState`: the history, and hooks' jumps."""
_INSTEAD = {
    EphemeralValue: "write ag.DELETE to the plain type when the value is used up",
    UntrackedValue: "pass what is not saved to the run as context=",
    Topic: "use Annotated[list, operator.add], or Topic(type, accumulate=True)",
}
"""The replacements for channels whose values last for a step of LangGraph, or are not saved."""


def declared(schema: object) -> Reducers:
    """Return the reducers that a schema declares for its fields.

    A field `messages`, as in LangGraph's `MessagesState`, is the history, and not a value; nor is
    `jump_to`, which LangChain's `AgentState` has for hooks.

    Raises:
        InvalidAgentError: It is not a schema, or a field needs a channel that values cannot have, or
            has a type that pydantic cannot check.
    """
    if schema is None:
        return Reducers()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read: Any = StateGraph(without_local(schema))
    except Exception as error:
        has_fields = isinstance(schema, type) and getattr(schema, "__annotations__", None)
        raise (_unread(schema, error) if has_fields else _no_schema(schema)) from error
    if ROOT in read.channels:
        raise _no_schema(schema)
    channels = {n: c for n, c in {**read.channels, **read.managed}.items() if n not in _NOT_VALUES}
    faults = [
        f"values: the field {name!r} is declared with {_kind(channel)}, which values cannot have; "
        f"{_INSTEAD.get(type(channel), 'use Annotated[type, reducer], or the type alone')}"
        for name, channel in channels.items()
        if not (merges(channel) or type(channel) is LastValue)
    ]
    faults += [
        f"values: the reducer {shown(reducer_of(channel))} of the field {name!r} is async; pass a "
        "sync function"
        for name, channel in channels.items()
        if is_async(reducer_of(channel))
    ]
    if faults:
        raise InvalidAgentError(faults)
    merging = {name: channel for name, channel in channels.items() if merges(channel)}
    fields = {n: each for n, each in declared_fields(schema).items() if n not in _NOT_VALUES}
    topics = {n: list[c.typ] for n, c in merging.items() if type(c) is Topic}  # type: ignore[name-defined]
    fields |= {name: replace(fields[name], hint=hint) for name, hint in topics.items()}
    taken = {name: hint for name, c in merging.items() if (hint := operand_of(c)) is not None}
    fields |= {name: replace(fields[name], operand=hint) for name, hint in taken.items()}
    faults = [
        f"values: pydantic cannot check the type of the field {name!r} ({why}); use a type that it "
        "knows, or Any"
        for name, each in fields.items()
        if (why := each.type_fault())
    ]
    faults += [f"values: {why}" for each in fields.values() if (why := each.union_fault())]
    if faults:
        raise InvalidAgentError(faults)
    return Reducers(merging, fields, frozenset(n for n, each in fields.items() if each.is_local))


def _kind(channel: object) -> str:
    return channel.__name__ if isinstance(channel, type) else type(channel).__name__


def _no_schema(schema: object) -> InvalidAgentError:
    return InvalidAgentError(
        [
            f"values={shown(schema)} declares no fields; pass a TypedDict or a pydantic model, as in "
            "class Values(TypedDict): notes: Annotated[list, operator.add]"
        ]
    )


def _unread(schema: object, error: Exception) -> InvalidAgentError:
    return InvalidAgentError(
        [
            f"values={shown(schema)} cannot be read as a state ({shown_error(error)}); its types must "
            "be known, and a reducer be a function of two arguments, as in Annotated[int, lambda old, "
            "new: max(old, new)]"
        ]
    )
