"""Models with names and prices, and what runs of them cost."""

from decimal import Decimal
from typing import Any

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel
from helpers.drives import Drive

CENT = Decimal("0.01")


class Named(ScriptedChatModel):
    """A model with a name; each word is a token."""

    model: str
    counts_tokens: bool = True


def named(name: str, model: str, *responses: Any, **options: Any) -> ag.Agent:
    return ag.chat_agent(name, Named(model=model, responses=[*responses]), **options)


def per_token(model: str, usage: Any) -> Decimal:
    return Decimal(usage["total_tokens"]) * CENT


def table(model: str, usage: Any) -> Decimal | None:
    """Return the price by a table, in which some models are missing."""
    rate = {"cheap": CENT, "dear": Decimal(1)}.get(model)
    return None if rate is None else rate * usage["total_tokens"]


def costs(spent: ag.Spent) -> dict[str, Decimal | None]:
    """Return the cost of a turn, by "" and the names of agents."""
    return {"": spent.cost, **{name: each.cost for name, each in spent.by_agent.items()}}


def ran(drive: Drive, runner: ag.Runner, text: str = "Go.", **options: Any) -> ag.Spent:
    """Run a turn of thread "t", and return its spending."""
    list(drive.run(runner, text, thread_id="t", **options))
    return runner.thread("t").turns[-1].spent
