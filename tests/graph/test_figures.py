"""What runs cost: counts, sizes and ratios. Times are in `tests/benchmarks`."""

import cProfile
import json
import pstats
from typing import Any

import pytest
from helpers import says, scripted
from helpers.walking import par, rounds, seq

import agentgraph as ag
from agentgraph.testing import call, calls

CONFIG: Any = {"configurable": {"thread_id": "t"}}


def two(iterations: int) -> ag.Agent:
    return rounds(iterations, "l", says("a", "x" * 60), says("b", "x" * 60))


def test_each_leaf_costs_one_superstep_and_a_position_of_the_same_size() -> None:
    runner = ag.Runner(rounds(4, "o", rounds(10, "i", says("a"), says("b"))))
    list(runner.run("hi", thread_id="t"))
    history = list(runner.graph.get_state_history(CONFIG))
    assert len(history) == len({saved.metadata["step"] for saved in history}) == 80 + 2  # start, input
    positions = [
        saved.values["position"]
        for saved in history
        if "at" in saved.values.get("position", {}) and saved.next
    ]
    assert len(positions) > 70
    assert {len(position["cursor"]) for position in positions} == {2}
    assert len({len(json.dumps(position)) for position in positions}) <= 2  # node names and digits


def test_a_long_history_is_stored_whole_each_time_a_quarter_as_much_was_written() -> None:
    runner = ag.Runner(two(350))
    list(runner.run("hi", thread_id="t"))
    whole = [each.checkpoint["channel_values"].get("messages") for each in runner.saver.list(CONFIG)]
    stored = [len(each.value) for each in whole[::-1] if each is not None]
    assert stored == [100, 200, 300, 400, 533]  # 4/3 of what there was, as a quarter is new


def test_an_agent_of_a_long_sequence_makes_no_more_steps_of_run_paths_than_one_of_a_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append, made = ag.RunPath.append, []

    def counted(path: ag.RunPath, step: ag.RunStep) -> ag.RunPath:
        made.append(1)
        return append(path, step)

    monkeypatch.setattr(ag.RunPath, "append", counted)

    def steps_for(agents: int) -> int:
        runner = ag.Runner(seq("s", *(says(f"a{i}") for i in range(agents))))
        made.clear()
        heard = list(runner.run("hi", thread_id="t"))
        assert list(runner.events("t")) == heard
        return len(made)

    assert steps_for(100) <= 4.2 * steps_for(25)


def test_a_large_tree_takes_as_many_calls_for_each_agent_to_compile_as_a_small_one() -> None:
    def calls_for(agents: int) -> int:
        body = (rounds(3, f"l{i}", says(f"a{i}"), says(f"b{i}")) for i in range(agents // 2))
        profile = cProfile.Profile()
        profile.runcall(ag.compile_agent, seq("s", *body))
        return pstats.Stats(profile).total_calls  # type: ignore[attr-defined, no-any-return]

    calls_for(10)  # what is done once
    assert calls_for(400) <= 1.2 * 10 * calls_for(40)


def test_an_input_of_five_megabytes_is_kept_once(tmp_path: Any) -> None:
    path = tmp_path / "x.db"
    with ag.sqlite_saver(path) as saver:
        runner = ag.Runner(two(10), checkpointer=saver)
        assert len(list(runner.run("b" * 5_000_000))) == 20
        saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert path.stat().st_size < 2.5 * 5_000_000


def as_branch(depth: int, inner: ag.Agent) -> ag.Agent:
    return par(f"p{depth}", inner)


def as_tool(depth: int, inner: ag.Agent) -> ag.Agent:
    model = scripted(calls(call(inner.name, request="Go on.")), "Done.")
    return ag.chat_agent(f"c{depth}", model, tools=[ag.agent_tool(inner)])


@pytest.mark.parametrize("within", [as_branch, as_tool])
def test_a_question_deep_inside_is_kept_a_few_times_at_each_level_and_no_more(within: Any) -> None:
    tree = ag.human("h", "?")
    for depth in range(12):
        tree = within(depth, tree)
    runner = ag.Runner(tree)
    list(runner.run("hi", thread_id="t"))
    writes = [write for each in runner.saver.list(CONFIG) for write in each.pending_writes or ()]
    kept = [one for _, channel, asked in writes if channel == "__interrupt__" for one in asked]
    assert {one.id for one in kept} == {runner.pending("t")[0].id}
    assert len(kept) <= 3 * 12
