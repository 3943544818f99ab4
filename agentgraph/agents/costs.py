"""Costs: exact sums of decimals, and the check of a price."""

from collections.abc import Awaitable, Callable
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any

Price = Decimal | int | None
"""The price of a reply; None if it is not known."""

PriceFunction = Callable[[str, Any], Price | Awaitable[Price]]
"""Returns the price of a reply, or an awaitable, by the name of its model and the reply's usage."""


def no_prices(model: str, usage: object) -> None:
    """Stand for prices where a runner has none, and reads threads of any tree.

    Its runs count no cost; one under a limit of cost is an error when it starts.
    """


Amount = float | str
"""An amount that is counted; a cost is text, which every saver returns exactly."""

EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Adds and multiplies without rounding, whatever the decimal context of the thread is."""


def total(one: Amount, other: Amount) -> Amount:
    """Return the sum of two amounts; with a cost it is a cost.

    >>> total(1, 2), total("0.1", "0.2"), total(0, "0.30")
    (3, '0.3', '0.30')
    """
    if isinstance(one, str) or isinstance(other, str):
        return str(EXACT.add(Decimal(one), Decimal(other)))
    return one + other


def reported(usage: Any) -> Any:
    """Return the `usage_metadata` of a message, or None if it counts no tokens.

    LangChain adds a cost of 0 to a reply from its cache, also where the model had reported nothing.
    """
    return usage if usage and "total_tokens" in usage else None


def is_free(usage: Any) -> bool:
    """Return whether a usage is that of a reply from LangChain's cache, which costs nothing."""
    return bool(usage) and usage.get("total_cost") == 0


def price_fault(price: object) -> str | None:
    """Return the fault of a price: it is a `Decimal` or a whole number from 0, or None."""
    if isinstance(price, float):
        return f"a float is not exact; return Decimal({str(price)!r})"
    if price is None:
        return None
    is_number = isinstance(price, Decimal | int) and not isinstance(price, bool)
    if is_number and Decimal(price).is_finite() and price >= 0:  # type: ignore[arg-type, operator]
        return None
    return "return a Decimal of at least 0, or None if the price is not known"
