"""Approvals at the command line: how their questions are shown, and what a person may type."""

from io import StringIO
from typing import Any

import pytest
from helpers import Drive, asks, scripted
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from rich.console import Console

import agentgraph as ag
from agentgraph.cli.answers import AnswerError, choices_of, given_answers
from agentgraph.show.approvals import question_line, question_text
from agentgraph.show.lines import print_event
from agentgraph.testing import call, calls

ALL = ("approve", "edit", "reject", "respond")


def mail(to: str, text: str = "", copies: int = 0) -> str:
    """Send a mail."""
    return f"mailed {to}, {copies}: {text}"


def pay(euros: int) -> str:
    """Pay money back."""
    return f"paid {euros}"


MAIL, PAY = call("mail", to="ann", text="Hello.\nBye."), call("pay", euros=180)


def clerk(*made: Any, mode: Any = "batched", **allowed: list[str]) -> ag.Agent:
    rules = {name: {"allowed_decisions": list(kinds)} for name, kinds in allowed.items()}
    approve: Any = {"mail": True, "pay": True, **rules}
    model = scripted(calls(*made), "Done.")
    return ag.chat_agent("clerk", model, tools=[mail, pay], approve=approve, interrupt_mode=mode)


def asked(drive: Drive, tree: ag.Agent) -> tuple[ag.Runner, list[ag.Interrupt], str]:
    """Return a runner whose thread has paused, the questions, and the lines of the last event."""
    runner, file = ag.Runner(tree), StringIO()
    events = list(drive.run(runner, "Go.", thread_id="t"))
    print_event(Console(file=file, highlight=False, markup=False, emoji=False), events[-1])
    return runner, list(runner.pending("t")), file.getvalue()


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_a_call_is_shown_with_its_arguments_and_the_possible_answers(drive: Drive, mode: str) -> None:
    _, (question,), shown = asked(drive, clerk(MAIL, mode=mode))
    assert shown.splitlines() == [
        "clerk: [asks] Run mail?",
        "      to: ann",
        "      text: Hello.",
        "          Bye.",
        "    Answers: approve, edit: {ARGUMENTS}, reject, reject: REASON, respond: RESULT",
    ]
    assert question_line(question) == "Run mail?"
    assert choices_of(question) == [*ALL]


def test_several_calls_are_numbered_and_show_decisions_that_differ(drive: Drive) -> None:
    _, (question,), shown = asked(drive, clerk(MAIL, PAY, pay=["approve", "reject"]))
    assert shown.splitlines() == [
        "clerk: [asks] Run 2 calls?",
        "      1. mail (approve, edit, reject, respond)",
        "         to: ann",
        "         text: Hello.",
        "             Bye.",
        "      2. pay (approve, reject)",
        "         euros: 180",
        "    Answers: approve, edit: {ARGUMENTS}, reject, reject: REASON, respond: RESULT; one for all "
        "calls, or one for each, with commas",
    ]
    assert question_line(question) == "Run 2 calls? mail, pay"
    assert choices_of(question) == ["approve", "reject"]


@pytest.mark.parametrize("flat", [True, False])
def test_calls_of_a_langchain_agent_are_shown_alike(drive: Drive, flat: bool) -> None:
    rule: Any = {"allowed_decisions": ["approve"], "description": "Refund"}
    stop = HumanInTheLoopMiddleware({"pay": rule})
    agent = create_agent(scripted(calls(PAY), "Done."), [pay], middleware=[stop])
    runner, questions, shown = asked(drive, ag.graph_agent("desk", agent, flat=flat))
    first, *lines = shown.splitlines()
    assert first.endswith(": [asks] Run pay?")
    assert lines == [
        "      Refund",
        "      euros: 180",
        "    Answers: approve",
    ]
    answers = given_answers(["approve"], questions)
    assert runner.invoke(thread_id="t", answers=answers).text == "Done."


def test_text_that_looks_like_json_has_quotes_and_cannot_pass_for_a_line(drive: Drive) -> None:
    made = call("mail", to="5", text="x\n  2. pay\n\x1b[2J", copies=5)
    _, (question,), shown = asked(drive, clerk(made))
    assert shown.splitlines()[1:5] == [
        '      to: "5"',
        "      text: x",
        "            2. pay",
        "          ",
    ]
    assert "copies: 5" in question_text(question)


def test_other_questions_are_shown_as_they_are(drive: Drive) -> None:
    _, (question,), shown = asked(drive, asks("boss"))
    assert (shown, question_line(question)) == (f"boss: [asks] {question.value}\n", question.value)


EDITED = "mailed bob, 0: Hello.\nBye."
REJECTED = "User rejected the tool call for `mail` with reason: no, approve it later"


@pytest.mark.parametrize("mode", ["batched", "per_call"])
@pytest.mark.parametrize(
    ("typed", "result"),
    [
        ("approve", "mailed ann, 0: Hello.\nBye."),
        (" Approve ", "mailed ann, 0: Hello.\nBye."),
        ("reject: no, approve it later", REJECTED),
        ("reject: a=b", "User rejected the tool call for `mail` with reason: a=b"),
        ("respond: Ann knows, approve", "Ann knows, approve"),
        ('edit: {"to": "bob"}', EDITED),
        ('edit: {"copies": 2}', "mailed ann, 2: Hello.\nBye."),
    ],
)
def test_a_person_types_a_decision(drive: Drive, mode: str, typed: str, result: str) -> None:
    runner, questions, _ = asked(drive, clerk(MAIL, mode=mode))
    list(drive.resume(runner, "t", given_answers([typed], questions)))
    results = [each for each in runner.thread("t").messages if each.type == "tool"]
    assert result in results[0].text


@pytest.mark.parametrize(
    ("typed", "decisions"),
    [
        ("approve", ["approve", "approve"]),
        ("approve reject", ["approve", "reject"]),
        ("approve, reject", ["approve", "reject"]),
        ("approve; reject: too much, sorry", ["approve", "reject too much, sorry"]),
        ("reject: no, thanks, approve", ["reject no, thanks", "approve"]),
        ("respond: Later.", ["respond Later.", "respond Later."]),
        ('edit: {"to": "bob", "text": ""}, approve', ["edit", "approve"]),
        ('{"decisions": [{"type": "approve"}, {"type": "reject"}]}', ["approve", "reject"]),
    ],
)
def test_several_calls_have_one_decision_for_all_or_one_each(
    drive: Drive, typed: str, decisions: list[str]
) -> None:
    _, questions, _ = asked(drive, clerk(MAIL, PAY))
    (answer,) = given_answers([typed], questions).values()
    assert isinstance(answer, dict)
    found = [" ".join(filter(None, (d["type"], d.get("message")))) for d in answer["decisions"]]
    assert found == decisions


NONE = "is not a decision; type approve, edit: {ARGUMENTS}, reject, reject: REASON, respond: RESULT"


@pytest.mark.parametrize("mode", ["batched", "per_call"])
@pytest.mark.parametrize(
    ("typed", "fault"),
    [
        ("perhaps", f"'perhaps' {NONE}"),
        ("approved", f"'approved' {NONE}"),
        ('"approve"', f"'\"approve\"' {NONE}"),
        ("approve: yes", "'approve: yes' has a text; type approve alone, or reject: REASON"),
        ("respond", "'respond' has no result for the model; type respond: RESULT"),
        (
            "edit: bob",
            '\'edit: bob\' has no arguments; type those that change as JSON, as in edit: {"to": "ann"}',
        ),
        (
            'edit: {"too": "bob"}',
            "'edit: {\"too\": \"bob\"}' names the argument 'too', which the call does not have; did "
            "you mean 'to'?",
        ),
    ],
)
def test_a_text_that_is_no_decision_is_answered_by_one_line(
    drive: Drive, mode: str, typed: str, fault: str
) -> None:
    _, questions, _ = asked(drive, clerk(MAIL, mode=mode))
    with pytest.raises(AnswerError) as caught:
        given_answers([typed], questions)
    assert str(caught.value) == f"--answer: {fault}"


@pytest.mark.parametrize(
    ("typed", "fault"),
    [
        ("respond: x", "'respond' is not allowed for pay; choose one of: approve, reject"),
        ("approve, edit: {}", "'edit' is not allowed for pay; choose one of: approve, reject"),
        (
            "approve, approve, reject",
            "'approve, approve, reject' has 3 decisions for 2 calls; type one for all calls, or one "
            "for each, with commas",
        ),
        (
            'edit: {"to": "bob"}',
            '\'edit: {"to": "bob"}\' changes one call; type one decision for each of the 2 calls, '
            "with commas",
        ),
    ],
)
def test_decisions_must_suit_each_call(drive: Drive, typed: str, fault: str) -> None:
    _, questions, _ = asked(drive, clerk(MAIL, PAY, pay=["approve", "reject"]))
    with pytest.raises(AnswerError) as caught:
        given_answers([typed], questions)
    assert str(caught.value) == f"--answer: {fault}"
