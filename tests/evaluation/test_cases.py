"""Cases: from Python, from files, and the answers that they give."""

import asyncio
import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from helpers import lines, scripted
from langchain_core.messages import HumanMessage

import agentgraph as ag
from agentgraph.testing import Case, acase_from, call, calls, case_from, evaluate
from agentgraph.testing.evaluation.cases import case_from_dict, case_to_dict, read_cases


def test_a_digest_says_whether_a_case_runs_otherwise() -> None:
    plain = Case("bees", "Go.")
    same = [
        Case("ants", "Go."),
        Case("bees", HumanMessage("Go.", id="1")),
        Case("bees", [("user", "Go.")], values={}, answers=[]),
        Case("bees", "Go.", expected="It went."),
    ]
    other = [
        Case("bees", "Go!"),
        Case("bees", "Go.", values={"day": date(2026, 11, 1)}),
        Case("bees", "Go.", answers={"boss": "yes"}),
        Case("bees", "Go.", before=["Hello."]),
        Case("bees", "Go.", before=["Hello.", "Hello."]),
        Case("bees", "Go.", before=[{"input": "Hello.", "answers": {"boss": "yes"}}]),
    ]
    assert {each.digest for each in same} == {plain.digest}
    assert len({each.digest for each in (plain, *other)}) == 1 + len(other)


def test_a_file_has_a_case_on_each_line(tmp_path: Path) -> None:
    lines = [
        {"id": "bees", "input": "Go.", "expected": {"words": 3}},
        {"id": "ants", "input": [{"role": "user", "content": "Go."}], "answers": {"boss": ["a", 1]}},
        {"id": "more", "input": "Go.", "answers": [["boss", "no"], ["boss", "yes"]], "before": ["Hi."]},
    ]
    file = tmp_path / "cases.jsonl"
    file.write_text("\n\n".join(map(json.dumps, lines)))
    expected = [
        Case("bees", "Go.", expected={"words": 3}),
        Case("ants", [{"role": "user", "content": "Go."}], answers={"boss": ["a", 1]}),
        Case("more", "Go.", answers=[["boss", "no"], ["boss", "yes"]], before=["Hi."]),  # type: ignore[list-item]
    ]
    assert read_cases(file) == read_cases(lines) == read_cases(str(file)) == expected
    assert [each.id for each in read_cases(["Go.", expected[0]])] == ["1", "bees"]


def test_a_text_in_a_file_may_have_ends_of_lines_that_are_not_those_of_files(tmp_path: Path) -> None:
    text = "One\u2028two\x85three\x0c."
    (tmp_path / "c.jsonl").write_text(
        f'{{"id": "a", "input": "{text}"}}\n\r\n{{"id": "b", "input": "Go."}}'.replace("\x0c", "\\f")
    )
    assert [each.input for each in read_cases(tmp_path / "c.jsonl")] == [text, "Go."]


def test_each_question_takes_the_next_answer_of_its_activation() -> None:
    def form(ctx: ag.Context) -> Iterator[Any]:
        yield f"{ctx.answer}"
        if ctx.asked < 3:
            yield ag.Ask("Well?")

    trees = ag.loop(
        "days", [ag.function_agent("form", form), ag.human("boss", "Fine?")], max_iterations=2
    )
    answers: list[tuple[str, Any]] = [
        ("form", "one"),
        ("days[0]/form", "two"),
        ("days/form", "three"),
        ("days/boss", "yes"),
        ("days[1]/form", "four"),
    ]
    (trial,) = evaluate(ag.Runner(trees), [Case("c", "Go.", answers=answers)], (), name="e").trials
    assert trial.result is not None
    assert (trial.status, trial.result.pending) == ("done", ())
    texts = [each.text for each in trial.result.events if each.text]
    assert texts == ["None", "one", "two", "three", "yes", "None", "one", "three", "four", "yes"]


def pay(euros: int) -> str:
    """Pay."""
    return "Paid."


def shop() -> ag.Agent:
    def form(ctx: ag.Context) -> Iterator[Any]:
        yield f"{ctx.answer}"
        if ctx.asked < 2:
            yield ag.Ask("Well?")

    replies = [calls(call("pay", euros=5)), "Done."] * 2
    clerk = ag.chat_agent("clerk", scripted(*replies), tools=[pay], approve=["pay"])
    both = ag.parallel("both", [ag.human("a", "A?"), ag.human("b", "B?")])
    return ag.sequential("shop", [ag.function_agent("form", form), clerk, both])


def test_a_case_is_made_from_a_thread(tmp_path: Path) -> None:
    runner = ag.Runner(shop())
    runner.invoke("Go.", thread_id="shops/7", values={"day": date(2026, 11, 1)})
    for answer in ("one", "two", "approve", {"shop/both/b": "no"}, "yes"):
        runner.invoke(thread_id="shops/7", answers=answer)
    runner.invoke([HumanMessage([{"type": "text", "text": "More."}])], thread_id="shops/7")
    runner.invoke(thread_id="shops/7", answers="three")
    case = case_from(runner, "shops/7")
    assert case == asyncio.run(acase_from(runner, "shops/7"))
    assert (case.id, case.expected, [*case.answers]) == ("shops-7", "three", [("shop/form", "three")])
    (earlier,) = case.before
    assert earlier == {
        "input": "Go.",
        "values": {"day": date(2026, 11, 1)},
        "answers": (
            *(("shop/form", "one"), ("shop/form", "two")),
            ("shop/clerk", {"decisions": [{"type": "approve"}]}),
            *(("shop/both/b", "no"), ("shop/both/a", "yes")),
        ),
    }
    read = case_from_dict(json.loads(json.dumps(case_to_dict(case))))
    assert read.digest == case.digest
    repeated = ag.Runner(shop())
    evaluate(repeated, [read], (), name="e")
    turns = [each.thread(at).turns for each, at in ((repeated, "e/shops-7/0"), (runner, "shops/7"))]
    said = [[sorted(lines(turn.events)) for turn in each] for each in turns]
    assert said[0] == said[1]
    assert rejected(lambda: case_from(runner, "other")) == (
        "thread 'other' is not known to this saver; start it with run(..., thread_id='other'), or look "
        "whether the saver is the one that ran it"
    )


def rejected(make: Any) -> str:
    with pytest.raises(ag.AgentGraphError) as caught:
        make()
    return str(caught.value)


WRONG: list[tuple[Any, str]] = [
    (lambda: Case("a/b", "Go."), "case 'a/b': not a valid id; use letters, digits, spaces and _ - ."),
    (lambda: Case("..", "Go."), "case '..': not a valid id; use letters, digits, spaces and _ - ."),
    (
        lambda: Case("a", 5),  # type: ignore[arg-type]
        "case 'a': 5 cannot be read as messages (Unsupported message type: <class 'int'>); pass a "
        "text, a LangChain message, or a list of messages",
    ),
    (
        lambda: Case("a", "Go.", answers="yes"),
        "case 'a': answers='yes': pass a dict by address, such as {\"report/boss\": \"yes\"}, or pairs "
        "of address and answer",
    ),
    (
        lambda: Case("a", "Go.", before="Hi."),
        "case 'a': before='Hi.' is not a list of inputs; pass one",
    ),
    (
        lambda: Case("a", "Go.", before=[{"input": "Hi.", "value": 1}]),
        "case 'a': 'value' is not a field of a turn; choose from: input, values, answers",
    ),
    (
        lambda: read_cases([{"id": "a", "text": "Go."}]),
        "a case without input: {'id': 'a', 'text': 'Go.'}; add it",
    ),
    (
        lambda: read_cases([{"id": "a", "input": "Go.", "expect": 1}]),
        "'expect' is not a field of a case; choose from: id, input, values, answers, expected, before",
    ),
    (
        lambda: read_cases([5]),  # type: ignore[list-item]
        "cases: item 1 is 5; use a Case, a dict of its fields, or an input as text",
    ),
    (
        lambda: read_cases({"id": "a"}),  # type: ignore[arg-type]
        "cases={'id': 'a'}: pass the path of a file, or a list of cases, such as "
        '[Case("bees", "Write on bees.")]',
    ),
    (
        lambda: read_cases("no.jsonl"),
        "the cases no.jsonl cannot be read (No such file or directory); name a file of JSON lines",
    ),
]


@pytest.mark.parametrize(("make", "text"), WRONG)
def test_a_wrong_case_is_rejected(make: Any, text: str) -> None:
    assert rejected(make) == text


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("5", "5 is not a case; write an object with id and input"),
        ('{"id": 1, "input": "Go."}', "case 1: not a valid id; use letters, digits, spaces and _ - ."),
    ],
)
def test_a_wrong_line_is_named(line: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text(f'{{"id": "a", "input": "Go."}}\n{line}\n')
    assert rejected(lambda: read_cases(tmp_path / "c.jsonl")) == f"{tmp_path}/c.jsonl, line 2: {text}"
