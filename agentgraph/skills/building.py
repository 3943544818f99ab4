"""Makes agents of what a skill file says, with the builders, and remembers where each one stands."""

from collections.abc import Callable
from typing import Any, NamedTuple

from langgraph.types import RetryPolicy

from agentgraph.agents.agents import Agent
from agentgraph.agents.builders import agent_tool, chat_agent, human
from agentgraph.agents.composites import loop, parallel, sequential, step, workflow
from agentgraph.agents.prebuilt.plan_execute import plan_execute
from agentgraph.agents.prebuilt.supervisor import supervisor
from agentgraph.skills.documents import Path
from agentgraph.skills.schema import (
    PLAN_PARTS,
    AgentTool,
    Chat,
    Human,
    Loop,
    Parallel,
    Part,
    PlanExecute,
    Reference,
    Retry,
    Rule,
    Sequential,
    Step,
    Supervisor,
    Until,
    Workflow,
)
from agentgraph.skills.until import ValueIs


class Built(NamedTuple):
    """An agent, and where it stands in the file.

    Attributes:
        agent: The agent, or what was given under its name.
        path: Where the file says it.
    """

    agent: Agent
    path: Path


def _itself(*, agent: Agent) -> Agent:
    return agent


_BUILDERS: dict[type[Part], Callable[..., Any]] = {
    Chat: chat_agent,
    Human: human,
    Sequential: sequential,
    Parallel: parallel,
    Loop: loop,
    Workflow: workflow,
    Supervisor: supervisor,
    PlanExecute: plan_execute,
    Reference: _itself,
    Step: step,
    AgentTool: agent_tool,
    Retry: RetryPolicy,
    Rule: dict,
    Until: ValueIs,
}


def build(said: Any, origins: list[Built], path: Path = (), model: Any = None) -> Any:
    """Return the agent that a file says; what it leaves out is the builders' to fill in.

    Args:
        said: A part of the file, a list or a mapping of such, or plain data, which stays as it is.
        origins: Gets an entry for each agent, the inner ones first.
        path: Where it stands in the file.
        model: The model of those that have none.
    """
    if isinstance(said, list):
        return [build(each, origins, (*path, i), model) for i, each in enumerate(said)]
    if isinstance(said, dict):
        parts = {key: each for key, each in said.items() if isinstance(each, Part)}
        return {**said, **{k: build(each, origins, (*path, k), model) for k, each in parts.items()}}
    made = _made(said, origins, path, model) if isinstance(said, Part) else said
    if isinstance(made, Agent):
        origins.append(Built(made, path))
    return made


def _made(part: Part, origins: list[Built], path: Path, model: Any) -> Any:
    own = getattr(part, "model", None)
    model = model if own is None else own
    fields = {name: build(getattr(part, name), origins, (*path, name), model) for name in _given(part)}
    return _BUILDERS[type(part)](**{**_inherited(part, model), **fields})


def _given(part: Part) -> list[str]:
    """Return the names of the fields that a part hands to its builder."""
    return [
        name
        for name in type(part).model_fields
        if name in part.model_fields_set
        and name not in ("kind", "model")
        and not (name in PLAN_PARTS and getattr(part, name) is None)
    ]


def _inherited(part: Part, model: Any) -> dict[str, Any]:
    """Return the fields of a part that its model, or that of an agent around it, fills in."""
    match part:
        case Chat() | Supervisor():
            return {"model": model}
        case PlanExecute():
            return dict.fromkeys(PLAN_PARTS, model)
        case _:
            return {}
