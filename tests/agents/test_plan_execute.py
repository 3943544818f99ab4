"""Plan and execute: what its models are sent, its limit, and when steps begin.

The results of its agents, and its ends, are in `tests/transcripts/plans.txt`.
"""

import json
import threading
from typing import Any

import pytest
from helpers import Drive, does, gives, says, scripted, sent
from langchain_core.messages import SystemMessage

import agentgraph as ag

SERIAL = """Reply with the plan as JSON alone: {"steps": ["...", "..."]}, each step a task that can be \
done by itself, in the order in
which they are to be done."""
PARALLEL = """Reply with the plan as JSON alone: {"steps": [{"name": "...", "task": "...", \
"depends_on": []}]}. Each step is a
task that can be done by itself; depends_on names the steps whose results it needs. Steps that do not
depend on each other are done at the same time."""
REPLY = """Reply with JSON alone. If the question can be answered now: {"answer": "..."}. Else the
steps that are still to be done: """


def plans(
    planner: Any = '["x", "y"]', executor: Any = None, replanner: Any = None, **options: Any
) -> Any:
    """Return a `plan_execute`; by default of functions."""
    planner = says("planner", planner) if isinstance(planner, str) else planner
    roles = {"executor": executor or does("e"), "replanner": replanner or gives("r", None)}
    return ag.plan_execute("pe", planner=planner, **roles, **options)


@pytest.mark.parametrize(("parallel", "form"), [(False, SERIAL), (True, PARALLEL)])
def test_models_are_sent_their_task_and_the_form_of_the_reply(
    drive: Drive, parallel: bool, form: str
) -> None:
    planner, executor, replanner = models = scripted('["x"]'), scripted("X."), scripted("Done.")
    roles = dict(zip(("planner", "executor", "replanner"), models, strict=True))
    list(drive.run(ag.Runner(ag.plan_execute("pe", **roles, parallel=parallel)), "What is {x}?"))
    assert sent(planner.inputs[0]) == (
        f"system: Make a plan that answers the question.\n\n{form} | human: What is {{x}}?"
    )
    seen = "x" if parallel else 'What is {x}? | human: [planner] said: ["x"]'
    assert sent(executor.inputs[0]) == (
        "system: You carry out one step of a plan that is to answer this question: What is {x}?\n\n"
        f"Your step: x\nReply with its result alone. | human: {seen}"
    )
    done = [{"step": "x", "result": "X."}]
    assert sent(replanner.inputs[0]) == (
        f"system: The question: What is {{x}}?\nDone so far: {json.dumps(done)}\nStill planned: []\n\n"
        f"{REPLY}{form[form.index('{') :]} | human: What is {{x}}?"
    )


@pytest.mark.parametrize(
    ("instruction", "begins"),
    [
        ("", "Make a plan that answers the question."),
        ("Plan for {question?}bees.", "Plan for bees."),
        (lambda ctx: f"Plan, {ctx.name}.", "Plan, p."),
        (SystemMessage("Plan {well}."), "Plan {well}."),
        (lambda ctx: SystemMessage("Plan {well}."), "Plan {well}."),
    ],
    ids=["no instruction", "a template", "a function", "a message", "a function of a message"],
)
def test_a_chat_agents_instruction_is_followed_by_the_form(instruction: Any, begins: str) -> None:
    model = scripted('["x"]')
    list(ag.Runner(plans(ag.chat_agent("p", model, instruction=instruction))).run("Go."))
    assert sent(model.inputs[0]) == f"system: {begins}\n\n{SERIAL} | human: Go."


def test_an_instruction_that_names_the_step_is_left_as_it_is() -> None:
    model = scripted("X.")
    executor = ag.chat_agent("e", model, instruction="Do {step}, of {plan}.")
    list(ag.Runner(plans('["x"]', executor)).run("Go."))
    assert model.inputs[0][0].text == 'Do x, of ["x"].'


@pytest.mark.parametrize(("options", "left"), [({}, ["10", "11"]), ({"max_iterations": None}, [])])
def test_it_ends_after_ten_rounds_by_default(options: Any, left: list[str]) -> None:
    steps = [str(number) for number in range(12)]
    events = list(ag.Runner(plans(json.dumps(steps), **options)).run("Go."))
    assert len([event for event in events if event.agent_name == "e"]) == 12 - len(left)
    assert [event.output.custom["left"] for event in events if event.kind == "custom"] == (
        [left] if left else []
    )


def test_a_parallel_step_begins_as_soon_as_those_that_it_depends_on_are_done() -> None:
    has_begun = threading.Event()

    def fn(ctx: ag.Context) -> str:
        if ctx.values["step"] == "slow":
            assert has_begun.wait(60), "the step after the quick one did not begin"
        if ctx.values["step"] == "after quick":
            has_begun.set()
        return "done"

    quick, after = {"name": "q", "task": "quick"}, {"task": "after quick", "depends_on": ["q"]}
    steps = json.dumps(["slow", quick, after])
    events = ag.Runner(plans(steps, ag.function_agent("e", fn), parallel=True)).run("Go.")
    assert [event.text for event in events] == [steps, "done", "done", "done"]
