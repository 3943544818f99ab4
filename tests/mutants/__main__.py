"""Changes one thing in the code at a time, and shows whether the tests of its folder notice.

Run it as `make mutants`. It works on a copy, so the files here stay as they are. Mutants are chosen at
random, ten for each of four folders. A seed chooses the same ones as long as the structure of the code
is the same: names and comments may change.

    python tests/mutants [COUNT [SEED]]
"""

import ast
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

FOLDERS = ("tree", "graph", "events", "threads")
PATIENCE = 1200.0
"""Seconds after which the tests of a mutant count as failed."""

ROOT = Path(__file__).parents[2]
SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
}

Change = Callable[[], None]


def changes(tree: ast.Module) -> Iterator[tuple[ast.AST, Change]]:
    """Yield each node inside a function that can be changed, and what changes it."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in function.body:
                for node in ast.walk(statement):
                    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                        for change in _of_node(node):
                            yield node, change


def _of_node(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in SWAPPED:
            yield lambda: node.ops.__setitem__(0, SWAPPED[type(op)]())  # type: ignore[call-overload]
        case ast.BoolOp(op=op) | ast.BinOp(op=op) if type(op) in SWAPPED:
            yield lambda: setattr(node, "op", SWAPPED[type(op)]())
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            yield lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), test))
        case ast.Return(value=ast.expr()):
            yield lambda: setattr(node, "value", ast.Constant(None))
        case ast.Constant(value=bool(value)):
            yield lambda: setattr(node, "value", not value)
        case ast.Constant(value=int(value)):
            yield lambda: setattr(node, "value", value + 1)
        case ast.Expr(value=ast.Call()):
            yield lambda: setattr(node, "value", ast.Constant(None))


def chosen(count: int, seed: int) -> list[tuple[str, int]]:
    """Return mutants: a file, and the number of a change in it."""
    mutants = []
    for folder in FOLDERS:
        every = [
            (str(path.relative_to(ROOT)), number)
            for path in sorted((ROOT / "agentgraph" / folder).rglob("*.py"))
            for number, _ in enumerate(changes(ast.parse(path.read_text())))
        ]
        mutants += random.Random(f"{seed} {folder}").sample(every, count // len(FOLDERS))
    return mutants


def killed(copy: Path, file: str, number: int) -> str:
    """Return the outcome of the tests of a folder for a change, with its place and text."""
    path, text = copy / file, (copy / file).read_text()
    tree = ast.parse(text)
    node, change = list(changes(tree))[number]
    line, before = getattr(node, "lineno", 0), _short(node)
    change()
    path.write_text(ast.unparse(ast.fix_missing_locations(tree)))
    begun = time.monotonic()
    tests = [f"tests/{Path(file).parts[1]}", "tests/test_transcripts.py"]
    command = [sys.executable, "-m", "pytest", "-x", "-n", "2", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    running = subprocess.Popen(
        command, cwd=copy, env=environment, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        result = "SURVIVED" if running.wait(PATIENCE) == 0 else "killed"
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        result = "killed (time)"
    path.write_text(text)
    took = time.monotonic() - begun
    return f"{result} in {took:.0f} s: {file}:{line} #{number} {before} -> {_short(node)}"


def _short(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0][:60]


def main(count: int = 40, seed: int = 1) -> None:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(
            ROOT, copy, ignore=shutil.ignore_patterns(".venv", ".git", ".hypothesis", "__pycache__")
        )
        lines = []
        for file, number in chosen(count, seed):
            lines.append(killed(copy, file, number))
            print(lines[-1], flush=True)
    print(f"{sum('killed' in line for line in lines)} of {len(lines)} killed")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
