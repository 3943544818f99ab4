"""An event's cursor says where it is in the stream of its thread: text that grows."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from helpers import Drive, asks, chat, fails, says
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag


def check_growing(events: Sequence[ag.AgentEvent]) -> None:
    cursors = [event.cursor or "" for event in events]
    assert cursors == sorted(set(cursors))


def test_cursors_grow_over_chunks_branches_questions_failures_and_turns(
    drive: Drive, tmp_path: Path
) -> None:
    left, right = chat("left", *["One two three."] * 2), chat("right", *["Four five."] * 2)
    both = ag.parallel("both", [left, right])
    tree = ag.sequential("job", [both, asks("boss"), fails("late"), says("last")])
    heard: list[ag.AgentEvent] = []
    with ag.Runner(tree, checkpointer=tmp_path / "runs.db") as runner:
        heard += drive.run(runner, "Go.", thread_id="t", stream=True)
        with pytest.raises(ValueError, match="late failed"):
            for event in drive.resume(runner, "t", "Yes.", stream=True):
                heard.append(event)
        heard += drive.resume(runner, "t", stream=True)
        heard += drive.run(runner, "Again.", thread_id="t", stream=True)
        heard += drive.resume(runner, "t", "Yes.", stream=True)
        told = list(runner.events("t"))
    check_growing(heard)
    assert any(event.partial for event in heard)
    check_growing(told)
    assert {event.cursor for event in told} <= {event.cursor for event in heard}


def test_chunks_of_a_later_turn_are_after_all_before_also_for_who_only_sees_that_turn() -> None:
    tree = ag.sequential("job", [chat("writer", "One two.", "Three four."), says("last")])
    graph = ag.compile_agent(tree, checkpointer=InMemorySaver())
    heard: list[ag.AgentEvent] = []
    for text in "Go.", "On.":
        parts = graph.stream(
            {"messages": [text]},
            {"configurable": {"thread_id": "t"}},
            stream_mode=ag.STREAM_MODES,
            subgraphs=True,
            version="v2",
        )
        heard += ag.translate(tree, parts)
    assert sum(event.partial for event in heard) == 4
    check_growing(heard)


def test_what_is_told_again_by_a_resume_has_its_cursor_again(drive: Drive) -> None:
    tree = ag.sequential("job", [says("a"), says("b"), says("c")])
    runner = ag.Runner(tree)
    run = runner.run("Go.", thread_id="t")
    first = next(run)
    run.close()
    again = [*drive.resume(runner, "t")]
    told = list(runner.events("t"))
    assert [each for each in [first, *again] if each.message] == told
    check_growing(told)
