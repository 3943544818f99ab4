"""Finds the agent that `FILE.py:NAME` means."""

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from agentgraph.agents import AGENTS, Agent
from agentgraph.display import kind_of
from agentgraph.errors import AgentGraphError


class TargetError(AgentGraphError):
    """A target that names no agent, or a file that cannot be loaded."""


def load(target: str) -> Agent:
    """Return the agent that a target means, once its file has run.

    Args:
        target: `FILE.py:NAME`, the name being that of a variable of the file.

    Raises:
        TargetError: There is no such file or agent, or the file raises an exception.
    """
    path, name = _split(target)
    module = _loaded(path)
    found = vars(module).get(name)
    if isinstance(found, AGENTS):
        return found
    raise TargetError(f"{_what_is_wrong(path, name, module)} {_agents_of(path, module)}")


def _split(target: str) -> tuple[Path, str]:
    file, _, name = target.rpartition(":")
    if name.isidentifier() and file:
        return Path(file), name
    return Path(target.removesuffix(":")), ""


def _loaded(path: Path) -> ModuleType:
    if not path.is_file():
        raise TargetError(f"there is no file {path}" if not path.exists() else f"{path} is no file")
    name = path.stem if path.stem not in sys.modules else f"target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        _refuse(path, error)
    return module


def _refuse(path: Path, error: BaseException) -> NoReturn:
    """Say which line of the file raised, and what."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path.resolve())]
    if isinstance(error, SyntaxError) and error.filename == str(path.resolve()):
        lines.append(error.lineno)
    where = f"{path}, line {lines[-1]}" if lines else str(path)
    message = "".join(traceback.format_exception_only(type(error), error)).strip()
    raise TargetError(f"{where} cannot be loaded:\n{message}") from error


def _what_is_wrong(path: Path, name: str, module: ModuleType) -> str:
    if not name:
        return f"name an agent, as in {path}:NAME."
    if name not in vars(module):
        return f"{path} has no agent {name!r}."
    return f"{path}:{name} is no agent, but a {type(vars(module)[name]).__name__}."


def _agents_of(path: Path, module: ModuleType) -> str:
    agents = {name: value for name, value in vars(module).items() if isinstance(value, AGENTS)}
    if not agents:
        return "The file defines no agent."
    lines = "".join(f"\n  {path}:{name} ({kind_of(value)})" for name, value in agents.items())
    return f"It defines:{lines}"
