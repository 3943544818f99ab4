"""The content of TARGET: a tree or a Runner, and the runner that a command uses."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Self

from langchain_core.runnables.config import merge_configs
from langgraph.checkpoint.memory import InMemorySaver

from agentgraph.agents.agents import Agent
from agentgraph.agents.costs import no_prices
from agentgraph.cli.target_files import TargetError
from agentgraph.journal.savers.urls import is_database_url, without_password
from agentgraph.threads.config import check_config
from agentgraph.threads.runner import Runner, is_closed, options_of, remade

_DEFAULT_DB = "agentgraph.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A loaded target; as a context manager it ends what a function of the target has opened.

    Attributes:
        name: `FILE.py:NAME`, or a skill file.
        given: The tree, or the runner.
        types: The types that may be read from the database file, of `--allow`.
        opened: The context managers that its function has opened.
    """

    name: str
    given: Agent | Runner
    types: Sequence[type] = ()
    opened: ExitStack = field(default_factory=ExitStack)

    @property
    def agent(self) -> Agent:
        """The root of the tree."""
        return self.given.agent if isinstance(self.given, Runner) else self.given

    @property
    def file(self) -> str:
        """The path of its file."""
        return self.name if self._variable is None else self.name.removesuffix(f":{self._variable}")

    @property
    def short_name(self) -> str:
        """The name of its variable, or its file."""
        return self._variable or self.name

    @property
    def _variable(self) -> str | None:
        file, _, name = self.name.rpartition(":")
        return name if file and name.isidentifier() else None

    @property
    def has_saver(self) -> bool:
        """Whether it is a runner that was made with a checkpointer."""
        return isinstance(self.given, Runner) and options_of(self.given)["checkpointer"] is not None

    def bare_runner(self) -> Runner:
        """Return the runner, or one of the tree that stores nothing."""
        return self.given if isinstance(self.given, Runner) else self.runner(None)

    def check_db(self, db: str | None) -> None:
        """Refuse `--db` and `--allow` for a runner that stores its threads elsewhere.

        Raises:
            TargetError: The runner has a checkpointer.
        """
        if not self.has_saver:
            return
        if db is not None:
            raise TargetError(f"{self.name} stores its threads by its own checkpointer; leave --db out")
        if self.types:
            raise TargetError(
                f"{self.name} stores its threads by its own checkpointer; pass allow= to the Runner in "
                "place of --allow"
            )

    def runner(self, checkpointer: Any, config: Any = None, context: Any = None) -> Runner:
        """Return the runner of a command.

        Args:
            checkpointer: Stores the threads of a tree, and of a runner without a checkpointer.
            config: LangGraph's config of all runs, merged with that of the runner.
            context: LangGraph's runtime context, in place of that of the runner.
        """
        if not isinstance(self.given, Runner):
            return Runner(
                self.given,
                checkpointer=checkpointer,
                allow=self.types,
                config=config,
                context=context,
                prices=no_prices,
            )
        options = options_of(self.given)
        changes: dict[str, Any] = {}
        if config:
            changes["config"] = merge_configs(options["config"], check_config(config))
        if context is not None:
            changes["context"] = context
        if not self.has_saver:
            allow = [*options["allow"], *self.types]
            changes |= {"checkpointer": checkpointer, "allow": allow}
        elif changes:
            changes["checkpointer"] = self.given.saver
        return remade(self.given, **changes) if changes else self.given

    @contextmanager
    def open(self, db: str | None, *, creates: bool = False) -> Iterator[Runner]:
        """Open the runner with the threads of a command, and close it at the end.

        Args:
            db: The SQLite file or the URL of the database of `--db`; None for the default.
            creates: Whether a missing file is created.

        Raises:
            TargetError: The runner has a checkpointer, and `db` is not None; or the file is missing.
            SaverError: The file or database cannot be opened.
        """
        self.check_db(db)
        if not (self.has_saver or creates):
            existing(db_of(db))
        with self.runner(db_of(db)) as runner:
            yield runner

    def close(self) -> None:
        """End what the function of the target has opened, and close the runner."""
        if isinstance(self.given, Runner):
            self.given.close()
        self.opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_open(name: str, value: Agent | Runner) -> None:
    """Refuse a runner that has closed its file.

    Raises:
        TargetError: It has.
    """
    if isinstance(value, Runner) and is_closed(value):
        raise TargetError(
            f"{name} is closed; make it without a `with` block, or name a function that returns one"
        )


def db_of(db: str | None) -> str:
    """Return the file or URL of `--db`, or the default file."""
    return _DEFAULT_DB if db is None else db


def existing(db: str) -> str:
    """Return the path of an existing file or the URL of a database, after a check.

    Raises:
        TargetError: The file does not exist.
    """
    if is_database_url(db):
        return db
    if not Path(db).is_file():
        is_folder = bool(db) and Path(db).is_dir()
        what = f"{db} is a folder" if is_folder else f"there is no file {db or repr(db)}"
        raise TargetError(f"{what}; name the file of the thread with --db")
    return db


def place_of(runner: Runner) -> str:
    """Return the place of a runner's threads, as it may be shown: a path, or a URL without password."""
    checkpointer = options_of(runner)["checkpointer"]
    if isinstance(checkpointer, str | PathLike):
        return without_password(str(fspath(checkpointer)))
    if isinstance(runner.saver, InMemorySaver):
        return "the memory of this process"
    return f"the {type(runner.saver).__name__.lstrip('_')} of the runner"
