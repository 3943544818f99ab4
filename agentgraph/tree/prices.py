"""The prices of replies and the limits of cost that a tree runs with, checked."""

from agentgraph.agents.costs import PriceFunction
from agentgraph.agents.functions import is_async, needs_await
from agentgraph.agents.limits import Limits
from agentgraph.errors import AgentGraphError
from agentgraph.safe_repr import shown
from agentgraph.tree.places import Tree
from agentgraph.tree.rules.options import arity_faults


def checked_prices(prices: object) -> PriceFunction | None:
    """Return `prices=` after a check.

    Raises:
        AgentGraphError: It is not a function of two arguments.
    """
    fault = next(arity_faults("prices", prices, "the name of a model", "the usage of a reply"), None)
    if prices is not None and not callable(prices):
        fault = (
            f"prices={shown(prices)} is not a function; pass one that takes the name of a model and "
            "the usage of a reply, and returns a Decimal, or None"
        )
    if fault is not None:
        raise AgentGraphError(fault)
    return prices  # type: ignore[return-value]


def unawaited_prices(tree: Tree, prices: PriceFunction | None) -> str | None:
    """Return why sync runs of a tree cannot ask for prices, with the remedy, or None."""
    return f"{tree.root.name}: {needs_await('prices', prices)}" if is_async(prices) else None


def cost_fault(tree: Tree, limits: Limits) -> str | None:
    """Return the fault of limits of cost in a run without prices, or None."""
    own = ((place.name, each) for place in tree.limited for each in place.limits)
    for name, each in (("the run", limits), *((f"the agent {name!r}", each) for name, each in own)):
        if each.cost is not None:
            return (
                f"Limits(cost={shown(each.cost)}) of {name} needs prices; pass a function that returns "
                "the price of a reply: ag.Runner(tree, prices=fn)"
            )
    return None
