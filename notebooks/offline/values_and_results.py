"""The script of notebook 10: read the notes by a tool, then answer by a schema."""

import json

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.testing import ScriptedChatModel, call, calls


def _writer(messages: list[BaseMessage]) -> str | AIMessage:
    if messages[-1].type != "tool":
        return calls(call("notes"))
    report = {"title": messages[-1].text.partition(".")[0], "sentences": 2}
    return json.dumps(report, separators=(",", ":"))


SCRIPTED = ScriptedChatModel(responses=_writer, counts_tokens=True)
