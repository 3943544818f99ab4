"""Checks by address: iterations of loops, the order of calls, and spending."""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from langchain_core.messages import AIMessage, ToolMessage

from agentgraph.agents.limits import Limits
from agentgraph.errors import AgentGraphError
from agentgraph.events.events import AgentEvent
from agentgraph.journal.spent import Spent
from agentgraph.reports.result import Result
from agentgraph.safe_repr import shown
from agentgraph.testing.evaluation.checks import NamedCheck
from agentgraph.tree.addresses import without_counters

_ITERATION = re.compile(r"\[(\d+)\]$")


def ends_within(address: str, iterations: int) -> NamedCheck:
    """Return a check that a loop ends within a number of iterations.

    It fails if the loop did not run, took more iterations, or waits for an answer. Iterations are
    counted by their events.

    >>> tree = loop("talk", [function_agent("ann", lambda ctx: "Hi.")], max_iterations=2)
    >>> ends_within("talk", 2)(Runner(tree).invoke("Go."))
    True

    Args:
        address: The loop: its address, with the iterations around it or without; or its name.
        iterations: The maximum number of iterations.

    Raises:
        AgentGraphError: `iterations` is not a number of at least 1.
    """
    if not isinstance(iterations, int) or iterations < 1:
        raise AgentGraphError(
            f"iterations={shown(iterations)} is out of range; pass an integer of at least 1"
        )

    def check(result: Result) -> bool:
        counted = [*_iterations(_events(result), address)]
        if not counted:
            raise AssertionError(f"{address} did not run")
        for question in result.pending:
            if _activation(question.address, address) is not None:
                raise AssertionError(f"{address} has not ended: {question.address} waits for an answer")
        if (longest := max(counted) + 1) > iterations:
            raise AssertionError(f"{address} took {longest} iterations, more than {iterations}")
        return True

    times = "1 iteration" if iterations == 1 else f"{iterations} iterations"
    return NamedCheck(f"{address} ends within {times}", check)


def no_call_before(name: str, other: str) -> NamedCheck:
    """Return a check that something is not called before something else has ended.

    It fails if the second never ended although the first was called. A tool is called by the message
    that names it, and ends with its result, unless that is an error. An agent ends with the last event
    of its first activation.

    Args:
        name: The tool or agent that must wait: the name of a tool, the name of an agent, or its
            address.
        other: The tool or agent that comes first.
    """

    def check(result: Result) -> bool:
        events = _events(result)
        called = next((n for n, each in enumerate(events) if _calls(each, name)), None)
        if called is None:
            return True
        ended = _end(events, other, [each.address for each in result.pending])
        if ended is None or called <= ended:
            when = "which has not ended" if ended is None else "which ended later"
            raise AssertionError(f"{events[called].address} called {name} before {other}, {when}")
        return True

    return NamedCheck(f"no call of {name} before {other}", check)


def spends_at_most(
    *,
    agent: str | None = None,
    model_calls: int | None = None,
    tokens: int | None = None,
    cost: Decimal | int | None = None,
    transfers: int | None = None,
    steps: int | None = None,
    seconds: float | None = None,
) -> NamedCheck:
    """Return a check of the spending of a turn, in the measures of `Limits`.

    It fails if a measure is not known: a cost needs `Runner(prices=)`. Seconds are known in
    evaluations, and in runs that count them; see `Spent`.

    Args:
        agent: The name of an agent; by default the sum of all.
        model_calls: The maximum number of calls of models.
        tokens: The maximum number of tokens.
        cost: The maximum cost.
        transfers: The maximum number of transfers.
        steps: The maximum number of visits of agents.
        seconds: The maximum running time, in seconds.

    Raises:
        AgentGraphError: A maximum is not a number above 0, or there is none.
    """
    limits = Limits(
        model_calls=model_calls,
        tokens=tokens,
        cost=cost,
        transfers=transfers,
        steps=steps,
        seconds=seconds,
    )
    if not limits.bounds:
        raise AgentGraphError("spends_at_most() has no maximum; pass one, such as tokens=1000")

    def check(result: Result) -> bool:
        spent = result.spent
        own = spent if agent is None else spent.by_agent.get(agent, Spent(cost=Decimal(0)))
        whose = "" if agent is None else f"{agent}: "
        is_counted = any("steps" in each for each in result.counts.values())
        for measure, bound in limits.bounds.items():
            used = getattr(own, measure)
            if used is None:
                raise AssertionError(f"{whose}the cost is not known; pass prices= to the runner")
            if measure == "seconds" and not is_counted:
                raise AssertionError(
                    "the seconds are not counted; give the run a limit, or use evaluate()"
                )
            if used > bound:
                raise AssertionError(f"{whose}{used} {_word(measure)}, more than {bound}")
        return True

    whose = "" if agent is None else f"{agent}: "
    bounds = ", ".join(f"{bound} {_word(measure)}" for measure, bound in limits.bounds.items())
    return NamedCheck(f"{whose}at most {bounds}", check)


def _word(measure: str) -> str:
    return measure.replace("_", " ")


def _events(result: Result) -> list[AgentEvent]:
    """Return the events of a result that were not discarded."""
    discarded = {each for event in result.events if event.action for each in event.action.discarded}
    return [event for event in result.events if event.id not in discarded]


def _activation(address: str, wanted: str) -> tuple[str, ...] | None:
    """Return the parts of an address up to the wanted agent; None if it is not inside that.

    Args:
        address: The address of an event.
        wanted: An address, with counters or without, or a name.
    """
    parts, names = address.split("/"), wanted.split("/")
    starts = range(len(parts)) if len(names) == 1 else (0,)
    for start in starts:
        own = parts[start : start + len(names)]
        if len(own) == len(names) and all(map(_is_named, own, names)):
            return tuple(parts[: start + len(names)])
    return None


def _is_named(part: str, name: str) -> bool:
    return name in (part, without_counters(part))


def _iterations(events: Sequence[AgentEvent], address: str) -> Iterator[int]:
    for event in events:
        if (activation := _activation(event.address, address)) is not None:
            number = _ITERATION.search(activation[-1])
            if number is not None:
                yield int(number[1])


def _calls(event: AgentEvent, name: str) -> bool:
    message = event.message
    calls = message.tool_calls if isinstance(message, AIMessage) else ()
    return any(call["name"] == name for call in calls) or _activation(event.address, name) is not None


def _end(events: Sequence[AgentEvent], name: str, waiting: Sequence[str]) -> int | None:
    """Return the index of the event with which a tool or an agent has first ended; None if none is.

    Args:
        events: The events.
        name: The name of the tool, or the name or the address of the agent.
        waiting: The addresses that wait for answers.
    """
    for number, event in enumerate(events):
        message = event.message
        if isinstance(message, ToolMessage) and message.name == name and message.status != "error":
            return number
        if (first := _whole(event.address, name)) is not None:
            if any(_whole(each, name) == first for each in waiting):
                return None
            return max(n for n, each in enumerate(events) if _whole(each.address, name) == first)
    return None


def _whole(address: str, name: str) -> tuple[str, ...] | None:
    """Return the same as `_activation`, for all iterations of a loop together."""
    activation = _activation(address, name)
    return activation and (*activation[:-1], _ITERATION.sub("", activation[-1]))
