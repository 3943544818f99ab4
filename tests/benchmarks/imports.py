"""What importing and building a tree take, beside `import langgraph.graph`, by the processor."""

import resource
import subprocess
import sys
from collections.abc import Iterator

from measure import Figure

_REPEATS = 5
_LANGGRAPH = "import langgraph.graph"
_BUILT = "import agentgraph as ag; tree = ag.loop('l', [ag.human('h', 'Well?')], max_iterations=2)"
_COMPILED = f"{_BUILT}; ag.compile_agent(tree)"


def figures() -> Iterator[Figure]:
    """Time new processes, which take turns."""
    codes = (_BUILT, _COMPILED, _LANGGRAPH)
    rounds = [[_seconds(code) for code in codes] for _ in range(_REPEATS)]
    built, compiled, langgraph = map(min, zip(*rounds, strict=True))
    for name, ours, aim in (
        ("import agentgraph, build a tree", built, 0.6),
        ("the same, and compile it", compiled, 1.1),
    ):
        yield Figure(name=name, ours=ours, theirs=langgraph, against=_LANGGRAPH, unit="ms", aim=aim)


def _seconds(code: str) -> float:
    before = _of_children()
    subprocess.run([sys.executable, "-c", code], check=True)
    return _of_children() - before


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
