"""A saver that fails once."""

from typing import Any

from langgraph.checkpoint.memory import InMemorySaver


class Failing(InMemorySaver):
    """A saver that fails once after some saves."""

    left: int | None = None

    def put(self, *args: Any, **options: Any) -> Any:
        self._count()
        return super().put(*args, **options)

    def put_writes(self, *args: Any, **options: Any) -> None:
        self._count()
        super().put_writes(*args, **options)

    def _count(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise OSError("the disk is full")
