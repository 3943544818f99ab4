"""Scripts that answer in place of the notebooks' models if `OPENAI_API_KEY` is not set."""

from collections.abc import Callable

from langchain_core.messages import AIMessage, BaseMessage

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel

Script = Callable[[list[BaseMessage]], str | AIMessage]
"""A function that receives the messages for a model, and returns its reply."""


def by_agent(**scripts: Script) -> Callable[[ag.Context], ScriptedChatModel]:
    """Return a value for `model=` that looks up the script of an agent by its name."""
    models = {
        name: ScriptedChatModel(responses=script, counts_tokens=True)
        for name, script in scripts.items()
    }
    return lambda ctx: models[ctx.name]


def last_turn(messages: list[BaseMessage]) -> tuple[str, list[BaseMessage]]:
    """Return the user's last input and all later messages; messages of agents have names."""
    at = max(n for n, message in enumerate(messages) if message.type == "human" and not message.name)
    return messages[at].text, messages[at + 1 :]


def received(messages: list[BaseMessage]) -> dict[str, str]:
    """Return the texts of the last turn by their tool or agent."""
    return {
        str(message.name): message.text.removeprefix(f"[{message.name}] said: ")
        for message in last_turn(messages)[1]
        if message.type in ("tool", "human")
    }
