"""Plans in the words of planners and replanners: accepted ones, and errors of rejected ones."""

from typing import Any

import pytest

from agentgraph.agents.prebuilt.plans import PlanStep, as_values, from_data, read_plan, read_reply

FORM = 'a step is a text, or {"name": ..., "task": ..., "depends_on": [...]}'
NO_PLAN = 'it is not a plan; a plan is JSON such as {"steps": ["...", "..."]}'


def shown(steps: Any) -> list[str]:
    """Return steps as `name: task < what it depends on`."""
    return [" < ".join([f"{step.name}: {step.task}", *step.depends_on]) for step in steps]


@pytest.mark.parametrize(
    "given",
    [
        '["Find", "Write"]',
        '{"steps": ["Find", "Write"]}',
        '{"plan": ["Find", "Write"]}',
        'Here it is:\n```json\n{"steps": ["Find", "Write"]}\n```',
        "1. Find\n2. Write",
        "1) Find\n\n2) Write\n",
        "- Find\n* Write",
        "• Find\n  • Write",
        '[{"task": "Find"}, {"step": "Write"}]',
        '[{"name": "1", "description": "Find"}, "Write"]',
        ["Find", "Write"],
        {"steps": ["Find", {"task": "Write"}]},
    ],
)
def test_a_plan_is_read_from_each_of_its_forms(given: Any) -> None:
    assert shown(read_plan(given)) == ["1: Find", "2: Write"]


WRITE = {"name": "write", "task": "Write", "depends_on": ["find", 3]}
FIND = {"id": "find", "task": "Find", "dependencies": []}
ASK = {"id": 3, "task": "Ask", "depends_on": None}


@pytest.mark.parametrize(
    ("given", "done", "steps"),
    [
        (["c", "a", "b"], [], ["1: c", "2: a", "3: b"]),
        ([WRITE, FIND, ASK], [], ["find: Find", "3: Ask", "write: Write < find < 3"]),
        ([{"name": "b", "task": "B", "depends_on": ["a"]}], ["a"], ["b: B < a"]),
        (["x", "y"], ["1", "2"], ["3: x", "4: y"]),
        (["x", "y"], ["3"], ["2: x", "4: y"]),
        ([{"name": "2", "task": "A"}, "B"], [], ["2: A", "1: B"]),
    ],
)
def test_steps_come_after_their_dependencies_and_unnamed_ones_get_unused_numbers(
    given: Any, done: list[str], steps: list[str]
) -> None:
    assert shown(read_plan(given, done)) == steps


def a(*depends_on: str) -> dict[str, Any]:
    return {"name": "a", "task": "A", "depends_on": [*depends_on]}


ON_TEXT = {"task": "B", "depends_on": "a"}


@pytest.mark.parametrize(
    ("given", "done", "fault"),
    [
        *((each, [], NO_PLAN) for each in ("", "I cannot.", "1. Find\nand then\n2. Write", "7")),
        *((each, [], NO_PLAN) for each in ("null", '{"answer": "42"}', None, 7, {})),
        *(
            (["Find", step], [], f"step 2 is {step!r}; {FORM}")
            for step in ("", "  ", 7, None, [], {"name": "a"}, {"task": ""}, ON_TEXT)
        ),
        ([a("z"), "B"], [],
         "the step 'a' depends on 'z', which is not a step; choose one of: 'a', '1'"),
        ([a("b"), {"name": "b", "task": "B", "depends_on": ["a"]}], [],
         "the steps 'a' -> 'b' -> 'a' wait for each other; take one 'depends_on' out"),
        ([a("a")], [], "the steps 'a' -> 'a' wait for each other; take one 'depends_on' out"),
        ([a()], ["a"], "the step 'a' is done already; name only steps that are left"),
        ([a("z"), a("y")], [],
         "2 steps are named 'a'; give each its own name; "
         "the step 'a' depends on 'y', which is not a step; choose one of: 'a'"),
    ],
)  # fmt: skip
def test_what_is_not_a_plan_is_refused_with_all_its_faults(
    given: Any, done: list[str], fault: str
) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        read_plan(given, done)
    assert str(refused.value) == fault


@pytest.mark.parametrize(
    ("given", "reply"),
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
        ('["Write"]', ["2: Write"]),
        ('{"steps": ["Write"]}', ["2: Write"]),
        ("1. Write", ["2: Write"]),
        (["Write"], ["2: Write"]),
        ('{"answer": null, "steps": ["Write"]}', ["2: Write"]),
        ("[]", []),
        ('{"steps": []}', []),
        ([], []),
    ],
)
def test_a_reply_is_the_answer_or_the_steps_that_are_left(given: Any, reply: str | list[str]) -> None:
    found = read_reply(given, ["1"])
    assert (found if isinstance(found, str) else shown(found)) == reply


def test_a_reply_that_looks_like_a_plan_must_be_one() -> None:
    with pytest.raises(ValueError, match=r"^step 1 is 7; a step is a text"):
        read_reply("[7]", ["1"])


def test_steps_go_through_plain_data() -> None:
    steps = [PlanStep("a", "A"), PlanStep("b", "B", ("a",))]
    assert from_data([step.as_data() for step in steps]) == steps
    assert steps[1].as_data() == {"name": "b", "task": "B", "depends_on": ["a"]}
    assert as_values(steps) == [step.as_data() for step in steps]
    assert as_values(steps[:1]) == ["A"]
