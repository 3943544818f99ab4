"""The end of a loop as data: a value of the run that is as wanted."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueIs:
    """The `until` of a loop that ends once a value of the run is as wanted.

    >>> ValueIs(value="approved", wanted=True)
    ValueIs(value='approved', wanted=True)
    """

    value: str
    """The name of the value."""
    wanted: str | int | float | bool | None
    """What it is when the loop ends; true is not 1."""

    def __call__(self, ctx: Any) -> bool:
        """Tell whether the loop ends, from its `Context`."""
        found = ctx.values.get(self.value)
        same = isinstance(found, bool) == isinstance(self.wanted, bool)
        return same and bool(found == self.wanted)
