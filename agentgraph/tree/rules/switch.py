"""The rules of switches."""

from collections.abc import Iterator

from agentgraph.agents.agents import SwitchAgent, has_case
from agentgraph.agents.signals import BreakLoop
from agentgraph.safe_repr import shown
from agentgraph.tree.rules.options import source_faults
from agentgraph.tree.rules.row import NOTHING, Around, NamedValue, Rules


def _faults(agent: SwitchAgent, around: Around) -> Iterator[str]:
    yield from agent.faults
    if not agent.cases and not agent.faults:
        yield "a switch needs at least one case"
    yield from source_faults("choose", agent.choose)
    seen: set[object] = set()
    for key, _ in agent.cases:
        try:
            if key in seen:
                yield f"two cases have the key {shown(key)}; leave one out"
            seen.add(key)
        except TypeError:
            yield f"the key {shown(key)} cannot be hashed; use a text, a number or a boolean"
    if has_case(agent, BreakLoop) and not around.in_loop:
        yield "a case is BreakLoop(), but no loop is around it; use SKIP or Exit()"


def _reads(agent: SwitchAgent) -> Iterator[NamedValue]:
    if isinstance(agent.choose, str):
        yield NamedValue("choose", agent.choose, may_be_missing=agent.otherwise is not None)


SWITCH = Rules(
    faults=_faults,
    asked=lambda agent: [("choose", agent.choose)],
    reads=_reads,
    former=lambda was: SwitchAgent(name=was.name, choose=NOTHING, cases=NOTHING),
)
