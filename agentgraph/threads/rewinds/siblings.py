"""Which of the tasks that a node called are kept when a thread goes back to a visit in one of them."""

from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Any, Literal, NamedTuple, cast

from agentgraph.agents.agents import EachAgent, WorkflowAgent
from agentgraph.agents.dependencies import upstream
from agentgraph.tree.places import Place

Siblings = Literal["keep", "rerun"]
"""The treatment of work that ran concurrently with a visit that a rewind goes back to."""

_FIRST = 1
"""The call number of the first item of an `each`: the task before it looks the items up."""


class Called(NamedTuple):
    """A task that a node called.

    Attributes:
        id: Its id.
        name: Its name.
        number: Its call number.
        at: The address of the lane that it ran; empty if it ran none.
        place: The place where that lane starts.
        began: When the lane began, in microseconds; 0 if that is not known.
        result: Its result; empty if it has not ended.
    """

    id: str
    name: str
    number: int
    at: str
    place: Place | None
    began: float
    result: Mapping[str, Any]

    @property
    def ended(self) -> float:
        """When it ended, in microseconds; infinite if it has not."""
        return float(self.result.get("ended", self.result.get("finished", inf)))


def kept_siblings(
    place: Place, target: Called, siblings: Siblings, called: Iterable[Called]
) -> dict[str, Called]:
    """Return the tasks, by id, that are kept of those called next to the task of the visit.

    A task that the visit depends on is kept; one that depends on the visit is not; the rest as
    `siblings` says.

    Args:
        place: The place of the node.
        target: The task in which the visit is.
        siblings: The treatment of concurrent work.
        called: The tasks, that of the visit too.
    """
    several = {each.id: each for each in _undecided(called)}
    if place.kind.has_items and cast(EachAgent, place.agent).depends_on is not None:
        return _kept_items(target, siblings, several)
    return {id_: each for id_, each in several.items() if _keeps(place, target, siblings, each)}


def _undecided(called: Iterable[Called]) -> Iterator[Called]:
    """Yield the tasks that neither cancelled others nor were cancelled: the rest decides again."""
    every = [*called]
    decisions = [each.result for each in every if "stays" in each.result]
    if not decisions:
        yield from every
        return
    stays = min(decisions, key=lambda each: each["finished"])["stays"]
    yield from (each for each in every if each.place is None or each.result.get("number") in stays)


def _kept_items(target: Called, siblings: Siblings, several: Mapping[str, Called]) -> dict[str, Called]:
    """Return the items that are kept where some need others, whose numbers are in their results."""
    lanes = {each.number - _FIRST: each for each in several.values() if each.place is not None}
    needs = {n: [m for m in each.result.get("needs", ()) if m in lanes] for n, each in lanes.items()}
    here = target.number - _FIRST
    before = upstream(needs, here) if here in needs else ()
    after = {n for n in lanes if here in needs and here in upstream(needs, n)}
    kept = {
        n
        for n, each in lanes.items()
        if n in before
        or (siblings == "keep" and n not in after and (each.result or each.began < target.ended))
    }
    looked_up = {id_: each for id_, each in several.items() if each.place is None}
    return looked_up | {lanes[n].id: lanes[n] for n in kept if n != here}


def _keeps(place: Place, target: Called, siblings: Siblings, each: Called) -> bool:
    """Return whether a task is kept, where that can be seen from it and the task of the visit."""
    if each.id == target.id:
        return False
    if each.name.endswith(".over"):
        return True
    is_kept = siblings == "keep"
    if place.kind.has_steps:
        return _keeps_step(cast(WorkflowAgent, place.agent), target, each, is_kept=is_kept)
    if place.kind.first_wins:
        return False
    if place.chat is not None and place.chat.parallel_tools is False:
        return each.number < target.number
    if place.kind.runs_agents:
        return each.ended <= target.began or (is_kept and each.began < target.ended)
    return is_kept


def _keeps_step(agent: WorkflowAgent, target: Called, each: Called, *, is_kept: bool) -> bool:
    """Return whether a step of a workflow is kept; what undoes a step, and what failed, is not."""
    own, there = each.place, target.place
    if own is None or there is None or own.undoes:
        return False
    if there.undoes:
        return True
    needs = {step.name: step.depends_on for step in agent.steps}
    if own.given_name in upstream(needs, there.given_name):
        return True
    is_after = there.given_name in upstream(needs, own.given_name)
    return is_kept and not is_after and not {"failed", "stopped"} & each.result.keys()
