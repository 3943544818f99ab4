"""Whether two values are the same, also where they cannot be compared."""

import pickle
from typing import Any


def is_same(one: Any, other: Any) -> bool:
    """Tell whether two values are equal; where they cannot be compared, what they are pickled to.

    Arrays of numpy, and messages that carry them, give no answer to `==` that is true or false.
    """
    if one is other:
        return True
    try:
        return bool(one == other)
    except Exception:
        return _pickled(one) == _pickled(other) is not None


def _pickled(value: Any) -> bytes | None:
    try:
        return pickle.dumps(value)
    except Exception:
        return None
