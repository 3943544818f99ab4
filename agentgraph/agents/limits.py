"""Bounds: what one turn of a run may use, and what is wrong with options that are numbers or words."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

from agentgraph.errors import AgentGraphError
from agentgraph.safe_repr import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one turn may use; what would go beyond raises `LimitError`.

    The thread stays resumable: a resume with higher limits goes on where it stopped, and nothing
    runs again.

    >>> graph = compile_agent(function_agent("a", lambda ctx: "Hi."), limits=Limits(transfers=10))

    Raises:
        AgentGraphError: A limit is no whole number above 0, and not None.
    """

    transfers: int | None = 50
    """How often agents may hand over to each other, by a call or `TransferTo`; None for no bound.
    That a supervisor's worker hands back is not counted."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
            if value is not None and not is_count:
                raise AgentGraphError(
                    f"Limits({each.name}={value!r}): pass a whole number above 0, or None for no bound"
                )


_LIMITS = Limits()


def check_limits(limits: object) -> Limits:
    """Return limits as they were given, those of a turn by default for None.

    Raises:
        AgentGraphError: They are not `Limits`.
    """
    if limits is None:
        return _LIMITS
    if not isinstance(limits, Limits):
        raise AgentGraphError(f"limits={limits!r}: pass Limits, such as Limits(transfers=100), or None")
    return limits


def limit_faults(name: str, limit: object, *, needed: bool = False) -> Iterator[str]:
    """Yield what is wrong with a bound, which is a number from 1, or None unless it is needed."""
    is_number = isinstance(limit, int) and not isinstance(limit, bool) and limit >= 1
    if not is_number and (needed or limit is not None):
        instead = "" if needed else ", or None for no bound"
        yield f"{name}={shown(limit)} is no limit; use a whole number from 1{instead}"


def word_faults(name: str, word: object, words: tuple[str, ...]) -> Iterator[str]:
    """Yield what is wrong with an option that is one of some words."""
    if not isinstance(word, str) or word not in words:
        yield f"{name}={shown(word)} is not known; use {' or '.join(map(shown, words))}"
