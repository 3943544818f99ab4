"""Plans as planners and replanners say them: what is read, and what is refused with which words."""

from typing import Any

import pytest

from agentgraph.agents.prebuilt.plans import PlanStep, from_data, read_plan, read_reply

FORM = '{"name": ..., "task": ..., "depends_on": [...]}'
NO_PLAN = 'it is not a plan; a plan is JSON such as {"steps": ["...", "..."]}'


def tasks(steps: Any) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(step.name, step.task, step.depends_on) for step in steps]


def fault(given: Any, *done: str) -> str:
    with pytest.raises(ValueError, match=r".") as caught:
        read_plan(given, done)
    return str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        '["Find", "Write"]',
        '{"steps": ["Find", "Write"]}',
        '{"plan": ["Find", "Write"]}',
        '```json\n["Find", "Write"]\n```',
        'Here it is:\n```json\n{"steps": ["Find", "Write"]}\n```',
        "1. Find\n2. Write",
        "1) Find\n\n2) Write\n",
        "- Find\n- Write",
        "* Find\n• Write",
        '[{"task": "Find"}, {"step": "Write"}]',
        '[{"name": "1", "description": "Find"}, "Write"]',
        ["Find", "Write"],
        {"steps": ["Find", {"task": "Write"}]},
    ],
)
def test_a_plan_is_read_from_each_of_its_forms(given: Any) -> None:
    assert tasks(read_plan(given)) == [("1", "Find", ()), ("2", "Write", ())]


def test_steps_may_have_names_and_depend_on_each_other() -> None:
    given = [
        {"name": "write", "task": "Write", "depends_on": ["find", 3]},
        {"id": "find", "task": "Find", "dependencies": []},
        {"id": 3, "task": "Ask", "depends_on": None},
    ]
    assert tasks(read_plan(given)) == [
        ("find", "Find", ()),
        ("3", "Ask", ()),
        ("write", "Write", ("find", "3")),
    ]


def test_steps_that_depend_on_nothing_keep_their_order() -> None:
    assert [step.task for step in read_plan(["c", "a", "b"])] == ["c", "a", "b"]


def test_steps_may_depend_on_what_is_done() -> None:
    steps = read_plan([{"name": "b", "task": "B", "depends_on": ["a"]}], ["a"])
    assert tasks(steps) == [("b", "B", ("a",))]


def test_steps_without_a_name_are_numbered_on_from_what_is_done() -> None:
    assert [step.name for step in read_plan(["x", "y"], ["1", "2"])] == ["3", "4"]


def test_a_text_of_several_lines_is_no_list_where_a_line_has_no_number() -> None:
    assert fault("1. Find\nand then\n2. Write") == NO_PLAN


@pytest.mark.parametrize("given", ["", "I cannot.", "7", "null", '{"answer": "42"}', None, 7, {}])
def test_what_is_no_plan_is_refused(given: Any) -> None:
    assert fault(given) == NO_PLAN


@pytest.mark.parametrize("step", ["", "  ", 7, None, [], {"name": "a"}, {"task": ""}])
def test_a_step_that_is_none_is_refused(step: Any) -> None:
    assert fault(["Find", step]) == f"step 2 is {step!r}; a step is a text, or {FORM}"


def test_dependencies_that_are_no_list_are_refused() -> None:
    step = {"task": "Find", "depends_on": "all"}
    assert fault([step]) == f"step 1 is {step!r}; a step is a text, or {FORM}"


def test_a_dependency_on_an_unknown_step_is_refused() -> None:
    given = [{"name": "a", "task": "A", "depends_on": ["z"]}, {"name": "b", "task": "B"}]
    assert fault(given) == "the step 'a' depends on 'z', which is not a step; there are: 'a', 'b'"


def test_steps_that_wait_for_each_other_are_refused() -> None:
    given = [
        {"name": "a", "task": "A", "depends_on": ["b"]},
        {"name": "b", "task": "B", "depends_on": ["a"]},
    ]
    assert fault(given) == (
        "the steps 'a' -> 'b' -> 'a' wait for each other; take one 'depends_on' out"
    )


def test_a_step_that_waits_for_itself_is_refused() -> None:
    given = [{"name": "a", "task": "A", "depends_on": ["a"]}]
    assert fault(given) == "the steps 'a' -> 'a' wait for each other; take one 'depends_on' out"


def test_steps_of_one_name_are_refused() -> None:
    given = [{"name": "a", "task": "A"}, {"name": "a", "task": "B"}]
    assert fault(given) == "2 steps are named 'a'; give each a name of its own"


def test_a_step_that_is_done_is_refused() -> None:
    given = [{"name": "a", "task": "A"}]
    assert fault(given, "a") == "the step 'a' is done already; name only steps that are left"


def test_several_faults_are_told_at_once() -> None:
    given = [{"name": "a", "task": "A", "depends_on": ["z"]}, {"name": "a", "task": "B"}]
    assert fault(given).startswith("2 steps are named 'a'; give each a name of its own")


def test_a_step_without_a_name_takes_no_number_that_another_one_has() -> None:
    steps = read_plan([{"name": "2", "task": "A"}, "B"])
    assert [step.task for step in steps] == ["A", "B"]
    assert len({step.name for step in steps}) == 2


def test_a_step_without_a_name_takes_no_number_that_is_done() -> None:
    assert [step.task for step in read_plan(["B", "C"], ["3"])] == ["B", "C"]


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ("It is three.", "It is three."),
        ('{"answer": "It is three."}', "It is three."),
        ('{"response": "Three."}', "Three."),
        ('{"final_answer": 3}', "3"),
        ('```json\n{"answer": "Three."}\n```', "Three."),
        ('{"answer": "Three.", "steps": []}', "Three."),
        ("3", "3"),
        ("true", "true"),
        ('{"bees": 3}', '{"bees": 3}'),
        ("Found:\n1. Bees\n2. Wasps", "Found:\n1. Bees\n2. Wasps"),
        ("[1] says three.", "[1] says three."),
    ],
)
def test_a_reply_may_be_the_answer(given: Any, answer: str) -> None:
    assert read_reply(given, []) == answer


@pytest.mark.parametrize(
    "given",
    [
        '["Write"]',
        '{"steps": ["Write"]}',
        "1. Write",
        ["Write"],
        '{"answer": null, "steps": ["Write"]}',
    ],
)
def test_a_reply_may_be_the_steps_that_are_left(given: Any) -> None:
    reply = read_reply(given, ["1"])
    assert not isinstance(reply, str)
    assert tasks(reply) == [("2", "Write", ())]


@pytest.mark.parametrize("given", ["[]", '{"steps": []}', []])
def test_a_reply_may_say_that_nothing_is_left(given: Any) -> None:
    assert read_reply(given, ["1"]) == []


def test_a_reply_that_is_meant_as_a_plan_and_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^step 1 is 7; a step is a text"):
        read_reply("[7]", ["1"])


def test_steps_go_through_plain_data() -> None:
    steps = [PlanStep("a", "A"), PlanStep("b", "B", ("a",))]
    assert from_data([step.as_data() for step in steps]) == steps
    assert steps[1].as_data() == {"name": "b", "task": "B", "depends_on": ["a"]}
