"""Imports: each module imports only what stands below it, and the package only what it needs."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import agentgraph

PACKAGE = Path(agentgraph.__file__).parent

LAYERS = """
__main__
cli
cli.commands
cli.demo
cli.session cli.target
cli.answers cli.screens
demo.tree
demo.models demo
__init__
skills
skills.tracing
skills.building skills.checking
skills.schema skills.stand_ins
skills.fields
skills.reading skills.references skills.until
skills.documents skills.scalars
testing
prebuilt.supervisor prebuilt.with_helpers prebuilt.validated prebuilt.plan_execute
prebuilt.progress prebuilt.planning prebuilt
prebuilt.plans
runner
runs
live.screens
live.frames live.task_parts
live.activity
beginnings reader
going_on
pending replay locks salvage savers time_travel
threads translation
tree_changes
parts
display live live.watched
compiler
drawing
pictures
chat.hooks chat.model chat.tools nodes.function nodes.graph nodes.human
nodes.each nodes.parallel nodes.workflow
nodes.fork
chat.call_runner nodes.leaf nodes.remote nodes.schedule
chat.acting chat.agent
chat.approve chat.asking chat.outcome chat.step chat.summary
chat.attempts chat.calls chat.decisions chat.edits chat.guarding chat.laid_flat chat.models chat.output
chat.state_access chat.talking chat.tool_errors
nodes.foreign nodes.joining nodes.lane nodes.tasks
nodes.activation
nodes.ending
chat chat.kept_errors nodes nodes.attempts nodes.site nodes.threads
nodes.stopping nodes.telling
context
validation
workflow_faults
leaf_faults position
addresses
places
tools handoffs
around_tools builders history entrance
composites
agents
events schemas state templates
moments
budgets dependencies failures limits middleware middleware_state run_path saving signals values
errors json_forms
comparing shown
"""
"""The modules from top to bottom; those of one line do not import each other."""

PURE = """
addresses agents around_tools budgets builders comparing composites dependencies errors events failures
history json_forms leaf_faults limits live.activity live.frames live.screens live.task_parts
live.watched middleware middleware_state moments parts places position
prebuilt.plan_execute prebuilt.planning prebuilt.plans prebuilt.progress prebuilt.supervisor
prebuilt.validated prebuilt.with_helpers run_path schemas shown signals templates tools translation
tree_changes validation workflow_faults
"""
"""The modules that know nothing of LangGraph."""


UPWARDS = {"agentgraph.agents": {"agentgraph.display"}}
"""What imports upwards, when it is called: an agent that Jupyter asks to show itself."""


def depths() -> dict[str, int]:
    """Return how deep each module stands."""
    lines = LAYERS.split("\n")
    return {full(name): depth for depth, line in enumerate(lines) for name in line.split()}


@cache
def modules() -> dict[str, ast.Module]:
    """Return all modules of the package."""
    return {
        full(".".join(file.relative_to(PACKAGE).with_suffix("").parts)): ast.parse(file.read_text())
        for file in PACKAGE.rglob("*.py")
    }


def full(name: str) -> str:
    """Return the name by which a module is imported; `__init__` is the package itself."""
    return f"agentgraph.{name}".removesuffix(".__init__")


def imports(module: ast.Module) -> Iterator[str]:
    """Yield what a module imports, wherever in it, `TYPE_CHECKING` included."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_imports() -> dict[str, set[str]]:
    """Return for each module the modules of this package that it imports."""
    known = modules()
    below = {name: known.keys() & set(imports(module)) for name, module in known.items()}
    return {name: found - UPWARDS.get(name, set()) for name, found in below.items()}


def test_every_module_has_its_layer_and_every_layer_its_modules():
    assert set(depths()) == set(modules())


@pytest.mark.parametrize(("name", "below"), sorted(own_imports().items()))
def test_a_module_imports_only_what_stands_below_it(name, below):
    depth = depths()
    assert [found for found in sorted(below) if depth[found] <= depth[name]] == []


def test_all_imports_are_absolute():
    found = [node for module in modules().values() for node in ast.walk(module)]
    assert [node for node in found if isinstance(node, ast.ImportFrom) and node.level] == []


def test_no_imports_go_round_in_a_circle():
    order = list(TopologicalSorter(own_imports()).static_order())
    assert set(order) == set(modules())


@pytest.mark.parametrize("name", PURE.split())
def test_the_core_knows_nothing_of_langgraph(name):
    found = imports(modules()[full(name)])
    assert [each for each in found if each.split(".")[0].startswith("langgraph")] == []


def test_only_one_file_knows_of_delta_channels():
    users = {
        name.removeprefix("agentgraph.")
        for name, module in modules().items()
        if any(each.startswith("langgraph.channels.delta") for each in imports(module))
    }
    assert users == {"state"}


@pytest.mark.parametrize(("name", "module"), sorted(modules().items()))
def test_each_module_says_what_it_is_for(name, module):
    first_line = (ast.get_docstring(module) or "").partition("\n")[0]
    assert first_line.endswith((".", ":"))


def test_every_public_name_is_there_and_told_once():
    assert len(agentgraph.__all__) == len(set(agentgraph.__all__))
    assert [name for name in agentgraph.__all__ if not hasattr(agentgraph, name)] == []


def test_the_package_is_imported_without_its_extras():
    without = (
        "import sys; sys.modules.update(dict.fromkeys(['click', 'langchain_openai', 'rich', 'yaml']))"
    )
    run = subprocess.run(
        [sys.executable, "-c", f"{without}; import agentgraph; print('openai' in sys.modules)"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.stdout, run.stderr) == ("False\n", "")
