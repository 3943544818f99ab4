"""The faults of the handoffs to the sub-agents of a chat agent or a swarm."""

import re
from collections.abc import Iterable, Iterator

from agentgraph.agents.agents import Handoff, is_agent, unchecked
from agentgraph.agents.kinds import kind_of
from agentgraph.agents.limits import word_faults
from agentgraph.safe_repr import shown
from agentgraph.tree.rules.options import LONGEST_TOOL_NAME, arguments_fault, shown_name

_TOOL_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{LONGEST_TOOL_NAME}}}")  # accepted by all providers


def handoff_faults(given: Iterable[Handoff]) -> Iterator[str]:
    """Yield the faults of the handoffs to the sub-agents of an agent."""
    for each in given:
        if not is_agent(each.agent):
            continue  # reported at the place of the agent
        to = f"the handoff to {shown_name(each.agent)}"
        if each.name is not None and not _is_tool_name(each.name):
            wrong = f"name={shown(each.name)} is not a valid tool name"
            yield f"{to}: {wrong}; use letters, digits, _ and -"
        if not isinstance(each.description, str | None):
            yield f"{to}: description={shown(each.description)} is not a text"
        if each.context is not None:
            faults = word_faults("context", each.context, ("shared", "last"))
            yield from (f"{to}: {fault}" for fault in faults)
        if fault := arguments_fault(each.args_schema):
            yield f"{to}: {fault}"
        if each.context == "last" and not hasattr(unchecked(each.agent), "history"):
            kind = kind_of(unchecked(each.agent)).name
            yield f"{to}: context='last' needs an agent with a history=; give it to those in the {kind}"


def _is_tool_name(name: object) -> bool:
    return isinstance(name, str) and _TOOL_NAME.fullmatch(name) is not None
