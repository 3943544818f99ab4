"""Loads the tree anew when its files have changed; files with an error leave the tree as it was."""

from collections.abc import Callable, Iterable
from pathlib import Path

from agentgraph.errors import AgentGraphError
from agentgraph.threads.runner import Runner

State = tuple[int, int] | None
"""When a file was written last, in nanoseconds, and its size in bytes; None if it is not there."""


class Source:
    """The files that a tree was loaded from.

    Attributes:
        error: Why they could not be loaded the last time; None if they could.
    """

    def __init__(self, load: Callable[[], Runner], files: Callable[[], Iterable[Path]]) -> None:
        """Note the state of the files, which have just been loaded.

        Args:
            load: Loads the tree anew, and returns a runner of it.
            files: Names the files of what was loaded last.
        """
        self._load, self._files = load, files
        self.error: str | None = None
        self._states = self._now()

    def has_changed(self) -> bool:
        """Return whether a file is not as it was when they were loaded, or could not be."""
        return any(_state_of(path) != state for path, state in self._states.items())

    def load(self) -> Runner | None:
        """Return a runner of the tree, loaded anew; None if there is an error, which is kept."""
        before = {path: _state_of(path) for path in self._states}
        try:
            runner = self._load()
        except AgentGraphError as error:
            self.error = str(error)
            self._states = before  # what is written while it is loaded counts as changed
            return None
        self.error = None
        self._states = self._now() | before
        return runner

    def _now(self) -> dict[Path, State]:
        return {path: _state_of(path) for path in self._files()}


def _state_of(path: Path) -> State:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
