"""The source of users' functions, as syntax trees, and the objects that their names mean."""

import ast
import functools
import inspect
import linecache
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, cast

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
"""The syntax of a function."""
UNKNOWN: Any = object()
"""The object of a name that cannot be known."""
_PARSED = 64
"""Number of files whose syntax is cached."""
_Position = tuple[int, int]
"""A line and a column in it."""
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True)
class Source:
    """A function with its syntax.

    Attributes:
        function: The function.
        definition: Its syntax.
        owner: The object whose method it is; None for other functions.
        filled: The `functools.partial` that fills some of its parameters; None for other functions.
    """

    function: FunctionType
    definition: Definition
    owner: object = None
    filled: "functools.partial[Any] | None" = None

    @property
    def parameters(self) -> list[ast.arg]:
        """The parameters that an argument may fill by position, without `self`."""
        return [each for each in self._positional if each.arg not in self.bound]

    @property
    def _positional(self) -> list[ast.arg]:
        arguments = self.definition.args
        positional = [*arguments.posonlyargs, *arguments.args]
        return positional[1:] if self.owner is not None else positional

    @cached_property
    def bound(self) -> Mapping[str, object]:
        """The arguments that a `functools.partial` has for it, by the names of its parameters."""
        if self.filled is None:
            return {}
        names = [each.arg for each in self._positional]
        return {**dict(zip(names, self.filled.args, strict=False)), **self.filled.keywords}

    @property
    def self_name(self) -> str | None:
        """The name of the parameter `self`; None for a function."""
        arguments = self.definition.args
        positional = [*arguments.posonlyargs, *arguments.args]
        return positional[0].arg if self.owner is not None and positional else None

    @cached_property
    def body(self) -> list[ast.stmt]:
        """Its statements; for a lambda, one that returns its expression."""
        if isinstance(self.definition, ast.Lambda):
            return [ast.Return(self.definition.body)]
        return self.definition.body

    @cached_property
    def assigned(self) -> dict[str, list[ast.expr]]:
        """The expressions that are assigned to each local name, in its nested functions too."""
        found: dict[str, list[ast.expr]] = {}
        for node in ast.walk(self.definition):
            for name, value in _assignments(node):
                found.setdefault(name, []).append(value)
        return found

    @cached_property
    def iterated(self) -> dict[str, list[ast.expr]]:
        """The expressions over whose items each local name goes."""
        found: dict[str, list[ast.expr]] = {}
        for node in ast.walk(self.definition):
            if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
                for number, name in enumerate(_names_in(node.target)):
                    if number == 0:  # the key of a pair from items()
                        found.setdefault(name, []).append(node.iter)
        return found

    @cached_property
    def changed(self) -> frozenset[str]:
        """The local names whose objects the function may change: `files[name] = text`."""
        stored = (each for each in ast.walk(self.definition) if isinstance(each, ast.Subscript))
        items = [each.value for each in stored if not isinstance(each.ctx, ast.Load)]
        calls = (each for each in ast.walk(self.definition) if isinstance(each, ast.Call))
        methods = [each.func for each in calls if isinstance(each.func, ast.Attribute)]
        items += [each.value for each in methods if each.attr not in ("items", "keys", "values", "get")]
        return frozenset(each.id for each in items if isinstance(each, ast.Name))

    def is_local(self, name: str) -> bool:
        """Return whether a name is a parameter or is assigned, also in a nested function."""
        return name in self._locals

    @cached_property
    def _locals(self) -> frozenset[str]:
        nodes = [*ast.walk(self.definition)]
        shared = {
            name for each in nodes if isinstance(each, ast.Global | ast.Nonlocal) for name in each.names
        }
        stored = {
            each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        }
        return frozenset(({each.arg for each in nodes if isinstance(each, ast.arg)} | stored) - shared)

    def resolved(self, node: ast.expr) -> Any:
        """Return the object that a name or an attribute means, or `UNKNOWN`."""
        if isinstance(node, ast.Name):
            return self._named(node.id)
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id == self.self_name:
                return _attribute(self.owner, node.attr)
            base = self.resolved(node.value)
            known = isinstance(base, ModuleType | type)
            return _attribute(base, node.attr) if known else UNKNOWN
        return UNKNOWN

    def _named(self, name: str) -> Any:
        if name in self.bound and name not in (*self.assigned, *self.iterated):
            return self.bound[name]
        if self.is_local(name):
            return UNKNOWN
        cells = self.function.__closure__ or ()
        for variable, cell in zip(self.function.__code__.co_freevars, cells, strict=True):
            if variable == name:
                try:
                    return cell.cell_contents
                except ValueError:  # the cell is still empty
                    return UNKNOWN
        around = self.function.__globals__
        if name in around:
            return around[name]
        builtins = around.get("__builtins__", {})
        named = builtins if isinstance(builtins, dict) else vars(builtins)
        return named.get(name, UNKNOWN)


def _attribute(base: object, name: str) -> Any:
    """Return an attribute without running code of users."""
    if isinstance(base, ModuleType):
        return vars(base).get(name, UNKNOWN)
    found = inspect.getattr_static(base, name, UNKNOWN)
    if isinstance(found, MemberDescriptorType) and not isinstance(base, type):
        return getattr(base, name, UNKNOWN)  # a slot
    if isinstance(found, FunctionType) and not isinstance(base, type):
        return MethodType(found, base)
    return found.__func__ if isinstance(found, staticmethod) else found


def _assignments(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _pairs(target, value)
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, value
        case ast.NamedExpr(target=ast.Name(id=name), value=value):
            yield name, value
        case ast.AugAssign(target=ast.Name(id=name), value=value):
            yield name, ast.Constant(value=None)  # it is no longer known


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    match target, value:
        case ast.Name(id=name), _:
            yield name, value
        case ast.Tuple(elts=names), ast.Tuple(elts=values) if len(names) == len(values):
            for each, its in zip(names, values, strict=True):
                yield from _pairs(each, its)


def _names_in(target: ast.expr) -> list[str]:
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    return [each.id if isinstance(each, ast.Name) else "" for each in parts]


def source_of(fn: object) -> Source | None:
    """Return the function that runs when something is called, with its syntax; None if unknown.

    Decorators are followed as far as they say what they wrap.
    """
    inner: object = fn
    filled = None
    while True:
        if isinstance(inner, functools.partial):
            filled, inner = inner, inner.func
        elif callable(inner) and hasattr(inner, "__wrapped__"):
            inner = inner.__wrapped__
        else:
            break
    owner = None
    if isinstance(inner, MethodType):
        owner, inner = inner.__self__, inner.__func__
    elif not isinstance(inner, FunctionType):
        owner, inner = inner, inspect.getattr_static(type(inner), "__call__", None)
    if not isinstance(inner, FunctionType):
        return None
    definition = definition_of(inner)
    if definition is None:
        return None
    return Source(inner, _with_unique_names(definition), owner, filled)


def _with_unique_names(definition: Definition) -> Definition:
    """Return a copy with other names for the variables of comprehensions: each has its own scope."""
    copy = deepcopy(definition)
    found = (each for each in ast.walk(copy) if isinstance(each, _Comprehension))
    for number, node in enumerate(found):
        targets = (part for each in node.generators for part in ast.walk(each.target))
        names = {each.id for each in targets if isinstance(each, ast.Name)}
        outside = {id(each) for each in ast.walk(node.generators[0].iter)}
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and each.id in names and id(each) not in outside:
                each.id = f"{each.id}@{number}"
    return copy


def definition_of(function: FunctionType) -> Definition | None:
    """Return the syntax of a function, or None if its source is not there, or has changed."""
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    in_line = _definitions("".join(lines)).get((code.co_firstlineno, code.co_name), [])
    if len(in_line) < 2:
        return in_line[0] if in_line else None
    first, last = _positions(code)
    inside = [each for each in in_line if _start(each) <= first and last <= _end(each)]
    return min(inside, key=_end, default=None)


@lru_cache(maxsize=_PARSED)
def _definitions(text: str) -> dict[tuple[int, str], list[Definition]]:
    """Return the functions of a file by their first line, decorators included, and their name."""
    found: dict[tuple[int, str], list[Definition]] = {}
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):  # a cell of a notebook may have magics
        return found
    for node in ast.walk(tree):
        if isinstance(node, _DEFINITIONS):
            decorators = getattr(node, "decorator_list", ())
            line = min([node.lineno, *(each.lineno for each in decorators)])
            found.setdefault((line, getattr(node, "name", "<lambda>")), []).append(node)
    return found


def _start(node: Definition) -> _Position:
    body = node.body if isinstance(node, ast.Lambda) else node
    return body.lineno, body.col_offset


def _end(node: Definition) -> _Position:
    return cast(int, node.end_lineno), cast(int, node.end_col_offset)


def _positions(code: CodeType) -> tuple[_Position, _Position]:
    """Return the first and the last position in the source that a function's code names."""
    starts, ends = list[_Position](), list[_Position]()
    for line, end_line, column, end_column in code.co_positions():
        if None not in (line, end_line, column, end_column) and column != end_column:
            starts.append((cast(int, line), cast(int, column)))
            ends.append((cast(int, end_line), cast(int, end_column)))
    nowhere = (code.co_firstlineno, 0)
    return min(starts, default=nowhere), max(ends, default=nowhere)


def called_with(source: Source, call: ast.Call, meant: Callable[[ast.expr], bool]) -> set[str] | None:
    """Return the parameters of a function that get an argument; None if that is not known.

    Args:
        source: The function that is called.
        call: The call.
        meant: Returns whether an argument is meant.
    """
    names = [each.arg for each in source.parameters]
    found: set[str] = set()
    for number, argument in enumerate(call.args):
        if isinstance(argument, ast.Starred):
            return None
        if meant(argument):
            if number >= len(names):
                return None
            found.add(names[number])
    for keyword in call.keywords:
        if meant(keyword.value):
            if keyword.arg is None:
                return None
            found.add(keyword.arg)
    return found
