"""`lint` finds mistakes planted into real trees, and none in the trees as they are."""

import ast
import json
import linecache
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from helpers import newcomer_trees
from helpers.planted import PLANTS, misspelt, module, spread

import agentgraph as ag

ROOT = Path(__file__).parents[2]
EXAMPLES = {
    path.parent.name: path
    for path in sorted((ROOT / "examples").glob("*/app.py"))
    if path.parent.name != "web"
}
NEWCOMERS = Path(newcomer_trees.__file__)
NAMES = [*EXAMPLES, *(str(number) for number in range(len(newcomer_trees.TREES)))]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MAKES = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef | ast.Assign | ast.Expr
RUNS = {"Runner", "watch", "invoke", "run", "resume", "rewind", "fork_many", "Popen", "communicate"}
RUNS |= {"TemporaryDirectory", "mkdtemp", "sqlite_saver"}
"""Calls that run something: statements of notebooks with such a call are not executed."""


def source_of(name: str) -> str:
    return EXAMPLES.get(name, NEWCOMERS).read_text()


def tree_in(name: str, made: ModuleType) -> ag.Agent:
    if name.isdigit():
        return made.TREES[int(name)]
    agents = [each for each in vars(made).values() if isinstance(each, ag.Agent)]
    return vars(made).get(name, agents[-1])


def load(name: str, source: str) -> ag.Agent:
    return tree_in(name, module(source, str(EXAMPLES.get(name, NEWCOMERS))))


@pytest.mark.parametrize("name", NAMES)
def test_each_planted_mistake_is_found_and_none_where_none_is_planted(name: str) -> None:
    tree = load(name, source_of(name))
    assert ag.lint(tree) == []
    planted = {kind: spread(plant(tree)) for kind, plant in PLANTS.items()}
    missed = {
        kind: [str(each) for each in trees if kind not in kinds(each)]
        for kind, trees in planted.items()
    }
    assert missed == {kind: [] for kind in PLANTS}
    assert sum(map(bool, planted.values())) >= 3
    typos = spread(misspelt(tree, source_of(name), lambda made: tree_in(name, made)))
    assert [str(each) for each in typos if not kinds(each) & {"unwritten_value", "unread_value"}] == []


def kinds(tree: ag.Agent) -> set[str]:
    return {each.kind for each in ag.lint(tree)}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_trees_of_a_notebook_have_no_findings(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(path.parent)
    monkeypatch.chdir(path.parent)
    trees = [*trees_of(path)]
    assert trees
    assert [str(each) for tree, declared in trees for each in ag.lint(tree, inputs=declared)] == []


def trees_of(path: Path) -> Iterator[tuple[ag.Agent, Any]]:
    """Yield the trees that a notebook passes to runners, each with its declared values."""
    names: dict[str, Any] = {"__name__": path.stem}
    cells = json.loads(path.read_text())["cells"]
    for number, cell in enumerate(each for each in cells if each["cell_type"] == "code"):
        source, where = "".join(cell["source"]), f"<{path.stem} {number}>"
        linecache.cache[where] = (len(source), None, source.splitlines(keepends=True), where)
        for statement in ast.parse(source).body:
            calls = [each for each in ast.walk(statement) if isinstance(each, ast.Call)]
            called = {ast.unparse(each.func).rpartition(".")[2] for each in calls}
            if isinstance(statement, MAKES) and not RUNS & called:
                with suppress(Exception):  # it uses what was left out
                    exec(compile(ast.Module([statement], []), where, "exec"), names)
            for call in calls:
                if ast.unparse(call.func) == "ag.Runner" and call.args:
                    yield from tree_of(call, where, names)


def tree_of(call: ast.Call, where: str, names: dict[str, Any]) -> Iterator[tuple[ag.Agent, Any]]:
    def value(node: ast.expr) -> Any:
        return eval(compile(ast.Expression(node), where, "eval"), names)

    with suppress(NameError, ag.InvalidAgentError):  # some have faults, to show these
        declared = [value(each.value) for each in call.keywords if each.arg == "values"]
        tree = value(call.args[0])
        ag.compile_agent(tree, values=declared[0] if declared else None)
        yield tree, declared[0] if declared else ()
