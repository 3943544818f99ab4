"""A step of a loop in google-adk, in an environment made for it, beside ours as events.

In memory google-adk keeps no checkpoints: nothing there can be resumed, and so it is faster. With
SQLite both keep what a session was.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from measure import Figure, seconds
from steps import as_events, opened

_PACKAGES = ("google-adk[db]==2.13.0", "aiosqlite==0.22.1")
_SCRIPT = Path(__file__).with_name("adk_loop.py")
_REPEATS = 3


def figures() -> Iterator[Figure]:
    """Time both by the processor, and with SQLite by the clock too."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        python = _environment(folder / "adk")
        for rounds, aim in ((50, 4.0), (250, 3.0)):
            ours = min(seconds(as_events(rounds=rounds), time.process_time) for _ in range(_REPEATS))
            theirs = min(_adk(python, rounds)[0] for _ in range(_REPEATS))
            yield _step(f"step of {2 * rounds} as events, in memory", rounds, ours, theirs, aim)
        path, rounds = folder / "ours.db", 50
        cpu, clock = (
            min(seconds(as_events(lambda: opened(path), rounds), each) for _ in range(_REPEATS))
            for each in (time.process_time, time.perf_counter)
        )
        theirs_cpu, theirs_clock = map(
            min, zip(*(_adk(python, rounds, folder / f"{n}.db") for n in range(_REPEATS)), strict=True)
        )
        yield _step("step of 100 as events, SQLite, processor", rounds, cpu, theirs_cpu, 0.3)
        yield _step("step of 100 as events, SQLite, clock", rounds, clock, theirs_clock, 0.2)


def _step(name: str, rounds: int, ours: float, theirs: float, aim: float) -> Figure:
    count = 2 * rounds
    return Figure(
        name=name, ours=ours / count, theirs=theirs / count, against="google-adk", unit="ms", aim=aim
    )


def _environment(folder: Path) -> Path:
    """Make an environment with google-adk, and return its Python."""
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run([*uv, "pip", "install", "--quiet", "--python", python, *_PACKAGES], check=True)
    return python


def _adk(python: Path, rounds: int, path: Path | None = None) -> tuple[float, float]:
    """Return what the loop takes there, by the processor and by the clock."""
    command = [str(python), "-W", "ignore", str(_SCRIPT), str(rounds), *([str(path)] if path else ())]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    cpu, clock, _ = run.stdout.splitlines()[-1].split()
    return float(cpu), float(clock)
