"""The scripts of notebook 06: a supervisor for each mode, and their workers."""

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.testing import call, calls
from offline import Script, by_agent, last_turn, received

FACTS = {"bees": "Bees dance to tell where flowers are.", "wasps": "Wasps make paper."}
FIGURES = {"bees": "A hive has 40,000 bees.", "wasps": "A nest has 5,000 wasps."}


def _looks_up(book: dict[str, str]) -> Script:
    """Return the script of a worker that knows what a book says about a topic."""

    def script(messages: list[BaseMessage]) -> str:
        asked = last_turn(messages)[0].lower()
        return next((book[topic] for topic in book if topic in asked), "Nothing is known.")

    return script


def _writer(messages: list[BaseMessage]) -> str:
    """Write the results of the others, or the text of the request."""
    texts = [text for name, text in received(messages).items() if not name.startswith("transfer_")]
    return f"Did you know? {' '.join(texts) or last_turn(messages)[0]}"


def _proofreader(messages: list[BaseMessage]) -> str:
    return received(messages)["writer"].replace("?", "!")


def _lead(messages: list[BaseMessage]) -> str | AIMessage:
    """With `mode="tools"`: call two workers in one message, then the third with their results."""
    asked, texts = last_turn(messages)[0], received(messages)
    if not texts:
        return calls(call("facts", request=asked), call("figures", request=asked))
    if "article" not in texts:
        return calls(call("article", request=f"{texts['facts']} {texts['figures']}"))
    return f"Here it is. {texts['article']}"


def _head(messages: list[BaseMessage]) -> str | AIMessage:
    """With `mode="handoff"`: transfer to one worker after the other."""
    texts = received(messages)
    for worker, last_agent in (("facts", "facts"), ("figures", "figures"), ("article", "proofreader")):
        if last_agent not in texts:
            return calls(call(f"transfer_to_{worker}"))
    return "Here it is."


SCRIPTED = by_agent(
    lead=_lead,
    head=_head,
    facts=_looks_up(FACTS),
    figures=_looks_up(FIGURES),
    writer=_writer,
    proofreader=_proofreader,
)
