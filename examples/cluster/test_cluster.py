"""A server of the cluster is killed in the middle of a step, and the other server continues.

`make test-cluster` runs this; `make test` does not.
"""

import asyncio
import os
import signal
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from langgraph_sdk.client import LangGraphClient

import agentgraph as ag
from examples.cluster.client import Turn, beginning, connect, follow, questions, start
from examples.cluster.cluster import Cluster, Server, cluster, free_port
from examples.cluster.tree import magazine

THREADS = 6
PATIENCE = 600  # seconds
CHECKS = {"magazine/checks/legal", "magazine/checks/press"}
STEPS = [
    *(f"magazine/refine[{k}]/{name}" for k in range(3) for name in ("writer", "critic")),
    *CHECKS,
    "magazine/printer",
]

Said = dict[str, list[tuple[str, str]]]
Run = Callable[[LangGraphClient, str, Turn], AsyncIterator[ag.AgentEvent]]


class Line(NamedTuple):
    """A line that a step writes to the log of its thread when it starts."""

    address: str
    process: str
    key: str


@pytest.fixture
def two() -> Iterator[Cluster]:
    """Start two servers."""
    with cluster((free_port(), free_port())) as running:
        yield running


def lines(log: Path) -> list[Line]:
    """Return the complete lines of a log; the last line may be incomplete."""
    text = log.read_text(encoding="utf-8") if log.exists() else ""
    return [Line(*line.split()) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def said(events: list[ag.AgentEvent]) -> Said:
    """Return kind and text of the events of each address, because branches have no order."""
    found: Said = defaultdict(list)
    for event in events:
        if not event.partial:
            found[event.address].append((event.kind, event.text))
    return found


def facts(events: list[ag.AgentEvent]) -> set[tuple[str, str, str]]:
    """Return address, kind and text of the events that are complete and not discarded."""
    whole = [event for event in events if not event.partial and event.kind != "discarded"]
    return {(event.address, event.kind, event.text) for event in whole}


def held(database: str, thread_id: str) -> list[ag.AgentEvent]:
    """Return the events of a thread from PostgreSQL."""
    with (
        PostgresSaver.from_conn_string(database) as saver,
        ag.Runner(magazine, checkpointer=saver) as runner,
    ):
        return [*runner.events(thread_id)]


def chunks(events: list[ag.AgentEvent]) -> dict[str, str]:
    """Return the joined chunks of each address."""
    found: dict[str, str] = defaultdict(str)
    for event in events:
        if event.partial:
            found[event.address] += event.text
    return found


async def here(log: Path) -> list[ag.AgentEvent]:
    """Run the tree in this process, without a cluster."""
    runner, values = ag.Runner(magazine), beginning(log, 0)["input"]["values"]
    first = [event async for event in runner.arun("Go.", thread_id="t", values=values, stream=True)]
    return first + [event async for event in runner.aresume("t", "yes", stream=True)]


async def there(run: Run, servers: list[Server], log: Path) -> list[ag.AgentEvent]:
    """Run the tree on the cluster: started at one server, answered at the other."""
    first, second = (connect([server.url]) for server in servers)
    async with first, second:
        thread = (await first.threads.create())["thread_id"]
        begun = [event async for event in run(first, thread, beginning(log, 0))]
        asked = await questions(second, thread)
        assert len(asked) == 1
        answered = run(second, thread, {"command": {"resume": dict.fromkeys(asked, "yes")}})
        return begun + [event async for event in answered]


async def by_sdk(client: LangGraphClient, thread: str, turn: Turn) -> AsyncIterator[ag.AgentEvent]:
    """Run a turn as `client.py` does."""
    async for event in follow(client, thread, await start(client, thread, turn)):
        yield event


async def by_remote_graph(
    client: LangGraphClient, thread: str, turn: Turn
) -> AsyncIterator[ag.AgentEvent]:
    """Run a turn in a LangGraph graph that contains the tree."""
    turn_input = Command(**turn["command"]) if "command" in turn else turn["input"]
    options: Any = {"stream_mode": ag.STREAM_MODES, "subgraphs": True, "version": "v2"}
    graph = RemoteGraph(magazine.name, client=client)
    stream = graph.astream(turn_input, {"configurable": {"thread_id": thread}}, **options)
    async for event in ag.atranslate(magazine, stream):
        yield event


def test_two_servers_give_the_events_of_a_run_in_this_process(two: Cluster, tmp_path: Path) -> None:
    """Translate the streams of the SDK and of `RemoteGraph`; question and answer use two servers."""

    async def compare() -> None:
        at_home = await here(tmp_path / "here.log")
        for run in (by_sdk, by_remote_graph):
            log = tmp_path / f"{run.__name__}.log"
            away = await there(run, two.servers, log)
            assert (said(away), chunks(away)) == (said(at_home), chunks(at_home))
            assert Counter(line.address for line in lines(log)) == Counter(STEPS)

    asyncio.run(compare())


class Campaign:
    """Threads that run at the same time, while a server is killed.

    Attributes:
        killed: The id of the process that was killed.
    """

    def __init__(self, servers: list[Server], logs: list[Path], step: str) -> None:
        self._servers, self._logs, self._step = servers, logs, step
        self._all_paused = asyncio.Barrier(len(logs))
        self._started = 0
        self.killed = ""

    async def run(self) -> list[tuple[str, list[ag.AgentEvent]]]:
        """Run a thread for each log, to its end; return its id and the events that were streamed."""
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            group.create_task(self._kill())
            threads = [group.create_task(self._thread(*each)) for each in enumerate(self._logs)]
        return [thread.result() for thread in threads]

    async def _thread(self, number: int, log: Path) -> tuple[str, list[ag.AgentEvent]]:
        urls = [server.url for server in self._servers]
        async with connect(urls if number % 2 else urls[::-1]) as client:
            thread = (await client.threads.create())["thread_id"]
            events = await self._turn(client, thread, beginning(log, 1.5))
            await self._all_paused.wait()
            answers = dict.fromkeys(await questions(client, thread), "yes")
            events += await self._turn(client, thread, {"command": {"resume": answers}})
        return thread, events

    async def _turn(self, client: LangGraphClient, thread: str, turn: Turn) -> list[ag.AgentEvent]:
        run = await start(client, thread, turn)
        self._started += 1
        return [event async for event in follow(client, thread, run)]

    async def _kill(self) -> None:
        """Kill the first server that starts the step, while no request is on its way to it."""
        while not (begun := self._begun()) or self._started % len(self._logs):
            await asyncio.sleep(0.01)
        self.killed = begun[0].process
        (victim,) = (each for each in self._servers if str(each.process.pid) == self.killed)
        os.kill(victim.process.pid, signal.SIGKILL)
        victim.process.wait()

    def _begun(self) -> list[Line]:
        return [line for log in self._logs for line in lines(log) if line.address == self._step]


def in_flight(done: list[Line], killed: str) -> set[str]:
    """Return the last step that a killed process started; the checks are one step."""
    last = {line.address for line in [line for line in done if line.process == killed][-1:]}
    return CHECKS if last & CHECKS else last


@pytest.mark.parametrize("step", ["refine[1]/writer", "checks/press", "printer"])
def test_after_a_kill_the_other_server_goes_on_and_repeats_only_the_step_in_flight(
    step: str, two: Cluster, tmp_path: Path
) -> None:
    """Check that each thread ends as in one process; count each step in its log."""
    logs = [tmp_path / f"{number}.log" for number in range(THREADS)]
    campaign = Campaign(two.servers, logs, f"magazine/{step}")
    threads, killed = asyncio.run(campaign.run()), campaign.killed
    at_home = asyncio.run(here(tmp_path / "here.log"))
    repeated, processes = Counter[str](), set()
    for log, (thread, streamed) in zip(logs, threads, strict=True):
        done = lines(log)
        processes |= {line.process for line in done}
        twice = Counter(line.address for line in done) - Counter(STEPS)
        assert {line.address for line in done} == {*STEPS}
        assert {*twice} <= in_flight(done, killed)
        assert {*twice.values()} <= {1}
        for address in twice:
            first, second = (line for line in done if line.address == address)
            assert first.process == killed != second.process
            assert first.key == second.key
        repeated += twice
        assert said(held(two.database, thread)) == said(at_home)
        if killed in {line.process for line in done}:
            missing = facts(at_home) - facts(streamed)
            assert facts(streamed) <= facts(at_home)
            assert len({*missing}) <= 1 or {address for address, *_ in missing} <= CHECKS
        else:
            assert (said(streamed), chunks(streamed)) == (said(at_home), chunks(at_home))
    assert repeated[f"magazine/{step}"] >= 1
    assert len(processes) == 2
    print(f"killed at {step}; started twice: {dict(repeated)}")
