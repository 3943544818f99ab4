"""Random trees whose models reuse ids, stream under odd ones, fail and are tried again.

Whoever applies `discarded` has exactly the events of the thread; the history has each message once; a
client of AG-UI shows the same. `helpers/reply_ids.py` has the models and the agents.
"""

import tempfile
from collections.abc import Callable, Iterable
from itertools import count
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from ag_ui.core import RunAgentInput
from helpers import Drive, fresh
from helpers.reply_ids import LEAVES, STYLES, Reused, check
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_spine import DRIVES, EXAMPLES

import agentgraph as ag
from agentgraph import agui


class Leaf(NamedTuple):
    """An agent that says a message: its kind, the ids of its model, and which replies fail."""

    kind: str
    style: str
    fails: tuple[int, ...]


class Several(NamedTuple):
    """A composite of other agents."""

    kind: str
    inside: tuple["Leaf | Several", ...]


LEAF = st.builds(
    Leaf, st.sampled_from(sorted(LEAVES)), st.sampled_from(STYLES), st.sampled_from([(), (1,), (2,)])
)
COMPOSITES: dict[str, Callable[[str, list[ag.Agent]], ag.Agent]] = {
    "sequence": ag.sequential,
    "loop": lambda name, agents: ag.loop(name, agents, max_iterations=2),
    "branches": ag.parallel,
    "first": lambda name, agents: ag.parallel(name, agents, on_error="first"),
    "items": lambda name, agents: ag.each(
        name, ag.sequential(f"{name}_item", agents), lambda _: [1, 2], output_mode="full"
    ),
    "steps": ag.workflow,
}
TREES = st.recursive(
    LEAF,
    lambda inside: st.builds(
        Several,
        st.sampled_from(sorted(COMPOSITES)),
        st.lists(inside, min_size=1, max_size=3).map(tuple),
    ),
    max_leaves=6,
)


def built(spec: Leaf | Several, names: "count[int]") -> ag.Agent:
    name = f"n{next(names)}"
    if isinstance(spec, Several):
        return COMPOSITES[spec.kind](name, [built(each, names) for each in spec.inside])
    model = Reused(name_of=name, style=spec.style, fails=spec.fails)
    return LEAVES[spec.kind](name, model)


def size(spec: Leaf | Several) -> int | None:
    """Return how many messages an agent says in an activation; None if that is chance."""
    if isinstance(spec, Leaf):
        return 1
    inside = [size(each) for each in spec.inside]
    known = [each for each in inside if each is not None]
    if spec.kind == "first" or len(known) < len(inside):
        return None
    return sum(known) * (2 if spec.kind in ("loop", "items") else 1)


def shown(events: Iterable[ag.AgentEvent]) -> list[str]:
    """Return the texts that a client of AG-UI shows."""
    texts: dict[str, str] = {}
    given_input = RunAgentInput.model_validate(
        {"threadId": "t", "runId": "r", "state": {}, "messages": [], "tools": [], "context": []}
        | {"forwardedProps": {}}
    )
    for event in agui.events(events, given_input):
        told: Any = event
        match event.type.value:
            case "TEXT_MESSAGE_CONTENT":
                texts[told.message_id] = texts.get(told.message_id, "") + told.delta
            case "MESSAGES_SNAPSHOT":
                texts = {each.id: each.content for each in told.messages}
    return sorted(texts.values())


@settings(max_examples=ceil(EXAMPLES * 3), deadline=None, suppress_health_check=list(HealthCheck))
@given(spec=TREES, drive=DRIVES, stream=st.booleans(), turns=st.integers(1, 2))
def test_consumer_thread_and_client_have_the_same_messages(
    spec: Leaf | Several, drive: Drive, stream: bool, turns: int
) -> None:
    tree = ag.sequential("root", [built(spec, count())])
    events: list[ag.AgentEvent] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "threads.db"
        for _ in range(turns):
            events += fresh(drive, path, tree, "run", "Go.", thread_id="t", stream=stream)
        with ag.Runner(tree, checkpointer=path) as runner:
            history, again = runner.thread("t").messages, list(runner.events("t"))
    check(events, again, history)
    if (each_turn := size(spec)) is not None:
        assert len([message for message in history if message.type == "ai"]) == each_turn * turns
    assert shown(events) == sorted(event.text for event in again if event.message is not None)
