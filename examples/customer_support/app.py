"""An airline's support: a primary assistant, and one each for flights, cars, hotels and excursions."""

from datetime import date, datetime, timedelta
from typing import Any

from langchain_core.tools import StructuredTool

import agentgraph as ag
from examples.customer_support.offline import FLIGHTS, OFFERS, POLICIES, SCRIPTS, TICKETS, search
from examples.models import model_or_script, web_search_or
from examples.play import play

MODEL = model_or_script("openai:gpt-5-mini", SCRIPTS)
TextAndValues = list[str | ag.SetValues]


def look_up_policy(words: list[str]) -> str:
    """Search the rules of the airline by words, for example before a flight is changed."""
    rules = [rule for rule in POLICIES if any(word.lower() in rule.lower() for word in words)]
    return "\n".join(rules) or "No rule has these words."


def search_flights(departs: str, arrives: str, day: date) -> list[dict[str, Any]]:
    """Search flights by the codes of airports."""
    wanted = (departs, arrives, day.isoformat())
    return [each for each in FLIGHTS if (each["from"], each["to"], each["departs"][:10]) == wanted]


def change_ticket(ticket: str, flight: str, ctx: ag.Context) -> TextAndValues:
    """Change a ticket of the customer to another flight."""
    tickets = ctx.values["tickets"]
    new = {each["flight"]: each for each in FLIGHTS}[flight]
    if (new["from"], new["to"]) != (tickets[ticket]["from"], tickets[ticket]["to"]):
        raise ValueError(f"{flight} does not fly where the ticket {ticket} does")
    if datetime.fromisoformat(new["departs"]) < datetime.now() + timedelta(hours=3):
        raise ValueError(f"{flight} departs in less than three hours")
    return [f"{ticket} is now for {flight}.", ag.SetValues(tickets={**tickets, ticket: new})]


def cancel_ticket(ticket: str, ctx: ag.Context) -> TextAndValues:
    """Cancel a ticket of the customer."""
    rest = {**ctx.values["tickets"]}
    del rest[ticket]  # an unknown ticket raises an error, which the model receives
    return [f"{ticket} is cancelled.", ag.SetValues(tickets=rest)]


def offers(kind: str) -> list[StructuredTool]:
    """Return the tools that search, book, change and cancel offers of a kind."""

    def search(place: str) -> list[dict[str, Any]]:
        return [
            {"number": number, **each}
            for number, each in OFFERS[kind].items()
            if each["place"] == place
        ]

    def book(number: str, begins: date, ends: date, ctx: ag.Context) -> TextAndValues:
        days = {"begins": begins.isoformat(), "ends": ends.isoformat()}
        booked = {**ctx.values["booked"], number: {**OFFERS[kind][number], **days}}
        return [f"{number} is booked from {begins} to {ends}.", ag.SetValues(booked=booked)]

    def change(number: str, begins: date, ends: date, ctx: ag.Context) -> TextAndValues:
        if number not in ctx.values["booked"]:
            raise ValueError(f"{number} is not booked")
        return book(number, begins, ends, ctx)

    def cancel(number: str, ctx: ag.Context) -> TextAndValues:
        rest = {**ctx.values["booked"]}
        del rest[number]
        return [f"{number} is cancelled.", ag.SetValues(booked=rest)]

    return [
        StructuredTool.from_function(tool, name=f"{verb}_{kind}", description=f"{verb.title()} {kind}.")
        for verb, tool in (("search", search), ("book", book), ("change", change), ("cancel", cancel))
    ]


def assistant(name: str, description: str, tools: list[Any]) -> ag.ChatAgent:
    """Return an assistant; a person approves its changes, but not its searches."""
    sensitive = [tool.name for tool in tools if not tool.name.startswith("search")]
    return ag.chat_agent(
        name,
        MODEL,
        description=description,
        instruction=f"{description} Search persistently, and book only once a tool has said so. For "
        "anything else, or if the customer thinks again, transfer back. The customer has {tickets}, "
        "and has booked {booked}. Today is {today}.",
        tools=tools,
        approve=sensitive,
        parallel_tools=False,  # each call adds to the values of the previous call
    )


@ag.agent
def customer(ctx: ag.Context) -> ag.SetValues:
    """Look up the customer's tickets, if the thread does not have them yet."""
    known = {"tickets": TICKETS, "booked": {}}
    missing = {name: value for name, value in known.items() if name not in ctx.values}
    return ag.SetValues(**missing, today=date.today().isoformat())


flights = [
    StructuredTool.from_function(tool) for tool in (search_flights, change_ticket, cancel_ticket)
]
primary = ag.chat_agent(
    "primary",
    MODEL,
    instruction="You are the support of Swiss Airlines. Search flights and the rules of the airline "
    "yourself. For changes, cars, hotels and excursions transfer to who can make them; the customer "
    "does not know about the others. The customer has {tickets}. Today is {today}.",
    tools=[look_up_policy, search_flights, web_search_or(search)],
    sub_agents=[
        assistant("flight_desk", "Changes and cancels flights, by the rules.", flights),
        assistant("car_desk", "Rents cars.", offers("cars")),
        assistant("hotel_desk", "Books hotels.", offers("hotels")),
        assistant("excursion_desk", "Books excursions.", offers("excursions")),
    ],
    sticky=True,
)
customer_support = ag.sequential("customer_support", [customer, primary])

if __name__ == "__main__":
    play(
        customer_support,
        "How heavy may my hand luggage be?",
        "Change my flight.",
        "approve",
        "I need a hotel in Basel.",
    )
