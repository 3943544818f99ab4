"""The scripts of notebook 03, which shows the messages for the models."""

from offline import by_agent, last_turn

SCRIPTED = by_agent(
    writer=lambda messages: f"A draft on {last_turn(messages)[0]}.",
    facts=lambda messages: "The facts are right.",
    reader=lambda messages: "It is hard to read.",
    style=lambda messages: "Use shorter words.",
    editor=lambda messages: f"A final text on {last_turn(messages)[0]}.",
    clerk=lambda messages: "Filed.",
)
