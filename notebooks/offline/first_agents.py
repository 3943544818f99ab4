"""The script of notebook 01."""

from langchain_core.messages import BaseMessage

from agentgraph.testing import ScriptedChatModel
from offline import last_turn


def _writer(messages: list[BaseMessage]) -> str:
    return f"A few lines on {last_turn(messages)[0]}"


SCRIPTED = ScriptedChatModel(responses=_writer, counts_tokens=True)
