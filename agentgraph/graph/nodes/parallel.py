"""The node of a Parallel: its branches run at the same time, and see what was there before."""

from collections.abc import Sequence
from typing import cast

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.agents.agents import ParallelAgent
from agentgraph.graph.nodes.fork import Fork, ForkNode, Job
from agentgraph.graph.nodes.lane import Lane
from agentgraph.graph.nodes.schedule import Schedule
from agentgraph.graph.nodes.site import Site


class ParallelNode(ForkNode):
    """Runs the branches; each goes as far as it can before the run pauses."""

    def __init__(self, site: Site, lanes: Sequence[Lane]) -> None:
        self.agent = cast(ParallelAgent, site.place.agent)
        super().__init__(site, lanes)

    def jobs(self, fork: Fork) -> list[Job]:
        """Return a job for each branch."""
        return [Job(n, fork.cursor, lambda _: fork.around) for n in range(len(self.lanes))]

    def schedule(self, fork: Fork, jobs: Sequence[Job]) -> Schedule:
        """Return that all may begin, as many at once as the agent allows."""
        needs = [job.needs for job in jobs]
        limit = self.agent.max_concurrency
        return Schedule(needs, fork.control, on_error=self.agent.on_error, at_once=limit)

    def keeps_failure(self, lane: Lane) -> bool:
        """Tell whether failures become messages."""
        return self.agent.on_error == "collect"

    def instead(self, error: str) -> list[BaseMessage]:
        """Return the message that an error becomes."""
        return [AIMessage(f"Failed: {error}")]
