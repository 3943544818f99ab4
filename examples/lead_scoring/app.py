"""Lead scoring: scores leads in parallel, asks a person about the best, and writes to all."""

import csv
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

import agentgraph as ag
from examples.lead_scoring.offline import SCRIPTS
from examples.models import model_or_script
from examples.play import play

MODEL = model_or_script("openai:gpt-5-mini", SCRIPTS)
LEADS = Path(__file__).parent / "leads.csv"
JOB = "A junior React developer for a Next.js application, for a year; TypeScript, CSS, Git, REST."
TOP = 3


class Score(BaseModel):
    """The fit of a lead and the job."""

    score: int = Field(ge=1, le=100, description="A precise number: 87 or 42 rather than 90 or 50.")
    reason: str


class Decision(BaseModel):
    """The decision on the leads."""

    choice: Literal["write", "score again", "quit"]
    feedback: str = ""


@ag.agent
def load(ctx: ag.Context) -> ag.SetValues:
    """Read the leads."""
    with LEADS.open(encoding="utf-8", newline="") as file:
        return ag.SetValues(leads=[*csv.DictReader(file)], feedback="")


@ag.agent
def rank(ctx: ag.Context) -> ag.SetValues:
    """Sort the scored leads, the best first."""
    scored = [
        {**lead, **score}
        for lead, score in zip(ctx.values["leads"], ctx.values["scores"].values(), strict=True)
        if score
    ]
    best_first = sorted(scored, key=lambda lead: -lead["score"])
    return ag.SetValues(ranked=[{**lead, "top": n < TOP} for n, lead in enumerate(best_first)])


@ag.agent
def review(ctx: ag.Context) -> ag.Ask | ag.Exit | ag.BreakLoop | ag.SetValues:
    """Show the best leads to a person, who may request a new scoring."""
    if not ctx.answered:
        top = [f"{lead['name']}: {lead['score']}, {lead['reason']}" for lead in ctx.values["ranked"]]
        failed = len(ctx.values["failed"])
        return ag.Ask({"top": top[:TOP], "not scored": failed}, response_schema=Decision)
    match ctx.answer["choice"]:
        case "quit":
            return ag.Exit()
        case "write":
            return ag.BreakLoop()
    return ag.SetValues(feedback=ctx.answer["feedback"])


@ag.agent
def save(ctx: ag.Context) -> str:
    """Write each e-mail to a file."""
    folder = Path("emails")
    folder.mkdir(exist_ok=True)
    for key, text in ctx.values["emails"].items():
        (folder / f"{key}.txt").write_text(text, encoding="utf-8")
    return f"Saved {len(ctx.values['emails'])} e-mails in {folder}."


def about(ctx: ag.Context) -> str:
    """Return the text about the lead of an agent."""
    lead: dict[str, Any] = ctx.values["lead"]
    return "\n".join(f"{name}: {value}" for name, value in lead.items())


scorer = ag.chat_agent(
    "scorer",
    MODEL,
    instruction="You are a senior recruiter. Score how well the lead fits the job: skills, experience, "
    f"growth, culture.\nThe job: {JOB}\nWhat the hiring manager says: {{feedback}}",
    output_schema=Score,
    output_key="scored",
)
writer = ag.chat_agent(
    "writer",
    MODEL,
    instruction="You are Sarah of the hiring team. Write the lead a friendly e-mail: if `top` is true, "
    "ask for a time for a call in the next days, else decline and thank them for their interest.",
)
score = ag.each(
    "score",
    scorer,
    "leads",
    as_="lead",
    key=lambda lead: lead["id"],
    input=about,
    on_error="collect",
    output_key="scores",
    errors_key="failed",
)
write = ag.each(
    "write",
    writer,
    "ranked",
    as_="lead",
    key=lambda lead: lead["id"],
    input=about,
    output_key="emails",
)
agree = ag.loop("agree", [score, rank, review], max_iterations=10)
lead_scoring = ag.sequential("lead_scoring", [load, agree, write, save])

if __name__ == "__main__":
    play(
        lead_scoring,
        "Go.",
        {"choice": "score again", "feedback": "Someone who teaches."},
        {"choice": "write"},
    )
