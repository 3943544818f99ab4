"""The script of notebook 08: the model of LangChain's `create_agent`."""

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.testing import ScriptedChatModel, call, calls
from offline import last_turn


def _librarian(messages: list[BaseMessage]) -> str | AIMessage:
    """Search for the user's topic, then report the result."""
    if messages[-1].type == "tool":
        return f"Dear reader, there is this: {messages[-1].text}"
    return calls(call("search", topic=last_turn(messages)[0].strip("?!. ")))


SCRIPTED = ScriptedChatModel(responses=_librarian, counts_tokens=True)
