"""A travel concierge: agents for each phase of a trip, from the first idea to the look back."""

import json
from collections.abc import Callable
from datetime import date, datetime
from typing import Annotated, Literal
from urllib.parse import quote_plus

from pydantic import BaseModel, Field, NaiveDatetime

import agentgraph as ag
from examples.models import model_or_script, web_search_or
from examples.play import play
from examples.travel_concierge.offline import PROFILE, SCRIPTS, charge, search, status_of

MODEL = model_or_script("openai:gpt-5-mini", SCRIPTS)
SHOWN = ("sights", "flight_out", "flight_back", "hotel", "itinerary", "reserved", "paid", "likes")
MAP = "https://www.google.com/maps/search/?api=1&query="
LocalTime = Annotated[NaiveDatetime, Field(description="Without a time zone: 2027-05-01T09:00:00.")]


class Place(BaseModel):
    """A destination, or a sight at a destination."""

    name: str
    address: str = Field(description="The address, or for a city its country.")
    highlights: str


class Places(BaseModel):
    """Suggestions, the best first."""

    places: list[Place] = Field(max_length=5)


class FlightSearch(BaseModel):
    """The flights to find."""

    origin: str
    destination: str
    day: date


class Flight(BaseModel):
    """A flight with its free seats."""

    number: str = Field(description="Such as BA123.")
    departs_from: str = Field(description="The code of the airport.")
    departs: LocalTime
    arrives_at: str = Field(description="The code of the airport.")
    arrives: LocalTime
    usd: int
    seats: list[str] = Field(description="Such as 22A.")


class Flights(BaseModel):
    """The found flights."""

    flights: list[Flight] = Field(max_length=4)


class HotelSearch(BaseModel):
    """The hotels to find."""

    destination: str
    first_night: date
    nights: int


class Hotel(BaseModel):
    """A hotel with its free rooms."""

    name: str
    address: str
    usd_per_night: int
    rooms: list[str] = Field(description="Such as: king with ocean view.")


class Hotels(BaseModel):
    """The found hotels."""

    hotels: list[Hotel] = Field(max_length=4)


class Event(BaseModel):
    """A part of a trip; times are local."""

    kind: Literal["flight", "hotel", "visit"]
    title: str
    begins: LocalTime
    begins_at: str = Field(description="The airport or the address.")
    ends: LocalTime
    ends_at: str
    usd: int = Field(description="The total price; 0 if no booking is needed.")


class Itinerary(BaseModel):
    """A trip."""

    title: str
    events: list[Event] = Field(min_length=1, description="In the order of their start.")


class Packing(BaseModel):
    """The packing list."""

    items: list[str]


class Until(BaseModel):
    """The part of the trip to check."""

    until: LocalTime


def now(ctx: ag.Context) -> datetime:
    """Return the time, which the value `now` may set."""
    return datetime.fromisoformat(ctx.values["now"]) if "now" in ctx.values else datetime.now()


def events(ctx: ag.Context) -> list[Event]:
    """Return the events of the itinerary; an empty list without an itinerary."""
    trip = ctx.values.get("itinerary")
    return Itinerary.model_validate(trip).events if trip else []


def phase(ctx: ag.Context) -> str:
    """Return the phase of the trip."""
    trip = events(ctx)
    if not trip:
        return "no trip is planned"
    if now(ctx) < trip[0].begins:
        return "before the trip"
    ends = max(event.ends for event in trip)
    return "during the trip" if now(ctx) <= ends else "after the trip"


def instructed(task: str) -> Callable[[ag.Context], str]:
    """Return an instruction: a task, and the facts about the traveller and the trip."""

    def instruction(ctx: ag.Context) -> str:
        known = {name: ctx.values[name] for name in SHOWN if name in ctx.values}
        facts = {"now": f"{now(ctx):%Y-%m-%d %H:%M}", "phase": phase(ctx), "profile": PROFILE, **known}
        return f"{task}\nWhat is known: {json.dumps(facts)}"

    return instruction


def next_leg(ctx: ag.Context) -> str:
    """Return the instruction for the way to the next event."""
    past = [event for event in events(ctx) if event.begins <= now(ctx)]
    coming = events(ctx)[len(past) :]
    origin = past[-1].ends_at if past else PROFILE["home"]
    goal = f"{coming[0].begins_at} by {coming[0].begins}" if coming else PROFILE["home"]
    return (
        f"Say when and how to leave {origin} for {goal}. An airport takes an hour more. Now: {now(ctx)}"
    )


@ag.agent
def locate(ctx: ag.Context) -> ag.SetValues:
    """Add map links to the sights."""
    sights = ctx.values["sights"]["places"]
    links = [MAP + quote_plus(f"{each['name']}, {each['address']}") for each in sights]
    mapped = [{**each, "map": link} for each, link in zip(sights, links, strict=True)]
    return ag.SetValues(sights={"places": mapped})


@ag.agent
def check(ctx: ag.Context) -> str:
    """Check an event of the itinerary."""
    return f"{ctx.values['event']['title']}: {status_of(ctx.values['event'])}"


def ahead(ctx: ag.Context) -> list[dict[str, object]]:
    """Return the events that start before a time."""
    until = datetime.fromisoformat(ctx.values["until"])
    return [each.model_dump(mode="json") for each in events(ctx) if now(ctx) <= each.begins <= until]


def choose_flight(way: Literal["out", "back"], flight: Flight, seat: str) -> str | ag.SetValues:
    """Store the flight and the seat that the traveller has chosen."""
    return ag.SetValues(**{f"flight_{way}": {**flight.model_dump(mode="json"), "seats": [seat]}})


def choose_hotel(hotel: Hotel, room: str) -> str | ag.SetValues:
    """Store the hotel and the room that the traveller has chosen."""
    return ag.SetValues(hotel={**hotel.model_dump(), "rooms": [room]})


def reserve(title: str, ctx: ag.Context) -> list[str | ag.SetValues]:
    """Reserve an event of the itinerary that costs something."""
    usd = next(event.usd for event in events(ctx) if event.title == title)
    reserved = {**ctx.values.get("reserved", {}), title: usd}
    return [f"{title} is reserved for ${usd}.", ag.SetValues(reserved=reserved)]


def pay(
    title: str, usd: int, method: Literal["Apple Pay", "Google Pay", "credit card"], ctx: ag.Context
) -> list[str | ag.SetValues]:
    """Pay for a reserved event."""
    paid = ctx.values.get("paid", {})
    if title in paid or ctx.values.get("reserved", {}).get(title) != usd:
        raise ValueError(f"{title} is paid, or not reserved for ${usd}")
    order = charge(ctx.idempotency_key, usd, method)  # a repeated call charges nothing
    return [f"{title} is paid, order {order}.", ag.SetValues(paid={**paid, title: order})]


def remember(like: str, ctx: ag.Context) -> list[str | ag.SetValues]:
    """Remember a preference of the traveller, for the next trip."""
    return ["It is remembered.", ag.SetValues(likes=[*ctx.values.get("likes", []), like])]


places = ag.chat_agent(
    "places",
    MODEL,
    description="Suggests destinations.",
    instruction=instructed("Suggest three destinations."),
    output_schema=Places,
)
suggest = ag.chat_agent(
    "suggest",
    MODEL,
    instruction=instructed("Suggest up to five sights and activities at the destination."),
    output_schema=Places,
    output_key="sights",
)
sights = ag.sequential("sights", [suggest, locate], description="Suggests what to do at a destination.")
inspiration = ag.chat_agent(
    "inspiration",
    MODEL,
    description="Knows where to go, and what to do there.",
    instruction=instructed(
        "Help the traveller to find a destination and things to do there. Suggest at once rather than "
        "ask much. Leave dates, flights and hotels to planning."
    ),
    tools=[
        ag.agent_tool(places),
        ag.agent_tool(sights, output=lambda reply: reply.values["sights"]),
    ],
)

flights = ag.chat_agent(
    "flights",
    MODEL,
    description="Finds flights.",
    instruction=instructed("You simulate a search: make up flights that fit the request."),
    output_schema=Flights,
)
hotels = ag.chat_agent(
    "hotels",
    MODEL,
    description="Finds hotels.",
    instruction=instructed("You simulate a search: make up hotels that fit the request."),
    output_schema=Hotels,
)
itinerary = ag.chat_agent(
    "itinerary",
    MODEL,
    description="Writes and keeps the itinerary, from what the traveller has chosen.",
    instruction=instructed(
        "Write the itinerary: the flights that were chosen, the nights in the hotel as one event, and "
        "the visits that were agreed on. Leave time for the ways between."
    ),
    output_schema=Itinerary,
    output_key="itinerary",
)
planning = ag.chat_agent(
    "planning",
    MODEL,
    description="Finds flights and hotels, and writes the itinerary.",
    instruction=instructed(
        "Plan the trip: ask for dates, origin and destination if they are not known; find flights and "
        "hotels; keep what the traveller chooses. Once all is chosen, have the itinerary written, and "
        "ask whether to book. Leave that to booking."
    ),
    tools=[
        ag.agent_tool(flights, args_schema=FlightSearch),
        ag.agent_tool(hotels, args_schema=HotelSearch),
        ag.agent_tool(itinerary, history="shared"),
        choose_flight,
        choose_hotel,
    ],
)
booking = ag.chat_agent(
    "booking",
    MODEL,
    description="Books the itinerary, and pays.",
    instruction=instructed(
        "Show what has to be booked and its price. Ask how to pay: by Apple Pay, Google Pay or credit "
        "card. Then reserve and pay one event after the other, and sum up."
    ),
    tools=[reserve, pay],
    approve=["pay"],
    parallel_tools=False,  # each call adds to the values of the previous call
)

packing = ag.chat_agent(
    "packing",
    MODEL,
    description="Says what to pack.",
    instruction=instructed("Name a handful of things to pack for the trip."),
    output_schema=Packing,
)
pre_trip = ag.chat_agent(
    "pre_trip",
    MODEL,
    description="Prepares a traveller whose trip is booked.",
    instruction=instructed(
        "Search for visa rules, health rules, storms and travel warnings for the trip, ask what to "
        "pack, and sum up what matters."
    ),
    tools=[web_search_or(search), ag.agent_tool(packing)],
)

monitor = ag.each(
    "monitor",
    check,
    ahead,
    as_="event",
    output_key="checks",
    description="Checks flights, bookings and weather.",
)
way = ag.chat_agent("way", MODEL, description="Knows the way to the next event.", instruction=next_leg)
in_trip = ag.chat_agent(
    "in_trip",
    MODEL,
    description="Helps during the trip.",
    instruction=instructed(
        "You are a guide during the trip. Tell about what the traveller visits; check what is ahead, "
        "and propose changes; help to get to the next event."
    ),
    tools=[
        ag.agent_tool(monitor, args_schema=Until, output=lambda reply: reply.values["checks"]),
        ag.agent_tool(way),
    ],
)
post_trip = ag.chat_agent(
    "post_trip",
    MODEL,
    description="Asks how the trip was.",
    instruction=instructed(
        "Ask what the traveller liked, and what could have been better. Remember each thing on its own."
    ),
    tools=[remember],
    parallel_tools=False,
)
travel_concierge = ag.chat_agent(
    "travel_concierge",
    MODEL,
    instruction=instructed(
        "You are the concierge of a traveller. Transfer at once to the agent for what the traveller "
        "asks, or else for the phase of the trip."
    ),
    sub_agents=[inspiration, planning, booking, pre_trip, in_trip, post_trip],
    peers=True,
    sticky=True,
)

if __name__ == "__main__":
    play(
        travel_concierge,
        "What is there to do in Seattle?",
        "Plan it: May 1 to 3, from San Diego.",
        "I take them.",
        "Book it. I pay with Google Pay.",
        "approve",
        values={"now": "2027-03-01"},
    )
