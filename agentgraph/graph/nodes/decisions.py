"""The results that a parallel node joins where one lane decides: it wins, or it cancels the others.

With `on_error="first"` the first success wins, or the first that `accept=` accepts. Elsewhere a lane
that ends with `Exit(cancel=True)` or `BreakLoop(cancel=True)` ends the others, and the lanes whose
results were saved before are joined as well. Their numbers are part of the result of the lane that
cancels (`LaneResult.stays`). So one write saves the decision, before anything is stopped, and each
resume finds the same: a lane whose result was saved later lost, as one that has none.
"""

from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future
from threading import Lock
from typing import Any


class Turns:
    """Lets lanes be judged one after the other, in the order in which they ended.

    Attributes:
        is_over: Whether one was accepted, so that no other is judged.
    """

    def __init__(self) -> None:
        self.is_over = False
        self._lock, self._queue = Lock(), deque[Future[None]]()

    def enter(self) -> Future[None]:
        """Return a future that is done when it is a lane's turn."""
        turn = Future[None]()
        with self._lock:
            self._queue.append(turn)
            if len(self._queue) == 1:
                turn.set_result(None)
        return turn

    def leave(self, turn: Future[None]) -> None:
        """End a lane's turn, or its wait; the next one has its turn."""
        with self._lock:
            self._queue.remove(turn)
            if self._queue and not self._queue[0].done():
                self._queue[0].set_result(None)


def decided(results: Mapping[int, Any], *, first_wins: bool) -> dict[int, Any] | None:
    """Return the results that are joined, in order; None if no lane has decided.

    >>> results = {2: {"finished": 2}, 1: {"finished": 3, "stays": [0]}, 0: {"finished": 1}}
    >>> [*decided(results, first_wins=False)], [*decided(results, first_wins=True)]
    ([0, 1], [0])

    Args:
        results: The `LaneResult`s that there are, by the numbers of the lanes.
        first_wins: Whether the first success wins.
    """
    if first_wins:
        deciding = {n: each for n, each in results.items() if each.get("accepted", True)}
    else:
        deciding = {n: each for n, each in results.items() if "stays" in each}
    if not deciding:
        return None
    first = min(deciding, key=lambda number: deciding[number]["finished"])
    joined = {first} if first_wins else {first, *deciding[first]["stays"]}
    return {number: each for number, each in sorted(results.items()) if number in joined}
