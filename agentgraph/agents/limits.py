"""The limits of a turn, and the checks of options that are numbers or words."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from typing import Any, Literal

from agentgraph.agents.habits.options import hints_options
from agentgraph.errors import AgentGraphError
from agentgraph.safe_repr import shown

Measure = Literal["model_calls", "tokens", "cost", "transfers", "steps", "seconds"]
"""A quantity that a limit bounds."""

MEASURES: tuple[Measure, ...] = ("model_calls", "tokens", "cost", "transfers", "steps", "seconds")


@hints_options
@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one turn: of a run, a graph, or of an agent and all below it.

    Before a limit would be exceeded, the run raises `LimitError`, or asks a person. The thread can
    be resumed with higher limits, and continues there. A turn has one count: over branches, items,
    calls, agents as tools and graphs, over resumes, and including discarded work.

    >>> graph = compile_agent(function_agent("a", lambda ctx: "Hi."), limits=Limits(transfers=10))

    A `LimitError` of a run is not attributed to an agent: no `on_error`, retry, compensation or model
    handles it. A reached limit of an agent (`limits=` of its builder) is a failure of that agent.

    None inherits the limit: a run inherits it from the `Runner` or the graph, which has 50 transfers
    and no other limit by default.

    Raises:
        AgentGraphError: A limit is neither a number above 0 nor None, `cost` is a float, or `on_limit`
            is unknown.
    """

    model_calls: int | None = None
    """The maximum number of calls of chat models, including those of tools, functions, middleware and
    graphs that call models through LangChain, with the config of the run."""

    tokens: int | None = None
    """The maximum number of tokens, as providers report them; checked before each call of a model, so
    that active calls may exceed it. A reply without a report warns once in a run."""

    cost: Decimal | int | None = None
    """The maximum cost of the replies of models, in the unit of `Runner(prices=)`, which it needs;
    checked as `tokens`. A model that has no price, or that reported no tokens, is not called."""

    transfers: int | None = None
    """The maximum number of transfers between agents, by tool or `TransferTo`. The return from a
    supervisor's worker is not counted."""

    steps: int | None = None
    """The maximum number of activations of chat, function and graph agents, and of people. A rerun
    after a failure or a pause belongs to the same activation."""

    seconds: float | None = None
    """The maximum running time of agents, in seconds, without waits for people. Checked before each
    step and model call; coroutines are cancelled, functions in threads are not."""

    on_limit: Literal["raise", "ask"] | None = None
    """Whether a reached limit raises `LimitError`, the default, or makes the agent ask for the same
    amount again: True, or False for the `LimitError`. Without a checkpointer it raises."""

    def __post_init__(self) -> None:
        for name in MEASURES:
            if (fault := _fault(name, getattr(self, name))) is not None:
                raise AgentGraphError(fault)
        if self.on_limit not in ("raise", "ask", None):
            raise AgentGraphError(
                f"Limits(on_limit={shown(self.on_limit)}): choose one of: 'raise', 'ask'"
            )

    @property
    def bounds(self) -> dict[Measure, float | Decimal]:
        """The limits that are set; a cost is a `Decimal`."""
        every = {name: getattr(self, name) for name in MEASURES}
        given = {name: bound for name, bound in every.items() if bound is not None}
        return given if self.cost is None else {**given, "cost": Decimal(self.cost)}

    def over(self, inherited: "Limits") -> "Limits":
        """Return these limits, with inherited ones in place of None.

        Args:
            inherited: The limits around them.
        """
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(inherited, **{name: value for name, value in given.items() if value is not None})


_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "seconds": ((int, float), "number above 0"),
    "cost": ((int, Decimal), 'Decimal above 0, such as Decimal("0.5")'),
}
_WHOLE = ((int,), "whole number above 0")


def _fault(name: Measure, value: object) -> str | None:
    kinds, number = _KINDS.get(name, _WHOLE)
    is_number = isinstance(value, kinds) and not isinstance(value, bool)
    if value is None or (is_number and _is_above_0(value)):
        return None
    return f"Limits({name}={shown(value)}): pass a {number}, or None to inherit the limit"


def _is_above_0(value: Any) -> bool:
    is_finite = not isinstance(value, Decimal) or value.is_finite()
    return is_finite and bool(value > 0)


DEFAULT_LIMITS = Limits(transfers=50)
"""The default limits of a run."""


def check_limits(limits: object) -> Limits:
    """Return limits after a check; None becomes empty limits.

    Raises:
        AgentGraphError: The limits are not `Limits`.
    """
    if not isinstance(limits, Limits | None):
        raise AgentGraphError(
            f"limits={shown(limits)}: pass Limits, such as Limits(transfers=100), or None"
        )
    return limits or Limits()


def limit_faults(name: str, limit: object, *, needed: bool = False) -> Iterator[str]:
    """Yield the fault of a limit: it must be at least 1, or None unless it is required."""
    is_number = isinstance(limit, int) and not isinstance(limit, bool) and limit >= 1
    if not is_number and (needed or limit is not None):
        instead = "" if needed else ", or None for no bound"
        yield f"{name}={shown(limit)} is not a limit; pass a whole number from 1{instead}"


def word_faults(name: str, word: object, words: tuple[str, ...]) -> Iterator[str]:
    """Yield the fault of an option that must be one of `words`."""
    if not isinstance(word, str) or word not in words:
        yield f"{name}={shown(word)} is not known; choose one of: {', '.join(map(shown, words))}"
