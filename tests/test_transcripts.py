"""Runs the cases of `tests/transcripts`: a tree, calls of a runner, and the lines that each must give.

```
== A critic breaks the loop
loop("refine", [says("writer", "One.", "Two."), gives("critic", "No.", BreakLoop())], max_iterations=5)
>>> run("Go.")
refine[0]/writer: One.
refine[0]/critic: No.
refine[1]/writer: Two.
refine[1]/critic: [break_loop]
```

The tree is a Python expression over the names of `agentgraph` and those of `helpers`. The calls are
`run`, `resume`, `rewind`, `pending`, `values`, `spent`, `visits` (the address and the node of each),
and `paths`: the run path of each address so far. With `declare(notes=(list, reducer))` values are
declared from then on, and `become(tree)` goes on with another tree. A line `raises ValueError: text`
ends a call that raises. A title that ends in "(in any order)" is of a tree that runs several at once.

Each case is run sync or async, in memory or on a SQLite file with a new runner for each call, by turns;
`AGENTGRAPH_EXAMPLES=1000` runs it in all ways. In the end `events` must give what the calls
gave and did not discard. `edit(values={"k": 1})` edits the state by `update_state`, as operators do.
"""

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import helpers
import pytest
from helpers import Drive, check_heard, lines, visits
from helpers.forked import CONFIG, Thread
from helpers.running import catching, gathering
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Overwrite, interrupt

import agentgraph as ag
from agentgraph import testing
from agentgraph.agents.limits import MEASURES

NAMES = {
    **{name: getattr(ag, name) for name in ag.__all__},
    **dict(inspect.getmembers(helpers, inspect.isfunction)),
    **{
        "call": testing.call,
        "calls": testing.calls,
        "catching": catching,
        "gathering": gathering,
        "AIMessage": AIMessage,
        "HumanMessage": HumanMessage,
        "Overwrite": Overwrite,
        "interrupt": interrupt,
    },
}


class Case(NamedTuple):
    """A tree, and what each call of a runner must give."""

    title: str
    tree: str
    steps: list[str]


def cases(path: Path) -> Iterator[Case]:
    """Yield the cases of a file; lines before the first one are its introduction."""
    for text in re.split(r"^== ", path.read_text(), flags=re.MULTILINE)[1:]:
        head, *steps = re.split(r"^>>> ", text.strip(), flags=re.MULTILINE)
        title, _, tree = head.partition("\n")
        yield Case(title, tree, [step.strip() for step in steps])


CASES = [
    pytest.param(case, id=f"{path.stem}: {case.title}")
    for path in sorted(Path(__file__).with_name("transcripts").glob("*.txt"))
    for case in cases(path)
]


@pytest.mark.by_turns("drive", "saver")
@pytest.mark.parametrize("saver", ["memory", "file"])
@pytest.mark.parametrize("case", CASES)
def test_transcript(case: Case, drive: Drive, saver: str, tmp_path: Path) -> None:
    tree = eval(f"(\n{case.tree}\n)", dict(NAMES))
    thread = Thread(drive, tree, tmp_path / "threads.db" if saver == "file" else None)
    for step in case.steps:
        call, _, expected = step.partition("\n")
        assert in_order(case, given(thread, call)) == in_order(case, expected), call
    check_heard(thread.heard, thread.events())


def in_order(case: Case, text: str) -> str:
    """Return the lines in an order that does not depend on which branch was faster."""
    return "\n".join(sorted(text.splitlines())) if case.title.endswith("(in any order)") else text


def given(thread: Thread, call: str) -> str:
    """Return the lines of a call."""
    before, raised = len(thread.heard), ""
    try:
        returned = eval(call, {**NAMES, **calls_of(thread)})
    except Exception as error:
        returned, raised = None, f"raises {type(error).__name__}: {error}"
    heard = lines(thread.heard[before:])
    return "\n".join([*heard, *([str(returned)] if isinstance(returned, str) else []), raised]).strip()


def spent_lines(spent: ag.Spent) -> Iterator[str]:
    """Yield the usage without the time: in total, and by agent in the order of names."""
    for name, each in (("in all", spent), *sorted(spent.by_agent.items())):
        counts = ((field, getattr(each, field)) for field in MEASURES if field != "seconds")
        yield f"{name}: {', '.join(f'{field} {count}' for field, count in counts if count)}"


def calls_of(thread: Thread) -> dict[str, Any]:
    """Return the calls that a step may make."""
    return {
        "run": thread.run,
        "resume": thread.resume,
        "rewind": thread.rewind,
        "visits": lambda: "\n".join(f"{each.address} {each.node}" for each in thread.visited()),
        "declare": thread.declare,
        "become": thread.become,
        "pending": lambda: "\n".join(f"{each.address}: {each.value}" for each in thread.pending()),
        "paths": lambda: "\n".join(f"{at}: {path}" for at, path in visits(thread.heard)),
        "spent": lambda: "\n".join(spent_lines(thread.spent())),
        "values": lambda: json.dumps(thread.state().values["values"]),
        "edit": lambda as_node=None, **update: thread.edit(CONFIG, update, as_node=as_node),
    }
