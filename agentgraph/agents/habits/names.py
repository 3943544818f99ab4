"""The hook for names: a missing name of a module or class raises an error with advice.

Python calls `__getattr__` only for missing names. Names that start with "_" fail at once, because
copying, pickling and notebooks look for them. Type checkers do not see the hook, so they reject missing
names.
"""

import sys
from abc import ABCMeta
from collections.abc import Callable
from inspect import isabstract
from typing import TYPE_CHECKING, Any, TypeVar

from agentgraph.agents.habits.table import KEYS, NAMES, REFUSED
from agentgraph.safe_repr import shown

Class = TypeVar("Class", bound=type)


def hints_names(row: str) -> Callable[[Class], Class]:
    """Have the objects of a class answer missing names, and keys, with the hints of a row of the table.

    >>> @hints_names("Result")
    ... class Result: ...
    >>> Result().final_output
    Traceback (most recent call last):
    AttributeError: Result has no attribute 'final_output'; use text or output

    Args:
        row: The row of `NAMES`, and of `KEYS` if it has one.
    """

    def hinted(cls: Class) -> Class:
        is_abstract = isabstract(cls)  # users know its objects by its name

        def missing(self: object, name: str) -> Any:
            if any(name in vars(each) for each in type(self).__mro__):  # it raised an AttributeError
                return object.__getattribute__(self, name)
            where = cls.__name__ if is_abstract else type(self).__name__
            raise missing_attribute(row, where, name, self)

        def missing_key(_: object, key: object) -> Any:
            hints = KEYS[row]
            hint = (isinstance(key, str) and hints.get(key)) or hints[""].format(key=shown(key))
            raise TypeError(f"{cls.__name__} has no key {shown(key)}; {hint}")

        methods: dict[str, object] = {"__getattr__": missing}
        if row in KEYS:
            methods |= {"__getitem__": missing_key, "__iter__": None}  # or Python would iterate by it
        methods |= {name: _refusing(text) for name, text in REFUSED.get(row, {}).items()}
        for name, method in methods.items():
            setattr(cls, name, method)
        return cls

    return hinted


def _refusing(text: str) -> Callable[..., Any]:
    def refuse(*_: object) -> Any:
        raise TypeError(text)

    refuse.is_hint = True  # type: ignore[attr-defined]
    return refuse


class HintsNames(ABCMeta):
    """The type of classes that answer missing names as their objects do: `Runner.run_sync(agent)`."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            row = next(each.__name__ for each in cls.__mro__ if each.__name__ in NAMES)
            raise missing_attribute(row, cls.__name__, name, cls)


def missing_attribute(row: str, where: str, name: str, owner: object) -> AttributeError:
    """Make the error for a missing name of `owner`.

    Args:
        row: The row of the table that may have a hint.
        where: The text for the owner in the error.
        name: The name.
        owner: The object, class or module, of which Python suggests a similar name without a hint.
    """
    if name[:1] != "_" and (hint := NAMES[row].get(name)) is not None:
        return AttributeError(f"{where} has no attribute {name!r}; {hint}", name=name, obj=None)
    return AttributeError(f"{where!r} object has no attribute {name!r}", name=name, obj=owner)


def missing_name(module: str, name: str, owner: object) -> Exception:
    """Make the error for a missing name of a module: an `ImportError` in an import statement."""
    hint = None if name[:1] == "_" else NAMES["module"].get(name)
    if hint is None:
        return AttributeError(f"module {module!r} has no attribute {name!r}", name=name, obj=owner)
    is_imported = sys._getframe(2).f_code.co_name == "_handle_fromlist"
    if is_imported:  # by `from agentgraph import ...`, which would drop the text of an AttributeError
        return ImportError(f"cannot import name {name!r} from {module!r}; {hint}", name=module)
    return AttributeError(f"{module} has no attribute {name!r}; {hint}", name=name, obj=None)
