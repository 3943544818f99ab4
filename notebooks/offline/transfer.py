"""The scripts of notebook 13: each agent transfers questions about the other's subject."""

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.testing import call, calls
from offline import Script, by_agent, last_turn


def _knows(name: str, other: str, *words: str) -> Script:
    """Return the script of an agent that transfers questions with some words to another."""

    def script(messages: list[BaseMessage]) -> str | AIMessage:
        asked = last_turn(messages)[0]
        if any(word in asked for word in words):
            return calls(call(f"transfer_to_{other}"))
        return f"The {name} agent answers: {asked}"

    return script


SCRIPTED = by_agent(
    shop=_knows("shop", "bees", "sting", "queen"), bees=_knows("bees", "shop", "open", "price")
)
