"""The flights and hotels, and scripts instead of the models of the assistants."""

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.testing import call, calls
from examples.models import Script

FLIGHTS = {"1": {"id": "1", "from": "BOS", "to": "JFK", "airline": "Jet Blue"}}
HOTELS = {"1": {"id": "1", "city": "New York", "name": "McKittrick Hotel"}}


def _flight(messages: list[BaseMessage]) -> str | AIMessage:
    asked = _asked(messages)
    if messages[-1].type != "tool":
        if "hotel" in asked:
            return calls(call("transfer_to_hotel_assistant"))
        if "book" in asked:
            return calls(call("book_flight", flight_id="1"))
        return calls(call("search_flights", departure="BOS", arrival="JFK", day="2026-12-01"))
    return "Your flight is booked." if "book" in asked else "There is Jet Blue from BOS to JFK."


def _hotel(messages: list[BaseMessage]) -> str | AIMessage:
    asked = _asked(messages)
    if messages[-1].type != "tool":
        if "flight" in asked:
            return calls(call("transfer_to_flight_assistant"))
        if "book" in asked:
            return calls(call("book_hotel", hotel_id="1"))
        return calls(call("search_hotels", city="New York"))
    return "Your hotel is booked." if "book" in asked else "There is the McKittrick Hotel."


def _asked(messages: list[BaseMessage]) -> str:
    """Return the traveller's last message."""
    said = [m.text for m in messages if m.type == "human" and not m.text.startswith("[")]
    return said[-1].lower()


SCRIPTS: dict[str, Script] = {"flight_assistant": _flight, "hotel_assistant": _hotel}
