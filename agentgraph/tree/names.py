"""The names of values that the agents of a tree know."""

from collections.abc import Iterator
from typing import Any

from agentgraph.agents.agents import ChatAgent, HumanAgent, WorkflowAgent
from agentgraph.agents.prebuilt.planning import PLAN_VALUES, Planned
from agentgraph.agents.templates import names_in
from agentgraph.tree.places import Place, Tree


def value_names(tree: Tree) -> set[str]:
    """Return the names of the values that agents write or read, as far as the tree says so.

    Those are output keys, names in templates, the values of plans, and the state of middleware.
    """
    return {name for place in tree.places for name in _names(place)}


def _names(place: Place) -> Iterator[str]:
    agent: Any = place.agent
    if any(isinstance(each.check, Planned) for each in place.checks):
        yield from PLAN_VALUES
    if key := getattr(agent, "output_key", None):
        yield key
    templates: list[Any] = []
    match agent:
        case ChatAgent(instruction=instruction, middleware=middleware):
            templates = [instruction]
            for each in middleware:
                yield from getattr(each.state_schema, "__annotations__", ())
        case HumanAgent(prompt=prompt):
            templates = [prompt]
        case WorkflowAgent(steps=steps):
            templates = [step.input for step in steps]
    for template in templates:
        if isinstance(template, str):
            yield from names_in(template)
