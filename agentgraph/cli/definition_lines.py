"""The lines of a file at which the agents of a tree are defined, found in its text by their names."""

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import agentgraph


def definition_lines(file: str) -> Callable[[str], int]:
    """Return a function from an address to the line of its agent, from 1.

    An agent is found by its name in a call of a builder, or as a decorated function. The line is 1 if
    the file has no such definition, or several.
    """
    path = Path(file)
    found = _in_python(path) if path.suffix == ".py" else _in_skill(path)
    lines: dict[str, list[int]] = defaultdict(list)
    for name, line in found:
        lines[name].append(line)

    def line_of(address: str) -> int:
        several = lines[address.rpartition("/")[2].partition("#")[0]]
        return several[0] if len(several) == 1 else 1

    return line_of


def _in_python(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Call) and _is_builder(node.func):
            names = [*node.args[:1], *(each.value for each in node.keywords if each.arg == "name")]
            for name in names:
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    yield name.value, node.lineno
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            marks = (each.func if isinstance(each, ast.Call) else each for each in node.decorator_list)
            if any(map(_is_builder, marks)):
                yield node.name, node.lineno


def _is_builder(function: ast.expr) -> bool:
    name = getattr(function, "attr", None) or getattr(function, "id", None)
    return name in agentgraph.__all__


def _in_skill(path: Path) -> Iterator[tuple[str, int]]:
    for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for name in re.findall(r"""\bname["']?\s*:\s*["']?([\w-]+)""", text):
            yield name, line
