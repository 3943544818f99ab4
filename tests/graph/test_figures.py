"""What runs cost: counts, sizes and ratios. Times are in `tests/benchmarks`."""

import concurrent.futures
import cProfile
import json
import operator
import pstats
import sys
import threading
from collections.abc import Callable
from functools import partial
from itertools import count
from types import FrameType
from typing import Annotated, Any

import pytest
from helpers import says, scripted
from helpers.walking import par, rounds, seq
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Send

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


class Sent(MessagesState):
    out: Annotated[list[str], operator.add]


def sending(number: int) -> Any:
    def read(state: Any) -> dict[str, Any]:
        return {"messages": [AIMessage("x")], "out": ["x"]}

    builder = StateGraph(Sent).add_node("read", read).add_node("split", lambda _: {})
    builder.add_edge(START, "split").add_conditional_edges(
        "split", lambda state: [Send("read", n) for n in range(number)], ["read"]
    )
    return builder.compile()


def wide(kind: str, number: int) -> ag.Agent:
    if kind == "each":
        return ag.each("all", says("w", "x"), lambda ctx: [*range(number)], output_key="out")
    agents = [says(f"w{n}", "x") for n in range(number)]
    if kind == "parallel":
        return ag.parallel("all", agents)
    return ag.workflow("all", list(map(ag.step, agents)))


def calls_in_all_threads(action: Callable[[], object]) -> int:
    """Return how many Python functions are called, but those by which threads wait for each other."""
    waiting, counted = (threading.__file__, concurrent.futures.__path__[0]), count()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and not frame.f_code.co_filename.startswith(waiting):
            next(counted)  # a sum would lose those that threads count at once

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return next(counted)


@pytest.mark.parametrize("kind", ["each", "parallel", "workflow"])
def test_a_leaf_that_is_a_lane_costs_no_more_calls_than_one_of_send_however_many_there_are(
    kind: str,
) -> None:
    def cost(made: Callable[[int], Any], few: int, many: int) -> float:
        return (whole(made(many)) - whole(made(few))) / (many - few)

    def whole(graph: Any) -> int:
        call = partial(graph.invoke, {"messages": ["Go."]})
        call()  # the first fills caches
        return calls_in_all_threads(call)

    def compiled(number: int) -> Any:
        return ag.compile_agent(wide(kind, number))

    many = cost(compiled, 50, 150)
    assert many <= 1.1 * cost(compiled, 10, 50)  # threads meet by chance
    assert many <= 1.1 * cost(sending, 50, 150)
