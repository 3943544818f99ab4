"""A program that runs a tree with a deadline: `deadline_process.py FILE DO SAVES KIND`.

It runs the tree ("run"), resumes it without an answer ("resume") or answers all questions ("answer"),
and kills itself after so many saves; 0 for never. Without a default the tree "fails".
"""

import sys
from contextlib import suppress
from typing import Any

from helpers.dying import die_after_saves

import agentgraph as ag

WAIT = 0.5
"""Seconds that a question waits: long enough for a process that answers at once."""


def tree(kind: str) -> ag.Agent:
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
