"""The node of a parallel agent: runs its branches."""

from collections.abc import Sequence
from typing import cast

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.agents.agents import ParallelAgent
from agentgraph.agents.entries import Reply
from agentgraph.errors import NoneAcceptedError
from agentgraph.graph.copied_values import own, own_list
from agentgraph.graph.failures import Failure, add_note, attach_failures
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.asking import asked_in_thread
from agentgraph.graph.nodes.concurrency import BRANCHES
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.decisions import Turns
from agentgraph.graph.nodes.lane import Lane, LaneResult
from agentgraph.graph.nodes.lanes_node import Job, LanesNode, Results
from agentgraph.graph.nodes.leaf_lane import shows_graphs
from agentgraph.graph.nodes.schedule import Schedule
from agentgraph.graph.nodes.stopping import inner_stop
from agentgraph.safe_repr import shown_error


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
        made = Schedule(needs, inner_stop(), on_error=self.agent.on_error, at_once=limit)
        made.turns = Turns() if self.agent.accept is not None else None
        return made

    async def verdict(self, activation: Activation, job: Job, result: LaneResult) -> object:
        """Return the answer of `accept` about the reply of a branch."""
        accept, reply = self.agent.accept, self._reply(self.lanes[job.lane], result)
        assert accept is not None
        try:
            return await asked_in_thread(activation.address, "accept", accept, reply)
        except Exception as error:
            add_note(error, f"It was `accept` of the agent {self.agent.name!r} that failed.")
            raise

    def _reply(self, lane: Lane, result: LaneResult) -> Reply:
        from agentgraph.graph.chat.output import reply_of

        reply = reply_of(result, self.node_context, lane.place)
        said, data, values = own_list(reply.messages), own(reply.data), own(reply.values)
        return Reply(str(reply), data=data, values=values, messages=said)

    def _join(
        self, activation: Activation, jobs: Sequence[Job], results: Results, failed: Sequence[Failure]
    ) -> None:
        is_judged = self.agent.accept is not None
        if is_judged and not all(each["accepted"] for each in results.values()):
            raise self._none_accepted(activation, jobs, results, failed)
        super()._join(activation, jobs, results, failed)

    def _none_accepted(
        self, activation: Activation, jobs: Sequence[Job], results: Results, failed: Sequence[Failure]
    ) -> NoneAcceptedError:
        names = [lane.place.given_name for lane in self.lanes]
        errors: dict[str, str] = {}
        for name, job in zip(names, jobs, strict=True):
            for failure in filter(lambda each: self._inside(job)(each.address), failed):
                errors.setdefault(name, failure.shown)
        replies = {names[n]: self._reply(self.lanes[n], result) for n, result in results.items()}
        error = NoneAcceptedError(activation.address, replies, errors)
        last = Failure(activation.address, shown_error(error), activation.output.emitter.step)
        attach_failures(error, [*failed, last])
        return error

    def keeps_graphs(self, activation: Activation) -> bool:
        """Return whether branches run in their graphs, because a consumer sees these."""
        return shows_graphs(activation, self.lanes)

    def keeps_failure(self, lane: Lane) -> bool:
        """Return whether failures become messages."""
        return self.agent.on_error == "collect"

    def instead(self, error: str) -> list[BaseMessage]:
        """Return the message that replaces a failed branch's."""
        return [AIMessage(f"Failed: {error}")]
