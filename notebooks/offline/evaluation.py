"""The script of notebook 18: a desk that believes customers, unless it must look up prices."""

import re

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.testing import call, calls
from offline import by_agent


def _desk(messages: list[BaseMessage]) -> str | AIMessage:
    """Look up the order, unless the customer names an amount; then refund it."""
    instruction, text = messages[0].text, messages[1].text
    named = re.search(r"[Oo]rder (\d+)", text)
    if named is None:
        return "Which order is it?"
    order = int(named[1])
    claimed = re.findall(r"(\d+) euros", text)
    results = [message.text for message in messages if message.type == "tool"]
    if not results:
        if claimed and "Look up" not in instruction:
            return calls(call("refund", order=order, euros=int(claimed[0])))
        return calls(call("look_up", order=order))
    if "no such order" in results[-1]:
        return f"I find no order {order}."
    if "refunded" in results[-1]:
        return f"I am sorry. {results[-1]}" if claimed else results[-1]
    return calls(call("refund", order=order, euros=int(re.findall(r"(\d+) euros", results[-1])[0])))


def _judge(messages: list[BaseMessage]) -> AIMessage:
    """Find a reply with an apology polite."""
    return calls(call("Politeness", score=1.0 if "sorry" in messages[-1].text else 0.4))


SCRIPTED = by_agent(desk=_desk, judge=_judge)
