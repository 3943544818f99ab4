"""Plan and execute: the paths of a run, what its values hold, and plans that are no good."""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from helpers import Disk, Drive, failing, fresh, gives, says, scripted, visits
from langchain_core.messages import BaseMessage

import agentgraph as ag
from agentgraph.errors import CheckFailedError
from agentgraph.testing import call, calls, transcript

NO_PLAN = 'it is not a plan; a plan is JSON such as {"steps": ["...", "..."]}'
DIAMOND = json.dumps(
    [
        {"name": "a", "task": "A"},
        {"name": "b", "task": "B", "depends_on": ["a"]},
        {"name": "c", "task": "C", "depends_on": ["a"]},
        {"name": "d", "task": "D", "depends_on": ["b", "c"]},
    ]
)


def plans(
    planner: Any = '["x", "y"]',
    executor: Any = None,
    replanner: Any = None,
    name: str = "pe",
    **options: Any,
) -> Any:
    """Return a `plan_execute` of functions: a text is said, agents are taken as they are."""
    own = "" if name == "pe" else f"{name}_"
    roles = {
        "planner": says(f"{own}planner", planner) if isinstance(planner, str) else planner,
        "executor": does(f"{own}executor") if executor is None else executor,
        "replanner": gives(f"{own}replanner", None) if replanner is None else replanner,
    }
    return ag.plan_execute(name, **roles, **options)


def does(name: str, seen: list[dict[str, Any]] | None = None) -> ag.Agent:
    """Return a function agent that says what it does, and notes the values that it finds."""

    def fn(ctx: ag.Context) -> str:
        if seen is not None:
            seen.append(told(ctx.values))
        return f"{ctx.values['step']} done"

    return ag.function_agent(name, fn)


def told(values: Any) -> dict[str, Any]:
    """Return the values that a `plan_execute` keeps for others to read."""
    names = ("question", "plan", "step", "past_steps", "answer")
    return {name: values[name] for name in names if name in values}


def sent(messages: Iterable[BaseMessage]) -> list[str]:
    return [f"{message.type}: {message.text}" for message in messages]


def refused(fault: str) -> str:
    return f"This plan cannot be used: {fault}. Give the whole plan again, with that put right."


class TestARun:
    def test_plans_executes_and_plans_again(self, drive: Drive) -> None:
        tree = ag.plan_execute(
            "pe",
            planner=scripted('["x", "y"]'),
            executor=scripted("X.", "Y."),
            replanner=scripted('["y"]', '{"answer": "All."}'),
        )
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert transcript(events) == [
            'pe/planner: ["x", "y"]',
            "pe/planner/execute/executor: X.",
            'pe/planner/execute/executor/replanner: ["y"]',
            "pe/planner/execute/executor/replanner/executor: Y.",
            'pe/planner/execute/executor/replanner/executor/replanner: {"answer": "All."}',
            "pe: All.",
        ]
        assert [event.address for event in events] == [
            "pe/planner",
            "pe/execute[0]/executor",
            "pe/execute[0]/replanner",
            "pe/execute[1]/executor",
            "pe/execute[1]/replanner",
            "pe",
        ]
        assert [event.agent_name for event in events][-1] == "pe"

    def test_says_an_answer_in_plain_text_once(self, drive: Drive) -> None:
        tree = plans(replanner=says("replanner", "It is three."))
        assert transcript(drive.run(ag.Runner(ag.sequential("s", [tree, says("z")])), "Go.")) == [
            's/pe/planner: ["x", "y"]',
            "s/pe/planner/execute/executor: x done",
            "s/pe/planner/execute/executor/replanner: It is three.",
            "s/pe/z: z",
        ]

    def test_goes_on_where_the_replanner_says_nothing(self, drive: Drive) -> None:
        assert transcript(drive.run(ag.Runner(plans()), "Go.")) == [
            'pe/planner: ["x", "y"]',
            "pe/planner/execute/executor: x done",
            "pe/planner/execute/executor/replanner/executor: y done",
        ]

    def test_goes_on_with_named_steps_where_the_replanner_says_nothing(self, drive: Drive) -> None:
        steps = [
            *json.loads(DIAMOND),
            {"name": "e", "task": "E"},
            {"name": "f", "task": "F", "depends_on": ["e"]},
        ]
        told = [e.text for e in drive.run(ag.Runner(plans(json.dumps(steps))), "Go.")][1:]
        assert told == [f"{step} done" for step in "ABCDEF"]

    def test_ends_where_the_replanner_leaves_no_steps(self, drive: Drive) -> None:
        told = transcript(drive.run(ag.Runner(plans(replanner=says("replanner", "[]"))), "Go."))
        assert told[-2:] == ["pe/planner/execute/executor/replanner: []", "pe: x done"]

    def test_takes_new_steps(self, drive: Drive) -> None:
        replanner = says("replanner", "1. p\n2. q", '["q"]', "Done.")
        tree = plans('["x"]', replanner=replanner)
        told = [e.text for e in drive.run(ag.Runner(tree), "Go.") if e.agent_name != "replanner"]
        assert told == ['["x"]', "x done", "p done", "q done"]

    def test_executes_steps_behind_those_that_they_depend_on(self, drive: Drive) -> None:
        steps = [{"name": "b", "task": "B", "depends_on": ["a"]}, {"name": "a", "task": "A"}]
        told = [e.text for e in drive.run(ag.Runner(plans(json.dumps(steps))), "Go.")]
        assert told[1:] == ["A done", "B done"]

    def test_keeps_its_values_at_each_point(self, drive: Drive) -> None:
        seen: list[dict[str, Any]] = []

        def note(ctx: ag.Context) -> None:
            seen.append(told(ctx.values))

        tree = plans(executor=does("executor", seen), replanner=ag.function_agent("replanner", note))
        after = ag.function_agent("z", note)
        list(drive.run(ag.Runner(ag.sequential("s", [tree, after])), "Why?"))
        done = [{"step": "x", "result": "x done"}, {"step": "y", "result": "y done"}]
        question = {"question": "Why?"}
        assert seen == [
            {**question, "plan": ["x", "y"], "step": "x", "past_steps": [], "answer": ""},
            {**question, "plan": ["y"], "step": "y", "past_steps": done[:1], "answer": "x done"},
            {**question, "plan": ["y"], "step": "y", "past_steps": done[:1], "answer": "x done"},
            {**question, "plan": [], "step": "", "past_steps": done, "answer": "y done"},
            {**question, "plan": [], "step": "", "past_steps": done, "answer": "y done"},
        ]

    def test_tells_models_of_their_tasks(self, drive: Drive) -> None:
        models = [scripted('["x", "y"]'), scripted("X."), scripted("Done.")]
        roles = dict(zip(("planner", "executor", "replanner"), models, strict=True))
        list(drive.run(ag.Runner(ag.plan_execute("pe", **roles)), "Why?"))
        planner, executor, replanner = (sent(model.inputs[0]) for model in models)
        assert planner == [
            "system: Make a plan that answers the question.\n\n"
            'Reply with the plan as JSON alone: {"steps": ["...", "..."]}, each step a task that can '
            "be done by itself, in the order in\nwhich they are to be done.",
            "human: Why?",
        ]
        assert executor == [
            "system: You carry out one step of a plan that is to answer this question: Why?\n\n"
            "Your step: x\nReply with its result alone.",
            "human: Why?",
            'human: [planner] said: ["x", "y"]',
        ]
        assert replanner[0].startswith(
            'system: The question: Why?\nDone so far: [{"step": "x", "result": "X."}]\n'
            'Still planned: ["y"]\n\nReply with JSON alone.'
        )
        assert '{"answer": "..."}' in replanner[0]
        assert replanner[1:] == ["human: Why?"]

    def test_tells_chat_agents_of_the_form_and_leaves_them_their_instruction(
        self, drive: Drive
    ) -> None:
        models = [scripted('["x"]'), scripted("X."), scripted("Done.")]
        tree = ag.plan_execute(
            "pe",
            planner=ag.chat_agent("p", models[0], instruction="Plan for {question?}bees."),
            executor=ag.chat_agent("e", models[1], instruction="Do {step}, of {plan}."),
            replanner=ag.chat_agent("r", models[2], instruction="Look at {past_steps}."),
        )
        told = transcript(drive.run(ag.Runner(tree), "Why?"))
        assert told[-1] == "pe/p/execute/e/r: Done."
        planner, executor, replanner = (model.inputs[0][0].text for model in models)
        assert planner.startswith("Plan for bees.\n\nReply with the plan as JSON alone: ")
        assert executor.startswith("Do x, of ")
        assert "Reply with its result alone." not in executor
        assert replanner.startswith("Look at ")
        assert "Reply with JSON alone." in replanner

    def test_gives_a_chat_agent_without_an_instruction_its_task(self, drive: Drive) -> None:
        model = scripted('["x"]')
        list(drive.run(ag.Runner(plans(ag.chat_agent("p", model))), "Why?"))
        assert model.inputs[0][0].text.startswith("Make a plan that answers the question.\n\nReply")

    def test_takes_composites_for_each_role(self, drive: Drive) -> None:
        tree = plans(
            ag.sequential("p", [says("p1"), says("p2", '["x"]')]),
            ag.loop("e", [says("e1", "1", "2")], max_iterations=2),
            ag.parallel("r", [says("r1"), says("r2", "Done.")]),
        )
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert visits(events)[:4] == [
            ("pe/p/p1", "pe/p/p1"),
            ("pe/p/p2", "pe/p/p1/p2"),
            ("pe/execute[0]/e[0]/e1", "pe/p/execute/e/e1"),
            ("pe/execute[0]/e[1]/e1", "pe/p/execute/e/e1/e1"),
        ]
        assert sorted(event.text for event in events[4:]) == ["Done.", "r1"]

    def test_keeps_the_last_message_of_an_executor_of_several(self, drive: Drive) -> None:
        seen: list[Any] = []
        executor = ag.sequential("e", [says("e1"), says("e2", "last")])
        look = ag.function_agent("r", lambda ctx: seen.append(ctx.values["past_steps"]))
        list(drive.run(ag.Runner(plans('["x"]', executor, look)), "Go."))
        assert seen == [[{"step": "x", "result": "last"}]]

    def test_takes_an_empty_result_where_the_executor_says_nothing(self, drive: Drive) -> None:
        seen: list[Any] = []
        look = ag.function_agent("r", lambda ctx: seen.append(ctx.values["past_steps"]))
        list(drive.run(ag.Runner(plans('["x"]', gives("e", None), look)), "Go."))
        assert seen == [[{"step": "x", "result": ""}]]

    def test_starts_afresh_in_a_second_turn(self, drive: Drive) -> None:
        seen: list[dict[str, Any]] = []
        planner = says("planner", '["x"]', '["p", "q"]')
        runner = ag.Runner(plans(planner, does("executor", seen)))
        first = list(drive.run(runner, "Why?", thread_id="t"))
        second = list(drive.run(runner, "How?", thread_id="t"))
        assert [event.text for event in first] == ['["x"]', "x done"]
        assert [event.text for event in second] == ['["p", "q"]', "p done", "q done"]
        assert [(v["question"], v["plan"], v["past_steps"]) for v in seen] == [
            ("Why?", ["x"], []),
            ("How?", ["p", "q"], []),
            ("How?", ["q"], [{"step": "p", "result": "p done"}]),
        ]

    def test_does_not_take_the_plan_of_the_turn_before(self, drive: Drive) -> None:
        planner = gives("planner", '["x", "y"]', None)
        replanner = says("replanner", "Done.")
        runner = ag.Runner(plans(planner, replanner=replanner))
        list(drive.run(runner, "Why?", thread_id="t"))
        told, _ = failing(drive.run(runner, "How?", thread_id="t"), CheckFailedError)
        assert told[0].text == refused(NO_PLAN)

    def test_is_the_same_from_the_thread(self, drive: Drive) -> None:
        replanner = says("replanner", "[7]", '["y"]', '{"answer": "All."}')
        runner = ag.Runner(ag.sequential("s", [plans(replanner=replanner), says("z")]))
        events = list(drive.run(runner, "Go.", thread_id="t"))
        assert list(runner.events("t")) == events

    def test_runs_anew_in_each_iteration_of_a_loop(self, drive: Drive) -> None:
        tree = ag.loop("l", [plans('["x"]', replanner=says("replanner", "Done."))], max_iterations=2)
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert visits(events) == [
            ("l[0]/pe/planner", "l/pe/planner"),
            ("l[0]/pe/execute[0]/executor", "l/pe/planner/execute/executor"),
            ("l[0]/pe/execute[0]/replanner", "l/pe/planner/execute/executor/replanner"),
            ("l[1]/pe/planner", "l/pe/pe/planner"),
            ("l[1]/pe/execute[0]/executor", "l/pe/pe/planner/execute/executor"),
            ("l[1]/pe/execute[0]/replanner", "l/pe/pe/planner/execute/executor/replanner"),
        ]


class TestAPlanner:
    def test_may_leave_the_plan_as_a_value(self, drive: Drive) -> None:
        tree = plans(gives("planner", ag.SetValues(plan=["x", {"task": "y"}])))
        assert [e.text for e in drive.run(ag.Runner(tree), "Go.")] == ["x done", "y done"]

    @pytest.mark.parametrize(
        ("plan", "fault"),
        [
            ("I cannot.", NO_PLAN),
            (
                '[{"name": "a", "task": "A", "depends_on": ["z"]}]',
                "the step 'a' depends on 'z', which is not a step; there are: 'a'",
            ),
            (
                '[{"name": "a", "task": "A", "depends_on": ["b"]}, '
                '{"name": "b", "task": "B", "depends_on": ["a"]}]',
                "the steps 'a' -> 'b' -> 'a' wait for each other; take one 'depends_on' out",
            ),
            (
                '[{"name": "a", "task": "A"}, {"name": "a", "task": "B"}]',
                "2 steps are named 'a'; give each a name of its own",
            ),
            (
                '["x", ""]',
                'step 2 is \'\'; a step is a text, or {"name": ..., "task": ..., "depends_on": [...]}',
            ),
        ],
    )
    def test_is_told_what_is_wrong_with_its_plan(self, drive: Drive, plan: str, fault: str) -> None:
        model = scripted(plan, '["x"]')
        tree = plans(ag.chat_agent("planner", model))
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert transcript(events) == [
            f"pe/planner: {plan}",
            f"pe/planner: {refused(fault)}",
            'pe/planner/planner: ["x"]',
            "pe/planner/execute/executor: x done",
        ]
        assert [e.address for e in events[:3]] == ["pe/planner", "pe/planner", "pe/planner{1}"]
        assert sent(model.inputs[1])[-2:] == [f"ai: {plan}", f"human: {refused(fault)}"]

    @pytest.mark.parametrize("plan", ["[]", '{"steps": []}'])
    @pytest.mark.parametrize("parallel", [False, True])
    def test_is_told_that_an_empty_plan_is_none(self, drive: Drive, plan: str, parallel: bool) -> None:
        tree = plans(says("planner", plan, '["x"]'), parallel=parallel)
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert events[1].text.startswith("This plan cannot be used: ")
        assert [event.text for event in events[2:]] == ['["x"]', "x done"]

    def test_fails_after_three_plans(self, drive: Drive) -> None:
        model = scripted("I cannot.", "No.", "Never.", '["x"]')
        runner = ag.Runner(plans(ag.chat_agent("planner", model)))
        told, raised = failing(drive.run(runner, "Go.", thread_id="t"), CheckFailedError)
        wanted = f"pe/planner{{2}}: none of its 3 plans can be used; the last fault: {NO_PLAN}"
        assert str(raised) == wanted
        assert (
            transcript(told)[-1] == f"pe/planner/planner/planner: [error] CheckFailedError({wanted!r})"
        )
        assert told[-1].address == "pe/planner{2}"
        assert [e.text for e in drive.resume(runner, "t")][1:] == ['["x"]', "x done"]

    def test_of_a_composite_runs_again_as_a_whole(self, drive: Drive) -> None:
        planner = ag.sequential("p", [says("p1"), says("p2", "No.", '["x"]')])
        events = list(drive.run(ag.Runner(plans(planner)), "Go."))
        assert [(e.address, str(e.run_path)) for e in events] == [
            ("pe/p/p1", "pe/p/p1"),
            ("pe/p/p2", "pe/p/p1/p2"),
            ("pe/p", "pe/p"),
            ("pe/p{1}/p1", "pe/p/p/p1"),
            ("pe/p{1}/p2", "pe/p/p/p1/p2"),
            ("pe/execute[0]/executor", "pe/p/execute/executor"),
        ]

    def test_counts_its_attempts_anew_in_each_iteration(self, drive: Drive) -> None:
        planner = says("planner", "No.", "No.", '["x"]', "No.", "No.", '["x"]')
        tree = ag.loop("l", [plans(planner)], max_iterations=2)
        assert list(drive.run(ag.Runner(tree), "Go."))[-1].text == "x done"

    def test_may_ask_a_person(self, disk: Disk) -> None:
        tree = plans(ag.human("planner", "Which steps?"))
        assert transcript(disk.run(tree)) == ["pe/planner: [asks] Which steps?"]
        assert transcript(disk.resume(tree, "nonsense"))[1:] == [
            f"pe/planner: {refused(NO_PLAN)}",
            "pe/planner/planner: [asks] Which steps?",
        ]
        assert [e.text for e in disk.resume(tree, "1. x\n2. y")][1:] == ["x done", "y done"]

    def test_may_end_the_run(self, drive: Drive) -> None:
        tree = ag.sequential("s", [plans(gives("planner", ag.Exit())), says("z")])
        assert transcript(drive.run(ag.Runner(tree), "Go.")) == ["s/pe/planner: [exit]"]


class TestAReplanner:
    def test_is_told_that_a_step_is_done_already(self, drive: Drive) -> None:
        model = scripted('[{"name": "a", "task": "A"}]', "Done.")
        tree = plans('[{"name": "a", "task": "A"}]', replanner=ag.chat_agent("r", model))
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert [e.text for e in events[3:]] == [
            refused("the step 'a' is done already; name only steps that are left"),
            "Done.",
        ]
        assert visits(events)[-1] == ("pe/execute[0]/r{1}", "pe/planner/execute/executor/r/r")

    def test_fails_after_three_plans(self, drive: Drive) -> None:
        _, raised = failing(
            drive.run(ag.Runner(plans(replanner=says("r", "[7]"))), "Go."), CheckFailedError
        )
        assert str(raised) == (
            "pe/execute[0]/r{2}: none of its 3 plans can be used; the last fault: step 1 is 7; a step "
            'is a text, or {"name": ..., "task": ..., "depends_on": [...]}'
        )

    def test_may_leave_new_steps_as_a_value(self, drive: Drive) -> None:
        replanner = gives("r", ag.SetValues(plan=["p"]), None)
        told = [e.text for e in drive.run(ag.Runner(plans(replanner=replanner)), "Go.")]
        assert told[1:] == ["x done", "p done"]

    def test_may_break_the_loop(self, drive: Drive) -> None:
        tree = ag.sequential("s", [plans(replanner=gives("r", ag.BreakLoop())), says("z")])
        assert transcript(drive.run(ag.Runner(tree), "Go."))[1:] == [
            "s/pe/planner/execute/executor: x done",
            "s/pe/planner/execute/executor/r: [break_loop]",
            "s/pe/z: z",
        ]

    def test_may_end_the_run(self, drive: Drive) -> None:
        tree = ag.sequential("s", [plans(replanner=gives("r", ag.Exit())), says("z")])
        assert transcript(drive.run(ag.Runner(tree), "Go."))[2:] == [
            "s/pe/planner/execute/executor/r: [exit]"
        ]


class TestAnExecutor:
    def test_may_break_the_loop(self, drive: Drive) -> None:
        executor = gives("e", "X.", ag.BreakLoop())
        tree = ag.sequential("s", [plans(executor=executor), says("z")])
        assert transcript(drive.run(ag.Runner(tree), "Go."))[1:] == [
            "s/pe/planner/execute/e: X.",
            "s/pe/planner/execute/e/replanner/e: [break_loop]",
            "s/pe/z: z",
        ]

    def test_may_end_the_run(self, drive: Drive) -> None:
        tree = ag.sequential("s", [plans(executor=gives("e", ag.Exit())), says("z")])
        assert transcript(drive.run(ag.Runner(tree), "Go."))[1:] == ["s/pe/planner/execute/e: [exit]"]

    def test_may_ask_a_person(self, disk: Disk) -> None:
        counts: Counter[str] = Counter()

        def fn(ctx: ag.Context) -> str:
            counts["e"] += 1
            return f"{ctx.values['step']}: {ctx.values['told']}"

        executor = ag.sequential(
            "e", [ag.human("h", "How is {step}?", output_key="told"), ag.function_agent("f", fn)]
        )
        tree = plans(executor=executor)
        assert transcript(disk.run(tree))[1:] == ["pe/planner/execute/e/h: [asks] How is x?"]
        assert transcript(disk.resume(tree, "Good."))[1:] == [
            "pe/planner/execute/e/h/f: x: Good.",
            "pe/planner/execute/e/replanner/e/h: [asks] How is y?",
        ]
        assert [e.text for e in disk.resume(tree, "Bad.")] == ["Bad.", "y: Bad."]
        assert counts == Counter(e=2)
        assert disk.events(tree) == disk.told

    def test_that_fails_runs_that_step_again_alone(self, disk: Disk) -> None:
        counts: Counter[str] = Counter()

        def fn(ctx: ag.Context) -> str:
            step = ctx.values["step"]
            counts[step] += 1
            if (step, counts[step]) == ("y", 1):
                raise ValueError("no y")
            return f"{step} done"

        tree = plans(executor=ag.function_agent("e", fn))
        assert transcript(disk.fail(tree, "run", ValueError))[-1].endswith("[error] ValueError('no y')")
        assert [event.text for event in disk.resume(tree)] == ["y done"]
        assert counts == Counter(x=1, y=2)


class TestTheLimit:
    def test_ends_with_the_best_answer_and_tells_it(self, drive: Drive) -> None:
        replanner = says("r", '["y", "w"]', '["w"]')
        tree = plans('["x", "y", "w"]', replanner=replanner, max_iterations=2)
        events = list(drive.run(ag.Runner(ag.sequential("s", [tree, says("z")])), "Go."))
        assert transcript(events)[4:] == [
            's/pe/planner/execute/executor/r/executor/r: ["w"]',
            's/pe: [custom] {"plan_execute": "pe", "ended": "max_iterations", "left": ["w"]}',
            "s/pe: y done",
            "s/pe/z: z",
        ]
        customs = [event for event in events if event.kind == "custom"]
        assert [(e.agent_name, e.address, e.output.custom) for e in customs] == [
            ("pe", "s/pe", {"plan_execute": "pe", "ended": "max_iterations", "left": ["w"]})
        ]

    def test_tells_nothing_where_the_answer_is_there_in_time(self, drive: Drive) -> None:
        tree = plans(replanner=says("r", '["y"]', "Done."), max_iterations=2)
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert [event.text for event in events if event.kind != "message"] == []
        assert events[-1].text == "Done."

    def test_tells_nothing_where_no_step_is_left(self, drive: Drive) -> None:
        events = list(drive.run(ag.Runner(plans(max_iterations=2)), "Go."))
        assert [event.kind for event in events] == ["message"] * 3

    def test_may_be_none(self, drive: Drive) -> None:
        steps = json.dumps([str(i) for i in range(12)])
        events = list(drive.run(ag.Runner(plans(steps, max_iterations=None)), "Go."))
        assert events[-1].text == "11 done"
        assert len(events) == 13

    def test_is_ten_rounds(self, drive: Drive) -> None:
        events = list(drive.run(ag.Runner(plans(json.dumps([str(i) for i in range(12)]))), "Go."))
        assert [e.output.custom["left"] for e in events if e.kind == "custom"] == [["10", "11"]]

    @pytest.mark.parametrize("limit", [0, "x", True])
    def test_that_is_none_is_refused(self, limit: Any) -> None:
        with pytest.raises(ag.InvalidAgentError) as caught:
            ag.compile_agent(plans(max_iterations=limit))
        assert caught.value.faults == (
            f"pe/execute: max_iterations={limit!r} is not a limit; use a whole number from 1, or None "
            "for no bound",
        )


class TestInParallel:
    def test_runs_independent_steps_at_the_same_time(self) -> None:
        together = threading.Barrier(3)

        def fn(ctx: ag.Context) -> str:
            together.wait(timeout=60)
            return f"{ctx.values['step']} met"

        tree = plans('["x", "y", "z"]', ag.function_agent("e", fn), parallel=True)
        told = sorted(e.text for e in ag.Runner(tree).run("Go."))
        assert told == ['["x", "y", "z"]', "x met", "y met", "z met"]

    def test_runs_independent_steps_at_the_same_time_on_the_event_loop(self) -> None:
        async def main() -> list[str]:
            together = asyncio.Barrier(2)

            async def fn(ctx: ag.Context) -> str:
                await asyncio.wait_for(together.wait(), 60)
                return f"{ctx.values['step']} met"

            tree = plans(executor=ag.function_agent("e", fn), parallel=True)
            return [event.text async for event in ag.Runner(tree).arun("Go.")]

        assert sorted(asyncio.run(main())[1:]) == ["x met", "y met"]

    def test_begins_a_step_as_soon_as_its_own_are_done(self) -> None:
        slow, quick = threading.Event(), threading.Event()

        def fn(ctx: ag.Context) -> str:
            step = ctx.values["step"]
            if step == "slow":
                assert slow.wait(60), "the dependent of the quick step did not begin"
            if step == "behind":
                slow.set()
            quick.set()
            return f"{step} done"

        steps = [
            {"name": "s", "task": "slow"},
            {"name": "q", "task": "quick"},
            {"name": "b", "task": "behind", "depends_on": ["q"]},
        ]
        tree = plans(json.dumps(steps), ag.function_agent("e", fn), parallel=True)
        told = [event.text for event in ag.Runner(tree).run("Go.")]
        assert sorted(told[1:]) == ["behind done", "quick done", "slow done"]

    def test_tells_a_step_the_results_of_those_that_it_depends_on_alone(self, drive: Drive) -> None:
        def reply(messages: list[BaseMessage]) -> str:
            return f"r{str(messages[-1].text)[0]}"

        model = scripted(*[reply] * 4)
        tree = plans(DIAMOND, ag.chat_agent("e", model, instruction="Do {step}."), parallel=True)
        events = list(drive.run(ag.Runner(tree), "Go."))
        seen = {messages[0].text: sent(messages[1:]) for messages in model.inputs}
        assert seen == {
            "Do A.": ["human: A"],
            "Do B.": ["human: B\n\na: rA"],
            "Do C.": ["human: C\n\na: rA"],
            "Do D.": ["human: D\n\nb: rB\n\nc: rC"],
        }
        assert sorted({(e.address, str(e.run_path)) for e in events if e.agent_name == "e"}) == [
            (f"pe/execute[0]/pe_steps/e({n})", "pe/planner/execute/pe_steps/e") for n in range(4)
        ]

    def test_tells_later_rounds_what_was_done_before(self, drive: Drive) -> None:
        seen: list[str] = []

        def fn(ctx: ag.Context) -> str:
            seen.append(str(ctx.messages[-1].text))
            return f"r{ctx.values['step']}"

        again = '[{"name": "b", "task": "B", "depends_on": ["a"]}]'
        tree = plans(
            '[{"name": "a", "task": "A"}]',
            ag.function_agent("e", fn),
            says("r", again, "Done."),
            parallel=True,
        )
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert seen == ["A", "B\n\na: rA"]
        assert events[-1].text == "Done."

    def test_keeps_results_in_the_order_of_the_plan(self, drive: Drive) -> None:
        seen: list[dict[str, Any]] = []
        look = ag.function_agent("r", lambda ctx: seen.append(told(ctx.values)))
        tree = plans(DIAMOND, replanner=look, parallel=True)
        list(drive.run(ag.Runner(tree), "Go."))
        assert [step["step"] for step in seen[0]["past_steps"]] == list("ABCD")
        assert (seen[0]["plan"], seen[0]["answer"]) == ([], "D done")

    def test_asks_inside_steps_once_each_and_takes_answers_in_any_order(self, disk: Disk) -> None:
        counts: Counter[str] = Counter()

        def fn(ctx: ag.Context) -> str:
            counts[ctx.values["step"]] += 1
            return f"{ctx.values['step']} done"

        executor = ag.sequential("e", [ag.human("h", "How is {step}?"), ag.function_agent("f", fn)])
        steps = [
            {"name": "x", "task": "x"},
            {"name": "y", "task": "y"},
            {"name": "w", "task": "w", "depends_on": ["x", "y"]},
        ]
        tree = plans(json.dumps(steps), executor, parallel=True)
        asked = {e.action.interrupted.value: e for e in disk.run(tree) if e.kind == "interrupted"}
        assert {value: event.address for value, event in asked.items()} == {
            "How is x?": "pe/execute[0]/pe_steps/e(0)/h",
            "How is y?": "pe/execute[0]/pe_steps/e(1)/h",
        }
        told = disk.resume(tree, {asked["How is y?"].id: "Good."})
        assert [e.id for e in told if e.kind == "interrupted"] == [asked["How is x?"].id]
        told = disk.resume(tree, {asked["How is x?"].id: "Bad."})
        assert [e.action.interrupted.value for e in told if e.kind == "interrupted"] == ["How is w?"]
        told = disk.resume(tree, "Fine.")
        assert [event.text for event in told] == ["Fine.", "w done"]
        assert counts == Counter(x=1, y=1, w=1)

    def test_runs_a_step_that_failed_again_alone(self, disk: Disk) -> None:
        counts: Counter[str] = Counter()

        def fn(ctx: ag.Context) -> str:
            step = ctx.values["step"]
            counts[step] += 1
            if (step, counts[step]) == ("C", 1):
                raise ValueError("no C")
            return f"{step} done"

        tree = plans(DIAMOND, ag.function_agent("e", fn), says("r", "Done."), parallel=True)
        told = disk.fail(tree, "run", ValueError)
        failed = [(e.address, e.error) for e in told if e.kind == "error"]
        assert failed == [("pe/execute[0]/pe_steps/e(2)", "ValueError('no C')")]
        assert disk.resume(tree)[-1].text == "Done."
        assert (counts["A"], counts["C"], counts["D"]) == (1, 2, 1)

    def test_lets_a_step_be_checked(self, drive: Drive) -> None:
        executor = ag.validated(says("e", "no", "yes"), lambda text: text == "yes")
        events = list(drive.run(ag.Runner(plans('["x"]', executor, parallel=True)), "Go."))
        assert [e.address for e in events if e.text in ("no", "yes")] == [
            "pe/execute[0]/pe_steps/e(0)",
            "pe/execute[0]/pe_steps/e(0){1}",
        ]

    @pytest.mark.parametrize(
        ("signal", "line"),
        [(ag.Exit(), "[exit]"), (ag.BreakLoop(), "[break_loop]")],
        ids=["exit", "break_loop"],
    )
    def test_a_step_may_end_it(self, drive: Drive, signal: Any, line: str) -> None:
        def fn(ctx: ag.Context) -> Any:
            return signal if ctx.values["step"] == "y" else "X."

        tree = plans(executor=ag.function_agent("e", fn), parallel=True)
        told = transcript(drive.run(ag.Runner(ag.sequential("s", [tree, says("z")])), "Go."))
        assert f"s/pe/planner/execute/pe_steps/e: {line}" in told
        assert ("s/pe/z: z" in told) == (line == "[break_loop]")

    def test_is_the_same_from_the_thread(self, drive: Drive) -> None:
        runner = ag.Runner(plans(DIAMOND, replanner=says("r", "Done."), parallel=True))
        events = list(drive.run(runner, "Go.", thread_id="t"))
        assert {e.id: e for e in runner.events("t")} == {e.id: e for e in events}


class TestApproval:
    def test_asks_for_the_plan(self, disk: Disk) -> None:
        tree = plans(approve_plan=True)
        asked = disk.run(tree)[-1]
        assert (asked.address, str(asked.run_path)) == ("pe/pe_approval", "pe/planner/pe_approval")
        assert asked.action.interrupted.value == {
            "question": "Go.",
            "plan": [
                {"name": "1", "task": "x", "depends_on": []},
                {"name": "2", "task": "y", "depends_on": []},
            ],
        }
        assert [event.text for event in disk.resume(tree, True)] == ["x done", "y done"]

    @pytest.mark.parametrize("parallel", [False, True])
    def test_takes_another_plan(self, disk: Disk, parallel: bool) -> None:
        tree = plans(approve_plan=True, parallel=parallel)
        disk.run(tree)
        steps = [{"name": "b", "task": "B", "depends_on": ["a"]}, {"name": "a", "task": "A"}]
        assert [event.text for event in disk.resume(tree, steps)] == ["A done", "B done"]

    def test_asks_again_where_the_steps_are_no_plan(self, disk: Disk) -> None:
        tree = plans(approve_plan=True)
        first = disk.run(tree)[-1].action.interrupted
        (event,) = disk.resume(tree, [{"task": "p", "depends_on": ["k"]}])
        second = event.action.interrupted
        assert second.id != first.id
        assert second.value == {
            **first.value,
            "fault": "the step '1' depends on 'k', which is not a step; there are: '1'",
        }
        assert [event.text for event in disk.resume(tree, ["p"])] == ["p done"]

    @pytest.mark.parametrize("answer", [False, "yes", [], 1, {"steps": ["p"]}])
    def test_refuses_an_answer_that_does_not_fit_and_waits_on(self, disk: Disk, answer: Any) -> None:
        tree = plans(approve_plan=True)
        question = disk.run(tree)[-1].action.interrupted
        with pytest.raises(ag.InvalidAnswerError, match="the question is still pending"):
            disk.resume(tree, {question.id: answer})
        assert [event.text for event in disk.resume(tree, True)] == ["x done", "y done"]


class TestSeveral:
    def test_run_in_one_tree(self, drive: Drive) -> None:
        def one(name: str, **options: Any) -> ag.Agent:
            return plans(
                says(f"{name}_p", '["x"]'),
                does(f"{name}_e"),
                says(f"{name}_r", "Done."),
                name,
                **options,
            )

        tree = ag.sequential("s", [one("one"), one("two", max_iterations=3, parallel=True)])
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert visits(events) == [
            ("s/one/one_p", "s/one/one_p"),
            ("s/one/execute[0]/one_e", "s/one/one_p/execute/one_e"),
            ("s/one/execute[0]/one_r", "s/one/one_p/execute/one_e/one_r"),
            ("s/two/two_p", "s/one/two/two_p"),
            ("s/two/execute[0]/two_steps/two_e(0)", "s/one/two/two_p/execute/two_steps/two_e"),
            ("s/two/execute[0]/two_r", "s/one/two/two_p/execute/two_steps/two_r"),
        ]

    def test_share_roles_that_are_equal(self, drive: Drive) -> None:
        planner, executor, replanner = says("p", '["x"]'), does("e"), says("r", "Done.")
        both = [plans(planner, executor, replanner, name) for name in ("one", "two")]
        told = [e.text for e in drive.run(ag.Runner(ag.sequential("s", both)), "Go.")]
        assert told == ['["x"]', "x done", "Done."] * 2

    def test_with_models_of_their_own_need_agents_of_other_names(self) -> None:
        both = [
            ag.plan_execute(name, planner=scripted(name), executor=does("e"), replanner=says("r"))
            for name in ("one", "two")
        ]
        with pytest.raises(ag.InvalidAgentError) as caught:
            ag.compile_agent(ag.sequential("s", [both[0], both[1]]))
        assert (
            "s/two/planner: two agents are named 'planner'; a name means one agent, rename one"
        ) in caught.value.faults

    def test_may_be_inside_each_other(self, drive: Drive) -> None:
        seen: list[dict[str, Any]] = []
        deep: list[dict[str, Any]] = []
        inner = plans(says("ip", '["i", "j"]'), does("ie", deep), name="inner")
        look = ag.function_agent("r", lambda ctx: seen.append(told(ctx.values)))
        tree = plans(executor=inner, replanner=look, name="outer")
        events = list(drive.run(ag.Runner(tree), "Why?"))
        assert visits(events)[:3] == [
            ("outer/outer_planner", "outer/outer_planner"),
            ("outer/execute[0]/inner/ip", "outer/outer_planner/execute/inner/ip"),
            ("outer/execute[0]/inner/execute[0]/ie", "outer/outer_planner/execute/inner/ip/execute/ie"),
        ]
        assert [event.text for event in events if event.agent_name == "ie"] == ["i done", "j done"] * 2
        results = [
            {"step": "x", "result": "j done"},
            {"step": "y", "result": "j done"},
        ]
        assert [(v["plan"], v["step"], v["past_steps"]) for v in seen] == [
            (["y"], "y", results[:1]),
            ([], "", results),
        ]
        assert [(v["plan"], v["past_steps"]) for v in deep[:2]] == [
            (["i", "j"], []),
            (["j"], [{"step": "i", "result": "i done"}]),
        ]

    def test_inside_each_other_do_not_take_the_outer_plan(self, drive: Drive) -> None:
        inner = plans(gives("ip", None), does("ie"), name="inner")
        _, raised = failing(
            drive.run(ag.Runner(plans(executor=inner, name="outer")), "Go."), CheckFailedError
        )
        assert str(raised).startswith("outer/execute[0]/inner/ip{2}: none of its 3 plans")

    def test_run_inside_each_other_side_by_side(self, drive: Drive) -> None:
        seen: list[dict[str, Any]] = []
        inner = plans(says("ip", '["i", "j"]'), does("ie"), name="inner", parallel=True)
        look = ag.function_agent("r", lambda ctx: seen.append(told(ctx.values)))
        tree = plans(executor=inner, replanner=look, name="outer", parallel=True)
        events = list(drive.run(ag.Runner(tree), "Why?"))
        addresses = {event.address for event in events if event.agent_name == "ie"}
        assert addresses == {
            f"outer/execute[0]/outer_steps/inner({a})/execute[0]/inner_steps/ie({b})"
            for a in range(2)
            for b in range(2)
        }
        assert (seen[0]["question"], seen[0]["plan"]) == ("Why?", [])
        assert [step["step"] for step in seen[0]["past_steps"]] == ["x", "y"]

    def test_run_in_branches(self, drive: Drive) -> None:
        branches = [
            plans(says(f"{n}p", f'["{n}1", "{n}2"]'), does(f"{n}e"), name=n, parallel=n == "b")
            for n in "ab"
        ]
        events = list(drive.run(ag.Runner(ag.parallel("p", branches)), "Go."))
        said = {n: [e.text for e in events if e.agent_name == f"{n}e"] for n in "ab"}
        assert said["a"] == ["a1 done", "a2 done"]
        assert sorted(said["b"]) == ["b1 done", "b2 done"]


class TestAsAPart:
    def test_is_a_worker_that_is_a_tool(self, drive: Drive) -> None:
        model = scripted(calls(call("pe", request="Why bees?")), "Done.")
        seen: list[dict[str, Any]] = []
        tree = ag.supervisor("S", model, [plans('["x"]', does("e", seen))])
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert seen[0]["question"] == "Why bees?"
        assert visits(events) == [
            ("S", "S"),
            ("S/pe(0)/planner", "S/pe/planner"),
            ("S/pe(0)/execute[0]/e", "S/pe/planner/execute/e"),
        ]
        assert sent(model.inputs[1])[-1] == "tool: x done"

    def test_is_a_worker_that_is_handed_over_to(self, drive: Drive) -> None:
        model = scripted(calls(call("transfer_to_pe")), "Done.")
        replanner = says("r", '["y"]', '{"answer": "All."}')
        tree = ag.supervisor("S", model, [plans(replanner=replanner)], mode="handoff")
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert visits(events) == [
            ("S", "S"),
            ("S[1]/pe/planner", "S/pe/planner"),
            ("S[1]/pe/execute[0]/executor", "S/pe/planner/execute/executor"),
            ("S[1]/pe/execute[0]/r", "S/pe/planner/execute/executor/r"),
            ("S[1]/pe/execute[1]/executor", "S/pe/planner/execute/executor/r/executor"),
            ("S[1]/pe/execute[1]/r", "S/pe/planner/execute/executor/r/executor/r"),
            ("S[1]/pe", "S/pe"),
            ("S[1.0]", "S/pe/S"),
        ]

    def test_is_handed_over_to_twice(self, drive: Drive) -> None:
        model = scripted(*[calls(call("transfer_to_pe"))] * 2, "Done.")
        planner = says("p", "No.", '["x"]', "No.", '["x"]')
        tree = ag.supervisor("S", model, [plans(planner)], mode="handoff")
        events = list(drive.run(ag.Runner(tree), "Go."))
        addresses = [address for address, _ in visits(events)]
        assert addresses == [
            "S",
            "S[1]/pe/p",
            "S[1]/pe/p{1}",
            "S[1]/pe/execute[0]/executor",
            "S[1.0]",
            "S[1.0.1]/pe/p",
            "S[1.0.1]/pe/p{1}",
            "S[1.0.1]/pe/execute[0]/executor",
            "S[1.0.1.0]",
        ]

    def test_is_checked_as_a_whole(self, drive: Drive) -> None:
        planner = says("p", '["x"]', '["y"]')
        tree = ag.validated(plans(planner), lambda text: text == "y done")
        events = list(drive.run(ag.Runner(tree), "Why?"))
        assert [(e.address, str(e.run_path)) for e in events] == [
            ("pe/p", "pe/p"),
            ("pe/execute[0]/executor", "pe/p/execute/executor"),
            ("pe", "pe"),
            ("pe{1}/p", "pe/pe/p"),
            ("pe{1}/execute[0]/executor", "pe/pe/p/execute/executor"),
        ]

    def test_keeps_its_question_where_it_is_checked_as_a_whole(self, drive: Drive) -> None:
        seen: list[dict[str, Any]] = []
        planner = says("p", '["x"]', '["y"]')
        tree = ag.validated(plans(planner, does("e", seen)), lambda text: text == "y done")
        list(drive.run(ag.Runner(tree), "Why?"))
        assert [values["question"] for values in seen] == ["Why?", "Why?"]

    def test_says_its_answer_to_its_check(self, drive: Drive) -> None:
        texts: list[str] = []
        tree = ag.validated(plans(replanner=says("r", '{"answer": "All."}')), texts.append)
        list(drive.run(ag.Runner(tree), "Why?"))
        assert texts == ["All."]

    def test_draws_what_may_come_next(self) -> None:
        drawn = ag.compile_agent(plans()).get_graph().edges
        assert {f"{e.source} {'..' if e.conditional else '->'} {e.target}" for e in drawn} >= {
            "planner .. planner",
            "replanner .. replanner",
            "executor -> replanner",
        }

    def test_cannot_have_a_planner_that_is_checked_too(self) -> None:
        checked = ag.validated(says("planner"), lambda text: None)
        with pytest.raises(ag.InvalidAgentError) as caught:
            ag.compile_agent(plans(checked))
        assert caught.value.faults == (
            "pe/planner: it has two validated(...) checks; combine them into one",
        )

    def test_may_have_an_executor_that_is_checked_too(self, drive: Drive) -> None:
        checked = ag.validated(says("e", "no", "yes"), lambda text: text == "yes")
        events = list(drive.run(ag.Runner(plans('["x"]', checked)), "Go."))
        assert [e.address for e in events if e.agent_name == "e"] == [
            "pe/execute[0]/e",
            "pe/execute[0]/e",
            "pe/execute[0]/e{1}",
        ]


def test_the_question_is_all_that_the_user_said_last(drive: Drive) -> None:
    seen: list[dict[str, Any]] = []
    runner = ag.Runner(plans('["x"]', does("e", seen)))
    list(drive.run(runner, ["Bees are three.", "Why?"], thread_id="t"))
    assert seen[0]["question"] == "Bees are three.\nWhy?"


def test_a_question_may_hold_braces(drive: Drive) -> None:
    model = scripted("X.")
    tree = plans('["do {this}"]', ag.chat_agent("e", model), says("r", "Done."))
    list(drive.run(ag.Runner(tree), "What is {x}?"))
    assert "answer this question: What is {x}?" in model.inputs[0][0].text
    assert "Your step: do {this}" in model.inputs[0][0].text


def test_a_thread_goes_on_from_another_runner_between_any_two_questions(
    drive: Drive, tmp_path: Path
) -> None:
    def tree() -> ag.Agent:
        return plans(
            ag.human("p", "Steps?"), ag.human("e", "{step}?"), ag.human("r", "Left?"), approve_plan=True
        )

    path = tmp_path / "threads.db"
    told = list(fresh(drive, path, tree(), "run", "Go.", thread_id="t"))
    answers = iter(['["x", "y"]', True, "X.", '["y"]', "Y.", '{"answer": "All."}'])
    asked: list[Any] = []
    while told[-1].kind == "interrupted":
        asked.append(told[-1].action.interrupted.value)
        told += fresh(drive, path, tree(), "resume", "t", next(answers))
    assert [a if isinstance(a, str) else "plan" for a in asked] == [
        "Steps?",
        "plan",
        "x?",
        "Left?",
        "y?",
        "Left?",
    ]
    assert told[-1].text == "All."
    assert list(fresh(drive, path, tree(), "events", "t")) == told
