"""The scripts of notebook 05: a desk that calls tools, its guide, refunds and a note."""

import json

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.testing import call, calls
from offline import by_agent, last_turn, received


def _desk(messages: list[BaseMessage]) -> str | AIMessage:
    """Call three tools in one message, book on request, then report."""
    asked, texts = last_turn(messages)[0], received(messages)
    if "bye" in asked.lower():
        return calls(call("exit", final_result="Have a good day."))
    if "refunds" in texts:
        return "Can I help you with anything else?"
    if "was late" in asked:
        return calls(call("transfer_to_refunds"))
    if not texts:
        guide = call("guide", request="What is there to see in Rome?")
        return calls(call("weather", city="Rome"), call("trains", city="Rome"), guide)
    if "book" in asked.lower() and "book" not in texts:
        return calls(call("book", city="Rome", first_class=True))
    return " ".join(text.rpartition("Tool response:\n")[2] for text in texts.values())


def _refunds(messages: list[BaseMessage]) -> AIMessage:
    """Reply, and transfer back in the same message."""
    return calls(call("transfer_to_desk"), text="We are sorry. You get 20 euros back.")


def _note(messages: list[BaseMessage]) -> str:
    note = {"booked": "Booked" in messages[-1].text, "summary": f"Asked: {last_turn(messages)[0]}"}
    return json.dumps(note, separators=(",", ":"))


SCRIPTED = by_agent(
    desk=_desk, guide=lambda messages: "Go and see the Forum.", refunds=_refunds, note=_note
)
