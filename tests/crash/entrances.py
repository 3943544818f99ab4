"""Trees in which one call gives a hostile value once: each entrance is a way into the thread."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from campaign import Heard, Ledger, Way
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from sites import BAD, chain

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

Back = Callable[[Way, ag.Agent, Sequence[ag.AgentEvent]], Any]
"""Returns what came back of a value."""


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
        named: What an error names: agents, keys.
        tells_first: Whether something is told before the value is given. A resume says it again, and
            nothing voids what was told of it before the failure: a fault that is left.
        raises: Whether what a value's own code raises, here its `repr` in LangChain's tool, comes out
            as it is: it is an exception of the tool's, and marked with the agent.
        live_as_given: Whether what is told live holds the value as it is, which the saver keeps as
            plain data: the arguments of a call, where the model gave an object of a class.
    """

    build: Callable[[Giver, Ledger], ag.Agent]
    back: Back | None = None
    named: tuple[str, ...] = (BAD, "'v'")
    tells_first: bool = False
    raises: bool = False
    live_as_given: bool = False


def gives(wrap: Callable[[Any], Any]) -> Callable[[Giver, Ledger], ag.Agent]:
    """Return a tree with a function that gives something made of the value."""

    def build(give: Giver, ledger: Ledger) -> ag.Agent:
        return chain(ledger, _giving(give, ledger, wrap))

    return build


def in_a_branch(give: Giver, ledger: Ledger) -> ag.Agent:
    beside = ag.function_agent("beside", lambda ctx: ledger.add("beside"))
    bad = _giving(give, ledger, lambda value: ag.SetValues(v=value))
    return chain(ledger, ag.parallel("fork", [bad, beside]))


def yielded(give: Giver, ledger: Ledger) -> ag.Agent:
    def fn(ctx: ag.Context) -> Iterator[str | ag.SetValues]:
        yield "It begins."
        value = give()
        yield ag.SetValues(v=value)
        ledger.add(BAD)
        yield "It goes on."

    return chain(ledger, ag.function_agent(BAD, fn))


def asks(ask: Callable[[ag.Context, Any], Any]) -> Callable[[Giver, Ledger], ag.Agent]:
    def build(give: Giver, ledger: Ledger) -> ag.Agent:
        def fn(ctx: ag.Context) -> Any:
            return "answered" if ctx.answered else ask(ctx, give())

        return chain(ledger, ag.function_agent(BAD, fn))

    return build


def _interrupts(ctx: ag.Context, value: Any) -> Any:
    return str(interrupt(value))


def tool(wrap: Callable[[Any], Any], on_error: str = "return") -> Callable[[Giver, Ledger], ag.Agent]:
    """Return a chat agent whose tool gives something made of the value, until it has worked."""

    def build(give: Giver, ledger: Ledger) -> ag.Agent:
        def work() -> Any:
            """Work."""
            return wrap(give())

        def other() -> str:
            """Do something else."""
            ledger.add("other")
            return "other"

        def response(sent: Any) -> Any:
            worked = {m.name for m in sent if isinstance(m, ToolMessage) and m.status == "success"}
            left = [name for name in ("work", "other") if name not in worked]
            return calls(*(call(name, f"{name}{len(sent)}") for name in left)) if left else "Done."

        model = ScriptedChatModel(responses=response)
        bad = ag.chat_agent(BAD, model, tools=[work, other], on_tool_error=on_error)
        return chain(ledger, bad)

    return build


def argument(give: Giver, ledger: Ledger) -> ag.Agent:
    """Return a chat agent whose model calls a tool with the value."""

    def work(v: Any) -> str:
        """Work."""
        return "worked"

    def response(sent: Any) -> Any:
        return "Done." if isinstance(sent[-1], ToolMessage) else calls(call("work", v=give()))

    model = ScriptedChatModel(responses=response)
    return chain(ledger, ag.chat_agent(BAD, model, tools=[work]))


def reply(give: Giver, ledger: Ledger) -> ag.Agent:
    def response(sent: Any) -> Any:
        return AIMessage("said", response_metadata={"v": give()})

    return chain(ledger, ag.chat_agent(BAD, ScriptedChatModel(responses=response)))


class _State(MessagesState):
    v: Any


def foreign(where: str) -> Callable[[Giver, Ledger], ag.Agent]:
    """Return a graph of somebody else's that is given the value, or says or keeps it."""

    def build(give: Giver, ledger: Ledger) -> ag.Agent:
        def one(state: Any) -> Any:
            if where == "state":
                return {"v": give(), "messages": [AIMessage("one")]}
            kwargs = {"v": give()} if where == "message" else {}
            return {"messages": [AIMessage("one", additional_kwargs=kwargs)]}

        def given(ctx: ag.Context) -> dict[str, Any]:
            return {"messages": ctx.messages, "v": give()}

        builder = StateGraph(_State).add_node("one", one).add_node("two", lambda state: {})
        graph = builder.add_edge(START, "one").add_edge("one", "two").compile()
        return chain(ledger, ag.graph_agent(BAD, graph, input=given if where == "input" else None))

    return build


def _giving(give: Giver, ledger: Ledger, wrap: Callable[[Any], Any]) -> ag.Agent:
    return ag.function_agent(BAD, lambda ctx: wrap(give()))


def value_of(driven: Way, tree: ag.Agent, told: Sequence[ag.AgentEvent]) -> Any:
    return driven.values(tree)["v"]


def custom_of(driven: Way, tree: ag.Agent, told: Sequence[ag.AgentEvent]) -> Any:
    return next(e.output.custom for e in told if e.kind == "custom" and e.output)


def question_of(driven: Way, tree: ag.Agent, told: Sequence[ag.AgentEvent]) -> Any:
    actions = (event.action for event in told if event.kind == "interrupted")
    return next(action.interrupted.value for action in actions if action and action.interrupted)


def said(read: Callable[[Any], Any]) -> Back:
    """Return what the message holds that the agent said first."""

    def back(driven: Way, tree: ag.Agent, told: Sequence[ag.AgentEvent]) -> Any:
        return read(next(e.message for e in told if e.agent_name == BAD and e.message))

    return back


def command(value: Any) -> Any:
    result = ToolMessage("done", name="work", tool_call_id="work1")
    return Command(update={"values": {"v": value}, "messages": [result]})


_BLOCK = {"type": "text", "text": "said"}

ENTRANCES: dict[str, Entrance] = {
    "SetValues": Entrance(gives(lambda value: ag.SetValues(v=value)), value_of),
    "SetValues yielded": Entrance(yielded, value_of, tells_first=True),
    "SetValues in a branch": Entrance(in_a_branch, value_of),
    "SetValues of a tool": Entrance(tool(lambda value: ag.SetValues(v=value)), value_of),
    "SetValues of a tool, raised": Entrance(tool(lambda v: ag.SetValues(v=v), "raise"), value_of),
    "Command of a tool": Entrance(
        tool(lambda value: Command(update={"values": {"v": value}})), value_of
    ),
    "Custom": Entrance(gives(ag.Custom), custom_of),
    "Custom of a tool": Entrance(tool(ag.Custom), custom_of),
    "Ask": Entrance(asks(lambda ctx, value: ag.Ask(value)), question_of),
    "interrupt()": Entrance(asks(_interrupts), question_of),
    "returned": Entrance(gives(lambda value: value)),
    "content": Entrance(
        gives(lambda value: AIMessage([{**_BLOCK, "v": value}])), said(lambda m: m.content[0]["v"])
    ),
    "additional_kwargs": Entrance(
        gives(lambda value: AIMessage("said", additional_kwargs={"v": value})),
        said(lambda m: m.additional_kwargs["v"]),
    ),
    "response_metadata": Entrance(
        gives(lambda value: AIMessage("said", response_metadata={"v": value})),
        said(lambda m: m.response_metadata["v"]),
    ),
    "reply of a model": Entrance(reply, said(lambda m: m.response_metadata["v"])),
    "argument of a call": Entrance(
        argument, said(lambda m: m.tool_calls[0]["args"]["v"]), live_as_given=True
    ),
    "result of a tool": Entrance(tool(lambda value: value)),
    "result of a tool, raised": Entrance(tool(lambda value: value, "raise"), raises=True),
    "input of a graph": Entrance(foreign("input")),
    "state of a graph": Entrance(foreign("state")),
    "message of a graph": Entrance(foreign("message"), said(lambda m: m.additional_kwargs["v"])),
}


def comes_in(heard: Heard) -> bool:
    return any(event.kind == "interrupted" for event in heard.events)
