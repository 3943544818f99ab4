"""Builds the agent of a checked skill file, and finds the faults of its tree."""

from collections.abc import Iterator, Mapping
from typing import Any

from agentgraph.agents.agents import Agent, called_agents, sub_agents, unchecked
from agentgraph.errors import InvalidAgentError
from agentgraph.skills.reading import Document, Fault, Path
from agentgraph.skills.references import AnyModel
from agentgraph.skills.schema import Part
from agentgraph.tree.leaf_faults import is_agent
from agentgraph.tree.validation import validate

Origins = list[tuple[Agent, Path]]
"""The agents that were made or given, inner ones first, each with its path in the file."""


def built(part: Part, document: Document) -> tuple[Agent, tuple[Fault, ...]]:
    """Return the agent of a file, and all faults of its tree, each at the line of its agent.

    Conflicts between values are found when the agent is compiled, because only then their
    declarations are known.
    """
    origins: Origins = []
    agent = _built(part, origins, (), AnyModel())
    try:
        validate(agent, merged=None)
    except InvalidAgentError as error:
        lines = {id(made): document.line_of(path) for made, path in origins}
        where = dict(_lines(agent, lines))
        return agent, tuple(Fault(_line(fault, where), fault) for fault in error.faults)
    return agent, ()


def _built(said: Any, origins: Origins, path: Path, model: Any) -> Any:
    """Build a part, or a list or mapping of parts; plain data is returned unchanged.

    A missing model is filled in with that of the nearest agent around.
    """
    if isinstance(said, list):
        return [_built(each, origins, (*path, i), model) for i, each in enumerate(said)]
    if isinstance(said, dict):
        parts = {key: each for key, each in said.items() if isinstance(each, Part)}
        return {**said, **{k: _built(each, origins, (*path, k), model) for k, each in parts.items()}}
    made = _made(said, origins, path, model) if isinstance(said, Part) else said
    if isinstance(made, Agent):
        origins.append((made, path))
    return made


def _made(part: Part, origins: Origins, path: Path, model: Any) -> Any:
    own = getattr(part, "model", None)
    model = model if own is None else own
    fields = dict.fromkeys(part.asks, model)
    for name in type(part).model_fields:
        value = getattr(part, name)
        is_inherited = name in ("kind", "model") or (name in part.asks and value is None)
        if name in part.model_fields_set and not is_inherited:
            fields[name] = _built(value, origins, (*path, name), model)
    return type(part).builder(**fields)


def _lines(
    agent: Agent, lines: Mapping[int, int], around: str = "", line: int = 1
) -> Iterator[tuple[str, int]]:
    """Yield the place of each agent, with which its faults begin, and its line or the line around."""
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
