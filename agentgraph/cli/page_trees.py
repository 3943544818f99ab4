"""The trees of a page of `agentgraph inspect`, loaded from TARGET, and their savers."""

import os
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentgraph.cli.loaded import Loaded, db_of, place_of
from agentgraph.cli.reloading import TargetFiles
from agentgraph.cli.target import Target
from agentgraph.cli.target_files import TargetError
from agentgraph.errors import AgentGraphError, SaverError
from agentgraph.graph.open_types import Saver
from agentgraph.journal.savers.opening import open_saver
from agentgraph.journal.savers.urls import is_database_url, without_password
from agentgraph.show.lines import without_controls
from agentgraph.threads.runner import Runner

if TYPE_CHECKING:
    from agentgraph.journal.savers.postgres import DatabaseSaver
    from agentgraph.journal.savers.sqlite import FileSaver
    from agentgraph.window.trees import Trees


class PageTrees:
    """Loads the trees of a page, at first and after changes of their files.

    Attributes:
        places: Where their threads are stored, as it may be shown.
    """

    def __init__(
        self, target: Target, db: str | None, opened: ExitStack, config: Any = None, context: Any = None
    ) -> None:
        """Load nothing yet.

        Args:
            target: The target.
            db: The file or URL of `--db`; None for the default, if a tree needs one.
            opened: Closes what is opened.
            config: LangGraph's config of all runs.
            context: LangGraph's runtime context of all runs.
        """
        self._files, self._db, self._opened = TargetFiles(target), db, opened
        self._config, self._context = config, context
        self._saver: Saver | None = None
        self.places: dict[str, None] = {}

    def page(self, title: str) -> "Trees":
        """Load the trees, and return the windows of the page.

        Raises:
            TargetError: The target has no tree that can be loaded; or `--db` is passed, and each tree
                is a runner with a checkpointer.
        """
        from agentgraph.window.reloading import Source
        from agentgraph.window.trees import Trees

        runners = self._load(())
        source = Source(lambda: self._load(trees.windows), self._files.files)
        trees = Trees(runners, title, source)
        return trees

    def _load(self, shown: Collection[str]) -> dict[str, Runner]:
        """Return the runners of the trees by name; print which files and trees are left out.

        Raises:
            TargetError: No tree can be loaded, or one that is shown cannot be loaded any more.
            AgentGraphError: The only tree has faults.
        """
        loaded, problems = self._files.load()
        if loaded and all(each.has_saver for each in loaded.values()):
            for each in loaded.values():
                each.check_db(self._db)
        runners: dict[str, Runner] = {}
        for name, each in loaded.items():
            try:
                runners[name] = self._runner(each)
            except AgentGraphError as error:
                if len(loaded) == 1 and not problems:
                    raise
                problems.append(f"{each.name}: {error}")
        if problems and (not runners or {*shown} - runners.keys()):
            raise TargetError("\n".join(problems))
        if not runners:
            raise TargetError(f"{self._files.path} has no file that defines a tree; name a file")
        for text in problems:
            click.echo(without_controls(f"Left out: {text}"), err=True)
        return runners

    def _runner(self, loaded: Loaded) -> Runner:
        self._opened.enter_context(loaded)
        if loaded.has_saver:
            runner = loaded.runner(None, self._config, self._context)
            self.places[place_of(runner)] = None
            return runner
        db = db_of(self._db)
        if self._saver is None:
            self._saver = self._opened.enter_context(_opened(db))
        self.places[without_password(db)] = None
        return loaded.runner(self._saver, self._config, self._context)


def _opened(db: str) -> "DatabaseSaver | FileSaver":
    """Open the database or file; a file without write permission is opened read-only.

    Raises:
        SaverError: It cannot be opened.
    """
    is_file = not is_database_url(db) and Path(db).is_file()
    try:
        if not is_file or os.access(db, os.W_OK):
            return open_saver(db)
    except SaverError:
        if not is_file:
            raise
    return _opened_to_read(db)


def _opened_to_read(db: str) -> "FileSaver":
    from agentgraph.journal.savers.sqlite import reading_saver

    saver = reading_saver(db)
    click.echo(without_controls(f"{db} is read-only: nothing runs or changes."), err=True)
    return saver
