"""The texts that an expression of a user's function may be, as far as its source says."""

import ast
from collections.abc import Collection, Mapping
from itertools import product
from typing import Any, Literal, get_args, get_origin, get_type_hints

from agentgraph.tree.lint.source import Source

_MOST = 64
"""Maximum number of texts of one expression."""
Around = frozenset[str]
"""The local names that are being followed."""


def texts(source: Source, node: ast.expr, around: Around = frozenset()) -> set[str] | None:
    """Return the texts that an expression may be; None if they are not known."""
    match node:
        case ast.Constant(value=str() as text):
            return {text}
        case ast.Name(id=name) if source.is_local(name):
            return _of_local(source, name, around)
        case ast.Name() | ast.Attribute():
            thing = source.resolved(node)
            return {thing} if isinstance(thing, str) else None
        case ast.IfExp(body=one, orelse=other):
            return _union([texts(source, one, around), texts(source, other, around)])
        case ast.JoinedStr(values=parts):
            return _joined([_part(source, each, around) for each in parts])
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _joined([texts(source, left, around), texts(source, right, around)])
    return None


def _part(source: Source, node: ast.expr, around: Around) -> set[str] | None:
    inner = node.value if isinstance(node, ast.FormattedValue) else node
    return texts(source, inner, around)


def _of_local(source: Source, name: str, around: Around) -> set[str] | None:
    if name in around:
        return set()
    around |= {name}
    assigned, iterated = source.assigned.get(name, []), source.iterated.get(name, [])
    if name in source.bound:
        return {bound} if isinstance(bound := source.resolved(ast.Name(name)), str) else None
    if not assigned and not iterated:
        return _of_parameter(source, name)
    several = [texts(source, each, around) for each in assigned]
    return _union([*several, *(items(source, each, around) for each in iterated)])


def _of_parameter(source: Source, name: str) -> set[str] | None:
    """Return the texts of a parameter whose annotation lists them."""
    try:
        hint: Any = get_type_hints(source.function).get(name)
    except Exception:  # an annotation that cannot be resolved
        return None
    values = get_args(hint) if get_origin(hint) is Literal else ()
    return {*values} if values and all(isinstance(each, str) for each in values) else None


def items(source: Source, node: ast.expr, around: Around = frozenset()) -> set[str] | None:
    """Return the texts over which a loop goes; of a dict and its items the keys."""
    match node:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return _union([texts(source, each, around) for each in parts])
        case ast.Call(func=ast.Attribute(value=inner, attr="items" | "keys"), args=[]):
            return dict_keys(source, inner, around)
        case ast.Call(func=ast.Name(id="sorted" | "list" | "tuple" | "set"), args=[inner]):
            return items(source, inner, around)
        case ast.Name(id=name) if source.is_local(name):
            assigned = [] if name in around else source.assigned.get(name, [])
            around |= {name}
            several = [items(source, each, around) for each in assigned]
            return _union(several) if several and name not in source.iterated else None
        case ast.Name() | ast.Attribute():
            return _all_texts(source.resolved(node))
        case ast.Dict():
            return dict_keys(source, node, around)
    return None


def dict_keys(source: Source, node: ast.expr, around: Around = frozenset()) -> set[str] | None:
    """Return the keys of a dict; None if they are not known."""
    match node:
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            return _union(
                [
                    dict_keys(source, value, around) if key is None else texts(source, key, around)
                    for key, value in pairs
                ]
            )
        case ast.DictComp(key=key):
            return texts(source, key, around)
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
            return {each.arg for each in keywords if each.arg} if all(k.arg for k in keywords) else None
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _union([dict_keys(source, left, around), dict_keys(source, right, around)])
        case ast.IfExp(body=one, orelse=other):
            return _union([dict_keys(source, one, around), dict_keys(source, other, around)])
        case ast.Name(id=name) if source.is_local(name):
            assigned = [] if name in around else source.assigned.get(name, [])
            around |= {name}
            several = [dict_keys(source, each, around) for each in assigned]
            return _union(several) if several and name not in source.changed else None
        case ast.Name() | ast.Attribute():
            thing = source.resolved(node)
            return _all_texts(thing) if isinstance(thing, Mapping) else None
    return None


def _all_texts(thing: object) -> set[str] | None:
    if not isinstance(thing, Collection) or isinstance(thing, str):
        return None
    return {*thing} if all(isinstance(each, str) for each in thing) else None


def _union(several: list[set[str] | None]) -> set[str] | None:
    if None in several:
        return None
    return {text for each in several for text in each or ()}


def _joined(parts: list[set[str] | None]) -> set[str] | None:
    known = [each for each in parts if each is not None]
    if len(known) < len(parts):
        return None
    together = {"".join(each) for each in product(*known)}
    return together if len(together) <= _MOST else None
