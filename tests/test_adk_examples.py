"""The ports of google-adk's samples run offline as their READMEs say."""

import pytest
from helpers import lines
from test_examples import turns

import agentgraph as ag
from examples.customer_service.app import customer_service, decide
from examples.travel_concierge import offline as travel
from examples.travel_concierge.app import travel_concierge


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(travel, "CHARGED", {})


# the travel concierge

PLANNING = ("Inspire me.", "Seattle?", "Plan it.", "I take them.", "Book it.")


def planned(*texts: str) -> ag.Runner:
    """Return a runner with the thread `t`, in March, for a trip in May."""
    runner = ag.Runner(travel_concierge)
    for text in (*PLANNING, *texts):
        runner.invoke(text, thread_id="t", values={"now": "2027-03-01T10:00"})
    return runner


def test_each_turn_of_the_concierge_begins_at_the_agent_that_spoke_last() -> None:
    said, values = turns(travel_concierge, *PLANNING[:4])
    assert said == [
        "travel_concierge[1]/inspiration: How about Seattle, or Lisbon?",
        "travel_concierge[1]/inspiration: See Pike Place Market and the Space Needle. "
        "Shall I have it planned?",
        "travel_concierge[2]/planning: There are AS101 on May 1, AS102 on May 3, and the Gull Inn. "
        "Do you take them?",
        "travel_concierge[1]/planning: The itinerary is written. Shall I book it?",
    ]
    assert values["itinerary"] == {"title": "Seattle in May", "events": travel.EVENTS}
    assert values["travel_concierge_active"] == "planning"


def test_the_composite_tool_gives_the_sights_with_their_maps() -> None:
    runner = ag.Runner(travel_concierge)
    runner.invoke("Seattle?", thread_id="t")
    (result,) = [each for each in runner.thread("t").messages if each.name == "sights"]
    link = "https://www.google.com/maps/search/?api=1&query=Space+Needle%2C+400+Broad+St%2C+Seattle"
    assert link in result.text
    assert runner.thread("t").values["sights"]["places"][1]["map"] == link


def test_a_person_approves_each_payment_and_each_is_charged_once() -> None:
    runner = planned()
    (asked,) = runner.invoke("I pay with Google Pay.", thread_id="t").pending
    assert asked.address == "travel_concierge[1]/booking"
    assert [each["args"] for each in asked.value["action_requests"]] == [
        {"title": "AS101", "usd": 180, "method": "Google Pay"},
        {"title": "Gull Inn", "usd": 240, "method": "Google Pay"},
        {"title": "AS102", "usd": 180, "method": "Google Pay"},
    ]
    assert travel.CHARGED == {}
    decisions = [{"type": each} for each in ("approve", "reject", "approve")]
    result = runner.invoke(thread_id="t", answers={"decisions": decisions})
    assert result.text == "Gull Inn is not paid. Is there another way?"
    assert result.values["paid"] == {"AS101": "A001", "AS102": "A002"}

    runner.invoke("I pay the hotel with Apple Pay.", thread_id="t")
    said = lines(runner.resume("t", "approve"))
    assert "Apple Pay has declined the payment" in said[0]
    runner.invoke("I pay it with Google Pay.", thread_id="t")
    result = runner.invoke(thread_id="t", answers="approve")
    assert result.text == "All is paid."
    assert [*travel.CHARGED.values()] == [180, 180, 240]


def test_the_phase_of_the_trip_decides_who_helps() -> None:
    runner = planned()
    said = [
        runner.invoke(text, thread_id="t", values={"now": now}).events[-1]
        for text, now in [
            ("What must I know?", "2027-04-20T10:00"),
            ("Is all well?", "2027-05-02T12:30"),
            ("Which way now?", "2027-05-02T12:30"),
            ("We are home.", "2027-05-04T10:00"),
            ("I liked the market.", "2027-05-04T10:00"),
        ]
    ]
    assert [f"{event.address}: {event.text}" for event in said] == [
        "travel_concierge[2]/pre_trip: You need no visa, and no storm is near. Pack an umbrella.",
        "travel_concierge[2]/in_trip: The Space Needle is closed today.",
        "travel_concierge[1]/in_trip: Take the bus to 400 Broad St by 2027-05-02 14:00:00.",
        "travel_concierge[2]/post_trip: How was the trip?",
        "travel_concierge[1]/post_trip: Thank you! It will help with your next trip.",
    ]
    values = runner.thread("t").values
    assert values["checks"] == ["Space Needle: closed", "AS102: as planned"]
    assert values["likes"] == ["markets"]


# customer service


def test_the_clerk_changes_the_cart_once_the_customer_approves() -> None:
    runner = ag.Runner(customer_service)
    assert lines(runner.run("Hi!", thread_id="t"))[-1] == (
        'customer_service/clerk: Hello Alex! You have {"cart": {"Standard Potting Soil": 1, '
        '"General Purpose Fertilizer": 1}, "discount": "0%", "usd": 25.98}'
    )
    (asked,) = runner.invoke("Please exchange them.", thread_id="t").pending
    assert asked.value["action_requests"][0]["name"] == "change_cart"
    runner.invoke(thread_id="t", answers="reject")
    assert runner.thread("t").values["cart"] == {"soil-123": 1, "fert-456": 1}
    runner.invoke("Do exchange them.", thread_id="t")
    runner.invoke(thread_id="t", answers="approve")
    assert runner.thread("t").values["cart"] == {"soil-456": 1, "fert-789": 1}


@pytest.mark.parametrize(("is_approved", "discount", "usd"), [(True, 25, "19.48"), (False, 0, "25.98")])
def test_the_manager_decides_in_a_later_turn(is_approved: bool, discount: int, usd: str) -> None:
    runner = ag.Runner(customer_service)
    asked = runner.invoke("Can I have 25% off?", thread_id="t")
    assert asked.text == "A manager is asked for 25%. Meanwhile, what else can I do?"
    assert runner.invoke("What do petunias need?", thread_id="t").status == "done"
    (waiting,) = runner.thread("t").open_calls
    assert (waiting.name, waiting.args["percent"]) == ("ask_manager", 25)
    assert usd in decide(runner, "t", is_approved).text
    assert runner.thread("t").open_calls == []
    assert runner.thread("t").values["discount"] == discount


def test_a_code_is_for_at_most_ten_percent_and_a_time_is_given_once() -> None:
    runner = ag.Runner(customer_service)
    said = lines(runner.run("Have you a code?", thread_id="t"))
    assert "a code is for at most 10 percent" in said[2]
    assert "QR: 10 percent off" in said[-1]
    for text in ("At 9-12.", "At 9-12, again."):
        runner.invoke(text, thread_id="t")
        result = runner.invoke(thread_id="t", answers="approve")
    assert "9-12 is not free on 2027-05-02" in result.text
    assert result.values["appointments"] == [
        {"day": "2027-05-02", "time": "9-12", "details": "petunias"}
    ]
