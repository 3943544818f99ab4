"""A tree whose steps take a while, which is time to kill the process that runs it.

`python -m examples.durable.tree` runs it in this process, without an engine.
"""

import os
import time
from pathlib import Path

import agentgraph as ag

LOG = Path(os.environ.get("LOG", "durable.log"))
SECONDS = float(os.environ.get("SECONDS", "1"))  # of each step


def work(ctx: ag.Context) -> None:
    """Write a line to the log, then work.

    A line has the thread, the address, the process and the idempotency key. A repeated step has the
    same key; a payment would send this key to its provider.
    """
    thread = ctx.config["configurable"]["thread_id"]
    with LOG.open("a", encoding="utf-8") as log:
        log.write(f"{thread} {ctx.address} {os.getpid()} {ctx.idempotency_key}\n")
    time.sleep(SECONDS)


@ag.agent
def writer(ctx: ag.Context) -> str:
    """Write a draft."""
    work(ctx)
    return "A draft." if ctx.iteration == 0 else "A longer draft."


@ag.agent
def critic(ctx: ag.Context) -> str | ag.BreakLoop:
    """Accept the second draft."""
    work(ctx)
    return ag.BreakLoop() if ctx.iteration == 1 else "Too short."


@ag.agent
def legal(ctx: ag.Context) -> str:
    """Check the rights."""
    work(ctx)
    return "No one is named."


@ag.agent
def press(ctx: ag.Context) -> str:
    """Check the layout."""
    work(ctx)
    return "It fits on a page."


@ag.agent
def translator(ctx: ag.Context) -> str:
    """Translate the draft into a language."""
    work(ctx)
    return f"In {ctx.values['language']}."


@ag.agent
def printer(ctx: ag.Context) -> str:
    """Print the draft if the boss approves it."""
    work(ctx)
    return "Printed." if ctx.values["decision"] == "yes" else "Thrown away."


refine = ag.loop("refine", [writer, critic], max_iterations=5)
checks = ag.parallel("checks", [legal, press])
languages = ag.each(
    "languages",
    translator,
    lambda ctx: ["French", "Greek", "Dutch", "Czech"],
    as_="language",
    max_concurrency=2,
)
boss = ag.human("boss", "Print it?", response_schema={"enum": ["yes", "no"]}, output_key="decision")
magazine = ag.sequential("magazine", [refine, checks, languages, boss, printer])

if __name__ == "__main__":
    with ag.Runner(magazine, checkpointer="durable.db") as runner:
        asked = runner.advance("here", "Go.", turn_id="first")
        done = runner.advance(
            "here", turn_id="first", answers={each.id: "yes" for each in asked.pending}
        )
        for event in done.events:
            print(f"{event.address}: {event.text or event.kind}")
