"""The node of a graph agent: runs a LangGraph graph, and says the messages that are new in it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from langchain_core.messages import BaseMessage, ToolMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import run_in_executor
from langgraph.errors import ParentCommand
from langgraph.graph import START
from langgraph.graph.message import add_messages
from langgraph.pregel import Pregel
from langgraph.types import Command

from agentgraph.agents import GraphAgent
from agentgraph.errors import InvalidOutputError
from agentgraph.handoffs import handed_on, sole_target, transferred
from agentgraph.history import call_id, calls_of
from agentgraph.nodes.activation import Activation
from agentgraph.nodes.leaf import LeafNode
from agentgraph.nodes.site import Site
from agentgraph.nodes.stopping import stoppable
from agentgraph.nodes.tasks import named_task
from agentgraph.saving import arose_in_saving
from agentgraph.shown import reason
from agentgraph.state import GRAPH_AGENT, Position, TaskResult, stamped, with_id

_STEPS = 10_007
"""LangGraph's own limit of supersteps, for a graph that has none."""
_DURABILITY = "__pregel_durability"
"""Where a graph finds when to save; one without a saver fails in LangGraph where that is "sync"."""


class GraphNode(LeafNode):
    """Runs the graph; each new message is said by a task, so that none is told twice.

    A task keeps what it said over a resume or a crash, and on a resume the graph begins with the
    state that it had: the tasks of the messages in that find their results and tell nothing.
    """

    def __init__(self, site: Site) -> None:
        self.agent = cast(GraphAgent, site.place.agent)
        super().__init__(site, retry=site.place.policy("retry"), timeout=site.place.policy("timeout"))
        self.task = named_task(site.place.call_task, _said)
        self.atask = named_task(site.place.call_task, _asaid)

    def run(self, activation: Activation) -> None:
        """Run the graph step by step."""
        new, config = self._begun(activation), self._config(activation)
        with _refused_inside(activation):
            with new.handing_over():
                for state in self.agent.graph.stream(new.input, config, stream_mode="values"):
                    self._tell(activation, new, state)
            self._tell(activation, new, new.handed_over())
        self._keep(activation, new)

    def _tell(self, activation: Activation, new: "_New", state: Mapping[str, Any]) -> None:
        for number, message in new.since(state):
            activation.check("the message", message)
            self.task(activation.address, number, message).result()
            activation.asked_behind = number + 1

    async def arun(self, activation: Activation) -> None:
        """Run the graph step by step, on the event loop."""
        new = self._begun(activation)
        config = self._config(activation)
        stops = stoppable(is_thread=_is_sync(self.agent.graph))
        with _refused_inside(activation), stops:
            with new.handing_over():
                async for state in self.agent.graph.astream(new.input, config, stream_mode="values"):
                    await self._atell(activation, new, state)
            await self._atell(activation, new, new.handed_over())
        self._keep(activation, new)

    async def _atell(self, activation: Activation, new: "_New", state: Mapping[str, Any]) -> None:
        for number, message in new.since(state):
            activation.check("the message", message)
            await self.atask(activation.address, number, message)
            activation.asked_behind = number + 1

    def _begun(self, activation: Activation) -> "_New":
        activation.asked_behind = 0
        context = activation.context(self.agent.history)
        given = self.agent.input(context) if self.agent.input else {"messages": context.messages}
        return _New(activation, given)

    def _config(self, activation: Activation) -> RunnableConfig:
        own = getattr(self.agent.graph, "config", None) or {}
        around = activation.config.get("metadata", {})
        metadata = {GRAPH_AGENT: activation.address, **around, **activation.mark}
        limit = own.get("recursion_limit", _STEPS)
        config = {**activation.config, "metadata": metadata, "recursion_limit": limit}
        if getattr(self.agent.graph, "checkpointer", None) is False:
            config["configurable"] = {**config["configurable"], _DURABILITY: "exit"}
        return cast(RunnableConfig, config)

    def _keep(self, activation: Activation, new: "_New") -> None:
        activation.said_by_tasks = True
        activation.say_all(new.said, [])
        text = activation.last_text()
        if new.target is not None:
            inner = getattr(self.agent.graph, "channels", {})
            values = {key: value for key, value in new.handed.items() if key not in inner}
            activation.set_values(values)
            activation.transfer(new.target)
        elif self.agent.output_key and text is not None:
            activation.set_values({self.agent.output_key: text})


@contextmanager
def _refused_inside(activation: Activation) -> Iterator[None]:
    """Say which agent's graph has a state that LangGraph cannot save: its own error names nothing.

    That is not looked at before, for a graph may keep what is never saved.

    Raises:
        InvalidOutputError: Something in the state of the graph cannot be saved.
    """
    try:
        yield
    except Exception as error:
        if not arose_in_saving(error):
            raise
        raise InvalidOutputError(
            f"{activation.address}: the graph was given, or wrote, what cannot be saved "
            f"({reason(error)}); let its state be plain data: texts, numbers, lists, dicts. The step "
            "can be tried again"
        ) from error


def _is_sync(graph: Any) -> bool:
    """Return whether LangGraph runs all nodes of a graph in threads, which are waited for."""
    if not isinstance(graph, Pregel):
        return False
    nodes = [node.bound for name, node in graph.nodes.items() if name != START]
    return all(_is_sync(node) or _runs_in_executor(node) for node in nodes)


def _runs_in_executor(node: Any) -> bool:
    return getattr(getattr(node, "afunc", None), "func", None) is run_in_executor


class _New:
    """Tells the messages of a graph's states that its input did not have.

    Attributes:
        input: The input of the graph.
        said: The messages that are new.
        target: The agent that the graph hands over to, if it does.
        handed: What it writes with that, but messages.
    """

    def __init__(self, activation: Activation, given: dict[str, Any]) -> None:
        self._activation = activation
        self.target: str | None = None
        self.handed: dict[str, Any] = {}
        messages = convert_to_messages(given.get("messages", []))
        known = [with_id(message, f"{activation.address} {i}") for i, message in enumerate(messages)]
        self.input = {**given, "messages": known}
        self.said: list[BaseMessage] = []
        self._known = {message.id for message in known}
        self._seen: set[str | None] = set()
        self._last: list[BaseMessage] = known

    @contextmanager
    def handing_over(self) -> Iterator[None]:
        """Take a command to the graph around this one: to hand over, as LangGraph's handoff tools do.

        Raises:
            InvalidOutputError: It goes to several, or to an agent that there is not.
        """
        try:
            yield
        except ParentCommand as left:
            command = left.args[0]
            self.target = _known_handoff(self._activation, command)
            self.handed = handed_on(command, lambda: {"messages": self._last})

    def handed_over(self) -> Mapping[str, Any]:
        """Return the state that the graph is left with, with the message that says so."""
        if self.target is None:
            return {"messages": self._last}
        new = self.handed.pop("messages", []) or self._open_call()
        marked: Any = [transferred(each, self.target) for each in new]
        return {"messages": add_messages(cast(Any, self._last), marked)}

    def _open_call(self) -> list[BaseMessage]:
        """Return the result of the only call that is open: that of the handoff."""
        calls = calls_of(self._last[-1]) if self._last else ()
        if len(calls) != 1:
            return []
        text, call = f"Transferred to {self.target}.", calls[0]
        return [ToolMessage(text, name=call["name"], tool_call_id=call_id(call))]

    def since(self, state: Mapping[str, Any]) -> Iterator[tuple[int, BaseMessage]]:
        """Yield the messages that are new since the last state, numbered through."""
        everything = self._last = convert_to_messages(state.get("messages", []))
        self.said = [message for message in everything if message.id not in self._known]
        for message in self.said:
            if message.id not in self._seen:
                self._seen.add(message.id)
                yield len(self._seen) - 1, message


def _known_handoff(activation: Activation, command: Command[Any]) -> str:
    """Return the agent that a command to the graph around a graph hands over to.

    Raises:
        InvalidOutputError: It goes to several, or to an agent that there is not.
    """
    target, there = sole_target(command.goto), activation.site.targets
    if target in there:
        return str(target)
    names = ", ".join(map(repr, there)) or "none: only what stands in a chat agent's sub_agents may"
    raise InvalidOutputError(
        f"{activation.address}: a LangGraph graph in the agent {activation.name!r} ended by "
        f"Command(goto={command.goto!r}, graph=Command.PARENT), and nothing of the command was "
        f"written; it may hand over to one agent, by its name; possible: {names}"
    )


def _said(address: str, number: int, message: BaseMessage) -> TaskResult:
    position = Position(next=None, cursor=[], tree="", at=address)
    return TaskResult(
        messages=[stamped(message, address)], values=[], position=position, acts={}, number=number
    )


async def _asaid(address: str, number: int, message: BaseMessage) -> TaskResult:
    return _said(address, number, message)
