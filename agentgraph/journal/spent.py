"""The spending of turns, as in `Result`, `Turn` and `Thread`."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agentgraph.agents.limits import MEASURES
from agentgraph.events.events import AgentEvent
from agentgraph.graph.nodes.spending import CHANNEL, RUN, Counts, added, losses_in_step, spent_until
from agentgraph.journal.saved import Saved
from agentgraph.journal.thread_saver import ThreadSaver


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The spending of agents, in the measures of `Limits`.

    It is exact where more than transfers is limited, or where middleware asks a decision model: then it
    counts discarded work, too, and the spending of tools, functions and graphs. Otherwise it is an
    estimate from the events: a reply with tokens is a model call, each address at which something
    happened a step, and seconds are 0.
    """

    model_calls: int = 0
    """Calls of models."""
    tokens: int = 0
    """Tokens, as providers report them."""
    transfers: int = 0
    """Transfers between agents."""
    steps: int = 0
    """Visits of agents that work."""
    seconds: float = 0.0
    """For how long they worked; for all agents, for how long at least one of them did."""
    by_agent: Mapping[str, "Spent"] = field(default_factory=dict)
    """The same by the name of the agent; without agents that spent nothing."""

    def __add__(self, other: "Spent") -> "Spent":
        """Return the spending of both."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in MEASURES}
        names = [*self.by_agent, *(name for name in other.by_agent if name not in self.by_agent)]
        by_agent = {
            name: self.by_agent.get(name, Spent()) + other.by_agent.get(name, Spent()) for name in names
        }
        return Spent(**sums, by_agent=by_agent)


def spent_in(counts: Counts, events: Iterable[AgentEvent]) -> Spent:
    """Return the counted spending of a turn, or else an estimate from its events."""
    is_counted = any("steps" in each for each in counts.values())
    counts = counts if is_counted else _shown(events)
    agents: dict[str, Spent] = {}
    for name, each in counts.items():
        own: dict[str, Any] = {measure: each[measure] for measure in MEASURES if measure in each}
        if name != RUN and own.keys() - {"seconds"}:  # of composites only the time is counted
            agents[name] = Spent(**own)
    whole = sum(agents.values(), Spent())
    return replace(whole, by_agent=agents, seconds=counts.get(RUN, {}).get("seconds", 0.0))


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
        own["tokens"] = own.get("tokens", 0) + (usage["total_tokens"] if usage else 0)
    return counts
