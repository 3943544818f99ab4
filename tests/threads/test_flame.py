"""Where a turn spent time, tokens and money: by the agents of its tree, exact where that is known."""

import time
from decimal import Decimal
from typing import Any

import pytest
from helpers import Drive, echo, says
from helpers.costs import CENT, Named, named, per_token

import agentgraph as ag
from agentgraph.testing import call, calls


def slow(ctx: ag.Context) -> str:
    time.sleep(0.05)
    return "Slow."


def critic(name: str) -> ag.Agent:
    def reply(messages: Any) -> Any:
        return calls(call("echo", text="x")) if messages[-1].type != "tool" else "Good."

    return ag.chat_agent(name, Named(model="m", responses=reply), tools=[echo])


def report(*more: ag.Agent, judge: ag.Agent | None = None) -> ag.Agent:
    refine = ag.loop("refine", [says("writer"), judge or critic("critic")], max_iterations=2)
    both = ag.parallel("both", [ag.function_agent("left", slow), ag.function_agent("right", slow)])
    return ag.sequential("report", [refine, both, *more, ag.human("boss", "Print it?")])


def ran(tree: ag.Agent, drive: Drive, thread_id: str = "t", **options: Any) -> ag.Runner:
    runner = ag.Runner(tree, **options)
    list(drive.run(runner, "Go.", thread_id=thread_id))
    time.sleep(0.2)
    list(drive.resume(runner, thread_id, "yes"))
    return runner


def test_frames_are_the_tree_and_add_up_to_what_was_spent(drive: Drive) -> None:
    runner = ran(report(), drive, prices=per_token)
    flame, spent = runner.flame("t"), runner.thread("t").turns[-1].spent
    frames = {each.path: each for each in flame.frames}
    assert [(each.path, each.depth, each.times) for each in flame.frames] == [
        ("report", 0, 1),
        ("report/refine", 1, 1),
        ("report/refine/writer", 2, 2),
        ("report/refine/critic", 2, 2),
        ("report/both", 1, 1),
        ("report/both/left", 2, 1),
        ("report/both/right", 2, 1),
        ("report/boss", 1, 1),
    ]
    whole, both, boss = frames["report"], frames["report/both"], frames["report/boss"]
    assert (whole.tokens, whole.cost) == (spent.tokens, spent.cost)
    assert frames["report/refine/critic"].own_cost == spent.cost
    assert both.own_cost == both.own_seconds == 0
    assert both.seconds >= 0.1  # concurrent work adds up
    assert boss.waiting == whole.waiting >= 0.2
    assert boss.seconds < 0.2
    assert whole.seconds == pytest.approx(sum(each.own_seconds for each in flame.frames))


def test_an_open_question_waits_and_a_pause_before_a_resume_is_no_work(drive: Drive) -> None:
    asks = ag.human("boss", "Print it?")
    runner = ag.Runner(ag.sequential("report", [says("writer"), critic("critic"), asks]))
    with pytest.raises(ag.LimitError):
        list(drive.run(runner, "Go.", thread_id="t", limits=ag.Limits(steps=1)))
    paused = time.time()
    time.sleep(0.3)
    began = time.time()
    list(drive.resume(runner, "t", limits=ag.Limits(steps=9)))
    (pause,) = runner.timeline("t").pauses
    assert pause.began <= paused < began <= pause.ended
    flames = [runner.flame("t") for _ in range(2)]
    before, after = ({each.path: each for each in one.frames} for one in flames)
    assert before["report/critic"].seconds < 0.3
    assert 0 < before["report/boss"].waiting < after["report/boss"].waiting == after["report"].waiting


def test_an_agent_at_several_places_has_a_cost_at_each(drive: Drive) -> None:
    writer = named("writer", "m", *("word " * number for number in range(1, 12)))
    asked = calls(call("writer", request="One."))
    desk = named("desk", "m", asked, "Well.", tools=[ag.agent_tool(writer)])
    steps = ag.workflow("steps", [ag.step(writer), ag.step(ag.sequential("last", [writer]))])
    nested = ag.parallel("nested", [writer, ag.sequential("in", [writer, writer])])
    runs = ag.function_agent("runs", lambda ctx: ctx.run("writer", "One."), agents=[writer])
    parts = [ag.loop("again", [writer], max_iterations=2), nested, steps, desk, runs]
    runner = ran(ag.sequential("report", [*parts, ag.human("boss", "Well?")]), drive, prices=per_token)
    flame, spent = runner.flame("t"), runner.thread("t").turns[-1].spent
    assert sum(each.agent_name == "writer" for each in flame.frames) == 8
    assert {each.path: each.own_cost for each in flame.frames} == {
        each.path: each.own_tokens * CENT for each in flame.frames
    }
    by_agent = [each.cost for each in spent.by_agent.values()]
    assert flame.frames[0].cost == spent.cost == sum(each for each in by_agent if each)


def test_a_cost_is_unknown_where_a_reply_had_no_price(drive: Drive) -> None:
    writer, boss = named("writer", "m", *"abc"), ag.human("boss", "Print it?")
    prices = iter([CENT, None, CENT])
    tree = ag.sequential("report", [writer, ag.sequential("more", [writer]), boss])
    runner = ran(tree, drive, prices=lambda *_: next(prices))
    assert [each.cost for each in runner.flame("t").frames] == [None, CENT, None, None, Decimal(0)]
    assert {each.cost for each in ran(report(), drive).flame("t").frames} == {None}


def test_its_text_is_a_chart_that_shows_another_one_too(drive: Drive) -> None:
    runner = ran(report(), drive)
    list(drive.run(runner, "Again.", thread_id="t"))
    more = ran(report(says("more")), drive).flame("t")
    flame = runner.flame("t", turn=0)
    lines = flame.text("tokens", other=more).splitlines()
    assert lines[0].split() == ["turn", "0,", "tokens", "total", "other"]
    tokens = f"{flame.frames[0].tokens:,}"
    assert lines[1].split() == ["report", "─" * 26, tokens, tokens]
    assert lines[4].split() == ["critic", "×2", "█" * 26, tokens, tokens]
    assert lines[-1].split() == ["more", "0"]
    assert str(runner.flame("t")).startswith("turn 1, seconds")
    with pytest.raises(ag.AgentGraphError) as unknown:
        flame.text("money")  # type: ignore[arg-type]
    assert str(unknown.value) == (
        "by='money' is not a measure; choose one of: 'seconds', 'tokens', 'cost', 'waiting'"
    )
    with pytest.raises(ag.UnknownThreadError):
        runner.flame("other")
    with pytest.raises(ag.ThreadError) as missing:
        runner.flame("t", turn=7)
    assert str(missing.value) == "thread 't' has no turn 7; choose one from 0 to 1"
