"""Digests of functions and graphs: the part of a cache's key that distinguishes one from another.

Names do not: functions that one function makes have one name, and so have the nodes of two graphs. So
this looks inside, and only at what is the same in another process:

- of a function: its code, its defaults, and the variables around it
- of a graph: its nodes, what each runs, and what leads to it
- of runnables, tools, models, agents: their fields, which are configuration

Variables around a function may be lists and dicts that it fills, and an object may count its calls. So
of those only the texts, numbers, functions and the like count that they name or hold, not what else a
container holds. An object of which nothing is known counts by its class.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cached_property, partial
from hashlib import sha256
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable
from langgraph.pregel import Pregel
from pydantic import BaseModel

from agentgraph.agents.agents import Agent

_PLAIN = (str, bytes, bool, int, float, complex, type(None), type(...))
_CODE = (FunctionType, MethodType, partial, Runnable, Pregel)
"""The digest of a container that may change."""
_KNOWN = (*_PLAIN, FunctionType, partial)
"""The digest of an object of which nothing else is known."""
_VARYING = ("id", "response_metadata", "usage_metadata")
"""The fields of a message that differ although it says the same."""


def digest_of(thing: object) -> str:
    """Return a hash of what a function or a graph is made of."""
    return sha256(repr(_Contents().of(thing)).encode("utf-8", "backslashreplace")).hexdigest()


class _Contents:
    """Describes one thing; what comes again is described once."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._kept: list[object] = []

    def of(self, thing: Any, *, is_fixed: bool = False) -> object:
        """Return the counted parts of a thing; `is_fixed`: containers in it do not change."""
        if isinstance(thing, Enum):
            return [_name(type(thing)), thing.name]
        if isinstance(thing, _PLAIN):
            return thing
        if id(thing) in self._numbers:
            return ["again", self._numbers[id(thing)]]
        self._numbers[id(thing)] = len(self._numbers)
        self._kept.append(thing)  # else another thing may get its id
        return [_name(type(thing)), *self._parts(thing, is_fixed=is_fixed)]

    def _parts(self, thing: Any, *, is_fixed: bool) -> Iterator[object]:
        match thing:
            case FunctionType():
                yield from self._of_function(thing)
            case MethodType():
                yield from map(self.of, (thing.__func__, thing.__self__))
            case partial():
                yield from map(self.of, (thing.func, thing.args, tuple(sorted(thing.keywords.items()))))
            case type() | BuiltinFunctionType() | ModuleType():
                yield _name(thing)
            case CodeType():
                yield from self._of_code(thing)
            case tuple() | frozenset():
                yield from self._members(thing, is_fixed=is_fixed)
            case Mapping() | list() | set():
                yield from self._members(thing, is_fixed=is_fixed) if is_fixed else self._code_in(thing)
            case _ if (named := _configured(thing)) is not None:
                yield self.of(named, is_fixed=True)
            case _:
                named = {n: v for n, v in _fields(thing).items() if isinstance(v, _KNOWN)}
                yield from ([name, self.of(value)] for name, value in sorted(named.items()))

    def _members(self, thing: Any, *, is_fixed: bool) -> Iterator[object]:
        members = thing.items() if isinstance(thing, Mapping) else thing
        if isinstance(thing, Mapping | set | frozenset):
            members = sorted(members, key=repr)
        yield from (self.of(each, is_fixed=is_fixed) for each in members)

    def _code_in(self, thing: Any) -> Iterator[object]:
        members = thing.values() if isinstance(thing, Mapping) else thing
        yield from (self.of(each) for each in [*members] if isinstance(each, _CODE))

    def _of_function(self, function: FunctionType) -> Iterator[object]:
        yield f"{function.__module__}.{function.__qualname__}"
        yield self.of(function.__code__)
        yield self.of((function.__defaults__, tuple(sorted((function.__kwdefaults__ or {}).items()))))
        for cell in function.__closure__ or ():
            yield self.of(_in_cell(cell))
        for name in function.__code__.co_names:
            known = function.__globals__.get(name)
            is_ours = isinstance(known, FunctionType) and known.__module__ == function.__module__
            if is_ours or isinstance(known, str | bytes):
                yield name, self.of(known)

    def _of_code(self, code: CodeType) -> Iterator[object]:
        yield code.co_code
        yield code.co_names
        yield self.of(code.co_consts, is_fixed=True)


def _configured(thing: Any) -> dict[str, Any] | None:
    """Return the state that distinguishes an object of its class, if all of it is configuration."""
    match thing:
        case BaseMessage():
            return {name: value for name, value in thing if name not in _VARYING}
        case Runnable() if hasattr(
            thing, "assistant_id"
        ):  # a `RemoteGraph`, whose module is not imported
            return _of_server(thing)
        case Pregel() if isinstance(tree := getattr(thing, "agent", None), Agent):
            return {"tree": tree}
        case Pregel():
            nodes = [[name, each.bound, *_edges_at(each)] for name, each in thing.nodes.items()]
            return {"name": thing.name, "channels": sorted(thing.channels), "nodes": nodes}
        case BaseModel() | Runnable():
            return _fields(thing)
        case _ if is_dataclass(thing):
            return {field.name: getattr(thing, field.name, None) for field in fields(thing)}
    return None


def _fields(thing: Any) -> dict[str, Any]:
    kind = type(thing)
    if isinstance(thing, BaseModel):
        known = kind.model_fields
        return {name: value for name, value in thing if name not in known or not known[name].exclude}
    named = getattr(thing, "__dict__", {})
    return {n: v for n, v in named.items() if not isinstance(getattr(kind, n, None), cached_property)}


def _edges_at(node: Any) -> list[object]:
    return [sorted(node.triggers), node.channels, node.writers]


def _in_cell(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # it has no value yet
        return None


def _of_server(graph: Any) -> dict[str, Any]:
    """Return the name of a server's graph, and the server's address if its client has it."""
    client = getattr(graph.sync_client or graph.client, "http", None)
    address = str(getattr(getattr(client, "client", None), "base_url", ""))
    return {"at": address, "id": graph.assistant_id, "config": graph.config}


def _name(thing: Any) -> str:
    name = getattr(thing, "__qualname__", None) or getattr(thing, "__name__", "")
    return f"{getattr(thing, '__module__', '')}.{name}"
