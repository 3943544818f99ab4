"""Trees that a LangGraph server runs in the tests, and that run here to compare."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import count

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.cache.memory import InMemoryCache
from langgraph.types import CachePolicy

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls


def says(name: str, text: str, **options: object) -> ag.Agent:
    model = ScriptedChatModel(responses=lambda messages: text)
    return ag.chat_agent(name, model, **options)  # type: ignore[arg-type]


def note(text: str) -> str:
    """Notes a text."""
    return f"Noted {text}."


def look_up(messages: list[BaseMessage]) -> str | AIMessage:
    if messages[-1].type == "tool":
        return "Bees hum."
    return calls(call("note", text="bees"), call("research", request="Hum?"), text="Let me see.")


def jot(messages: list[BaseMessage]) -> str | AIMessage:
    return "Jotted." if messages[-1].type == "tool" else calls(call("note", text="wasps"))


def draft(ctx: ag.Context) -> Iterator[str | ag.Custom | ag.SetValues]:
    yield f"Draft {ctx.iteration}."
    yield ag.Custom({"draft": ctx.iteration})
    yield ag.SetValues(draft=ctx.iteration)


def enough(ctx: ag.Context) -> ag.BreakLoop | None:
    return ag.BreakLoop() if ctx.iteration == 1 else None


def fail(ctx: ag.Context) -> str:
    raise RuntimeError("no ink")


def is_short(text: str) -> str | None:
    return None if len(text) < 10 else "at most ten letters"


def shorter(messages: list[BaseMessage]) -> str:
    return (
        "Bees." if any("ten letters" in message.text for message in messages) else "Bees hum all day."
    )


def tally(ctx: ag.Context) -> str:
    return f"{len(ctx.messages)} messages, draft {ctx.values.get('draft')}"


researcher = says("research", "All bees hum.")
everything = ag.sequential(
    "everything",
    [
        ag.loop(
            "refine",
            [
                ag.function_agent("draft", draft),
                says("critic", "Too short."),
                ag.function_agent("enough", enough),
            ],
            max_iterations=3,
        ),
        ag.chat_agent(
            "desk",
            ScriptedChatModel(responses=look_up),
            tools=[note, ag.agent_tool(researcher)],
        ),
        ag.chat_agent("jotter", ScriptedChatModel(responses=jot), tools=[note]),
        ag.graph_agent(
            "helper", create_agent(ScriptedChatModel(responses=lambda messages: "Helped."), tools=[])
        ),
        ag.graph_agent(
            "clerk", create_agent(ScriptedChatModel(responses=jot), tools=[note]), flat=True
        ),
        ag.validated(
            ag.parallel(
                "review",
                [
                    ag.sequential("legal", [says("law", "Legal."), ag.human("boss", "Print it?")]),
                    says("style", "Fine."),
                    ag.function_agent("ink", fail),
                ],
                on_error="collect",
            ),
            lambda text: None,
        ),
        ag.validated(ag.chat_agent("title", ScriptedChatModel(responses=shorter)), is_short),
    ],
)

planned = ag.plan_execute(
    "planned",
    planner=ScriptedChatModel(responses=lambda messages: '{"steps": ["look", "say"]}'),
    executor=says("worker", "Done."),
    replanner=ScriptedChatModel(responses=lambda messages: '{"response": "All done."}'),
    max_iterations=2,
)

failing = ag.sequential(
    "failing",
    [says("first", "One."), ag.loop("again", [ag.function_agent("ink", fail)], max_iterations=2)],
)

rounds = ag.loop(
    "rounds", [ag.function_agent("draft", draft), ag.function_agent("count", tally)], max_iterations=4
)


def sort(ctx: ag.Context) -> ag.SetValues:
    """Only sets values, one of which is data of JSON that has no order."""
    return ag.SetValues(
        words={"a": "ants", "b/c": "bees", "d": "mud"}, route={"by": ["loud"], "n": None}
    )


def check(ctx: ag.Context) -> str | ag.Ask:
    """Asks about the bees, and fails with the mud."""
    if ctx.item is None or ctx.item.value == "mud":
        raise ValueError("mud is no insect")
    if ctx.item.value == "bees" and not ctx.answered:
        return ag.Ask({"print": ctx.item.value})
    return f"{ctx.item.number} {ctx.item.key} {ctx.item.value} {ctx.answer}"


def hear(ctx: ag.Context) -> list[str | ag.SetValues]:
    heard = ctx.messages[-1].text
    return [ag.SetValues(ears={"open": True}), f"I hear {heard}."]


def doubt(ctx: ag.Context) -> str:
    raise ValueError("I doubt it")


async def investigate(ctx: ag.Context) -> AsyncIterator[str | ag.SetValues]:
    """Runs agents: by keys at the same time, one that asks, and one whose failure it catches."""
    told = await asyncio.gather(*(ctx.run("ear", each, key=each) for each in ("ants", "bees/wasps")))
    yield " | ".join(told)
    try:
        yield await ctx.run("doubt", "Is it so?")
    except ValueError as error:
        yield f"{error}."
    reply = await ctx.run("desk", "Print it?")
    yield ag.SetValues(answer=reply.data, said=[message.text for message in reply.messages])
    yield reply


by_data = ag.sequential(
    "by_data",
    [
        ag.function_agent("sort", sort),
        ag.each(
            "files",
            ag.sequential("work", [ag.function_agent("check", check), says("note", "Noted.")]),
            "words",
            on_error="collect",
            output_key="notes",
            errors_key="failed",
        ),
        ag.switch(
            "loud",
            lambda ctx: ctx.values["route"]["by"][0],
            {"loud": says("crier", "Hear!"), "quiet": ag.SKIP},
        ),
        ag.switch("skip", lambda ctx: len(ctx.values["failed"]), {1: ag.SKIP, 0: ag.Exit()}),
        ag.function_agent(
            "investigate",
            investigate,
            agents=[
                ag.function_agent("ear", hear),
                ag.function_agent("doubt", doubt),
                ag.sequential(
                    "desk",
                    [says("before", "One moment."), ag.human("clerk", "Print?", output_key="ok")],
                ),
            ],
        ),
    ],
)


def post(messages: list[BaseMessage]) -> str | AIMessage:
    if any(message.type == "tool" for message in messages):
        return "Posted."
    return calls(call("note", "1", text="one"), call("note", "2", text="two"))


asking = ag.sequential(
    "asking",
    [ag.chat_agent("clerk", ScriptedChatModel(responses=post), tools=[note], approve=["note"])],
)

numbers = count(1)


def number(ctx: ag.Context) -> str:
    return f"Call {next(numbers)}."


cached = ag.parallel(
    "cached",
    [ag.function_agent("number", number, cache_policy=CachePolicy()), says("other", "Hm.")],
)


def limited_part(number: int) -> ag.Agent:
    model = ScriptedChatModel(responses=lambda messages: "Fine.")
    return ag.loop(f"round{number}", [ag.chat_agent(f"talker{number}", model)], max_iterations=2)


limited_graph = ag.compile_agent(
    ag.parallel("limited", [limited_part(number) for number in range(3)]),
    limits=ag.Limits(model_calls=4, on_limit="ask"),
)

trees = (everything, planned, failing, rounds, asking, by_data)
graphs = {tree.name: ag.compile_agent(tree) for tree in trees}
cached_graph = ag.compile_agent(cached, cache=InMemoryCache())
everything_graph, planned_graph, failing_graph, rounds_graph, asking_graph, by_data_graph = (
    graphs.values()
)
