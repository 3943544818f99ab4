"""The script of notebook 15: a scout that visits four hives in a turn, one call after the other."""

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.testing import ScriptedChatModel, call, calls

DONE = "All is well."


def _scout(messages: list[BaseMessage]) -> str | AIMessage:
    """Visit the next hive; a message that was sent to the run does not restart the round."""
    ends = [n for n, message in enumerate(messages) if message.text == DONE]
    visited = sum(message.type == "tool" for message in messages[ends[-1] if ends else 0 :])
    return calls(call("visit", hive=visited)) if visited < 4 else DONE


SCRIPTED = ScriptedChatModel(responses=_scout, counts_tokens=True)
