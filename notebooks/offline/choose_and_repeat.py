"""The scripts of notebook 12: the kind of a letter, and the answer to a question."""

from langchain_core.messages import BaseMessage

from offline import by_agent


def _kind(messages: list[BaseMessage]) -> str:
    letter = messages[0].text.partition("Letter: ")[2]
    if not letter:
        raise ValueError("the letter is empty")
    return "question" if "?" in letter else "complaint" if "!" in letter else "other"


def _answer(messages: list[BaseMessage]) -> str:
    return "At nine." if "open" in messages[0].text else "Yes, on Sundays too."


SCRIPTED = by_agent(kind=_kind, answer=_answer)
