"""A turn whose first steps cannot be saved is resumed from its start, whatever the turn before left."""

from typing import Any

import pytest
from helpers import Drive, failing, scripted, standing
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Full(InMemorySaver):
    """A saver whose disk is full after some more checkpoints."""

    left: int | None = None

    def put(self, *arguments: Any) -> Any:
        if self.left == 0:
            raise OSError("disk full")
        self.left = None if self.left is None else self.left - 1
        return super().put(*arguments)

    async def aput(self, *arguments: Any) -> Any:
        return self.put(*arguments)


@pytest.mark.parametrize("fails_before", [False, True])
@pytest.mark.parametrize("left", [1, 2, 3])
def test_a_turn_is_resumed_from_its_start(drive: Drive, fails_before: bool, left: int) -> None:
    one = ValueError("not now") if fails_before else "b1"
    agents = [ag.chat_agent("a", scripted("a1", "a2")), ag.chat_agent("b", scripted(one, "b2", "b3"))]
    saver = Full()
    runner = ag.Runner(ag.sequential("s", agents), checkpointer=saver)
    heard: list[ag.AgentEvent] = []
    if fails_before:
        heard += failing(drive.run(runner, "One.", thread_id="t"), ValueError)[0]
    else:
        heard += drive.run(runner, "One.", thread_id="t")
    saver.left = left
    heard += failing(drive.run(runner, "Two.", thread_id="t"), OSError)[0]
    saver.left = None
    heard += drive.resume(runner, "t")
    assert list(runner.events("t")) == standing(heard)
    first = ["a1"] if fails_before else ["a1", "b1"]
    state = runner.graph.get_state(CONFIG).values
    assert [message.text for message in state["messages"]] == ["One.", *first, "Two.", "a2", "b2"]
    told = [event.text for event in runner.events("t") if event.kind == "message"]
    assert told == [*first, "a2", "b2"]
