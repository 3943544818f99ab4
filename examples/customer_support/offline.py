"""The offers of the airline, and scripts instead of the models of its assistants."""

import re
from datetime import datetime, timedelta
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.testing import call, calls
from examples.models import Script

Data = dict[str, Any]


def _flight(number: str, origin: str, destination: str, hours: int) -> Data:
    """Return a flight that departs some hours after the application was started."""
    departs = (datetime.now() + timedelta(hours=hours)).isoformat(timespec="minutes")
    return {"flight": number, "from": origin, "to": destination, "departs": departs}


FLIGHTS = [
    _flight("LX0112", "CDG", "BSL", 160),
    _flight("LX0114", "CDG", "BSL", 1),
    _flight("LX0116", "CDG", "BSL", 184),
    _flight("LX0300", "BSL", "ZRH", 190),
]
TICKETS: dict[str, Data] = {"7240": FLIGHTS[0]}
OFFERS: dict[str, dict[str, Data]] = {
    "cars": {"C1": {"name": "Europcar", "place": "Basel", "is": "economy"}},
    "hotels": {
        "H1": {"name": "Hilton", "place": "Basel", "is": "luxury"},
        "H8": {"name": "Holiday Inn", "place": "Basel", "is": "midscale"},
    },
    "excursions": {"E2": {"name": "Kunstmuseum", "place": "Basel", "is": "art, history"}},
}
POLICIES = [
    "A ticket may be changed to a flight that departs in three hours or later.",
    "A changed ticket is for the same airports; another way needs a new ticket.",
    "Hand luggage is at most 8 kilograms.",
]
DESKS = {"flight": "flight_desk", "car": "car_desk", "hotel": "hotel_desk", "museum": "excursion_desk"}
DAYS = {"begins": "2027-05-01", "ends": "2027-05-04"}


def search(query: str) -> str:
    """Search the web."""
    return f"There is nothing to know about {query}."


def _asked(messages: list[BaseMessage]) -> str:
    """Return the customer's last message."""
    said = [m.text for m in messages if m.type == "human" and not m.text.startswith("[")]
    return said[-1].lower()


def _primary(messages: list[BaseMessage]) -> str | AIMessage:
    asked = _asked(messages)
    if messages[-1].type == "tool":
        return messages[-1].text
    if "luggage" in asked or "rule" in asked:
        return calls(call("look_up_policy", words=["luggage" if "luggage" in asked else "ticket"]))
    desks = [desk for word, desk in DESKS.items() if word in asked]
    return calls(call(f"transfer_to_{desks[0]}")) if desks else "How can I help?"


def _at_desk(name: str) -> Script:
    """Return the script of a desk, which handles its own requests and transfers back otherwise."""
    kind = {"car_desk": "cars", "hotel_desk": "hotels", "excursion_desk": "excursions"}.get(name, "")

    def script(messages: list[BaseMessage]) -> str | AIMessage:
        asked = _asked(messages)
        if messages[-1].type == "tool":
            last_call = max(n for n, each in enumerate(messages) if each.type == "ai")
            return " ".join(each.text for each in messages[last_call + 1 :])
        if not any(word in asked for word, desk in DESKS.items() if desk == name):
            return calls(call("transfer_to_primary"))
        if name == "flight_desk":
            where = {"departs": "CDG", "arrives": "BSL", "day": FLIGHTS[2]["departs"][:10]}
            flight = "LX0114" if "sooner" in asked else "LX0116"
            change = call("change_ticket", ticket="7240", flight=flight)
            return calls(change if "change" in asked else call("search_flights", **where))
        if numbers := re.findall(r"\b[ceh]\d\b", asked):
            verb = "cancel" if "cancel" in asked else "book"
            days = DAYS if verb == "book" else {}
            return calls(*(call(f"{verb}_{kind}", number=each.upper(), **days) for each in numbers))
        return calls(call(f"search_{kind}", place="Basel"))

    return script


SCRIPTS: dict[str, Script] = {"primary": _primary, **{desk: _at_desk(desk) for desk in DESKS.values()}}
