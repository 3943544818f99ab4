"""Run paths: the history that led to an activation, as an immutable sequence of steps.

A path is a linked list that shares its beginning with the path to which it was appended, so that
appending takes constant time. Each node also has a pointer far back (the skew-binary jump pointers of
E. W. Myers, "An applicative random-access stack", 1983), so that the beginning of a given length
is found in logarithmic time.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload


@dataclass(frozen=True, slots=True)
class RunStep:
    """One step of a run path: `RunStep("critic", 1)`.

    Attributes:
        agent_name: The agent.
        iteration: The iteration of the nearest enclosing loop, counted from 0; None outside a loop.
    """

    agent_name: str
    iteration: int | None = None


class RunPath(Sequence[RunStep]):
    """An immutable sequence of `RunStep` objects; `append` returns a new path.

    Earlier siblings and iterations stay in it: in the second iteration of a loop `refine` of
    `writer` and `critic` the writer's path is `refine/writer/critic/writer`. Agents that run at the
    same time do not appear in each other's paths.

    >>> path = RunPath().append(RunStep("report")).append(RunStep("writer"))
    >>> str(path), path.names
    ('report/writer', ('report', 'writer'))
    """

    __slots__ = ("_hash", "_jump", "_length", "_parent", "_step")

    _parent: "RunPath"
    _jump: "RunPath"
    _step: RunStep
    _length: int
    _hash: int

    def __new__(cls, steps: Iterable[RunStep] = ()) -> "RunPath":
        """Make a path of `steps`, by default the empty path.

        Args:
            steps: The steps, the root's first.
        """
        path = _EMPTY
        for step in steps:
            path = path.append(step)
        return path

    def append(self, step: RunStep) -> "RunPath":
        """Return this path with `step` appended, in constant time.

        Args:
            step: The last step of the new path.
        """
        path = object.__new__(RunPath)
        path._parent = self
        path._step = step
        path._length = self._length + 1
        path._hash = hash((self._hash, step.agent_name, step.iteration))
        jump = self._jump
        even = self._length - jump._length == jump._length - jump._jump._length
        path._jump = jump._jump if even else self
        return path

    def starts_with(self, prefix: "RunPath") -> bool:
        """Return whether this path begins with all steps of `prefix`, in logarithmic time.

        Args:
            prefix: The other path; steps are equal if their names and iterations are.
        """
        return prefix._length <= self._length and self._beginning(prefix._length) == prefix

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the agents, first to last."""
        return tuple(step.agent_name for step in self)

    def _beginning(self, length: int) -> "RunPath":
        path = self
        while path._length > length:
            path = path._jump if path._jump._length >= length else path._parent
        return path

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> RunStep: ...

    @overload
    def __getitem__(self, index: slice) -> "RunPath": ...

    def __getitem__(self, index: int | slice) -> "RunStep | RunPath":
        if isinstance(index, slice):
            return RunPath(tuple(self)[index])
        position = index + self._length if index < 0 else index
        if not 0 <= position < self._length:
            raise IndexError(f"a run path of {self._length} steps has no step {index}")
        return self._beginning(position + 1)._step

    def __iter__(self) -> Iterator[RunStep]:
        return iter(list(reversed(self))[::-1])

    def __reversed__(self) -> Iterator[RunStep]:
        path = self
        while path._length:
            yield path._step
            path = path._parent

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RunPath):
            return NotImplemented
        return self is other or (self._length == other._length and self._hash == other._hash)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type["RunPath"], tuple[tuple[RunStep, ...]]]:
        return RunPath, (tuple(self),)

    def __copy__(self) -> "RunPath":
        return self

    def __deepcopy__(self, memo: object) -> "RunPath":
        return self

    def __str__(self) -> str:
        return "/".join(self.names)

    def __repr__(self) -> str:
        return f"RunPath({str(self)!r})"


def beginnings(path: RunPath) -> Iterator[RunPath]:
    """Yield a path, and each of its beginnings that has a step, the longest first."""
    while path._length:
        yield path
        path = path._parent


def _empty() -> RunPath:
    path = object.__new__(RunPath)
    path._parent = path._jump = path
    path._length = path._hash = 0
    return path


_EMPTY = _empty()
