"""What a run says, in order: control, questions, resumes, refusals, replays."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from helpers import standing
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import interrupt
from pydantic import BaseModel

import agentgraph as ag
from agentgraph.testing import transcript


def says(name, *texts, **options):
    def fn(ctx) -> Iterator[str]:
        yield from texts or (name,)

    return ag.function_agent(name, fn, **options)


def gives(name, item):
    return ag.function_agent(name, lambda ctx: item)


def asks(name, value="ok?", schema=None):
    def fn(ctx) -> Iterator[str | ag.Ask]:
        if ctx.answered:
            yield f"heard {ctx.answer!r}"
        else:
            yield "before"
            yield ag.Ask(value, schema)

    return ag.function_agent(name, fn)


async def acollect(source):
    return [event async for event in source]


def ran(agent, text="hi", **options):
    return transcript(ag.Runner(agent).run(text, **options))


# control


def test_a_sequence_speaks_in_order():
    assert ran(ag.sequential("s", [says("a"), says("b", "x", "y")])) == [
        "s/a: a",
        "s/a/b: x",
        "s/a/b: y",
    ]


def test_the_run_path_holds_earlier_iterations():
    tree = ag.sequential(
        "S", [says("x"), ag.loop("L", [says("a"), says("b")], max_iterations=2), says("y")]
    )
    assert ran(tree) == [
        "S/x: x",
        "S/x/L/a: a",
        "S/x/L/a/b: b",
        "S/x/L/a/b/a: a",
        "S/x/L/a/b/a/b: b",
        "S/x/L/y: y",
    ]


def test_exit_ends_the_run_through_every_composite():
    inner = ag.loop("l", [says("a"), gives("stop", ag.Exit())], max_iterations=9)
    tree = ag.sequential("s", [ag.sequential("t", [inner, says("b")]), says("c")])
    assert ran(tree) == ["s/t/l/a: a", "s/t/l/a/stop: [exit]"]


def test_break_ends_the_nearest_loop_at_once_and_no_other():
    inner = ag.loop("i", [gives("stop", ag.BreakLoop()), says("never")], max_iterations=9)
    tree = ag.loop("o", [inner, says("b")], max_iterations=2)
    assert ran(tree) == [
        "o/i/stop: [break_loop]",
        "o/i/b: b",
        "o/i/b/i/stop: [break_loop]",
        "o/i/b/i/b: b",
    ]


def test_break_outside_every_loop_is_told_and_changes_nothing():
    assert ran(ag.sequential("s", [gives("a", ag.BreakLoop()), says("b")])) == [
        "s/a: [break_loop]",
        "s/a/b: b",
    ]


@pytest.mark.parametrize("signal", [ag.Exit(), ag.BreakLoop()])
def test_a_signal_in_a_branch_takes_effect_at_the_join(signal):
    both = ag.parallel("p", [gives("a", signal), ag.sequential("b", [says("c"), says("d")])])
    tree = ag.sequential("s", [ag.loop("l", [both, says("e")], max_iterations=3), says("f")])
    lines = ran(tree)
    kind = "exit" if isinstance(signal, ag.Exit) else "break_loop"
    after = [] if kind == "exit" else ["s/l/f: f"]
    assert sorted(lines) == sorted([f"s/l/p/a: [{kind}]", "s/l/p/b/c: c", "s/l/p/b/c/d: d", *after])


def test_a_loop_ends_when_until_says_so():
    tree = ag.loop(
        "l",
        [ag.function_agent("a", lambda ctx: ag.SetValues(n=ctx.values.get("n", 0) + 1)), says("b")],
        max_iterations=None,
        until=lambda ctx: ctx.values["n"] >= 2 and ctx.messages[-1].text == "b" and ctx.iteration == 1,
    )
    assert ran(tree) == ["l/a/b: b", "l/a/b/a/b: b"]


def test_a_branch_sees_the_fork_and_its_own_and_the_next_agent_sees_all():
    def look(ctx):
        return " | ".join(message.text for message in ctx.messages)

    tree = ag.sequential(
        "s",
        [
            says("a"),
            ag.parallel(
                "p",
                [
                    ag.sequential("x", [says("b"), ag.function_agent("c", look)]),
                    ag.function_agent("d", look),
                ],
            ),
            ag.function_agent("e", look),
        ],
    )
    texts = {event.agent_name: event.text for event in ag.Runner(tree).run("hi")}
    assert texts["c"] == "hi | [a] said: a | [b] said: b"
    assert texts["d"] == "hi | [a] said: a"
    assert texts["e"] == (
        "hi | [a] said: a | [b] said: b | [c] said: hi | [a] said: a | [b] said: b"
        " | [d] said: hi | [a] said: a"
    )


def test_max_concurrency_bounds_how_many_branches_run_at_once():
    running, most, lock = 0, 0, threading.Lock()

    def fn(ctx) -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.02)
        with lock:
            running -= 1
        return "x"

    branches = [ag.function_agent(f"a{i}", fn) for i in range(6)]
    runner = ag.Runner(ag.parallel("p", branches, max_concurrency=2))
    assert len(list(runner.run("hi"))) == 6
    assert most == 2
    assert len(asyncio.run(acollect(runner.arun("hi")))) == 6
    assert most == 2


# functions


@pytest.mark.parametrize("mode", ["run", "arun"])
def test_functions_of_all_four_kinds_speak(mode):
    async def coroutine(ctx):
        await asyncio.sleep(0)
        return "coroutine"

    async def stream(ctx) -> AsyncIterator[str]:
        yield "one"
        await asyncio.sleep(0)
        yield "two"

    tree = ag.sequential(
        "s",
        [
            ag.function_agent("plain", lambda ctx: "plain"),
            says("generator", "x", "y"),
            ag.function_agent("coroutine", coroutine),
            ag.function_agent("stream", stream),
        ],
    )
    runner = ag.Runner(tree)
    events = runner.run("hi") if mode == "run" else asyncio.run(acollect(runner.arun("hi")))
    assert [event.text for event in events] == ["plain", "x", "y", "coroutine", "one", "two"]


def test_an_async_function_runs_in_a_sync_run_inside_a_running_loop():
    async def fn(ctx):
        await asyncio.sleep(0)
        return "ok"

    async def main():
        return ag.compile_agent(ag.function_agent("a", fn)).invoke({"messages": ["hi"]})

    assert asyncio.run(main())["messages"][-1].text == "ok"


def test_what_a_generator_yields_is_told_before_the_next_item_is_asked_for():
    order = []

    def fn(ctx) -> Iterator[str]:
        for i in range(3):
            order.append(f"yields {i}")
            yield str(i)
            threading.Event().wait(0.05)

    for event in ag.Runner(ag.function_agent("a", fn)).run("hi"):
        order.append(f"told {event.text}")
    assert order == ["yields 0", "told 0", "yields 1", "told 1", "yields 2", "told 2"]


def test_all_that_a_function_gives_is_told_in_order_and_nothing_after_a_signal():
    closed = []

    def fn(ctx):
        try:
            yield "one"
            yield ag.Custom({"done": (1, 2)})
            yield ag.SetValues(x=1)
            yield AIMessage("two", id="mine")
            yield None
            yield ag.Exit()
            yield "never"
        finally:
            closed.append(True)

    events = list(ag.Runner(ag.function_agent("a", fn)).run("hi"))
    assert transcript(events) == ["a: one", 'a: [custom] {"done": [1, 2]}', "a: two", "a: [exit]"]
    assert events[2].id == "mine"
    assert closed == [True]


def test_output_key_is_the_text_of_the_last_message():
    tree = ag.sequential(
        "s",
        [
            says("a", "one", "two", output_key="last"),
            ag.function_agent("b", lambda c: c.values["last"]),
        ],
    )
    assert ran(tree)[-1] == "s/a/b: two"


@pytest.mark.parametrize(
    ("hint", "item", "message"),
    [
        (
            str,
            ag.Exit(),
            "a: the function gave Exit, which its return annotation does not name; add it, as in "
            "`-> str | Exit`, so that the graph has an edge for it",
        ),
        (
            None,
            3,
            "a: the function gave 3; return or yield a string, a LangChain message, Exit(), "
            "BreakLoop(), TransferTo(...), Ask(...), Custom(...), SetValues(...) or None, or a list "
            "of these",
        ),
    ],
)
def test_what_a_function_may_not_give_is_refused(hint, item, message):
    def fn(ctx):
        return item

    if hint:
        fn.__annotations__["return"] = hint
    with pytest.raises(ag.InvalidOutputError) as caught:
        list(ag.Runner(ag.function_agent("a", fn)).run("hi"))
    assert str(caught.value) == message


def test_an_agent_knows_where_it_is():
    def fn(ctx):
        return f"{ctx.address} {ctx.run_path} {ctx.iteration} {ctx.answered} {ctx.answer}"

    a = ag.function_agent("a", fn)
    assert ran(ag.loop("l", [a], max_iterations=2)) == [
        "l/a: l[0]/a l/a 0 False None",
        "l/a/a: l[1]/a l/a/a 1 False None",
    ]
    assert ran(a) == ["a: a a None False None"]


# questions


def test_a_human_asks_and_the_answer_is_said():
    runner = ag.Runner(
        ag.sequential("s", [says("a"), ag.human("boss", "Print {x}?", output_key="word"), says("b")])
    )
    first = list(runner.run("hi", thread_id="t", values={"x": "it"}))
    assert transcript(first) == ["s/a: a", "s/a/boss: [asks] Print it?"]
    question = first[-1].action.interrupted
    assert question == runner.pending("t")[0]
    assert (question.id, question.address) == (first[-1].id, "s/boss")
    rest = list(runner.resume("t", "yes"))
    assert transcript(rest) == ["s/a/boss: yes", "s/a/boss/b: b"]
    assert isinstance(rest[0].message, HumanMessage)
    assert (
        runner.graph.get_state({"configurable": {"thread_id": "t"}}).values["values"]["word"] == "yes"
    )
    assert runner.pending("t") == []


def test_what_comes_before_an_ask_is_neither_repeated_nor_said_twice():
    calls = []

    def fn(ctx) -> Iterator[str | ag.Ask]:
        calls.append(ctx.answered)
        if not ctx.answered:
            yield "before"
            yield ag.Ask({"choose": [1, 2]})
            yield "never"
        yield f"got {ctx.answer}"

    runner = ag.Runner(ag.function_agent("a", fn))
    assert transcript(runner.run("hi", thread_id="t")) == ["a: before", "a: [asks] {'choose': [1, 2]}"]
    assert transcript(runner.resume("t", 2)) == ["a: got 2"]
    assert calls == [False, True]


def test_a_function_may_ask_again_and_again():
    def fn(ctx):
        return "done" if ctx.answer == 2 else ag.Ask(ctx.answer or 0)

    runner = ag.Runner(ag.function_agent("a", fn))
    assert transcript(runner.run("hi", thread_id="t")) == ["a: [asks] 0"]
    assert transcript(runner.resume("t", 1)) == ["a: [asks] 1"]
    assert transcript(runner.resume("t", 2)) == ["a: done"]


def test_langgraphs_own_interrupt_works_with_langgraphs_meaning():
    calls = []

    def fn(ctx) -> str:
        calls.append(1)
        return f"{interrupt('first?')} and {interrupt('second?')}"

    runner = ag.Runner(ag.sequential("s", [ag.function_agent("a", fn), says("b")]))
    first = list(runner.run("hi", thread_id="t"))
    assert transcript(first) == ["s/a: [asks] first?"]
    assert first[0].address == "s/a"
    second = list(runner.resume("t", "x"))
    assert transcript(second) == ["s/a: [asks] second?"]
    assert second[0].id != first[0].id
    assert transcript(runner.resume("t", "y")) == ["s/a: x and y", "s/a/b: b"]
    assert len(calls) == 3


def three_questions():
    return ag.sequential(
        "s",
        [
            ag.parallel(
                "p", [asks("a"), ag.human("b", "b?"), ag.sequential("q", [says("c"), asks("d")])]
            ),
            says("z"),
        ],
    )


def test_three_questions_are_answered_in_any_order_and_subset():
    runner = ag.Runner(three_questions())
    asked = [e for e in runner.run("hi", thread_id="t") if e.kind == "interrupted"]
    pending = runner.pending("t")
    assert [q.address for q in pending] == ["s/p/a", "s/p/b", "s/p/q/d"]
    assert {q.id for q in pending} == {e.id for e in asked}
    by_id = list(runner.resume("t", {pending[2].id: 3}))
    assert [e.text for e in by_id if e.kind == "message"] == ["heard 3"]
    assert {e.id for e in by_id if e.kind == "interrupted"} == {pending[0].id, pending[1].id}
    by_address = list(runner.resume("t", {"s/p/a": None}))
    assert [e.text for e in by_address if e.kind == "message"] == ["heard None"]
    assert [q.id for q in runner.pending("t")] == [pending[1].id]
    assert transcript(runner.resume("t", ""))[-1] == "s/p/z: z"


def test_several_questions_are_answered_together():
    runner = ag.Runner(three_questions())
    list(runner.run("hi", thread_id="t"))
    lines = transcript(runner.resume("t", {"s/p/a": 1, "s/p/b": "two", "s/p/q/d": False}))
    assert sorted(lines[:3]) == ["s/p/a: heard 1", "s/p/b: two", "s/p/q/c/d: heard False"]
    assert lines[3:] == ["s/p/z: z"]


@pytest.mark.parametrize("answer", [None, 0, False, "", []])
def test_falsy_answers_are_answers(answer):
    runner = ag.Runner(asks("a"))
    list(runner.run("hi", thread_id="t"))
    assert transcript(runner.resume("t", answer)) == [f"a: heard {answer!r}"]


def test_resume_without_an_answer_reports_the_question_again_under_its_id():
    runner = ag.Runner(ag.sequential("s", [says("a"), ag.human("b", "b?")]))
    asked = list(runner.run("hi", thread_id="t"))[-1]
    void, again = runner.resume("t")
    assert void.action.discarded == (again.id,) == (asked.id,)
    assert again.action == asked.action
    assert list(runner.events("t"))[1:] == [again]


class Verdict(BaseModel):
    ok: bool
    why: str = ""


def test_an_answer_fits_its_schema_or_is_refused_with_nothing_lost():
    runner = ag.Runner(ag.human("boss", "ok?", response_schema=Verdict, output_key="verdict"))
    list(runner.run("hi", thread_id="t"))
    question = runner.pending("t")[0]
    assert question.response_schema == Verdict.model_json_schema()
    with pytest.raises(ag.InvalidAnswerError) as caught:
        runner.resume("t", {"boss": {"ok": "maybe"}})
    assert str(caught.value).startswith(
        "the answer {'ok': 'maybe'} to boss does not fit: ok: Input should be a valid boolean; "
        "the question is still pending"
    )
    assert runner.pending("t") == [question]
    assert transcript(runner.resume("t", {"boss": Verdict(ok=True)})) == [
        'boss: {"ok": true, "why": ""}'
    ]


def test_an_ask_carries_its_schema():
    runner = ag.Runner(asks("a", schema={"enum": ["yes", "no"]}))
    list(runner.run("hi", thread_id="t"))
    assert runner.pending("t")[0].response_schema == {"enum": ["yes", "no"]}
    with pytest.raises(ag.InvalidAnswerError, match=r"must be one of \['yes', 'no'\]"):
        runner.resume("t", "perhaps")
    assert transcript(runner.resume("t", "yes")) == ["a: heard 'yes'"]


def test_an_answer_given_past_the_runner_is_asked_for_again_until_it_fits():
    from langgraph.types import Command

    runner = ag.Runner(ag.human("a", "ok?", response_schema=bool))
    list(runner.run("hi", thread_id="t"))
    config = {"configurable": {"thread_id": "t"}}
    runner.graph.invoke(Command(resume="perhaps"), config)
    assert [q.address for q in runner.pending("t")] == ["a"]
    assert transcript(runner.resume("t", True)) == ["a: true"]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("branch", [False, True])
def test_a_question_that_was_answered_is_not_pending_when_its_agent_fails_then(branch, plain):
    failed = []

    def fn(ctx):
        answer = interrupt("sure?") if plain else ctx.answer
        if not (plain or ctx.answered):
            return ag.Ask("sure?")
        if not failed:
            failed.append(1)
            raise ValueError("failed")
        return f"heard {answer}"

    asking = ag.function_agent("a", fn)
    tree = ag.parallel("p", [asking, ag.human("h", "?")]) if branch else asking
    runner = ag.Runner(tree)
    list(runner.run("hi", thread_id="t"))
    asked = next(q for q in runner.pending("t") if q.agent_name == "a")
    collect_failing(runner.resume("t", {asked.id: "yes"}))
    assert [q.agent_name for q in runner.pending("t")] == ["h"] * branch
    with pytest.raises(ag.UnknownInterruptError):
        runner.resume("t", {asked.id: "no"})
    assert [e.text for e in runner.resume("t") if e.kind == "message"] == ["heard yes"]


def test_an_answer_is_taken_also_when_another_branch_fails_at_once():
    waits = ag.function_agent("wait", lambda ctx: time.sleep(0.2))  # until the other branch has asked
    fails = ag.sequential("y", [waits, failing("c", 2)])
    tree = ag.parallel("p", [fails, ag.sequential("x", [ag.human("h", "?"), says("b")])])
    runner = ag.Runner(tree)
    collect_failing(runner.run("hi", thread_id="t"))
    (question,) = runner.pending("t")
    collect_failing(runner.resume("t", {question.id: "yes"}))
    assert runner.pending("t") == []
    list(runner.resume("t"))
    texts = [event.text for event in runner.events("t") if event.kind == "message"]
    assert sorted(texts) == ["b", "c", "yes"]


# refusals


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ("x", "thread 't': 3 questions are pending; answer by id or address, as a dict: s/p/a ("),
        ({"s/p": 1}, "thread 't': the question 's/p' is not pending (was it answered already?)"),
        ({"s/p/b": "x", "nope": 1}, "thread 't': the question 'nope' is not pending"),
    ],
)
def test_an_answer_that_names_no_question_is_refused_before_anything_runs(answers, message):
    runner = ag.Runner(three_questions())
    list(runner.run("hi", thread_id="t"))
    before = runner.pending("t")
    with pytest.raises(ag.UnknownInterruptError) as caught:
        runner.resume("t", answers)
    assert str(caught.value).startswith(message)
    assert runner.pending("t") == before


def test_a_question_answered_by_id_and_by_address_at_once_is_refused():
    runner = ag.Runner(three_questions())
    list(runner.run("hi", thread_id="t"))
    question = runner.pending("t")[0]
    with pytest.raises(ag.UnknownInterruptError, match="is answered more than once"):
        runner.resume("t", {question.id: 1, question.address: 1})


def test_an_answer_sent_twice_is_stale_the_second_time():
    runner = ag.Runner(ag.sequential("s", [ag.human("a", "a?"), ag.human("b", "b?")]))
    list(runner.run("hi", thread_id="t"))
    first = runner.pending("t")[0]
    list(runner.resume("t", {first.id: "x"}))
    with pytest.raises(ag.UnknownInterruptError):
        runner.resume("t", {first.id: "x"})
    assert [q.address for q in runner.pending("t")] == ["s/b"]
    list(runner.resume("t", "y"))
    with pytest.raises(ag.UnknownInterruptError) as caught:
        runner.resume("t", "y")
    assert str(caught.value) == (
        "thread 't': no question is pending (was it answered already?); resume(thread_id) tries a "
        "failed step again, run(...) starts the next turn"
    )


def test_new_input_on_a_thread_that_waits_is_refused_unless_the_questions_are_dropped():
    runner = ag.Runner(ag.sequential("s", [says("a"), ag.human("b", "b?")]))
    list(runner.run("hi", thread_id="t"))
    with pytest.raises(ag.PendingInterruptError) as caught:
        runner.run("again", thread_id="t")
    question = runner.pending("t")[0]
    assert str(caught.value) == (
        f"thread 't' waits for answers to s/b ({question.id}); answer them with resume(), or run with "
        "drop_pending=True to drop them"
    )
    lines = transcript(runner.run("again", thread_id="t", drop_pending=True))
    assert lines == ["s: [discarded]", "s/a: a", "s/a/b: [asks] b?"]
    assert runner.pending("t")[0].id != question.id


@pytest.mark.parametrize("call", ["resume", "pending", "events"])
def test_an_unknown_thread_is_named(call):
    with pytest.raises(ag.UnknownThreadError, match="thread 'nowhere' is not known to this saver"):
        getattr(ag.Runner(says("a")), call)("nowhere")


@pytest.mark.parametrize("call", [lambda r: r.run("b", thread_id="t"), lambda r: r.resume("t")])
def test_a_second_run_on_a_busy_thread_is_refused_and_the_first_goes_on(call):
    runner = ag.Runner(says("a", "x", "y"))
    first = runner.run("hi", thread_id="t")
    next(first)
    with pytest.raises(ag.ThreadBusyError, match="thread 't' is busy"):
        call(runner)
    assert [event.text for event in runner.run("hi", thread_id="other")] == ["x", "y"]
    assert [event.text for event in first] == ["y"]
    assert len(list(runner.run("hi", thread_id="t"))) == 2


def test_a_run_that_is_left_early_frees_its_thread_when_it_is_closed():
    runner = ag.Runner(ag.sequential("s", [says("a"), says("b"), says("c")]))
    first = runner.run("hi", thread_id="t")
    next(first)
    first.close()
    assert transcript(runner.resume("t"))[-1] == "s/a/b/c: c"


@pytest.mark.parametrize("mode", ["run", "arun"])
def test_branches_stop_behind_their_step_when_a_run_is_left(mode):
    calls = []

    def step(ctx) -> str:
        calls.append(ctx.address)
        threading.Event().wait(0.02)
        return "x"

    tree = ag.parallel(
        "p",
        [ag.loop(f"l{i}", [ag.function_agent(f"a{i}", step)], max_iterations=40) for i in range(2)],
    )
    runner = ag.Runner(tree)

    async def amain():
        run = runner.arun("hi", thread_id="t")
        await anext(run)
        await run.aclose()
        assert len(calls) < 20
        return [event async for event in runner.aresume("t")]

    if mode == "arun":
        asyncio.run(amain())
    else:
        run = runner.run("hi", thread_id="t")
        next(run)
        run.close()
        assert len(calls) < 20
        list(runner.resume("t"))
    again = len(calls) - len(set(calls))
    assert len(set(calls)) == 80
    assert again <= (2 if mode == "arun" else 0)


def test_a_pool_too_small_for_branches_is_refused():
    graph = ag.compile_agent(ag.parallel("p", [says("a"), says("b")]))
    with pytest.raises(ag.AgentGraphError) as caught:
        graph.invoke({"messages": ["hi"]}, {"max_concurrency": 1})
    assert str(caught.value) == (
        "max_concurrency=1 in the config leaves no thread for the tasks of p; leave it out there, "
        "and bound the branches with parallel(..., max_concurrency=1)"
    )


def test_a_busy_thread_is_refused_in_async_runs_too():
    async def main():
        runner = ag.Runner(says("a", "x", "y"))
        first = runner.arun("hi", thread_id="t")
        await anext(first)
        with pytest.raises(ag.ThreadBusyError):
            await anext(runner.arun("hi", thread_id="t"))
        return [event.text async for event in first]

    assert asyncio.run(main()) == ["y"]


def test_values_that_are_no_mapping_are_refused():
    with pytest.raises(ag.AgentGraphError, match="values must be a mapping, got 5"):
        ag.Runner(says("a")).run("hi", values=5)


@pytest.mark.parametrize("messages", [5, None, [object()], [{"no": "message"}]])
def test_input_that_is_no_message_is_refused(messages):
    with pytest.raises(ag.AgentGraphError, match="cannot be read as messages"):
        ag.Runner(says("a")).run(messages)


def test_a_saver_of_the_wrong_kind_is_named(tmp_path):
    async def main():
        async with ag.async_sqlite_saver(tmp_path / "a.db") as saver:
            with pytest.raises(ag.AgentGraphError, match=r"use sqlite_saver\(\) on the same file"):
                ag.Runner(says("a"), checkpointer=saver).run("hi")

    asyncio.run(main())
    with (
        ag.sqlite_saver(tmp_path / "b.db") as saver,
        pytest.raises(ag.AgentGraphError, match=r"use async_sqlite_saver\(\) on the same file"),
    ):
        asyncio.run(acollect(ag.Runner(says("a"), checkpointer=saver).arun("hi")))


def test_a_tree_that_changed_is_refused_with_a_readable_difference():
    runner = ag.Runner(ag.sequential("s", [says("a"), ag.human("b", "b?"), says("c")]))
    list(runner.run("hi", thread_id="t"))
    changed = ag.Runner(
        ag.sequential("s", [says("a"), says("x"), ag.human("b", "b?"), says("c")]),
        checkpointer=runner.saver,
    )
    with pytest.raises(ag.TreeChangedError) as caught:
        changed.resume("t", "yes")
    assert caught.value.difference == "\n".join(
        [
            "--- the tree that ran",
            "+++ this tree",
            "@@ -2,2 +2,3 @@",
            "   function a",
            "+  function x",
            "   human b",
        ]
    )
    assert transcript(runner.resume("t", "yes"))[-1] == "s/a/b/c: c"


def test_what_does_not_move_a_place_may_change_between_pause_and_resume():
    runner = ag.Runner(ag.loop("l", [ag.human("b", "b?")], max_iterations=2))
    list(runner.run("hi", thread_id="t"))
    other = ag.Runner(
        ag.loop("l", [ag.human("b", "other?")], max_iterations=1), checkpointer=runner.saver
    )
    assert transcript(other.resume("t", "yes")) == ["l/b: yes"]


# failures


def failing(name, times, *before):
    left = [times]

    def fn(ctx) -> Iterator[str]:
        yield from before
        if left[0]:
            left[0] -= 1
            raise ValueError(f"{name} failed")
        yield name

    return ag.function_agent(name, fn)


@pytest.mark.parametrize("saver", ["memory", "sqlite"])
def test_a_failure_is_an_event_then_raised_and_resume_tries_only_that_step_again(saver, tmp_path):
    calls = []

    def count(ctx) -> str:
        calls.append(1)
        return "a"

    tree = ag.sequential("s", [ag.function_agent("a", count), failing("b", 1, "half"), says("c")])
    checkpointer = ag.sqlite_saver(tmp_path / "x.db") if saver == "sqlite" else None
    runner = ag.Runner(tree, checkpointer=checkpointer)
    told = []
    with pytest.raises(ValueError, match="b failed") as caught:
        iter_into(told, runner.run("hi", thread_id="t"))
    failed = "s/a/b: [error] ValueError('b failed')"
    assert transcript(told) == ["s/a: a", "s/a/b: half", "s/a/b: [discarded]", failed]
    assert list(runner.events("t")) == standing(told) == [told[0], told[3]]
    assert "This happened in the agent 'b', at s/b." in caught.value.__notes__
    assert transcript(runner.resume("t")) == ["s/a/b: half", "s/a/b: b", "s/a/b/c: c"]
    assert len(calls) == 1
    if checkpointer:
        checkpointer.conn.close()


def collect_failing(source):
    events = []
    with pytest.raises(ValueError, match="failed"):
        iter_into(events, source)
    return events


def iter_into(events, source):
    for event in source:
        events.append(event)


def test_the_error_event_carries_agent_address_and_path():
    runner = ag.Runner(ag.loop("l", [says("a"), failing("b", 1)], max_iterations=1))
    error = collect_failing(runner.run("hi", thread_id="t"))[-1]
    assert (error.kind, error.agent_name, error.address) == ("error", "b", "l[0]/b")
    assert (str(error.run_path), error.error) == ("l/a/b", "ValueError('b failed')")


def test_each_branch_that_fails_is_told_and_finished_branches_do_not_run_again():
    ran_again, begun = [], threading.Event()

    def quick(ctx) -> str:
        ran_again.append(1)
        begun.set()
        return "quick"

    barrier = threading.Barrier(2, timeout=10)
    first = [True, True]

    def fails(i):
        def fn(ctx) -> str:
            if first[i]:
                first[i] = False
                begun.wait(10)
                barrier.wait()
                raise ValueError(f"{i} failed")
            return f"better {i}"

        return fn

    tree = ag.parallel(
        "p",
        [
            ag.function_agent("q", quick),
            ag.function_agent("x", fails(0)),
            ag.function_agent("y", fails(1)),
        ],
    )
    runner = ag.Runner(tree)
    events = collect_failing(runner.run("hi", thread_id="t"))
    errors = [(e.address, e.error) for e in events if e.kind == "error"]
    assert errors[0] == ("p/x", "ValueError('0 failed')")
    assert set(errors) <= {("p/x", "ValueError('0 failed')"), ("p/y", "ValueError('1 failed')")}
    assert sorted(e.text for e in runner.resume("t")) == ["better 0", "better 1"]
    assert len(ran_again) == 1


@pytest.mark.parametrize("mode", ["run", "arun"])
def test_when_a_branch_fails_the_others_stop_behind_their_step_and_go_on_from_there(mode):
    started, failed = threading.Event(), []

    def long(ctx) -> str:
        started.set()
        threading.Event().wait(0.3)
        return "long"

    def fails(ctx) -> str:
        started.wait(10)
        if not failed:
            failed.append(1)
            raise ValueError("failed")
        return "better"

    tree = ag.parallel(
        "p",
        [
            ag.sequential("a", [ag.function_agent("long", long), says("after")]),
            ag.function_agent("b", fails),
        ],
    )
    runner = ag.Runner(tree)
    first, rest = [], []

    async def amain():
        with pytest.raises(ValueError, match="failed"):
            async for event in runner.arun("hi", thread_id="t"):
                first.append(event)
        rest.extend([event async for event in runner.aresume("t")])

    if mode == "arun":
        asyncio.run(amain())
    else:
        first = collect_failing(runner.run("hi", thread_id="t"))
        rest = list(runner.resume("t"))
    assert transcript(first) == ["p/a/long: long", "p/b: [error] ValueError('failed')"]
    assert sorted(transcript(rest)) == ["p/a/long/after: after", "p/b: better"]


def test_a_failure_outside_every_agent_is_the_roots():
    tree = ag.loop("l", [says("a")], max_iterations=2, until=lambda ctx: ctx.values["nothing"])
    events = []
    with pytest.raises(KeyError, match="nothing"):
        iter_into(events, ag.Runner(tree).run("hi"))
    assert transcript(events) == ["l/a: a", "l/a: [error] KeyError('nothing')"]


# replays


def test_a_thread_is_told_again_as_it_was_streamed(tmp_path):
    tree = ag.sequential(
        "s",
        [
            ag.loop("l", [says("a", "x", "y"), gives("b", ag.Custom({"n": 1}))], max_iterations=2),
            asks("c"),
            gives("d", ag.Exit()),
        ],
    )
    with ag.sqlite_saver(tmp_path / "x.db") as saver:
        runner = ag.Runner(tree, checkpointer=saver)
        streamed = list(runner.run("hi", thread_id="t"))
        assert list(runner.events("t")) == streamed
        streamed += runner.resume("t", "fine")
        assert list(runner.events("t")) == streamed
        streamed += runner.run("again", thread_id="t")
        assert list(runner.events("t")) == streamed
    with ag.sqlite_saver(tmp_path / "x.db") as saver:
        assert list(ag.Runner(tree, checkpointer=saver).events("t")) == streamed


def test_branches_and_questions_are_told_again_each_once():
    runner = ag.Runner(three_questions())
    streamed = list(runner.run("hi", thread_id="t"))
    streamed += runner.resume("t", {"s/p/b": "two"})
    streamed += runner.resume("t", {"s/p/q/d": 3, "s/p/a": 1})
    told = list(runner.events("t"))
    assert told == standing(streamed)
    assert told[-1].text == "z"


def test_a_failure_is_told_again_where_it_happened():
    runner = ag.Runner(ag.sequential("s", [says("a"), failing("b", 1)]))
    streamed = collect_failing(runner.run("hi", thread_id="t"))
    streamed += runner.resume("t")
    assert list(runner.events("t")) == streamed


def test_async_runs_pause_resume_and_replay(tmp_path):
    async def main():
        async with ag.async_sqlite_saver(tmp_path / "x.db") as saver:
            runner = ag.Runner(three_questions(), checkpointer=saver)
            streamed = await acollect(runner.arun("hi", thread_id="t"))
            pending = await runner.apending("t")
            assert [q.address for q in pending] == ["s/p/a", "s/p/b", "s/p/q/d"]
            streamed += await acollect(runner.aresume("t", {pending[0].id: 1}))
            with pytest.raises(ag.UnknownInterruptError):
                await acollect(runner.aresume("t", {pending[0].id: 1}))
            streamed += await acollect(runner.aresume("t", {"s/p/b": 2, "s/p/q/d": 3}))
            assert streamed[-1].text == "z"
            told = await acollect(runner.aevents("t"))
            assert told == standing(streamed)

    asyncio.run(main())


def test_a_run_without_a_thread_id_gets_a_new_thread_named_on_every_event():
    runner = ag.Runner(says("a", "x", "y"))
    first, second = list(runner.query("hi")), list(runner.query("hi"))
    assert len({e.thread_id for e in first}) == len({e.thread_id for e in second}) == 1
    assert first[0].thread_id != second[0].thread_id
    assert list(runner.events(first[0].thread_id)) == first


def test_values_are_given_to_a_run_and_to_a_resume():
    def look(ctx):
        return f"{ctx.values['x']} {ctx.values.get('y')}"

    tree = ag.sequential(
        "s", [ag.function_agent("a", look), ag.human("h", "?"), ag.function_agent("b", look)]
    )
    runner = ag.Runner(tree)
    assert transcript(runner.run("hi", thread_id="t", values={"x": 1}))[0] == "s/a: 1 None"
    assert transcript(runner.resume("t", "ok", values={"y": 2}))[-1] == "s/a/h/b: 1 2"


def test_the_store_and_the_runtime_reach_a_function():
    from langgraph.store.memory import InMemoryStore

    store = InMemoryStore()
    store.put(("bees",), "fact", {"legs": 6})

    def fn(ctx):
        return str(ctx.runtime.store.get(("bees",), "fact").value["legs"])

    runner = ag.Runner(ag.function_agent("a", fn), store=store)
    assert [event.text for event in runner.run("hi")] == ["6"]


def test_a_failure_in_until_says_so_and_is_told_where_it_was_asked():
    loop = ag.loop("l", [says("a")], max_iterations=2, until=lambda ctx: ctx.values["ok"])
    runner = ag.Runner(ag.sequential("s", [loop]))
    with pytest.raises(KeyError) as caught:
        list(runner.run("hi", thread_id="t"))
    assert [e.error for e in runner.events("t") if e.error] == ["KeyError('ok')"]
    assert caught.value.__notes__[:2] == [
        "It was `until` of the loop 'l' that failed.",
        "This happened in the agent 'a', at s/l[0]/a.",
    ]
    assert [e.text for e in runner.resume("t", values={"ok": True})] == []
    assert [e.text for e in runner.events("t") if e.text] == ["a"]
