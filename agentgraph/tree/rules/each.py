"""The rules of an `each`."""

from collections.abc import Iterator

from agentgraph.agents.agents import EachAgent
from agentgraph.agents.functions import gives_one_value
from agentgraph.agents.limits import limit_faults, word_faults
from agentgraph.safe_repr import shown
from agentgraph.tree.rules.options import input_faults, key_faults, source_faults
from agentgraph.tree.rules.row import NOTHING, Around, NamedValue, Rules


def _faults(agent: EachAgent, _: Around) -> Iterator[str]:
    yield from source_faults("over", agent.over)
    yield from key_faults("as_", agent.as_)
    yield from key_faults("output_key", agent.output_key)
    yield from key_faults("errors_key", agent.errors_key)
    if agent.as_ is None:
        yield "as_=None cannot be used; pass the name of a value"
    names = [n for n in (agent.as_, agent.output_key, agent.errors_key) if isinstance(n, str)]
    if len(set(names)) < len(names):
        yield f"as_, output_key and errors_key must differ; they are {', '.join(map(shown, names))}"
    if agent.key is not None and not gives_one_value(agent.key):
        yield f"key={shown(agent.key)} cannot be used; pass a function of an item"
    if agent.depends_on is not None and not callable(agent.depends_on):
        yield f"depends_on={shown(agent.depends_on)} cannot be used; pass a function of the context"
    yield from limit_faults("max_concurrency", agent.max_concurrency)
    first = () if agent.depends_on else ("first",)  # steps of a plan are all needed
    yield from word_faults("on_error", agent.on_error, ("fail", "wait", "collect", *first))
    if agent.output_mode is not None:
        yield from word_faults("output_mode", agent.output_mode, ("full", "last", "none"))
    yield from input_faults(agent.input, "the input", agent.name, {agent.name: ()})


def _reads(agent: EachAgent) -> list[NamedValue]:
    return [NamedValue("over", agent.over)] if isinstance(agent.over, str) else []


EACH = Rules(
    faults=_faults,
    asked=lambda agent: [("over", agent.over), ("key", agent.key), ("input", agent.input)],
    texts=lambda agent: [("its input", agent.input)],
    reads=_reads,
    writes=lambda agent: filter(None, (agent.as_, agent.errors_key)),
    former=lambda was: EachAgent(name=was.name, agent=was.called[0], over=NOTHING),
)
