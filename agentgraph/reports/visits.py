"""What a thread has visited, and where an address or a step is on it."""

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from itertools import chain
from typing import NamedTuple

from agentgraph.errors import UnknownAddressError
from agentgraph.graph.stamps import Note, event_order, is_edited
from agentgraph.journal.entries import entries_at
from agentgraph.journal.lines import (
    RootLine,
    address_at,
    line_to,
    root_line,
)
from agentgraph.journal.saved import Saved
from agentgraph.journal.steps import AgentStep, Visit, is_at_or_in
from agentgraph.journal.story import Story, present_story, whole_story
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.safe_repr import shown
from agentgraph.tree.addresses import (
    as_known,
    parse_address,
    without_keys,
)
from agentgraph.tree.places import Tree

_STEP = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:.+", re.DOTALL)


async def visits(saver: ThreadSaver) -> list[Visit]:
    """Return what a thread has visited, in order. Raises as `read_thread` does."""
    return [agent_step.visit for agent_step in (await whole_story(saver)).steps]


class FoundVisit(NamedTuple):
    """Where to go back to.

    Attributes:
        agent_step: The step of the visit.
        present: The present line of the thread, as far as it is needed: since the step of the root
            that has the visit, or all.
        story: The line that leads to the visit, with what ran beside it; the same, unless the visit is
            on an older line of the thread.
    """

    agent_step: AgentStep
    present: Story
    story: Story


def is_step(at: str) -> bool:
    """Return whether a text is the name of a step, and no address."""
    return _STEP.fullmatch(at) is not None


class VisitQuery:
    """What to go back to: the first visit of an address in a turn, or a step.

    Attributes:
        at: The address, or the name of the step.
        turn: The turn of the address; None for the last one in which it was visited.
        is_step: Whether it is a step.
    """

    def __init__(
        self, tree: Tree, at: str, turn: int | None, asks: Callable[[AgentStep], bool] | None = None
    ) -> None:
        """Make it.

        Args:
            tree: The tree.
            at: An address, or the name of a step.
            turn: The turn of an address; None for the last one in which it was visited.
            asks: Says which visits at the address are preferred.
        """
        self.is_step = is_step(at)
        self.at = at if self.is_step else as_known(tree, at)
        self._tree, self.turn, self._asks = tree, turn, asks
        self._address = self._stretch = without_keys(self.at)
        found = None if self.is_step else parse_address(tree, self.at)
        if found is not None and found[0].kind.is_inner:
            # Other nodes of its graph run between its visits.
            self._stretch = self._address.rpartition("/")[0]

    def chosen(self, agent_steps: Sequence[AgentStep]) -> AgentStep | None:
        """Return the visit to go back to; None if it is not among these."""
        if self.is_step:
            exact = (each for each in agent_steps if self.at == each.visit.step)
            copies = (each for each in agent_steps if self.at in each.steps)
            return next(chain(exact, copies), None)
        there = [
            (each, without_keys(each.visit.address)) for each in agent_steps if self._is_then(each)
        ]
        inside = [each for each, at in there if at == self._address]
        inside = inside or [each for each, at in there if is_at_or_in(at, self._address)]
        last = max((each.visit.turn for each in inside), default=None)
        inside = [each for each in inside if each.visit.turn == last]
        asking = filter(self._asks, inside) if self._asks else ()
        return next(iter([*asking, *inside]), None)

    def may_have(self, saved: Saved) -> bool:
        """Return whether the step after a checkpoint of the root may have the visit."""
        if self.is_step:
            return str(saved.id) <= self.at.partition(":")[0]
        if self.turn not in (None, saved.clock[0]):
            return False
        at = without_keys(address_at(self._tree, saved) or "")
        return bool(at) and (is_at_or_in(at, self._stretch) or is_at_or_in(self._stretch, at))

    def _is_then(self, agent_step: AgentStep) -> bool:
        return self.turn in (None, agent_step.visit.turn)


async def find(saver: ThreadSaver, query: VisitQuery) -> FoundVisit:
    """Return where to go back to.

    Raises:
        UnknownAddressError: The thread has not visited it.
    """
    stretch = await stretch_of(saver, query)
    present = await present_story(saver, stretch.roots if stretch.since else None)
    agent_step = query.chosen(present.steps)
    if agent_step is None and stretch.since:
        present = await present_story(saver)
        agent_step = query.chosen(present.steps)
    if agent_step is not None and not (
        query.is_step and _is_of_edited(query.at, agent_step, present.every)
    ):
        return FoundVisit(agent_step, present, present)
    if query.is_step:
        story = Story(saver.tree, older_line(query.at, await saver.checkpoints()))
        if (agent_step := query.chosen(story.steps)) is not None:
            return FoundVisit(agent_step, present, story)
    raise unknown(saver.thread_id, query, present.steps)


class Stretch(NamedTuple):
    """Where on the line of a thread a visit may be: the visits of an address in a turn are one stretch.

    Attributes:
        since: The id of the checkpoint of the root from which its first step may run; empty for none.
        until: That of the one with which the last step ended that may have it, or the head.
        roots: The checkpoints of the root that were read.
    """

    since: str
    until: str
    roots: RootLine


async def stretch_of(saver: ThreadSaver, query: VisitQuery) -> Stretch:
    """Return where on the present line a visit may be; what is older is not read."""
    touched: list[str] = []

    def is_past(saved: Saved) -> bool:
        if query.may_have(saved):
            touched.append(saved.id)
            return query.is_step
        return bool(touched)

    roots = await root_line(saver, is_past)
    if not touched:
        return Stretch("", "", roots)
    line = [saved.id for saved in roots.line]
    return Stretch(touched[-1], line[max(line.index(touched[0]) - 1, 0)], roots)


def older_line(step: str, every: Sequence[Saved]) -> list[Saved]:
    """Return the checkpoints that lead to a step, of whatever line; none if there is no such step."""
    began = f"{step.partition(':')[0]}:"  # a leaf without checkpoints runs from that of its node
    there = [saved for saved in every if any(each.startswith(began) for each in saved.steps)]
    there.sort(key=lambda saved: not saved.steps[0].startswith(began))  # itself before a copy
    return line_to(there[0].root_id, every) if there else []


def _is_of_edited(step: str, agent_step: AgentStep, every: Iterable[Saved]) -> bool:
    """Return whether a step is that of a visit before a rewind edited what it had seen.

    The copy of a step has its name too. It is that of the copy if the line still has its events.
    """
    if step == agent_step.visit.step:
        return False
    entries = [
        entry
        for saved in every
        if saved.root_id == agent_step.saved.root_id
        for entry in entries_at(saved)
    ]
    orders = [event_order(entry) for entry in entries]
    has_edits = any(not isinstance(each, Note) and is_edited(each) for each in entries)
    return has_edits and all(order is None or order.step != step for order in orders)


def unknown(thread_id: str, query: VisitQuery, agent_steps: Sequence[AgentStep]) -> UnknownAddressError:
    """Return the error for what was not visited; it names the nearest address that was."""
    visited = dict.fromkeys(each.visit.address for each in agent_steps)
    near = next(iter(get_close_matches(query.at, visited, 1, cutoff=0)), None)
    nearest = f"the nearest that it has is {shown(near)}; " if near and near != query.at else ""
    then = "" if query.turn is None else f" in turn {shown(query.turn)}"
    return UnknownAddressError(
        f"thread {shown(thread_id)} has not visited {shown(query.at)}{then}; {nearest}visits() lists "
        "all",
        thread_id,
    )
