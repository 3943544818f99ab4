"""The ports of LangGraph's tutorials on teams run offline as their READMEs say."""

from dataclasses import replace
from pathlib import Path

import pytest
from helpers import lines
from test_examples import turns

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls
from examples.customer_support.app import customer_support
from examples.hierarchical_teams.app import hierarchical_teams, writing_team

pytestmark = pytest.mark.usefixtures("offline")


# hierarchical teams


def test_the_teams_report_to_the_one_above_and_share_their_files() -> None:
    result = ag.Runner(hierarchical_teams).invoke("Research honeybees, and write a report.")
    assert result.text == "The report on bees is in report.txt, with a chart."
    spoken = [event for event in result.events if event.message and event.message.type == "ai"]
    assert [event.agent_name for event in spoken if event.text] == [
        *("searcher", "scraper", "research_team"),
        *("note_taker", "writer", "illustrator", "writing_team", "hierarchical_teams"),
    ]
    assert result.values["files"]["bees.txt"] == [
        f"{'June':>12} {'#' * 20} 40000",
        f"{'January':>12} {'#' * 5} 10000",
    ]
    assert result.spent.model_calls == 20
    assert result.spent.by_agent["writing_team"].model_calls == 4


def test_a_person_is_asked_before_the_teams_call_models_more_often_than_agreed() -> None:
    limits = ag.Limits(model_calls=12, on_limit="ask")
    runner = ag.Runner(replace(hierarchical_teams, limits=limits))
    paused = runner.invoke("Research honeybees, and write a report.", thread_id="t")
    (question,) = paused.pending
    assert question.value.endswith("which is 12 for a turn. May it be 12 more?")
    assert paused.spent.model_calls == 12
    done = runner.invoke(thread_id="t", answers=True)
    assert (done.status, done.spent.model_calls) == ("done", 20)


def test_a_worker_may_write_several_files_by_one_message() -> None:
    (writer,) = [each for each in writing_team.sub_agents if each.name == "writer"]
    model = ScriptedChatModel(
        responses=[
            calls(*(call("write_file", name=name, lines=["Bees"]) for name in ("a.txt", "b.txt"))),
            calls(call("insert_lines", name="a.txt", at={0: "On", 1: "hum."})),
            calls(call("insert_lines", name="b.txt", at={9: "hum."})),
            "Written.",
        ]
    )
    result = ag.Runner(replace(writer, model=model)).invoke("Write.")
    assert result.values["files"] == {"a.txt": ["On", "Bees", "hum."], "b.txt": ["Bees"]}
    assert "ValueError('b.txt has 1 lines')" in result.events[-2].text


# customer support


def supported(*texts: str) -> ag.Runner:
    """Return a runner on whose thread `t` a customer has said that; all that is asked is approved."""
    runner = ag.Runner(customer_support)
    for text in texts:
        if runner.invoke(text, thread_id="t").pending:
            runner.invoke(thread_id="t", answers="approve")
    return runner


def test_what_is_only_looked_up_needs_nobody() -> None:
    result = supported("Which flights are there on May 1?").invoke("A hotel?", thread_id="t")
    assert (result.status, result.values["booked"]) == ("done", {})
    assert '"name": "Hilton"' in result.text


def test_a_change_waits_until_a_person_approves_it() -> None:
    runner = supported("How heavy may my hand luggage be?")
    result = runner.invoke("Change my flight.", thread_id="t")
    (question,) = result.pending
    assert question.address == "customer_support/primary[1]/flight_desk"
    (asked,) = question.value["action_requests"]
    assert asked["args"] == {"ticket": "7240", "flight": "LX0116"}
    assert result.values["tickets"]["7240"]["flight"] == "LX0112"
    done = runner.invoke(thread_id="t", answers="approve")
    assert done.text == "7240 is now for LX0116."
    assert done.values["tickets"]["7240"]["flight"] == "LX0116"


def test_a_booking_that_is_rejected_is_not_made_and_another_is() -> None:
    runner = supported("I need a hotel in Basel.")
    runner.invoke("Book the hotel H1.", thread_id="t")
    rejected = {"decisions": [{"type": "reject", "message": "Too expensive."}]}
    result = runner.invoke(thread_id="t", answers=rejected)
    assert "Too expensive." in result.text
    assert result.values["booked"] == {}
    assert runner.invoke("Then the hotel H8.", thread_id="t").pending
    assert [*runner.invoke(thread_id="t", answers="approve").values["booked"]] == ["H8"]


def test_the_next_message_begins_at_the_assistant_who_spoke_last_who_may_hand_back() -> None:
    runner = supported("Change my flight.")
    result = runner.invoke("Which museum is there?", thread_id="t")
    assert [event.action.transfer_to for event in result.events if event.kind == "transfer_to"] == [
        *("primary", "excursion_desk")
    ]
    assert result.values["primary_active"] == "excursion_desk"


def test_each_desk_hands_back_what_is_not_its_own() -> None:
    said, _ = turns(customer_support, "Hi.", "A hotel?", "And a car?", "How heavy may luggage be?")
    assert said == [
        "customer_support/primary: How can I help?",
        'customer_support/primary[1]/hotel_desk: [{"number": "H1", "name": "Hilton", "place": "Basel", '
        '"is": "luxury"}, {"number": "H8", "name": "Holiday Inn", "place": "Basel", "is": "midscale"}]',
        'customer_support/primary[3]/car_desk: [{"number": "C1", "name": "Europcar", "place": "Basel", '
        '"is": "economy"}]',
        "customer_support/primary[2]: Hand luggage is at most 8 kilograms.",
    ]


def test_of_two_bookings_in_one_message_a_person_approves_one() -> None:
    runner = ag.Runner(customer_support)
    runner.invoke("Book the hotels H1 and H8.", thread_id="t")
    decisions = [{"type": "reject", "message": "Too expensive."}, {"type": "approve"}]
    assert [*lines(runner.resume("t", {"decisions": decisions}))][-1].endswith(
        "H8 is booked from 2027-05-01 to 2027-05-04."
    )
    assert [*runner.thread("t").values["booked"]] == ["H8"]
    runner.invoke("Book the hotels H1 and H8.", thread_id="t")
    both = {"decisions": [{"type": "approve"}, {"type": "approve"}]}
    assert [*runner.invoke(thread_id="t", answers=both).values["booked"]] == ["H8", "H1"]


def test_another_runner_resumes_from_the_file_what_waits_for_a_person(tmp_path: Path) -> None:
    path = tmp_path / "threads.db"
    with ag.Runner(customer_support, checkpointer=path) as runner:
        runner.invoke("Change my flight.", thread_id="t")
    with ag.Runner(customer_support, checkpointer=path) as runner:
        result = runner.invoke(thread_id="t", answers="approve")
    assert result.text == "7240 is now for LX0116."


def test_what_a_person_approves_is_still_refused_if_it_is_not_possible() -> None:
    runner = ag.Runner(customer_support)
    refused = []
    for text in ("Change my flight to a sooner one.", "Cancel the hotel H1."):
        runner.invoke(text, thread_id="t")
        refused.append(runner.invoke(thread_id="t", answers="approve"))
    assert "LX0114 departs in less than three hours" in refused[0].text
    assert "KeyError('H1')" in refused[1].text
    assert refused[1].values["tickets"]["7240"]["flight"] == "LX0112"
