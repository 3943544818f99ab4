"""The findings of `lint` for the tree of a runner, and the names of its values."""

from collections.abc import Iterable

from agentgraph.events.json_forms import JsonObject
from agentgraph.threads.runner import Runner, options_of
from agentgraph.tree.lint.accesses import Accesses
from agentgraph.tree.lint.findings import Finding
from agentgraph.tree.lint.inputs import Inputs, read_inputs
from agentgraph.tree.lint.linting import findings_in
from agentgraph.tree.places import Tree
from agentgraph.tree.validation import validate


def findings_of(runner: Runner, names: Iterable[str] = ()) -> list[Finding]:
    """Return the findings of a runner's tree.

    Args:
        runner: The runner.
        names: More values that runs pass or callers read.
    """
    declared, named = _declared(runner), read_inputs(names)
    inputs = Inputs(declared.names | named.names, declared.merged, declared.local)
    return findings_in(_tree(runner), inputs)


def value_names(runner: Runner) -> frozenset[str]:
    """Return the names of the values that a runner declares, or that its tree reads or writes."""
    accesses = Accesses(_tree(runner))
    return _declared(runner).names | accesses.read_anywhere | accesses.written_anywhere


def _declared(runner: Runner) -> Inputs:
    declared = options_of(runner)["values"]
    return Inputs() if declared is None else read_inputs(declared)


def _tree(runner: Runner) -> Tree:
    return validate(runner.agent, None, options_of(runner)["middleware"])


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
