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

import argparse
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
import counts
import growth
import imports
import items
import lists
import long_runs
import many_runs
import nested
import peaks
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
    "counts": counts,
    "steps": steps,
    "growth": growth,
    "imports": imports,
    "items": items,
    "lists": lists,
    "long_runs": long_runs,
    "many_runs": many_runs,
    "nested": nested,
    "peaks": peaks,
    "pictures": pictures,
    "reads": reads,
    "resumes": resumes,
    "sequences": sequences,
    "trees": trees,
    "tools": tools,
    "turns": turns,
    "adk": adk,
}


def main() -> None:
    """Print the table of the groups named, or of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("groups", nargs="*", metavar="group", help=f"any of: {', '.join(GROUPS)}")
    parser.add_argument("--beside", type=Path, metavar="folder", help="where another agentgraph is")
    parser.add_argument("--json", action="store_true", help="print names and amounts of ours alone")
    options = parser.parse_args()
    groups = options.groups or list(GROUPS)
    if unknown := set(groups) - set(GROUPS):
        parser.error(f"no group {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    if options.json:
        for figure in chain.from_iterable(GROUPS[name].figures() for name in groups):
            print(json.dumps([figure.name, figure.ours]), flush=True)
        return
    began = time.perf_counter()
    shown(_rows(groups, options.beside), before=options.beside is not None)
    print(f"\n{time.perf_counter() - began:.0f} s")


def _rows(groups: list[str], folder: Path | None) -> Iterator[tuple[str, ...]]:
    for name in groups:
        before = _before(name, folder) if folder else {}
        for figure in GROUPS[name].figures():
            yield figure.row(*([before.get(figure.name, math.nan)] if folder else []))


def _before(group: str, folder: Path) -> dict[str, float]:
    """Return the figures of a group with another agentgraph, up to the first that it fails at."""
    command = [sys.executable, "-W", "ignore", str(Path(__file__).parent), "--json", group]
    variables = {**os.environ, "PYTHONPATH": str(folder.resolve())}
    run = subprocess.run(command, env=variables, capture_output=True, text=True)
    return dict(json.loads(line) for line in run.stdout.splitlines() if line.startswith("["))


main()
