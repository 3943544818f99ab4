"""Ten trees as newcomers write them: few annotations, lambdas, helpers, values here and there."""

import json
import random
from typing import Any, Literal

from langchain_core.tools import tool
from pydantic import BaseModel

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel

MODEL = ScriptedChatModel(responses=["So."])


# a blog


def count_words(ctx):
    draft = ctx.values["draft"]
    words = len(draft.split())
    return [f"{words} words.", ag.SetValues(words=words)]


def is_long_enough(ctx):
    return ctx.values["words"] > 300 or "APPROVED" in ctx.messages[-1].text


blog = ag.sequential(
    "blog",
    [
        ag.chat_agent("researcher", MODEL, instruction="Research {topic}.", output_key="research"),
        ag.loop(
            "improve",
            [
                ag.chat_agent(
                    "writer",
                    MODEL,
                    instruction="Write a post from {research}. Feedback: {feedback?}",
                    output_key="draft",
                ),
                ag.function_agent("counter", count_words),
                ag.chat_agent("editor", MODEL, instruction="Review: {draft}", output_key="feedback"),
            ],
            max_iterations=5,
            until=is_long_enough,
        ),
        ag.chat_agent("seo", MODEL, instruction="Write keywords for {draft}.", output_key="keywords"),
    ],
)


# a help desk that routes


class Ticket(BaseModel):
    kind: Literal["bug", "billing", "other"]
    summary: str


def kind_of(ctx):
    return ctx.values["ticket"]["kind"]


help_desk = ag.sequential(
    "help_desk",
    [
        ag.chat_agent(
            "classify",
            MODEL,
            instruction="Classify the request.",
            output_schema=Ticket,
            output_key="ticket",
        ),
        ag.switch(
            "route",
            kind_of,
            {
                "bug": ag.sequential(
                    "bugs",
                    [
                        ag.chat_agent("reproduce", MODEL, output_key="steps"),
                        ag.chat_agent("fix", MODEL, instruction="Fix the bug: {steps}"),
                    ],
                ),
                "billing": ag.chat_agent("billing", MODEL, instruction="Customer: {customer}"),
            },
            otherwise=ag.chat_agent("smalltalk", MODEL),
        ),
        ag.chat_agent("goodbye", MODEL, instruction="Thank {customer}. Ticket: {ticket}"),
    ],
)


# a shop assistant with tools

PRICES = {"honey": 7, "wax": 4}


@tool
def list_products() -> str:
    """List the products."""
    return json.dumps(PRICES)


def add_to_cart(product: str, ctx: ag.Context):
    """Add a product to the cart."""
    cart = [*ctx.values.get("cart", []), product]
    return [f"Added {product}.", ag.SetValues(cart=cart)]


def show_cart(ctx: ag.Context):
    """Show the cart."""
    if "cart" not in ctx.values:
        return "The cart is empty."
    return ", ".join(ctx.values["cart"])


def checkout(ctx: ag.Context):
    """Order what is in the cart."""
    total = sum(PRICES[each] for each in ctx.values["cart"])
    return f"Ordered for {total} euros."


shop = ag.chat_agent(
    "shop",
    MODEL,
    instruction="You sell honey.",
    tools=[list_products, add_to_cart, show_cart, checkout],
    approve=["checkout"],
)


# a translation for each language


def pick_languages(ctx):
    return ag.SetValues(languages=["French", "Greek"], source=ctx.messages[-1].text)


def together(ctx):
    lines = [f"{name}: {text}" for name, text in ctx.values["translations"].items()]
    if ctx.values["problems"]:
        lines.append(f"{len(ctx.values['problems'])} failed")
    return "\n".join(lines)


translate = ag.sequential(
    "translate",
    [
        ag.function_agent("pick", pick_languages),
        ag.each(
            "languages",
            ag.chat_agent("translator", MODEL, instruction="Translate to {language}."),
            "languages",
            as_="language",
            key=lambda language: language,
            input="{source}",
            on_error="collect",
            output_key="translations",
            errors_key="problems",
        ),
        ag.function_agent("join", together),
    ],
)


# a research team


def search_web(query: str) -> str:
    """Search the web."""
    return f"Nothing about {query}."


team = ag.supervisor(
    "boss",
    MODEL,
    [
        ag.chat_agent("scout", MODEL, description="Finds facts.", tools=[search_web]),
        ag.sequential(
            "article",
            [
                ag.chat_agent("author", MODEL, output_key="text"),
                ag.chat_agent("proofreader", MODEL, instruction="Correct: {text}"),
            ],
        ),
    ],
    instruction="Let the scout find facts, then let article write.",
)


# a debate in rounds


def next_round(ctx):
    rounds = ctx.values.get("rounds", 0) + 1
    return ag.SetValues(rounds=rounds)


debate = ag.sequential(
    "debate",
    [
        ag.loop(
            "rounds_of_talk",
            [
                ag.function_agent("bell", next_round),
                ag.chat_agent("pro", MODEL, instruction="Argue for {motion}. Round {rounds}."),
                ag.chat_agent("con", MODEL, instruction="Argue against {motion}. Answer pro."),
            ],
            max_iterations=3,
        ),
        ag.chat_agent("judge", MODEL, instruction="Name the winner of the debate on {motion}."),
    ],
)


# a release with checks


def run_tests(ctx):
    passed = random.random() > 0.1
    return [ag.SetValues(passed=passed), "Tests ran."]


def may_ship(ctx):
    return ctx.values["passed"] and ctx.values["license"] == "ok"


release = ag.workflow(
    "release",
    [
        ag.function_agent("tests", run_tests),
        ag.chat_agent("licenses", MODEL, instruction="Answer ok or bad.", output_key="license"),
        ag.chat_agent("notes", MODEL, instruction="Write notes for {version}.", output_key="notes"),
        ag.step(
            ag.chat_agent("announce", MODEL, instruction="Announce {version} with {notes}."),
            depends_on=["tests", "licenses", "notes"],
            when=may_ship,
            compensate=lambda ctx: "Taken back.",
        ),
    ],
)


# an approval by a person


@ag.agent
def price_it(ctx):
    """Set the price."""
    return ag.SetValues(price=100)


@ag.agent
def negotiate(ctx):
    if ctx.values["decision"] == "no":
        return ag.SetValues(price=ctx.values["price"] * 0.9)
    return ag.BreakLoop()


offer = ag.sequential(
    "offer",
    [
        price_it,
        ag.loop(
            "haggle",
            [
                ag.chat_agent(
                    "letter", MODEL, instruction="Offer it for {price}.", output_key="letter"
                ),
                ag.human(
                    "boss",
                    "Send this?\n{letter}",
                    response_schema={"enum": ["yes", "no"]},
                    output_key="decision",
                ),
                negotiate,
            ],
            max_iterations=10,
        ),
        ag.switch(
            "send_it",
            "decision",
            {
                "yes": ag.function_agent("mail", lambda ctx: f"Sent: {ctx.values['letter']}"),
                "no": ag.SKIP,
            },
        ),
    ],
)


# a conversation of specialists


def remember(name: str, ctx: ag.Context):
    """Remember the name of the customer."""
    return [f"Hello {name}.", ag.SetValues(name=name)]


def greeting(ctx):
    who = "you"
    if "name" in ctx.values:
        who = ctx.values["name"].title()
    return f"You are the {ctx.name} desk, and talk to {who}."


talk = ag.swarm(
    "talk",
    [
        ag.chat_agent("front", MODEL, instruction=greeting, tools=[remember]),
        ag.chat_agent("sales", MODEL, instruction="Sell something to {name?}."),
        ag.chat_agent("support", MODEL, instruction=greeting),
    ],
)


# a review in parallel


def summary(ctx):
    parts = {name: ctx.values[name] for name in ("security", "style", "speed")}
    return "\n".join(f"{name}: {text}" for name, text in parts.items())


def reviewer(name: str, focus: str) -> Any:
    return ag.chat_agent(name, MODEL, instruction=f"Review the {focus} of {{diff}}.", output_key=name)


review = ag.sequential(
    "review",
    [
        ag.function_agent("load_diff", lambda ctx: ag.SetValues(diff=ctx.messages[-1].text)),
        ag.parallel(
            "reviews",
            [reviewer("security", "security"), reviewer("style", "style"), reviewer("speed", "speed")],
        ),
        ag.function_agent("summarize", summary),
        ag.validated(ag.chat_agent("verdict", MODEL), lambda text: "yes" in text or "no" in text),
    ],
)

TREES = (blog, help_desk, shop, translate, team, debate, release, offer, talk, review)
