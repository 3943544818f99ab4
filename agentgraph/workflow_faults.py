"""The faults of workflows: of steps, of what they depend on, and of what their inputs name."""

from collections.abc import Iterator

from agentgraph.agents import Step, WorkflowAgent
from agentgraph.dependencies import DependsOn, dependency_faults, upstream
from agentgraph.leaf_faults import is_agent, policy_faults, word_faults
from agentgraph.shown import shown
from agentgraph.templates import results_in, unreadable_in


def workflow_faults(agent: WorkflowAgent) -> Iterator[str]:
    """Yield what is wrong with a workflow."""
    if not agent.steps:
        yield "a workflow needs at least one step"
    yield from word_faults("on_error", agent.on_error, ("fail", "wait"))
    if not all(is_agent(step.agent) for step in agent.steps):
        return  # told where the agents should stand
    names = [step.name for step in agent.steps]
    depends_on = {step.name: step.depends_on for step in agent.steps}
    yield from dependency_faults(names, depends_on)
    for step in agent.steps:
        yield from (f"the step {shown(step.name)}: {fault}" for fault in policy_faults(step))
        yield from _input_faults(step, depends_on)


def _input_faults(step: Step, depends_on: DependsOn) -> Iterator[str]:
    if step.input is None:
        return
    if not isinstance(step.input, str):
        yield (
            f"the input {shown(step.input)} of the step {shown(step.name)} is no string; pass a "
            "template"
        )
        return
    for text in unreadable_in(step.input):
        yield (
            f"the input of the step {shown(step.name)} names {text}, which cannot be read; use "
            "${results.STEP} for what a step said, or ${VALUE} for a value of the run"
        )
    before = upstream(depends_on, step.name)
    for name in dict.fromkeys(results_in(step.input)):
        if name not in before:
            there = "does not come before it" if name in depends_on else "is no step"
            yield (
                f"the input of the step {shown(step.name)} names ${{results.{name}}}, which {there}; "
                f"add {shown(name)} to its depends_on, or take it out"
            )
