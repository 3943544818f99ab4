"""Open deep research: asks the user, writes a brief, researches topics in parallel, and reports."""

from langgraph.types import RetryPolicy
from pydantic import BaseModel, Field

import agentgraph as ag
from examples.deep_research.offline import SCRIPTS, search
from examples.models import model_or_script, web_search_or
from examples.play import play

MODEL = model_or_script("openai:gpt-5-mini", SCRIPTS)
RETRY = RetryPolicy(max_attempts=3)


class Clarification(BaseModel):
    """Whether the request is clear enough to start."""

    question: str = Field(description="The question to the user; empty if all is clear.")


class Plan(BaseModel):
    """The topics to research next."""

    topics: list[str] = Field(description="Topics, each described in a sentence; none if all is known.")


@ag.agent
def user(ctx: ag.Context) -> str | ag.Ask:
    """Ask the user about unclear points."""
    return str(ctx.answer) if ctx.answered else ag.Ask(ctx.values["clarification"]["question"])


@ag.agent
def take_notes(ctx: ag.Context) -> ag.SetValues:
    """Add the results to the notes, and a remark for each failed topic."""
    failed = [f"Nothing was found: {error}" for error in ctx.values["failed"].values()]
    found = [text for text in ctx.values["found"] if text is not None]
    return ag.SetValues(notes=[*ctx.values.get("notes", []), *found, *failed])


clarify = ag.chat_agent(
    "clarify",
    MODEL,
    instruction="Ask the user one question if the request for a report is unclear.",
    output_schema=Clarification,
    output_key="clarification",
    retry=RETRY,
)
brief = ag.chat_agent(
    "brief",
    MODEL,
    instruction="Write a brief for researchers: what the user wants to know, in the first person.",
    output_key="brief",
    retry=RETRY,
)
supervisor = ag.chat_agent(
    "supervisor",
    MODEL,
    instruction="Name topics that can be researched in parallel, at most five, or none if the notes "
    "answer the brief.\nBrief: {brief}\nNotes: {notes?}",
    output_schema=Plan,
    output_key="plan",
    history="input",
    retry=RETRY,
)
searcher = ag.chat_agent(
    "searcher",
    MODEL,
    instruction="Research the topic: search, read, think about what is missing, search again.",
    tools=[web_search_or(search)],
    max_iterations=10,
    on_max_iterations="answer",
    retry=RETRY,
)
compress = ag.chat_agent(
    "compress",
    MODEL,
    instruction="Clean up what was found. Leave no fact out, and name the source of each.",
    history=ag.trimmed(100_000),
    retry=RETRY,
)
report = ag.chat_agent(
    "report",
    MODEL,
    instruction="Write the report in Markdown, with its sources.\nBrief: {brief}\nNotes: {notes?}",
    retry=RETRY,
)

is_clear = ag.switch(
    "is_clear",
    lambda ctx: not ctx.values["clarification"]["question"],
    {True: ag.BreakLoop(), False: user},
)
research = ag.each(
    "research",
    ag.sequential("researcher", [searcher, compress]),
    lambda ctx: ctx.values["plan"]["topics"],
    input="{item}",
    max_concurrency=5,
    on_error="collect",
    output_key="found",
    errors_key="failed",
)
is_enough = ag.switch(
    "is_enough", lambda ctx: not ctx.values["plan"]["topics"], {True: ag.BreakLoop(), False: ag.SKIP}
)
scope = ag.loop("scope", [clarify, is_clear], max_iterations=3)
supervise = ag.loop("supervise", [supervisor, is_enough, research, take_notes], max_iterations=6)
deep_research = ag.sequential("deep_research", [scope, brief, supervise, report])

if __name__ == "__main__":
    play(deep_research, "Report on bees.", "I mean honey bees.")
