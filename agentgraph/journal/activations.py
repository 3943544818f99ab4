"""The activations of a story: the steps of an address in a turn, with the events of these steps.

An address has one activation in a turn. Only edits of the state bring about more, which are numbered.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from agentgraph.graph.stamps import Entry, Note, address_of, event_order
from agentgraph.journal.lines import position_in
from agentgraph.journal.steps import AgentStep
from agentgraph.tree.places import Tree

_IN_PROGRESS = ("answer", "ask", "border")
"""The keys of a position at which an activation continues, in addition to the progress of a chat agent.
"""


class ActivationKey(NamedTuple):
    """Names an activation on a line.

    Attributes:
        turn: The turn.
        address: The address.
        number: How many activations of the address the turn has before it.
    """

    turn: int
    address: str
    number: int


@dataclass
class Activation:
    """An activation: its steps, and its messages and notes, in order."""

    agent_steps: list[AgentStep] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)


def activations_in(
    tree: Tree, agent_steps: Iterable[AgentStep], entries: Iterable[Entry]
) -> dict[ActivationKey, Activation]:
    """Return the activations of a line, in order of their first steps.

    One that left no step, such as that of an agent of another tree, comes after these.
    """
    found: dict[ActivationKey, Activation] = {}
    numbers: dict[tuple[int, str], int] = {}
    by_step: dict[tuple[str, str], ActivationKey] = {}
    for agent_step in agent_steps:
        at = agent_step.visit.turn, agent_step.visit.address
        if at not in numbers or begins(tree, agent_step):
            numbers[at] = numbers.get(at, -1) + 1
        key = ActivationKey(*at, numbers[at])
        by_step |= {(key.address, step): key for step in agent_step.steps}
        found.setdefault(key, Activation()).agent_steps.append(agent_step)
    for entry in entries:
        address, order = address_in(entry), event_order(entry)
        if address and order:
            last = ActivationKey(order.turn, address, numbers.get((order.turn, address), 0))
            key = by_step.get((address, order.step), last)
            found.setdefault(key, Activation()).entries.append(entry)
    return found


def begins(tree: Tree, agent_step: AgentStep) -> bool:
    """Return whether an activation begins with a step."""
    if agent_step.task is not None:
        return True
    position = position_in(tree, agent_step.saved)
    is_entry = agent_step.visit.node == agent_step.place.nodes.entry
    return is_entry and not (
        position and (position.get("chat") or not position.keys().isdisjoint(_IN_PROGRESS))
    )


def address_in(entry: Entry) -> str | None:
    """Return the address of an entry; None for a message of the user."""
    return entry.address if isinstance(entry, Note) else address_of(entry)
