"""Flights and hotels: two assistants book, and transfer a traveller to each other."""

from datetime import date

import agentgraph as ag
from examples.flights.offline import FLIGHTS, HOTELS, SCRIPTS
from examples.models import model_or_script
from examples.play import play

MODEL = model_or_script("openai:gpt-5-mini", SCRIPTS)


def search_flights(departure: str, arrival: str, day: str) -> list[dict[str, str]]:
    """Search flights, by the codes of airports (three letters) and a date (YYYY-MM-DD)."""
    return [*FLIGHTS.values()]  # all of them, for simplicity


def book_flight(flight_id: str) -> str | ag.SetValues:
    """Book a flight."""
    return ag.SetValues(flight=FLIGHTS[flight_id])


def search_hotels(city: str) -> list[dict[str, str]]:
    """Search hotels in a city, by its official name."""
    return [*HOTELS.values()]


def book_hotel(hotel_id: str) -> str | ag.SetValues:
    """Book a hotel."""
    return ag.SetValues(hotel=HOTELS[hotel_id])


def instructed(ctx: ag.Context) -> str:
    """Return the instruction of an assistant, with its name and the bookings."""
    booked = {name: ctx.values[name] for name in ("flight", "hotel") if name in ctx.values}
    return f"You are the {ctx.name.replace('_', ' ')}. Today is {date.today()}. Booked: {booked}."


flight = ag.chat_agent(
    "flight_assistant",
    MODEL,
    description="Searches for and books flights.",
    instruction=instructed,
    tools=[search_flights, book_flight],
)
hotel = ag.chat_agent(
    "hotel_assistant",
    MODEL,
    description="Searches for and books hotels.",
    instruction=instructed,
    tools=[search_hotels, book_hotel],
)
flights = ag.swarm("flights", [flight, hotel])

if __name__ == "__main__":
    play(flights, "Is there a flight to New York?", "Book it.", "And a hotel?", "Book that hotel.")
