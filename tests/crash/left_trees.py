"""Trees to be left at every event; some of their functions wait at a gate, to be in the middle."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from campaign import World, chain, for_item, leaf, model
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from sites import Rounds, named

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


def slow(name: str, world: World) -> ag.Agent:
    return leaf(name, world, world.wait)


def waits(name: str, world: World, shape: str = "coroutine") -> ag.Agent:
    return leaf(name, world, world.await_gate, shape)


def loop(world: World) -> ag.Agent:
    inside = [leaf("a", world), leaf("b", world, shape="coroutine")]
    return chain(world, ag.loop("l", inside, max_iterations=3))


def generators(world: World) -> ag.Agent:
    return chain(world, leaf("g", world, world.wait, "generator"), waits("h", world, "stream"))


def coroutines(world: World) -> ag.Agent:
    return chain(world, ag.parallel("fork", [leaf("a", world, shape="coroutine"), waits("b", world)]))


def mixed(world: World) -> ag.Agent:
    steps = ag.sequential("x", [leaf("x1", world), slow("x2", world), leaf("x3", world)])
    return chain(world, ag.parallel("fork", [steps, waits("b", world)]))


def each(world: World) -> ag.Agent:
    """Return an each of three items, two of which wait at once; how they are found is counted."""

    def over(ctx: ag.Context) -> list[str]:
        world.add("items")
        return ["a", "b", "c"]

    work = ag.sequential("x", [for_item("x1", world), for_item("x2", world, world.wait)])
    return chain(world, ag.each("files", work, over, max_concurrency=2, output_key="out"))


def runs(world: World) -> ag.Agent:
    """Return a function that runs agents one after the other; the second one waits."""

    def fn(ctx: ag.Context) -> Iterator[str]:
        yield ctx.run("x", "One.")
        yield ctx.run("slow", "Two.", key="k")

    agents = [leaf("x", world), slow("slow", world)]
    return chain(world, ag.function_agent("flow", fn, agents=agents), leaf("after", world))


def gathered(world: World) -> ag.Agent:
    """Return a function that runs agents at the same time; one waits, one waits on the event loop."""

    async def fn(ctx: ag.Context) -> str:
        calls = (ctx.run(name, "Go.") for name in ("x", "slow", "waits"))
        return ", ".join(await asyncio.gather(*calls))

    agents = [leaf("x", world), slow("slow", world), waits("waits", world)]
    return chain(world, ag.function_agent("flow", fn, agents=agents))


def nested(world: World) -> ag.Agent:
    inner = ag.parallel("fork_inner", [slow("a", world), leaf("b", world)])
    return chain(world, ag.parallel("fork", [inner, leaf("c", world)]))


def workflow(world: World) -> ag.Agent:
    steps = [
        leaf("find", world),
        ag.step(slow("b", world), depends_on=["find"]),
        ag.step(leaf("c", world), depends_on=["find"]),
        ag.step(leaf("write", world), depends_on=["b", "c"]),
    ]
    return chain(world, ag.workflow("fork", steps))


def switch(world: World) -> ag.Agent:
    def choose(ctx: ag.Context) -> int | None:
        world.add(f"choice {ctx.iteration}")
        return ctx.iteration

    path = ag.switch("path", choose, {0: leaf("a", world), 1: ag.SKIP}, otherwise=ag.BreakLoop())
    return chain(world, ag.loop("l", [path], max_iterations=None))


def until(world: World) -> ag.Agent:
    def enough(ctx: ag.Context) -> bool:
        world.add(f"until {ctx.iteration}")
        return ctx.iteration == 1

    return chain(world, ag.loop("l", [leaf("a", world)], max_iterations=5, until=enough))


def agent_tool(world: World) -> ag.Agent:
    inner = ag.sequential("inner", [leaf("i1", world), slow("i2", world)])
    asks = by_rounds(calls(call("inner", request="Look.")))
    return chain(world, ag.chat_agent("writer", asks, tools=[ag.agent_tool(inner)]))


def human(world: World) -> ag.Agent:
    asks = ag.sequential("x", [leaf("x1", world), ag.human("boss", "Go on?"), leaf("x2", world)])
    return chain(world, ag.parallel("fork", [asks, slow("b", world)]))


def foreign(world: World) -> ag.Agent:
    return chain(world, ag.graph_agent("made", foreign_graph(world)))


def flattened(world: World) -> ag.Agent:
    made = ag.graph_agent("made", foreign_graph(world), flat=True)
    return chain(world, ag.parallel("fork", [made, slow("b", world)]))


def foreign_graph(world: World) -> Any:
    def one(state: Any) -> Any:
        return {"messages": [AIMessage(world.add("one"))]}

    def two(state: Any) -> Any:
        with world.doing("two"):
            world.wait()
        return {"messages": [AIMessage("two is done")]}

    builder = StateGraph(MessagesState).add_node("one", one).add_node("two", two)
    return builder.add_edge(START, "one").add_edge("one", "two").compile()


def by_rounds(*rounds: AIMessage) -> ScriptedChatModel:
    """Return a model that goes through rounds of calls by what it has said before, and then ends."""

    def response(sent: list[Any]) -> AIMessage | str:
        said = sum(isinstance(message, AIMessage) for message in sent)
        return rounds[said] if said < len(rounds) else "All is done."

    return model(response)


def tools_of(world: World, wait: bool = True) -> list[Any]:
    def slow() -> str:
        """Wait."""
        with world.doing("slow"):
            if wait:
                world.wait()
        return "slow"

    def quick() -> str:
        """Be quick."""
        return world.add("quick")

    async def aslow() -> str:
        """Wait on the event loop."""
        with world.doing("aslow"):
            await world.await_gate()
        return "aslow"

    return [slow, quick, aslow]


def tools(world: World) -> ag.Agent:
    asks = by_rounds(calls(call("slow"), call("aslow"), call("quick")), calls(call("quick", "4")))
    return chain(world, ag.chat_agent("writer", asks, tools=tools_of(world)))


def stack(world: World, waits: str = "slow") -> ag.Agent:
    """Return an agent with a hook and a wrap at each place; a tool waits inside its wrap, or a hook."""

    def wrap(self: Any, request: Any, handler: Callable[[Any], Any]) -> Any:
        return handler(request)

    async def awrap(self: Any, request: Any, handler: Callable[[Any], Any]) -> Any:
        return await handler(request)

    wraps = dict.fromkeys(("wrap_model_call", "wrap_tool_call"), wrap)
    awraps = {f"a{name}": awrap for name in wraps}
    places = ("before_agent", "before_model", "after_model", "after_agent")
    middleware = [_hook(world, place, gated=place == waits) for place in places]
    writer = ag.chat_agent(
        "writer",
        by_rounds(calls(call("slow"), call("quick", "2")), calls(call("quick", "4"))),
        tools=tools_of(world, wait=waits == "slow")[:2],
        middleware=[*middleware, named("Around", **wraps, **awraps)],
    )
    return chain(world, ag.parallel("fork", [writer, leaf("beside", world)]))


def _hook(world: World, place: str, *, gated: bool) -> Any:
    """Return middleware with one hook: it counts, reminds, replaces the last word or says one.

    One that waits at the gate is a coroutine in async runs: there LangChain calls a function on the
    event loop, which would block.
    """

    def made(state: Any) -> tuple[str, dict[str, Any]]:
        rounds, last = state.get("rounds", 0) + 1, state["messages"][-1]
        name = f"{place} {rounds}"
        messages: dict[str, list[Any]] = {
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

    twin = {f"a{place}": ahook} if gated else {}
    return named(f"At_{place}", state_schema=Rounds, **{place: hook}, **twin)


AFTER_MODEL = ("after_model 3", "after_model 5", "after_model 7")
TREES = {
    "loop": Tree(loop, again=("b",)),
    "generators": Tree(generators, 2, 1, again=("h",)),
    "coroutines": Tree(coroutines, 2, 1, again=("a", "b")),
    "mixed": Tree(mixed, 2, 2, again=("b",)),
    "nested": Tree(nested, 3, 1),
    "each": Tree(each, 7, 2),
    "workflow": Tree(workflow, 3, 1),
    "runs": Tree(runs, 3, 1),
    "gathered": Tree(gathered, 2, 2, again=("waits",)),
    "tools": Tree(tools, 3, 2, again=("aslow",)),
    "stack": Tree(stack, 6, 1),
    "hook": Tree(lambda world: stack(world, "after_model"), 3, 1, again=AFTER_MODEL),
    "agent tool": Tree(agent_tool, 3, 1),
    "human": Tree(human, 2, 1, asks=True),
    "until": Tree(until),
    "switch": Tree(switch),
    "foreign": Tree(foreign, 2, 1),
    "flattened": Tree(flattened, 2, 2),
}
