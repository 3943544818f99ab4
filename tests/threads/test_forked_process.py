"""A process that forks while a run is open: the run stays that of the first one, and nothing hangs."""

import subprocess
import sys
from ast import literal_eval
from pathlib import Path

import pytest
from forked_process import ACTS
from helpers.commands import Commands
from helpers.databases import Databases

PROGRAM = Path(__file__).with_name("forked_process.py")
ON_A_FILE = {"the same thread", "another runner"}
"""In memory a forked process has a copy of the threads, which nothing locks."""


@pytest.mark.parametrize(
    ("act", "place"),
    [(act, place) for act in ACTS for place in ("SQLite", "memory")[: 1 + (act not in ON_A_FILE)]],
)
def test_a_forked_process_leaves_the_run_alone(program: Commands, act: str, place: str) -> None:
    check(program, act, place)


@pytest.mark.parametrize("act", ACTS)
def test_a_forked_process_has_connections_of_its_own(
    program: Commands, act: str, databases: Databases
) -> None:
    check(program, act, databases.make())


def check(program: Commands, act: str, place: str) -> None:
    ended = program.start(str(PROGRAM), str(program.folder), act, place).wait()
    assert ended.code == 0, ended.err
    *said, code, rest = ended.lines
    assert (said, code) == ([ACTS[act][1]] if act != "exit" else [], "ended with 0")
    texts, _, status = rest.rpartition(" ")
    assert (sorted(literal_eval(texts)), status) == (["b", "c", "d", "z"], "done")


HELD = """
import os, signal, sys, threading
import agentgraph as ag
from agentgraph.journal.savers import file_locks
from agentgraph.threads.live import watcher

runner = ag.Runner(ag.function_agent("a", lambda ctx: "Hi."), checkpointer=sys.argv[1])
guard = {"watcher": watcher, "lock files": file_locks}[sys.argv[2]]._guard
taken, forked = threading.Event(), threading.Event()

def take():
    with guard:
        taken.set()
        forked.wait()

threading.Thread(target=take, daemon=True).start()
taken.wait()
try:
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        print(runner.invoke("Go.", thread_id="t").text, flush=True)
        os._exit(0)
finally:
    forked.set()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("holder", ["watcher", "lock files"])
def test_a_process_may_fork_while_a_thread_has_a_lock_of_ours(tmp_path: Path, holder: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", HELD, str(tmp_path / "a.db"), holder]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.stdout, ended.stderr) == ("Hi.\n0\n", "")
