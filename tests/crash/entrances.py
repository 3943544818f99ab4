"""Trees in which one call gives a hostile value once: each entrance is a way into the thread."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from campaign import Watched, World, caller, chain, leaf, model
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from sites import BAD

import agentgraph as ag
from agentgraph.testing import call, calls

Events = Sequence[ag.AgentEvent]


class Giver:
    """Gives a hostile value when it is called first, and a plain one after that.

    Attributes:
        given: The hostile value, once it was given.
    """

    def __init__(self, value: Any) -> None:
        self.value, self.given = value, False

    def __call__(self) -> Any:
        if self.given:
            return "plain"
        self.given = True
        return self.value


class Entrance(NamedTuple):
    """A tree in which a value enters once.

    Attributes:
        build: Makes the tree.
        back: Returns what came back of the value; None where nothing does.
        raises: Whether what a value's own code raises, here its `repr` in LangChain's tool, comes out
            as it is: it is an exception of the tool's, and marked with the agent.
        live_as_given: Whether a live event holds the value as it is, which the saver keeps as
            plain data: the arguments of a call, where the model returned an object of a class.
    """

    build: Callable[[Giver, World], ag.Agent]
    back: Callable[[Watched, Events], Any] | None = None
    raises: bool = False
    live_as_given: bool = False


def gives(wrap: Callable[[Any], Any]) -> Callable[[Giver, World], ag.Agent]:
    """Return a tree with a function that gives something made of the value."""
    return lambda give, world: chain(world, _giving(give, wrap))


def _giving(give: Giver, wrap: Callable[[Any], Any]) -> ag.Agent:
    return ag.function_agent(BAD, lambda ctx: wrap(give()))


def in_a_branch(give: Giver, world: World) -> ag.Agent:
    bad = _giving(give, lambda value: ag.SetValues(v=value))
    return chain(world, ag.parallel("fork", [bad, leaf("beside", world)]))


def yielded(give: Giver, world: World) -> ag.Agent:
    def fn(ctx: ag.Context) -> Iterator[str | ag.SetValues]:
        yield "It begins."
        yield ag.SetValues(v=give())
        yield world.add(BAD)

    return chain(world, ag.function_agent(BAD, fn))


def asks(ask: Callable[[Any], Any]) -> Callable[[Giver, World], ag.Agent]:
    def build(give: Giver, world: World) -> ag.Agent:
        def fn(ctx: ag.Context) -> Any:
            return "answered" if ctx.answered else ask(give())

        return chain(world, ag.function_agent(BAD, fn))

    return build


def tool(wrap: Callable[[Any], Any], on_error: str = "return") -> Callable[[Giver, World], ag.Agent]:
    """Return a chat agent whose tool gives something made of the value, until it has worked."""

    def build(give: Giver, world: World) -> ag.Agent:
        def work() -> Any:
            """Work."""
            return wrap(give())

        def other() -> str:
            """Do something else."""
            return world.add("other")

        options = {"name": BAD, "on_tool_error": on_error}
        return chain(world, caller([work, other], "work", "other", **options))

    return build


def argument(give: Giver, world: World) -> ag.Agent:
    """Return a chat agent whose model calls a tool with the value."""

    def work(v: Any) -> str:
        """Work."""
        return "worked"

    def response(sent: Any) -> Any:
        return "Done." if isinstance(sent[-1], ToolMessage) else calls(call("work", v=give()))

    return chain(world, ag.chat_agent(BAD, model(response), tools=[work]))


def runs(how: str) -> Callable[[Giver, World], ag.Agent]:
    """Return a function that runs an agent with the value as request or key, or is given it by one."""

    def build(give: Giver, world: World) -> ag.Agent:
        def fn(ctx: ag.Context) -> Any:
            if how == "request":
                return str(ctx.run("inner", give()))
            if how == "key":
                return str(ctx.run("inner", "Go.", key=give()))
            return ag.SetValues(w=ctx.run("inner", "Go.").values.get("v"))

        def inner(ctx: ag.Context) -> Any:
            return ag.SetValues(v=give()) if how == "reply" else "inner"

        agents = [ag.function_agent("inner", inner)]
        return chain(world, ag.function_agent(BAD, fn, agents=agents))

    return build


def reply(give: Giver, world: World) -> ag.Agent:
    def response(sent: Any) -> Any:
        return AIMessage("said", response_metadata={"v": give()})

    return chain(world, ag.chat_agent(BAD, model(response)))


class _State(MessagesState):
    v: Any


def foreign(where: str, *, flat: bool = False) -> Callable[[Giver, World], ag.Agent]:
    """Return a graph of somebody else's that is given the value, or says or keeps it."""

    def build(give: Giver, world: World) -> ag.Agent:
        def one(state: Any) -> Any:
            if where == "state":
                return {"v": give(), "messages": [AIMessage("one")]}
            kwargs = {"v": give()} if where == "message" else {}
            return {"messages": [AIMessage("one", additional_kwargs=kwargs)]}

        def given(ctx: ag.Context) -> dict[str, Any]:
            return {"messages": ctx.messages, "v": give()}

        builder = StateGraph(_State).add_node("one", one).add_node("two", lambda state: {})
        graph = builder.add_edge(START, "one").add_edge("one", "two").compile()
        made = ag.graph_agent(BAD, graph, input=given if where == "input" else None, flat=flat)
        return chain(world, made)

    return build


def value(driven: Watched, events: Events) -> Any:
    return driven.state()["values"]["v"]


def custom(driven: Watched, events: Events) -> Any:
    return next(e.output.custom for e in events if e.kind == "custom" and e.output)


def question(driven: Watched, events: Events) -> Any:
    return next(e.action.interrupted.value for e in events if e.action and e.action.interrupted)


def said(read: Callable[[Any], Any]) -> Callable[[Watched, Events], Any]:
    """Return what the message holds that the agent said first."""
    return lambda driven, events: read(
        next(event.message for event in events if BAD in event.run_path.names and event.message)
    )


def set_values(value: Any) -> ag.SetValues:
    return ag.SetValues(v=value)


def kwargs_of(message: Any) -> Any:
    return message.additional_kwargs["v"]


def metadata_of(message: Any) -> Any:
    return message.response_metadata["v"]


ENTRANCES: dict[str, Entrance] = {
    "SetValues": Entrance(gives(set_values), value),
    "SetValues yielded": Entrance(yielded, value),
    "SetValues in a branch": Entrance(in_a_branch, value),
    "SetValues of a tool": Entrance(tool(set_values), value),
    "SetValues of a tool, raised": Entrance(tool(set_values, "raise"), value),
    "Command of a tool": Entrance(tool(lambda v: Command(update={"values": {"v": v}})), value),
    "Custom": Entrance(gives(ag.Custom), custom),
    "Custom of a tool": Entrance(tool(ag.Custom), custom),
    "Ask": Entrance(asks(ag.Ask), question),
    "interrupt()": Entrance(asks(lambda value: str(interrupt(value))), question),
    "returned": Entrance(gives(lambda value: value)),
    "content": Entrance(
        gives(lambda value: AIMessage([{"type": "text", "text": "said", "v": value}])),
        said(lambda message: message.content[0]["v"]),
    ),
    "additional_kwargs": Entrance(
        gives(lambda value: AIMessage("said", additional_kwargs={"v": value})), said(kwargs_of)
    ),
    "response_metadata": Entrance(
        gives(lambda value: AIMessage("said", response_metadata={"v": value})), said(metadata_of)
    ),
    "request of a call": Entrance(runs("request")),
    "key of a call": Entrance(runs("key")),
    "values of a call": Entrance(runs("reply"), value),
    "reply of a model": Entrance(reply, said(metadata_of)),
    "argument of a call": Entrance(
        argument, said(lambda message: message.tool_calls[0]["args"]["v"]), live_as_given=True
    ),
    "result of a tool": Entrance(tool(lambda value: value)),
    "result of a tool, raised": Entrance(tool(lambda value: value, "raise"), raises=True),
    "input of a graph": Entrance(foreign("input")),
    "state of a graph": Entrance(foreign("state")),
    "message of a graph": Entrance(foreign("message"), said(kwargs_of)),
    "input of a flattened graph": Entrance(foreign("input", flat=True)),
    "state of a flattened graph": Entrance(foreign("state", flat=True)),
    "message of a flattened graph": Entrance(foreign("message", flat=True), said(kwargs_of)),
}
