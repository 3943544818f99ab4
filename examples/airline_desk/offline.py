"""Scripts instead of the models of the airline's desk."""

import re

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.testing import call, calls
from examples.models import Script

SEAT = re.compile(r"\b(\d{1,2}[a-f])\b")
NUMBER = re.compile(r"\b([a-z]{3}\d{3})\b")


def _desk(messages: list[BaseMessage]) -> str | AIMessage:
    asked = _asked(messages)
    if SEAT.search(asked) or "my seat" in asked:
        return calls(call("book_seat"))
    return calls(call("transfer_to_faq")) if asked.endswith("?") else "How can I help?"


def _faq(messages: list[BaseMessage]) -> str | AIMessage:
    asked = _asked(messages)
    if messages[-1].type == "tool":
        return messages[-1].text
    if not asked.endswith("?"):
        return calls(call("transfer_to_airline_desk"))
    return calls(call("look_up", question=asked))


def _seats(messages: list[BaseMessage]) -> str | AIMessage:
    asked = _asked(messages)
    if messages[-1].type == "tool":
        return messages[-1].text
    seat, number = SEAT.search(asked), NUMBER.search(asked)
    if asked.endswith("?"):
        return calls(call("transfer_to_airline_desk"))
    if seat is None or number is None:
        return "Which seat, and what is your confirmation number?"
    return calls(call("update_seat", confirmation_number=number[1].upper(), seat=seat[1].upper()))


def _asked(messages: list[BaseMessage]) -> str:
    """Return the customer's last message."""
    said = [m.text for m in messages if m.type == "human" and not m.text.startswith("[")]
    return said[-1].lower()


SCRIPTS: dict[str, Script] = {"airline_desk": _desk, "faq": _faq, "seats": _seats}
