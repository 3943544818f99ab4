"""LangGraph's channels as reducers of values: which merge, with which function, from which value."""

import operator
from collections.abc import Mapping
from inspect import signature
from typing import Any, get_type_hints

from langgraph.channels.any_value import AnyValue
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.channels.delta import DeltaChannel
from langgraph.channels.topic import Topic
from langgraph.graph.message import add_messages

from agentgraph.graph.internals import MISSING, delta_reducer
from agentgraph.graph.open_types import Channel

_MERGING = (BinaryOperatorAggregate, DeltaChannel, AnyValue, Topic)
"""The channels of LangGraph that merge what is written. A value is stored merged, a delta's too."""
_PURE = (operator.add, operator.or_, delta_reducer)
"""Reducers that return the same each time; `add_messages`, too, once all messages have ids."""


def first_values(channels: Mapping[str, Channel]) -> dict[str, object]:
    """Return new start values of channels, by name: for most types with a reducer their empty value.

    A type without one, such as `int | None`, has no value until the first write.
    """
    copies = {name: each.from_checkpoint(MISSING) for name, each in channels.items()}
    return {name: each.get() for name, each in copies.items() if each.is_available()}


def merges(channel: object) -> bool:
    """Return whether a channel merges what is written, and keeps it over steps."""
    return type(channel) in _MERGING and getattr(channel, "accumulate", True)


def reducer_of(channel: object) -> object:
    """Return the function with which a channel merges; None if it has none."""
    return getattr(channel, "operator", None) or getattr(channel, "reducer", None)


def only_merges_messages(channel: object) -> bool:
    """Return whether a channel leaves the messages that it holds as they are."""
    return type(channel) is BinaryOperatorAggregate and channel.operator is add_messages


def operand_of(channel: Channel) -> object:
    """Return the type of what a channel takes at a time, if it is declared."""
    if type(channel) is Topic:
        return channel.typ
    try:
        reducer: Any = reducer_of(channel)
        hints, names = get_type_hints(reducer, include_extras=True), [*signature(reducer).parameters]
    except Exception:
        return None
    return hints.get(names[1]) if len(names) > 1 else None


def is_pure(channel: Channel) -> bool:
    """Return whether a channel merges the same writes to the same value each time."""
    return type(channel) in (AnyValue, Topic) or any(reducer_of(channel) is each for each in _PURE)


def reads_overwrite(channel: Channel) -> bool:
    """Return whether a channel replaces its value by that of an `Overwrite`; some keep the object."""
    return type(channel) is DeltaChannel
