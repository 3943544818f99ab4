"""Small trees of derived agents, as one would write them first, with models that follow a script."""

from typing import Any

import pytest

import agentgraph as ag
from agentgraph.errors import StepFailedError
from agentgraph.testing import ScriptedChatModel, call, calls, transcript


def test_a_supervisor_with_workers_as_tools() -> None:
    search = ag.chat_agent("search", ScriptedChatModel(responses=["20,000 species."]))
    write = ag.chat_agent("write", ScriptedChatModel(responses=["Bees: 20,000 species."]))
    both = calls(call("search", request="How many bees?"), call("write", request="A line on bees."))
    model = ScriptedChatModel(responses=[both, "There are 20,000 species of bees."])
    boss = ag.supervisor("boss", model, [search, write])
    told = transcript(ag.Runner(boss).query("Tell me about bees."))
    assert sorted(told[1:5]) == [
        "boss/search: 20,000 species.",
        "boss/write: Bees: 20,000 species.",
        "boss: 20,000 species.",
        "boss: Bees: 20,000 species.",
    ]
    assert told[5:] == ["boss: There are 20,000 species of bees."]


def test_a_supervisor_that_hands_over() -> None:
    search = ag.chat_agent("search", ScriptedChatModel(responses=["20,000 species."]))
    write = ag.chat_agent("write", ScriptedChatModel(responses=["Bees abound."]))
    turns = [calls(call("transfer_to_search")), calls(call("transfer_to_write")), "Done."]
    boss = ag.supervisor("boss", ScriptedChatModel(responses=turns), [search, write], mode="handoff")
    told = [e for e in ag.Runner(boss).query("Tell me about bees.") if e.kind == "message" and e.text]
    assert [line for line in transcript(told) if "Transferred" not in line] == [
        "boss/search: 20,000 species.",
        "boss/search/boss/write: Bees abound.",
        "boss/search/boss/write/boss: Done.",
    ]


def test_a_plan_that_is_executed_step_by_step() -> None:
    tree = ag.plan_execute(
        "pe",
        planner=ScriptedChatModel(responses=['["Count bees", "Write"]']),
        executor=ScriptedChatModel(responses=["20,000.", "Bees: 20,000."]),
        replanner=ScriptedChatModel(responses=['["Write"]', '{"answer": "20,000 species."}']),
    )
    assert transcript(ag.Runner(tree).query("How many bees?")) == [
        'pe/planner: ["Count bees", "Write"]',
        "pe/planner/execute/executor: 20,000.",
        'pe/planner/execute/executor/replanner: ["Write"]',
        "pe/planner/execute/executor/replanner/executor: Bees: 20,000.",
        'pe/planner/execute/executor/replanner/executor/replanner: {"answer": "20,000 species."}',
        "pe: 20,000 species.",
    ]


def test_a_plan_whose_steps_run_at_the_same_time() -> None:
    def work(ctx: ag.Context) -> str:
        return f"{ctx.values['step']}: done"

    tree = ag.plan_execute(
        "pe",
        planner=ScriptedChatModel(responses=['["Count bees", "Count wasps"]']),
        executor=ag.function_agent("work", work),
        replanner=ScriptedChatModel(responses=["Both are counted."]),
        parallel=True,
    )
    told = transcript(ag.Runner(tree).query("How many?"))
    assert sorted(told[1:3]) == [
        "pe/planner/execute/pe_steps/work: Count bees: done",
        "pe/planner/execute/pe_steps/work: Count wasps: done",
    ]
    assert told[3:] == ["pe/planner/execute/pe_steps/replanner: Both are counted."]


def test_a_workflow_that_undoes_what_it_did() -> None:
    undone = []

    def book(ctx: ag.Context) -> str:
        return "Booked."

    def cancel(ctx: ag.Context) -> None:
        undone.append(ctx.messages[-1].text)

    def pay(ctx: ag.Context) -> str:
        raise ValueError("no money")

    booking = ag.step(ag.function_agent("book", book), compensate=cancel)
    payment = ag.step(ag.function_agent("pay", pay), depends_on=["book"])
    runner = ag.Runner(ag.workflow("trip", [booking, payment]))
    with pytest.raises(StepFailedError) as caught:
        list(runner.query("To Rome."))
    assert (caught.value.step, caught.value.undone) == ("pay", ("book",))
    assert len(undone) == 1


def test_a_writer_whose_work_is_checked() -> None:
    writer = ag.chat_agent("writer", ScriptedChatModel(responses=["Bees!", "Bees dance at noon."]))

    def long_enough(text: str) -> str | None:
        return None if len(text.split()) > 2 else "it is too short"

    assert transcript(ag.Runner(ag.validated(writer, long_enough)).query("Bees?")) == [
        "writer: Bees!",
        "writer: This did not pass a check: it is too short\nDo it again, with that put right.",
        "writer/writer: Bees dance at noon.",
    ]


def test_a_writer_with_helpers() -> None:
    model = ScriptedChatModel(responses=["Bees dance, cheerfully."])
    facts = ag.chat_agent("facts", ScriptedChatModel(responses=["Bees dance."]))
    tone = ag.chat_agent("tone", ScriptedChatModel(responses=["Cheerful."]))
    tree = ag.with_helpers(ag.chat_agent("writer", model), [facts, tone])
    told = transcript(ag.Runner(tree).query("Bees?"))
    assert told[-1] == "writer_with_helpers/writer_helpers/writer: Bees dance, cheerfully."
    assert [message.text for message in model.inputs[0]] == [
        "Bees?",
        "[facts] said: Bees dance.",
        "[tone] said: Cheerful.",
    ]


@pytest.mark.parametrize(("on_error", "last"), [("collect", "s/p/z: z"), ("first", "s/p/z: z")])
def test_a_parallel_that_lives_with_a_failure(on_error: Any, last: str) -> None:
    def broken(ctx: ag.Context) -> str:
        raise ValueError("no bees")

    def works(ctx: ag.Context) -> str:
        return ctx.name

    branches = [ag.function_agent("a", broken), ag.function_agent("b", works)]
    both = ag.parallel("p", branches, on_error=on_error)
    told = transcript(ag.Runner(ag.sequential("s", [both, ag.function_agent("z", works)])).query("Go."))
    assert "s/p/b: b" in told
    assert told[-1] == last
