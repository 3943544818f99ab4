"""Digests of data, the same in each process: of the inputs and answers of turns, to compare them."""

import json
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from hashlib import blake2b

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

_BYTES = 12
"""The length of a digest."""


def data_digest(value: object) -> str:
    """Return a digest of plain data, the same in each process; what is not plain counts by its type.

    >>> data_digest({"seats": {8, 0}}) == data_digest({"seats": {0, 8}})
    True
    """
    plain = value if isinstance(value, str) else _ordered(value)
    data = to_jsonable_python(plain, by_alias=True, bytes_mode="base64", fallback=_type_name)
    text = json.dumps(data, sort_keys=True)
    return blake2b(text.encode(errors="backslashreplace"), digest_size=_BYTES).hexdigest()


def _ordered(value: object) -> object:
    """Return data with sorted digests in place of each set, whose order differs between processes."""
    match value:
        case Set():
            return sorted(map(data_digest, value))
        case Mapping():
            return {key: _ordered(each) for key, each in value.items()}
        case list() | tuple():
            return [*map(_ordered, value)]
        case BaseModel():
            return _ordered(value.model_dump(by_alias=True))
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {field.name: _ordered(getattr(value, field.name)) for field in fields(value)}
    return value


def _type_name(value: object) -> str:
    return type(value).__qualname__
