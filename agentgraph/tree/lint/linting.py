"""Finds likely mistakes in a tree: `lint`."""

from collections.abc import Iterable, Iterator

from agentgraph.agents.agents import Agent
from agentgraph.tree.lint.accesses import Accesses
from agentgraph.tree.lint.bounds import Bounds
from agentgraph.tree.lint.findings import Finding, Findings, without_repeats
from agentgraph.tree.lint.histories import Histories
from agentgraph.tree.lint.inputs import Inputs, read_inputs
from agentgraph.tree.lint.reach import Reach
from agentgraph.tree.lint.value_findings import ValueFindings
from agentgraph.tree.lint.ways import Ways
from agentgraph.tree.places import Tree
from agentgraph.tree.validation import validate


def lint(tree: Agent, *, inputs: Iterable[str] | type = ()) -> list[Finding]:
    """Find likely mistakes in a tree that can run, such as a value that nothing has written.

    It follows values through options, templates and the source of functions and tools, and reports only
    what it can know. A function counts as one that reads and writes every value if its source is not
    there, if it names a value by an unknown expression, or if it passes its context to unknown code.
    Nothing runs.

    >>> writer = chat_agent("writer", "openai:gpt-5", output_key="draft")
    >>> critic = chat_agent("critic", "openai:gpt-5", instruction="Criticize this: {drfat}")
    >>> for finding in lint(sequential("report", [writer, critic])):
    ...     print(finding)
    report/critic: nothing has written the value 'drfat', which it reads; did you mean 'draft'? Else \
name it in inputs= (way: report/writer -> report/critic)

    Args:
        tree: The root of the tree.
        inputs: The names of the values that runs pass or that callers read; or the class that declares
            values, as for `values=` of a `Runner`: a `TypedDict`, a dataclass or a pydantic model.

    Returns:
        The findings, by kind and then in the order of the tree; of each kind, address and name one. A
        cell of a notebook shows them as a table.

    Raises:
        InvalidAgentError: The tree has faults.
        AgentGraphError: `inputs` is neither names nor a class.
    """
    known = read_inputs(inputs)
    return findings_in(validate(tree, None), known)


def findings_in(tree: Tree, inputs: Inputs) -> list[Finding]:
    """Return the findings of a tree that has been laid out, as `lint` does."""
    return Findings(without_repeats(_findings(Ways(Accesses(tree), inputs.local), inputs)))


def _findings(ways: Ways, inputs: Inputs) -> Iterator[Finding]:
    values, bounds = ValueFindings(ways, inputs), Bounds(ways)
    yield from values.unwritten()
    yield from values.unread()
    yield from Histories(ways).hidden()
    yield from Reach(ways, inputs).unreachable()
    yield from bounds.endless_loops()
    yield from bounds.impossible_limits()
    yield from values.conflicts()
