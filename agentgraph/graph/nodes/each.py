"""The node of an `EachAgent`: one agent for each item, as soon as the items before it are done."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from langchain_core.messages import HumanMessage

from agentgraph.agents.agents import EachAgent, Item
from agentgraph.agents.dependencies import in_order
from agentgraph.graph.nodes.fork import Fork, ForkNode, Job, Results
from agentgraph.graph.nodes.lane import last_text
from agentgraph.graph.nodes.schedule import Schedule
from agentgraph.graph.nodes.site import Surroundings
from agentgraph.graph.state import with_id


class EachNode(ForkNode):
    """Runs the agent's lane for each item; each sees its request, and what those before it said."""

    def jobs(self, fork: Fork) -> list[Job]:
        """Return a job for each item."""
        items = self._items(fork)
        numbers = {name: number for number, name in enumerate(items)}

        def job(item: Item) -> Job:
            needs = tuple(numbers[name] for name in item.depends_on)
            names = dict(zip(needs, item.depends_on, strict=True))

            def sees(results: Results) -> Surroundings:
                said = [f"{name}: {last_text(results[need])}" for need, name in names.items()]
                request = HumanMessage("\n\n".join([item.request, *said]))
                given = with_id(request, f"{fork.address} {item.name}")
                values = {**fork.around.values, **item.values}
                return replace(fork.around, messages=[given], values=values)

            return Job(0, (*fork.cursor, numbers[item.name]), sees, needs)

        return [job(item) for item in items.values()]

    def schedule(self, fork: Fork, jobs: Sequence[Job]) -> Schedule:
        """Return that each begins when those that it needs are done."""
        return Schedule([job.needs for job in jobs], fork.control, in_steps=True)

    def values(self, fork: Fork, results: Results) -> dict[str, Any]:
        """Return the last messages by the names of the items, as the agent's value."""
        key = cast(EachAgent, self.site.place.agent).output_key
        return {
            key: {
                name: last_text(results[n]) for n, name in enumerate(self._items(fork)) if n in results
            }
        }

    def _items(self, fork: Fork) -> dict[str, Item]:
        """Return the items by their names, each behind those that it depends on."""
        agent = cast(EachAgent, self.site.place.agent)
        items = {item.name: item for item in agent.items(fork.around.values)}
        order = in_order({name: item.depends_on for name, item in items.items()})
        return {name: items[name] for name in order}
