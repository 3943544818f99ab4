"""Prints what things cost, side by side with what they are held against.

```
python tests/benchmarks                   # every group of figures
python tests/benchmarks steps tools       # some of them
python tests/benchmarks --beside ../old   # with what the agentgraph of another folder takes
```

It measures, and only compares each figure with its aim; a missed aim is printed, and is not a failure.
A growth is the power of the size with which a work grows: 1 is linear, 2 the square.
The group `adk` makes an environment with google-adk first, in a temporary folder.
"""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import adk
import calls
import growth
import imports
import items
import lists
import long_runs
import many_runs
import pictures
import reads
import resumes
import sequences
import steps
import tools
import trees
import turns
from measure import shown

GROUPS = {
    "calls": calls,
    "steps": steps,
    "growth": growth,
    "imports": imports,
    "items": items,
    "lists": lists,
    "long_runs": long_runs,
    "many_runs": many_runs,
    "pictures": pictures,
    "reads": reads,
    "resumes": resumes,
    "sequences": sequences,
    "trees": trees,
    "tools": tools,
    "turns": turns,
    "adk": adk,
}


def main(names: list[str]) -> None:
    """Print the table of the groups named, or of all."""
    folder, as_json = None, "--json" in names
    if "--beside" in names:
        at = names.index("--beside")
        folder = Path(names[at + 1]).resolve()
        del names[at : at + 2]
    groups = [name for name in names if name != "--json"] or list(GROUPS)
    if unknown := set(groups) - set(GROUPS):
        sys.exit(f"no group {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    if as_json:
        for figure in chain.from_iterable(GROUPS[name].figures() for name in groups):
            print(json.dumps([figure.name, figure.ours]), flush=True)
        return
    began = time.perf_counter()
    shown(_rows(groups, folder), before=folder is not None)
    print(f"\n{time.perf_counter() - began:.0f} s")


def _rows(groups: list[str], folder: Path | None) -> Iterator[tuple[str, ...]]:
    for name in groups:
        before = _before(name, folder) if folder else {}
        for figure in GROUPS[name].figures():
            yield figure.row(*([before.get(figure.name, math.nan)] if folder else []))


def _before(group: str, folder: Path) -> dict[str, float]:
    """Return the figures of a group with another agentgraph, up to the first that it fails at."""
    command = [sys.executable, "-W", "ignore", str(Path(__file__).parent), "--json", group]
    variables = {**os.environ, "PYTHONPATH": str(folder)}
    run = subprocess.run(command, env=variables, capture_output=True, text=True)
    return dict(json.loads(line) for line in run.stdout.splitlines() if line.startswith("["))


main(sys.argv[1:])
