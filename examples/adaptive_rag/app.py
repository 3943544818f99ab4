"""Adaptive RAG: chooses a source, grades documents and answers, and retries."""

from typing import Any, Literal

from pydantic import BaseModel, Field

import agentgraph as ag
from examples.adaptive_rag.offline import SCRIPTS, search_index, search_web
from examples.models import model_or_script, web_search_or
from examples.play import play

MODEL = model_or_script("openai:gpt-5-mini", SCRIPTS)


class Route(BaseModel):
    """Where to look for an answer."""

    source: Literal["index", "web"] = Field(description="The index is about agents and their prompts.")


class Grade(BaseModel):
    """The grade of a text."""

    passes: bool = Field(description="Whether the text meets the condition.")


def grader(name: str, instruction: str) -> ag.ChatAgent:
    """Return an agent that stores its grade under its name."""
    return ag.chat_agent(
        name, MODEL, instruction=instruction, output_schema=Grade, output_key=name, history="input"
    )


def passes(name: str) -> Any:
    """Return a function that looks up a grade."""
    return lambda ctx: ctx.values[name]["passes"]


@ag.agent
def start(ctx: ag.Context) -> ag.SetValues:
    """Use the user's message as the question."""
    return ag.SetValues(question=ctx.messages[-1].text, answer="")


@ag.agent
def retrieve(ctx: ag.Context) -> ag.SetValues:
    """Search the index."""
    return ag.SetValues(documents=search_index(ctx.values["question"]))


@ag.agent
def keep_relevant(ctx: ag.Context) -> ag.SetValues:
    """Drop the documents that do not help."""
    graded = zip(ctx.values["documents"], ctx.values["grades"], strict=True)
    return ag.SetValues(documents=[document for document, grade in graded if grade["passes"]])


@ag.agent
def reply(ctx: ag.Context) -> str:
    """Return the answer as the last message of the run."""
    return str(ctx.values["answer"])


def source(ctx: ag.Context) -> str:
    """Use the router's source, and the index after the question was rewritten."""
    return "index" if ctx.iteration else str(ctx.values["route"]["source"])


router = ag.chat_agent(
    "router",
    MODEL,
    instruction="Choose where to look for the answer to the question.",
    output_schema=Route,
    output_key="route",
)
web_search = ag.chat_agent(
    "web_search",
    MODEL,
    instruction="Search the web, and list the facts that help to answer: {question}",
    tools=[web_search_or(search_web)],
    output_key="documents",
    history="input",
)
rewrite = ag.chat_agent(
    "rewrite",
    MODEL,
    instruction="Write a better question for a search index, with the same meaning: {question}",
    output_key="question",
    history="input",
)
write = ag.chat_agent(
    "write",
    MODEL,
    instruction="Answer in three sentences at most: {question}\n"
    "Write something better instead of: {answer}\nUse only these facts:\n{documents}",
    output_key="answer",
    history="input",
)
relevant = grader("relevant", "Does the document help to answer the question? A part will do.")
grounded = grader("grounded", "Do the facts support the answer?\nFacts: {documents}\nAnswer: {answer}")
useful = grader("useful", "Does it answer the question?\nQuestion: {question}\nAnswer: {answer}")

grade = ag.each(
    "grade",
    relevant,
    "documents",
    input="Question: {question}\n\nDocument: {item}",
    output_key="grades",
)
is_found = ag.switch(
    "is_found", lambda ctx: bool(ctx.values["documents"]), {True: ag.BreakLoop(), False: rewrite}
)
is_grounded = ag.switch("is_grounded", passes("grounded"), {True: ag.BreakLoop(), False: ag.SKIP})
is_useful = ag.switch("is_useful", passes("useful"), {True: ag.BreakLoop(), False: rewrite})

find = ag.loop("find", [retrieve, grade, keep_relevant, is_found], max_iterations=3)
look = ag.switch("look", source, {"index": find, "web": web_search})
draft = ag.loop("draft", [write, grounded, is_grounded], max_iterations=3)
attempt = ag.loop("attempt", [look, draft, useful, is_useful], max_iterations=3)
adaptive_rag = ag.sequential("adaptive_rag", [start, router, attempt, reply])

if __name__ == "__main__":
    play(adaptive_rag, "What are the types of agent memory?")
