"""A durable turn without an engine: processes share a database, and one continues what another left.

    python -m examples.durable.without_engine sweep             continue turns whose processes died
    python -m examples.durable.without_engine ask TURN          run a turn; print its questions
    python -m examples.durable.without_engine answer TURN TEXT  answer its questions; print its result

`ask` and `answer` run the turn themselves, as the handler of a web request does. If they are killed,
a process that sweeps continues. The threads are in a SQLite file of this folder; for several machines,
set THREADS to a PostgreSQL database.
"""

import os
import sys
import time

import agentgraph as ag
from examples.durable.tree import magazine

THREADS = os.environ.get("THREADS", "durable.db")


def sweep(runner: ag.Runner) -> None:
    """Continue the turns whose processes died; a turn that a person stopped stays stopped."""
    for each in runner.threads("stopped"):
        if each.stop_reason is None:
            try:
                runner.advance(each.thread_id, wait=False)
            except Exception as error:  # an agent failed, or another process continues the turn
                print(f"{each.thread_id}: {error}")


def ask(runner: ag.Runner, turn: str) -> dict[str, object]:
    """Run a turn to its questions, and return these; the same call again runs nothing."""
    result = runner.advance(f"thread-{turn}", "Go.", turn_id=turn)
    return {question.id: question.value for question in result.pending}


def answer(runner: ag.Runner, turn: str, text: str) -> ag.Result:
    """Answer the questions of a turn, and return its result."""
    answers = dict.fromkeys(ask(runner, turn), text)
    return runner.advance(f"thread-{turn}", turn_id=turn, answers=answers)


if __name__ == "__main__":
    command, *rest = sys.argv[1:]
    with ag.Runner(magazine, checkpointer=THREADS) as runner:
        while command == "sweep":
            sweep(runner)
            time.sleep(1)
        print(ask(runner, *rest) if command == "ask" else answer(runner, *rest).text)
