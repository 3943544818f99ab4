"""What all leaves share: a node that enters, runs, and writes what it said and where it goes on."""

from abc import abstractmethod
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig

from agentgraph.nodes.activation import Activation, Site
from agentgraph.state import LaneState, Update


class LeafNode(Runnable[LaneState, Update]):
    """The node of a leaf; a kind of leaf says what it does in `run` and `arun`."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.name = site.place.node

    @abstractmethod
    def run(self, activation: Activation) -> None:
        """Do what the agent does."""

    async def arun(self, activation: Activation) -> None:
        """Do what the agent does, without blocking the event loop."""
        self.run(activation)

    def invoke(self, input: LaneState, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Run once, from the state of the lane to what the node writes."""
        activation = Activation(self.site, input, config or {})
        with activation.reported():
            self.run(activation)
            return activation.update()

    async def ainvoke(self, input: LaneState, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Run once, as `invoke` does, without blocking the event loop."""
        activation = Activation(self.site, input, config or {})
        with activation.reported():
            await self.arun(activation)
            return activation.update()
