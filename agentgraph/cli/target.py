"""TARGET, the tree or runner that a command works on: a Python file with a name, or a skill file."""

import inspect
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import click

import agentgraph.skills
from agentgraph.agents.agents import Agent
from agentgraph.cli.loaded import Loaded, check_open
from agentgraph.cli.target_files import (
    SKILL_FILES,
    TargetError,
    defined_in,
    described,
    files_in,
    load_module,
    raise_target_error,
    trees_in,
)
from agentgraph.errors import AgentGraphError
from agentgraph.graph.named_types import allowed_types
from agentgraph.threads.live.event_loop import held_on_event_loop, on_event_loop
from agentgraph.threads.runner import Runner

_REGISTRIES = ("tools", "models", "agents")


class Trees(NamedTuple):
    """The trees of a target, and the reasons why others could not be loaded.

    Attributes:
        loaded: The trees and runners, by their names in a choice.
        problems: A text for each file of a folder that cannot be loaded.
    """

    loaded: dict[str, Loaded]
    problems: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A tree or runner as named on the command line.

    Attributes:
        name: `FILE.py:NAME`, where NAME is a variable of the file, or a file or folder.
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

    @property
    def path(self) -> Path:
        """The file, or the folder."""
        return _split(self.name)[0]

    def load(self) -> Loaded:
        """Load the tree or runner; this runs the Python file, or the registry.

        Raises:
            TargetError: The file or the name is missing, the file raises an exception, or the target
                has several trees.
            InvalidSkillError: The skill file has faults.
        """
        loaded, problems = self.load_all()
        if len(loaded) == 1:
            return next(iter(loaded.values()))
        if not loaded:
            raise TargetError(_without_trees(self.path, problems))
        several = "".join(f"\n  {described(each.name, each.given)}" for each in loaded.values())
        first = next(iter(loaded.values())).name
        raise TargetError(
            f"{self.path} has {len(loaded)} trees; name one, as in {first}. It defines:{several}"
        )

    def load_all(self) -> Trees:
        """Load all trees and runners of a file or folder, or the one that is named.

        Without a name, the trees of a file are its runners, and its agents that are in no other agent
        or runner of it. A folder has the trees of its files.

        Raises:
            TargetError: As in `load`; files of a folder that cannot be loaded are problems instead.
            InvalidSkillError: The skill file has faults.
        """
        path, name = _split(self.name)
        if self.registry and not self._is_skill:
            raise TargetError(f"--registry is only for skill files, got {self.name}; leave it out")
        if path.is_dir() and not name:
            return self._all_in(path)
        if self._is_skill:
            return Trees({self.name: self._skill(path)}, [])
        module = load_module(path)
        if name:
            return Trees({name: self._named(path, name, module)}, [])
        trees = trees_in(defined_in(module))
        return Trees({each: self._made(path, each, value) for each, value in trees.items()}, [])

    @property
    def _is_skill(self) -> bool:
        return Path(self.name).suffix.lower() in SKILL_FILES

    def _all_in(self, folder: Path) -> Trees:
        trees = Trees({}, [])
        for path in files_in(folder):
            try:
                if path.suffix.lower() in SKILL_FILES:
                    trees.loaded[path.name] = self._skill(path)
                    continue
                defined = defined_in(load_module(path))
                for name, value in trees_in(defined).items():
                    trees.loaded[f"{path.name}:{name}"] = self._made(path, name, value)
            except AgentGraphError as error:
                trees.problems.append(f"{path}: {error}".replace(f"{path}: {path}", str(path), 1))
        return trees

    def _named(self, path: Path, name: str, module: ModuleType) -> Loaded:
        value = vars(module).get(name)
        if isinstance(value, Agent | Runner):
            return self._made(path, name, value)
        if not callable(value) or isinstance(value, type):
            raise TargetError(f"{_missing_name(path, name, module)} {_defined(path, module)}")
        opened = ExitStack()
        try:
            given = _result_of(value, path, name, opened)
            if isinstance(given, Agent | Runner):
                return self._made(path, name, given, opened)
            what = "None" if given is None else f"a {type(given).__name__}"
            raise TargetError(f"{path}:{name} returned {what}; return an agent or a Runner")
        except BaseException:
            opened.close()
            raise

    def _made(
        self, path: Path, name: str, value: Agent | Runner, opened: ExitStack | None = None
    ) -> Loaded:
        check_open(f"{path}:{name}", value)
        types = [*allowed_types(self.allow).values()]
        return Loaded(name=f"{path}:{name}", given=value, types=types, opened=opened or ExitStack())

    def _skill(self, path: Path) -> Loaded:
        """Load a skill file; allowed imports are also searched in its folder."""
        registries = _registries(Path(self.registry)) if self.registry else {}
        if self.allow:
            sys.path.append(str(path.resolve().parent))
        agent = agentgraph.skills.load(path, **registries, allow=self.allow)
        types: list[type] = []
        for each in self.allow:
            with suppress(AgentGraphError):  # the reference of a function that the file may import
                types += allowed_types([each]).values()
        return Loaded(name=str(path), given=agent, types=types)


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


def _result_of(function: Callable[..., Any], path: Path, name: str, opened: ExitStack) -> object:
    """Return the result of a function of a file, awaited, or entered as a context manager.

    Raises:
        TargetError: It needs arguments, or raises an exception.
    """
    if needed := _required(function):
        raise TargetError(
            f"{path}:{name} needs the arguments {', '.join(needed)}; name a function without "
            "arguments, or give them defaults"
        )
    try:
        given = function()
        if isinstance(given, Awaitable):
            given = on_event_loop(_awaited(given))
        if isinstance(given, Runner):  # it is a context manager too, which the command ends
            return given
        if isinstance(given, AbstractAsyncContextManager):
            given = held_on_event_loop(given)
        return opened.enter_context(given) if isinstance(given, AbstractContextManager) else given
    except (Exception, SystemExit) as error:
        raise_target_error(path, error)


async def _awaited(given: Awaitable[object]) -> object:
    return await given


def _required(function: Callable[..., Any]) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a function of C without a signature
        return []
    is_needed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    kinds = (*is_needed, inspect.Parameter.KEYWORD_ONLY)
    return [each.name for each in parameters if each.kind in kinds and each.default is each.empty]


def _registries(path: Path) -> dict[str, Mapping[str, Any]]:
    variables = vars(load_module(path))
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


def _missing_name(path: Path, name: str, module: ModuleType) -> str:
    if name not in vars(module):
        return f"{path} has no agent {name!r}."
    kind = type(vars(module)[name]).__name__
    return f"{path}:{name} must be an agent, a Runner, or a function that returns one, got a {kind}."


def _defined(path: Path, module: ModuleType) -> str:
    defined = {name: each for name, each in vars(module).items() if isinstance(each, Agent | Runner)}
    if not defined:
        return "The file defines no agent and no Runner."
    lines = "".join(f"\n  {described(f'{path}:{name}', each)}" for name, each in defined.items())
    return f"It defines:{lines}"


def _without_trees(path: Path, problems: list[str]) -> str:
    if problems:
        return "\n".join([f"{path} has no tree that can be loaded; correct its files:", *problems])
    if path.is_dir():
        return f"{path} has no file that defines a tree; name a file"
    return f"{path} defines no tree; name one as in {path}:NAME"
