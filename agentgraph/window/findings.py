"""The findings of `lint` for the tree of a runner, with the values that the runner declares."""

from collections.abc import Iterable

from agentgraph.events.json_forms import JsonObject
from agentgraph.threads.runner import Runner, options_of
from agentgraph.tree.lint.findings import Finding
from agentgraph.tree.lint.inputs import Inputs, read_inputs
from agentgraph.tree.lint.linting import findings_in
from agentgraph.tree.validation import validate


def findings_of(runner: Runner, names: Iterable[str] = ()) -> list[Finding]:
    """Return the findings of a runner's tree.

    Args:
        runner: The runner.
        names: More values that runs pass or callers read.
    """
    options = options_of(runner)
    declared = read_inputs(options["values"]) if options["values"] is not None else Inputs()
    named = read_inputs(names)
    inputs = Inputs(declared.names | named.names, declared.merged, declared.local)
    return findings_in(validate(runner.agent, None, options["middleware"]), inputs)


def findings_data(runner: Runner) -> list[JsonObject]:
    """Return the findings of a runner's tree, each with the id of its place in the tree."""
    places = {place.path: place.node for place in runner.engine.tree.places}
    return [
        {
            "kind": each.kind,
            "address": each.address,
            "problem": each.problem,
            "advice": each.advice,
            "way": [*each.way],
            "place": places.get(each.address),
        }
        for each in findings_of(runner)
    ]
