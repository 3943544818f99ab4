"""The node at which each turn begins: it sets the position afresh, whatever the last turn left."""

from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig

from agentgraph.nodes.site import Site
from agentgraph.position import start
from agentgraph.state import LaneState, Update

NEW_TURN = "__turn__"


class TurnNode(Runnable[LaneState, Update]):
    """Writes the position of the tree's first leaf, and what the tree looks like."""

    def __init__(self, site: Site) -> None:
        position = site.position(start(site.tree, site.place))
        position["outline"] = list(site.tree.outline)
        self.name = NEW_TURN
        self.update = Update(position=position)

    def invoke(self, input: LaneState, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Begin a turn."""
        return self.update
