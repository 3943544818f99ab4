"""Finds the lanes that may cancel others, by `Exit(cancel=True)` or `BreakLoop(cancel=True)`."""

from collections.abc import Iterator

from agentgraph.agents.functions import names_cancel
from agentgraph.agents.middleware import HOOKS, tools_of
from agentgraph.agents.signals import BreakLoop, Exit
from agentgraph.agents.tools import function_of
from agentgraph.tree.places import Place, Tree


def may_cancel(tree: Tree, lane: Place) -> bool:
    """Return whether a lane may cancel the others, as far as its code and its tree show it."""
    queue = [lane]
    while queue:
        place = queue.pop()
        if any(map(_cancels, _sources(place.agent))):
            return True
        queue += tree.children.get(place, ())
        queue += [each for each in tree.called.get(place, ()) if not (each.is_tool or each.is_run)]
    return False


def _sources(agent: object) -> Iterator[object]:
    """Yield the functions that may return signals, and the signals that are in the tree."""
    yield getattr(agent, "fn", None)
    yield getattr(agent, "otherwise", None)
    yield from (case for _, case in getattr(agent, "cases", ()))
    middleware = getattr(agent, "middleware", ())
    yield from map(function_of, (*getattr(agent, "tools", ()), *tools_of(middleware)))
    for each in middleware:
        yield from (getattr(each, f"{prefix}{hook}") for hook in HOOKS for prefix in ("", "a"))


def _cancels(source: object) -> bool:
    if isinstance(source, Exit | BreakLoop):
        return source.cancel
    return callable(source) and names_cancel(source)
