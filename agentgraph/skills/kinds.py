"""The builder for each kind of agent in a skill file: one row per kind, in one closed `match`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import wraps
from typing import Any, Literal, assert_never

from agentgraph.agents.agents import Agent, Case
from agentgraph.agents.builders import (
    chat_agent,
    each,
    human,
    loop,
    parallel,
    sequential,
    swarm,
    switch,
    workflow,
)
from agentgraph.agents.kinds import CompositeKind, LeafKind
from agentgraph.agents.prebuilt.plan_execute import plan_execute
from agentgraph.agents.prebuilt.supervisor import supervisor
from agentgraph.skills.reading import plain

Builder = Callable[..., Any]
FileKind = Literal[CompositeKind, "supervisor", "plan_execute", LeafKind]
"""The kinds of agents, and of derived agents, in the order in which messages list them."""


def builder_of(kind: FileKind) -> Builder | None:  # noqa: C901 (a row for each kind)
    """Return the builder of a kind; None if its agents can only be made in Python."""
    match kind:
        case "sequential":
            return sequential
        case "parallel":
            return parallel
        case "loop":
            return loop
        case "workflow":
            return workflow
        case "switch":
            return _switch
        case "swarm":
            return swarm
        case "each":
            return each
        case "supervisor":
            return supervisor
        case "plan_execute":
            return plan_execute
        case "chat":
            return chat_agent
        case "human":
            return human
        case "function" | "graph":
            return None
        case _:
            assert_never(kind)


@wraps(switch)
def _switch(*, cases: Mapping[str, Case], **options: Any) -> Agent:
    """Make a switch; the text key "3" of a file also matches the number 3."""
    return switch(**options, cases=[(key, each) for text in cases for key, each in _read(text, cases)])


def _read(text: str, cases: Mapping[str, Case]) -> Iterator[tuple[object, Case]]:
    yield text, cases[text]
    with suppress(ValueError):
        if (key := plain(text)) != text:
            yield key, cases[text]
