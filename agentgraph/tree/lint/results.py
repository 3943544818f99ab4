"""The constants that a function may return, as far as its source says."""

import ast
from typing import Any, Literal, get_args, get_origin, get_type_hints

from agentgraph.tree.lint.source import Source, source_of

BOOLEANS: frozenset[object] = frozenset([True, False])
_DEPTH = 6
"""Maximum depth of expressions that are followed."""


def results_of(fn: object) -> frozenset[object] | None:
    """Return the constants that a function may return, by its annotation or its source, or None."""
    source = source_of(fn)
    if source is None:
        return None
    annotated = _annotated(source)
    if annotated is not None:
        return annotated
    found = frozenset[object]()
    for each in returns_of(source) or (None,):
        results = None if each is None else _constants(source, each, _DEPTH)
        if results is None:
            return None
        found |= results
    return found


def returns_of(source: Source) -> list[ast.expr | None] | None:
    """Return the expressions that a function returns; None if it may end otherwise, or yields."""
    if isinstance(source.definition, ast.Lambda):
        return [source.definition.body]
    own = _own_nodes(source.definition)
    if any(isinstance(each, ast.Yield | ast.YieldFrom) for each in own) or _may_fall_through(
        source.body
    ):
        return None
    return [each.value for each in own if isinstance(each, ast.Return)]


def _annotated(source: Source) -> frozenset[object] | None:
    try:
        hint: Any = get_type_hints(source.function).get("return")
    except Exception:  # an annotation that cannot be resolved
        return None
    if hint is bool:
        return BOOLEANS
    return frozenset(get_args(hint)) if get_origin(hint) is Literal else None


def _own_nodes(definition: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.AST]:
    """Return the parts of a function that are not those of functions in it."""
    found: list[ast.AST] = []
    queue: list[ast.AST] = [*definition.body]
    while queue:
        node = queue.pop()
        found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            queue += ast.iter_child_nodes(node)
    return found


def _may_fall_through(body: list[ast.stmt]) -> bool:
    match body[-1]:
        case ast.Return() | ast.Raise():
            return False
        case ast.If(body=one, orelse=other) if other:
            return _may_fall_through(one) or _may_fall_through(other)
        case ast.With(body=inner) | ast.AsyncWith(body=inner):
            return _may_fall_through(inner)
    return True


def _constants(source: Source, node: ast.expr, depth: int) -> frozenset[object] | None:
    if depth == 0:
        return None
    match node:
        case ast.Constant(value=value):
            return frozenset([value])
        case ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return BOOLEANS
        case ast.Call(func=ast.Name(id="bool" | "any" | "all" | "isinstance")):
            return BOOLEANS
        case ast.Call(func=ast.Attribute(attr="startswith" | "endswith" | "isdigit")):
            return BOOLEANS
        case ast.IfExp(body=one, orelse=other):
            several = [_constants(source, each, depth - 1) for each in (one, other)]
        case ast.BoolOp(values=values):
            several = [_constants(source, each, depth - 1) for each in values]
        case ast.Name(id=name) if source.assigned.get(name) and name not in source.iterated:
            several = [_constants(source, each, depth - 1) for each in source.assigned[name]]
        case _:
            return None
    if None in several:
        return None
    return frozenset(value for each in several for value in each or ())
