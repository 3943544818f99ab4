"""What importing and building a tree take, beside `import langgraph.graph`, in new processes."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator

from measure import Figure

_REPEATS = 15
_LANGGRAPH = "import langgraph.graph"
_SMALL = "import agentgraph as ag; tree = ag.loop('l', [ag.human('h', 'Well?')], max_iterations=2)"
_RICH = """
import agentgraph as ag
def fn(ctx): return "Said."
chat = ag.chat_agent("chat", "openai:gpt-5", instruction="Be {tone}.", tools=[fn], output_key="out")
both = ag.parallel("both", [ag.function_agent("a", fn), ag.human("h", "Well?")])
each = ag.each("each", ag.function_agent("read", fn), lambda ctx: [1, 2], output_key="read")
flow = ag.workflow("flow", [ag.step(ag.function_agent("b", fn)), ag.step(ag.function_agent("c", fn))])
tree = ag.sequential("tree", [ag.loop("loop", [chat], max_iterations=2), both, each, flow])
"""
_CODES = {
    "import agentgraph, build a loop of a person": (_SMALL, 0.6),
    "import agentgraph, build agents of eight kinds": (_RICH, 0.6),
    "import agentgraph, build that loop and compile it": (f"{_SMALL}; ag.compile_agent(tree)", 1.1),
}
"""The code by what it does, and what it may take."""


def figures() -> Iterator[Figure]:
    """Time new processes, which take turns."""
    codes = [*(code for code, _ in _CODES.values()), _LANGGRAPH]
    rounds = [[_seconds(code) for code in codes] for _ in range(_REPEATS + 1)]
    *took, theirs = map(min, zip(*rounds[1:], strict=True))  # the first compiles modules
    for (name, (_, aim)), ours in zip(_CODES.items(), took, strict=True):
        yield Figure(name=name, ours=ours, theirs=theirs, against=_LANGGRAPH, unit="ms", aim=aim)


def _seconds(code: str) -> float:
    """Run code in a process that may keep the modules that it compiles."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = _of_children()
    subprocess.run([sys.executable, "-c", code], env=variables, check=True)
    return _of_children() - before


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
