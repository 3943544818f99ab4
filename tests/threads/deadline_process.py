"""A program that runs a tree with a deadline: `deadline_process.py FILE DO SAVES KIND`.

It runs the tree ("run"), resumes it without an answer ("resume") or answers all questions ("answer"),
and kills itself after so many saves; 0 for never. Without a default the tree "fails". A clerk asks for
"approval" of two calls.
"""

import sys
from contextlib import suppress
from typing import Any

from helpers import scripted
from helpers.dying import die_after_saves

import agentgraph as ag
from agentgraph.testing import call, calls

WAIT = 0.5
"""Seconds that a question waits: long enough for a process that answers at once."""


def clerk() -> ag.Agent:
    def pay(usd: int) -> str:
        """Pay."""
        return "Paid."

    def reply(messages: Any) -> Any:
        asks = messages[-1].type == "human"
        return calls(call("pay", "1", usd=3), call("pay", "2", usd=4)) if asks else "Done."

    options: dict[str, Any] = {"approve": ["pay"], "interrupt_mode": "per_call"}
    return ag.chat_agent("clerk", scripted(reply, reply), tools=[pay], approve_timeout=WAIT, **options)


def tree(kind: str) -> ag.Agent:
    if kind == "approval":
        return ag.parallel("p", [clerk(), ag.function_agent("writer", lambda ctx: "A draft.")])
    options: dict[str, Any] = {} if kind == "fails" else {"default": "no"}
    boss = ag.human("boss", "Print it?", timeout=WAIT, **options)
    lane = ag.sequential("lane", [boss, ag.function_agent("printer", lambda ctx: "Printed.")])
    return ag.parallel("p", [lane, ag.function_agent("writer", lambda ctx: "A draft.")])


def main(path: str, do: str, saves: str, kind: str) -> None:
    die_after_saves(int(saves))
    with ag.Runner(tree(kind), checkpointer=path) as runner:
        if do == "run":
            runner.invoke("Go.", thread_id="t")
        elif do == "answer":
            runner.invoke(thread_id="t", answers={each.id: "yes" for each in runner.pending("t")})
        else:
            with suppress(ag.QuestionTimeoutError):
                runner.invoke(thread_id="t")


if __name__ == "__main__":
    main(*sys.argv[1:])
