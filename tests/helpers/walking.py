"""Trees in short, walked as a run does, and the cases of text files: expressions and lines."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import agentgraph
import helpers
from agentgraph import (
    Agent,
    BreakLoop,
    Exit,
    agent_tool,
    chat_agent,
    function_agent,
    loop,
    parallel,
    sequential,
    testing,
)
from agentgraph.agents.agents import CheckedAgent
from agentgraph.agents.signals import CheckResult
from agentgraph.testing import ScriptedChatModel
from agentgraph.tree.addresses import Cursor, address
from agentgraph.tree.places import Place, Tree
from agentgraph.tree.position import Next, advance, capabilities_at, start, transfer
from agentgraph.tree.targets import targets


def say(ctx: Any) -> str:
    return "said"


def stop(ctx: Any) -> Exit:
    return Exit()


def may_stop(ctx: Any) -> str | Exit:
    return Exit()


def leave(ctx: Any) -> BreakLoop:
    return BreakLoop()


def may_leave(ctx: Any) -> str | BreakLoop:
    return BreakLoop()


def anything(ctx):  # type: ignore[no-untyped-def]
    return None


def leaf(name: str, fn: Any = say) -> Agent:
    return function_agent(name, fn)


def group(name: str, *sub_agents: Agent, tools: Any = (), **options: Any) -> Agent:
    """Return a chat agent that may transfer to its sub-agents, with agents as tools."""
    model, given = ScriptedChatModel(responses=[]), [agent_tool(tool) for tool in tools]
    return chat_agent(name, model, sub_agents=sub_agents, tools=given, **options)


def seq(name: str, *agents: Any) -> Agent:
    return sequential(name, agents)


def par(name: str, *agents: Any, **options: Any) -> Agent:
    return parallel(name, agents, **options)


def rounds(times: int | None, name: str, *agents: Any, **options: Any) -> Agent:
    """Return a loop of at most so many iterations."""
    return loop(name, agents, max_iterations=times, **options)


def checked(agent: Agent) -> CheckedAgent:
    """Return an agent with a check that may send it back."""
    return CheckedAgent(agent=agent, check=lambda ctx, said, attempt: CheckResult(), repeats=True)


a, b, c, d, e, x, y = map(leaf, "abcdexy")


class Endings:
    """How agents end, by their addresses; the others do the first that they may.

    That is a signal, the agent that one transfers to, "again" for one that a check sends back, and
    "until" for an iteration that ends its loop, as in `{"s/a": "again", "s/l[1]": "until"}`.
    """

    def __init__(self, tree: Tree, endings: Mapping[str, str] | None = None) -> None:
        self._tree, self._endings = tree, endings or {}

    def of(self, place: Place, cursor: Cursor) -> str | None:
        given = self._endings.get(address(place, cursor), "again")
        may = capabilities_at(self._tree, place)
        otherwise = None if may.proceed else "exit" if may.exit else "break_loop"
        return otherwise if given == "again" else given

    def ends(self, loop: Place, cursor: Cursor) -> bool:
        at = f"{address(loop, cursor[:-1])}[{cursor[-1]}]"
        return self._endings.get(at) == "until"

    def repeats(self, place: Place, cursor: Cursor) -> bool:
        return self._endings.get(address(place, cursor)) == "again"


def named(tree: Tree, name: str) -> Place:
    (place,) = (place for place in tree.places if place.name == name)
    return place


def walk(tree: Tree, endings: Any = None) -> Iterator[tuple[Place, Cursor, Next]]:
    """Yield each stop that ends, and what runs after it; branches run one after the other.

    Args:
        tree: The tree.
        endings: How agents end, as `Endings` takes it, or an object like it.
    """
    endings = endings if hasattr(endings, "of") else Endings(tree, endings)

    def lane(place: Place, cursor: Cursor) -> Any:
        signal: Any
        following = start(tree, place, cursor)
        while following.place is not None:
            place, cursor = following.place, following.cursor
            if place.kind.is_parallel:
                ended = set()
                for branch in tree.children[place]:
                    if not branch.undoes:
                        ended.add((yield from lane(branch, cursor)))
                signal = next((s for s in ("exit", "break_loop") if s in ended), None)
            else:
                signal = endings.of(place, cursor)
            if signal in targets(tree, place):
                following = transfer(tree, place, cursor, targets(tree, place.home)[signal])
            else:
                following = advance(tree, place, cursor, signal, endings)
            yield place, cursor, following
        return following.signal

    yield from lane(tree.root, ())


def leaves(tree: Tree) -> list[tuple[Place, Cursor]]:
    """Return the leaves that run, in order."""
    return [(place, cursor) for place, cursor, _ in walk(tree) if not place.kind.is_parallel]


def cases(path: Path) -> list[Any]:
    """Return the cases of a text file: expressions after `>>>`, each with the lines below it."""
    found = re.findall(r"^>>> (.*)\n((?:(?!>>> |== ).*\n?)*)", path.read_text(), re.MULTILINE)
    return [pytest.param(each, expected.strip(), id=each[:70]) for each, expected in found]


NAMES: dict[str, Any] = {
    **{name: getattr(agentgraph, name) for name in dir(agentgraph)},
    **{name: each for module in (helpers, testing) for name, each in vars(module).items()},
    **globals(),
}
"""The names that the expressions of text files may use."""
