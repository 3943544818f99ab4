"""Reloads trees when their files have changed; files with an error leave the trees unchanged."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from agentgraph.errors import AgentGraphError
from agentgraph.threads.runner import Runner

State = tuple[int, int] | None
"""Time of a file's last change, in nanoseconds, and its size in bytes; None without a file."""


class Source:
    """The files that define trees.

    Attributes:
        error: The error of the last load; None if it succeeded.
    """

    def __init__(
        self, load: Callable[[], Mapping[str, Runner]], files: Callable[[], Iterable[Path]]
    ) -> None:
        """Store the state of the files, which have just been loaded.

        Args:
            load: Loads the trees again and returns their runners, by name.
            files: Returns the files of the last load.
        """
        self._load, self._files = load, files
        self.error: str | None = None
        self._states = self._now()

    def has_changed(self) -> bool:
        """Return whether a file has changed since the last load, successful or not."""
        return any(_state_of(path) != state for path, state in self._states.items())

    def load(self) -> Mapping[str, Runner] | None:
        """Load the trees again and return their runners; on an error set `error` and return None."""
        before = {path: _state_of(path) for path in self._states}
        try:
            runners = self._load()
        except AgentGraphError as error:
            self.error = str(error)
            self._states = before  # a file written during the load counts as changed
            return None
        self.error = None
        self._states = self._now() | before
        return runners

    def _now(self) -> dict[Path, State]:
        return {path: _state_of(path) for path in self._files()}


def _state_of(path: Path) -> State:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
