"""The script of notebook 04."""

from langchain_core.messages import BaseMessage

from agentgraph.testing import ScriptedChatModel


def _letter(messages: list[BaseMessage]) -> str:
    return f"Have a good journey! {messages[-1].text.partition('said: ')[2]}"


SCRIPTED = ScriptedChatModel(responses=_letter, counts_tokens=True)
