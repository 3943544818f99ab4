"""The hook for options: a call that does not fit the signature raises an error with advice.

A valid call costs one more Python call. The arguments are checked against the signature only after a
`TypeError`, so that a `TypeError` from inside the function never counts as a wrong option.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, iscoroutinefunction, isfunction, signature
from typing import Any, TypeVar, cast

from agentgraph.agents.habits.table import ANY, OPTIONS, USAGES
from agentgraph.safe_repr import nearest

Called = TypeVar("Called", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)

_STARS = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def hints_options(called: Called) -> Called:
    """Wrap a function, or the `__init__` of a class, so that wrong arguments are answered by a hint.

    >>> @hints_options
    ... def chat_agent(name, model, *, instruction=""): ...
    >>> chat_agent("writer", "openai:gpt-5", prompt="Be brief.")
    Traceback (most recent call last):
    TypeError: chat_agent() has no option 'prompt'; use instruction=
    """
    if isinstance(called, type):
        _wrap(called, ["__init__"])
        return called
    return cast(Called, _checked(called))


def hints_options_for(passes_on: Callable[..., Any]) -> Callable[[Called], Called]:
    """Wrap a function as `hints_options` does that passes further options on to another function."""

    def hinted(called: Called) -> Called:
        return cast(Called, _checked(called, passes_on))

    return hinted


def hints_methods(cls: Class) -> Class:
    """Wrap the `__init__` and the public methods of a class as `hints_options` wraps a function."""
    public = [name for name, value in vars(cls).items() if isfunction(value) and name[0] != "_"]
    _wrap(cls, ["__init__", *public])
    return cls


def _wrap(cls: type, names: Iterable[str]) -> None:
    for name in names:
        setattr(cls, name, _checked(getattr(cls, name)))


def _checked(fn: Callable[..., Any], passes_on: Callable[..., Any] | None = None) -> Callable[..., Any]:
    @wraps(fn)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except TypeError:
            if (fault := _fault(fn, args, kwargs, passes_on)) is None:
                raise
        raise TypeError(fault)  # here, so that the error has no other one as its context

    @wraps(fn)
    async def achecked(*args: Any, **kwargs: Any) -> Any:
        return await checked(*args, **kwargs)

    return achecked if iscoroutinefunction(fn) else checked


def _fault(
    fn: Callable[..., Any],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    passes_on: Callable[..., Any] | None,
) -> str | None:
    """Return the fault of a call's arguments, with advice; None if they fit."""
    called = signature(fn)
    where = fn.__qualname__.removesuffix(".__init__")
    needed = [each for each in called.parameters.values() if each.kind not in _STARS][_has_self(fn) :]
    options = {each.name: each for each in needed}
    if passes_on is not None:
        options |= {each.name: each for each in [*signature(passes_on).parameters.values()][1:]}
    takes_any = passes_on is None and any(
        each.kind is Parameter.VAR_KEYWORD for each in called.parameters.values()
    )
    if unknown := [name for name in kwargs if name not in options and not takes_any]:
        return _unknown_options(where, unknown, [*options])
    try:
        called.bind(*args, **kwargs)
    except TypeError as error:
        return f"{where}(): {error}; {USAGES.get(_row(where)) or _usage(where, needed)}"
    return None


def _has_self(fn: Callable[..., Any]) -> bool:
    return "." in fn.__qualname__.rpartition("<locals>.")[2]


def _unknown_options(where: str, unknown: Sequence[str], options: Sequence[str]) -> str:
    names: dict[str, list[str]] = {}
    for name in unknown:
        names.setdefault(_hint(where, name, options), []).append(repr(name))
    if len(unknown) == 1:
        return f"{where}() has no option {unknown[0]!r}; {next(iter(names))}"
    advice = (f"{', '.join(several)}: {hint}" for hint, several in names.items())
    return f"{where}() has no options {', '.join(map(repr, unknown))}; {'; '.join(advice)}"


def _row(where: str) -> str:
    """Return the key of what is called in the tables; of an agent's class that of its builder."""
    name = where.removesuffix("Agent").lower()
    rows = (f"{each}()" for each in (where, name, f"{name}_agent"))
    return next((each for each in rows if each in USAGES), f"{where}()")


def _hint(where: str, name: str, options: Sequence[str]) -> str:
    of_any_method = f"{where.rpartition('.')[0]}.*()"
    for hints in (OPTIONS.get(_row(where), {}), OPTIONS.get(of_any_method, {}), ANY):
        if name in hints:
            return hints[name]
    near = nearest(name, options)
    return f"{f'did you mean {near}=? ' if near else ''}available: {', '.join(options) or 'none'}"


def _usage(where: str, parameters: Iterable[Parameter]) -> str:
    needed = (each for each in parameters if each.default is Parameter.empty)
    names = (
        f"{each.name}=..." if each.kind is Parameter.KEYWORD_ONLY else each.name for each in needed
    )
    return f"write {where}({', '.join(names)})"
