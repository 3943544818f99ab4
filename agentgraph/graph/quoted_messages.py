"""Messages of other agents, quoted as a user's: without calls, thoughts and blocks of providers."""

import re

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from agentgraph.graph.late_results import is_late, late_verb
from agentgraph.safe_repr import as_json

ANSWER = "answer"
"""The key that marks a tool result as the structured answer of an agent."""


_THOUGHTS = ("reasoning", "thinking", "redacted_thinking")


_PROVIDERS = re.compile(r"\w+_call(_output|_chunk)?|\w+_tool_(use|result)|server_tool_\w+|mcp_\w+")
"""The types of content blocks that hold a model's thoughts."""


def is_answer(message: BaseMessage) -> bool:
    """Return whether a message is a tool result that holds the agent's structured answer."""
    return isinstance(message, ToolMessage) and ANSWER in message.additional_kwargs


def is_call(block: object) -> bool:
    """Return whether a content block is a tool call."""
    return isinstance(block, dict) and block.get("type") in ("tool_use", "tool_call", "function_call")


def is_thought(block: object) -> bool:
    """Return whether a content block is a thought."""
    return isinstance(block, dict) and block.get("type") in _THOUGHTS


def _is_of_provider(block: object) -> bool:
    """Return whether a content block is of a tool that the provider of the model runs itself."""
    return isinstance(block, dict) and _PROVIDERS.fullmatch(str(block.get("type"))) is not None


def _plain(block: str | dict[str, object]) -> str | dict[str, object]:
    if isinstance(block, dict) and block.get("type") == "text":
        return {"type": "text", "text": block.get("text")}
    return block


def quoted(message: BaseMessage, speaker: str | None) -> BaseMessage:
    """Return a user message that quotes a message, calls included, as in `[critic] said: No`.

    The message of a late result names its call, whose result was another message.
    """
    prefix = f"[{speaker}] " if speaker else ""
    is_result = isinstance(message, ToolMessage) and not is_answer(message)
    verb = f"{message.name or 'tool'} returned" if is_result else "said"
    if isinstance(message, ToolMessage) and is_late(message):
        verb = late_verb(message)
    calls = [
        f"{prefix}called {call['name']}({as_json(call['args'])})"
        for call in (message.tool_calls if isinstance(message, AIMessage) else ())
    ]
    content: str | list[str | dict[str, object]]
    if isinstance(message.content, str):
        lines = [f"{prefix}{verb}: {message.content}"] if message.content or not calls else []
        content = "\n".join(lines + calls)
    else:
        said = [each for each in message.content if not (is_call(each) or is_thought(each))]
        blocks = [_plain(each) for each in said if not _is_of_provider(each)]
        if blocks or not calls:
            blocks.insert(0, {"type": "text", "text": f"{prefix}{verb}:"})
        content = blocks + [{"type": "text", "text": call} for call in calls]
    return HumanMessage(content, name=speaker, id=message.id)
