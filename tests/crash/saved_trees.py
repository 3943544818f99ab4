"""Trees whose saver fails: in each, somebody else would collect, retry, undo or be told a failure."""

import operator
from collections.abc import Callable
from typing import Annotated, Any

from campaign import NEVER_WORKS, World, chain, fails, for_item, leaf, pair
from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import RetryPolicy
from running_trees import RUNNING
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

Build = Callable[[World], ag.Agent]
FULL = "database or disk is full"
"""What a saver of this campaign fails with."""
RETRY = RetryPolicy(max_attempts=3, initial_interval=0.001, jitter=False, retry_on=Exception)


def again() -> ToolRetryMiddleware:
    """Return a middleware that makes each call that fails once more, and then tells the model."""
    return ToolRetryMiddleware(max_retries=1, retry_on=(Exception,), initial_delay=0.0, jitter=False)


def answering(world: World, response: Callable[[list[BaseMessage]], Any]) -> ScriptedChatModel:
    """Return a model that counts what it is told of the saver."""

    def answer(sent: list[BaseMessage]) -> Any:
        if any(FULL in str(message.content) for message in sent):
            world.add("the model is told")
        return response(sent)

    return ScriptedChatModel(responses=answer)


def caller(name: str, world: World, tools: list[Any], *names: str, **options: Any) -> ag.Agent:
    """Return a chat agent that calls tools, once each and all in one message, and then ends."""
    return ag.chat_agent(name, answering(world, _calling(names)), tools=tools, **options)


def _calling(names: tuple[str, ...]) -> Callable[[list[BaseMessage]], Any]:
    def response(sent: list[BaseMessage]) -> Any:
        if any(isinstance(m, ToolMessage) or "inner2 is done" in m.text for m in sent):
            return "All is done."
        asked = {"request": "Look."}
        return calls(*(call(n, n, **(asked if n.startswith("inner") else {})) for n in names))

    return response


def loop(world: World) -> ag.Agent:
    return chain(world, ag.loop("l", [leaf("a", world), leaf("b", world)], max_iterations=2))


def switch(world: World) -> ag.Agent:
    """Return a loop whose switch chooses two agents, and ends it in the last iteration."""

    def choose(ctx: ag.Context) -> int | None:
        world.add("choice")
        return ctx.iteration

    cases = {0: pair("x", world), 1: leaf("y", world)}
    path = ag.switch("path", choose, cases, otherwise=ag.BreakLoop())
    return chain(world, ag.loop("l", [path], max_iterations=None))


def parallel(on_error: str) -> Build:
    """Return a parallel; of a "first" one branch fails, so that always the same wins."""

    def build(world: World) -> ag.Agent:
        beside = fails("never") if on_error == "first" else pair("y", world)
        return chain(world, ag.parallel("fork", [pair("x", world), beside], on_error=on_error))

    return build


def collected(world: World) -> ag.Agent:
    """Return a parallel in a parallel, in which a branch fails and is collected."""
    inner = ag.parallel("fork_inner", [fails("never"), pair("x", world)], on_error="collect")
    return chain(world, ag.parallel("fork", [inner, leaf("beside", world)], on_error="wait"))


def each(on_error: str) -> Build:
    """Return an each whose items are counted; an item of a "collect" and of a "first" fails."""

    def build(world: World) -> ag.Agent:
        def over(ctx: ag.Context) -> dict[str, int]:
            world.add("items")
            return {"a": 1, "b/c": 0}

        def check(ctx: ag.Context) -> None:
            if on_error in ("collect", "first") and not ctx.item.value:
                raise ValueError(NEVER_WORKS)

        inner = [for_item("x1", world), ag.function_agent("x2", check), for_item("x3", world)]
        if on_error == "first":  # else it depends on the time how far the one that fails gets
            inner = inner[1:]
        work = ag.sequential("work", inner)
        keys = {"output_key": "out", "errors_key": "bad"}
        return chain(world, ag.each("files", work, over, on_error=on_error, **keys))

    return build


def each_in_order(world: World) -> ag.Agent:
    """Return an each in an each in a loop, one item at a time, whose items say what others see."""
    inner = ag.each("cells", for_item("x", world), "row", as_="cell", max_concurrency=1)
    rows = ag.each("rows", inner, lambda ctx: [["a", "b"], [], ["c"]], as_="row", max_concurrency=1)
    return chain(world, ag.loop("l", [rows], max_iterations=2))


def each_asks(world: World) -> ag.Agent:
    """Return an each one of whose items asks while others go on."""

    def ask(ctx: ag.Context) -> Any:
        return ag.Ask("Go on?") if ctx.item.key == "b" and not ctx.answered else f"{ctx.answer}"

    work = ag.sequential("work", [for_item("x1", world), ag.function_agent("chief", ask)])
    return chain(world, ag.each("files", work, lambda ctx: ["a", "b"], key=str, output_key="out"))


def each_in_a_tool(world: World) -> ag.Agent:
    inner = ag.each("inner", for_item("x", world), lambda ctx: ["a", "b"], output_key="out")
    tools = [ag.agent_tool(inner, description="Works.")]

    def response(sent: list[BaseMessage]) -> Any:
        if any(isinstance(message, ToolMessage) for message in sent):
            return "All is done."
        return calls(call("inner", "inner", request="Look."))

    return chain(world, ag.chat_agent("writer", answering(world, response), tools=tools))


def workflow(on_error: str) -> Build:
    def build(world: World) -> ag.Agent:
        undo = leaf("undo", world)
        steps = [
            ag.step(leaf("find", world), compensate=undo),
            ag.step(pair("x", world), depends_on=["find"]),
            ag.step(leaf("c", world), depends_on=["find"], retry=RETRY),
            ag.step(leaf("write", world), depends_on=["x", "c"]),
        ]
        return chain(world, ag.workflow("fork", steps, on_error=on_error))

    return build


def undone(world: World) -> ag.Agent:
    """Return a workflow whose last step fails, and whose first ones are undone."""
    steps = [
        ag.step(leaf("one", world), compensate=leaf("undo_one", world)),
        ag.step(leaf("two", world), depends_on=["one"], compensate=leaf("undo_two", world)),
        ag.step(fails("three"), depends_on=["two"]),
    ]
    return ag.workflow("fork", steps)


def agent_tool(inner: Callable[[World], ag.Agent], *middleware: Any, **options: Any) -> Build:
    def build(world: World) -> ag.Agent:
        tools = [ag.agent_tool(inner(world))]
        writer = caller("writer", world, tools, "inner", middleware=middleware, **options)
        return chain(world, writer)

    return build


def inner_fork(world: World) -> ag.Agent:
    return ag.parallel("inner", [leaf("i1", world), pair("x", world)], on_error="collect")


def two_agent_tools(world: World) -> ag.Agent:
    tools = [ag.agent_tool(pair("inner", world)), ag.agent_tool(pair("inner_b", world))]
    return chain(world, caller("writer", world, tools, "inner", "inner_b"))


def tools(world: World) -> ag.Agent:
    """Return an agent with two tools; one is retried as LangChain does it."""

    def work() -> str:
        """Work."""
        return world.add("work")

    def other() -> str:
        """Do something else."""
        return world.add("other")

    retried = tool(work).with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
    given = [retried, other]
    return chain(world, caller("writer", world, given, "work", "other", middleware=[again()]))


def graph_of(world: World, *names: str) -> Any:
    """Return a graph of somebody else's whose nodes do one thing each."""
    builder = StateGraph(MessagesState)
    for number, name in enumerate(names):

        def node(state: Any, name: str = name) -> Any:
            return {"messages": [AIMessage(world.add(name))]}

        builder.add_node(name, node, retry_policy=RETRY)
        builder.add_edge(names[number - 1] if number else START, name)
    return builder.compile()


def foreign(**options: Any) -> Build:
    return lambda world: chain(
        world, ag.graph_agent("made", graph_of(world, "one", "two"), retry=RETRY, **options)
    )


def foreign_branch(world: World) -> ag.Agent:
    made = ag.graph_agent("made", graph_of(world, "one", "two"))
    return chain(world, ag.parallel("fork", [made, pair("x", world)], on_error="collect"))


def graph_in_a_tool(world: World) -> ag.Agent:
    """Return an agent with a tool that runs a graph, which saves where the run does."""
    graph = graph_of(world, "one", "two")

    def work() -> str:
        """Work."""
        try:
            return str(graph.invoke({"messages": []})["messages"][-1].text)
        except Exception as error:
            return f"It did not work: {error}"

    return chain(world, caller("writer", world, [work], "work", middleware=[again()]))


def langchain_agent(**options: Any) -> Build:
    """Return LangChain's agent with a tool that runs a graph, and retries it."""

    def build(world: World) -> ag.Agent:
        graph = graph_of(world, "one", "two")

        def work() -> str:
            """Work."""
            return str(graph.invoke({"messages": []})["messages"][-1].text)

        made = create_agent(answering(world, _calling(("work",))), [work], middleware=[again()])
        return chain(world, ag.graph_agent("made", made, **options))

    return build


def compiled(world: World) -> ag.Agent:
    """Return a tree with a tree that was compiled before, as a graph."""
    inner = ag.parallel("fork_inner", [pair("x", world), pair("y", world)], on_error="collect")
    return chain(world, ag.graph_agent("made", ag.compile_agent(chain_of("inner", world, inner))))


def chain_of(name: str, world: World, *agents: ag.Agent) -> ag.Agent:
    return ag.sequential(name, [leaf(f"{name}_first", world), *agents])


def validated(world: World) -> ag.Agent:
    return chain(world, ag.validated(pair("x", world), lambda text: None))


def helped(world: World) -> ag.Agent:
    return chain(world, ag.with_helpers(leaf("main", world), [pair("x", world), pair("y", world)]))


def planned(world: World) -> ag.Agent:
    planner = ag.function_agent("planner", lambda ctx: '["one", "two"]')
    replanner = ag.function_agent("replanner", lambda ctx: None)
    plan = ag.plan_execute(
        "pe", planner=planner, executor=pair("x", world), replanner=replanner, max_iterations=2
    )
    return chain(world, plan)


def planned_side_by_side(world: World) -> ag.Agent:
    """Return a plan whose steps run at once, after one that they need."""
    steps = '[{"name": "a", "task": "A"}, {"name": "b", "task": "B", "depends_on": ["a"]}]'
    plan = ag.plan_execute(
        "pe",
        planner=ag.function_agent("planner", lambda ctx: steps),
        executor=for_item("x", world),
        replanner=ag.function_agent("replanner", lambda ctx: None),
        parallel=True,
        on_error="collect",
        max_concurrency=2,
    )
    return chain(world, plan)


def supervised(mode: str) -> Build:
    def build(world: World) -> ag.Agent:
        name = "inner" if mode == "tools" else "transfer_to_inner"
        decides = answering(world, _calling((name,)))
        return chain(world, ag.supervisor("boss", decides, [pair("inner", world)], mode=mode))

    return build


def asks(world: World) -> ag.Agent:
    branch = ag.sequential("x", [leaf("x1", world), ag.human("chief", "Go on?"), leaf("x2", world)])
    return chain(world, ag.parallel("fork", [branch, pair("y", world)], on_error="collect"))


def asks_in_a_tool(world: World) -> ag.Agent:
    inner = ag.sequential("inner", [leaf("i1", world), ag.human("chief", "Go on?"), leaf("i2", world)])
    return chain(world, caller("writer", world, [ag.agent_tool(inner)], "inner", middleware=[again()]))


def asks_beside_transfers(world: World) -> ag.Agent:
    """Return branches with a question and with transfers, which a resume counts in all checkpoints."""
    asking = ag.sequential("x", [leaf("x1", world), ag.human("chief", "Go on?"), leaf("x2", world)])
    return ag.parallel("fork", [supervised("handoff")(world), asking])


def sets(name: str, world: World, **values: Any) -> ag.Agent:
    """Return a function that only sets values, and counts that it does, by its address."""

    def fn(ctx: ag.Context) -> ag.SetValues:
        world.add(ctx.address)
        return ag.SetValues(**values)

    return ag.function_agent(name, fn)


def values(world: World) -> ag.Agent:
    """Return functions that only set values: in a loop, branches, steps, items, a call and a tool."""
    branches = ag.parallel("fork", [sets("a", world, a=1), sets("b", world, b=2, _private=3)])
    steps = [sets("step", world, c=4), ag.step(sets("after", world, d=5), depends_on=["step"])]
    items = ag.each("files", sets("item", world, e=6), lambda ctx: ["x", "y"])
    tool = ag.agent_tool(sets("inner", world, g=8), description="Sets.")
    return chain(
        world,
        ag.loop("l", [sets("again", world, n=[1])], max_iterations=2),
        branches,
        ag.workflow("fork_steps", steps),
        items,
        caller("writer", world, [tool], "inner"),
    )


def local_values(world: World) -> ag.Agent:
    """Return lanes that keep values of their own, and say what they see of them in the end."""

    def shows(name: str) -> ag.Agent:
        return ag.function_agent(name, lambda ctx: f"{sorted(ctx.values.items())}")

    def lane(name: str) -> ag.Agent:
        kept = [
            sets(f"{name}1", world, scratch=[name]),
            sets(f"{name}2", world, scratch=["2"], word=name),
        ]
        return ag.sequential(name, [*kept, shows(f"{name}3")])

    branches = ag.parallel("fork", [lane("a"), lane("b")])
    items = ag.each("files", lane("c"), lambda ctx: ["x", "y"], key=str)
    return chain(world, sets("begin", world, scratch=["0"]), branches, items, shows("shows"))


class Values(TypedDict, total=False):
    """What the lanes of `local_values` keep."""

    scratch: Annotated[list[str], operator.add, ag.LOCAL]
    word: Annotated[str, ag.LOCAL]


DECLARED: dict[str, Any] = {"local values": Values}
"""The schemas of the trees that need one."""

TREES: dict[str, Build] = {
    "loop": loop,
    "switch": switch,
    **{f"parallel {each}": parallel(each) for each in ("fail", "collect", "wait", "first")},
    "collected": collected,
    **{f"each {on_error}": each(on_error) for on_error in ("fail", "collect", "wait", "first")},
    "each in order": each_in_order,
    "each in a tool": each_in_a_tool,
    "each asks": each_asks,
    **{f"workflow {each}": workflow(each) for each in ("fail", "wait")},
    "undone": undone,
    "agent tool": agent_tool(lambda world: pair("inner", world)),
    "agent tool retried": agent_tool(lambda world: pair("inner", world), again()),
    "agent tool raise": agent_tool(lambda world: pair("inner", world), on_tool_error="raise"),
    "fork in a tool": agent_tool(inner_fork, again()),
    "two agent tools": two_agent_tools,
    "tools": tools,
    "foreign": foreign(),
    "foreign flat": foreign(flat=True),
    "foreign in a branch": foreign_branch,
    "graph in a tool": graph_in_a_tool,
    "langchain": langchain_agent(),
    "langchain flat": langchain_agent(flat=True),
    "compiled": compiled,
    "validated": validated,
    "helped": helped,
    "planned": planned,
    "planned side by side": planned_side_by_side,
    **{f"supervised {each}": supervised(each) for each in ("tools", "handoff")},
    **RUNNING,
    "values": values,
    "local values": local_values,
    "asks": asks,
    "asks in a tool": asks_in_a_tool,
    "asks beside transfers": asks_beside_transfers,
}
