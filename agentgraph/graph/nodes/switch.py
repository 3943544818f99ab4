"""The node of a switch: chooses a case, emits what it has chosen, and leads there.

It does nothing else, so a failing `choose` is called again alone, and what was chosen is saved with the
step, as the position of the lane: a run that is killed later does not choose again.
"""

from typing import cast

from agentgraph.agents.agents import Case, SwitchAgent, is_same
from agentgraph.agents.signals import BreakLoop, Exit, Signal, Skip
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.history import unchanged
from agentgraph.graph.lane_position import details_of
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.asking import look_up
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.leaf import TalkNode
from agentgraph.safe_repr import shown
from agentgraph.tree.places import Place

Target = Place | Skip | BreakLoop | Exit
"""Where a case leads."""


class SwitchNode(TalkNode):
    """Chooses one of the sub-agents of a switch, or none of them."""

    def __init__(self, node_context: NodeContext) -> None:
        super().__init__(node_context)
        self.agent = cast(SwitchAgent, node_context.place.agent)
        self._targets = {key: self._target(case) for key, case in self.agent.cases}
        rest = self.agent.otherwise
        self._otherwise = None if rest is None else self._target(rest)

    async def talk(self, activation: Activation) -> None:
        """Choose, and end there."""
        context, has_rest = activation.view.context(unchanged), self._otherwise is not None
        key = await look_up("choose", self.agent.choose, context, may_be_missing=has_rest)
        self._lead(activation, key)

    def _lead(self, activation: Activation, key: object) -> None:
        target = self._chosen(activation, key)
        match target:
            case Place():
                activation.output.emit_note("chosen", target.name)
                activation.enter(target)
            case Skip():
                activation.output.emit_note("chosen", "skip")
            case BreakLoop() | Exit():
                signal: Signal = "exit" if isinstance(target, Exit) else "break_loop"
                activation.output.emit_note("chosen", signal)
                activation.signal(signal, details_of(target, activation.address), is_emitted=True)

    def _chosen(self, activation: Activation, key: object) -> Target:
        """Return where the case of a key leads.

        Raises:
            InvalidOutputError: There is no such case.
        """
        try:
            target = self._targets.get(key, self._otherwise)
        except TypeError:  # it cannot be a key
            target = self._otherwise
        if target is None:
            of_value = isinstance(self.agent.choose, str)
            chosen = f"the value {shown(self.agent.choose)} is" if of_value else "choose returned"
            raise InvalidOutputError(
                f"{activation.address}: {chosen} {shown(key)}, for which there is no case; available: "
                f"{', '.join(map(shown, self._targets))}; add one, or otherwise="
            )
        return target

    def _target(self, case: Case) -> Target:
        if isinstance(case, Skip | BreakLoop | Exit):
            return case
        tree, place = self.node_context.tree, self.node_context.place
        inside = zip(tree.children[place], self.agent.sub_agents, strict=True)
        return next(child for child, agent in inside if is_same(agent, case))
