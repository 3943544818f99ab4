"""The scripts of notebook 02: a writer that adds sentences, and a critic that counts them."""

from langchain_core.messages import BaseMessage

from offline import by_agent, last_turn

SENTENCES = ["It is cold.", "They sit close together.", "They live on honey."]


def _writer(messages: list[BaseMessage]) -> str:
    """Draft one sentence, and one more in each further draft."""
    asked, since = last_turn(messages)
    drafts = sum(message.type == "ai" for message in since)
    return f"{asked}: {' '.join(SENTENCES[: drafts + 1])}"


def _critic(messages: list[BaseMessage]) -> str:
    count = sum(sentence in messages[-1].text for sentence in SENTENCES)
    return "GOOD" if count == 3 else f"Too short: {count} of 3 sentences."


SCRIPTED = by_agent(writer=_writer, critic=_critic)
