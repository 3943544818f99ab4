"""A program that evaluates 200 cases: `evaluated_cases.py FILE LOG`; the log has each begun step."""

import os
import sys

import agentgraph as ag
from agentgraph.testing import Case, Report, evaluate

NUMBER = 200
AT_ONCE = 4


def noted(name: str, log: str) -> ag.Agent:
    def step(ctx: ag.Context) -> str:
        line = f"{name} {ctx.config['configurable']['thread_id']}\n"
        at = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(at, line.encode())
        os.close(at)
        return f"{name} of {ctx.messages[0].text}"

    return ag.function_agent(name, step)


def tree(log: str) -> ag.Agent:
    return ag.sequential("report", [noted("draft", log), noted("review", log)])


def ran(file: str, log: str) -> Report:
    cases = [Case(f"{number:03}", f"topic {number}") for number in range(NUMBER)]
    with ag.Runner(tree(log), checkpointer=file) as runner:
        checks = lambda result: result.text.startswith("review of topic")  # noqa: E731
        return evaluate(runner, cases, checks, name="big", max_concurrency=AT_ONCE)


if __name__ == "__main__":
    ran(*sys.argv[1:])
