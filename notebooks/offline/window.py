"""The script of notebook 16: look up the price, and greet only in the second draft."""

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.testing import ScriptedChatModel, call, calls


def _clerk(messages: list[BaseMessage]) -> str | AIMessage:
    match messages[-1].type, messages[-1].name:
        case "tool", _:
            return "Honey costs 7 euro."
        case _, "check":
            return "Dear Ada, honey costs 7 euros."
    return calls(call("price", "price-1", what="honey"))


SCRIPTED = ScriptedChatModel(responses=_clerk, counts_tokens=True)
