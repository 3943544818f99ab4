"""A row of the rules: what a tree asks of the agents of one kind."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentgraph.agents.agents import Agent, Composite, FunctionAgent, Handoff, Leaf

NOTHING: Any = None
"""The model, function or graph of an agent that does nothing."""


class Around(NamedTuple):
    """What encloses an agent.

    Attributes:
        where: The names of the enclosing agents, for messages: "report/refine".
        in_loop: Whether it can break out of an enclosing loop.
        beside: The agents above it and beside it that it may transfer to.
        own: How others hand over to it; None where it is no sub-agent.
    """

    where: str = ""
    in_loop: bool = False
    beside: tuple[Handoff, ...] = ()
    own: Handoff | None = None


class OutlinedAgent(NamedTuple):
    """What an outline tells of an agent.

    Attributes:
        name: Its name.
        sub_agents: Its sub-agents.
        called: The agents that it calls.
        is_flat: Whether its place has several nodes.
    """

    name: str
    sub_agents: tuple[Agent, ...]
    called: tuple[Agent, ...]
    is_flat: bool


def _no_faults(_agent: object, _around: Around) -> tuple[()]:
    return ()


def _nothing(_: object) -> tuple[()]:
    return ()


def _function(former: OutlinedAgent) -> FunctionAgent:
    return FunctionAgent(name=former.name, fn=NOTHING, agents=former.sub_agents or former.called)


@dataclass(frozen=True, slots=True)
class Rules:
    """What a tree asks of the agents of one kind; what is left out, such an agent has not.

    Attributes:
        faults: Returns its faults, each with the way out, without the name of the agent. Its name,
            description, limits and output key are checked already.
        asked: Returns the functions of users that are called for it, each with the name of its option.
        texts: Returns its templates, each with a word for it.
        values: Returns the values of the run that its options name, without its output key.
        former: Makes an agent of this kind that does nothing, for the run paths of a tree of which only
            the outline is left.
    """

    faults: Callable[[Any, Around], Iterable[str]] = _no_faults
    asked: Callable[[Any], Iterable[tuple[str, object]]] = _nothing
    texts: Callable[[Any], Iterable[tuple[str, object]]] = _nothing
    values: Callable[[Any], Iterable[str]] = _nothing
    former: Callable[[OutlinedAgent], Leaf | Composite] = _function
