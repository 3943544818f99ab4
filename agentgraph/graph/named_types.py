"""The types whose objects are read back from files: those of `allow=`, of a tree and its `values=`.

```
class State(TypedDict):
    shapes: list[Shape]      # Shape, and the types of Shape's fields
```
"""

import importlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from langgraph.channels.base import BaseChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from pydantic import BaseModel
from typing_extensions import is_typeddict

from agentgraph.errors import AgentGraphError
from agentgraph.graph.internals import STRICT_MSGPACK_ENABLED
from agentgraph.graph.strict_serializer import ORIGINAL, Key, StrictSerializer, is_safe, key_of
from agentgraph.graph.values import Reducers
from agentgraph.safe_repr import reason, shown
from agentgraph.tree.places import Place, Tree


def allow_named(saver: Any, tree: Tree, reducers: Reducers) -> Any:
    """Return a saver that reads objects of the types that a tree and its values name.

    It is the saver itself: one that we opened learns the types, and others read as their user made
    them. With `LANGGRAPH_STRICT_MSGPACK` LangGraph makes copies of these that read what the state of a
    graph names. The state of a tree names no types of agents, so this makes such a copy: it has the
    threads of the saver, and its locks (`ORIGINAL`).
    """
    serializer = getattr(saver, "serde", None) if isinstance(saver, BaseCheckpointSaver) else None
    if isinstance(serializer, StrictSerializer):
        serializer.allow(_types_of(tree, reducers))
    elif STRICT_MSGPACK_ENABLED and serializer is not None:
        reading = saver.with_allowlist(_types_of(tree, reducers).keys())
        if reading is not saver:
            setattr(reading, ORIGINAL, getattr(saver, ORIGINAL, saver))
        return reading
    return saver


def _types_of(tree: Tree, reducers: Reducers) -> dict[Key, type]:
    of_agents = (hint for place in tree.places for hint in _hints_at(place))
    of_values = (each.hint for each in reducers.fields.values())
    return named_types([*of_values, *of_agents])


def allowed_types(allow: Iterable[type | str]) -> dict[Key, type]:
    """Return the classes that `allow=` names, with those that their fields name.

    >>> allowed_types(["fractions:Fraction"])
    {('fractions', 'Fraction'): <class 'fractions.Fraction'>}

    Args:
        allow: Classes, or their names as "module:Name"; a named module is imported.

    Raises:
        AgentGraphError: One is neither, or there is no such class.
    """
    if isinstance(allow, str | type) or not isinstance(allow, Iterable):
        instead = f"[{shown(allow)}]" if isinstance(allow, str | type) else "[Report]"
        raise AgentGraphError(
            f"allow= must be a list of types, got {shown(allow)}; pass allow={instead}"
        )
    return named_types(map(_type_named, allow))


def _type_named(item: type | str) -> type:
    if isinstance(item, type):
        return item
    module, _, name = item.partition(":") if isinstance(item, str) else ("", "", "")
    if not module or not name:
        raise AgentGraphError(
            f"allow= must name types, got {shown(item)}; pass a class, or its name as 'module:Name'"
        )
    try:
        kind = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise AgentGraphError(
            f"allow= names {item!r}, which cannot be imported ({reason(error)}); name a class as "
            "'module:Name'"
        ) from error
    if not isinstance(kind, type):
        raise AgentGraphError(f"allow= names {item!r}, which is not a class, but {shown(kind)}")
    return kind


def named_types(hints: Iterable[object]) -> dict[Key, type]:
    """Return the classes that type hints name, and those that the fields of these name.

    >>> from fractions import Fraction
    >>> named_types([dict[str, list[Fraction] | None]])
    {('fractions', 'Fraction'): <class 'fractions.Fraction'>}
    """
    classes: dict[Key, type] = {}
    seen: dict[int, object] = {}
    queue = [*hints]
    while queue:
        hint = queue.pop()
        if id(hint) in seen or is_safe(hint):
            continue
        seen[id(hint)] = hint
        if (
            isinstance(hint, type)
            and not is_typeddict(hint)
            and hint.__module__ not in ("builtins", "typing")
        ):
            classes[key_of(hint)] = hint
        queue += _inside(hint)
    return classes


def _inside(hint: object) -> Iterator[object]:
    if (origin := get_origin(hint)) is Literal:
        yield from map(type, get_args(hint))  # of the members of an Enum
    else:
        yield from get_args(hint)[: 1 if origin is Annotated else None]
    yield from (getattr(hint, name, None) for name in ("__supertype__", "__value__", "__bound__"))
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        yield from (each.annotation for each in hint.model_fields.values())
    elif is_dataclass(hint) or is_typeddict(hint) or hasattr(hint, "_fields"):
        yield from _fields_of(hint)


def _fields_of(kind: object) -> Iterable[object]:
    try:
        return get_type_hints(kind, include_extras=True).values()
    except Exception:  # a name that cannot be found from here: what it means must be allowed by name
        return ()


def _hints_at(place: Place) -> Iterator[object]:
    """Yield the types that the agent at a place names: of its answer, its middleware, its graph."""
    if place.chat is not None:
        yield from (each.state_schema for each in place.chat.middleware)
        if place.chat.output_schema is not None:
            from agentgraph.graph.chat.output import answer_format_of

            answer_format = answer_format_of(place.chat.output_schema)
            yield from answer_format.schemas.values() if answer_format else ()
    if (graph := getattr(place.agent, "graph", None)) is not None:
        yield from _hints_of_graph(graph)


def _hints_of_graph(graph: object) -> Iterator[object]:
    subgraphs = graph.get_subgraphs(recurse=True) if isinstance(graph, Pregel) else ()
    for each in [graph, *(inner for _, inner in subgraphs)]:
        channels: Mapping[str, object] = getattr(each, "channels", {})
        for channel in channels.values():
            if isinstance(channel, BaseChannel):  # else it is managed, such as `RemainingSteps`
                yield from (channel.ValueType, channel.UpdateType)
        if isinstance(builder := getattr(each, "builder", None), StateGraph):
            yield from builder.schemas
            yield from (hint for node in builder.nodes.values() for hint in _answers_of(node.runnable))


def _answers_of(node: object) -> Iterator[object]:
    """Yield the `response_format` of a node of LangChain's `create_agent`, which its state leaves open.

    Its nodes are functions that hold it in their closure.
    """
    from langchain.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy

    strategies = (AutoStrategy, ProviderStrategy, ToolStrategy)
    for cell in getattr(getattr(node, "func", None), "__closure__", None) or ():
        with suppress(ValueError):  # the cell is empty
            if isinstance(strategy := cell.cell_contents, strategies):
                yield strategy.schema
