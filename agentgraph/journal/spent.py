"""The spending of turns, as in `Result`, `Turn` and `Thread`."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import reduce
from typing import Any

from langchain_core.messages.ai import UsageMetadata

from agentgraph.agents.costs import EXACT, Amount, total
from agentgraph.agents.limits import MEASURES
from agentgraph.events.events import AgentEvent
from agentgraph.graph.nodes.spending import (
    AT,
    CHANNEL,
    DECIDED,
    RUN,
    UNPRICED,
    Counts,
    added,
    losses_in_step,
    spent_until,
)
from agentgraph.journal.saved import Saved
from agentgraph.journal.thread_saver import ThreadSaver


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The spending of agents, in the measures of `Limits`.

    It is exact where the runner has `prices=`, where more than transfers is limited, or where
    middleware asks a decision model: then it counts discarded work, too, and the spending of tools,
    functions and graphs. Otherwise it is an estimate from the events: a reply with tokens is a model
    call, each address at which something happened a step, and seconds are 0.
    """

    model_calls: int = 0
    """Calls of models."""
    tokens: int = 0
    """Tokens, as providers report them."""
    cost: Decimal | None = None
    """The exact sum of the prices of replies, as `Runner(prices=)` returned them when they came; None
    if it is not known: without prices, or if a reply reported no tokens or had no price."""
    transfers: int = 0
    """Transfers between agents."""
    steps: int = 0
    """Visits of agents that work."""
    seconds: float = 0.0
    """For how long they worked; for all agents, for how long at least one of them did."""
    by_agent: Mapping[str, "Spent"] = field(default_factory=dict)
    """The same by the name of the agent; without agents that spent nothing."""

    def __add__(self, other: "Spent") -> "Spent":
        """Return the spending of both; the cost is known if both are, or one spent nothing."""
        if _NOTHING in (self, other):
            return other if self == _NOTHING else self
        sums = {name: getattr(self, name) + getattr(other, name) for name in _SUMMED}
        names = [*self.by_agent, *(name for name in other.by_agent if name not in self.by_agent)]
        by_agent = {
            name: self.by_agent.get(name, _NOTHING) + other.by_agent.get(name, _NOTHING)
            for name in names
        }
        cost = None
        if self.cost is not None and other.cost is not None:
            cost = EXACT.add(self.cost, other.cost)
        return Spent(**sums, cost=cost, by_agent=by_agent)


_SUMMED = [measure for measure in MEASURES if measure != "cost"]
_NOTHING = Spent()


def spent_in(counts: Counts, events: Iterable[AgentEvent]) -> Spent:
    """Return the counted spending of a turn, or else an estimate from its events."""
    is_counted = any("steps" in each for each in counts.values())
    counts = counts if is_counted else _shown(events)
    run = counts.get(RUN, {})
    agents: dict[str, Spent] = {}
    for name, each in counts.items():
        own: dict[str, Any] = {measure: each[measure] for measure in _SUMMED if measure in each}
        if name != RUN and own.keys() - {"seconds"}:  # of composites only the time is counted
            agents[name] = Spent(**own, cost=_cost_of(each, run))
    whole = sum(agents.values(), _NOTHING)
    return replace(whole, by_agent=agents, seconds=float(run.get("seconds", 0)))


def _cost_of(counts: Mapping[str, Amount], run: Mapping[str, Amount]) -> Decimal | None:
    is_known = "cost" in run and UNPRICED not in run and not counts.get(UNPRICED)
    return Decimal(counts.get("cost", 0)) if is_known else None


def costs_at(counts: Counts, paths: Mapping[str, str]) -> dict[str, Decimal | None]:
    """Return the costs at the places where agents ran in a turn; None for one that is not known.

    Args:
        counts: The counted spending of the turn.
        paths: The paths of the places, each with the name of its agent.
    """
    run, places = counts.get(RUN, {}), Counter(paths.values())

    def cost(path: str, name: str) -> Decimal | None:
        own = counts.get(name, {})
        if places[name] > 1:
            own = {measure: own.get(f"{measure}{AT}{path}", 0) for measure in ("cost", UNPRICED)}
        return _cost_of(own, run)

    return {path: cost(path, name) for path, name in paths.items()}


def cost_text(counts: Counts) -> str | None:
    """Return the cost of a turn by its counts, as text; None if it has no prices."""
    if "cost" not in counts.get(RUN, {}):
        return None
    return shown_cost(None if _unpriced(counts) else _priced(counts))


def cost_since(before: Counts, after: Counts) -> Decimal | None:
    """Return the cost of the runs of a turn after some counts of it; None if it is not known."""
    was_priced = "cost" in before.get(RUN, {})
    if "cost" not in after.get(RUN, {}) or _unpriced(after) > _unpriced(before) + (not was_priced):
        return None
    return EXACT.subtract(_priced(after), _priced(before))


def _unpriced(counts: Counts) -> float:
    return sum(float(each.get(UNPRICED, 0)) for each in counts.values())


def _priced(counts: Counts) -> Decimal:
    costs = (Decimal(each.get("cost", 0)) for each in counts.values())
    return reduce(EXACT.add, costs, Decimal(0))


def shown_cost(cost: Decimal | None) -> str:
    """Return a cost as text, without an exponent."""
    return "unknown" if cost is None else f"{cost:f}"


def decisions_in(before: Counts, after: Counts) -> dict[str, UsageMetadata]:
    """Return the tokens of decision models in the runs of a turn after some counts, by agent."""
    found = {}
    for name, each in after.items():
        was = before.get(name, {})
        own = {key: int(each.get(key, 0)) - int(was.get(key, 0)) for key in DECIDED}
        if any(own.values()):
            tokens_in, tokens_out = own.values()
            found[name] = UsageMetadata(
                input_tokens=tokens_in, output_tokens=tokens_out, total_tokens=tokens_in + tokens_out
            )
    return found


async def counts_at(saver: ThreadSaver, saved: Saved | None) -> Counts:
    """Return the counted spending in the turn of a checkpoint of the root, and in the step after it.

    Without a count before that step, and without one of the step itself, nothing else is read.
    """
    if saved is None:
        return {}
    counts: Counts = {} if saved.begins_turn else spent_until(saved)
    is_counted = counts or any(channel == CHANNEL for _, channel, _ in saved.pending_writes or ())
    if is_counted and saved.next_node is not None:
        losses = await losses_in_step(saver.saver, saver.tree, saver.thread_id, "", saved.id)
        for loss in losses:
            counts = added(counts, loss["spent"])
    return counts


def _shown(events: Iterable[AgentEvent]) -> Counts:
    steps = {(each.agent_name, each.address): each for each in events}
    replies = {each.id: each for each in events if not each.partial and each.usage}
    hops = {each.id: each for each in events if each.kind == "transfer_to"}
    counts: Counts = {name: {} for name, _ in steps}
    for measure, names in (
        ("steps", [name for name, _ in steps]),
        ("model_calls", [each.agent_name for each in replies.values()]),
        ("transfers", [each.agent_name for each in hops.values()]),
    ):
        for name, count in Counter(names).items():
            counts[name][measure] = count
    for each in replies.values():
        own, usage = counts[each.agent_name], each.usage
        own["tokens"] = total(own.get("tokens", 0), usage["total_tokens"] if usage else 0)
    return counts
