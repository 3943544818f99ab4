"""A traveller, invented services, and scripts instead of the models of the concierge."""

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.testing import call, calls
from examples.models import Script

PROFILE = {
    "passport": "US",
    "home": "6420 Sequence Dr, San Diego, CA",
    "seat": "window",
    "food": "vegan",
}
CHARGED: dict[str, int] = {}
"""Charges in USD, by idempotency key: the service charges once for each key."""


def charge(key: str, usd: int, method: str) -> str:
    """Charge a traveller, and return the number of the order; Apple Pay is always declined."""
    if method == "Apple Pay":
        raise ValueError("Apple Pay has declined the payment")
    CHARGED.setdefault(key, usd)
    return f"A{[*CHARGED].index(key) + 1:03}"


def status_of(event: Mapping[str, Any]) -> str:
    """Return the status of an event."""
    return "closed" if event["title"] == "Space Needle" else "as planned"


def search(query: str) -> str:
    """Search the web."""
    return f"There is nothing to know about {query}."


def _flight(number: str, origin: str, destination: str, day: str) -> dict[str, Any]:
    times = {"departs": f"{day}T09:00:00", "arrives": f"{day}T12:00:00"}
    airports = {"departs_from": origin, "arrives_at": destination}
    return {"number": number, **airports, **times, "usd": 180, "seats": ["12A", "14F"]}


def _event(kind: str, title: str, begins: str, ends: str, place: str, usd: int) -> dict[str, Any]:
    """Return an event; a `place` such as "SAN to SEA" has its start and its end."""
    begins_at, _, ends_at = place.partition(" to ")
    places = {"begins_at": begins_at, "ends_at": ends_at or begins_at}
    times = {"begins": f"2027-05-{begins}:00", "ends": f"2027-05-{ends}:00"}
    return {"kind": kind, "title": title, **places, **times, "usd": usd}


OUT, BACK = _flight("AS101", "SAN", "SEA", "2027-05-01"), _flight("AS102", "SEA", "SAN", "2027-05-03")
HOTEL = {"name": "Gull Inn", "address": "5 Pier, Seattle", "usd_per_night": 120, "rooms": ["king"]}
SIGHTS = [
    {"name": "Pike Place Market", "address": "85 Pike St, Seattle", "highlights": "Fish that fly."},
    {"name": "Space Needle", "address": "400 Broad St, Seattle", "highlights": "A view."},
]
EVENTS = [
    _event("flight", "AS101", "01T09:00", "01T12:00", "SAN to SEA", 180),
    _event("hotel", "Gull Inn", "01T15:00", "03T07:00", "5 Pier", 240),
    _event("visit", "Pike Place Market", "02T09:00", "02T12:00", "85 Pike St", 0),
    _event("visit", "Space Needle", "02T14:00", "02T16:00", "400 Broad St", 0),
    _event("flight", "AS102", "03T09:00", "03T12:00", "SEA to SAN", 180),
]
TO_BOOK = {each["title"]: each["usd"] for each in EVENTS if each["usd"]}


def _turn(messages: list[BaseMessage]) -> tuple[str, list[str]]:
    """Return the traveller's last request, and the tools that have answered since."""
    is_human = [m.type == "human" and not m.text.startswith("[") for m in messages]
    last = len(messages) - 1 - is_human[::-1].index(True)
    since = [str(m.name) for m in messages[last:] if m.type == "tool"]
    return messages[last].text.lower(), since


def _agent_for(messages: list[BaseMessage]) -> str:
    """Return the agent for the phase of the trip and for the traveller's request."""
    for when, name in [("before", "pre_trip"), ("during", "in_trip"), ("after", "post_trip")]:
        if f'"phase": "{when} the trip"' in messages[0].text:
            return "booking" if "book" in _turn(messages)[0] else name
    return "planning" if "plan" in _turn(messages)[0] else "inspiration"


def _transfer(messages: list[BaseMessage]) -> AIMessage:
    return calls(call(f"transfer_to_{_agent_for(messages)}"))


def _inspire(messages: list[BaseMessage]) -> str | AIMessage:
    asked, done = _turn(messages)
    if _agent_for(messages) != "inspiration":
        return _transfer(messages)
    if "places" in done:
        return "How about Seattle, or Lisbon?"
    if "sights" in done:
        return "See Pike Place Market and the Space Needle. Shall I have it planned?"
    if "seattle" in asked:
        return calls(call("sights", request="What is there to do in Seattle?"))
    return calls(call("places", request="A city at the sea, in May."))


def _suggest_places(messages: list[BaseMessage]) -> AIMessage:
    seattle = {"name": "Seattle", "address": "USA", "highlights": "Coffee at the sea."}
    lisbon = {"name": "Lisbon", "address": "Portugal", "highlights": "Hills at the sea."}
    return calls(call("Places", places=[seattle, lisbon]))


def _plan(messages: list[BaseMessage]) -> str | AIMessage:
    asked, done = _turn(messages)
    if _agent_for(messages) not in ("planning", "inspiration"):
        return (
            "The itinerary is written. Shall I book it?" if "itinerary" in done else _transfer(messages)
        )
    if "hotels" in done:
        return "There are AS101 on May 1, AS102 on May 3, and the Gull Inn. Do you take them?"
    if "choose_hotel" in done:
        return calls(call("itinerary", request="Write it."))
    if "take" in asked:
        return calls(
            call("choose_flight", way="out", flight=OUT, seat="12A"),
            call("choose_flight", way="back", flight=BACK, seat="12A"),
            call("choose_hotel", hotel=HOTEL, room="king"),
        )
    return calls(
        call("flights", origin="San Diego", destination="Seattle", day="2027-05-01"),
        call("flights", origin="Seattle", destination="San Diego", day="2027-05-03"),
        call("hotels", destination="Seattle", first_night="2027-05-01", nights=2),
    )


def _find_flights(messages: list[BaseMessage]) -> AIMessage:
    is_out = '"day": "2027-05-01"' in messages[-1].text
    return calls(call("Flights", flights=[OUT if is_out else BACK]))


def _book(messages: list[BaseMessage]) -> str | AIMessage:
    asked, done = _turn(messages)
    unpaid = [title for title in TO_BOOK if f'"{title}": "A' not in messages[0].text]
    if not done and "pay" not in asked:
        return _ask_how_to_pay(asked) or _transfer(messages)
    if "reserve" not in done:
        return calls(*(call("reserve", title=title) for title in unpaid))
    if "pay" in done:
        return (
            f"{' and '.join(unpaid)} is not paid. Is there another way?" if unpaid else "All is paid."
        )
    method = "Apple Pay" if "apple" in asked else "Google Pay"
    return calls(*(call("pay", title=title, usd=TO_BOOK[title], method=method) for title in unpaid))


def _ask_how_to_pay(asked: str) -> str:
    prices = ", ".join(f"{title} for ${usd}" for title, usd in TO_BOOK.items())
    return f"To book are {prices}. How do you want to pay?" if "book" in asked else ""


def _prepare(messages: list[BaseMessage]) -> str | AIMessage:
    _, done = _turn(messages)
    if _agent_for(messages) != "pre_trip":
        return _transfer(messages)
    if not done:
        topics = ("visa rules", "health rules", "storms", "travel warnings")
        searches = [call("search", query=f"{topic} in Seattle") for topic in topics]
        return calls(*searches, call("packing", request="Three days in Seattle, in May."))
    return "You need no visa, and no storm is near. Pack an umbrella."


def _guide(messages: list[BaseMessage]) -> str | AIMessage:
    asked, done = _turn(messages)
    if _agent_for(messages) != "in_trip":
        return _transfer(messages)
    if done:
        return "The Space Needle is closed today." if "monitor" in done else messages[-1].text
    if "way" in asked:
        return calls(call("way", request=asked))
    return calls(call("monitor", until="2027-05-03T23:59:00"))


def _direct(messages: list[BaseMessage]) -> str:
    """Repeat the goal, from the instruction."""
    goal = messages[0].text.partition(" for ")[2].partition(". An airport")[0]
    return f"Take the bus to {goal}."


def _look_back(messages: list[BaseMessage]) -> str | AIMessage:
    asked, done = _turn(messages)
    if done:
        return "Thank you! It will help with your next trip."
    return calls(call("remember", like="markets")) if "market" in asked else "How was the trip?"


SCRIPTS: dict[str, Script] = {
    "travel_concierge": _transfer,
    "inspiration": _inspire,
    "places": _suggest_places,
    "suggest": lambda messages: calls(call("Places", places=SIGHTS)),
    "planning": _plan,
    "flights": _find_flights,
    "hotels": lambda messages: calls(call("Hotels", hotels=[HOTEL])),
    "itinerary": lambda messages: calls(call("Itinerary", title="Seattle in May", events=EVENTS)),
    "booking": _book,
    "pre_trip": _prepare,
    "packing": lambda messages: calls(call("Packing", items=["umbrella", "walking shoes"])),
    "in_trip": _guide,
    "way": _direct,
    "post_trip": _look_back,
}
