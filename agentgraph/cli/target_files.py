"""Loads the Python files of TARGET, and finds the trees that a file or a folder defines."""

import ast
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from dotenv import load_dotenv

from agentgraph.agents.agents import Agent, is_agent
from agentgraph.agents.kinds import agents_inside
from agentgraph.errors import AgentGraphError
from agentgraph.safe_repr import reason
from agentgraph.show.kinds import kind_text
from agentgraph.threads.runner import Runner, is_closed
from agentgraph.tree.validation import MOST_LEVELS

SKILL_FILES = (".yaml", ".yml", ".json")
_SKILL = re.compile(r"""(^|[{,])\s*["']?kind["']?\s*:""", re.MULTILINE)
"""The key that each skill file has."""
_START = 4000
"""Number of characters of a file in which that key is searched."""


class TargetError(AgentGraphError):
    """A target that does not name a tree or a runner, or a file that cannot be loaded."""


def load_module(path: Path) -> ModuleType:
    """Run a Python file, with the variables of the file `.env` next to it.

    Raises:
        TargetError: The file is missing, is not a Python file, or raises an exception.
    """
    if not path.is_file():
        what = "is not a file" if path.exists() else "does not exist"
        raise TargetError(f"{path} {what}; name the file of a tree")
    known = sys.modules.get(path.stem)
    if known is not None and _is_from(known, path):  # another file of the folder has imported it
        return known
    name = path.stem if known is None else f"target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} is not a Python file; name one that ends with .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    _load_environment(path.parent)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise_target_error(path, error)
    return module


def _is_from(module: ModuleType, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    return bool(file) and Path(str(file)).resolve() == path.resolve()


def _load_environment(folder: Path) -> None:
    """Set the variables of the file `.env` next to a Python file, as LangGraph's server does.

    Variables that are set already win. A skill file has no `.env`: an untrusted one could send the
    requests of models elsewhere.

    Raises:
        TargetError: The file cannot be read.
    """
    file = folder / ".env"
    try:
        if file.is_file():
            load_dotenv(file)
    except (OSError, UnicodeDecodeError) as error:
        raise TargetError(f"{file} cannot be read: {reason(error)}; correct or delete it") from error


def raise_target_error(path: Path, error: BaseException) -> NoReturn:
    """Raise the error of a file whose code raised an exception, with the line of the file."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path.resolve())]
    if isinstance(error, SyntaxError) and error.filename == str(path.resolve()):
        lines.append(error.lineno)
    where = f"{path}, line {lines[-1]}" if lines else str(path)
    message = "".join(traceback.format_exception_only(type(error), error)).strip()
    raise TargetError(f"{where} cannot be loaded:\n{message}") from error


def files_in(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder that may define trees: Python files and skill files."""
    for path in sorted(folder.iterdir()):
        is_test = path.stem.startswith("test_") or path.stem == "conftest"
        if not path.is_file() or path.name.startswith((".", "_")):
            continue
        if path.suffix == ".py" and not is_test and "agentgraph" in _text(path):
            yield path
        if path.suffix.lower() in SKILL_FILES and _SKILL.search(_text(path, _START)):
            yield path


def _text(path: Path, size: int = -1) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(size)
    except (OSError, UnicodeDecodeError):
        return ""


def defined_in(module: ModuleType) -> dict[str, Agent | Runner]:
    """Return the agents and open runners of a module by public name, without imported ones."""
    imported = _imported(Path(str(module.__file__)))
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, Agent | Runner)
        and not (name.startswith("_") or name in imported or _is_closed(value))
    }


def _is_closed(value: Agent | Runner) -> bool:
    return isinstance(value, Runner) and is_closed(value)


def trees_in(defined: Mapping[str, Agent | Runner]) -> dict[str, Agent | Runner]:
    """Return the runners, and the agents that are in no other agent and no runner.

    An agent counts as one that is inside another if that has an agent of its name.
    """
    runners = [value for value in defined.values() if isinstance(value, Runner)]
    inside = {name for value in defined.values() for name in _names_inside(value)}
    roots = {id(runner.agent) for runner in runners}
    trees: dict[str, Agent | Runner] = {}
    for name, value in defined.items():
        is_part = not isinstance(value, Runner) and (value.name in inside or id(value) in roots)
        if not is_part and all(value is not other for other in trees.values()):
            trees[name] = value
    return trees


def _names_inside(value: Agent | Runner) -> Iterator[str]:
    level = [value.agent if isinstance(value, Runner) else value]
    for _ in range(MOST_LEVELS):
        level = [each for agent in level for each in agents_inside(agent) if is_agent(each)]
        yield from (each.name for each in level)


def _imported(path: Path) -> set[str]:
    """Return the names that a file imports."""
    nodes = ast.walk(ast.parse(path.read_bytes()))
    statements = (each for each in nodes if isinstance(each, ast.Import | ast.ImportFrom))
    return {alias.asname or alias.name for each in statements for alias in each.names}


def described(where: str, value: Agent | Runner) -> str:
    """Return a line about a tree or a runner: `agents.py:report (sequential)`."""
    if isinstance(value, Runner):
        return f"{where} (Runner of {value.agent.name})"
    return f"{where} ({kind_text(value)})"
