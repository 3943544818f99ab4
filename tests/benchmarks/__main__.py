"""Prints what things cost, side by side with what they are held against.

```
python tests/benchmarks              # every group of figures
python tests/benchmarks steps tools  # some of them
```

It measures, and only compares each figure with its aim; a missed aim is printed, and is not a failure.
The group `adk` makes an environment with google-adk first, in a temporary folder.
"""

import sys
import time

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
    unknown = set(names) - set(GROUPS)
    if unknown:
        sys.exit(f"no group {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    began = time.perf_counter()
    shown(figure for name in names or GROUPS for figure in GROUPS[name].figures())
    print(f"\n{time.perf_counter() - began:.0f} s")


main(sys.argv[1:])
