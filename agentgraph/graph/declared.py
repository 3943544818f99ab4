"""The declared types and defaults of values, from a user's `TypedDict`, pydantic model or dataclass."""

from collections.abc import Callable
from copy import copy
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cached_property, partial
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NotRequired,
    Required,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from agentgraph.agents.signals import Local
from agentgraph.graph.type_hints import TypedHint, alike, make_typed_dict
from agentgraph.safe_repr import reason, shown

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class Declared:
    """One declared value.

    Attributes:
        name: Its name.
        hint: Its type, with all that is annotated, such as its reducer.
        default: Returns its default; None if it has none.
        is_local: Whether it stays in the lane that wrote it.
        operand: The type of what its reducer takes, if that is known to be another one.
    """

    name: str
    hint: Any
    default: Callable[[], object] | None = None
    is_local: bool = False
    operand: Any = None

    def type_fault(self) -> str | None:
        """Return why values cannot be checked against the type; None if they can."""
        try:
            self._adapter.rebuild(raise_errors=True)  # a name in the type may not have been known
        except Exception as error:
            return reason(error)
        return None

    def union_fault(self) -> str | None:
        """Return the members of a union that a reader of a saver cannot distinguish, or None."""
        if (two := alike(self.hint)) is None:
            return None
        one, other = (f"`{each.__name__ if type(each) is type else each}`" for each in two)
        return (
            f"the field {self.name!r} is declared as a union of {one} and {other}, which a saver "
            "stores alike, so that a reader cannot distinguish them; declare one of them"
        )

    def fault(self, value: object) -> str | None:
        """Return why a value does not fit; None if it fits.

        Nothing is converted: "3" is not an `int`. But data in JSON's form fits a type that has one,
        such as a dict for a pydantic model.
        """
        try:
            self.typed(value)
        except ValueError:
            pass
        else:
            return None
        try:
            self._adapter.validate_python(value, strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            at = "".join(f"[{part!r}]" for part in first["loc"])
            why = f"{self.name!r}{at} does not fit its declared type: {first['msg']}"
            return f"{why}, got {shown(first['input'])}"
        return None

    def typed(self, value: object) -> object:
        """Return a value with its declared type, also if a saver has made plain data of it.

        Raises:
            ValueError: It does not fit.
        """
        return self._typed_hint.typed(value)

    def typed_operand(self, value: object) -> object:
        """Return the argument type of a reducer: the declared one, or that of its parameter.

        Raises:
            ValueError: It is neither.
        """
        try:
            return self.typed(value)
        except ValueError:
            if self.operand is None:
                raise
            return self._operand_hint.typed(value)

    @property
    def _adapter(self) -> TypeAdapter[object]:
        return self._typed_hint.adapter

    @cached_property
    def _typed_hint(self) -> TypedHint:
        return TypedHint(self.hint)

    @cached_property
    def _operand_hint(self) -> TypedHint:
        return TypedHint(self.operand)


def given_fields(values: object) -> Any:
    """Return values that are an object of a declared type as a dict, without what is its default.

    A reducer would add a default to the one that is there. All else is returned as it is.
    """
    if isinstance(values, BaseModel):
        return {name: getattr(values, name) for name in values.model_fields_set}
    if not is_dataclass(values) or isinstance(values, type):
        return values
    defaults = {name: default() for name, default in _defaults(values).items()}
    all_fields = {each.name: getattr(values, each.name) for each in fields(values)}
    return {
        name: v for name, v in all_fields.items() if name not in defaults or differ(v, defaults[name])
    }


def differ(one: object, other: object) -> bool:
    """Return whether two values differ; those that `==` cannot compare, such as numpy arrays, do."""
    try:
        return bool(one != other)
    except Exception:
        return True


def declared_fields(schema: object) -> dict[str, Declared]:
    """Return the declarations of the fields of a schema that LangGraph takes as a state."""
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        of_model = [_of_model(name, info) for name, info in schema.model_fields.items()]
        return {each.name: _localized(each) for each in of_model}
    hints = {name: _bare(hint) for name, hint in get_type_hints(schema, include_extras=True).items()}
    defaults = _defaults(schema) if is_dataclass(schema) else {}
    of_hints = [Declared(name, hint, defaults.get(name)) for name, hint in hints.items()]
    return {each.name: _localized(each) for each in of_hints}


def without_local(schema: object) -> Any:
    """Return a schema without `LOCAL`: LangGraph reads a reducer only as the last annotation."""
    if not isinstance(schema, type):
        return schema
    hints = get_type_hints(schema, include_extras=True)
    plain = {name: _plain_hint(hint) for name, hint in hints.items()}
    if all(plain[name] is hint for name, hint in hints.items()):
        return schema
    return make_typed_dict(schema.__name__, plain)


def _localized(declared: Declared) -> Declared:
    """Return a declared value that is local if its type says so, which then no longer does."""
    hint = _plain_hint(declared.hint)
    return declared if hint is declared.hint else replace(declared, hint=hint, is_local=True)


def _plain_hint(hint: object) -> object:
    """Return a type without `LOCAL`; the type itself if it has none."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Required, NotRequired):
        inner = _plain_hint(arguments[0])
        return hint if inner is arguments[0] else origin[inner]
    if origin is not Annotated:
        return hint
    kind, *rest = arguments
    inner, others = _plain_hint(kind), [each for each in rest if not isinstance(each, Local)]
    if inner is kind and len(others) == len(rest):
        return hint
    return Annotated[(inner, *others)] if others else inner


def _of_model(name: str, info: FieldInfo) -> Declared:
    named = Field(title=info.title, description=info.description)
    hint: object = Annotated[(info.annotation, *info.metadata, named)]
    if info.is_required():
        return Declared(name, hint)
    return Declared(name, hint, partial(info.get_default, call_default_factory=True, validated_data={}))


def _bare(hint: object) -> object:
    if get_origin(hint) in (Required, NotRequired):
        return _bare(get_args(hint)[0])
    if get_origin(hint) is Annotated and get_origin(get_args(hint)[0]) in (Required, NotRequired):
        inner, *rest = get_args(hint)
        return Annotated[(_bare(inner), *rest)]
    return hint


def _defaults(schema: "DataclassInstance | type[DataclassInstance]") -> dict[str, Callable[[], object]]:
    defaults: dict[str, Callable[[], object]] = {}
    for each in fields(schema):
        if each.default_factory is not MISSING:
            defaults[each.name] = each.default_factory
        elif each.default is not MISSING:
            defaults[each.name] = partial(copy, each.default)
    return defaults
