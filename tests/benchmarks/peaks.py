"""What whole processes hold at most: those of an `each` of 10,000 items, and of 10,000 async runs."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import items
import many_runs
from measure import Figure, grown

_FEW, _MANY = 1_000, 10_000
_WORK = {
    "each": lambda count: items.items(count, nullcontext),
    "async each": lambda count: items.items(count, nullcontext, is_async=True),
    "runs": partial(many_runs.together, many_runs.ours),
    "runs by hand": partial(many_runs.together, many_runs.by_hand),
}
"""What is run so many times, by its name."""


def figures() -> Iterator[Figure]:
    """Run each in a process of its own."""
    for name in ("each", "async each"):
        most = _most(name, _MANY)
        yield Figure(name=f"{name} of {_MANY:,}, the process", ours=most, unit="MB", aim=120e6)
    for name, bounds in (("runs", {"aim": 1.1}), ("runs by hand", {})):
        before = _most(name, 1)
        totals = [_most(name, count) - before for count in (_MANY, _FEW)]
        name = f"async {name} side by side, the process, one of {_MANY:,}"
        yield grown(name, totals, (_MANY, _FEW), of="one of", unit="B", **bounds)


def _most(name: str, count: int) -> float:
    """Return the bytes that a process holds at most."""
    command = [sys.executable, "-W", "ignore", __file__, name, str(count)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _run(name: str, count: str) -> None:
    with _WORK[name](int(count))() as call:
        call()
    (line,) = (each for each in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in each)
    print(int(line.split()[1]) * 1024)  # the kernel's ru_maxrss is the parent's too


if __name__ == "__main__":
    _run(*sys.argv[1:])
