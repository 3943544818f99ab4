"""Trees to be left at every event; some of their functions wait at a gate, to be in the middle."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple, NotRequired

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from leaving import World

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls


class Tree(NamedTuple):
    """A tree that is left.

    Attributes:
        build: Makes it, with the world that its functions change.
        held_at: After how many events nothing more comes before the gate is open; 0 without a gate.
        waiting: How many of its functions wait at the gate then.
        again: The coroutines of the tree: what is cancelled may run again.
        asks: Whether it asks a person, once.
    """

    build: Callable[[World], ag.Agent]
    held_at: int = 0
    waiting: int = 0
    again: tuple[str, ...] = ()
    asks: bool = False


def plain(world: World, name: str, *, gated: bool = False) -> ag.Agent:
    def fn(ctx: ag.Context) -> str:
        with world.doing(name):
            if gated:
                world.wait()
        return f"{name} is done"

    return ag.function_agent(name, fn)


def coroutine(world: World, name: str, *, gated: bool = False) -> ag.Agent:
    async def fn(ctx: ag.Context) -> str:
        with world.doing(name):
            if gated:
                await world.await_gate()
        return f"{name} is done"

    return ag.function_agent(name, fn)


def generator(world: World, name: str) -> ag.Agent:
    def fn(ctx: ag.Context) -> Iterator[str | ag.Custom]:
        with world.doing(name):
            yield f"{name} begins"
            world.wait()
            yield ag.Custom({"by": name})
            yield f"{name} goes on"
        yield f"{name} is done"

    return ag.function_agent(name, fn)


def stream(world: World, name: str) -> ag.Agent:
    async def fn(ctx: ag.Context) -> AsyncIterator[str]:
        with world.doing(name):
            yield f"{name} begins"
            await world.await_gate()
            yield f"{name} goes on"
        yield f"{name} is done"

    return ag.function_agent(name, fn)


def chain(world: World, *agents: ag.Agent) -> ag.Agent:
    return ag.sequential("s", [plain(world, "first"), *agents, plain(world, "last")])


def sequence(world: World) -> ag.Agent:
    return chain(world, coroutine(world, "b"), plain(world, "c"))


def loop(world: World) -> ag.Agent:
    return chain(world, ag.loop("l", [plain(world, "a"), coroutine(world, "b")], max_iterations=3))


def generators(world: World) -> ag.Agent:
    return chain(world, generator(world, "g"), stream(world, "h"))


def functions(world: World) -> ag.Agent:
    branches = [plain(world, "a"), plain(world, "b", gated=True), plain(world, "c", gated=True)]
    return chain(world, ag.parallel("fork", branches))


def coroutines(world: World) -> ag.Agent:
    return chain(world, ag.parallel("fork", [coroutine(world, "a"), coroutine(world, "b", gated=True)]))


def mixed(world: World) -> ag.Agent:
    steps = ag.sequential("x", [plain(world, "x1"), plain(world, "x2", gated=True), plain(world, "x3")])
    return chain(world, ag.parallel("fork", [steps, coroutine(world, "b", gated=True)]))


def nested(world: World) -> ag.Agent:
    inner = ag.parallel("fork_inner", [plain(world, "a", gated=True), plain(world, "b")])
    return chain(world, ag.parallel("fork", [inner, plain(world, "c")]))


def workflow(world: World) -> ag.Agent:
    steps = [
        plain(world, "find"),
        ag.step(plain(world, "b", gated=True), depends_on=["find"]),
        ag.step(plain(world, "c"), depends_on=["find"]),
        ag.step(plain(world, "write"), depends_on=["b", "c"]),
    ]
    return chain(world, ag.workflow("fork", steps))


def tools(world: World) -> ag.Agent:
    def slow() -> str:
        """Wait."""
        with world.doing("slow"):
            world.wait()
        return "slow"

    def quick() -> str:
        """Be quick."""
        with world.doing("quick"):
            return "quick"

    async def aslow() -> str:
        """Wait on the event loop."""
        with world.doing("aslow"):
            await world.await_gate()
        return "aslow"

    model = _model(calls(call("slow"), call("aslow"), call("quick")), calls(call("quick", "4")))
    return chain(world, ag.chat_agent("writer", model, tools=[slow, quick, aslow]))


def stack(world: World, waits: str = "slow") -> ag.Agent:
    """Return an agent with a hook and a wrap at each place; a tool waits inside its wrap, or a hook."""

    def slow() -> str:
        """Wait."""
        with world.doing("slow"):
            if waits == "slow":
                world.wait()
        return "slow"

    def quick() -> str:
        """Be quick."""
        with world.doing("quick"):
            return "quick"

    def wrap(self: Any, request: Any, handler: Callable[[Any], Any]) -> Any:
        return handler(request)

    async def awrap(self: Any, request: Any, handler: Callable[[Any], Any]) -> Any:
        return await handler(request)

    wraps = {
        f"{letter}{place}": method
        for place in ("wrap_model_call", "wrap_tool_call")
        for letter, method in (("", wrap), ("a", awrap))
    }
    model = _model(calls(call("slow"), call("quick", "2")), calls(call("quick", "4")))
    hooks = ("before_agent", "before_model", "after_model", "after_agent")
    middleware = [_hook(world, place, gated=place == waits) for place in hooks]
    middleware.append(type("Around", (AgentMiddleware,), wraps)())
    writer = ag.chat_agent("writer", model, tools=[slow, quick], middleware=middleware)
    return chain(world, ag.parallel("fork", [writer, plain(world, "beside")]))


def hook(world: World) -> ag.Agent:
    return stack(world, "after_model")


class _Rounds(AgentState[Any]):
    rounds: NotRequired[int]


def _hook(world: World, place: str, *, gated: bool) -> AgentMiddleware[Any, Any, Any]:
    """Return middleware with one hook: it counts, reminds, replaces the last word or says one.

    One that waits at the gate is a coroutine in async runs: there LangChain calls a function on the
    event loop, which would stand still.
    """

    def made(state: Any) -> tuple[str, dict[str, Any]]:
        rounds, last = state.get("rounds", 0) + 1, state["messages"][-1]
        name = f"{place} {rounds}"
        messages: dict[str, list[BaseMessage]] = {
            "before_model": [HumanMessage(name)],
            "after_model": [last.model_copy(update={"content": f"{last.text}!"})],
            "after_agent": [AIMessage(name)],
        }
        return name, {"rounds": rounds, "messages": messages.get(place, [])}

    def hook(self: Any, state: Any, runtime: Any) -> Any:
        name, update = made(state)
        with world.doing(name):
            if gated:
                world.wait()
        return update

    async def ahook(self: Any, state: Any, runtime: Any) -> Any:
        name, update = made(state)
        with world.doing(name):
            await world.await_gate()
        return update

    methods = {"state_schema": _Rounds, place: hook, **({f"a{place}": ahook} if gated else {})}
    return type(f"At_{place}", (AgentMiddleware,), methods)()  # type: ignore[no-any-return]


def agent_tool(world: World) -> ag.Agent:
    inner = ag.sequential("inner", [plain(world, "i1"), plain(world, "i2", gated=True)])
    model = _model(calls(call("inner", request="Look.")))
    return chain(world, ag.chat_agent("writer", model, tools=[ag.agent_tool(inner)]))


def human(world: World) -> ag.Agent:
    asks = ag.sequential("x", [plain(world, "x1"), ag.human("boss", "Go on?"), plain(world, "x2")])
    return chain(world, ag.parallel("fork", [asks, plain(world, "b", gated=True)]))


def until(world: World) -> ag.Agent:
    def enough(ctx: ag.Context) -> bool:
        with world.doing(f"until {ctx.iteration}"):
            return ctx.iteration == 1

    looped = ag.loop("l", [plain(world, "a")], max_iterations=5, until=enough)
    return chain(world, looped)


def foreign(world: World) -> ag.Agent:
    def node(name: str, gated: bool = False) -> Any:
        def run(state: Any) -> Any:
            with world.doing(name):
                if gated:
                    world.wait()
            return {"messages": [AIMessage(f"{name} is done")]}

        return run

    builder = StateGraph(MessagesState).add_node("one", node("one")).add_node("two", node("two", True))
    graph = builder.add_edge(START, "one").add_edge("one", "two").compile()
    return chain(world, ag.graph_agent("made", graph))


def _model(*rounds: AIMessage) -> ScriptedChatModel:
    """Return a model that goes through rounds of calls by what it has said before, and then ends."""

    def response(sent: list[BaseMessage]) -> AIMessage | str:
        said = sum(isinstance(message, AIMessage) for message in sent)
        return rounds[said] if said < len(rounds) else "All is done."

    return ScriptedChatModel(responses=response)


TREES = {
    "sequence": Tree(sequence, again=("b",)),
    "loop": Tree(loop, again=("b",)),
    "generators": Tree(generators, 2, 1, again=("h",)),
    "functions": Tree(functions, 2, 2),
    "coroutines": Tree(coroutines, 2, 1, again=("a", "b")),
    "mixed": Tree(mixed, 2, 2, again=("b",)),
    "nested": Tree(nested, 3, 1),
    "workflow": Tree(workflow, 3, 1),
    "tools": Tree(tools, 3, 2, again=("aslow",)),
    "stack": Tree(stack, 6, 1),
    "hook": Tree(hook, 3, 1, again=("after_model 3", "after_model 5", "after_model 7")),
    "agent tool": Tree(agent_tool, 3, 1),
    "human": Tree(human, 2, 1, asks=True),
    "until": Tree(until),
    "foreign": Tree(foreign, 2, 1),
}
