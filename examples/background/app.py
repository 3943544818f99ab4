"""A desk whose researchers work in the background, while you talk with it."""

import sys
from contextlib import suppress
from itertools import chain
from typing import Annotated, Any
from uuid import uuid4

from langchain_core.messages import HumanMessage
from pydantic import Field

import agentgraph as ag
from agentgraph.testing import transcript
from examples.background.office import DESK, Office
from examples.background.offline import SCRIPTS, search
from examples.models import announce, arguments, model_or_script, web_search_or, why_offline

MODEL = model_or_script("openai:gpt-5-mini", SCRIPTS)
Title = Annotated[str, Field(pattern="^[a-z0-9-]{1,20}$", description="One word, in lower case.")]


def research(title: Title, request: str, ctx: ag.Context[Office]) -> str:
    """Start a researcher, and return its id at once; its end is reported later."""
    researcher = f"{title}-{ctx.idempotency_key[:8]}"  # the same if a killed call runs again
    with suppress(ag.ThreadBusyError):  # a call that died has started it already
        ctx.context.start(researcher, request)
    return researcher


def look(ctx: ag.Context[Office]) -> list[dict[str, Any]] | str:
    """Look at the researchers whose end was not reported yet: status, last event, model calls."""
    office = ctx.context
    working = [call.answer for call in office.desk.thread(DESK).open_calls]
    return [_seen(office.workers.thread(each)) for each in working] or "No researcher is active."


def _seen(thread: ag.Thread) -> dict[str, Any]:
    events = [event for turn in thread.turns for event in turn.events]
    return {
        "id": thread.thread_id,
        "status": thread.status if thread.turns else "waits for its turn",
        "last event": transcript(events[-1:]),
        "model calls": thread.spent.model_calls,
    }


def steer(researcher: str, text: str, ctx: ag.Context[Office]) -> str:
    """Send a message to a researcher, by its id; it reads it before its next step."""
    workers = ctx.context.workers
    workers.steer(researcher, HumanMessage(text, id=ctx.idempotency_key))  # sent twice, read once
    is_late = workers.thread(researcher).status == "done"
    return "It has ended already." if is_late else "It is sent."


def stop(researcher: str, ctx: ag.Context[Office]) -> list[str | ag.SetValues]:
    """Stop a researcher, by its id."""
    ctx.context.workers.stop(researcher)
    return ["It stops before its next step.", ag.SetValues(stopped=[researcher])]


def collect(researcher: str, ctx: ag.Context[Office]) -> str:
    """Return the report of a researcher that has ended, by its id."""
    return ctx.context.workers.result(researcher).text


def answer(researcher: str, question: str, text: str, ctx: ag.Context[Office]) -> str:
    """Answer a question of a researcher, both by their ids; its end is reported later."""
    ctx.context.start(researcher, question=question, text=text)
    return researcher


searcher = ag.chat_agent(
    "searcher",
    MODEL,
    instruction="Research the topic: search, read, think about what is missing, search again.",
    tools=[web_search_or(search)],
)
writer = ag.chat_agent("writer", MODEL, instruction="Write a report of a page, with its sources.")
researcher = ag.sequential("researcher", [searcher, writer])
desk = ag.chat_agent(
    "desk",
    MODEL,
    instruction="You are the desk of a research office. Start a researcher for each topic, and answer "
    "at once, because it works in the background. When one ends, a result of research says so: "
    "collect its report, and sum it up. Look at, steer and stop researchers as the person asks.",
    tools=[ag.long_running(research), ag.long_running(answer), look, steer, stop, collect],
)
CONVERSATION = [
    "Research bees, ants and wasps.",
    "How is it going?",
    "Tell the one about ants to look at Europe only.",
    "Stop the one about wasps.",
]


def main(path: str, given: list[str]) -> None:
    """Say texts to the desk, or what is left of the conversation; wait for all researchers."""
    with Office(desk, researcher, path) as office:
        office.resume()
        said = sum(turn.messages[0].type == "human" for turn in office.desk.thread(DESK).turns)
        texts = given or CONVERSATION[said:]
        is_chat = sys.stdin.isatty() and not why_offline()
        for text in chain(texts[:1], iter(_typed, "")) if is_chat else texts:
            office.say(text, str(uuid4()))
        office.wait()
    print("All researchers have ended.")


def _typed() -> str:
    try:
        return input()
    except EOFError:
        return ""


if __name__ == "__main__":
    given = arguments("a message to the desk")
    announce()
    try:
        main("background.db", given)
    except KeyboardInterrupt:
        print("The researchers are stopped; the same command continues.")
