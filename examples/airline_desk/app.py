"""An airline's desk: a triage agent transfers customers to the FAQ or to seat booking, and back."""

from random import randint

import agentgraph as ag
from examples.airline_desk.offline import SCRIPTS
from examples.models import model_or_script
from examples.play import play

MODEL = model_or_script("openai:gpt-5-mini", SCRIPTS)
ANSWERS = {
    "bag": "One bag, under 50 pounds, and at most 22 x 14 x 9 inches.",
    "seat": "22 business and 98 economy seats; rows 4 and 16 are exits, rows 5 to 8 have more room.",
    "wifi": "It is free: join Airline-Wifi.",
}


def look_up(question: str) -> str:
    """Look up a common question of customers."""
    known = (answer for word, answer in ANSWERS.items() if word in question.lower())
    return next(known, "No answer is known for this question.")


def update_seat(confirmation_number: str, seat: str, ctx: ag.Context) -> list[str | ag.SetValues]:
    """Change the seat of a booking."""
    flight = ctx.values.get("flight", f"FLT-{randint(100, 999)}")
    booked = {"confirmation_number": confirmation_number, "seat": seat, "flight": flight}
    return [f"{confirmation_number} now has the seat {seat} on {flight}.", ag.SetValues(**booked)]


faq = ag.chat_agent(
    "faq",
    MODEL,
    description="Answers questions about the airline.",
    instruction="Answer the customer's last question by look_up, never by what you know yourself. If "
    "there is no answer, transfer back.",
    tools=[look_up],
)
seats = ag.chat_agent(
    "seats",
    MODEL,
    instruction="Ask for the confirmation number and the seat that the customer wants, then update the "
    "seat. If the customer asks for anything else, transfer back.",
    tools=[update_seat],
)
airline_desk = ag.chat_agent(
    "airline_desk",
    MODEL,
    instruction="You are the first whom customers of an airline meet. Transfer them to who can help.",
    sub_agents=[faq, ag.handoff(seats, name="book_seat", description="Changes the seat on a flight.")],
    sticky=True,
)

if __name__ == "__main__":
    play(
        airline_desk,
        "May I bring a bag?",
        "I do not like my seat.",
        "12A, please. My number is ABC123.",
    )
