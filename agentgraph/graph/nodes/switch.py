"""The node of a switch: chooses a case, emits what it has chosen, and leads there.

It does nothing else, so a failing `choose` is called again alone, and what was chosen is saved with the
step, as the position of the lane: a run that is killed later does not choose again.
"""

from collections.abc import Awaitable, Coroutine
from typing import cast

from agentgraph.agents import functions
from agentgraph.agents.agents import Case, SwitchAgent, is_same
from agentgraph.agents.signals import BreakLoop, Exit, Signal, Skip
from agentgraph.errors import AgentGraphError, InvalidOutputError, MissingValueError
from agentgraph.graph.history import unchanged
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.leaf import LeafNode
from agentgraph.graph.nodes.stopping import run_in_thread, stoppable
from agentgraph.safe_repr import shown
from agentgraph.tree.places import Place, needs_await

Way = Place | Skip | BreakLoop | Exit
"""Where a case leads."""


class SwitchNode(LeafNode):
    """Chooses one of the sub-agents of a switch, or none of them."""

    def __init__(self, node_context: NodeContext) -> None:
        super().__init__(node_context)
        self.agent = cast(SwitchAgent, node_context.place.agent)
        self._ways = {key: self._way(case) for key, case in self.agent.cases}
        rest = self.agent.otherwise
        self._otherwise = None if rest is None else self._way(rest)

    def run(self, activation: Activation) -> None:
        """Choose, and end there."""
        key = self._key(activation)
        if isinstance(key, Coroutine):
            key.close()
            raise AgentGraphError(f"{activation.address}: {needs_await(self.agent.choose)}")
        self._lead(activation, key)

    async def arun(self, activation: Activation) -> None:
        """Choose on the event loop; a sync function in a thread."""
        is_async = not callable(self.agent.choose) or functions.is_async(self.agent.choose)
        key = self._key(activation) if is_async else await run_in_thread(self._key, activation)
        if isinstance(key, Awaitable):
            with stoppable():
                key = await key
        self._lead(activation, key)

    def _key(self, activation: Activation) -> object:
        """Return the key that the value or the function gives; for a missing value that of no case."""
        choose, context = self.agent.choose, activation.view.context(unchanged)
        if callable(choose):
            return choose(context)
        key = context.values.get(choose, _NONE)
        if key is _NONE and self._otherwise is None:
            there = [each for each in context.values if each.isidentifier()]
            raise MissingValueError(self.agent.name, choose, there, activation.address, "choose")
        return key

    def _lead(self, activation: Activation, key: object) -> None:
        """Emit which case a key has, and go there."""
        way = self._chosen(activation, key)
        match way:
            case Place():
                activation.output.emit_note("chosen", way.name)
                activation.enter(way)
            case Skip():
                activation.output.emit_note("chosen", "skip")
            case BreakLoop() | Exit():
                signal: Signal = "exit" if way == Exit() else "break_loop"
                activation.output.emit_note("chosen", signal)
                activation.signal(signal, is_emitted=True)

    def _chosen(self, activation: Activation, key: object) -> Way:
        """Return where the case of a key leads.

        Raises:
            InvalidOutputError: There is no such case.
        """
        try:
            way = self._ways.get(key, self._otherwise)
        except TypeError:  # it cannot be a key
            way = self._otherwise
        if way is None:
            of_value = isinstance(self.agent.choose, str)
            gave = f"the value {shown(self.agent.choose)} is" if of_value else "choose returned"
            raise InvalidOutputError(
                f"{activation.address}: {gave} {shown(key)}, for which there is no case; there are: "
                f"{', '.join(map(shown, self._ways))}; add one, or otherwise="
            )
        return way

    def _way(self, case: Case) -> Way:
        """Return where a case leads."""
        if isinstance(case, Skip | BreakLoop | Exit):
            return case
        tree, place = self.node_context.tree, self.node_context.place
        inside = zip(tree.children[place], self.agent.sub_agents, strict=True)
        return next(child for child, agent in inside if is_same(agent, case))


_NONE = object()
"""The key of no case."""
