"""What things cost: counts, sizes and ratios, with room for a noisy machine."""

import cProfile
import json
import pstats
from itertools import pairwise

import pytest
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls


def says(name, text="x" * 60):
    def fn(ctx) -> str:
        return text

    return ag.function_agent(name, fn)


def two(iterations):
    return ag.loop("l", [says("a"), says("b")], max_iterations=iterations)


def test_each_leaf_costs_one_superstep():
    saver = InMemorySaver()
    graph = ag.compile_agent(two(50), checkpointer=saver)
    config = {"configurable": {"thread_id": "t"}}
    graph.invoke({"messages": ["hi"]}, config)
    steps = [saved.metadata["step"] for saved in graph.get_state_history(config)]
    assert len(steps) == 100 + 2  # the empty start, and the input
    assert max(steps) == 100


def test_the_size_of_a_position_does_not_depend_on_the_iteration():
    saver = InMemorySaver()
    tree = ag.loop("o", [ag.loop("i", [says("a"), says("b")], max_iterations=10)], max_iterations=9)
    graph = ag.compile_agent(tree, checkpointer=saver)
    config = {"configurable": {"thread_id": "t"}}
    graph.invoke({"messages": ["hi"]}, config)
    positions = [
        saved.values["position"]
        for saved in graph.get_state_history(config)
        if "at" in saved.values.get("position", {}) and saved.next
    ]
    assert len(positions) > 150
    assert {len(position["cursor"]) for position in positions} == {2}
    assert len({len(json.dumps(position)) for position in positions}) <= 2  # node names and digits


def test_a_long_history_is_stored_whole_each_time_a_quarter_as_much_was_written():
    saver = InMemorySaver()
    graph = ag.compile_agent(two(600), checkpointer=saver)
    config = {"configurable": {"thread_id": "t"}}
    graph.invoke({"messages": ["hi"]}, config)
    whole = [each.checkpoint["channel_values"].get("messages") for each in saver.list(config)]
    stored = [len(each.value) for each in whole[::-1] if each is not None]
    assert stored[:4] == [100, 200, 300, 400]
    assert all(1.2 * before < now for before, now in pairwise(stored[4:]))


def test_an_agent_of_a_long_sequence_makes_no_more_steps_of_run_paths_than_one_of_a_short(monkeypatch):
    append, made = ag.RunPath.append, []
    monkeypatch.setattr(ag.RunPath, "append", lambda path, step: made.append(1) or append(path, step))

    def steps_for(agents):
        runner = ag.Runner(ag.sequential("s", [says(f"a{i}") for i in range(agents)]))
        made.clear()
        told = list(runner.run("hi", thread_id="t"))
        assert list(runner.events("t")) == told
        return len(made)

    assert steps_for(400) <= 4.2 * steps_for(100)


def test_a_tree_of_a_thousand_agents_takes_the_calls_of_ten_of_a_hundred_to_compile():
    def calls_for(agents):
        tree = ag.sequential(
            "s",
            [
                ag.loop(f"l{i}", [says(f"a{i}"), ag.function_agent(f"b{i}", print)], max_iterations=3)
                for i in range(agents // 2)
            ],
        )
        profile = cProfile.Profile()
        profile.runcall(ag.compile_agent, tree)
        return pstats.Stats(profile).total_calls

    calls_for(10)  # what is done once
    assert calls_for(1000) <= 1.2 * 10 * calls_for(100)


def test_an_input_of_five_megabytes_is_kept_once(tmp_path):
    path = tmp_path / "x.db"
    with ag.sqlite_saver(path) as saver:
        runner = ag.Runner(two(10), checkpointer=saver)
        assert len(list(runner.run("b" * 5_000_000))) == 20
        saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert path.stat().st_size < 2.5 * 5_000_000


def as_branch(depth, inner):
    return ag.parallel(f"p{depth}", [inner])


def as_tool(depth, inner):
    asks = calls(call(inner.name, request="Go on."))
    model = ScriptedChatModel(responses=[asks, "Done."])
    return ag.chat_agent(f"c{depth}", model, tools=[ag.agent_tool(inner)])


@pytest.mark.parametrize("within", [as_branch, as_tool])
def test_a_question_deep_inside_is_kept_a_few_times_at_each_level_and_no_more(within):
    tree = ag.human("h", "?")
    for depth in range(12):
        tree = within(depth, tree)
    runner = ag.Runner(tree)
    list(runner.run("hi", thread_id="t"))
    saved = runner.saver.list({"configurable": {"thread_id": "t"}})
    writes = [write for each in saved for write in each.pending_writes]
    kept = [one for _, channel, asked in writes if channel == "__interrupt__" for one in asked]
    assert {one.id for one in kept} == {runner.pending("t")[0].id}
    assert len(kept) <= 3 * 12
