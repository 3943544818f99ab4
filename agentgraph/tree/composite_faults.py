"""Finds the faults of composites: loops, branches, the steps of workflows and their inputs."""

from collections.abc import Iterator

from agentgraph.agents.agents import (
    Agent,
    LoopAgent,
    ParallelAgent,
    SequentialAgent,
    Step,
    WorkflowAgent,
    called_agents,
    sub_agents,
    unchecked,
)
from agentgraph.agents.dependencies import DependsOn, dependency_faults, known_dependencies, upstream
from agentgraph.agents.limits import limit_faults, word_faults
from agentgraph.agents.templates import bare_in, results_in, unreadable_in
from agentgraph.safe_repr import shown
from agentgraph.tree.kinds import capabilities_of, kind_of
from agentgraph.tree.leaf_faults import is_agent, policy_faults


def sub_agent_faults(agent: SequentialAgent | ParallelAgent | LoopAgent) -> Iterator[str]:
    """Yield what is wrong with the sub-agents of a composite."""
    if not agent.sub_agents:
        yield f"a {kind_of(agent).name} needs at least one sub-agent"


def loop_faults(agent: LoopAgent) -> Iterator[str]:
    """Yield what is wrong with a loop."""
    yield from sub_agent_faults(agent)
    yield from limit_faults("max_iterations", agent.max_iterations)
    if agent.until is not None and not callable(agent.until):
        yield f"until={shown(agent.until)} cannot be called; pass a function that takes a context"
    unbounded = agent.max_iterations is None and agent.until is None
    if unbounded and agent.sub_agents and not any(map(_can_end, agent.sub_agents)):
        yield (
            "nothing can end this loop; give it max_iterations or until, or an agent inside that "
            "may exit or break_loop"
        )


def parallel_faults(agent: ParallelAgent) -> Iterator[str]:
    """Yield what is wrong with a parallel."""
    yield from sub_agent_faults(agent)
    yield from limit_faults("max_concurrency", agent.max_concurrency)
    yield from word_faults("on_error", agent.on_error, ("fail", "wait", "collect", "first"))


def workflow_faults(agent: WorkflowAgent) -> Iterator[str]:
    """Yield what is wrong with a workflow."""
    if not agent.steps:
        yield "a workflow needs at least one step"
    yield from word_faults("on_error", agent.on_error, ("fail", "wait"))
    if not all(is_agent(step.agent) for step in agent.steps):
        return  # reported at the places of the agents
    if not all(isinstance(step.name, str) for step in agent.steps):
        return  # reported at the places of the agents too
    names = [step.name for step in agent.steps]
    depends_on = {step.name: step.depends_on for step in agent.steps}
    yield from dependency_faults(names, depends_on)
    for step in agent.steps:
        yield from (f"the step {shown(step.name)}: {fault}" for fault in policy_faults(step))
        yield from _input_faults(step, known_dependencies(depends_on))


def _input_faults(step: Step, depends_on: DependsOn) -> Iterator[str]:
    if step.input is None:
        return
    if not isinstance(step.input, str):
        yield (
            f"the input {shown(step.input)} of the step {shown(step.name)} is not a string; pass a "
            "template"
        )
        return
    for text in unreadable_in(step.input):
        yield (
            f"the input of the step {shown(step.name)} names {text}, which cannot be read; use "
            "${results.STEP} for what a step said, or ${VALUE} for a value of the run"
        )
    for text in dict.fromkeys(bare_in(step.input)):
        inside = text.strip("{} ")
        yield (
            f"the input of the step {shown(step.name)} has {text}, which is sent unchanged; write "
            f"${{{inside}}} for the value, or {{{{{inside}}}}} for the braces"
        )
    for name in dict.fromkeys(results_in(step.input)):
        if wrong := _result_fault(name, step.name, depends_on):
            yield f"the input of the step {shown(step.name)} names ${{results.{name}}}, which {wrong}"


def _result_fault(name: str, step: str, depends_on: DependsOn) -> str | None:
    """Return why the input of a step cannot use the result of another step; None if it can."""
    if name in upstream(depends_on, step):
        return None
    if name not in depends_on:
        others = ", ".join(shown(each) for each in depends_on if each != step) or "none but itself"
        return f"is not a step; there are: {others}"
    if name == step or step in upstream(depends_on, name):
        return "runs after it; take it out"
    return f"does not come before it; add {shown(name)} to its depends_on, or take it out"


def _can_end(agent: Agent, nearest: bool = True) -> bool:
    """Return whether an agent can end the loop that encloses it.

    `nearest` is false if another loop is between them, which a `break_loop` would end instead.
    """
    inner = unchecked(agent)
    if not is_agent(inner):
        return False
    capabilities, kind = capabilities_of(inner), kind_of(inner)
    if capabilities.exit or (nearest and capabilities.break_loop):
        return True
    inside = called_agents(inner) if kind.is_fork and not sub_agents(inner) else sub_agents(inner)
    return any(_can_end(child, nearest and not kind.goes_round) for child in inside)
