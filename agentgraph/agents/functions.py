"""Inspection of users' functions: their signatures, annotations and code."""

import functools
import inspect
import types
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
)
from contextlib import suppress
from functools import partial
from types import CodeType
from typing import Any, Generic, NoReturn, TypeVar, cast

from agentgraph.agents.signals import EVERYTHING, Ask, BreakLoop, Capabilities, Exit, TransferTo
from agentgraph.errors import AgentGraphError
from agentgraph.safe_repr import shown

Fn = Callable[..., Any]
"""A user's function."""
T = TypeVar("T")

_Check = Callable[[types.FunctionType], bool]
_OF_LOOPS = ("ensure_future", "create_task", "create_future", "get_running_loop", "get_event_loop")
_AWAITED = (Awaitable, Coroutine)
_SEVERAL = (list, tuple)
"""The collections in which a function or a tool may return several items."""
_FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial)
_STREAMS = (Iterator, Iterable, Generator, AsyncIterator, AsyncIterable, AsyncGenerator)


def is_async(fn: object) -> bool:
    """Return whether `fn` is known to be a coroutine function or an async generator."""
    return _is_any(fn, inspect.iscoroutinefunction, inspect.isasyncgenfunction)


def gives_one_value(fn: object) -> bool:
    """Return whether `fn` returns one value: it is callable, and not a generator function."""
    return callable(fn) and not _is_any(fn, inspect.isgeneratorfunction, inspect.isasyncgenfunction)


def is_awaitable(value: object) -> bool:
    """Return whether a value must be awaited: a coroutine, a future, any object with `__await__`."""
    if isinstance(value, types.GeneratorType):
        return bool(value.gi_code.co_flags & inspect.CO_ITERABLE_COROUTINE)
    method = getattr(type(value), "__await__", None)
    return method is not None and not getattr(method, "is_hint", False)


def discard(awaitable: object) -> None:
    """Close or cancel an awaitable that is never awaited."""
    for name in ("close", "cancel"):
        if callable(end := getattr(awaitable, name, None)):
            end()
            return


AWAITS = "the async methods: arun(), aresume(), ainvoke()"
"""The methods to call instead of a sync run that cannot await something."""


class Asks:
    """One of our functions that calls a user's function."""

    __slots__ = ()

    @property
    def function(self) -> object:
        """The user's function, or the object in its place."""
        raise NotImplementedError


def function_in(fn: object) -> object:
    """Return the user's function inside an `Asks`; any other function is returned unchanged."""
    return fn.function if isinstance(fn, Asks) else fn


def needs_await(slot: str, fn: object) -> str:
    """Describe why sync runs cannot call the async function of an option, and the remedy."""
    return f"{slot}={shown(function_in(fn))} is async; pass a sync function, or run {AWAITS}"


def raise_unawaitable(where: str, slot: str, fn: object, awaitable: object) -> NoReturn:
    """Reject an awaitable that a function returned in a sync run.

    Raises:
        AgentGraphError: Always.
    """
    discard(awaitable)
    raise AgentGraphError(f"{where}: {needs_await(slot, fn)}")


def then(returned: object, finish: Callable[[Callable[[], Any]], T]) -> "T | Later[T]":
    """Apply `finish` to the result of a function; for an awaitable, return an awaitable.

    `finish` gets a function that returns the value, or raises the exception of the awaitable.
    """
    return Later(returned, finish) if is_awaitable(returned) else finish(lambda: returned)


class Later(Generic[T]):
    """An awaitable that applies a function to the result of another awaitable."""

    def __init__(self, awaitable: Any, finish: Callable[[Callable[[], Any]], T]) -> None:
        """Make it.

        Args:
            awaitable: The other awaitable.
            finish: Called with a function that returns the other's result or raises its exception.
        """
        self._awaitable, self._finish = awaitable, finish

    def __await__(self) -> Generator[Any, Any, T]:
        return self._finished().__await__()

    def close(self) -> None:
        """Close or cancel the other awaitable."""
        discard(self._awaitable)

    async def _finished(self) -> T:
        try:
            value = await self._awaitable
        except Exception as error:
            return self._finish(partial(_raise, error))
        return self._finish(lambda: value)


def _raise(error: Exception) -> NoReturn:
    raise error


def takes_two(fn: Fn) -> bool:
    """Return whether `fn` takes two arguments: a context, and then its subject."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(fn).parameters.values()
    return len([p for p in parameters if p.kind in kinds and p.default is p.empty]) > 1


def is_hook(fn: object) -> bool:
    """Return whether an object is a function of one argument, or of a context and one."""
    if not callable(fn) or not gives_one_value(fn):
        return False
    signature = inspect.signature(fn)
    for arguments in ([None], [None, None]):
        with suppress(TypeError):
            signature.bind(*arguments)
            return True
    return False


def yields(fn: Fn) -> bool:
    """Return whether `fn` is a generator function, or its annotation says that it returns one."""
    inner = inspect.unwrap(fn)
    if _is_any(inner, inspect.isgeneratorfunction, inspect.isasyncgenfunction):
        return True
    return any(typing.get_origin(hint) in _STREAMS for hint in _members(_return_hint(fn)))


def names_writer(fn: Fn) -> bool:
    """Return whether the code of `fn` names LangGraph's stream writer.

    >>> from langgraph.config import get_stream_writer
    >>> names_writer(lambda ctx: get_stream_writer()("half done")), names_writer(lambda ctx: "done")
    (True, False)
    """
    return _names(fn, "stream_writer")


def names_loop(fn: Fn) -> bool:
    """Return whether the code of `fn` names a function that needs a running event loop.

    >>> import asyncio
    >>> names_loop(lambda ctx: asyncio.ensure_future(ctx)), names_loop(lambda ctx: "done")
    (True, False)
    """
    own = (fn, getattr(fn, "__func__", fn), type(fn).__call__)
    codes = [each.__code__ for each in own if isinstance(each, types.FunctionType)]
    return any(_is_in_code(code, word) for code in codes for word in _OF_LOOPS)


def names_interrupt(fn: Fn) -> bool:
    """Return whether the code of `fn` names LangGraph's `interrupt`, or that of a function it names.

    It ignores functions of other packages, and functions that are more than five calls away.

    >>> from langgraph.types import interrupt as ask
    >>> helper = lambda text: ask(text)
    >>> names_interrupt(lambda ctx: helper("Well?")), names_interrupt(lambda ctx: "done")
    (True, False)
    """
    return _reaches_any(fn, _names_interrupt)


def _names_interrupt(function: types.FunctionType) -> bool:
    return "interrupt" in function.__name__ or _is_in_code(function.__code__, "interrupt")


def names_exit(fn: Fn) -> bool:
    """Return whether the return annotation of `fn`, or its code, names `Exit`.

    Or a signal that is one. Of a method, it looks at all methods of the class.

    >>> names_exit(lambda state, runtime: Exit()), names_exit(lambda state, runtime: None)
    (True, False)
    """
    hints = {kind for hint in _members(_return_hint(fn)) for kind in _item_types(hint)}
    return Exit in hints or any(_reaches_any(each, _names_exit) for each in _with_methods(fn))


def _with_methods(fn: Fn) -> list[Fn]:
    """Return a function; of a method, all methods of its class."""
    own = getattr(fn, "__self__", fn)
    return [fn] if isinstance(own, _FUNCTIONS) else [fn, *_methods(type(own))]


def _methods(kind: type) -> list[types.FunctionType]:
    """Return the methods of a class that are not those of its base in another package."""
    package = kind.__module__.partition(".")[0]
    own = [each for each in kind.__mro__ if each.__module__.partition(".")[0] == package]
    methods = [each for base in own for each in vars(base).values()]
    return [each for each in methods if isinstance(each, types.FunctionType)]


def _names_exit(function: types.FunctionType) -> bool:
    named = _names_of(function.__code__)
    return "Exit" in named or Exit in map(type, _named_in(function))


def _named_in(function: types.FunctionType) -> list[object]:
    """Return the objects that a function names: globals, defaults, closures, also in a list."""
    around = function.__globals__
    named = [around[name] for name in _names_of(function.__code__) if name in around]
    named += function.__defaults__ or ()
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # the closure cell is still empty
            named.append(cell.cell_contents)
    return [item for each in named for item in (each if type(each) in _SEVERAL else [each])]


def _reaches_any(fn: object, is_meant: _Check) -> bool:
    seen = set[CodeType]()
    return any(_reaches(each, is_meant, _package(each), seen, 5) for each in _functions_in(fn))


def _reaches(fn: object, is_meant: _Check, package: str, seen: set[CodeType], calls: int) -> bool:
    """Return whether a check holds of `fn` or of a function that it names."""
    for function in _functions_in(fn):
        code = function.__code__
        if code in seen:
            continue
        seen.add(code)
        if is_meant(function):
            return True
        inner = _named_by(function) if calls and _package(function) == package else ()
        if any(_reaches(each, is_meant, package, seen, calls - 1) for each in inner):
            return True
    return False


def _functions_in(fn: object) -> Iterator[types.FunctionType]:
    """Yield the Python functions that run when something is called: under decorators, of an object."""
    inner: object = inspect.unwrap(cast(Fn, fn))
    inner = getattr(inner, "func", inner)
    for each in (inner, type(inner).__call__):
        function = getattr(each, "__func__", each)
        if isinstance(function, types.FunctionType):
            yield function


def _named_by(function: types.FunctionType) -> Iterator[object]:
    """Yield the functions that a function's code names: globals, parts of modules, closures."""
    code, around = function.__code__, function.__globals__
    names = [*_names_of(code)]
    known = [around[name] for name in names if name in around]
    found = [*known]
    for each in known:
        if issubclass(type(each), types.ModuleType):
            found += [vars(each)[name] for name in names if name in vars(each)]
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # the closure cell is still empty
            found.append(cell.cell_contents)
    # type() instead of isinstance(), because a lazy object may load its target for `__class__`
    yield from (each for each in found if issubclass(type(each), _FUNCTIONS))


def _names_of(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for const in code.co_consts:
        if inspect.iscode(const):
            yield from _names_of(const)


def _package(function: types.FunctionType) -> str:
    return str(function.__module__).partition(".")[0]


def _names(fn: Fn, word: str) -> bool:
    return any(_is_in_code(function.__code__, word) for function in _functions_in(fn))


def _is_in_code(code: CodeType, word: str) -> bool:
    names = (*code.co_names, *code.co_freevars)
    inner = (const for const in code.co_consts if inspect.iscode(const))
    return any(word in name for name in names) or any(_is_in_code(each, word) for each in inner)


def gives_command(fn: Fn) -> bool:
    """Return whether the return annotation of `fn` names a LangGraph `Command`."""
    return any(_name(hint) == "Command" for hint in _members(_return_hint(fn)))


def may_give_command(fn: Fn) -> bool:
    """Return whether `fn` may return a LangGraph `Command`: its return annotation names it, or is open.

    >>> def look(topic: str) -> str: ...
    >>> may_give_command(look), may_give_command(lambda topic: topic)
    (False, True)
    """
    kinds = {kind for hint in _members(_return_hint(fn)) for kind in _item_types(hint)}
    is_open = not kinds or bool(kinds & {Any, object, *_STREAMS, *_AWAITED})
    return is_open or any(_name(kind) == "Command" for kind in kinds)


def _name(hint: object) -> str:
    return getattr(typing.get_origin(hint) or hint, "__name__", "")


def allowed(fn: Fn) -> Capabilities:
    """Return the capabilities that the return annotation of `fn` declares.

    >>> def stop_or_speak(ctx) -> str | Exit: ...
    >>> allowed(stop_or_speak)
    Capabilities(proceed=True, exit=True, break_loop=False, transfer=False, ask=False)
    """
    hints = _members(_return_hint(fn))
    kinds = {kind for hint in hints for kind in _item_types(hint)}
    if not kinds or kinds & {Any, object, *_STREAMS, *_AWAITED}:
        return EVERYTHING
    may_be_empty = any(typing.get_origin(hint) in (*_STREAMS, list) for hint in hints)
    return Capabilities(
        proceed=may_be_empty or bool(kinds - {Exit, BreakLoop, TransferTo, Ask}),
        exit=Exit in kinds,
        break_loop=BreakLoop in kinds,
        transfer=TransferTo in kinds,
        ask=Ask in kinds,
    )


def _return_hint(fn: object) -> object:
    while isinstance(fn, functools.partial):
        fn = fn.func
    target = fn if inspect.isroutine(fn) else type(fn).__call__
    try:
        return typing.get_type_hints(target).get("return", Any)
    except Exception:  # an annotation that cannot be resolved allows anything
        return Any


def _item_types(hint: object) -> tuple[object, ...]:
    """Return the types of the items that a member of a return annotation yields or returns."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in _STREAMS:
        ends = arguments[2:]  # the return type of a generator
        return tuple(kind for part in (*arguments[:1], *ends) for kind in _members(part)) or (Any,)
    if origin in _AWAITED:
        awaited = _members(arguments[-1]) if arguments else (Any,)
        return tuple(kind for hint in awaited for kind in _item_types(hint))
    if hint in _SEVERAL or origin in _SEVERAL:
        return tuple(kind for part in arguments for kind in _members(part)) or (Any,)
    return (hint,)


def _members(hint: object) -> tuple[object, ...]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(member for part in typing.get_args(hint) for member in _members(part))
    return (hint,)


def _is_any(fn: object, *checks: Callable[[object], bool]) -> bool:
    while isinstance(fn, functools.partial):
        fn = fn.func
    called = (fn, type(fn).__call__)  # the second for callable objects
    return any(check(each) for check in checks for each in called)
