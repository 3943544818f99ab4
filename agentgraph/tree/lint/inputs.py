"""The values that runs pass to a tree, or that `values=` declares."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from agentgraph.agents.signals import Local
from agentgraph.errors import AgentGraphError
from agentgraph.safe_repr import shown


@dataclass(frozen=True)
class Inputs:
    """The values that are known from outside of a tree.

    Attributes:
        names: Their names.
        merged: Those that have a reducer, or are local.
        local: Those that stay in the lane that wrote them.
    """

    names: frozenset[str] = frozenset()
    merged: frozenset[str] = frozenset()
    local: frozenset[str] = frozenset()


def read_inputs(given: object) -> Inputs:
    """Return the values of `inputs=`: names, a mapping by name, or a declaration as for `values=`.

    Raises:
        AgentGraphError: It is neither.
    """
    if isinstance(given, type):
        return _declared(given)
    names = [*given] if isinstance(given, Iterable) and not isinstance(given, str) else [None]
    if not all(isinstance(each, str) for each in names):
        raise AgentGraphError(
            f"inputs={shown(given)} cannot be used; pass names of values, as in inputs=['topic'], or "
            "the class that declares them"
        )
    return Inputs(frozenset(str(each) for each in names))


def _declared(schema: type) -> Inputs:
    hints: Mapping[str, Any] = get_type_hints(schema, include_extras=True)
    extras = {name: [*_extras(hint)] for name, hint in hints.items()}
    local = frozenset(n for n, several in extras.items() if any(isinstance(e, Local) for e in several))
    merged = frozenset(n for n, several in extras.items() if any(map(_merges, several)))
    return Inputs(frozenset(hints), merged | local, local)


def _extras(hint: Any) -> Iterable[object]:
    if get_origin(hint) is Annotated:
        inner, *extras = get_args(hint)
        yield from extras
        yield from _extras(inner)
    elif getattr(get_origin(hint), "_name", None) in ("Required", "NotRequired"):
        yield from _extras(get_args(hint)[0])


def _merges(extra: object) -> bool:
    """Return whether an annotation is a reducer, or a channel of LangGraph."""
    return isinstance(extra, Callable) or hasattr(extra, "from_checkpoint")  # type: ignore[arg-type]
