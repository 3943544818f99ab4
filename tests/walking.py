"""Walks laid-out trees as a run does, for tests of positions, addresses and run paths."""

from collections.abc import Callable, Iterator
from typing import Any

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
)
from agentgraph.testing import ScriptedChatModel
from agentgraph.tree.addresses import Cursor, address
from agentgraph.tree.places import Place, Tree, lay_out, targets
from agentgraph.tree.position import Next, advance, start, transfer


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


a, b, c, d, e, x, y = map(leaf, "abcdexy")


def no(place: Place, cursor: Cursor) -> bool:
    return False


class Asked:
    """Ends loops by a function, and never sends agents back."""

    def __init__(self, ends: Callable[[Place, Cursor], bool] | None = None) -> None:
        self.ends, self.repeats = ends or no, no


never = Asked()


def named(tree: Tree, name: str) -> Place:
    (place,) = (place for place in tree.places if place.name == name)
    return place


def walk(
    tree: Tree, ending_of: Callable[[Place, Cursor], str | None], until: Any = None
) -> Iterator[tuple[Place, Cursor, Next]]:
    """Yield each stop that ends, and what runs after it; branches run one after the other.

    Args:
        tree: The tree.
        ending_of: Returns the signal with which a leaf ends, or the agent that it transfers to.
        until: Returns whether a loop ends.
    """

    def lane(place: Place, cursor: Cursor) -> Any:
        signal: Any
        following = start(tree, place, cursor)
        while following.place is not None:
            place, cursor = following.place, following.cursor
            if place.kind.is_fork:
                ended = set()
                for branch in tree.children[place]:
                    ended.add((yield from lane(branch, cursor)))
                signal = next((s for s in ("exit", "break_loop") if s in ended), None)
            else:
                signal = ending_of(place, cursor)
            if signal in targets(tree, place):
                following = transfer(tree, place, cursor, signal)
            else:
                following = advance(tree, place, cursor, signal, Asked(until))
            yield place, cursor, following
        return following.signal

    yield from lane(tree.root, ())


def activations(
    agent: Agent, signals: Any = None, until: Any = None
) -> tuple[Tree, list[tuple[Place, Cursor]]]:
    """Return the leaves that run, in order; `signals` maps addresses to signals."""
    tree = lay_out(agent)
    stops = walk(tree, lambda *leaf: (signals or {}).get(address(*leaf)), until)
    return tree, [(place, cursor) for place, cursor, _ in stops if not place.kind.is_fork]


def transfers(agent: Agent, *names: str) -> tuple[Tree, list[tuple[Any, Cursor]]]:
    """Return the activations of a run in which each agent transfers to the next of `names`."""
    tree = lay_out(agent)
    visited = [start(tree, tree.root)[:2]]
    for name in names:
        visited.append(transfer(tree, *visited[-1], name)[:2])  # type: ignore[arg-type]
    return tree, visited
