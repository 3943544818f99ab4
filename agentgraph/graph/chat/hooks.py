"""The node of one hook of a chat agent's middleware: `before_model`, `after_agent`, ..."""

from langchain_core.messages import AIMessage
from langgraph.errors import GraphInterrupt
from langgraph.graph import END

from agentgraph.agents.middleware import ASKS
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.chat.agent import BuiltAgent
from agentgraph.graph.chat.approve import is_chosen
from agentgraph.graph.chat.calls import results_behind
from agentgraph.graph.chat.decisions import answer_schema
from agentgraph.graph.chat.step import Step
from agentgraph.graph.chat.talking import Call, Talk, arun_talk, run_talk
from agentgraph.graph.history import call_id, calls_of
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.leaf import LeafNode
from agentgraph.graph.state import Leaving


class HookNode(LeafNode):
    """Runs a hook of LangChain's, and goes where LangChain's own branch leads."""

    def __init__(self, built: BuiltAgent, hook: str) -> None:
        super().__init__(built.site)
        self.built, self.hook = built, hook
        self.name = built.site.place.hook_node(hook)
        self.runnable = built.flat.hooks[hook]
        self.policies["trace_policy"] = built.flat.trace_policies[hook]

    def run(self, activation: Activation) -> None:
        """Run the hook."""
        self.built.check_mode(activation, "sync")
        try:
            run_talk(self._talk(activation))
        except GraphInterrupt as paused:
            raise self._answerable(paused) from None

    async def arun(self, activation: Activation) -> None:
        """Run the hook on the event loop."""
        self.built.check_mode(activation, "async")
        try:
            await arun_talk(self._talk(activation))
        except GraphInterrupt as paused:
            raise self._answerable(paused) from None

    def _answerable(self, paused: GraphInterrupt) -> GraphInterrupt:
        """Write on questions of LangChain's human in the loop what their answers must fit."""
        for asked in paused.args[0]:
            if asked.response_schema is None:
                asked.response_schema = answer_schema(asked.value, self.built.tools)
        return paused

    def _talk(self, activation: Activation) -> Talk[None]:
        step = self.built.step(activation)
        step.merge((yield Call(self.runnable, step.state, step.config())))
        step.say()
        self._go_on(activation, step, self._next(activation, step))

    def _next(self, activation: Activation, step: Step) -> str:
        try:
            return self.built.flat.route(self.hook, lambda: step.state, activation.config)
        except KeyError as error:
            raise InvalidOutputError(
                f"{activation.address}: the hook {self.hook!r} gave jump_to={step.jump_to!r}; name it "
                "in the hook's can_jump_to, and jump to tools where there are some"
            ) from error

    def _go_on(self, activation: Activation, step: Step, to: str) -> None:
        place = self.site.place
        if self.hook == ASKS and is_chosen(step.own):
            self.built.go_on(activation, place.approve_node, step)
            return
        reply = next((m for m in reversed(step.messages) if isinstance(m, AIMessage)), None)
        is_exit = to == END or place.hook_node(to) == place.after_agent_node
        if is_exit or (to == "tools" and reply is not None):
            self._answer_or_leave(activation, step, to, reply)
        else:
            node = place.node if to == "model" else place.hook_node(to)
            self._go_to(activation, step, node, reply)

    def _answer_or_leave(
        self, activation: Activation, step: Step, to: str, reply: AIMessage | None
    ) -> None:
        """Run the calls of the last reply that have no result yet, or end the activation."""
        asked = {call_id(each) for each in calls_of(reply)} if reply else set()
        is_open = reply is not None and not asked <= results_behind(reply, step.messages)
        retries = step.jump_to is None and self.hook.endswith(".after_model") and is_open
        if reply is not None and (to == "tools" or (retries and self.built.runs_tools)):
            self.built.go_on(activation, self.site.place.tools_node, step)
        elif self.hook.endswith(".after_agent"):
            how = activation.progress.get("ending", Leaving(keeps=True))
            leave = self.built.end if to == END else self.built.leave
            leave(activation, how, step)
        else:
            self.built.leave(activation, Leaving(keeps=not is_open), step)

    def _go_to(self, activation: Activation, step: Step, node: str, reply: AIMessage | None) -> None:
        """Go to another node; where a new round begins, the calls of the last one are counted."""
        count = activation.progress.get("tool_calls", 0)
        if node == self.site.place.round_node and self.hook.endswith(".after_model") and reply:
            count += len(calls_of(reply))
        self.built.go_on(activation, node, step, tool_calls=count)
