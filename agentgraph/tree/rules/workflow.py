"""The rules of workflows."""

from collections.abc import Iterator

from agentgraph.agents.agents import WorkflowAgent, is_agent
from agentgraph.agents.dependencies import dependency_faults, known_dependencies
from agentgraph.agents.kinds import output_keys
from agentgraph.agents.limits import word_faults
from agentgraph.safe_repr import shown
from agentgraph.tree.rules.options import input_faults, policy_faults, source_faults
from agentgraph.tree.rules.row import Around, NamedValue, Rules


def _faults(agent: WorkflowAgent, _: Around) -> Iterator[str]:
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
    keyed = {step.name for step in agent.steps if any(output_keys(step.agent))}
    for step in agent.steps:
        yield from (f"the step {shown(step.name)}: {fault}" for fault in policy_faults(step))
        if step.when is not None:
            yield from (f"the step {shown(step.name)}: {f}" for f in source_faults("when", step.when))
        what = f"the input of the step {shown(step.name)}"
        yield from input_faults(step.input, what, step.name, known_dependencies(depends_on), keyed)


WORKFLOW = Rules(
    faults=_faults,
    texts=lambda agent: [(f"the input of the step {step.name!r}", step.input) for step in agent.steps],
    reads=lambda agent: [
        NamedValue("when", each.when) for each in agent.steps if isinstance(each.when, str)
    ],
    former=lambda was: WorkflowAgent(name=was.name, steps=()),
)
