"""The scripts of notebook 07: the roles of a `plan_execute`, and a letter with a blank."""

import json
import re

from langchain_core.messages import BaseMessage

from offline import by_agent

RESULTS = {"theme": "By the sea.", "music": "Shanties, and a waltz.", "boat": "The old ferry."}


def _planner(messages: list[BaseMessage]) -> str:
    return json.dumps({"steps": ["Find a theme", "Find the music"]})


def _executor(messages: list[BaseMessage]) -> str:
    step = messages[0].text.partition("Your step: ")[2]
    return next(result for word, result in RESULTS.items() if word in step)


def _replanner(messages: list[BaseMessage]) -> str:
    """Return the remaining steps, with one more after the first, or the answer."""
    shown = re.search("Done so far: (.*)\nStill planned: (.*)", messages[0].text)
    assert shown
    done, rest = json.loads(shown[1]), json.loads(shown[2])
    if len(done) == 1:
        rest = ["Find a boat", *rest]
    if rest:
        return json.dumps({"steps": rest})
    return json.dumps({"answer": " ".join(each["result"] for each in done)})


def _letter(messages: list[BaseMessage]) -> str:
    """Leave a blank at first; fill it when asked to."""
    blank = "[name]" if "did not pass" not in messages[-1].text else "friends"
    return f"Dear {blank}, we have a party."


SCRIPTED = by_agent(planner=_planner, executor=_executor, replanner=_replanner, letter=_letter)
