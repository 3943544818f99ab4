"""A row of the rules: those of one kind of agents."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentgraph.agents.agents import Agent, Composite, FunctionAgent, Handoff, Leaf

NOTHING: Any = None
"""The model, function or graph of an agent that does nothing."""


class Around(NamedTuple):
    """The surroundings of an agent.

    Attributes:
        where: The names of the enclosing agents, for messages: "report/refine".
        in_loop: Whether it can break out of an enclosing loop.
        reachable: The agents above it and its siblings to which it may transfer.
        own: The handoff to it; None unless it is a sub-agent.
    """

    where: str = ""
    in_loop: bool = False
    reachable: tuple[Handoff, ...] = ()
    own: Handoff | None = None


class OutlinedAgent(NamedTuple):
    """The properties of an agent in an outline.

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


class NamedValue(NamedTuple):
    """A value that an option names.

    Attributes:
        option: The option.
        name: The name of the value.
        may_be_missing: Whether the agent copes without the value.
    """

    option: str
    name: str
    may_be_missing: bool = False


class OwnFunction(NamedTuple):
    """A function that does the work of an agent.

    Attributes:
        fn: The function.
        tool: The name of the tool that it is; None for the function of a function agent.
    """

    fn: object
    tool: str | None = None


def _no_faults(_agent: object, _around: Around) -> tuple[()]:
    return ()


def _nothing(_: object) -> tuple[()]:
    return ()


def _in_sight(_: object) -> tuple[bool, bool]:
    return False, False


def _function(former: OutlinedAgent) -> FunctionAgent:
    return FunctionAgent(name=former.name, fn=NOTHING, agents=former.sub_agents or former.called)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one kind of agents; by default an agent has no faults, functions and templates.

    Attributes:
        faults: Returns its faults, each with the remedy, without the name of the agent. Its name,
            description, limits and output key are checked already.
        asked: Returns the users' functions that are called for it, each with the name of its option.
        texts: Returns its templates, each with a word for it.
        reads: Returns the values of the run that its options read.
        writes: Returns the names of the values that its options write, without its output key.
        own: Returns the functions that do its work.
        hidden: Returns whether it may read, and whether it may write, values that nothing here names.
        former: Makes an agent of this kind that does nothing, for the run paths of a former tree of
            which only the outline is left.
    """

    faults: Callable[[Any, Around], Iterable[str]] = _no_faults
    asked: Callable[[Any], Iterable[tuple[str, object]]] = _nothing
    texts: Callable[[Any], Iterable[tuple[str, object]]] = _nothing
    reads: Callable[[Any], Iterable[NamedValue]] = _nothing
    writes: Callable[[Any], Iterable[str]] = _nothing
    own: Callable[[Any], Iterable[OwnFunction]] = _nothing
    hidden: Callable[[Any], tuple[bool, bool]] = _in_sight
    former: Callable[[OutlinedAgent], Leaf | Composite] = _function
