"""What ran on a thread as bars over time: each kind of agent, failures, crashes, rewinds, lines."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from helpers import Drive, Session, asks, chat, fails, says, scripted
from helpers.commands import Commands, wait_until
from helpers.decoding import Decoding
from helpers.timelines import check_sound, lines
from langchain_core.messages import AIMessage
from langgraph.types import interrupt

import agentgraph as ag
from agentgraph.reports.bars import joined
from agentgraph.testing import call, calls

pytestmark = pytest.mark.by_turns("drive")


class Timed(Session):
    """A thread, and its timeline."""

    def run(self, text: str = "Go.", **options: Any) -> None:
        with suppress(ValueError):
            self.follow("run", text, thread_id="t", hear=lambda _: None, **options)

    def resume(self, *answers: Any, **options: Any) -> None:
        with suppress(ValueError):
            self.follow("resume", "t", *answers, hear=lambda _: None, **options)

    def timeline(self, **options: Any) -> ag.Timeline:
        read: ag.Timeline = self.use(
            lambda runner: runner.timeline("t", **options),
            lambda runner: runner.atimeline("t", **options),
        )
        check_sound(read)
        return read

    def lines(self, **options: Any) -> list[str]:
        return lines(self.timeline(**options).bars)


@pytest.fixture(params=["memory", "file"])
def timed(request: pytest.FixtureRequest, drive: Drive, tmp_path: Path) -> Callable[..., Timed]:
    path = tmp_path / "threads.db" if request.param == "file" else None
    return lambda tree: Timed(tree, drive, path)


def test_a_loop_has_a_bar_and_one_for_each_iteration(timed: Callable[..., Timed]) -> None:
    thread = timed(ag.loop("talk", [says("ann"), says("bob")], max_iterations=2))
    thread.run()
    assert thread.lines() == [
        "talk done",
        "talk[0] done",
        "talk[0]/ann done",
        "talk[0]/bob done",
        "talk[1] done",
        "talk[1]/ann done",
        "talk[1]/bob done",
    ]
    ann = thread.timeline().bars[2]
    assert (ann.kind, ann.label, ann.iteration, ann.turn, ann.text) == ("agent", "ann", 0, 0, "ann")
    assert ann.inside == "0:talk[0]"


def look(place: str) -> str:
    """Look somewhere."""
    return f"nothing in {place}"


def used(text: str, *made: Any) -> AIMessage:
    """Return a reply that says how many tokens it took."""
    tokens = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    return AIMessage(text, tool_calls=list(made), usage_metadata=tokens)


def test_a_chat_agent_has_bars_for_its_model_and_its_tools(timed: Callable[..., Timed]) -> None:
    helper = ag.agent_tool(chat("helper", used("Here.")))
    first = used("", call("look", place="there"), call("helper", request="Where?"))
    thread = timed(chat("desk", first, used("Done."), tools=[look, helper]))
    thread.run()
    assert sorted(thread.lines()) == [
        "desk done",
        "desk model done",
        "desk model done",
        "desk tool helper done",
        "desk tool look done",
        "desk/helper(1) done",
        "desk/helper(1) model done",
    ]
    bars = thread.timeline().bars
    by_label = {bar.label: bar for bar in bars}
    assert by_label["look"].text == "nothing in there"
    called = next(bar for bar in bars if bar.kind == "tool" and bar.label == "helper")
    assert next(bar for bar in bars if bar.address == "desk/helper(1)").inside == called.id
    assert (sum(bar.tokens_in for bar in bars), sum(bar.tokens_out for bar in bars)) == (21, 9)


def test_a_model_that_a_function_chooses_is_called_model(timed: Callable[..., Timed]) -> None:
    model = scripted("Done.")
    thread = timed(ag.chat_agent("desk", lambda ctx: model))
    thread.run()
    assert [bar.label for bar in thread.timeline().bars] == ["desk", "model"]


def test_a_wait_for_a_person_is_a_bar_until_the_answer(timed: Callable[..., Timed]) -> None:
    thread = timed(ag.parallel("review", [says("legal"), asks("boss", "Print it?")]))
    thread.run()
    waiting = {bar.label: bar for bar in thread.timeline().bars}
    assert {label: bar.state for label, bar in waiting.items()} == {
        "review": "asks",
        "legal": "done",
        "boss": "asks",
        "Print it?": "asks",
    }
    assert waiting["Print it?"].ended is None
    before = time.time()
    thread.resume("yes")
    answered = {bar.label: bar for bar in thread.timeline().bars}
    assert {bar.state for bar in answered.values()} == {"done"}
    assert {bar.id for bar in waiting.values()} == {bar.id for bar in answered.values()}
    assert answered["Print it?"].began == waiting["Print it?"].began
    assert (answered["Print it?"].ended or 0) >= before
    assert answered["boss"].text == "yes"


def test_each_question_of_a_tool_is_a_bar(timed: Callable[..., Timed]) -> None:
    def ask(what: str) -> str:
        """Ask."""
        return f"{interrupt('One?')} {interrupt('Two?')}"

    thread = timed(chat("desk", calls(call("ask", what="x")), "Done.", tools=[ask]))
    thread.run()
    thread.resume("1")
    assert [bar.state for bar in thread.timeline().bars if bar.kind == "question"] == ["done", "asks"]
    thread.resume("2")
    asked = [bar for bar in thread.timeline().bars if bar.kind == "question"]
    assert [(bar.label, bar.state) for bar in asked] == [("One?", "done"), ("Two?", "done")]


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_a_question_for_approval_names_the_tool(timed: Callable[..., Timed], mode: Any) -> None:
    def pay(usd: int) -> str:
        """Pay."""
        return "Paid."

    asks = {"tools": [pay], "approve": ["pay"], "interrupt_mode": mode}
    thread = timed(chat("desk", calls(call("pay", usd=5), call("pay", usd=6)), "Done.", **asks))
    thread.run()
    asked = [bar for bar in thread.timeline().bars if bar.kind == "question"]
    label = "approve pay, pay?" if mode == "batched" else "approve pay?"
    assert {bar.label for bar in asked} == {label}
    assert asked[0].text.startswith('pay {"usd": 5}')
    answered = time.time()
    decisions = [{"type": "approve"}, {"type": "reject", "message": "Too much."}]
    ids = [each.id for each in thread.use(lambda r: r.thread("t"), lambda r: r.athread("t")).pending]
    thread.resume(
        {"decisions": decisions} if mode == "batched" else dict(zip(ids, decisions, strict=True))
    )
    (paid,) = [bar for bar in thread.timeline().bars if bar.kind == "tool"]
    assert (paid.text, paid.began >= answered) == ("Paid.", True)
    runs = thread.use(lambda r: r.activation("t", "desk"), lambda r: r.aactivation("t", "desk")).tools
    assert [(each.status, each.began is None) for each in runs] == [("done", False), ("rejected", True)]
    assert runs[0].began is not None
    assert runs[0].began >= answered


def test_a_failure_that_is_retried_is_void(timed: Callable[..., Timed]) -> None:
    thread = timed(ag.sequential("s", [says("first"), fails("second")]))
    thread.run()
    failed = thread.timeline().bars[-1]
    assert (failed.address, failed.state) == ("s/second", "failed")
    assert failed.text == "ValueError('second failed, time 1')"
    assert thread.lines()[0] == "s failed"
    thread.resume()
    assert thread.lines() == ["s done", "s/first done", "s/second void", "s/second done"]
    void, done = thread.timeline().bars[-2:]
    assert void.text == failed.text
    assert void.ended is not None
    assert void.ended <= done.began
    assert done.id == failed.id


def test_a_failure_in_a_branch_leaves_the_others(timed: Callable[..., Timed]) -> None:
    thread = timed(ag.parallel("p", [says("good"), fails("bad")], on_error="wait"))
    thread.run()
    assert sorted(thread.lines()) == ["p failed", "p/bad failed", "p/good done"]
    thread.resume()
    assert sorted(thread.lines()) == ["p done", "p/bad done", "p/bad void", "p/good done"]


def test_a_failure_that_is_collected_ends_its_branch_alone(timed: Callable[..., Timed]) -> None:
    tree = ag.parallel("p", [says("good"), fails("bad", 9)], on_error="collect")
    thread = timed(tree)
    thread.run()
    assert sorted(thread.lines()) == ["p done", "p/bad failed", "p/good done"]


def test_items_that_fail_are_collected_or_tried_again(timed: Callable[..., Timed]) -> None:
    def read(ctx: ag.Context) -> str:
        if ctx.values["item"] == "b":
            raise ValueError("b is bad")
        return str(ctx.values["item"])

    items = ag.each(
        "files", ag.function_agent("read", read), lambda ctx: ["a", "b", "c"], on_error="collect"
    )
    thread = timed(items)
    thread.run()
    assert sorted(thread.lines()) == [
        "files done",
        "files/read(0) done",
        "files/read(1) failed",
        "files/read(2) done",
    ]
    assert next(bar for bar in thread.timeline().bars if bar.state == "failed").text.endswith(
        "b is bad')"
    )


def test_items_begin_when_one_of_those_before_has_ended(timed: Callable[..., Timed]) -> None:
    def read(ctx: ag.Context) -> str:
        time.sleep(0.02)
        return "read"

    items = ag.each(
        "files", ag.function_agent("read", read), lambda ctx: [*range(6)], max_concurrency=2
    )
    thread = timed(items)
    thread.run()
    bars = [bar for bar in thread.timeline().bars if bar.address != "files"]
    assert len(bars) == 6
    for bar in bars:
        others = [
            each for each in bars if each is not bar and each.began <= bar.began < (each.ended or 0)
        ]
        assert len(others) < 2, "more than two at once"


def test_items_that_ask_again_begin_again_for_every_reader(timed: Callable[..., Timed]) -> None:
    thread = timed(ag.each("e", asks("ask"), lambda ctx: ["a", "b"], max_concurrency=1))
    thread.run()
    read = thread.timeline()
    thread.resume({"e/ask(0)": "yes"})
    later = thread.timeline(since=read.upto)
    assert later.continues
    assert read.joined(later).bars == thread.timeline().bars


def test_an_item_that_a_rewind_keeps_was_run_before(timed: Callable[..., Timed]) -> None:
    failing = [ValueError("not yet")]

    def items(ctx: ag.Context) -> list[str]:
        if failing:
            raise failing.pop()
        return ["a", "b"]

    thread = timed(ag.each("e", says("read"), items))
    thread.run()
    thread.resume()
    old = {bar.address: bar for bar in thread.timeline().bars}
    thread.follow("rewind", "t", "e/read(0)", hear=lambda _: None)
    new = {bar.address: bar for bar in thread.timeline().bars}
    assert (new["e/read(1)"].began, new["e/read(1)"].ended) == (
        old["e/read(1)"].began,
        old["e/read(1)"].ended,
    )
    assert new["e/read(0)"].began > old["e/read(0)"].began
    pauses = thread.timeline().pauses
    assert all(each.began < each.ended for each in pauses)
    assert (old["e/read(1)"].ended or 0) <= pauses[-2].began
    assert pauses[-2].ended <= new["e/read(0)"].began


def test_the_loser_of_a_race_is_void(timed: Callable[..., Timed], drive: Drive) -> None:
    slow = ag.sequential("slow", [says("begins"), asks("waits")])
    thread = timed(ag.parallel("race", [says("fast"), slow], on_error="first"))
    thread.run()
    states = {bar.address: bar.state for bar in thread.timeline().bars if bar.kind == "agent"}
    assert (states["race"], states["race/fast"]) == ("done", "done")
    assert states.get("race/slow", "void") == "void"


def test_agents_that_a_function_runs_are_inside_it(timed: Callable[..., Timed]) -> None:
    async def flow(ctx: ag.Context) -> str:
        return str(await ctx.run("research", "bees", key="bees"))

    thread = timed(ag.function_agent("flow", flow, agents=[says("research")]))
    thread.run()
    assert thread.lines() == ["flow done", "flow/research(bees) done"]
    assert thread.timeline().bars[1].inside == "0:flow"


def test_swarms_workflows_and_switches(timed: Callable[..., Timed]) -> None:
    ann = chat("ann", calls(call("transfer_to_bob")))
    team = ag.swarm("team", [ag.handoff(ann), ag.handoff(chat("bob", "Hello."))], start="ann")
    flow = ag.workflow("flow", [ag.step(says("one")), ag.step(says("two"), depends_on=["one"])])
    pick = ag.switch("pick", lambda ctx: "a", {"a": says("left")})
    thread = timed(ag.sequential("s", [team, flow, pick]))
    thread.run()
    agents = [bar.address for bar in thread.timeline().bars if bar.kind == "agent"]
    assert agents == [
        "s",
        "s/team",
        "s/team[0]/ann",
        "s/team[1]/bob",
        "s/flow",
        "s/flow/one",
        "s/flow/two",
        "s/pick",
        "s/pick/left",
    ]
    assert {bar.state for bar in thread.timeline().bars} == {"done"}


def test_a_turn_that_was_dropped_is_void(timed: Callable[..., Timed]) -> None:
    thread = timed(ag.sequential("s", [says("a"), asks("boss")]))
    thread.run()
    thread.run("Again.", drop_pending=True)
    first = [bar for bar in thread.timeline().bars if bar.turn == 0]
    assert {bar.address: bar.state for bar in first if bar.kind == "agent"} == {
        "s": "void",
        "s/a": "done",
        "s/boss": "void",
    }
    assert [bar.state for bar in first if bar.kind == "question"] == ["void"]
    assert all(bar.ended is not None for bar in first)


def test_after_a_rewind_each_line_has_its_own_bars(timed: Callable[..., Timed]) -> None:
    thread = timed(ag.sequential("s", [says("a", "1", "2"), says("b"), says("c")]))
    thread.run()
    old = thread.timeline()
    thread.follow("rewind", "t", "s/b", hear=lambda _: None)
    new = thread.timeline(since=old.upto)
    assert not new.continues
    assert new.is_whole
    ended = {bar.address: bar.ended for bar in old.bars}
    assert any(
        each.began <= (ended["s/c"] or 0) <= each.ended for each in new.pauses
    )  # the time of the older line is no work of the present one
    kept = {bar.id for bar in old.bars} & {bar.id for bar in new.bars}
    assert kept == {"0:s", "0:s/a", "0:s/b", "0:s/c"}
    began = {bar.address: bar.began for bar in old.bars}
    assert {bar.address for bar in new.bars if bar.began == began[bar.address]} == {"s", "s/a"}
    assert {bar.state for bar in new.bars} == {"done"}
    heads = thread.use(lambda r: r.thread("t").lines, lambda r: _lines(r))
    assert thread.timeline(line=heads[1].head).bars == old.bars
    assert thread.timeline(line=heads[0].head).bars == new.bars
    with pytest.raises(ag.ThreadError, match="has no line with the head 'x'"):
        thread.timeline(line="x")


async def _lines(runner: ag.Runner) -> Any:
    return (await runner.athread("t")).lines


def test_a_run_under_way_has_bars_that_go_on(tmp_path: Path) -> None:
    """Three items of which two may run at once: the third is not known to run."""
    entered, leave = threading.Semaphore(0), threading.Event()

    def read(ctx: ag.Context) -> str:
        entered.release()
        leave.wait(30)
        return "read"

    items = ag.each(
        "files", ag.function_agent("read", read), lambda ctx: ["a", "b", "c"], max_concurrency=2
    )
    with ag.Runner(items, checkpointer=tmp_path / "t.db") as runner:
        runner.start("Go.", thread_id="t")
        try:
            assert entered.acquire(timeout=30)
            assert entered.acquire(timeout=30)
            wait_until(lambda: len(runner.timeline("t").bars) > 1)
            read_so_far = runner.timeline("t")
            check_sound(read_so_far)
            assert sorted(lines(read_so_far.bars)) == [
                "files running",
                "files/read(0) running",
                "files/read(1) running",
            ]
        finally:
            leave.set()
        wait_until(lambda: runner.thread("t").status == "done")
        later = runner.timeline("t", since=read_so_far.upto)
        assert later.upto != read_so_far.upto
        assert {bar.state for bar in read_so_far.joined(later).bars} == {"done"}


DIES = """
import os, signal, sys
import agentgraph as ag

is_killed = __name__ == "__main__"


def die(ctx) -> str:
    if is_killed:
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def say(ctx) -> str:
    return "said"


tree = ag.sequential(
    "s",
    [
        ag.function_agent("before", say),
        ag.parallel(
            "p",
            [
                ag.function_agent("other", say),
                ag.loop("l", [ag.function_agent("dies", die)], max_iterations=1),
            ],
        ),
    ],
)
alone = ag.sequential("s", [ag.function_agent("before", say), ag.function_agent("dies", die)])

if is_killed:
    with ag.Runner({"alone": alone, "beside": tree}[sys.argv[1]], checkpointer="t.db") as runner:
        list(runner.run("Go.", thread_id="t"))
"""


@pytest.mark.parametrize("kind", ["alone", "beside"])
def test_a_process_that_was_killed_leaves_a_timeline(
    program: Commands, tmp_path: Path, drive: Drive, kind: str
) -> None:
    path = tmp_path / "dies.py"
    path.write_text(DIES)
    assert program(str(path), kind).code == -9
    trees = run_path(str(path))
    thread = Timed(trees["alone" if kind == "alone" else "tree"], drive, tmp_path / "t.db")
    dies = "s/dies" if kind == "alone" else "s/p/l[0]/dies"
    killed = {bar.address: bar for bar in thread.timeline().bars}
    assert killed["s/before"].state == "done"
    assert (killed[dies].state, killed[dies].ended) == ("stopped", None)
    assert killed["s"].state == "stopped"
    thread.resume()
    states = [bar.state for bar in thread.timeline().bars if bar.address == dies]
    assert states == ["void", "done"]
    assert thread.timeline().bars[0].state == "done"


def test_a_bounded_read_is_a_part_of_the_whole(timed: Callable[..., Timed]) -> None:
    thread = timed(ag.loop("talk", [says("ann"), chat("bob", "Hi.", "Ho.", "Hm.")], max_iterations=3))
    thread.run()
    whole = {bar.id: bar for bar in thread.timeline().bars}
    for last in range(1, 8):
        part = thread.timeline(last=last)
        assert part.is_whole == (last >= 6)
        assert {bar.id for bar in part.bars} <= whole.keys()
        leaves = [bar for bar in part.bars if bar.label in ("ann", "bob")]
        assert leaves == [whole[bar.id] for bar in leaves]
        assert len(leaves) == min(last, 6)


@pytest.mark.parametrize("last", [0, -1, "all"])
def test_last_is_a_number_of_steps(last: Any) -> None:
    runner = ag.Runner(says("a"))
    runner.invoke("Go.", thread_id="t")
    with pytest.raises(ag.AgentGraphError, match=r"last=.* is not a number of steps; pass at least 1"):
        runner.timeline("t", last=last)


def test_an_unknown_thread_is_refused() -> None:
    with pytest.raises(ag.UnknownThreadError):
        ag.Runner(says("a")).timeline("t")


@pytest.mark.parametrize("lap", ["leaves", "branches"])
@pytest.mark.by_turns("drive")
def test_a_bounded_read_decodes_no_more_where_a_thread_is_longer(
    tmp_path: Path, drive: Drive, lap: str
) -> None:
    """What is read from the file for the last steps: rows, which LangGraph decodes one by one."""
    counts = [_decoded(tmp_path / f"{laps}.db", drive, laps, lap) for laps in (20, 120)]
    (short, short_since, short_whole), (long, long_since, long_whole) = counts
    assert long == short
    assert long_since == short_since
    assert long_since <= long
    assert long_whole > 4 * short_whole
    assert long_whole > 5 * long


def _decoded(path: Path, drive: Drive, laps: int, lap: str) -> tuple[int, ...]:
    """Return how much is decoded for the last steps, for what is new since then, and for all."""
    inside = [says("a"), says("b")]
    tree = ag.loop("l", inside if lap == "leaves" else [ag.parallel("p", inside)], max_iterations=laps)
    thread = Timed(tree, drive, path)
    thread.run()
    counts: list[int] = []

    def read(runner: ag.Runner) -> None:
        upto = runner.timeline("t", last=6).upto
        decoding = Decoding(runner)
        for bounds in _bounds(upto):
            decoding.mark()
            runner.timeline("t", **bounds)
        counts.extend(decoding.counts)

    async def aread(runner: ag.Runner) -> None:
        upto = (await runner.atimeline("t", last=6)).upto
        decoding = Decoding(runner)
        for bounds in _bounds(upto):
            decoding.mark()
            await runner.atimeline("t", **bounds)
        counts.extend(decoding.counts)

    thread.use(read, aread)
    return tuple(counts)


def _bounds(upto: str) -> list[dict[str, Any]]:
    return [{"last": 6}, {"since": upto}, {}]


def test_a_call_that_is_read_again_begins_when_it_is_known_to_have_begun() -> None:
    """Its step was read again; an activation around it may have begun before what was read."""
    bar = partial(ag.Bar, turn=0, address="c", agent_name="c", node="c", step="1:c", iteration=None)
    outer = bar(id="c", kind="agent", label="c", began=1.0, ended=9.0, state="done")
    tool = bar(id="t", kind="tool", label="t", began=2.0, ended=None, state="running", inside="c")
    inner = bar(id="a", kind="agent", label="a", began=4.0, ended=5.0, state="done", inside="t")
    again = [replace(outer, began=3.0), replace(tool, began=3.5, ended=6.0, state="done"), inner]
    attempt = replace(inner, id="a attempt 0", step="2:a", state="void")  # and gone: it asks after all
    bars = joined([outer, tool, inner, attempt], again, "2")
    assert [(each.id, each.began) for each in bars] == [("c", 1.0), ("t", 3.5), ("a", 4.0)]
