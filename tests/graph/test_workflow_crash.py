"""A process that is killed in a workflow: what had finished or was undone is not done again."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from commands import wait_until
from helpers import check_heard, read

import agentgraph as ag
from agentgraph.errors import StepFailedError
from agentgraph.testing import transcript

FAILED = 3
STEPS = ["a", "b", "c", "d", "e"]
UNDONE = ["undo_d", "undo_c", "undo_b", "undo_a"]
SHOWN = "wf: the step 'e' failed: ValueError('no'); undone: {}"


class Effects:
    """What agents do in a folder: lines of a ledger, and one of them hangs until "go" is there."""

    def __init__(self, folder: Path, hang_at: str | None = None) -> None:
        self.folder, self.hang_at = folder, hang_at

    def agent(
        self, name: str, waits_for: int = 0, fails: bool = False, sees: str | None = None
    ) -> ag.Agent:
        """Make an agent; it waits until the results of so many lanes are on disk."""

        def fn(ctx) -> str:
            assert sees is None or ctx.messages[-1].text == f"[{sees}] said: {sees}"
            self._note(f"start {name}")
            wait_until(lambda: self._results() >= waits_for)
            if name == self.hang_at and not (self.folder / "go").exists():
                (self.folder / "hanging").touch()
                time.sleep(60)
            self._note(f"end {name}")
            if fails:
                raise ValueError("no")
            return name

        return ag.function_agent(name, fn)

    def _note(self, line: str) -> None:
        with (self.folder / "ledger").open("a") as file:
            file.write(f"{line}\n")
            file.flush()
            os.fsync(file.fileno())

    def _results(self) -> int:
        """Count what LangGraph has kept of tasks that returned."""
        with closing(sqlite3.connect(self.folder / "runs.db", timeout=30)) as database:
            rows = database.execute("SELECT COUNT(*) FROM writes WHERE channel = '__return__'")
            return int(rows.fetchone()[0])


def five(effects: Effects, **options: Any) -> ag.Agent:
    """Make a -> (b, c) -> d -> e; of b and c the one that hangs, or else c, ends last."""
    last = "b" if effects.hang_at == "b" else "c"
    agents = {name: effects.agent(name, waits_for=2 * (name == last)) for name in STEPS[:4]}
    undo = {name: effects.agent(f"undo_{name}", sees=name) for name in STEPS[:4]}
    return ag.workflow(
        "wf",
        [
            ag.step(agents["a"], compensate=undo["a"]),
            ag.step(agents["b"], depends_on=["a"], compensate=undo["b"]),
            ag.step(agents["c"], depends_on=["a"], compensate=undo["c"]),
            ag.step(agents["d"], depends_on=["b", "c"], compensate=undo["d"]),
            ag.step(effects.agent("e", **options), depends_on=["d"]),
        ],
    )


def whole(effects: Effects) -> ag.Agent:
    return five(effects)


def failing(effects: Effects) -> ag.Agent:
    return five(effects, fails=True)


def uncompensated(effects: Effects) -> ag.Agent:
    return ag.workflow(
        "wf",
        [
            ag.step(ag.sequential("s", [effects.agent("s1"), effects.agent("s2")])),
            ag.step(effects.agent("t", waits_for=1), depends_on=["s"]),
            ag.step(effects.agent("u"), depends_on=["t"]),
        ],
    )


def undone_in_two(effects: Effects) -> ag.Agent:
    undo = ag.sequential("undo", [effects.agent("u1"), effects.agent("u2")])
    return ag.workflow(
        "wf",
        [
            ag.step(effects.agent("a"), compensate=undo),
            ag.step(effects.agent("e", fails=True), depends_on=["a"]),
        ],
    )


def collecting(effects: Effects) -> ag.Agent:
    branches = [
        ag.sequential("x", [effects.agent("x1"), effects.agent("x2", fails=True)]),
        effects.agent("y", waits_for=1),
    ]
    seen = ag.function_agent("z", tells_all)
    return ag.sequential("s", [ag.parallel("p", branches, on_error="collect"), seen])


def tells_all(ctx) -> str:
    return ", ".join(message.text for message in ctx.messages)


TREES: dict[str, Callable[[Effects], ag.Agent]] = {
    each.__name__: each for each in (whole, failing, uncompensated, undone_in_two, collecting)
}


class Crash:
    """Runs a tree in processes of their own, on one folder."""

    def __init__(self, server: subprocess.Popen[str], folder: Path, tree: str, mode: str) -> None:
        self._server, self.folder, self._tree, self._mode = server, folder, tree, mode
        self._hang_at: str | None = None

    def killed_at(self, name: str) -> "Crash":
        """Run up to the middle of an agent, and kill the process there."""
        self._hang_at = name
        pid = self._start("run", "Go.", thread_id="t")
        try:
            wait_until((self.folder / "hanging").exists)
        finally:
            os.kill(pid, signal.SIGKILL)
            assert self._read() == -signal.SIGKILL
        (self.folder / "go").touch()
        (self.folder / "told").touch()
        return self

    def lost_results(self) -> "Crash":
        """Take away what LangGraph has kept of tasks that returned: it writes that a moment later."""
        with closing(sqlite3.connect(self.folder / "runs.db", timeout=30)) as database:
            database.execute("DELETE FROM writes WHERE channel = '__return__'")
            database.commit()
        return self

    def resume(self) -> int:
        """Resume in a new process, and return its exit code."""
        self._start("resume", "t")
        return self._read()

    def events(self) -> list[str]:
        """Return what the thread is told as, in a new process, to one who heard the others, too."""
        heard = self.told
        self._start("events", "t")
        assert self._read() == 0
        again = self.told[len(heard) :]
        check_heard(heard, again)
        return transcript(again)

    @property
    def told(self) -> list[ag.AgentEvent]:
        """What all processes told."""
        return read((self.folder / "told").read_text().splitlines())

    @property
    def error(self) -> str:
        return (self.folder / "error").read_text()

    @property
    def ledger(self) -> list[str]:
        return (self.folder / "ledger").read_text().splitlines()

    def lines(self, kind: str) -> list[str]:
        """Return the agents that started, or ended, in that order."""
        return [name for what, name in map(str.split, self.ledger) if what == kind]

    def _start(self, call: str, *args: str, **options: str) -> int:
        job = {
            "folder": str(self.folder),
            "tree": self._tree,
            "hang_at": self._hang_at,
            "call": call if self._mode == "sync" else f"a{call}",
            "args": args,
            "options": options,
        }
        print(json.dumps(job), file=self._server.stdin, flush=True)
        return self._read()

    def _read(self) -> int:
        return int(self._server.stdout.readline())


@pytest.fixture(scope="module")
def server() -> Iterator[subprocess.Popen[str]]:
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, __file__], env=path, stdin=-1, stdout=-1, text=True
    ) as server:
        yield server


def once(*names: str, twice: str | None = None) -> dict[str, int]:
    return {name: 1 + (name == twice) for name in names}


MODES = pytest.mark.parametrize("mode", ["sync", "async"])


@MODES
@pytest.mark.parametrize("name", [*STEPS, *UNDONE])
def test_killed_anywhere_each_step_is_done_and_undone_once_but_the_one_in_flight(
    server, tmp_path, name, mode
):
    crash = Crash(server, tmp_path, "failing", mode).killed_at(name)
    assert crash.resume() == FAILED
    assert Counter(crash.lines("start")) == once(*STEPS, *UNDONE, twice=name)
    assert Counter(crash.lines("end")) == once(*STEPS, *UNDONE)
    finished = [each for each in crash.lines("end") if each in STEPS[:4]]
    undone = [f"undo_{each}" for each in reversed(finished)]
    assert crash.lines("end")[-4:] == undone
    assert crash.error == SHOWN.format(", ".join(finished[::-1]))


@MODES
@pytest.mark.parametrize("name", [*STEPS, *UNDONE])
def test_killed_anywhere_what_is_told_again_was_told_to_be_void_before(server, tmp_path, name, mode):
    crash = Crash(server, tmp_path, "failing", mode).killed_at(name)
    heard = crash.told
    crash.resume()
    assert crash.told[len(heard)].kind == "discarded"
    ended = [f"wf/{each}: {each}" for each in crash.lines("end")]
    ended[4] = "wf/e: [error] ValueError('no')"
    failed = f"wf: [error] StepFailedError({crash.error!r})"
    assert crash.events() == [*ended, failed]


@MODES
@pytest.mark.parametrize("name", ["c", "e", "undo_b"])
def test_another_resume_after_the_final_failure_does_nothing_and_raises_the_same(
    server, tmp_path, name, mode
):
    crash = Crash(server, tmp_path, "failing", mode).killed_at(name)
    crash.resume()
    ledger, error = crash.ledger, crash.error
    (tmp_path / "error").unlink()
    assert crash.resume() == FAILED
    assert (crash.ledger, crash.error) == (ledger, error)


@MODES
@pytest.mark.parametrize("name", STEPS)
def test_killed_in_a_workflow_in_which_nothing_fails_only_the_step_in_flight_runs_again(
    server, tmp_path, name, mode
):
    crash = Crash(server, tmp_path, "whole", mode).killed_at(name)
    assert crash.resume() == 0
    assert Counter(crash.lines("start")) == once(*STEPS, twice=name)
    assert Counter(crash.lines("end")) == once(*STEPS)
    ledger = crash.ledger
    assert crash.resume() == 0
    assert crash.ledger == ledger
    assert crash.events() == [f"wf/{each}: {each}" for each in crash.lines("end")]


@MODES
@pytest.mark.parametrize("tree", ["whole", "failing"])
def test_killed_before_the_results_of_steps_were_written_the_steps_do_not_run_again(
    server, tmp_path, tree, mode
):
    crash = Crash(server, tmp_path, tree, mode).killed_at("d").lost_results()
    assert crash.resume() == (FAILED if tree == "failing" else 0)
    undone = UNDONE if tree == "failing" else []
    assert Counter(crash.lines("start")) == once(*STEPS, *undone, twice="d")


@MODES
@pytest.mark.parametrize("name", ["s1", "s2", "t", "u"])
def test_killed_where_no_step_can_be_undone_only_what_was_in_flight_runs_again(
    server, tmp_path, name, mode
):
    crash = Crash(server, tmp_path, "uncompensated", mode).killed_at(name)
    assert crash.resume() == 0
    assert Counter(crash.lines("start")) == once("s1", "s2", "t", "u", twice=name)
    assert crash.events() == ["wf/s/s1: s1", "wf/s/s1/s2: s2", "wf/t: t", "wf/u: u"]


@MODES
@pytest.mark.parametrize("name", ["u1", "u2"])
def test_killed_in_the_middle_of_an_undo_of_two_agents_only_the_one_in_flight_runs_again(
    server, tmp_path, name, mode
):
    crash = Crash(server, tmp_path, "undone_in_two", mode).killed_at(name)
    assert crash.resume() == FAILED
    assert Counter(crash.lines("start")) == once("a", "e", "u1", "u2", twice=name)
    assert crash.error == SHOWN.format("a")


@MODES
def test_killed_beside_a_failure_that_was_collected_the_branch_that_failed_does_not_run_again(
    server, tmp_path, mode
):
    crash = Crash(server, tmp_path, "collecting", mode).killed_at("y")
    assert crash.resume() == 0
    assert Counter(crash.lines("start")) == once("x1", "x2", "y", twice="y")
    said = "[x1] said: x1, [x2] said: Failed: ValueError('no'), [y] said: y"
    assert crash.events() == [
        "s/p/x/x1: x1",
        "s/p/x/x1/x2: [error] ValueError('no')",
        "s/p/x/x1/x2: Failed: ValueError('no')",
        "s/p/y: y",
        f"s/p/z: Go., {said}",
    ]


def _serve() -> None:
    """Fork a process for each job that a line of standard input describes, and tell its end."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os._exit(_run(**json.loads(line)))
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _run(folder: str, tree: str, hang_at: str | None, call: str, args: Any, options: Any) -> int:
    """Run one call of a runner, and write down what it tells and how it fails."""
    here = Path(folder)
    agent = TREES[tree](Effects(here, hang_at))

    def tell(event: ag.AgentEvent) -> None:
        with (here / "told").open("a") as file:
            file.write(json.dumps(event.to_dict()) + "\n")

    async def arun() -> None:
        async with ag.async_sqlite_saver(here / "runs.db") as saver:
            async for event in getattr(ag.Runner(agent, checkpointer=saver), call)(*args, **options):
                tell(event)

    try:
        if call.startswith("a"):
            asyncio.run(arun())
            return 0
        with ag.sqlite_saver(here / "runs.db") as saver:
            for event in getattr(ag.Runner(agent, checkpointer=saver), call)(*args, **options):
                tell(event)
    except StepFailedError as error:
        (here / "error").write_text(str(error))
        return FAILED
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    _serve()
