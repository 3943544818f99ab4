"""A bank, and a script instead of the model of the expenses."""

import re

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.testing import call, calls
from examples.models import Script

PAID: dict[str, int] = {}
"""Payments in euros, by their keys."""


def pay(key: str, euros: int) -> None:
    """Pay once for each key, as providers of payments do."""
    PAID.setdefault(key, euros)


def _clerk(messages: list[BaseMessage]) -> AIMessage:
    text = messages[-1].text
    what, _, price = text.partition(" for ")
    found = re.search(r"\d+", price)
    return calls(call("Expense", what=what, euros=int(found[0]) if found else 0))


SCRIPTS: dict[str, Script] = {"clerk": _clerk}
