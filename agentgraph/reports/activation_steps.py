"""The steps of one activation, their outcomes, and its other attempts, from the checkpoints."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from agentgraph.graph.stamps import Entry, Note, number_of
from agentgraph.journal.lines import (
    address_at,
    ancestors,
    checkpoints_since,
    just_after,
    known_line,
    line_to,
    parent_of,
)
from agentgraph.journal.outcomes import outcome_of
from agentgraph.journal.saved import Saved, parts_of
from agentgraph.journal.states import ACTIVATION_STATUS, ActivationStatus, State
from agentgraph.journal.steps import AgentStep, is_at_or_in
from agentgraph.journal.story import Story
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.reports.visits import FoundVisit, VisitQuery, find, stretch_of, unknown
from agentgraph.tree.addresses import places_to, without_keys
from agentgraph.tree.places import Place


@dataclass(frozen=True, slots=True)
class Attempt:
    """An earlier attempt of an activation, or the same activation on another line of the thread.

    Attributes:
        step: Its first or its failed step, for `Runner.rewind` and `Runner.activation`.
        status: The status of the attempt.
        error: The text of its error; None without an error.
        line: The latest checkpoint of its history line; None for the line of the activation.
    """

    step: str
    status: ActivationStatus
    error: str | None
    line: str | None


@dataclass(frozen=True)
class FoundActivation:
    """An activation in the saver.

    Attributes:
        at: Its address.
        place: The place of its agent.
        agent_steps: Its steps, in order.
        story: Its history line, from the root's step in which it started.
        entries: Its messages and notes; a composite has those of the agents inside.
        is_composite: Whether it has the steps of the agents inside, too.
    """

    at: str
    place: Place
    agent_steps: Sequence[AgentStep]
    story: Story
    entries: Sequence[Entry]
    is_composite: bool

    @property
    def turn(self) -> int:
        """The turn."""
        return self.agent_steps[0].visit.turn

    @cached_property
    def own_steps(self) -> list[AgentStep]:
        """Its steps in its own lane, without lanes inside."""
        agent_steps = [each for each in self.agent_steps if each.task is None] or self.agent_steps
        depths = [len(parts_of(each.saved.namespace)) for each in agent_steps]
        return [s for s, depth in zip(agent_steps, depths, strict=True) if depth == min(depths)]

    @cached_property
    def ends(self) -> tuple[AgentStep, AgentStep]:
        """The first and the last of its steps in its own lane."""
        own = self.own_steps
        return own[0], own[-1]

    def after(self, agent_step: AgentStep) -> Saved | None:
        """Return the checkpoint after a step in its lane, if the step has ended."""
        return self.story.after.get(agent_step.saved.key)


async def find_activation(
    saver: ThreadSaver, query: VisitQuery, line: str | None
) -> tuple[FoundActivation, AgentStep]:
    """Return an activation and its requested step.

    Raises:
        UnknownAddressError: The thread, or the line, has not reached it.
        ThreadError: The line does not exist.
    """
    target = await _target(saver, query, line)
    at = target.agent_step.visit.address if query.is_step else query.at
    return _gathered(at, target.agent_step, target.story), target.agent_step


async def _target(saver: ThreadSaver, query: VisitQuery, line: str | None) -> FoundVisit:
    """Find an activation on a given line, or on the line that has its step.

    A step that a rewind copied keeps the names of the older steps, which ran in other surroundings.
    """
    if line is not None:
        return _on_line(saver, query, line, await saver.checkpoints())
    if query.is_step and (around := await _stretch_around(saver, query.at)) is not None:
        return _on_line(saver, query, around[1], await checkpoints_since(saver, *around))
    target = await _present(saver, query)
    if not query.is_step:
        return target
    if target.agent_step.visit.step == query.at:
        visit = target.agent_step.visit
        whole = await _present(saver, VisitQuery(saver.tree, visit.address, visit.turn))
        if any(each.visit.step == query.at for each in whole.story.steps):
            return whole._replace(agent_step=target.agent_step)
    every = await saver.checkpoints()
    head = _head_with(query.at, every)
    return target if head is None else _on_line(saver, query, head, every)


async def _present(saver: ThreadSaver, query: VisitQuery) -> FoundVisit:
    """Find an activation on the current line; do not read later checkpoints."""
    since, until, roots = await stretch_of(saver, query)
    if since:
        every = await checkpoints_since(saver, since, until, roots.read)
        story = Story(saver.tree, line_to(until, every))
        if (agent_step := query.chosen(story.steps)) is not None:
            return FoundVisit(agent_step, story, story)
    return await find(saver, query)


async def _stretch_around(saver: ThreadSaver, step: str) -> tuple[str, str] | None:
    """Return the ids of the root's checkpoints around the activation of a step.

    None if the checkpoint of the step and its neighbours do not show them.
    """
    began = step.partition(":")[0]
    newest = await saver.checkpoints(None, just_after(began), 1)
    there = newest[0] if newest and newest[0].checkpoint["id"] == began else None
    there = there or await saver.checkpoint("", began)
    root = there and await saver.checkpoint("", there.root_id)
    if there is None or root is None:
        return None
    at = address_at(saver.tree, root)
    first = last = root
    while (before := await parent_of(saver, first)) is not None and _continues(saver, before, at):
        first = before
    while True:
        after = await saver.children(last)
        if len(after) > 1:
            return None
        if not after:
            break
        last = after[0]
        if address_at(saver.tree, last) != at:
            break
    return str(first.id), str(last.id)


def _continues(saver: ThreadSaver, saved: Saved, at: str | None) -> bool:
    return not saved.begins_turn and address_at(saver.tree, saved) == at


def _head_with(step: str, every: Sequence[Saved]) -> str | None:
    """Return the latest checkpoint of the line that has a step's own checkpoint; None without one."""
    began = step.partition(":")[0]
    around = next((each.root_id for each in every if each.id == began), None)
    roots = {str(each.id): each for each in every if not each.namespace}
    heads = roots.keys() - {each.parent_id for each in roots.values()}
    lines = ((head, ancestors(head, roots)) for head in heads)
    return next((h for h, line in lines if any(e.id == around for e in line)), None)


def _on_line(saver: ThreadSaver, query: VisitQuery, head: str, every: Sequence[Saved]) -> FoundVisit:
    """Find an activation on a line.

    Raises:
        ThreadError: The line does not exist.
        UnknownAddressError: The line has not reached it.
    """
    story = Story(saver.tree, known_line(saver, head, every))
    exact = (each for each in story.steps if each.visit.step == query.at)
    if (agent_step := next(exact, None) or query.chosen(story.steps)) is None:
        raise unknown(saver.thread_id, query, story.steps)
    return FoundVisit(agent_step, story, story)


def _gathered(at: str, chosen: AgentStep, story: Story) -> FoundActivation:
    places, depth = places_to(chosen.place), at.count("/")
    place = places[depth] if depth < len(places) else chosen.place
    is_composite = place.kind.encloses or place.kind.is_parallel
    turn, base = chosen.visit.turn, without_keys(at)
    here = {key: each for key, each in story.activations.items() if key.turn == turn}
    if is_composite:
        inside = [e for key, e in here.items() if _is_part_of(key.address, base)]
        every = [agent_step for each in inside for agent_step in each.agent_steps]
        entries = sorted((e for each in inside for e in each.entries), key=number_of)
        every.sort(key=lambda agent_step: agent_step.order)
        return FoundActivation(at, place, every, story, entries, True)
    several = [e for key, e in here.items() if without_keys(key.address) == base and e.agent_steps]
    step = chosen.visit.step
    has_it = (e for e in several if any(agent_step.visit.step == step for agent_step in e.agent_steps))
    one = next(has_it, several[-1])
    return FoundActivation(
        one.agent_steps[0].visit.address, place, one.agent_steps, story, one.entries, False
    )


def _is_part_of(address: str, outer: str) -> bool:
    """Return whether an address is at or in a composite's, whose other attempts are not part of it.

    >>> [_is_part_of(each, "s/w") for each in ("s/w/a(0:k)", "s/w[1]/a", "s/w{1}/a")]
    [True, True, False]
    """
    own = without_keys(address)
    return is_at_or_in(own, outer) and not own.startswith("{", len(outer))


def became(found: FoundActivation) -> tuple[State, str | None]:
    """Return the state of an activation, and the text of its error."""
    outcomes = [outcome_of(found.story, each) for each in found.own_steps]
    states = {each.state for each in outcomes}
    state = next((each for each in ACTIVATION_STATUS if each in states), State.DONE)
    if state is not State.FAILED:
        return state, None
    errors = [e.data for e in found.entries if isinstance(e, Note) and e.kind == "error"]
    saved = [each.error for each in outcomes if each.state is state]
    return state, next(filter(None, [*errors[::-1], *saved[::-1]]), None)


async def attempts_of(saver: ThreadSaver, found: FoundActivation, state: State) -> list[Attempt]:
    """Return earlier attempts on this line, and the same activation on other lines."""
    failed = [e for e in found.entries if isinstance(e, Note) and e.kind == "error"]
    past = failed[:-1] if state is State.FAILED else failed
    first = found.agent_steps[0].visit.step
    attempts = [
        Attempt(e.order.step if e.order and e.order.step else first, "failed", e.data, None)
        for e in past
    ]
    others = await _on_other_lines(saver, found)
    return [*others, *attempts]


async def _on_other_lines(saver: ThreadSaver, found: FoundActivation) -> list[Attempt]:
    """Return the same activation on lines that branch off this one in its turn.

    Without such lines in the turn, nothing else is read.
    """
    forked = [
        each
        for each in await saver.forks()
        if (position := each.position) and position.get("clock", [0])[0] == found.turn
    ]
    if not forked:
        return []
    every = await checkpoints_since(saver, min(each.parent_id for each in forked))
    roots = [each for each in every if not each.namespace]
    parents = {each.parent_id for each in roots}
    seen = {agent_step.visit.step for agent_step in found.agent_steps}
    attempts: dict[str, Attempt] = {}
    for head in sorted(e.id for e in roots if e.id not in parents):
        story = Story(saver.tree, line_to(head, every))
        agent_steps = story.steps_in(found.turn)
        at = without_keys(found.at)
        same = [s for s in agent_steps if without_keys(s.visit.address) == at]
        if found.is_composite:
            same = [s for s in agent_steps if _is_part_of(s.visit.address, at)]
        if not same or same[0].visit.step in seen | attempts.keys():
            continue
        state, error = became(replace(found, agent_steps=same, story=story, entries=()))
        attempts[same[0].visit.step] = Attempt(
            same[0].visit.step, ACTIVATION_STATUS[state], error, head
        )
    return [attempts[step] for step in sorted(attempts)]
