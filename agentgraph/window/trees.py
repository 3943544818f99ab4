"""The trees of a page: a window for each, by name, and their reload after changes of their files."""

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress

from agentgraph.errors import AgentGraphError, SaverError
from agentgraph.events.json_forms import JsonObject
from agentgraph.safe_repr import shown
from agentgraph.threads.runner import Runner
from agentgraph.window.calls import Window
from agentgraph.window.reloading import Source


class Trees:
    """The windows of the trees of a file or a folder.

    Attributes:
        windows: The windows by the names of their trees, at least one; the first is shown first.
    """

    def __init__(self, runners: Mapping[str, Runner], title: str, source: Source | None = None) -> None:
        """Make the windows.

        Args:
            runners: The runners of the trees, by their names.
            title: The title of the page.
            source: The files that define the trees, for `reload`; None if there are none.
        """
        self.windows: Mapping[str, Window] = {}
        self._title, self._source, self._reloads = title, source, threading.Lock()
        self._show(runners)

    @classmethod
    def of(cls, window: Window) -> "Trees":
        """Return a page of one window, whose tree cannot be reloaded."""
        trees = cls({}, window.title)
        trees.windows = {window.title: window}
        return trees

    def window(self, name: str = "") -> Window:
        """Return the window of a tree, by default the first.

        Raises:
            AgentGraphError: No tree has the name.
        """
        if name and name not in self.windows:
            raise AgentGraphError(
                f"tree={shown(name)} is not one of the trees; choose one of: {', '.join(self.windows)}"
            )
        return self.windows[name] if name else next(iter(self.windows.values()))

    def window_of(self, thread_id: str) -> Window:
        """Return the window of the tree that ran a thread; the first one if none did."""
        for window in self.windows.values():
            with suppress(SaverError):  # damaged, or with types that the reader does not trust
                if window.has_run(thread_id):
                    return window
        return self.window()

    @property
    def names(self) -> Sequence[str]:
        """The names of the trees."""
        return [*self.windows]

    def has_tree(self, fingerprint: str) -> bool:
        """Return whether a tree has exactly this outline, by its hash."""
        trees = (window.runner.engine.tree for window in self.windows.values())
        return any(tree.fingerprint == fingerprint for tree in trees)

    def about(self, thread_id: str | None = None) -> JsonObject:
        """Return the data of the tree that ran a thread, or of the first tree."""
        return (self.window() if thread_id is None else self.window_of(thread_id)).about()

    @property
    def can_reload(self) -> bool:
        """Whether files define the trees."""
        return self._source is not None

    @property
    def has_changed(self) -> bool:
        """Whether a file has changed since the last load."""
        return self._source is not None and self._source.has_changed()

    def reload(self) -> tuple[bool, str | None, bool]:
        """Reload the trees if their files have changed.

        While a run is active, the reload waits, because a run keeps its tree. If the files have an
        error, the trees stay unchanged.

        Returns:
            Whether the trees are new, the error of the files, and whether the reload waits.
        """
        with self._reloads:
            source = self._source
            if source is None or not source.has_changed():
                return False, source.error if source else None, False
            if not self.is_idle:
                return False, None, True
            if (runners := source.load()) is None:
                return False, source.error, False
            self._show(runners)
            return True, None, False

    def _show(self, runners: Mapping[str, Runner]) -> None:
        before = self.windows
        windows: dict[str, Window] = {}
        for name, runner in runners.items():
            window = windows[name] = before.get(name) or Window(runner, self._title, name, self)
            if window.runner is not runner:
                window.show(runner)
        self.windows = windows
        for name in before.keys() - windows.keys():
            before[name].close()

    @property
    def is_idle(self) -> bool:
        """Whether no run is active that the page has started."""
        return all(window.runner.is_idle for window in self.windows.values())

    def end_updates(self) -> None:
        """Send no more updates."""
        for window in self.windows.values():
            window.is_closed = True

    def close(self) -> None:
        """Close all windows."""
        for window in self.windows.values():
            window.close()
