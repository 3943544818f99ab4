"""The script of notebook 11: one model for the desk, which has an instruction, and for summaries."""

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.testing import ScriptedChatModel, call, calls


def _reply(messages: list[BaseMessage]) -> str | AIMessage:
    if messages[0].type != "system":
        return "Both are about bees."
    _, _, preference = messages[1].text.partition("I like ")
    if preference and messages[-1].type != "tool":
        return calls(call("remember", preference=preference))
    return messages[0].text


SCRIPTED = ScriptedChatModel(responses=_reply)
