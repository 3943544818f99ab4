"""How the values of the run are stored: what a step wrote, after users' reducers, and seldom all."""

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import pytest
from helpers import THREAD, Disk, Drive, Sync, asks, driven, failing, gives, marked, says, writes
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import add_messages
from langgraph.types import Command, Overwrite
from typing_extensions import TypedDict

import agentgraph as ag

pytestmark = pytest.mark.by_turns("drive")

LARGE = 400_000


class Marks(TypedDict, total=False):
    log: Annotated[list[str], marked]
    notes: Annotated[list[str], operator.add]
    topic: str


def marks(text: str) -> ag.SetValues:
    return ag.SetValues(log=text)


def logged(values: Any) -> list[str]:
    """Return the texts of a log, without ids."""
    return [each.partition(" ")[0] for each in values["log"]]


# bytes


def size_of(path: Path, tree: ag.Agent, values: Any = None, schema: Any = None) -> int:
    """Return the bytes of a file after a run."""
    with ag.Runner(tree, checkpointer=path, values=schema) as runner:
        for _ in runner.run("Go.", thread_id="t", values=values):
            pass
    return path.stat().st_size


def repeated(name: str, item: Callable[[int], Any], times: int) -> ag.Agent:
    agent = ag.function_agent(name, lambda ctx: item(ctx.iteration or 0))
    return ag.loop("l", [agent], max_iterations=times)


@pytest.mark.parametrize("small", [None, {"count": 1}], ids=["alone", "beside one that changes"])
def test_a_large_value_is_written_three_times_at_most_in_a_hundred_steps(
    tmp_path: Path, small: Any
) -> None:
    tree = repeated("a", lambda _: ["Said.", *([ag.SetValues(**small)] if small else [])], 100)
    without = size_of(tmp_path / "without.db", tree)
    given = size_of(tmp_path / "given.db", tree, {"large": "x" * LARGE})
    assert given - 3 * LARGE < 1.1 * without
    first = ag.sequential("s", [gives("b", ag.SetValues(large="x" * LARGE)), tree])
    written = size_of(tmp_path / "written.db", first)
    assert written - 3 * LARGE < 1.1 * without


class Growing(TypedDict, total=False):
    listed: Annotated[list[str], operator.add]
    said: Annotated[list[AnyMessage], add_messages]
    named: Annotated[dict[str, str], operator.or_]


ITEMS: dict[str, Callable[[int], Any]] = {
    "listed": lambda i: ["x" * 50],
    "said": lambda i: [AIMessage("x" * 50)],
    "named": lambda i: {str(i): "x" * 50},
}


@pytest.mark.parametrize("name", ITEMS)
def test_what_grows_by_one_a_step_costs_what_is_new(tmp_path: Path, name: str) -> None:
    def grown(times: int) -> int:
        tree = repeated("a", lambda i: ag.SetValues(**{name: ITEMS[name](i)}), times)
        return size_of(tmp_path / f"{times}.db", tree, schema=Growing)

    assert grown(300) < 13 * grown(30)


def stored(saver: Any) -> int:
    """Return how often all values were stored."""
    every = [each.checkpoint for each in saver.list(THREAD)]
    return len({c["channel_versions"]["values"] for c in every if "values" in c["channel_values"]})


def test_all_values_are_stored_now_and_then_so_that_a_read_reads_few_steps(drive: Drive) -> None:
    saver = InMemorySaver()
    tree = repeated("a", lambda i: "Said.", 100)
    list(drive.run(ag.Runner(tree, checkpointer=saver), "Go.", thread_id="t", values={"a": 1}))
    assert stored(saver) == 3
    saver = InMemorySaver()
    tree = repeated("a", lambda i: ag.SetValues(a="x" * 5_000), 100)
    list(drive.run(ag.Runner(tree, checkpointer=saver), "Go.", thread_id="t"))
    assert 3 <= stored(saver) <= 20


def test_turns_and_resumes_of_few_steps_count_together(drive: Drive) -> None:
    saver = InMemorySaver()
    tree = ag.sequential("s", [says("a"), asks("h")])
    for turn in range(20):
        runner = ag.Runner(tree, checkpointer=saver)
        list(drive.run(runner, "Go.", thread_id="t", values=None if turn else {"a": 1}))
        list(drive.resume(runner, "t", "yes"))
    assert stored(saver)
    assert runner.thread("t").values == {"a": 1}


def test_a_tree_without_values_stores_none() -> None:
    saver = InMemorySaver()
    graph = ag.compile_agent(repeated("a", lambda i: "Said.", 70), checkpointer=saver)
    updates = list(graph.stream({"messages": "Go."}, THREAD, stream_mode="updates"))
    assert not any("values" in update["a"] for update in updates)
    assert stored(saver) == 0
    assert all("values" not in s.checkpoint["channel_versions"] for s in saver.list(THREAD))


# reducers that give something else each time


def reads(runner: ag.Runner) -> list[Any]:
    """Return the log as it is read in several ways."""
    state = runner.graph.get_state(THREAD).values["values"]
    return [runner.thread("t").values["log"], state["log"]]


def stable(runner: ag.Runner, schema: Any = Marks) -> list[str]:
    """Return the log, which must be the same whenever and by whomever it is read."""
    again = ag.Runner(runner.engine.tree.agent, checkpointer=runner.saver, values=schema)
    every = [*reads(runner), *reads(again)]
    assert every.count(every[0]) == len(every)
    return list(every[0])


def test_what_a_reducer_made_once_is_read_and_resumed_as_it_is(drive: Drive) -> None:
    seen: list[list[str]] = []
    look = ag.function_agent("look", lambda ctx: seen.append(list(ctx.values["log"])))
    tree = ag.sequential("s", [gives("a", [marks("one"), marks("two")]), asks("h"), look, asks("i")])
    runner = ag.Runner(tree, values=Marks)
    list(drive.run(runner, "Go.", thread_id="t", values={"log": "given"}))
    log = stable(runner)
    assert logged({"log": log}) == ["given", "one", "two"]
    list(drive.resume(runner, "t", "yes"))
    assert seen == [log]
    assert stable(runner) == log


def test_edits_of_the_state_are_merged_once(drive: Drive) -> None:
    tree = ag.sequential("s", [gives("a", marks("one")), asks("h"), gives("b", marks("two"))])
    runner = ag.Runner(tree, values=Marks)
    list(drive.run(runner, "Go.", thread_id="t"))
    runner.graph.update_state(THREAD, {"values": {"log": "edited"}})
    edited = stable(runner)
    runner.graph.update_state(THREAD, {"values": {"log": "again", "topic": "bees"}}, as_node="a")
    assert stable(runner)[:2] == edited
    list(drive.resume(runner, "t"))
    list(drive.resume(runner, "t", "yes"))
    assert stable(runner)[:2] == edited
    assert logged({"log": stable(runner)}) == ["one", "edited", "again", "two"]


def test_values_of_a_resume_are_merged_once_also_while_questions_stay_open(drive: Drive) -> None:
    tree = ag.sequential("s", [gives("a", marks("one")), ag.parallel("p", [asks("h"), asks("i")])])
    runner = ag.Runner(tree, values=Marks)
    list(drive.run(runner, "Go.", thread_id="t"))
    list(drive.resume(runner, "t", {"s/p/h": "yes"}, values={"log": "more"}))
    more = stable(runner)
    assert logged({"log": more}) == ["one", "more"]
    list(drive.resume(runner, "t", {"s/p/i": "yes"}, values={"log": "last"}))
    assert stable(runner)[:2] == more
    assert logged({"log": stable(runner)}) == ["one", "more", "last"]


def test_a_command_of_a_bare_graph_is_merged_once(drive: Drive) -> None:
    tree = ag.sequential("s", [gives("a", marks("one")), asks("h"), asks("i")])
    graph = ag.compile_agent(tree, checkpointer=InMemorySaver(), values=Marks)
    given: list[Any] = [
        {"messages": "Go.", "values": {"log": "given"}},
        Command(resume="yes", update={"values": {"log": "more"}}),
    ]
    for each in given:
        list(graph.stream(each, THREAD) if drive is Sync else driven(graph.astream(each, THREAD)))
    logs = [graph.get_state(THREAD).values["values"]["log"] for _ in range(3)]
    assert logs.count(logs[0]) == 3
    assert logged({"log": logs[0]}) == ["given", "one", "more"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_what_a_reducer_made_is_the_same_however_often_a_run_saves(durability: Any) -> None:
    graph = ag.compile_agent(gives("a", marks("one")), checkpointer=InMemorySaver(), values=Marks)
    out = graph.invoke({"messages": "Go.", "values": {"log": "given"}}, THREAD, durability=durability)
    assert logged(out["values"]) == ["given", "one"]
    for _ in range(2):
        assert graph.get_state(THREAD).values["values"] == out["values"]


def test_until_sees_what_is_stored(drive: Drive) -> None:
    seen: list[Any] = []
    tree = ag.loop(
        "l",
        [gives("a", marks("one"))],
        max_iterations=2,
        until=lambda ctx: seen.append(ctx.values["log"]) or True,
    )
    runner = ag.Runner(tree, values=Marks)
    list(drive.run(runner, "Go.", thread_id="t"))
    assert seen == [stable(runner)]


def test_a_lane_hands_back_what_it_wrote_and_the_join_merges_it_once(drive: Drive) -> None:
    tree = ag.sequential(
        "s", [ag.parallel("p", [gives("a", marks("a")), gives("b", marks("b"))]), asks("h")]
    )
    runner = ag.Runner(tree, values=Marks)
    list(drive.run(runner, "Go.", thread_id="t", values={"log": "given"}))
    assert logged({"log": stable(runner)}) == ["given", "a", "b"]


# a process that is killed


class Killed(Exception):
    pass


class Dying(InMemorySaver):
    """Saves so many checkpoints, then fails until it is revived: the writes of that step are saved."""

    left: float = float("inf")

    def put(self, *args: Any, **options: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise Killed
        return super().put(*args, **options)


def added(old: int, new: int) -> int:
    return old + new


class Sums(TypedDict, total=False):
    log: Annotated[list[str], marked]
    sum: Annotated[int, added]


@pytest.mark.parametrize("saves", range(1, 4))
def test_what_was_written_before_a_kill_is_merged_once(drive: Drive, saves: int) -> None:
    saver = Dying()
    items = [gives(n, ag.SetValues(log=n, sum=1)) for n in "ab"]
    runner = ag.Runner(ag.sequential("s", items), checkpointer=saver, values=Sums)
    saver.left = saves
    failing(drive.run(runner, "Go.", thread_id="t", values={"log": "given", "sum": 1}), ag.SaverError)
    saver.left = float("inf")
    before = stable(runner)
    list(drive.resume(runner, "t"))
    assert stable(runner)[: len(before)] == before
    assert logged({"log": stable(runner)}) == ["given", "a", "b"]
    assert runner.thread("t").values["sum"] == 3


def test_values_of_a_resume_come_after_those_of_a_step_that_had_ended(drive: Drive) -> None:
    saver = Dying()
    items = [gives(n, ag.SetValues(log=n, sum=1)) for n in "ab"]
    runner = ag.Runner(ag.sequential("s", [*items, asks("h")]), checkpointer=saver, values=Sums)
    saver.left = 2
    failing(drive.run(runner, "Go.", thread_id="t"), ag.SaverError)
    saver.left = 0
    failing(drive.resume(runner, "t", values={"log": "more", "sum": 10}), ag.SaverError)
    saver.left = float("inf")
    log = stable(runner)
    assert logged({"log": log}) == ["a", "more"]
    list(drive.resume(runner, "t", values={"log": "again", "sum": 100}))
    assert stable(runner)[:2] == log
    assert logged({"log": stable(runner)}) == ["a", "more", "again", "b"]
    assert runner.thread("t").values["sum"] == 112


@pytest.mark.parametrize("saves", range(1, 4))
def test_a_turn_that_is_given_up_keeps_what_was_written_once(drive: Drive, saves: int) -> None:
    saver = Dying()
    items = [gives(n, ag.SetValues(log=n, sum=1)) for n in "ab"]
    runner = ag.Runner(ag.sequential("s", items), checkpointer=saver, values=Sums)
    saver.left = saves
    failing(drive.run(runner, "Go.", thread_id="t", values={"log": "given", "sum": 1}), ag.SaverError)
    saver.left = float("inf")
    kept = runner.thread("t").values["sum"]
    list(drive.run(runner, "Again.", thread_id="t"))
    assert runner.thread("t").values["sum"] in (kept + 2, kept + 3)
    assert len(stable(runner)) == runner.thread("t").values["sum"]


# forks


def test_a_fork_has_the_values_of_its_checkpoint(drive: Drive) -> None:
    tree = ag.sequential("s", [gives(n, ag.SetValues(log=n, notes=[n])) for n in "abc"])
    runner = ag.Runner(tree, values=Marks)
    list(drive.run(runner, "Go.", thread_id="t", values={"log": "given"}))
    first = stable(runner)
    history = list(runner.graph.get_state_history(THREAD))
    at = next(each for each in history if each.next == ("b",))
    assert at.values["values"] == {"log": first[:2], "notes": ["a"]}
    for _ in range(2):
        out = runner.graph.invoke(None, at.config)
        assert out["values"]["log"][:2] == first[:2]
        assert out["values"]["notes"] == ["a", "b", "c"]
        assert stable(runner) == out["values"]["log"]
    edited = runner.graph.update_state(at.config, {"values": {"log": "edited", "notes": ["e"]}})
    out = runner.graph.invoke(None, edited)
    assert logged(out["values"]) == ["given", "a", "edited", "b", "c"]
    assert out["values"]["notes"] == ["a", "e", "b", "c"]
    assert runner.graph.get_state(at.config).values["values"] == at.values["values"]


def test_all_values_can_be_overwritten(drive: Drive) -> None:
    tree = ag.sequential("s", [gives("a", marks("one")), asks("h"), writes("b", {"notes": ["b"]})])
    runner = ag.Runner(tree, values=Marks)
    list(drive.run(runner, "Go.", thread_id="t", values={"topic": "bees"}))
    runner.graph.update_state(THREAD, {"values": Overwrite({"notes": ["new"]})})
    assert runner.thread("t").values == {"log": [], "notes": ["new"]}
    list(drive.resume(runner, "t", "yes"))
    assert runner.thread("t").values == {"log": [], "notes": ["new", "b"]}


# names and defaults


@pytest.mark.parametrize("values", [{"role": "user"}, {"type": "human", "content": "Hi."}])
def test_values_that_look_like_a_message_are_none(disk: Disk, values: Any) -> None:
    """LangGraph gives messages in such a channel ids."""
    tree = ag.sequential("s", [writes("a", values), asks("h"), writes("b", {"x": 1}, values)])
    runner = ag.Runner(tree, checkpointer=disk.path)
    list(disk.drive.run(runner, "Go.", thread_id="t", values=values))
    assert runner.thread("t").values == values
    runner.graph.update_state(THREAD, {"values": values})
    list(disk.drive.resume(runner, "t", "yes", values=values))
    assert runner.thread("t").values == {**values, "x": 1}


@dataclass
class Made:
    key: str = field(default_factory=lambda: str(uuid4()))
    topic: str = ""


def test_a_default_that_a_function_makes_is_stored_with_the_first_write(drive: Drive) -> None:
    tree = ag.sequential("s", [gives("a", ag.SetValues(topic="bees")), asks("h"), says("b")])
    runner = ag.Runner(tree, values=Made)
    list(drive.run(runner, "Go.", thread_id="t"))
    keys = {runner.thread("t").values["key"] for _ in range(3)}
    list(drive.resume(runner, "t", "yes"))
    assert {runner.thread("t").values["key"]} == keys


def test_messages_without_ids_get_them_once(drive: Drive) -> None:
    item = ag.SetValues(said=[AIMessage("one"), {"role": "user", "content": "two"}])
    runner = ag.Runner(ag.sequential("s", [gives("a", item), asks("h")]), values=Growing)
    list(drive.run(runner, "Go.", thread_id="t", values={"said": "zero"}))
    every = [runner.thread("t").values["said"] for _ in range(3)]
    assert [each.text for each in every[0]] == ["zero", "one", "two"]
    assert every[0] == every[1] == every[2]


class Redeclared(TypedDict, total=False):
    notes: Annotated[dict[str, int], operator.or_]


def test_what_nobody_wrote_is_not_stored_with_all_values(drive: Drive) -> None:
    tree = ag.sequential("s", [repeated("a", lambda i: ag.SetValues(topic=str(i)), 40), asks("h")])
    runner = ag.Runner(tree, values=Marks)
    list(drive.run(runner, "Go.", thread_id="t"))
    assert stored(runner.saver)
    again = ag.Runner(tree, checkpointer=runner.saver, values=Redeclared)
    assert again.thread("t").values == {"topic": "39", "notes": {}}
