"""A durable turn on DBOS: a workflow whose one step is a call of `advance`.

    python -m examples.durable.with_dbos serve [NAME]      run workflows, until the process is killed
    python -m examples.durable.with_dbos ask TURN          start a turn; print its questions
    python -m examples.durable.with_dbos answer TURN TEXT  answer its questions; print its result
    python -m examples.durable.with_dbos supervise NAMES   run executors, and rescue those that die

Everything is in SQLite files of this folder. For several executors, set THREADS and SYSTEM to two
PostgreSQL databases.
"""

import os
import subprocess
import sys
import time
from typing import Any

from dbos import DBOS, DBOSClient

import agentgraph as ag
from examples.durable.tree import magazine

THREADS = os.environ.get("THREADS", "durable.db")
SYSTEM = os.environ.get("SYSTEM", "sqlite:///dbos.sqlite")  # postgresql+psycopg://... for PostgreSQL
VERSION = "1"  # without it DBOS takes a hash of the workflows, and runs no workflow of another version
WEEK = 7 * 24 * 3600  # seconds
State = dict[str, Any]

runner = ag.Runner(magazine, checkpointer=THREADS)


@DBOS.step(retries_allowed=True)
def advance(thread: str, turn: str, text: str, answers: dict[str, str]) -> State:
    """Bring a turn as far as it can go now."""
    while True:
        try:
            result = runner.advance(thread, text, turn_id=turn, answers=answers)
        except (ag.UnknownInterruptError, ag.InvalidAnswerError):  # it answers no open question
            result = runner.advance(thread, text, turn_id=turn)
        if result.status != "stopped" or result.stop_reason is not None:
            asks = {question.id: question.value for question in result.pending}
            return {"status": result.status, "text": result.text, "asks": asks}
        # the process of the run that it waited for has died: continue that run


@DBOS.workflow()
def run_turn(thread: str, turn: str, text: str) -> State:
    """Run a turn to its end; `turn` is its name, which is the same if the workflow is forked."""
    answers: dict[str, str] = {}
    while True:
        state: State = advance(thread, turn, text, answers)
        DBOS.set_event("state", state)
        if state["status"] != "paused":
            return state
        answers = DBOS.recv("answers", timeout_seconds=WEEK) or {}


def serve(name: str) -> None:
    """Run workflows, first those that the executor of this name left when it died."""
    DBOS(
        config={
            "name": "magazine",
            "system_database_url": SYSTEM,
            "application_version": VERSION,
            "executor_id": name,
        }
    )
    DBOS.launch()
    DBOS.register_queue("turns")
    while True:
        time.sleep(1)


def ask(client: DBOSClient, turn: str) -> dict[str, str]:
    """Start a turn, and return its questions; the same call again starts nothing."""
    options = {"queue_name": "turns", "workflow_name": "run_turn", "workflow_id": turn}
    client.enqueue({**options, "app_version": VERSION}, f"thread-{turn}", turn, "Go.")
    asks: dict[str, str] = client.get_event(turn, "state", timeout_seconds=WEEK)["asks"]
    return asks


def answer(client: DBOSClient, turn: str, text: str) -> State:
    """Answer the questions of a turn, and return its state at the end."""
    client.send(turn, dict.fromkeys(ask(client, turn), text), "answers")
    result: State = client.retrieve_workflow(turn).get_result()
    return result


def rescue(client: DBOSClient, dead: str) -> None:
    """Put the workflows of a dead executor into the queue, from which a living one takes them."""
    for each in client.list_workflows(status="PENDING", executor_id=dead):
        client.resume_workflow(each.workflow_id)


def supervise(client: DBOSClient, names: list[str]) -> None:
    """Run an executor for each name, and rescue the workflows of those that die."""
    command = [sys.executable, "-m", "examples.durable.with_dbos", "serve"]
    running = {name: subprocess.Popen([*command, name]) for name in names}
    while running:
        for name in [name for name, process in running.items() if process.poll() is not None]:
            del running[name]
            rescue(client, name)
        time.sleep(0.5)


if __name__ == "__main__":
    command, *rest = sys.argv[1:]
    match command:
        case "serve":
            serve(*rest or ["a"])
        case "ask":
            print(ask(DBOSClient(system_database_url=SYSTEM), *rest))
        case "answer":
            print(answer(DBOSClient(system_database_url=SYSTEM), *rest))
        case "supervise":
            supervise(DBOSClient(system_database_url=SYSTEM), rest)
