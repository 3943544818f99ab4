"""The result of a turn is consistent, also if another caller continues the turn while it is read."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag

TREE = ag.sequential(
    "report", [ag.function_agent("writer", lambda ctx: "A draft."), ag.human("boss", "?")]
)


class Interrupted(InMemorySaver):
    """A saver that calls a function before one of its reads."""

    act: Callable[[], object] | None = None
    left = 0

    def get_tuple(self, *args: Any, **options: Any) -> Any:
        self._count()
        return super().get_tuple(*args, **options)

    def list(self, *args: Any, **options: Any) -> Iterator[Any]:
        self._count()
        return super().list(*args, **options)

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0 and (act := self.act) is not None:
            self.act = None
            act()


@pytest.mark.parametrize("method", ["advance", "result"])
def test_a_result_has_the_events_of_its_status(method: str) -> None:
    ended = set[tuple[str, str]]()
    for number in range(1, 40):
        saver = Interrupted()
        runner, other = (ag.Runner(TREE, checkpointer=saver) for _ in range(2))
        runner.advance("t", "Go.", turn_id="one")

        def answers(other: ag.Runner = other) -> None:
            with suppress(ag.ThreadBusyError):
                other.advance("t", turn_id="one", answers={"report/boss": "yes"}, wait=False)

        saver.act, saver.left = answers, number
        given = {"turn_id": "one"} if method == "advance" else {}
        result = getattr(runner, method)("t", **given)
        ended.add((result.status, result.text))
        if saver.act is not None:  # there are no more reads
            break
    assert number < 39
    assert ended == {("paused", "A draft."), ("done", "yes")}
