"""Expenses: small ones are paid at once; for others a manager decides in time, or else the director."""

import time
from datetime import timedelta
from typing import Literal

from pydantic import BaseModel, Field

import agentgraph as ag
from examples.expenses.offline import SCRIPTS, pay
from examples.models import model_or_script
from examples.play import play

SMALL = 50  # euros


class Expense(BaseModel):
    """An expense that an employee wants back."""

    what: str = Field(description="The purchase, in a few words.")
    euros: int


@ag.agent
def cashier(ctx: ag.Context) -> str:
    """Pay a small or approved expense; a repeated step has the same key, and pays once."""
    expense = ctx.values["expense"]
    if expense["euros"] >= SMALL and ctx.values["decision"] != "approve":
        return f"{expense['what']}: not paid."
    pay(ctx.idempotency_key, expense["euros"])
    return f"{expense['what']}: {expense['euros']} euros are paid."


clerk = ag.chat_agent(
    "clerk",
    model_or_script("openai:gpt-5-mini", SCRIPTS),
    instruction="Read what an employee has bought, and for how many euros.",
    output_schema=Expense,
    output_key="expense",
)


def office(day: timedelta) -> ag.Agent:
    """Return the tree; its deadlines are in days."""
    manager = ag.human(
        "manager",
        "Pay {expense}?",
        response_schema=Literal["approve", "reject", "ask the director"],
        timeout=2 * day,
        default="ask the director",
        output_key="decision",
    )
    director = ag.human(
        "director",
        "Pay {expense}? The manager leaves it to you.",
        response_schema=Literal["approve", "reject"],
        timeout=5 * day,
        default="reject",
        output_key="decision",
    )
    escalation = ag.switch("escalation", "decision", {"ask the director": director}, otherwise=ag.SKIP)
    approval = ag.switch(
        "approval",
        lambda ctx: ctx.values["expense"]["euros"] < SMALL,
        {True: ag.SKIP, False: ag.sequential("decision", [manager, escalation])},
    )
    return ag.sequential("expenses", [clerk, approval, cashier])


expenses = office(timedelta(days=1))


def no_answers(runner: ag.Runner, thread_id: str) -> ag.Result:
    """A chair for 400 euros, no answers, and days that take 50 milliseconds."""
    with ag.Runner(office(timedelta(seconds=0.05))) as quick:
        result = quick.invoke("A chair for 400 euros.", thread_id=thread_id)
        while result.pending:
            time.sleep(max(0, (result.pending[0].deadline or 0) - time.time()))
            quick.advance(thread_id)
            result = quick.result(thread_id)
        return result


if __name__ == "__main__":
    play(
        expenses,
        "A train ticket for 30 euros.",
        "A dinner with a customer for 180 euros.",
        "approve",
        no_answers,
    )
