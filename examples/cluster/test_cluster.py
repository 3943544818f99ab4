"""A server of the cluster is killed in the middle of a step, and the other one goes on.

`make test-cluster` runs this; `make test` does not.
"""

import asyncio
import os
import signal
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command

import agentgraph as ag
from examples.cluster.client import Turn, beginning, events, new_thread, questions, reach
from examples.cluster.cluster import Server, cluster, free_port
from examples.cluster.tree import magazine

THREADS = 6
PATIENCE = 300  # seconds
CHECKS = {"magazine/checks/legal", "magazine/checks/press"}
STEPS = [
    *(f"magazine/refine[{k}]/{name}" for k in range(3) for name in ("writer", "critic")),
    *CHECKS,
    "magazine/printer",
]

Said = dict[str, list[tuple[str, str]]]
Run = Callable[[Sequence[str], str, Turn], AsyncIterator[ag.AgentEvent]]


class Line(NamedTuple):
    """What a step leaves in the log of its thread when it begins."""

    address: str
    process: str
    key: str


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    """Start two servers."""
    with cluster((free_port(), free_port())) as running:
        yield running


def urls_of(servers: list[Server]) -> list[str]:
    """Return the addresses of the servers that run."""
    return [server.url for server in servers if server.process.poll() is None]


def lines(log: Path) -> list[Line]:
    """Return the lines of a log; the last may be written just now."""
    text = log.read_text(encoding="utf-8") if log.exists() else ""
    return [Line(*line.split()) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def kept(events: list[ag.AgentEvent]) -> list[ag.AgentEvent]:
    """Return the events without those that are void: a reply that a kill cut short."""
    void = {each for event in events if event.action for each in event.action.discarded}
    return [event for event in events if event.kind != "discarded" and event.id not in void]


def said(events: list[ag.AgentEvent]) -> Said:
    """Return kind and text of the events of each address, in order; branches speak in any order."""
    found: Said = defaultdict(list)
    for event in events:
        if not event.partial:
            found[event.address].append((event.kind, event.text))
    return found


def chunks(events: list[ag.AgentEvent]) -> dict[str, str]:
    """Return what the chunks of each address say together."""
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
    """Run the tree on the cluster: begun at one server, answered at the other."""
    first, second = urls_of(servers)
    thread = await new_thread([first])
    begun = [event async for event in run([first], thread, beginning(log, 0))]
    answers = dict.fromkeys(await questions([second], thread), "yes")
    assert len(answers) == 1
    answered = run([second], thread, {"command": {"resume": answers}})
    return begun + [event async for event in answered]


async def by_remote_graph(urls: Sequence[str], thread: str, turn: Turn) -> AsyncIterator[ag.AgentEvent]:
    """Run a turn as a LangGraph graph does of which the tree is a part."""
    turn_input = Command(**turn["command"]) if "command" in turn else turn["input"]
    options: Any = {"stream_mode": ag.STREAM_MODES, "subgraphs": True, "version": "v2"}
    async with reach(urls) as client:
        graph = RemoteGraph(magazine.name, client=client)
        stream = graph.astream(turn_input, {"configurable": {"thread_id": thread}}, **options)
        async for event in ag.atranslate(magazine, stream):
            yield event


def test_two_servers_give_the_events_of_a_run_in_this_process(
    servers: list[Server], tmp_path: Path
) -> None:
    """The SDK's stream and `RemoteGraph`'s are translated; one server is asked, the other answered."""

    async def compare() -> None:
        at_home = await here(tmp_path / "here.log")
        for run in (events, by_remote_graph):
            log = tmp_path / f"{run.__name__}.log"
            away = await there(run, servers, log)
            assert (said(away), chunks(away)) == (said(at_home), chunks(at_home))
            assert Counter(line.address for line in lines(log)) == Counter(STEPS)

    asyncio.run(compare())


async def kill(servers: list[Server], logs: list[Path], step: str) -> str:
    """Kill the server that is the first to begin a step, in any thread; return its process id."""
    while not (begun := [line for log in logs for line in lines(log) if line.address == step]):
        await asyncio.sleep(0.01)
    (victim,) = (server for server in servers if str(server.process.pid) == begun[0].process)
    os.kill(victim.process.pid, signal.SIGKILL)
    victim.process.wait()
    return begun[0].process


async def run_threads(
    servers: list[Server], logs: list[Path], step: str
) -> tuple[str, list[list[ag.AgentEvent]]]:
    """Run a thread for each log, all at once, and kill a server meanwhile.

    Returns:
        The id of the process that was killed, and the events of each thread.
    """
    all_paused = asyncio.Barrier(len(logs))

    async def run(number: int, log: Path) -> list[ag.AgentEvent]:
        urls = urls_of(servers)[:: 1 if number % 2 else -1]
        thread = await new_thread(urls)
        begun = [event async for event in events(urls, thread, beginning(log, 1))]
        await all_paused.wait()
        answers = dict.fromkeys(await questions(urls, thread), "yes")
        answered = events(urls, thread, {"command": {"resume": answers}})
        return begun + [event async for event in answered]

    async with asyncio.timeout(PATIENCE):
        threads = asyncio.gather(*(run(number, log) for number, log in enumerate(logs)))
        killed = await kill(servers, logs, step)
        return killed, await threads


def in_flight(done: list[Line], killed: str) -> set[str]:
    """Return the step that a killed process began last; the checks are one step."""
    last = {line.address for line in [line for line in done if line.process == killed][-1:]}
    return CHECKS if last & CHECKS else last


@pytest.mark.parametrize("step", ["refine[1]/writer", "checks/press", "printer"])
def test_after_a_kill_the_other_server_goes_on_and_repeats_only_the_step_in_flight(
    step: str, servers: list[Server], tmp_path: Path
) -> None:
    """Each of the threads ends as one does in this process; each step is counted in its log."""
    logs = [tmp_path / f"{number}.log" for number in range(THREADS)]
    killed, threads = asyncio.run(run_threads(servers, logs, f"magazine/{step}"))
    at_home = asyncio.run(here(tmp_path / "here.log"))
    repeated, processes = Counter[str](), set()
    for log, thread in zip(logs, threads, strict=True):
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
        told = said(kept(thread))
        if killed in {line.process for line in done}:  # what it told last may be told again
            told = {address: [*dict.fromkeys(texts)] for address, texts in told.items()}
        else:
            assert chunks(thread) == chunks(at_home)
        assert told == said(at_home)
    assert repeated[f"magazine/{step}"] >= 1
    assert len(processes) == 2
    print(f"killed at {step}; began twice: {dict(repeated)}")
