"""The node of a parallel agent: runs its branches."""

from collections.abc import Sequence
from typing import cast

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.agents.agents import ParallelAgent
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.concurrency import BRANCHES
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.lane import Lane
from agentgraph.graph.nodes.lanes_node import Job, LanesNode
from agentgraph.graph.nodes.leaf_lane import shows_graphs
from agentgraph.graph.nodes.schedule import Schedule
from agentgraph.graph.nodes.stopping import inner_stop


class ParallelNode(LanesNode):
    """Runs the branches; each runs as far as it can before the run pauses."""

    def __init__(self, node_context: NodeContext, lanes: Sequence[Lane]) -> None:
        self.agent = cast(ParallelAgent, node_context.place.agent)
        super().__init__(node_context, lanes)

    async def jobs(self, activation: Activation) -> list[Job]:
        """Return a job for each branch."""
        return [
            Job(n, activation.cursor, lambda _: activation.view.seen) for n in range(len(self.lanes))
        ]

    def schedule(self, jobs: Sequence[Job]) -> Schedule:
        """Return a schedule in which all may begin, up to the agent's `max_concurrency` at once."""
        needs = [job.needs for job in jobs]
        limit = self.agent.max_concurrency or BRANCHES
        return Schedule(needs, inner_stop(), on_error=self.agent.on_error, at_once=limit)

    def keeps_graphs(self, activation: Activation) -> bool:
        """Return whether branches run in their graphs, because a consumer sees these."""
        return shows_graphs(activation, self.lanes)

    def keeps_failure(self, lane: Lane) -> bool:
        """Return whether failures become messages."""
        return self.agent.on_error == "collect"

    def instead(self, error: str) -> list[BaseMessage]:
        """Return the message that replaces a failed branch's."""
        return [AIMessage(f"Failed: {error}")]
