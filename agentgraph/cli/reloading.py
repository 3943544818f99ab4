"""Reloads TARGET after changes, together with the modules of its folder that it imports."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from agentgraph.cli.target import Target, Trees
from agentgraph.cli.target_files import files_in


class TargetFiles:
    """The files of a target, and the modules that were loaded from them.

    Attributes:
        path: The file, or the folder.
    """

    def __init__(self, target: Target) -> None:
        self._target, self.path = target, target.path
        self._modules: dict[str, ModuleType] = {}

    def load(self) -> Trees:
        """Load the trees from the current files; if they have an error, nothing changes.

        Raises:
            TargetError: As in `Target.load_all`.
            InvalidSkillError: As in `Target.load_all`.
        """
        before = self._modules
        for name in before:
            sys.modules.pop(name, None)
        others = {*sys.modules}
        try:
            with _sources_alone():
                trees = self._target.load_all()
        except BaseException:
            self._forget(others)
            sys.modules.update(before)
            raise
        self._modules = {
            name: module
            for name, module in [*sys.modules.items()]
            if name not in others and self._is_own(module)
        }
        return trees

    def files(self) -> Iterator[Path]:
        """Yield the files that were loaded."""
        yield from self._named()
        for module in self._modules.values():
            yield Path(str(module.__file__)).resolve()

    def _forget(self, others: set[str]) -> None:
        for name, module in [*sys.modules.items()]:
            if name not in others and self._is_own(module):
                del sys.modules[name]

    def _is_own(self, module: ModuleType) -> bool:
        file = getattr(module, "__file__", None)
        if not file or "site-packages" in Path(file).parts:
            return False
        return any(Path(file).resolve().is_relative_to(each) for each in self._folders())

    def _named(self) -> list[Path]:
        path, registry = self.path, self._target.registry
        files = [*files_in(path)] if path.is_dir() else [path]
        return [each.resolve() for each in (*files, *([Path(registry)] if registry else []))]

    def _folders(self) -> set[Path]:
        path = self.path
        return {path.resolve()} if path.is_dir() else {each.parent for each in self._named()}


@contextmanager
def _sources_alone() -> Iterator[None]:
    """Disable bytecode files: Python takes one for current if source and file have the same second."""
    before = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.dont_write_bytecode = before
        sys.path[:] = dict.fromkeys(sys.path)  # each load adds the folder
