"""Questions in the window: forms from schemas, approvals, several at once, refusals, what was typed."""

import json
import re
from typing import Any

import pytest
from panel_pages import Panels
from panel_trees import HOSTILE
from selenium.webdriver import Keys

TEXT = {"type": "string"}
SENDER = {
    "type": "object",
    "properties": {"Name": TEXT, "Age": {"type": "integer"}},
    "required": ["Name"],
}
CARD = ".questions .card"


def of(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": [*properties]}


def asks(panels: Panels, count: int = 1, **options: object) -> None:
    """Have questions asked on the thread."""
    text = f"ask {json.dumps(options)}" if options else "both"
    panels.run(text, until="paused")
    panels.wait_for(lambda: len(panels.texts(CARD)) == count)


@pytest.mark.parametrize(
    ("schema", "fields", "answer"),
    [
        (None, {"Answer": "Some words."}, "Some words."),
        ({"enum": ["yes", 7, True]}, {"7": True}, 7),
        ({"enum": [*"abcdefg"]}, {"Answer": "e"}, "e"),
        ({"type": "number"}, {"Answer": "2.5"}, 2.5),
        ({"type": "boolean"}, {"Answer": True}, True),
        (
            {"type": "array", "items": TEXT, "minItems": 2},
            {"Answer 1": "a", "Answer 2": "b"},
            ["a", "b"],
        ),
        (
            {**of(By={"$ref": "#/$defs/Sender"}), "$defs": {"Sender": SENDER}},
            {"Name": "Ann", "Age": "7"},
            {"By": {"Name": "Ann", "Age": 7}},
        ),
        (
            {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            {"Kind of Answer": "string", "Answer": "x"},
            "x",
        ),
        (
            of(Kind={"const": "letter"}, Size={"type": "integer", "default": 3}),
            {},
            {"Kind": "letter", "Size": 3},
        ),
        (
            {
                "$ref": "#/$defs/N",
                "$defs": {
                    "N": of(Name=TEXT)
                    | {
                        "required": ["Name"],
                        "properties": {"Name": TEXT, "Next": {"$ref": "#/$defs/N"}},
                    }
                },
            },
            {"Name": "Ann"},
            {"Name": "Ann"},
        ),
    ],
)
def test_a_question_is_answered_in_a_form_of_its_schema(
    panels: Panels, schema: object, fields: dict[str, Any], answer: object
) -> None:
    asks(panels, schema=schema)
    panels.fill(CARD, **fields)
    panels.press("Send answer", CARD)
    panels.waits_for_status("done")
    assert panels.last == f"Answered: {json.dumps(answer)}"
    panels.wait_for(lambda: not panels.texts(CARD))


def test_all_questions_are_answered_at_once(panels: Panels) -> None:
    asks(panels, 2)
    assert "2 open questions" in panels.text(".questions")
    panels.fill(f"{CARD}:nth-child(1)", Answer="l")
    panels.fill(f"{CARD}:nth-child(2)", Answer="r")
    panels.press("Answer all 2 questions")
    panels.waits_for_status("done")
    panels.wait_for(lambda: not panels.texts(CARD))


def test_those_that_are_filled_in_are_answered_and_the_others_stay(panels: Panels) -> None:
    asks(panels, 2)
    panels.fill(f"{CARD}:nth-child(2)", Answer="r")
    panels.press("Answer 1 of 2 questions")
    panels.wait_for(lambda: len(panels.texts(CARD)) == 1)
    assert "Left?" in panels.text(CARD)
    panels.waits_for_status("paused")
    panels.fill(CARD, Answer="l")
    panels.press("Send answer", CARD)
    panels.waits_for_status("done")


def test_the_panel_shows_what_was_sent_until_the_question_is_gone(panels: Panels) -> None:
    asks(panels, schema=None)
    panels.fill(CARD, Answer="Slow words.")
    panels.script(
        "window.seen = []; new MutationObserver(() => "
        "seen.push(document.querySelector('.questions .notice')?.innerText ?? ''))"
        ".observe(document.querySelector('.questions'), {subtree: true, childList: true})"
    )
    panels.press("Send answer", CARD)
    panels.waits_for_status("done")
    panels.wait_for(lambda: not panels.texts(CARD))
    assert any("Sent:" in text and "Slow words." in text for text in panels.script("return seen"))


def test_questions_are_answered_here_and_elsewhere_while_another_branch_runs(panels: Panels) -> None:
    panels.run("meanwhile bees", until="running")
    panels.wait_for(lambda: len(panels.texts(CARD)) == 2)
    here, there = panels.script("return store.state.thread.pending.map(each => each.id)")
    panels.fill(f"{CARD}:nth-child(1)", Answer="h")
    panels.press("Send answer", f"{CARD}:nth-child(1)")
    panels.wait_for(lambda: len(panels.texts(CARD)) == 1)
    panels.fill(CARD, Answer="half a thou")
    panels.server.call("answer", thread_id=panels.thread_id, answers={there: "t"})
    panels.wait_for(lambda: "This question is closed. Your text is kept." in panels.text(CARD))
    assert panels.status == "running"
    with pytest.raises(AssertionError, match="UnknownInterruptError"):
        panels.server.call("answer", thread_id=panels.thread_id, answers={here: "again"})
    panels.server.gate(panels.thread_id, 1)
    panels.waits_for_status("done")


def test_what_is_typed_stays_when_news_come_in(panels: Panels) -> None:
    asks(panels, 2)
    panels.fill(f"{CARD}:nth-child(2)", Answer="half a thou")
    questions = {
        each["address"]: each["id"]
        for each in panels.server.call("thread", thread_id=panels.thread_id)["pending"]
    }
    panels.server.call("answer", thread_id=panels.thread_id, answers={questions["does/both/left"]: "l"})
    panels.wait_for(lambda: len(panels.texts(CARD)) == 1)
    field = panels.labelled("Answer", CARD)
    assert field.get_attribute("value") == "half a thou"
    assert panels.driver.switch_to.active_element == field
    panels.server.waits_for_status(panels.thread_id, "paused")
    panels.server.call(
        "answer", thread_id=panels.thread_id, answers={questions["does/both/right"]: "r"}
    )
    panels.wait_for(lambda: "question is closed" in panels.text(CARD))
    assert panels.labelled("Answer", CARD).get_attribute("value") == "half a thou"
    panels.press("Close question", CARD)
    panels.wait_for(lambda: not panels.texts(CARD))


def test_what_is_typed_stays_when_another_thread_is_looked_at(panels: Panels) -> None:
    asks(panels, schema=None)
    panels.fill(CARD, Answer="half a thou")
    panels.script("store.open('elsewhere')")
    panels.wait_for(lambda: not panels.texts(CARD))
    panels.script("store.open(arguments[0])", panels.thread_id)
    panels.wait_for(lambda: panels.texts(CARD))
    assert panels.labelled("Answer", CARD).get_attribute("value") == "half a thou"


def test_a_refusal_is_shown_at_its_field(panels: Panels) -> None:
    asks(panels, schema=of(By=of(Age={"type": "integer", "minimum": 1}), Name=TEXT))
    panels.fill(CARD, Age="0", Name="Ann")
    panels.press("Send answer", CARD)
    panels.wait_for(lambda: "does not fit" in panels.text(f"{CARD} .fault[role=alert]"))
    age = panels.labelled("Age", CARD)
    assert age.get_attribute("aria-invalid") == "true"
    assert panels.driver.switch_to.active_element == age
    assert "greater than or equal to 1" in panels.text(".at-field")
    assert panels.labelled("Name", CARD).get_attribute("value") == "Ann"
    panels.fill(CARD, Age="4")
    panels.press("Send answer", CARD)
    panels.waits_for_status("done")


def test_a_refusal_of_one_of_several_is_shown_at_that_question(panels: Panels) -> None:
    panels.run("two", until="paused")
    panels.wait_for(lambda: len(panels.texts(CARD)) == 2)
    panels.fill(f"{CARD}:nth-child(1)", Answer="3")
    panels.fill(f"{CARD}:nth-child(2)", Answer="0")
    panels.press("Answer all 2 questions")
    panels.wait_for(lambda: panels.text(f"{CARD}:nth-child(2) .at-field"))
    assert not panels.text(f"{CARD}:nth-child(1) .fault")
    panels.fill(f"{CARD}:nth-child(2)", Answer="4")
    panels.press("Answer all 2 questions")
    panels.waits_for_status("done")


@pytest.mark.parametrize(
    ("decision", "fields", "result"),
    [
        ("Approve", {}, "2 to mail Ann sent"),
        ("Edit", {"To": "Bo", "Copies": "5"}, "5 to Bo sent"),
        ("Reject", {"Reason": "Not today."}, "Not today."),
        ("Respond instead", {"Result": "It was sent last week."}, "It was sent last week."),
    ],
)
def test_a_call_is_decided_on(
    panels: Panels, decision: str, fields: dict[str, str], result: str
) -> None:
    panels.run("mail Ann", until="paused")
    panels.wait_for(lambda: "mail Ann" in panels.text(f"{CARD} pre"))
    panels.fill(CARD, **{decision: True}, **fields)
    panels.press("Send answer", CARD)
    panels.waits_for_status("done")
    assert result in panels.last


def test_an_unfit_argument_is_refused_at_its_field_and_a_missing_decision_too(panels: Panels) -> None:
    panels.run("mail Ann", until="paused")
    panels.press("Send answer", CARD)
    panels.wait_for(
        lambda: (
            panels.text(f"{CARD} .fault[role=alert]") == "The decision on mail is missing. Choose one."
        )
    )
    panels.fill(CARD, Edit=True, Copies="")
    assert panels.text(f"{CARD} .fault[role=alert]") == ""
    panels.press("Send answer", CARD)
    panels.wait_for(lambda: panels.text(".at-field"))
    assert panels.labelled("Copies", CARD).get_attribute("aria-invalid") == "true"


def test_hostile_questions_are_only_texts(panels: Panels) -> None:
    schema = {"title": HOSTILE, **of(**{HOSTILE: {"enum": [HOSTILE, "b"], "description": HOSTILE}})}
    asks(panels, value={"message": HOSTILE, HOSTILE: HOSTILE}, schema=schema)
    assert HOSTILE in panels.text(CARD)
    assert not panels.is_hacked


def test_a_question_says_until_when_it_waits(panels: Panels) -> None:
    asks(panels, timeout=3600)
    (question,) = panels.texts(CARD)
    assert re.search(r"Until .*\d\d:\d\d:\d\d", question)


def test_a_long_question_is_cut(panels: Panels) -> None:
    asks(panels, value="word " * 200_000, schema=None)
    assert len(panels.text(CARD)) < 5_000
    panels.script("document.querySelector(arguments[0]).click()", f"{CARD} .show-all")
    panels.wait_for(
        lambda: (
            len(panels.script("return document.querySelector('.question').textContent")) >= 1_000_000
        )
    )


def test_questions_are_answered_with_keys_alone(panels: Panels) -> None:
    asks(panels, 2)
    panels.script("document.querySelector('.questions textarea').focus()")
    active = panels.driver.switch_to.active_element
    active.send_keys("l", Keys.TAB)
    panels.driver.switch_to.active_element.send_keys(Keys.ENTER)
    panels.wait_for(lambda: len(panels.texts(CARD)) == 1)
    panels.waits_for_status("paused")
    panels.wait_for(lambda: panels.driver.switch_to.active_element.tag_name in ("textarea", "h2"))
    panels.driver.switch_to.active_element.send_keys("r", Keys.TAB, Keys.ENTER)
    panels.waits_for_status("paused")
