"""The limits of one turn of a run, and checks of options that are numbers or words."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

from agentgraph.errors import AgentGraphError
from agentgraph.safe_repr import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one turn; what would exceed one raises `LimitError`, and is not done.

    The thread can be resumed: a resume with higher limits continues where the run stopped, and
    nothing runs again. The error is no agent's failure: no `on_error`, retry, compensation or model
    handles it.

    >>> graph = compile_agent(function_agent("a", lambda ctx: "Hi."), limits=Limits(transfers=10))

    Raises:
        AgentGraphError: A limit is neither a whole number above 0 nor None.
    """

    transfers: int | None = 50
    """The maximum number of transfers between agents, by tool or `TransferTo`; None for no limit.
    The return from a supervisor's worker is not counted. All branches, items and calls count in one
    counter; one that is thrown away has used what it used."""

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
    """Return the given limits, or the default limits for None.

    Raises:
        AgentGraphError: The limits are not `Limits`.
    """
    if limits is None:
        return _LIMITS
    if not isinstance(limits, Limits):
        raise AgentGraphError(f"limits={limits!r}: pass Limits, such as Limits(transfers=100), or None")
    return limits


def limit_faults(name: str, limit: object, *, needed: bool = False) -> Iterator[str]:
    """Yield what is wrong with a limit: it must be at least 1, or None unless it is needed."""
    is_number = isinstance(limit, int) and not isinstance(limit, bool) and limit >= 1
    if not is_number and (needed or limit is not None):
        instead = "" if needed else ", or None for no bound"
        yield f"{name}={shown(limit)} is not a limit; use a whole number from 1{instead}"


def word_faults(name: str, word: object, words: tuple[str, ...]) -> Iterator[str]:
    """Yield what is wrong with an option that must be one of `words`."""
    if not isinstance(word, str) or word not in words:
        yield f"{name}={shown(word)} is not known; use {' or '.join(map(shown, words))}"
