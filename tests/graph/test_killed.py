"""A process that is killed: only what was in flight runs again, and nothing is emitted twice.

Kills at any save of random trees: `tests/properties/test_killed_runs.py`; savers that fail at each
save of every kind of tree: `tests/crash/test_saving.py`; here are caches, tools and undone steps.
"""

import signal
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from helpers import check_heard, lines, read, unvoided
from helpers.commands import Commands, Running, wait_until

import agentgraph as ag

PROGRAM = Path(__file__).with_name("killed_trees.py")
FAILED = 3


class Killed:
    """A run of one of the trees that is killed where an agent or call hangs.

    Attributes:
        heard: The events of all processes so far.
    """

    def __init__(
        self, program: Commands, tree: str, hang_at: str, saved: int = 0, mode: str = "sync"
    ) -> None:
        """Start the run; it hangs once so many results of tasks and messages of nodes are saved."""
        self._program, self.folder = program, program.folder
        self._arguments = tree, mode, hang_at, str(saved)
        self.heard: list[ag.AgentEvent] = []
        self.running = self.start("run")
        wait_until((self.folder / "hanging").exists)

    def start(self, method: str) -> Running:
        tree, mode, hang_at, saved = self._arguments
        return self._program.start(str(PROGRAM), str(self.folder), tree, method, mode, hang_at, saved)

    def kill(self, number: int = signal.SIGKILL) -> "Killed":
        """Kill the process; the next one does not hang."""
        self.running.signal(number)
        ended = self.running.wait()
        assert ended.code in (-number, 1), ended.err
        self.heard += read(ended.lines)
        (self.folder / "go").touch()
        return self

    def resume(self, code: int = 0) -> list[str]:
        """Resume to the end, and return what is new to those who heard the first process."""
        ended = self.start("resume").wait()
        assert ended.code == code, ended.err
        rest = read(ended.lines)
        check_heard([*self.heard, *rest], self.again())
        new = went_on(self.heard, rest) if rest and rest[0].kind == "discarded" else rest
        self.heard += rest
        return lines(new)

    def again(self) -> list[ag.AgentEvent]:
        return read((self.folder / "again").read_text().splitlines())

    def ledger(self, kind: str) -> list[str]:
        """Return what started or ended, in order."""
        noted = map(str.split, (self.folder / "ledger").read_text().splitlines())
        return [name for what, name in noted if what == kind]

    def check_ran(self, *names: str, twice: str) -> None:
        """Check that each started once, what hung twice, and that each ended once."""
        assert Counter(self.ledger("start")) == Counter([*names, twice])
        assert Counter(self.ledger("end")) == Counter(names)


INNER = "writer/inner(1)"
CASES = {
    "cached": (
        *("l[1]/b", 4, ["l[0]/a", "l[0]/b", "l[1]/b", "l[2]/b"]),
        ["l[1]/b: b", "l[2]/a: a", "l[2]/b: b"],
    ),
    "agents": (
        "slow-4",
        6,
        ["writer-0", "quick-1", f"{INNER}/i1", "deep-0", "quick-3", "slow-4", "deep-1", "writer-1"],
        [
            *[f"{INNER}/deep: slow 4", f"{INNER}/deep: deep is done"],
            *["writer: deep is done", "writer: writer is done"],
        ],
    ),
    "foreign": (
        "slow-2",
        11,
        ["s/before", "made-0", "quick-0", "made-1", "quick-1", "slow-2", "made-2"],
        # LangGraph may hand a result over when its call ends, so before the kill, or with the next one
        ["s/made: quick 1", "s/made: slow 2", "s/made: made is done"],
    ),
}


@pytest.mark.by_turns("mode")
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("tree", CASES)
def test_only_what_was_in_flight_runs_again(program: Commands, tree: str, mode: str) -> None:
    hang_at, saved, names, rest = CASES[tree]
    killed = Killed(program, tree, hang_at, saved, mode).kill()
    before = lines(killed.heard)
    assert killed.resume() == [line for line in rest if line not in before]
    killed.check_ran(*names, twice=hang_at)


STEPS = [f"wf/{name}" for name in "abcde"]
UNDONE = [f"wf/undo_{name}" for name in "dcba"]
HANGS = [("wf/b", "sync"), ("wf/e", "async"), ("wf/undo_d", "sync"), ("wf/undo_a", "async")]


@pytest.mark.parametrize(("hang_at", "mode"), HANGS)
def test_each_step_is_done_and_undone_once(program: Commands, hang_at: str, mode: str) -> None:
    killed = Killed(program, "failing", hang_at, mode=mode).kill()
    killed.resume(FAILED)
    killed.check_ran(*STEPS, *UNDONE, twice=hang_at)
    ended = killed.ledger("end")
    finished = [at.removeprefix("wf/") for at in ended if at in STEPS[:4]][::-1]
    assert ended[-4:] == [f"wf/undo_{name}" for name in finished]
    said = [f"{at}: {at.removeprefix('wf/')}" for at in ended]
    said[4] = "wf/e: [error] ValueError('no')"
    shown = f"wf: the step 'e' failed: ValueError('no'); undone: {', '.join(finished)}"
    assert lines(killed.again()) == [*said, f"wf: [error] StepFailedError({shown!r})"]
    assert (killed.folder / "error").read_text() == shown


@pytest.mark.parametrize(("hang_at", "mode"), [("wf/undo/u1", "sync"), ("wf/undo/u2", "async")])
def test_of_an_undo_of_two_agents_only_the_one_in_flight_runs_again(
    program: Commands, hang_at: str, mode: str
) -> None:
    killed = Killed(program, "undone_in_two", hang_at, mode=mode).kill()
    killed.resume(FAILED)
    killed.check_ran("wf/a", "wf/e", "wf/undo/u1", "wf/undo/u2", twice=hang_at)


CALLS = ["one(0)", "two(k)", "bad(1)", *(f"pair({x})/{y}" for x in "ab" for y in "pq"), "last(2)"]


@pytest.mark.by_turns("mode")
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("hang_at", ["two(k)", "bad(1)", "pair(b)/q", "last(2)"])
def test_of_the_agents_that_a_function_runs_only_those_in_flight_run_again(
    program: Commands, hang_at: str, mode: str
) -> None:
    killed = Killed(program, "running", f"s/flow/{hang_at}", mode=mode).kill()
    *_, said, z = killed.resume()
    assert (said, z) == ("s/flow: one two no q q last", "s/z: z")
    started = Counter(killed.ledger("start"))
    again = {at for at, times in started.items() if times > 1}
    beside = {f"s/flow/pair(a)/{y}" for y in "pq"}
    assert again <= {f"s/flow/{hang_at}", *beside}
    assert started.keys() == {*(f"s/flow/{at}" for at in CALLS), "s/z"}
    ended = Counter(killed.ledger("end"))
    assert ended.keys() == started.keys()
    # what runs beside may have ended a moment before the kill, and not be saved
    assert {at for at, times in ended.items() if times > 1} <= again & beside


@pytest.mark.by_turns("mode")
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("tree", ["undoable", "failing"])
def test_steps_whose_results_were_not_saved_yet_do_not_run_again(
    program: Commands, tree: str, mode: str
) -> None:
    """LangGraph saves the result of a task a moment after the task has ended."""
    killed = Killed(program, tree, "wf/d", mode=mode).kill()
    with closing(sqlite3.connect(killed.folder / "runs.db", timeout=30)) as database:
        database.execute("DELETE FROM writes WHERE channel = '__return__'")
        database.commit()
    code, undone = (FAILED, UNDONE) if tree == "failing" else (0, [])
    *_, last = killed.resume(code)
    killed.check_ran(*STEPS, *undone, twice="wf/d")
    assert killed.resume(code) == [last] * bool(code)  # nothing runs again
    killed.check_ran(*STEPS, *undone, twice="wf/d")


def test_what_undid_a_step_does_not_run_again_if_results_of_steps_were_not_saved_yet(
    program: Commands,
) -> None:
    killed = Killed(program, "failing", "wf/undo_a").kill()
    with closing(sqlite3.connect(killed.folder / "runs.db", timeout=30)) as database:
        found = "instr(value, CAST('{}' AS BLOB)) > 0".format
        database.execute(
            "DELETE FROM writes WHERE channel = '__return__' "
            f"AND NOT ({found('undo_')} OR {found('failed')} OR {found('wf/c')})"
        )
        assert database.execute("SELECT changes()").fetchone() == (3,)
        database.commit()
    killed.resume(FAILED)
    killed.check_ran(*STEPS, *UNDONE, twice="wf/undo_a")


def test_a_run_that_is_interrupted_by_the_keyboard_is_resumed(program: Commands) -> None:
    killed = Killed(program, "loop", "l[1]/b").kill(signal.SIGINT)
    assert killed.resume()[0] == "l[1]/b: b"
    assert killed.ledger("start").count("l[1]/b") == 2


def went_on(heard: Sequence[ag.AgentEvent], rest: Sequence[ag.AgentEvent]) -> list[ag.AgentEvent]:
    """Return the new events of a run that resumes a killed one.

    It first voids the events of the step in flight, and replays those that were saved: of a lane beside
    the one that hung, the process may have been killed after an event and before its save.
    """
    left = unvoided([*heard, rest[0]])
    saved = [event for event in unvoided(heard) if event not in left and event in rest]
    assert rest[0].kind == "discarded"
    assert list(rest[1 : 1 + len(saved)]) == saved
    return list(rest[1 + len(saved) :])
