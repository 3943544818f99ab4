"""Workflows: when steps begin, what they see, how they fail, ask, and are undone."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from helpers import Async, Disk, Drive, Sync, collect, failing, scripted, standing
from langchain_core.messages import HumanMessage
from langgraph.types import RetryPolicy, interrupt

import agentgraph as ag
from agentgraph.errors import StepFailedError
from agentgraph.testing import call, calls, transcript

PATIENCE = 20
AGAIN = RetryPolicy(max_attempts=3, initial_interval=0.001, jitter=False, retry_on=ValueError)


def does(name: str, act: Callable[[Any], Any] | None = None, **options: Any) -> ag.Agent:
    """Make an agent that says what a function of its context gives, or its name."""

    def fn(ctx) -> str:
        return name if act is None else act(ctx)

    return ag.function_agent(name, fn, **options)


def sees(name: str, **options: Any) -> ag.Agent:
    """Make an agent that says what it sees."""
    return does(name, lambda ctx: f"{name} saw {[m.text for m in ctx.messages]}", **options)


def waits(name: str, event: threading.Event) -> ag.Agent:
    def act(ctx) -> str:
        assert event.wait(PATIENCE)
        return name

    return does(name, act)


def soon(event: threading.Event) -> None:
    """Set an event when an exception that is raised now has come to the node of the workflow."""
    threading.Timer(0.5, event.set).start()


def sets(name: str, event: threading.Event) -> ag.Agent:
    def act(ctx) -> str:
        event.set()
        return name

    return does(name, act)


class Ledger(list[str]):
    """The names of agents, each time that they run."""

    def agent(self, name: str, act: Callable[[Any], Any] | None = None, **options: Any) -> ag.Agent:
        def noted(ctx) -> Any:
            self.append(name)
            return name if act is None else act(ctx)

        return does(name, noted, **options)

    def fails(self, name: str, times: int = 1, **options: Any) -> ag.Agent:
        """Make an agent that fails so many times."""

        def act(ctx) -> str:
            if self.count(name) <= times:
                raise ValueError(f"{name} {self.count(name)}")
            return name

        return self.agent(name, act, **options)

    def undo(self, name: str, times: int = 0) -> Callable[[Any], str]:
        """Make a function that undoes a step, and fails so many times."""

        def fn(ctx) -> str:
            self.append(f"undo_{name}")
            if self.count(f"undo_{name}") <= times:
                raise ValueError(f"undo_{name} {self.count(f'undo_{name}')}")
            return f"undid {ctx.messages[-1].text}"

        return fn


def history(runner: ag.Runner) -> list[str]:
    """Return what stands in the thread."""
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}})
    return [message.text for message in state.values["messages"]]


def values(runner: ag.Runner) -> dict[str, Any]:
    state = runner.graph.get_state({"configurable": {"thread_id": "t"}})
    return dict(state.values["values"])


def run(drive: Drive, runner: ag.Runner, **options: Any) -> Iterator[ag.AgentEvent]:
    return drive.run(runner, "Go.", thread_id="t", **options)


def run_failing(drive: Drive, runner: ag.Runner, **options: Any) -> tuple[list[str], StepFailedError]:
    told, error = failing(run(drive, runner, **options), StepFailedError)
    return transcript(told), error


def resume_failing(drive: Drive, runner: ag.Runner, *answers: Any) -> tuple[list[str], StepFailedError]:
    told, error = failing(drive.resume(runner, "t", *answers), StepFailedError)
    return transcript(told), error


# when steps begin, and what they see


def test_a_step_begins_when_its_own_dependencies_are_done_while_another_of_their_level_runs(drive):
    begun = threading.Event()
    tree = ag.workflow(
        "wf", [does("a"), waits("b", begun), ag.step(sets("c", begun), depends_on=["a"])]
    )
    assert sorted(event.text for event in run(drive, ag.Runner(tree))) == ["a", "b", "c"]


def test_a_step_does_not_begin_before_all_its_dependencies_are_done(drive):
    ended = threading.Event()
    late: list[bool] = []
    tree = ag.workflow(
        "wf",
        [
            ag.step(does("c", lambda ctx: late.append(ended.is_set()) or "c"), depends_on=["a", "b"]),
            sets("a", ended),
            does("b"),
        ],
    )
    assert len(list(run(drive, ag.Runner(tree)))) == 3
    assert late == [True]


def test_what_steps_said_stands_in_the_order_of_dependencies_and_else_as_declared(drive):
    runner = ag.Runner(
        ag.workflow(
            "wf",
            [
                ag.step(does("z"), depends_on=["b"]),
                does("a"),
                ag.step(does("b"), depends_on=["c"]),
                does("c"),
            ],
        )
    )
    list(run(drive, runner))
    assert history(runner) == ["Go.", "c", "b", "z", "a"]


def test_a_step_that_ends_first_does_not_stand_first(drive):
    ended = threading.Event()
    runner = ag.Runner(ag.workflow("wf", [waits("a", ended), sets("b", ended)]))
    assert {event.text for event in run(drive, runner)} == {"a", "b"}
    assert history(runner) == ["Go.", "a", "b"]


def test_a_step_sees_what_was_said_before_and_by_all_that_are_upstream_and_by_nobody_else(drive):
    runner = ag.Runner(
        ag.sequential(
            "s",
            [
                does("first"),
                ag.workflow(
                    "wf",
                    [
                        does("x"),
                        ag.step(sees("c"), depends_on=["b"]),
                        ag.step(does("b"), depends_on=["a"]),
                        does("a"),
                    ],
                ),
                sees("last"),
            ],
        )
    )
    told = {event.agent_name: event.text for event in run(drive, runner)}
    assert told["c"] == "c saw ['Go.', '[first] said: first', '[a] said: a', '[b] said: b']"
    assert history(runner)[:5] == ["Go.", "first", "x", "a", "b"]
    assert told["last"].startswith(
        "last saw ['Go.', '[first] said: first', '[x] said: x', '[a] said: a'"
    )


def test_a_step_with_an_input_sees_that_alone(drive):
    tree = ag.workflow(
        "wf", [does("a"), ag.step(sees("b"), depends_on=["a"], input="Say ${results.a}!")]
    )
    told = [event.text for event in run(drive, ag.Runner(tree))]
    assert told == ["a", "b saw ['Say a!']"]


def test_a_chat_agent_is_sent_the_input_as_what_the_user_says(drive):
    model = scripted("Good.")
    tree = ag.workflow(
        "wf",
        [does("a"), ag.step(ag.chat_agent("b", model), depends_on=["a"], input="Judge ${results.a}.")],
    )
    list(run(drive, ag.Runner(tree)))
    assert [(type(m), m.text) for m in model.inputs[0]] == [(HumanMessage, "Judge a.")]


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("${results.a-1} of ${results.b}", "a-1 of b"),
        ("${topic}, ${values.topic}, {topic}", "bees, bees, bees"),
        ("{{topic}} {missing?} $x ${}", "{topic}  $x ${}"),
        ("${data}", '{"n": [1]}'),
        ("No names.", "No names."),
        ("", ""),
    ],
)
def test_inputs_name_results_and_values(drive, template, filled):
    tree = ag.workflow(
        "wf",
        [
            does("a-1"),
            ag.step(does("b"), depends_on=["a-1"]),
            ag.step(does("c", lambda ctx: ctx.messages[-1].text), depends_on=["b"], input=template),
        ],
    )
    given = {"topic": "bees", "data": {"n": [1]}}
    said = [event.text for event in run(drive, ag.Runner(tree), values=given)]
    assert said == ["a-1", "b", filled]


def test_braces_in_a_result_or_a_value_are_not_filled_again(drive):
    tree = ag.workflow(
        "wf",
        [
            does("a", lambda ctx: "{topic} ${topic}"),
            ag.step(sees("b"), depends_on=["a"], input="${results.a} {other}"),
        ],
    )
    told = [e.text for e in run(drive, ag.Runner(tree), values={"topic": "x", "other": "{topic}"})]
    assert told[-1] == "b saw ['{topic} ${topic} {topic}']"


def test_the_result_of_a_step_is_its_last_message_and_nothing_where_it_said_none(drive):
    def silent(ctx) -> None:
        return None

    tree = ag.workflow(
        "wf",
        [
            ag.sequential("s", [does("s1"), does("s2")]),
            ag.function_agent("n", silent),
            ag.step(sees("b"), depends_on=["s", "n"], input="<${results.s}> <${results.n}>"),
        ],
    )
    assert [e.text for e in run(drive, ag.Runner(tree))][-1] == "b saw ['<s2> <>']"


def test_values_go_to_those_downstream_and_all_of_them_behind_the_workflow(drive):
    def kept(ctx) -> str:
        return str(sorted(ctx.values))

    runner = ag.Runner(
        ag.workflow(
            "wf",
            [
                does("a", output_key="from_a"),
                does("b", output_key="from_b"),
                ag.step(does("c", kept), depends_on=["a"]),
                ag.step(does("d", kept), depends_on=["a", "b"], input="${from_a} {from_b}"),
            ],
        )
    )
    told = {event.agent_name: event.text for event in run(drive, runner, values={"own": 1})}
    assert told["c"] == "['from_a', 'own']"
    assert told["d"] == "['from_a', 'from_b', 'own']"
    assert values(runner) == {"own": 1, "from_a": "a", "from_b": "b"}


def test_a_value_of_a_later_step_stands_over_that_of_an_earlier_one(drive):
    def sets_topic(n: int) -> ag.Agent:
        def fn(ctx) -> Iterator[Any]:
            yield ag.SetValues(topic=n)
            yield str(ctx.values.get("topic"))

        return ag.function_agent(f"s{n}", fn)

    runner = ag.Runner(ag.workflow("wf", [ag.step(sets_topic(2), depends_on=["s1"]), sets_topic(1)]))
    assert [event.text for event in run(drive, runner)] == ["None", "1"]
    assert values(runner) == {"topic": 2}


def test_a_missing_value_is_told_at_the_step_and_a_resume_may_bring_it(drive):
    ran = Ledger()
    tree = ag.workflow(
        "wf",
        [ran.agent("a"), ag.step(sees("b"), depends_on=["a"], input="About {topic}, ${results.a}")],
    )
    runner = ag.Runner(tree)
    told, error = run_failing(drive, runner)
    message = (
        "b: the template names {topic}, but the run has no value of that name (there are: none); "
        "pass it with values=, or write {topic?} where it may be missing"
    )
    assert told[0] == "wf/a: a"
    assert told[1:] == [f"wf/b: [error] {ag.MissingValueError('b', 'topic', [])!r}"]
    assert message in str(error)
    assert isinstance(error.__cause__, ag.MissingValueError)
    events = drive.resume(runner, "t", values={"topic": "bees"})
    assert transcript(events) == ["wf/b: b saw ['About bees, a']"]
    assert ran == ["a"]


def test_agents_alone_are_steps_that_depend_on_nothing(drive):
    both = threading.Barrier(2)

    def meets(ctx) -> str:
        both.wait(PATIENCE)
        return "met"

    tree = ag.workflow("wf", [does("a", meets), does("b", meets)])
    assert [event.text for event in run(drive, ag.Runner(tree))] == ["met", "met"]


def test_a_workflow_of_one_step(drive):
    assert transcript(run(drive, ag.Runner(ag.workflow("wf", [does("a")])))) == ["wf/a: a"]


def test_run_paths_and_addresses_name_the_workflow_and_the_step(drive):
    tree = ag.workflow(
        "wf", [ag.step(ag.sequential("s", [does("x"), does("y")]), depends_on=["a"]), does("a")]
    )
    told = [(str(event.run_path), event.address) for event in run(drive, ag.Runner(tree))]
    assert told == [("wf/a", "wf/a"), ("wf/s/x", "wf/s/x"), ("wf/s/x/y", "wf/s/y")]


# faults before the run


def steps(*made: Any, **options: Any) -> ag.Agent:
    return ag.workflow("wf", made, **options)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (lambda: steps(), "wf: a workflow needs at least one step"),
        (
            lambda: steps(does("a"), on_error="collect"),
            "wf: on_error='collect' is not known; use 'fail' or 'wait'",
        ),
        (
            lambda: steps(ag.step(does("a"), depends_on=["a"])),
            "wf: the steps 'a' -> 'a' wait for each other; take one 'depends_on' out",
        ),
        (
            lambda: steps(
                ag.step(does("a"), depends_on=["b"]),
                ag.step(does("b"), depends_on=["c"]),
                ag.step(does("c"), depends_on=["a"]),
            ),
            "wf: the steps 'a' -> 'b' -> 'c' -> 'a' wait for each other; take one 'depends_on' out",
        ),
        (
            lambda: steps(does("a"), ag.step(does("b"), depends_on="x")),
            "wf: the step 'b' depends on 'x', which is not a step; there are: 'a', 'b'",
        ),
        (
            lambda: steps(*[does("a")] * 2),
            "wf: 2 steps are named 'a'; give each a name of its own",
        ),
        (
            lambda: steps(does("a"), ag.step(does("b"), input="${results.a}")),
            "wf: the input of the step 'b' names ${results.a}, which does not come before it; "
            "add 'a' to its depends_on, or take it out",
        ),
        (
            lambda: steps(does("a"), ag.step(does("b"), depends_on=["a"], input="${results.x}")),
            "wf: the input of the step 'b' names ${results.x}, which is not a step; there are: 'a'",
        ),
        (
            lambda: steps(ag.step(does("a"), input=3)),
            "wf: the input 3 of the step 'a' is not a string; pass a template",
        ),
        (
            lambda: steps(ag.step(does("a"), retry=3)),
            "wf: the step 'a': retry=3 is not a retry policy; pass "
            "langgraph.types.RetryPolicy(...), or several",
        ),
        (
            lambda: steps(ag.step(does("a"), timeout=0)),
            "wf: the step 'a': timeout=0 is not a timeout; pass seconds above 0, a timedelta, or a "
            "TimeoutPolicy",
        ),
        (
            lambda: steps(
                does("a", output_key="k"),
                ag.step(ag.sequential("s", [does("b", output_key="k")]), depends_on=["a"]),
            ),
            "wf: the steps 'a' and 's' write the same output_key 'k'; "
            "give each its own key, or declare a reducer for 'k' in values=",
        ),
        (
            lambda: steps("a"),
            "wf: 'a' is not an agent; build one with chat_agent, human, sequential, ...",
        ),
        (
            lambda: steps(ag.step(does("a"), compensate=does("a", str))),
            "wf/a: two agents are named 'a'; a name means one agent, rename one",
        ),
    ],
)
def test_what_is_wrong_with_a_workflow_is_told_before_it_runs(tree, message):
    with pytest.raises(ag.InvalidAgentError) as caught:
        ag.Runner(tree())
    assert str(caught.value) == message


def test_all_faults_of_a_workflow_are_told_at_once():
    tree = steps(
        ag.step(does("a"), depends_on=["x"], retry="no"),
        ag.step(does("b"), depends_on=["b"], input="${results.a}"),
        on_error="first",
    )
    with pytest.raises(ag.InvalidAgentError) as caught:
        ag.Runner(tree)
    assert caught.value.faults == (
        "wf: on_error='first' is not known; use 'fail' or 'wait'",
        "wf: the step 'a' depends on 'x', which is not a step; there are: 'a', 'b'",
        "wf: the steps 'b' -> 'b' wait for each other; take one 'depends_on' out",
        "wf: the step 'a': retry='no' is not a retry policy; pass langgraph.types.RetryPolicy(...), "
        "or several",
        "wf: the input of the step 'b' names ${results.a}, which does not come before it; "
        "add 'a' to its depends_on, or take it out",
    )


# retry and timeout


def test_a_step_that_fails_is_tried_again(drive):
    ran = Ledger()
    tree = steps(ag.step(ran.fails("a", 2), retry=AGAIN), ag.step(ran.agent("b"), depends_on=["a"]))
    assert transcript(run(drive, ag.Runner(tree))) == ["wf/a: a", "wf/b: b"]
    assert ran == ["a", "a", "a", "b"]


def test_tries_come_to_an_end(drive):
    ran = Ledger()
    runner = ag.Runner(steps(ag.step(ran.fails("a", 3), retry=AGAIN)))
    told, _ = run_failing(drive, runner)
    assert told == ["wf/a: [error] ValueError('a 3')"]
    assert ran == ["a"] * 3
    assert transcript(drive.resume(runner, "t")) == ["wf/a: a"]


def test_of_a_sequence_only_what_failed_is_tried_again(drive):
    ran = Ledger()
    inner = ag.sequential("s", [ran.agent("a"), ran.fails("b"), ran.fails("c", 2)])
    assert transcript(run(drive, ag.Runner(steps(ag.step(inner, retry=AGAIN))))) == [
        "wf/s/a: a",
        "wf/s/a/b: b",
        "wf/s/a/b/c: c",
    ]
    assert ran == ["a", "b", "b", "c", "c", "c"]


def test_of_a_parallel_only_the_branch_that_failed_is_tried_again(drive):
    ran = Ledger()
    inner = ag.parallel("p", [ag.sequential("s", [ran.agent("a"), ran.fails("b")]), ran.agent("c")])
    told = transcript(run(drive, ag.Runner(steps(ag.step(inner, retry=AGAIN)))))
    assert sorted(told) == ["wf/p/c: c", "wf/p/s/a/b: b", "wf/p/s/a: a"]
    assert sorted(ran) == ["a", "b", "b", "c"]


def test_a_policy_of_an_agent_stands_over_that_of_its_step(drive):
    ran = Ledger()
    never = RetryPolicy(max_attempts=1)
    inner = ag.sequential("s", [ran.fails("a"), ran.fails("b", retry=never)])
    told, _ = run_failing(drive, ag.Runner(steps(ag.step(inner, retry=AGAIN))))
    assert told == ["wf/s/a: a", "wf/s/a/b: [error] ValueError('b 1')"]
    assert ran == ["a", "a", "b"]


def test_a_policy_of_a_step_stands_over_that_of_the_step_around_it(drive):
    ran = Ledger()
    inner = ag.workflow("in", [ag.step(ran.fails("a", 3), retry=RetryPolicy(max_attempts=1))])
    run_failing(drive, ag.Runner(steps(ag.step(inner, retry=AGAIN))))
    assert ran == ["a"]


def test_the_policy_of_a_step_is_not_that_of_what_undoes_it_or_of_other_steps(drive):
    ran = Ledger()
    tree = steps(
        ag.step(ran.fails("a"), retry=AGAIN, compensate=ran.undo("a", times=1)),
        ag.step(ran.fails("b"), depends_on=["a"]),
    )
    _, error = run_failing(drive, ag.Runner(tree))
    assert ran == ["a", "a", "b", "undo_a"]
    assert error.not_undone == {"a": "ValueError('undo_a 1')"}


def test_a_step_that_takes_too_long_fails_with_the_error_of_langgraph():
    async def slow(ctx) -> str:
        await asyncio.sleep(PATIENCE)
        return "slow"

    runner = ag.Runner(steps(does("a"), ag.step(ag.function_agent("b", slow), timeout=0.05)))
    told, error = run_failing(Async, runner)
    assert told[0] == "wf/a: a"
    assert told[1].startswith("wf/b: [error] NodeTimeoutError(")
    assert (error.workflow, error.step) == ("wf", "b")


@pytest.mark.parametrize("timeout", [0.05, timedelta(milliseconds=50)])
def test_a_step_that_takes_too_long_is_tried_again_where_its_policy_says_so(timeout):
    tries = []

    async def slow_once(ctx) -> str:
        tries.append(1)
        await asyncio.sleep(PATIENCE if len(tries) == 1 else 0)
        return "quick"

    retry = RetryPolicy(max_attempts=2, initial_interval=0.001, jitter=False)
    slow = ag.function_agent("b", slow_once)
    tree = steps(ag.step(ag.sequential("s", [does("a"), slow]), timeout=timeout, retry=retry))
    assert transcript(run(Async, ag.Runner(tree))) == ["wf/s/a: a", "wf/s/a/b: quick"]
    assert len(tries) == 2


def test_a_timeout_is_refused_by_a_sync_run():
    inner = ag.sequential("s", [does("a"), does("b")])
    with pytest.raises(ag.AgentGraphError) as caught:
        run(Sync, ag.Runner(steps(ag.step(inner, timeout=5), does("c"))))
    assert str(caught.value) == (
        "a, b: timeout= needs arun and aresume: a sync call cannot be stopped; use these, or leave it "
        "out and set a timeout on the model"
    )


# failures where nothing can be undone


def test_a_step_that_fails_names_workflow_and_step_and_a_resume_tries_it_again(drive):
    ran = Ledger()
    runner = ag.Runner(
        steps(
            ran.agent("a"),
            ag.step(ran.fails("b"), depends_on=["a"]),
            ag.step(ran.agent("c"), depends_on=["b"]),
        )
    )
    told, error = run_failing(drive, runner)
    assert told == ["wf/a: a", "wf/b: [error] ValueError('b 1')"]
    assert str(error) == (
        "wf: the step 'b' failed: ValueError('b 1'); a resume tries it again, and nothing that had "
        "finished"
    )
    assert (error.workflow, error.step, error.undone, error.not_undone) == ("wf", "b", (), {})
    assert isinstance(error.__cause__, ValueError)
    assert transcript(drive.resume(runner, "t")) == ["wf/b: b", "wf/c: c"]
    assert ran == ["a", "b", "b", "c"]


def test_the_failing_leaf_is_told_however_deep_it_is_and_the_step_is_named(drive):
    ran = Ledger()
    inner = ag.sequential("s", [ag.parallel("p", [ag.loop("l", [ran.fails("x")], max_iterations=1)])])
    told, error = run_failing(drive, ag.Runner(steps(inner)))
    assert told == ["wf/s/p/l/x: [error] ValueError('x 1')"]
    assert (error.workflow, error.step) == ("wf", "s")


def test_a_step_may_fail_again_and_again(drive):
    ran = Ledger()
    runner = ag.Runner(steps(ran.agent("a"), ag.step(ran.fails("b", 2), depends_on=["a"])))
    run_failing(drive, runner)
    told, error = resume_failing(drive, runner)
    assert told == ["wf/b: [error] ValueError('b 2')"]
    assert str(error).startswith("wf: the step 'b' failed: ValueError('b 2');")
    assert transcript(drive.resume(runner, "t")) == ["wf/b: b"]
    assert ran == ["a", "b", "b", "b"]


@pytest.mark.parametrize("undone", [False, True])
def test_with_fail_the_others_stop_behind_what_they_do(drive, undone):
    ran, begun, failed = Ledger(), threading.Event(), threading.Event()

    def fails(ctx) -> str:
        assert begun.wait(PATIENCE)
        if ran.count("b") == 1:
            soon(failed)
            raise ValueError("b 1")
        return "b"

    def long(ctx) -> str:
        begun.set()
        assert failed.wait(PATIENCE)
        return "long"

    compensate = ran.undo("b") if undone else None
    runner = ag.Runner(
        steps(
            ag.sequential("s", [ran.agent("long", long), ran.agent("after")]),
            ag.step(ran.agent("b", fails), compensate=compensate),
            ag.step(ran.agent("c"), depends_on=["s"]),
            ag.step(ran.agent("d"), depends_on=["b"]),
        )
    )
    told, _ = run_failing(drive, runner)
    assert sorted(ran) == ["b", "long"]
    if undone:
        return
    assert sorted(told) == ["wf/b: [error] ValueError('b 1')", "wf/s/long: long"]
    assert sorted(transcript(drive.resume(runner, "t"))) == [
        "wf/b: b",
        "wf/c: c",
        "wf/d: d",
        "wf/s/long/after: after",
    ]
    assert sorted(ran) == ["after", "b", "b", "c", "d", "long"]


def test_with_wait_the_others_finish_and_those_not_begun_do_not_begin(drive):
    ran, failed = Ledger(), threading.Event()

    def fails(ctx) -> str:
        if ran.count("b") == 1:
            soon(failed)
            raise ValueError("b 1")
        return "b"

    def long(ctx) -> str:
        assert failed.wait(PATIENCE)
        return "long"

    runner = ag.Runner(
        steps(
            ag.sequential("s", [ran.agent("long", long), ran.agent("after")]),
            ran.agent("b", fails),
            ag.step(ran.agent("c"), depends_on=["s"]),
            on_error="wait",
        )
    )
    told, error = run_failing(drive, runner)
    assert sorted(told) == [
        "wf/b: [error] ValueError('b 1')",
        "wf/s/long/after: after",
        "wf/s/long: long",
    ]
    assert error.step == "b"
    assert sorted(transcript(drive.resume(runner, "t"))) == ["wf/b: b", "wf/c: c"]
    assert sorted(ran) == ["after", "b", "b", "c", "long"]


def test_with_wait_all_failures_are_told_each_once_and_all_tried_again(drive):
    ran, both = Ledger(), threading.Barrier(2)

    def fails(name: str) -> Callable[[Any], str]:
        def act(ctx) -> str:
            if ran.count(name) == 1:
                both.wait(PATIENCE)
                raise ValueError(name)
            return name

        return act

    runner = ag.Runner(
        steps(ran.agent("a", fails("a")), ran.agent("b", fails("b")), ran.agent("c"), on_error="wait")
    )
    told, _ = run_failing(drive, runner)
    assert sorted(told) == [
        "wf/a: [error] ValueError('a')",
        "wf/b: [error] ValueError('b')",
        "wf/c: c",
    ]
    assert sorted(transcript(drive.resume(runner, "t"))) == ["wf/a: a", "wf/b: b"]
    assert sorted(ran) == ["a", "a", "b", "b", "c"]


def test_a_failure_is_told_again_from_the_thread_as_it_was_streamed(drive):
    ran = Ledger()
    runner = ag.Runner(steps(ran.agent("a"), ag.step(ran.fails("b"), depends_on=["a"])))
    streamed, _ = failing(run(drive, runner), StepFailedError)
    assert list(runner.events("t")) == streamed
    streamed += drive.resume(runner, "t")
    assert list(runner.events("t")) == streamed


# steps that are undone


def undoable(ran: Ledger, **options: Any) -> ag.Agent:
    """Make a -> b -> c -> d of which a, b and d can be undone, and d fails."""
    return steps(
        ag.step(ran.agent("a"), compensate=ran.undo("a")),
        ag.step(ran.agent("b"), depends_on=["a"], compensate=ran.undo("b", **options)),
        ag.step(ran.agent("c"), depends_on=["b"]),
        ag.step(ran.fails("d"), depends_on=["c"], compensate=ran.undo("d")),
        ag.step(ran.agent("e"), depends_on=["d"], compensate=ran.undo("e")),
    )


UNDONE = [
    "wf/a: a",
    "wf/b: b",
    "wf/c: c",
    "wf/d: [error] ValueError('d 1')",
    "wf/undo_b: undid [b] said: b",
    "wf/undo_a: undid [a] said: a",
]
FINAL = "wf: the step 'd' failed: ValueError('d 1'); undone: b, a"


def test_finished_steps_are_undone_in_reverse_and_neither_the_failed_one_nor_those_not_begun(drive):
    ran = Ledger()
    told, error = run_failing(drive, ag.Runner(undoable(ran)))
    assert told == [*UNDONE, f"wf: [error] StepFailedError({FINAL!r})"]
    assert str(error) == FINAL
    assert (error.workflow, error.step, error.undone) == ("wf", "d", ("b", "a"))
    assert error.not_undone == {}
    assert ran == ["a", "b", "c", "d", "undo_b", "undo_a"]


def test_the_error_of_a_step_that_is_undone_is_told_at_once(drive):
    ran = Ledger()
    seen: list[list[str]] = []

    def undo(ctx) -> str:
        seen.append(transcript(told))
        return "undone"

    told: list[ag.AgentEvent] = []
    tree = steps(
        ag.step(ran.agent("a"), compensate=does("early")),
        ag.step(
            ran.agent("b"),
            depends_on=["a"],
            compensate=ag.sequential("u", [does("w"), does("x", undo)]),
        ),
        ag.step(ran.fails("c"), depends_on=["b"]),
    )
    with pytest.raises(StepFailedError):
        told.extend(run(drive, ag.Runner(tree)))
    assert transcript(told)[2:5] == ["wf/c: [error] ValueError('c 1')", "wf/u/w: w", "wf/u/w/x: undone"]


@pytest.mark.parametrize("resumes", [1, 2])
def test_a_final_failure_is_raised_again_by_every_resume_and_nothing_runs(drive, resumes, tmp_path):
    ran = Ledger()
    disk = Disk(drive, tmp_path / "x.db")
    told = disk.fail(undoable(ran), "run", StepFailedError)
    before = list(ran)
    for _ in range(resumes):
        again = disk.fail(undoable(ran), "resume", StepFailedError)
        assert transcript(again) == [f"wf: [error] StepFailedError({FINAL!r})"]
        told += again
    assert ran == before
    assert disk.events(undoable(ran)) == told


def test_a_new_turn_after_a_final_failure_starts_afresh(drive, tmp_path):
    ran = Ledger()
    disk = Disk(drive, tmp_path / "x.db")
    disk.fail(undoable(ran), "run", StepFailedError)
    ran.clear()
    ran += ["d"]  # it does not fail any more
    assert transcript(disk.run(undoable(ran))) == [
        "wf/a: a",
        "wf/b: b",
        "wf/c: c",
        "wf/d: d",
        "wf/e: e",
    ]
    assert ran == ["d", "a", "b", "c", "d", "e"]


def test_steps_are_undone_in_the_reverse_of_the_order_in_which_they_finished(drive):
    ran, ended = Ledger(), threading.Event()

    def late(ctx) -> str:
        assert ended.wait(PATIENCE)
        return "a"

    tree = steps(
        ag.step(ran.agent("a", late), depends_on=[], compensate=ran.undo("a")),
        ag.step(ran.agent("b"), compensate=ran.undo("b")),
        ag.step(ran.agent("c", lambda ctx: ended.set() or "c"), depends_on=["b"]),
        ag.step(ran.fails("d"), depends_on=["a", "c"]),
    )
    _, error = run_failing(drive, ag.Runner(tree))
    assert error.undone == ("a", "b")
    assert ran[-2:] == ["undo_a", "undo_b"]


def test_what_undoes_a_step_sees_what_was_said_before_and_by_the_step_and_its_values(drive):
    ran = Ledger()

    def undo(ctx) -> str:
        return f"{[m.text for m in ctx.messages]} {dict(ctx.values)}"

    tree = steps(
        ag.step(does("a", output_key="from_a")),
        ag.step(
            ag.sequential("s", [does("x", output_key="from_x"), does("y")]),
            depends_on=["a"],
            input="Do it.",
            compensate=undo,
        ),
        ag.step(ran.fails("c"), depends_on=["s"]),
    )
    told, _ = run_failing(drive, ag.Runner(tree), values={"topic": "bees"})
    assert told[-2] == (
        "wf/undo_s: ['Go.', '[x] said: x', '[y] said: y'] {'topic': 'bees', 'from_x': 'x'}"
    )


def test_an_agent_of_agents_and_a_chat_agent_can_undo_steps(drive):
    ran = Ledger()
    model = scripted(lambda messages: f"Sorry for {messages[-1].text}")
    tree = steps(
        ag.step(does("a"), compensate=ag.chat_agent("sorry", model)),
        ag.step(
            does("b"),
            depends_on=["a"],
            compensate=ag.sequential("u", [ran.agent("u1"), ag.parallel("p", [ran.agent("u2")])]),
        ),
        ag.step(ran.fails("c"), depends_on=["b"]),
    )
    told, error = run_failing(drive, ag.Runner(tree))
    assert told[3:-1] == ["wf/u/u1: u1", "wf/u/u1/p/u2: u2", "wf/sorry: Sorry for [a] said: a"]
    assert error.undone == ("b", "a")


def test_an_undo_that_fails_is_told_the_others_go_on_and_a_resume_tries_it_alone(drive, tmp_path):
    ran = Ledger()
    disk = Disk(drive, tmp_path / "x.db")
    told = transcript(disk.fail(undoable(ran, times=2), "run", StepFailedError))
    shown = (
        "wf: the step 'd' failed: ValueError('d 1'); undone: a; undoing 'b' failed: "
        "ValueError('undo_b 1'); a resume tries that again"
    )
    assert told[:5] == [*UNDONE[:4], "wf/undo_a: undid [a] said: a"]
    assert sorted(told[5:]) == [
        "wf/undo_b: [error] ValueError('undo_b 1')",
        f"wf: [error] StepFailedError({shown!r})",
    ]
    again = transcript(disk.fail(undoable(ran, times=2), "resume", StepFailedError))
    assert sorted(again) == [
        "wf/undo_b: [error] ValueError('undo_b 2')",
        f"wf: [error] StepFailedError({shown.replace('undo_b 1', 'undo_b 2')!r})",
    ]
    last = transcript(disk.fail(undoable(ran, times=2), "resume", StepFailedError))
    assert last == [UNDONE[4], f"wf: [error] StepFailedError({FINAL!r})"]
    assert ran == ["a", "b", "c", "d", "undo_b", "undo_a", "undo_b", "undo_b"]


def test_the_error_names_what_could_not_be_undone(drive):
    _, error = run_failing(drive, ag.Runner(undoable(Ledger(), times=1)))
    assert (error.step, error.undone) == ("d", ("a",))
    assert error.not_undone == {"b": "ValueError('undo_b 1')"}


def test_a_question_in_an_undo_pauses_and_the_others_are_not_repeated(drive, tmp_path):
    ran = Ledger()

    def tree() -> ag.Agent:
        return steps(
            ag.step(ran.agent("a"), compensate=ran.undo("a")),
            ag.step(ran.agent("b"), depends_on=["a"], compensate=ag.human("h", "Undo b?")),
            ag.step(ran.agent("c"), depends_on=["b"], compensate=ran.undo("c")),
            ag.step(ran.fails("d"), depends_on=["c"]),
        )

    disk = Disk(drive, tmp_path / "x.db")
    told = disk.run(tree())
    assert transcript(told)[-2:] == ["wf/undo_c: undid [c] said: c", "wf/h: [asks] Undo b?"]
    assert ran == ["a", "b", "c", "d", "undo_c"]
    rest: list[ag.AgentEvent] = []
    with pytest.raises(StepFailedError) as caught:
        collect(rest, drive, tmp_path / "x.db", tree(), "resume", "t", "Yes.")
    assert transcript(rest)[:2] == ["wf/h: Yes.", "wf/undo_a: undid [a] said: a"]
    assert caught.value.undone == ("c", "b", "a")
    assert ran == ["a", "b", "c", "d", "undo_c", "undo_a"]
    assert disk.events(tree()) == [*told, *rest]


def test_a_step_with_a_policy_is_undone_only_behind_its_last_try(drive):
    ran = Ledger()
    tree = steps(
        ag.step(ran.agent("a"), compensate=ran.undo("a")),
        ag.step(ran.fails("b", 2), depends_on=["a"], retry=AGAIN),
        ag.step(ran.fails("c", 3), depends_on=["b"], retry=AGAIN),
    )
    told, _ = run_failing(drive, ag.Runner(tree))
    assert ran == ["a", "b", "b", "b", "c", "c", "c", "undo_a"]
    assert told[:4] == [
        "wf/a: a",
        "wf/b: b",
        "wf/c: [error] ValueError('c 3')",
        "wf/undo_a: undid [a] said: a",
    ]


def long_beside_a_failure(ran: Ledger, on_error: Any = "fail") -> ag.Agent:
    """Return a workflow in which a step that can be undone is under way when another one fails."""
    begun, failed = threading.Event(), threading.Event()

    def fails(ctx) -> str:
        assert begun.wait(PATIENCE)
        soon(failed)
        raise ValueError("b")

    def long(ctx) -> str:
        begun.set()
        assert failed.wait(PATIENCE)
        return "long"

    both = ag.sequential("s", [ran.agent("long", long), ran.agent("after")])
    undone = ag.step(both, compensate=ran.undo("s"))
    return steps(undone, ran.agent("b", fails), on_error=on_error)


@pytest.mark.parametrize("on_error", ["fail", "wait"])
def test_what_runs_beside_a_final_failure_is_undone_if_it_finished(drive, on_error):
    ran = Ledger()
    tree = long_beside_a_failure(ran, on_error)
    told, error = run_failing(drive, ag.Runner(tree))
    finished = on_error == "wait"
    assert error.undone == (("s",) if finished else ())
    assert ran.count("undo_s") == ran.count("after") == finished
    assert [line for line in told if "undo" in line] == [
        *["wf/undo_s: undid [after] said: after"] * finished,
        f"wf: [error] {error!r}",
    ][-1 - finished :]


def test_what_a_final_failure_stopped_does_not_go_on_at_a_resume(drive):
    ran = Ledger()
    tree = long_beside_a_failure(ran)
    runner = ag.Runner(tree)
    _, error = run_failing(drive, runner)
    told, again = resume_failing(drive, runner)
    assert told == [f"wf: [error] {error!r}"]
    assert str(again) == str(error) == "wf: the step 'b' failed: ValueError('b'); undone: nothing"
    assert sorted(ran) == ["b", "long"]


def test_what_failed_with_wait_at_the_same_time_is_all_told_and_the_first_is_named(drive):
    ran, first = Ledger(), threading.Event()

    def early(ctx) -> str:
        soon(first)
        raise ValueError("early")

    def late(ctx) -> str:
        assert first.wait(PATIENCE)
        raise ValueError("late")

    tree = steps(
        ag.step(ran.agent("a"), compensate=ran.undo("a")),
        ag.step(ran.agent("b", late), depends_on=["a"]),
        ag.step(ran.agent("c", early), depends_on=["a"]),
        on_error="wait",
    )
    runner = ag.Runner(tree)
    told, error = run_failing(drive, runner)
    assert told == [
        "wf/a: a",
        "wf/c: [error] ValueError('early')",
        "wf/b: [error] ValueError('late')",
        "wf/undo_a: undid [a] said: a",
        f"wf: [error] {error!r}",
    ]
    assert error.step == "c"
    assert sorted(ran) == ["a", "b", "c", "undo_a"]


def test_of_a_final_failure_nothing_stands_in_the_history(drive):
    runner = ag.Runner(ag.sequential("s", [does("first"), undoable(Ledger()), does("last")]))
    run_failing(drive, runner)
    assert history(runner) == ["Go.", "first"]


# signals


def exits(ctx) -> Iterator[str | ag.Exit]:
    yield "bye"
    yield ag.Exit()


def breaks(ctx) -> Iterator[str | ag.BreakLoop]:
    yield "enough"
    yield ag.BreakLoop()


@pytest.mark.parametrize("undone", [False, True])
def test_behind_an_exit_running_steps_finish_no_other_begins_and_nothing_is_undone(drive, undone):
    ran, left = Ledger(), threading.Event()

    def leaves(ctx) -> Iterator[str | ag.Exit]:
        soon(left)
        yield from exits(ctx)

    def long(ctx) -> str:
        assert left.wait(PATIENCE)
        return "long"

    compensate = ran.undo("e") if undone else None
    tree = steps(
        ag.step(ag.function_agent("e", leaves), compensate=compensate),
        ag.sequential("s", [ran.agent("long", long), ran.agent("after")]),
        ag.step(ran.agent("c"), depends_on=["s"]),
        ag.step(ran.agent("d"), depends_on=["e"]),
    )
    runner = ag.Runner(ag.sequential("all", [tree, ran.agent("behind")]))
    lines = transcript(run(drive, runner))
    assert sorted(lines) == [
        "all/wf/e: [exit]",
        "all/wf/e: bye",
        "all/wf/s/long/after: after",
        "all/wf/s/long: long",
    ]
    assert ran == ["long", "after"]
    assert list(drive.resume(runner, "t")) == []


def test_a_break_in_a_step_ends_the_loop_around_the_workflow(drive):
    ran = Ledger()

    def second(ctx) -> Iterator[str | ag.BreakLoop]:
        if ran.count("a") == 1:
            yield "on"
        else:
            yield from breaks(ctx)

    tree = steps(
        ran.agent("a"),
        ag.step(ag.function_agent("b", second), depends_on=["a"]),
        ag.step(ran.agent("c"), depends_on=["b"]),
    )
    loop = ag.loop("l", [tree, ran.agent("d")], max_iterations=9)
    told = list(run(drive, ag.Runner(ag.sequential("s", [loop, ran.agent("z")]))))
    assert [(event.address, event.text or event.kind) for event in told] == [
        ("s/l[0]/wf/a", "a"),
        ("s/l[0]/wf/b", "on"),
        ("s/l[0]/wf/c", "c"),
        ("s/l[0]/d", "d"),
        ("s/l[1]/wf/a", "a"),
        ("s/l[1]/wf/b", "enough"),
        ("s/l[1]/wf/b", "break_loop"),
        ("s/z", "z"),
    ]


# workflows in other agents, and other agents in steps


def nested(ran: Ledger) -> ag.Agent:
    inner = ag.workflow(
        "in",
        [
            ag.step(ran.agent("x"), compensate=ran.undo("x")),
            ag.step(ran.fails("y"), depends_on=["x"]),
        ],
    )
    return steps(
        ag.step(ran.agent("a"), compensate=ran.undo("a")),
        ag.step(inner, depends_on=["a"], compensate=ran.undo("in")),
        ag.step(ran.agent("b"), depends_on=["in"]),
    )


def test_a_failure_inside_undoes_the_inner_steps_and_then_the_outer_ones(drive, tmp_path):
    ran = Ledger()
    disk = Disk(drive, tmp_path / "x.db")
    streamed = disk.fail(nested(ran), "run", StepFailedError)
    inside = StepFailedError("wf/in", "y", "ValueError('y 1')", undone=["x"])
    outside = StepFailedError("wf", "in", repr(inside), undone=["a"])
    assert transcript(streamed) == [
        "wf/a: a",
        "wf/in/x: x",
        "wf/in/y: [error] ValueError('y 1')",
        "wf/in/undo_x: undid [x] said: x",
        f"wf/in: [error] {inside!r}",
        "wf/undo_a: undid [a] said: a",
        f"wf: [error] {outside!r}",
    ]
    assert ran == ["a", "x", "y", "undo_x", "undo_a"]
    again = disk.fail(nested(ran), "resume", StepFailedError)
    assert transcript(again) == transcript(streamed[-1:])
    assert len(ran) == 5
    assert disk.events(nested(ran)) == [*streamed, *again]


def test_a_failure_inside_where_only_the_inner_steps_can_be_undone_is_final_all_the_same(drive):
    ran = Ledger()
    inner = ag.workflow(
        "in",
        [
            ag.step(ran.agent("x"), compensate=ran.undo("x")),
            ag.step(ran.fails("y"), depends_on=["x"]),
        ],
    )
    runner = ag.Runner(steps(ran.agent("a"), ag.step(inner, depends_on=["a"])))
    told, error = run_failing(drive, runner)
    assert told[:4] == [
        "wf/a: a",
        "wf/in/x: x",
        "wf/in/y: [error] ValueError('y 1')",
        "wf/in/undo_x: undid [x] said: x",
    ]
    assert (error.workflow, error.step) == ("wf", "in")
    _, error = resume_failing(drive, runner)
    assert (error.workflow, error.step) == ("wf", "in")
    assert ran == ["a", "x", "y", "undo_x"]


def test_an_inner_workflow_that_finished_is_undone_by_the_step_around_it(drive):
    ran = Ledger()
    inner = ag.workflow("in", [ag.step(ran.agent("x"), compensate=ran.undo("x"))])
    tree = steps(ag.step(inner, compensate=ran.undo("in")), ag.step(ran.fails("b"), depends_on=["in"]))
    _, error = run_failing(drive, ag.Runner(tree))
    assert error.undone == ("in",)
    assert ran == ["x", "b", "undo_in"]


def test_a_workflow_in_a_loop_is_undone_where_it_failed(drive, tmp_path):
    ran = Ledger()

    def tree() -> ag.Agent:
        def second(ctx) -> str:
            if ran.count("b") == 2:
                raise ValueError("b 2")
            return "b"

        inner = steps(
            ag.step(ran.agent("a"), compensate=ran.undo("a")),
            ag.step(ran.agent("b", second), depends_on=["a"]),
        )
        return ag.loop("l", [inner], max_iterations=3)

    disk = Disk(drive, tmp_path / "x.db")
    streamed = disk.fail(tree(), "run", StepFailedError)
    assert [(event.address, event.text or event.kind) for event in streamed] == [
        ("l[0]/wf/a", "a"),
        ("l[0]/wf/b", "b"),
        ("l[1]/wf/a", "a"),
        ("l[1]/wf/b", "error"),
        ("l[1]/wf/undo_a", "undid [a] said: a"),
        ("l[1]/wf", "error"),
    ]
    assert ran == ["a", "b", "a", "b", "undo_a"]
    assert disk.events(tree()) == streamed
    again = disk.fail(tree(), "resume", StepFailedError)
    assert transcript(again) == transcript(streamed[-1:])
    assert disk.events(tree()) == [*streamed, *again]


def test_a_parallel_in_a_step_and_a_workflow_in_a_branch(drive):
    ran = Ledger()
    both = ag.parallel("p", [ran.agent("x"), ran.fails("y")], on_error="wait")
    inner = steps(
        ag.step(ran.agent("a"), compensate=ran.undo("a")),
        ag.step(both, depends_on=["a"]),
    )
    runner = ag.Runner(ag.parallel("q", [inner, ran.agent("z")], on_error="wait"))
    told, error = run_failing(drive, runner)
    assert sorted(line for line in told if line != "q/z: z") == [
        "q/wf/a: a",
        "q/wf/p/x: x",
        "q/wf/p/y: [error] ValueError('y 1')",
        "q/wf/undo_a: undid [a] said: a",
        f"q/wf: [error] {error!r}",
    ]
    strand = [line for line in told if not line.startswith(("q/z", "q/wf/p/x"))]
    assert strand[1:3] == ["q/wf/p/y: [error] ValueError('y 1')", "q/wf/undo_a: undid [a] said: a"]
    assert (error.workflow, error.step, error.undone) == ("q/wf", "p", ("a",))
    assert sorted(ran) == ["a", "undo_a", "x", "y", "z"]


def test_a_workflow_in_a_branch_that_collects_is_undone_and_the_run_goes_on(drive):
    ran = Ledger()
    runner = ag.Runner(
        ag.sequential(
            "s", [ag.parallel("p", [undoable(ran), does("x")], on_error="collect"), does("z")]
        )
    )
    lines = transcript(run(drive, runner))
    assert lines[-1] == "s/p/z: z"
    final = StepFailedError("s/p/wf", "d", "ValueError('d 1')", undone=["b", "a"])
    assert lines.count(f"s/p/wf: [error] {final!r}") == 1
    assert lines.count(f"s/p/wf: Failed: {final!r}") == 1
    assert ran == ["a", "b", "c", "d", "undo_b", "undo_a"]
    assert list(drive.resume(runner, "t")) == []


def test_a_workflow_runs_as_a_tool(drive):
    tree = ag.workflow(
        "look", [does("a"), ag.step(sees("b"), depends_on=["a"], input="Judge ${results.a}")]
    )
    model = scripted(calls(call("look", request="Look.")), "Done.")
    chat = ag.chat_agent("chat", model, tools=[ag.agent_tool(tree)])
    assert [(event.address, event.text) for event in run(drive, ag.Runner(chat))] == [
        ("chat", ""),
        ("chat/look(0)/a", "a"),
        ("chat/look(0)/b", "b saw ['Judge a']"),
        ("chat", "b saw ['Judge a']"),
        ("chat", "Done."),
    ]


def test_a_workflow_that_fails_as_a_tool_is_undone_and_the_model_is_told(drive):
    ran = Ledger()
    model = scripted(calls(call("wf", request="Go.")), lambda messages: messages[-1].text)
    chat = ag.chat_agent("chat", model, tools=[ag.agent_tool(undoable(ran))])
    runner = ag.Runner(chat)
    told = list(run(drive, runner))
    assert "chat/wf(0): the step 'd' failed" in told[-1].text
    assert ran == ["a", "b", "c", "d", "undo_b", "undo_a"]
    assert [event.address for event in told if event.kind == "message"] == [
        "chat",
        *(f"chat/wf(0)/{name}" for name in ("a", "b", "c", "undo_b", "undo_a")),
        "chat",
        "chat",
    ]


# questions


def interrupts(ctx) -> str:
    return f"heard {interrupt('And?')}"


def asks(ctx) -> str | ag.Ask:
    return f"heard {ctx.answer}" if ctx.answered else ag.Ask("Well?")


def delete(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


def asking(ran: Ledger) -> ag.Agent:
    """Make three steps that ask in three ways, one that does not, and what depends on them."""
    return steps(
        ag.step(ran.agent("begin")),
        ag.step(ag.human("h", "Who?"), depends_on=["begin"]),
        ag.step(ag.sequential("s", [ran.agent("s1"), ag.function_agent("q", asks)])),
        ag.step(ag.function_agent("i", interrupts)),
        ag.step(ran.agent("free"), depends_on=["begin"]),
        ag.step(ran.agent("x"), depends_on=["h"]),
        ag.step(ran.agent("y"), depends_on=["s", "i"]),
        ag.step(ran.agent("z"), depends_on=["x", "y", "free"]),
    )


ASKED = {"wf/h": "Me.", "wf/s/q": "Fine.", "wf/i": "So."}
ANSWERED = [
    "wf/begin: begin",
    "wf/free: free",
    "wf/h: Me.",
    "wf/i: heard So.",
    "wf/s/s1/q: heard Fine.",
    "wf/s/s1: s1",
    "wf/x: x",
    "wf/y: y",
    "wf/z: z",
]


def pending(drive: Drive, disk: Disk, tree: ag.Agent) -> list[str]:
    """Return the addresses of the questions that a new runner on the file knows of."""
    if drive is Sync:
        with ag.sqlite_saver(disk.path) as saver:
            return [q.address for q in ag.Runner(tree, checkpointer=saver).pending("t")]

    async def apending() -> list[str]:
        async with ag.async_sqlite_saver(disk.path) as saver:
            found = await ag.Runner(tree, checkpointer=saver).apending("t")
            return [question.address for question in found]

    return asyncio.run(apending())


@pytest.mark.parametrize(
    "order",
    [
        [["wf/h"], ["wf/s/q"], ["wf/i"]],
        [["wf/i"], ["wf/s/q"], ["wf/h"]],
        [["wf/s/q", "wf/h"], ["wf/i"]],
        [["wf/i", "wf/h", "wf/s/q"]],
    ],
    ids=lambda order: " ".join("+".join(each) for each in order),
)
def test_questions_of_steps_are_answered_in_any_order_and_subset_by_new_runners(drive, tmp_path, order):
    ran = Ledger()
    disk = Disk(drive, tmp_path / "x.db")
    disk.run(asking(ran))
    assert sorted(ran) == ["begin", "free", "s1"]
    left = ["wf/h", "wf/s/q", "wf/i"]
    for batch in order:
        assert pending(drive, disk, asking(ran)) == left
        disk.resume(asking(ran), {at: ASKED[at] for at in batch})
        left = [at for at in left if at not in batch]
    assert pending(drive, disk, asking(ran)) == []
    told = {event.id: event for event in standing(disk.told)}
    said = [event for event in told.values() if event.kind == "message"]
    assert sorted(transcript(said)) == ANSWERED
    assert len(said) == len([event for event in disk.told if event.kind == "message"])
    assert sorted(ran) == ["begin", "free", "s1", "x", "y", "z"]
    again = disk.events(asking(ran))
    assert again == list(told.values()) == standing(disk.told)


def test_a_dependent_waits_for_an_answer_while_the_siblings_go_on(drive):
    ran = Ledger()
    runner = ag.Runner(asking(ran))
    told = transcript(run(drive, runner))
    assert sorted(line for line in told if "[asks]" in line) == [
        "wf/h: [asks] Who?",
        "wf/i: [asks] And?",
        "wf/s/s1/q: [asks] Well?",
    ]
    told = transcript(drive.resume(runner, "t", {"wf/h": "Me."}))
    assert [line for line in told if "wf/h:" in line or "wf/x:" in line] == ["wf/h: Me.", "wf/x: x"]
    assert "y" not in ran
    assert "z" not in ran


def test_an_answer_that_was_sent_is_refused_when_it_is_sent_again(drive):
    runner = ag.Runner(asking(Ledger()))
    list(run(drive, runner))
    list(drive.resume(runner, "t", {"wf/h": "Me."}))
    there = ", ".join(f"{q.address} ({q.id})" for q in runner.pending("t"))
    with pytest.raises(ag.UnknownInterruptError) as caught:
        list(drive.resume(runner, "t", {"wf/h": "Me."}))
    assert str(caught.value) == (
        "thread 't': the question 'wf/h' is not pending (was it answered already?); pending: " + there
    )


def test_an_approval_in_a_step_is_asked_once_and_the_call_runs_once(drive, tmp_path):
    ran = Ledger()

    def tree() -> ag.Agent:
        model = scripted(calls(call("delete", path="x")), "Gone.")
        again = scripted("Gone.") if "asked" in ran else model
        chat = ag.chat_agent("c", again, tools=[delete], approve=["delete"])
        return steps(ran.agent("a"), chat, ag.step(ran.agent("b"), depends_on=["c", "a"]))

    disk = Disk(drive, tmp_path / "x.db")
    told = disk.run(tree())
    assert [event.kind for event in told if event.address == "wf/c"] == ["message", "interrupted"]
    ran.append("asked")
    rest = transcript(disk.resume(tree(), {"wf/c": {"decisions": [{"type": "approve"}]}}))
    assert rest == ["wf/c: deleted x", "wf/c: Gone.", "wf/b: b"]
    assert ran == ["a", "asked", "b"]


@pytest.mark.parametrize("undone", [False, True])
def test_a_question_beside_a_failure(drive, undone):
    ran, begun = Ledger(), threading.Event()

    def fails(ctx) -> str:
        assert begun.wait(PATIENCE)
        if ran.count("b") == 1:
            raise ValueError("b 1")
        return "b"

    def begins(ctx) -> str:
        soon(begun)
        return "a"

    tree = steps(
        ag.step(
            ag.sequential("s", [ran.agent("a", begins), ag.human("h", "Who?")]),
            compensate=ran.undo("s") if undone else None,
        ),
        ran.agent("b", fails),
    )
    runner = ag.Runner(tree)
    told, _ = run_failing(drive, runner)
    assert "wf/b: [error] ValueError('b 1')" in told
    if undone:  # the failure is final, and nobody waits for the answer
        assert runner.pending("t") == []
        resume_failing(drive, runner)
        assert sorted(ran) == ["a", "b"]
        return
    assert "wf/s/a/h: [asks] Who?" in told
    told = transcript(drive.resume(runner, "t", {"wf/s/h": "Me."}))
    assert sorted(told) == ["wf/b: b", "wf/s/a/h: Me."]
    assert sorted(ran) == ["a", "b", "b"]


@pytest.mark.parametrize("text", ["${result.a}", "${results.}", "${a.b}", "${ topic }"])
def test_what_looks_like_a_reference_and_is_none_is_a_fault(text):
    tree = ag.workflow("wf", [ag.function_agent("a", lambda ctx: "a"), ag.step(_b(), input=text)])
    with pytest.raises(ag.InvalidAgentError) as raised:
        ag.compile_agent(tree)
    assert raised.value.faults == (
        f"wf: the input of the step 'b' names {text}, which cannot be read; use ${{results.STEP}} for "
        "what a step said, or ${VALUE} for a value of the run",
    )


def _b() -> ag.Agent:
    return ag.function_agent("b", lambda ctx: "b")


def test_pending_questions_stand_in_the_order_in_which_their_steps_are_joined():
    waits = ag.step(_b(), depends_on=["second"])
    runner = ag.Runner(steps(waits, ag.human("first", "1?"), ag.human("second", "2?")))
    list(runner.run("Go.", thread_id="t"))
    assert [asked.address for asked in runner.pending("t")] == ["wf/second", "wf/first"]
