"""The visits of a thread, and the search for an address or a step."""

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
    """Return the visits of a thread, in order. Raises as `read_thread` does."""
    return [agent_step.visit for agent_step in (await whole_story(saver)).steps]


class FoundVisit(NamedTuple):
    """The target of a rewind.

    Attributes:
        agent_step: The step of the visit.
        present: The current history line, from the root's step with the visit, or all of it.
        story: The line that leads to the visit, with concurrent steps; the same as `present`, unless
            the visit is on an older line.
    """

    agent_step: AgentStep
    present: Story
    story: Story


def is_step(at: str) -> bool:
    """Return whether a text is the name of a step, not an address."""
    return _STEP.fullmatch(at) is not None


class VisitQuery:
    """A query for a visit: the first visit of an address in a turn, or a step.

    Attributes:
        at: The address, or the name of the step.
        turn: The turn of the address; None for the last turn that reached the address.
        is_step: Whether `at` is a step.
    """

    def __init__(
        self, tree: Tree, at: str, turn: int | None, asks: Callable[[AgentStep], bool] | None = None
    ) -> None:
        """Make a query.

        Args:
            tree: The tree.
            at: An address, or the name of a step.
            turn: The turn of an address; None for the last turn that reached the address.
            asks: Returns whether a visit at the address is preferred.
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
        """Return the queried visit; None if it is not one of these steps."""
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
    """Return the target of a rewind.

    Raises:
        UnknownAddressError: The thread has not reached it.
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
    """A part of a history line that may have a visit; the visits of an address in a turn are one part.

    Attributes:
        since: The id of the root's checkpoint before the first such step; empty if there is none.
        until: The id of the root's checkpoint after the last such step, or the latest checkpoint.
        roots: The root's checkpoints that were read.
    """

    since: str
    until: str
    roots: RootLine


async def stretch_of(saver: ThreadSaver, query: VisitQuery) -> Stretch:
    """Return the part of the current line that may have a visit; do not read older checkpoints."""
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
    """Return the checkpoints that lead to a step on any line; an empty list for an unknown step."""
    began = f"{step.partition(':')[0]}:"  # a leaf without checkpoints runs from that of its node
    there = [saved for saved in every if any(each.startswith(began) for each in saved.steps)]
    there.sort(key=lambda saved: not saved.steps[0].startswith(began))  # itself before a copy
    return line_to(there[0].root_id, every) if there else []


def _is_of_edited(step: str, agent_step: AgentStep, every: Iterable[Saved]) -> bool:
    """Return whether a step is that of a visit before a rewind edited the messages that it saw.

    The copy of a step has the step's name too. The step is the copy if the line still has its events.
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
    """Return the error for an unknown address or step, with the nearest known address."""
    visited = dict.fromkeys(each.visit.address for each in agent_steps)
    near = next(iter(get_close_matches(query.at, visited, 1, cutoff=0)), None)
    nearest = f"the nearest address is {shown(near)}; " if near and near != query.at else ""
    then = "" if query.turn is None else f" in turn {shown(query.turn)}"
    return UnknownAddressError(
        f"thread {shown(thread_id)} has not visited {shown(query.at)}{then}; {nearest}visits() lists "
        "all",
        thread_id,
    )
