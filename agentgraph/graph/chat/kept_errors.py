"""Exceptions as plain data, and made again of it in another process, as far as `isinstance` can tell.

A saver keeps no exceptions. What catches one asks for its class, its arguments or its attributes. A
class that this process has not loaded nobody here can ask for: its nearest base stands for it then.
"""

import sys
from collections.abc import Mapping
from functools import reduce
from typing import Any

from agentgraph.agents.schemas import plain
from agentgraph.errors import AgentGraphError
from agentgraph.graph.failures import Failure, failures, keep_failures
from agentgraph.safe_repr import said


def as_data(error: Exception) -> dict[str, Any]:
    """Return an exception as plain data: its classes, arguments and attributes, and where it arose."""
    classes = [each for each in type(error).__mro__ if issubclass(each, Exception)]
    attributes = {name: value for name, value in _attributes(error) if _is_plain(value)}
    return {
        "classes": [[each.__module__, each.__qualname__] for each in classes],
        "args": list(error.args) if all(map(_is_plain, error.args)) else [said(error)],
        "attributes": attributes,
        "said": said(error),
        "failures": [list(each) for each in failures(error)],
    }


def from_data(data: Mapping[str, Any]) -> Exception:
    """Return an exception again.

    >>> error = from_data(as_data(ConnectionError("down")))
    >>> isinstance(error, OSError), error
    (True, ConnectionError('down'))
    """
    error = _made(data)
    for name, value in data["attributes"].items():
        object.__getattribute__(error, "__dict__")[name] = value
    keep_failures(error, [Failure(*each) for each in data["failures"]])
    return error


def _made(data: Mapping[str, Any]) -> Exception:
    kind = _kind(data["classes"])
    try:
        error = kind.__new__(kind, *data["args"])
        error.args = tuple(data["args"])
        str(error)
    except Exception:  # it asks for other arguments than it keeps
        error = _named(data["classes"][0], Exception)(data["said"])
    return error


def _kind(classes: list[list[str]]) -> type[Exception]:
    """Return the first of some classes that is loaded, under the name of the first."""
    found = next(filter(None, (_loaded(*each) for each in classes)), Exception)
    module, name = classes[0]
    is_first = [found.__module__, found.__qualname__] == [module, name]
    return found if is_first else _named(classes[0], found)


def _named(first: list[str], base: type[Exception]) -> type[Exception]:
    module, name = first
    return type(name.rpartition(".")[2], (base,), {"__module__": module, "__qualname__": name})


def _loaded(module: str, name: str) -> type[Exception] | None:
    try:
        found = reduce(getattr, name.split("."), sys.modules[module])
    except (KeyError, AttributeError):
        return None
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _attributes(error: Exception) -> list[tuple[str, Any]]:
    kept = object.__getattribute__(error, "__dict__")
    return [(name, value) for name, value in kept.items() if not name.startswith(("_", "agentgraph_"))]


def _is_plain(value: Any) -> bool:
    try:
        return bool(plain(value) == value)
    except (AgentGraphError, RecursionError, UnicodeError):
        return False
