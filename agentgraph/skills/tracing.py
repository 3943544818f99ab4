"""The faults of a tree, with the lines of the file that it was read from."""

from collections.abc import Iterator, Mapping, Sequence

from agentgraph.agents.agents import Agent, called_agents, sub_agents, unchecked
from agentgraph.errors import InvalidAgentError
from agentgraph.skills.building import Built
from agentgraph.skills.documents import Document, Fault
from agentgraph.tree.leaf_faults import is_agent
from agentgraph.tree.validation import validate


def tree_faults(agent: Agent, origins: Sequence[Built], document: Document) -> tuple[Fault, ...]:
    """Return every fault of a tree, at the line of the agent that has it.

    How its values are declared is not known yet: compiling it tells whether two conflict.
    """
    try:
        validate(agent, merged=None)
    except InvalidAgentError as error:
        lines = {id(built.agent): document.line_of(built.path) for built in origins}
        where = dict(_lines(agent, lines))
        return tuple(Fault(_line(fault, where), fault) for fault in error.faults)
    return ()


def _lines(
    agent: Agent, lines: Mapping[int, int], around: str = "", line: int = 1
) -> Iterator[tuple[str, int]]:
    """Yield for each agent what its faults begin with, and its line: else that of what is around."""
    line = lines.get(id(agent), line)
    names = [around, str(agent.name)] if is_agent(agent) else [around]
    where = "/".join(filter(None, names)) or "the root"
    yield where, line
    inner = unchecked(agent)
    for child in (*sub_agents(inner), *called_agents(inner)):
        yield from _lines(child, lines, where, line)


def _line(fault: str, where: Mapping[str, int]) -> int:
    found = [name for name in where if fault.startswith(f"{name}: ")]
    return where[max(found, key=len)] if found else 1
