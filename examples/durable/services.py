"""The services of the tests, one for each engine."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dbos import DBOSClient
from temporalio.client import Client

import agentgraph as ag
from examples.durable import with_dbos, with_temporal
from examples.durable.processes import PATIENCE, Programs
from examples.durable.tree import magazine


class Service:
    """A service that runs turns, on an engine.

    Attributes:
        programs: Its processes.
        threads: The path or URL of its threads.
    """

    programs: Programs
    threads: str

    def ask(self, turn: str) -> dict[str, Any]:
        """Start a turn, and wait for its questions."""
        raise NotImplementedError

    def send(self, turn: str, answers: dict[str, Any]) -> None:
        """Send answers to a turn."""
        raise NotImplementedError

    def result(self, turn: str) -> str:
        """Wait for the end of a turn, and return its text."""
        raise NotImplementedError

    def recover(self, dead: str) -> None:
        """Do what an operator does after a process has died."""
        raise NotImplementedError

    def close(self) -> None:
        """Close connections of this process."""


class OneExecutor(Service):
    """One executor on SQLite, which recovers its workflows when it starts again."""

    def __init__(self, programs: Programs) -> None:
        self.programs = programs
        self.threads = str(programs.folder / "durable.db")
        self.system = f"sqlite:///{programs.folder}/dbos.sqlite"
        self.start()

    def start(self) -> None:
        self.serve()
        self.programs.until_printed("DBOS launched")  # it has made its tables
        self.client = DBOSClient(system_database_url=self.system)

    def serve(self) -> None:
        self.programs.start("with_dbos", "serve", "a")

    def recover(self, dead: str) -> None:
        self.serve()

    def close(self) -> None:
        self.client.destroy()

    def ask(self, turn: str) -> dict[str, Any]:
        return with_dbos.ask(self.client, turn)

    def send(self, turn: str, answers: dict[str, Any]) -> None:
        self.client.send(turn, answers, "answers")

    def result(self, turn: str) -> str:
        state: dict[str, str] = self.client.retrieve_workflow(turn).get_result()
        return state["text"]


class TwoExecutors(OneExecutor):
    """Two executors on PostgreSQL; after a death a new one starts, under another name."""

    def __init__(self, programs: Programs, threads: str, system: str) -> None:
        self.programs, self.threads, self.system = programs, threads, system
        self.names: dict[str, str] = {}
        self.start()
        self.serve()

    def serve(self) -> None:
        name = f"executor-{len(self.names)}"
        self.names[str(self.programs.start("with_dbos", "serve", name).pid)] = name

    def recover(self, dead: str) -> None:
        with_dbos.rescue(self.client, self.names[dead])
        self.serve()


class NoEngine(Service):
    """Two processes that sweep; a request that is killed leaves its turn to them."""

    def __init__(self, programs: Programs, threads: str) -> None:
        self.programs, self.threads = programs, threads
        self.serve()
        self.serve()

    def serve(self) -> None:
        self.programs.start("without_engine", "sweep")

    def recover(self, dead: str) -> None:
        self.serve()

    def ask(self, turn: str) -> dict[str, Any]:
        self.programs.start("without_engine", "ask", turn)
        with ag.Runner(magazine, checkpointer=self.threads) as runner:
            return {each.id: each.value for each in self._ended(runner, turn, "paused").pending}

    def send(self, turn: str, answers: dict[str, Any]) -> None:
        self.programs.start("without_engine", "answer", turn, *{*answers.values()})

    def result(self, turn: str) -> str:
        with ag.Runner(magazine, checkpointer=self.threads) as runner:
            return self._ended(runner, turn, "done").text

    def _ended(self, runner: ag.Runner, turn: str, status: str) -> ag.Result:
        def ended() -> ag.Result | None:
            with suppress(ag.ThreadError):  # it has not begun, or runs
                result = runner.result(f"thread-{turn}")
                return result if result.status == status else None
            return None

        found: ag.Result = self.programs.until(ended, f"{turn} {status}")
        return found


class Temporal(Service):
    """Two workers of Temporal's development server."""

    def __init__(self, programs: Programs, address: str) -> None:
        self.programs, self.address = programs, address
        self.threads = str(programs.folder / "durable.db")
        programs.start("with_temporal", "server")
        self._call(self._ready)
        self.serve()
        self.serve()

    def serve(self) -> None:
        self.programs.start("with_temporal", "serve")

    def recover(self, dead: str) -> None:
        self.serve()

    @staticmethod
    async def _ready(client: Client) -> None:
        """Do nothing with a server that has answered."""

    def _call(self, call: Callable[[Client], Any]) -> Any:
        async def connected() -> Any:
            while True:
                try:
                    client = await Client.connect(self.address)
                except RuntimeError:  # the server starts
                    await asyncio.sleep(0.1)
                else:
                    return await call(client)

        return asyncio.run(asyncio.wait_for(connected(), PATIENCE))

    def ask(self, turn: str) -> dict[str, Any]:
        found: dict[str, Any] = self._call(lambda client: with_temporal.ask(client, turn))
        return found

    def send(self, turn: str, answers: dict[str, Any]) -> None:
        signal = with_temporal.RunTurn.answer
        self._call(lambda client: client.get_workflow_handle(turn).signal(signal, answers))

    def result(self, turn: str) -> str:
        state = self._call(lambda client: client.get_workflow_handle(turn).result())
        text: str = state["text"]
        return text
