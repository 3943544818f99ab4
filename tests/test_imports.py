"""Imports: each module imports only what is below it, and the package only what it needs."""

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

ORDER = """
__main__ cli __init__ testing agui window skills show threads reports journal events graph tree agents
errors safe_repr
"""
"""The folders, and the files next to them, from top to bottom: each imports only those below it."""
FOLDERS = ORDER.split()

PURE = ("agents", "tree", "errors", "safe_repr")
"""The folders that do not import LangGraph, directly or indirectly."""

ALONE = f"""
import importlib, sys, types
package = types.ModuleType("agentgraph")
package.__path__ = [{str(PACKAGE)!r}]
sys.modules["agentgraph"] = package  # without its __init__, which imports all folders
for name in sys.argv[1:]:
    importlib.import_module(name)
print(sorted(name for name in sys.modules if name.startswith("agentgraph.")))
print([name for name in sys.modules if name.split(".")[0] in ("langgraph", "langchain")])
"""
"""Imports modules without the rest of the package."""


@cache
def modules() -> dict[str, ast.Module]:
    """Return all modules of the package."""
    return {name: ast.parse(file.read_text()) for name, file in FILES.items()}


def full(name: str) -> str:
    """Return the name by which a module is imported; `__init__` is the package itself."""
    return f"agentgraph.{name}".removesuffix(".__init__")


FILES = {
    full(".".join(file.relative_to(PACKAGE).with_suffix("").parts)): file
    for file in sorted(PACKAGE.rglob("*.py"))
}


def imports(module: ast.Module) -> Iterator[str]:
    """Yield all imports of a module, at any depth, `TYPE_CHECKING` included."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def without_type_checking(module: ast.Module) -> ast.Module:
    """Return a module without what only type checkers read."""

    class Without(ast.NodeTransformer):
        def visit_If(self, node: ast.If) -> ast.AST | None:
            is_for_types = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
            return None if is_for_types else node

    return Without().visit(ast.parse(ast.unparse(module)))


@cache
def own_imports() -> dict[str, set[str]]:
    """Return for each module the modules of this package that it imports, wherever in it."""
    known = modules()
    return {name: known.keys() & set(imports(module)) for name, module in known.items()}


def folder(name: str) -> str:
    """Return the folder of a module, or the file, at the top of the package."""
    return (f"{name}.__init__" if name == "agentgraph" else name).split(".")[1]


def test_the_top_of_the_package_is_what_the_order_names():
    named = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert named - {"__pycache__"} == {*FOLDERS}
    assert len(named - {"__pycache__", "__main__"}) <= 16


@pytest.mark.parametrize("name", FILES)
def test_a_module_imports_only_from_its_folder_and_those_below(name):
    allowed = FOLDERS[FOLDERS.index(folder(name)) :]
    assert [each for each in sorted(own_imports()[name]) if folder(each) not in allowed] == []


def test_all_imports_are_absolute():
    found = [node for module in modules().values() for node in ast.walk(module)]
    assert [node for node in found if isinstance(node, ast.ImportFrom) and node.level] == []


def test_no_imports_go_round_in_a_circle():
    order = list(TopologicalSorter(own_imports()).static_order())
    assert set(order) == set(modules())


@pytest.mark.parametrize("name", [each for each in FILES if folder(each) in PURE])
def test_what_users_build_and_how_it_is_laid_out_knows_nothing_of_langgraph(name):
    found = imports(without_type_checking(modules()[name]))
    assert [each for each in found if each.split(".")[0] in ("langgraph", "langchain")] == []


def test_nor_does_anything_that_these_reach():
    pure = sorted(each for each in FILES if folder(each) in PURE)
    command = [sys.executable, "-c", ALONE, *pure]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == (f"{pure}\n[]\n", "")


def test_only_the_lanes_state_and_users_declarations_know_of_delta_channels():
    users = {
        name.removeprefix("agentgraph.")
        for name, module in modules().items()
        if any(each.startswith("langgraph.channels.delta") for each in imports(module))
    }
    assert users == {"graph.delta_channels", "graph.stored_values", "graph.value_channels"}


def test_one_file_knows_what_langgraph_and_langchain_keep_private():
    libraries = ("langgraph", "langchain", "langsmith")
    private = {
        (name.removeprefix("agentgraph."), each.rpartition(".")[2])
        for name, module in modules().items()
        for each in imports(module)
        if each.startswith(libraries) and any(part.startswith("_") for part in each.split("."))
    }
    keys = {name for name, module in modules().items() if "__pregel" in ast.unparse(module)}
    assert {each for each in private if each[0] != "graph.internals"} == {
        ("agents.context", "_DirectlyInjectedToolArg"),  # `Context` is one: no tool call can give it
    }
    assert keys == set()


def test_a_langgraph_that_lacks_such_a_part_is_named_with_what_to_install():
    without = "import langgraph._internal._cache as cache; del cache.default_cache_key"
    run = subprocess.run(
        [sys.executable, "-c", f"{without}; import agentgraph; agentgraph.compile_agent"],
        capture_output=True,
        text=True,
        check=False,
    )
    last = run.stderr.splitlines()[-1]
    assert last.startswith("ImportError: langgraph 1.")
    assert "default_cache_key" in last
    assert last.endswith("or a newer agentgraph")


@pytest.mark.parametrize("name", FILES)
def test_each_module_says_what_it_is_for(name):
    first_line = (ast.get_docstring(modules()[name]) or "").partition("\n")[0]
    assert first_line.endswith((".", ":"))


def test_every_public_name_is_there_and_listed_once():
    assert len(agentgraph.__all__) == len(set(agentgraph.__all__))
    assert [name for name in agentgraph.__all__ if not hasattr(agentgraph, name)] == []


def test_building_a_tree_imports_neither_langgraph_nor_the_classes_of_langchain():
    lines = [
        "import sys, agentgraph as ag",
        "chat = ag.chat_agent('c', 'openai:gpt-5', history=ag.trimmed(max_tokens=100))",
        "one = ag.loop('l', [chat, ag.agent(lambda ctx: 'Yes.', name='f')], max_iterations=2)",
        "many = ag.parallel('p', [ag.human('h', 'Well?'), ag.switch('s', 'v', {'a': one})])",
        "print(ag.supervisor('boss', 'openai:gpt-5', [ag.sequential('q', [many])]).name)",
        "heavy = ('langgraph', 'langchain', 'langsmith', 'openai')",
        "heavy += ('langchain_core.runnables.base', 'langchain_core.tools.base')",
        "print([name for name in sys.modules if name in heavy], len(sys.modules))",
    ]
    langgraph = "import sys, langgraph.graph; print(len(sys.modules))"
    ours, theirs = (
        subprocess.run([sys.executable, "-c", each], capture_output=True, text=True, check=True)
        for each in ("\n".join(lines), langgraph)
    )
    name, rest = ours.stdout.splitlines()
    found, _, count = rest.rpartition(" ")
    assert (name, found) == ("boss", "[]")
    assert int(count) < 0.5 * int(theirs.stdout)


def test_names_that_are_imported_when_used_are_listed_and_are_what_type_checkers_see():
    tree = modules()["agentgraph"]
    types = next(node for node in tree.body if isinstance(node, ast.If))
    told = {
        name.name: each.module
        for each in types.body
        if isinstance(each, ast.ImportFrom)
        for name in each.names
    }
    assert told == agentgraph._LOADED_WHEN_USED
    assert {*agentgraph.__all__} <= {*dir(agentgraph)}
    with pytest.raises(AttributeError, match="no attribute 'Runer'"):
        agentgraph.Runer  # noqa: B018


def test_the_package_runs_without_its_extras_and_loads_only_what_it_needs():
    ours = "'langchain_core.language_models.chat_models', 'langgraph.prebuilt'"
    lines = [
        "import sys; sys.modules.update(dict.fromkeys(['click', 'langchain_openai', 'rich']))",
        "import agentgraph as ag",
        "runner = ag.Runner(ag.human('h', 'Well?')); list(runner.run('Go.', thread_id='t'))",
        "list(runner.resume('t', 'yes'))",
        f"heavy = ['aiosqlite', 'jsonschema', 'langchain.agents', 'openai', 'rpds', {ours}]",
        "print([name for name in heavy if name in sys.modules])",
        "import agentgraph.testing",
        "try: ag.watch(runner, 'Go.')",
        "except ag.AgentGraphError as error: print(error)",
        "print([name for name in sys.modules if name.startswith(('ag_ui', 'agentgraph.agui'))])",
        "sys.modules['ag_ui'] = None",
        "try: from agentgraph import agui",
        "except ag.AgentGraphError as error: print(error)",
    ]
    run = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False
    )
    install = "watching a run needs the package rich; run pip install 'langgraph-agentgraph[live]'"
    agui = (
        "agentgraph.agui needs the package ag-ui-protocol; run pip install 'langgraph-agentgraph[agui]'"
    )
    assert (run.stdout, run.stderr) == (f"[]\n{install}\n[]\n{agui}\n", "")
