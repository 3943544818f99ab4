"""Questions in nested forks, loops, tools, items and swarms: any order, subset, restart and rewind.

Each effect happens once on a line, whatever is answered when, and by which process.
"""

import os
import random
from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from helpers import Async, Drive, Session, Sync, unvoided
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.types import interrupt

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

EXAMPLES, ALL = int(os.environ.get("AGENTGRAPH_EXAMPLES", "25")), 1000
"""From so many examples on all orders are tried."""
DONE: Counter[str] = Counter()
"""How often each effect happened, by what was answered."""


@pytest.fixture(autouse=True)
def nothing_is_done() -> None:
    DONE.clear()


def acts(name: str) -> ag.Agent:
    """Return an agent that asks, and then has an effect."""

    def fn(ctx: ag.Context) -> Any:
        if not ctx.answered:
            return ag.Ask(f"{ctx.address}?")
        DONE[ctx.address] += 1
        return f"{name} {ctx.answer}"

    return ag.function_agent(name, fn)


def effect(name: str) -> ag.Agent:
    """Return an agent that has an effect before anything is asked."""

    def fn(ctx: ag.Context) -> str:
        DONE[ctx.address] += 1
        return name

    return ag.function_agent(name, fn)


def pay(what: str) -> str:
    """Pay for something, if a person agrees."""
    answer = interrupt(f"Pay for {what}?")
    DONE[f"pay {what}"] += 1
    return f"{what} {answer}"


def reply(sent: Sequence[BaseMessage]) -> AIMessage:
    if sent[-1].type == "tool":
        return AIMessage("Paid.")
    return calls(call("pay", "1", what="bees"), call("helper", "2", request="Help."))


def tree() -> ag.Agent:
    """Return a tree that asks five questions at once, at five depths."""
    boss = ag.chat_agent(
        "boss",
        ScriptedChatModel(responses=[reply] * 1000),
        tools=[pay, ag.agent_tool(acts("helper"), description="Helps.")],
    )
    hands_over = ag.function_agent("ann", lambda ctx: ag.TransferTo("bob"))
    branches = ag.parallel(
        "p",
        [
            ag.sequential("x", [effect("first"), ag.parallel("q", [acts("deep"), effect("beside")])]),
            ag.loop("l", [effect("round"), acts("asks")], max_iterations=1),
            boss,
            ag.each("e", acts("item"), lambda ctx: ["only"], output_key="out"),
            ag.swarm("team", [hands_over, acts("bob")]),
        ],
    )
    return ag.sequential("s", [effect("begin"), branches, effect("last")])


class Thread(Session):
    def __init__(self, drive: Drive, path: Path | None) -> None:
        super().__init__(tree(), drive, path)
        self.heard: list[ag.AgentEvent] = []

    def go(self, method: str, *args: Any, **options: Any) -> None:
        self.follow(method, *args, hear=self.heard.append, **options)
        assert unvoided(self.heard) == self.events()

    def texts(self) -> list[str]:
        return sorted(event.text for event in self.events() if event.text)


EFFECTS = {
    "s/begin",
    "s/last",
    "s/p/x/first",
    "s/p/x/q/beside",
    "s/p/x/q/deep",
    "s/p/l[0]/round",
    "s/p/l[0]/asks",
    "pay bees",
    "s/p/boss/helper(1)",
    "s/p/e/item(0)",
    "s/p/team[1]/bob",
}
SAID = sorted(
    [
        *("begin", "first", "beside", "round", "last", "Paid.", "bees yes", "deep yes", "asks yes"),
        *("helper yes", "helper yes", "item yes", "bob yes"),
    ]
)
"""What is said on a line: what a tool's agent says is the result of the call, too."""
ORDERS = [*permutations(range(6))]


@pytest.mark.parametrize("drive", [Sync, Async])
@pytest.mark.parametrize("order", ORDERS[:: 240 if EXAMPLES < ALL else 1], ids=str)
def test_answers_in_any_order_have_each_effect_once(
    drive: Drive, order: tuple[int, ...], tmp_path: Path
) -> None:
    thread = Thread(drive, tmp_path / "t.db" if sum(order[:2]) % 2 else None)
    thread.go("run", "Go.", thread_id=thread.id)
    asked = thread.pending()
    assert len(asked) == 6
    for number in order:
        thread.go("resume", thread.id, {asked[number].id: "yes"})
    assert dict.fromkeys(EFFECTS, 1) == DONE
    assert thread.pending() == []


@pytest.mark.parametrize("seed", range(1 if EXAMPLES < ALL else 200))
@pytest.mark.parametrize("drive", [Sync, Async])
def test_subsets_and_rewinds_between_have_each_effect_once_on_the_line(
    drive: Drive, seed: int, tmp_path: Path
) -> None:
    choices = random.Random(seed)
    thread = Thread(drive, tmp_path / "t.db" if seed % 2 else None)
    thread.go("run", "Go.", thread_id=thread.id)
    for _ in range(choices.randint(2, 5)):
        asked = thread.pending()
        if asked and choices.random() < 0.6:
            some = choices.sample(asked, choices.randint(1, len(asked)))
            thread.go("resume", thread.id, {each.id: "yes" for each in some})
        else:
            to = choices.choice(thread.visits())
            before = DONE.copy()
            thread.go("rewind", thread.id, to.address, siblings=choices.choice(("keep", "rerun")))
            assert all(count - before[what] <= 1 for what, count in DONE.items())
    while asked := thread.pending():
        some = choices.sample(asked, choices.randint(1, len(asked)))
        thread.go("resume", thread.id, {each.id: "yes" for each in some})
    said = Counter(event.address for event in thread.events() if event.text)
    assert {*said} >= EFFECTS - {"pay bees"}
    assert max(said[at] for at in EFFECTS) == 1
    assert thread.texts() == SAID
