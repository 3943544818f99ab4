"""What who tells a thread holds of it: not what only LangGraph reads."""

import gc
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from helpers import says
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

import agentgraph as ag

STEPS = 300
KEPT = 4_000
"""The most bytes for each event that reading holds beside the events; it was 5,900."""


def test_reading_events_holds_little_beside_them(tmp_path: Path) -> None:
    with ag.sqlite_saver(tmp_path / "a.db") as saver:
        runner = ag.Runner(
            ag.loop("l", [says("a", "Draft.")], max_iterations=STEPS), checkpointer=saver
        )
        runner.invoke("Go.", thread_id="t")
        assert len([*runner.events("t")]) == STEPS
        gc.collect()
        tracemalloc.start()
        events = [*runner.events("t")]
        gc.collect()
        held, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert (most - held) / len(events) < KEPT


@pytest.mark.parametrize("call", ["events", "thread", "timeline", "threads"])
def test_a_checkpoint_that_cannot_be_read_leaves_no_listing_open(
    tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_ones: list[object] = []

    def listed(*args: Any, **options: Any) -> Any:
        open_ones.append(None)
        try:
            yield from plain(*args, **options)
        finally:
            open_ones.pop()

    plain = SqliteSaver.list
    with ag.sqlite_saver(tmp_path / "a.db") as saver:
        runner = ag.Runner(says("a", "Draft."), checkpointer=saver)
        runner.invoke("Go.", thread_id="t")
        with saver.cursor() as cursor:
            cursor.execute('UPDATE checkpoints SET metadata = \'{"step": "three"}\'')
        monkeypatch.setattr(SqliteSaver, "list", listed)
        names = () if call == "threads" else ("t",)
        try:
            outcome: object = getattr(runner, call)(*names)
            outcome = [*outcome] if call == "events" else outcome  # type: ignore[call-overload]
        except ag.SaverError as error:
            outcome = error
        assert open_ones == []
        assert call == "threads" or isinstance(outcome, ag.SaverError)


def test_what_a_copy_saves_is_whole(tmp_path: Path) -> None:
    runner = ag.Runner(says("a", "Draft."), checkpointer=InMemorySaver())
    runner.invoke("Go.", thread_id="t")
    [*runner.events("t")]
    runner.copy("t", "u")
    heads = [runner.graph.checkpointer.get_tuple({"configurable": {"thread_id": t}}) for t in "tu"]
    assert [each.checkpoint["versions_seen"] != {} for each in heads] == [True, True]


def test_a_saver_may_have_a_class_of_its_own_for_texts() -> None:
    class Text(str):
        pass

    class Saver(InMemorySaver):
        def list(self, *args: Any, **bounds: Any) -> Any:
            for each in super().list(*args, **bounds):
                writes = [(Text(task), Text(name), value) for task, name, value in each.pending_writes]
                yield each._replace(pending_writes=writes)

    runner = ag.Runner(ag.parallel("p", [says("a"), says("b")]), checkpointer=Saver())
    live = [event.id for event in runner.run("Go.", thread_id="t")]
    assert sorted(event.id for event in runner.events("t")) == sorted(live)
