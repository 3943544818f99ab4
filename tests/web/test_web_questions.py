"""Questions in the browser: a form for each kind of schema, approvals, and rejected answers."""

import json
from typing import Any

import pytest
from helpers.web_page import Page
from helpers.web_server import Server
from helpers.web_trees import HOSTILE
from selenium.webdriver import Keys

TEXT, NESTED = {"type": "string"}, {"$ref": "#/$defs/Sender"}
SENDER = {
    "type": "object",
    "properties": {"Name": TEXT, "Age": {"type": "integer"}},
    "required": ["Name"],
}


def of(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": [*properties]}


@pytest.mark.parametrize(
    ("schema", "fields", "answer"),
    [
        (None, {"Answer": "Some words."}, "Some words."),
        (TEXT, {"Answer": "<b>"}, "<b>"),
        ({"enum": ["yes", "no", None]}, {"no": True}, "no"),
        ({"enum": ["yes", 7, True]}, {"7": True}, 7),
        ({"enum": [*"abcdefg"]}, {"Answer": "e"}, "e"),
        ({"type": "integer"}, {"Answer": "-12"}, -12),
        ({"type": "number"}, {"Answer": "2.5"}, 2.5),
        ({"type": "boolean"}, {"Answer": True}, True),
        ({"type": "boolean"}, {}, False),
        (
            {"type": "array", "items": TEXT, "minItems": 2},
            {"Answer 1": "a", "Answer 2": "b"},
            ["a", "b"],
        ),
        ({"type": "array", "items": SENDER, "minItems": 1}, {"Name": "Ann"}, [{"Name": "Ann"}]),
        (
            {**of(By=NESTED), "$defs": {"Sender": SENDER}},
            {"Name": "Ann", "Age": "7"},
            {"By": {"Name": "Ann", "Age": 7}},
        ),
        ({"type": "object", "properties": {"By": SENDER, "To": TEXT}}, {"To": "Bo"}, {"To": "Bo"}),
        (
            of(When={"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}),
            {},
            {"When": None},
        ),
        (
            {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            {"Kind of Answer": "string", "Answer": "x"},
            "x",
        ),
        ({"type": "object"}, {"Answer": '{"any": [1]}'}, {"any": [1]}),
        (of(Size={"type": "integer", "default": 3}), {}, {"Size": 3}),
    ],
)
def test_a_form_is_made_from_the_schema(
    page: Page, schema: object, fields: Any, answer: object
) -> None:
    page.say(f"ask {json.dumps({'schema': schema})}")
    page.answer(**fields)
    page.wait_for(lambda: page.words == [f"Answered: {json.dumps(answer)}"])
    page.wait_for(lambda: not page.texts(".entry.open"))


def test_rows_of_an_array_are_added_and_removed(page: Page) -> None:
    page.say(f"ask {json.dumps({'schema': {'type': 'array', 'items': TEXT}})}")
    page.wait_for(lambda: page.text(".entry.open form"))
    for name in "abc":
        page.click(".entry.open .rows + button")
        page.driver.switch_to.active_element.send_keys(name)
    assert len(page.texts(".rows .row")) == 4
    page.click(".entry.open button[aria-label='Remove Answer 3']")
    page.answer(**{"Answer 1": "z"})
    page.wait_for(lambda: page.words == ['Answered: ["z", "a", "c"]'])


def test_an_unfit_answer_is_refused_at_the_form(server: Server, page: Page) -> None:
    page.say(f"ask {json.dumps({'schema': of(Age={'type': 'integer', 'minimum': 1}, Name=TEXT)})}")
    page.answer(Age="0", Name="Ann")
    page.wait_for(lambda: page.text(".entry.open .fault").startswith("422 InvalidAnswerError: "))
    assert page.labelled("Name").get_attribute("value") == "Ann"
    page.answer(Age="4")
    page.wait_for(lambda: page.words == ['Answered: {"Age": 4, "Name": "Ann"}'])
    assert page.entries == server.events(page.thread_id)


def test_text_that_is_not_json_is_refused_at_the_form(page: Page) -> None:
    page.say('ask {"schema": {"type": "object"}}')
    page.answer(Answer="{")
    page.wait_for(lambda: page.text(".entry.open .fault").startswith("Answer is not JSON"))


def test_questions_side_by_side_are_answered_one_by_one(server: Server, page: Page) -> None:
    page.say("both")
    page.wait_for(lambda: len(page.texts(".entry.open form")) == 2)
    page.answer(Answer="l")
    page.wait_for(lambda: len(page.texts(".entry.open form")) == 1)
    page.wait_for(lambda: page.entries == server.events(page.thread_id))
    page.answer(Answer="r")
    page.waits_for_status("done")
    assert page.entries == server.events(page.thread_id)
    assert sorted(page.words) == ["l", "r"]


def test_questions_are_answered_in_two_tabs_while_another_branch_runs(
    server: Server, page: Page, tab: Any
) -> None:
    page.say("meanwhile bees")
    page.wait_for(lambda: len(page.texts(".entry.open form")) == 2)
    page.answer(Answer="h")
    page.wait_for(lambda: len(page.texts(".entry.open form")) == 1)
    other = tab(server, page.thread_id)
    other.wait_for(lambda: len(other.texts(".entry.open form")) == 1)
    other.answer(Answer="t")
    other.wait_for(lambda: not other.texts(".entry.open form"))
    page.wait_for(lambda: not page.texts(".entry.open form"))
    assert page.text("#status") == "running"
    server.gate(page.thread_id, 1)
    page.waits_for_status("done")
    page.wait_for(lambda: page.entries == server.events(page.thread_id))
    assert {"h", "t"} <= {*page.words}


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
    server: Server, page: Page, decision: str, fields: dict[str, str], result: str
) -> None:
    page.say("mail Ann")
    page.wait_for(lambda: "mail Ann" in page.text(".entry.open pre"))
    page.fill(**{decision: True})
    page.answer(**fields)
    page.waits_for_status("done")
    page.wait_for(lambda: result in page.words[-1])
    assert page.entries == server.events(page.thread_id)


def test_an_approval_without_a_decision_or_with_unfit_arguments_is_refused(page: Page) -> None:
    page.say("mail Ann")
    page.answer()
    page.wait_for(lambda: "decision on mail is missing" in page.text(".entry.open .fault"))
    page.fill(Edit=True)
    page.answer(Copies="")
    page.wait_for(lambda: page.text(".entry.open .fault").startswith("422 InvalidAnswerError: "))
    page.fill(Approve=True)
    page.answer()
    page.waits_for_status("done")


def test_hostile_texts_are_only_texts(server: Server, tab: Any) -> None:
    page = tab(server, HOSTILE)
    page.say("shout")
    page.wait_for(lambda: page.words == [HOSTILE])
    schema = {
        "title": HOSTILE,
        **of(**{HOSTILE: {"enum": [HOSTILE, "b"], "description": HOSTILE}, "<i>": TEXT}),
    }
    page.say(f"ask {json.dumps({'value': {HOSTILE: HOSTILE}, 'schema': of(**{HOSTILE: TEXT})})}")
    page.answer(**{HOSTILE: HOSTILE})
    page.waits_for_status("done")
    page.say(f"ask {json.dumps({'value': HOSTILE, 'schema': schema})}")
    page.wait_for(lambda: page.text(".entry.open .question") == HOSTILE)
    page.say("mail " + HOSTILE)
    page.wait_for(lambda: "409 PendingInterruptError" in page.text("#alert"))
    assert page.script("return window.hacked") is None
    for element in ("img", "a", "i", "#log script", "#alert script"):
        assert page.texts(element) == []
    page.driver.refresh()
    page.wait_for(lambda: page.text(".entry.open .question") == HOSTILE)
    assert page.script("return window.hacked") is None
    assert [text.partition(HOSTILE)[1] for text in page.words[:1]] == [HOSTILE]
    assert page.find("#thread").get_attribute("value") == HOSTILE


CONTROLS = "button, input, select, textarea"
EACH_KIND = of(
    Text=TEXT,
    Size={"type": "integer"},
    Sure={"type": "boolean"},
    Choice={"enum": ["a", "b"]},
    Many={"enum": [*"abcdefg"]},
    List={"type": "array", "items": TEXT},
    By=SENDER,
    Any={},
)


@pytest.mark.parametrize("text", [f"ask {json.dumps({'schema': EACH_KIND})}", "mail Ann"])
def test_each_control_has_a_name_and_is_reached_by_the_keyboard(page: Page, text: str) -> None:
    page.say(text)
    page.wait_for(lambda: page.text(".entry.open form"))
    controls = [
        each for each in page.driver.find_elements("css selector", CONTROLS) if each.is_enabled()
    ]
    shown = {each.id: each.accessible_name for each in controls if each.is_displayed()}
    assert all(shown.values()), shown
    reached: list[str] = []
    for _ in range(len(shown) + 5):
        page.driver.switch_to.active_element.send_keys(Keys.TAB)
        reached.append(page.driver.switch_to.active_element.id)
    radios = {each.id for each in controls if each.get_attribute("type") == "radio"}
    assert shown.keys() - radios <= {*reached}
    assert radios.intersection(reached)


def test_a_form_is_filled_in_and_sent_with_keys_alone(page: Page) -> None:
    page.say(f"ask {json.dumps({'schema': of(Size={'type': 'integer'}, Choice={'enum': ['a', 'b']})})}")
    page.wait_for(lambda: page.text(".entry.open form"))
    page.script("document.querySelector('.entry.open input').focus()")
    for keys in ("12", Keys.TAB, Keys.SPACE, Keys.ARROW_DOWN, Keys.ENTER):
        page.driver.switch_to.active_element.send_keys(keys)
    page.wait_for(lambda: page.words == ['Answered: {"Size": 12, "Choice": "b"}'])
