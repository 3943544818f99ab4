"""Loads TARGET, the tree that a command works on: `FILE.py:NAME`, or a skill file."""

import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import click
from dotenv import load_dotenv

import agentgraph.skills
from agentgraph.agents.agents import Agent
from agentgraph.errors import AgentGraphError
from agentgraph.graph.named_types import allowed_types
from agentgraph.safe_repr import reason
from agentgraph.show.kinds import kind_text

_SKILL_FILES = (".yaml", ".yml", ".json")
_REGISTRIES = ("tools", "models", "agents")


class TargetError(AgentGraphError):
    """A target that does not name an agent, or a file that cannot be loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A tree as named on the command line.

    Attributes:
        name: `FILE.py:NAME`, where NAME is a variable of the file, or a skill file.
        registry: For a skill file, the Python file with its `tools`, `models` and `agents`.
        allow: The types that may be read from the database file, as `module:name`. For a skill file
            also the references that it may import.
    """

    name: str
    registry: str | None = None
    allow: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """The arguments that name it on the command line."""
        registry = ["--registry", self.registry] if self.registry else []
        return [self.name, *registry, *(word for each in self.allow for word in ("--allow", each))]

    def load(self) -> Agent:
        """Load the agent; this runs the Python file or the registry.

        Raises:
            TargetError: The file or the agent is missing, or the file raises an exception.
            InvalidSkillError: The skill file has faults.
        """
        if self._is_skill:
            return self._skill(Path(self.name))
        if self.registry:
            raise TargetError(f"--registry is only for skill files, got {self.name}; leave it out")
        path, name = _split(self.name)
        module = _loaded(path)
        agent = vars(module).get(name)
        if isinstance(agent, Agent):
            return agent
        raise TargetError(f"{_missing_name(path, name, module)} {_agents_of(path, module)}")

    @property
    def _is_skill(self) -> bool:
        return Path(self.name).suffix.lower() in _SKILL_FILES

    def types(self) -> list[type]:
        """Return the types that may be read from the database file; call `load` first.

        Raises:
            AgentGraphError: `allow` names something other than a type for a Python file.
        """
        if not self._is_skill:
            return [*allowed_types(self.allow).values()]
        types: list[type] = []
        for each in self.allow:
            with suppress(AgentGraphError):  # the reference of a function that the file may import
                types += allowed_types([each]).values()
        return types

    def _skill(self, path: Path) -> Agent:
        """Load a skill file; allowed imports are also searched in its folder."""
        registries = _registries(Path(self.registry)) if self.registry else {}
        if self.allow:
            sys.path.append(str(path.resolve().parent))
        return agentgraph.skills.load(path, **registries, allow=self.allow)


def takes_target(command: Callable[..., None]) -> Callable[..., None]:
    """Add the argument TARGET and its options to a command, as one `Target`."""

    @click.argument("name", metavar="TARGET")
    @click.option(
        "--registry",
        metavar="FILE.py",
        help="For a skill file: the Python file with its dicts tools, models and agents.",
    )
    @click.option(
        "--allow",
        metavar="MODULE:NAME",
        multiple=True,
        help="A type that may be read from the SQLite file. For a skill file also a reference that it "
        "may import; MODULE:* for all public names.",
    )
    @wraps(command)
    def with_target(name: str, registry: str | None, allow: tuple[str, ...], **options: object) -> None:
        command(target=Target(name=name, registry=registry, allow=allow), **options)

    return with_target


def _registries(path: Path) -> dict[str, Mapping[str, Any]]:
    variables = vars(_loaded(path))
    registries = {name: variables[name] for name in _REGISTRIES if name in variables}
    for name, registry in registries.items():
        if not isinstance(registry, Mapping):
            kind = type(registry).__name__
            raise TargetError(f"{path}:{name} is a {kind}; write a dict by names")
    if not registries:
        raise TargetError(
            f"{path} defines none of {', '.join(_REGISTRIES)}; define one, a dict by names"
        )
    return registries


def _split(target: str) -> tuple[Path, str]:
    file, _, name = target.rpartition(":")
    if name.isidentifier() and file:
        return Path(file), name
    return Path(target.removesuffix(":")), ""


def _loaded(path: Path) -> ModuleType:
    if not path.is_file():
        what = "is not a file" if path.exists() else "does not exist"
        raise TargetError(f"{path} {what}; name the file of a tree")
    name = path.stem if path.stem not in sys.modules else f"target_{path.stem}"
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
        _raise_target_error(path, error)
    return module


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


def _raise_target_error(path: Path, error: BaseException) -> NoReturn:
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path.resolve())]
    if isinstance(error, SyntaxError) and error.filename == str(path.resolve()):
        lines.append(error.lineno)
    where = f"{path}, line {lines[-1]}" if lines else str(path)
    message = "".join(traceback.format_exception_only(type(error), error)).strip()
    raise TargetError(f"{where} cannot be loaded:\n{message}") from error


def _missing_name(path: Path, name: str, module: ModuleType) -> str:
    if not name:
        return f"name an agent, as in {path}:NAME."
    if name not in vars(module):
        return f"{path} has no agent {name!r}."
    return f"{path}:{name} must be an agent, got a {type(vars(module)[name]).__name__}."


def _agents_of(path: Path, module: ModuleType) -> str:
    agents = {name: value for name, value in vars(module).items() if isinstance(value, Agent)}
    if not agents:
        return "The file defines no agent."
    lines = "".join(f"\n  {path}:{name} ({kind_text(value)})" for name, value in agents.items())
    return f"It defines:{lines}"
