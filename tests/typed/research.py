"""A research office, for type checkers: typed values, a context, tools, threads, results, events."""

import operator
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from os import PathLike
from typing import Annotated, Literal, TypedDict

from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import AgentMiddleware, ModelCallLimitMiddleware
from langchain.tools import InjectedState, InjectedToolCallId, ToolRuntime
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt
from pydantic import BaseModel, Field
from rich.console import Console

import agentgraph as ag


@dataclass(frozen=True)
class Tenant:
    """The payer of a run."""

    name: str
    plan: Literal["free", "paid"] = "free"


class Values(TypedDict, total=False):
    """The values of a run, as a `TypedDict`."""

    topic: str
    sources: Annotated[list[str], operator.add]
    draft: str | None


class Findings(BaseModel):
    """The values of a run, as a pydantic model."""

    topic: str = "bees"
    sources: Annotated[list[str], operator.add] = Field(default_factory=list)


class Verdict(BaseModel):
    """The structured answer of the editor."""

    grade: int
    words: list[str]


class State(AgentState[Verdict]):
    """The state for tools: the messages, and the values of the run."""

    topic: str
    sources: list[str]


# tools


def search(topic: str, ctx: ag.Context[Tenant]) -> list[str | ag.SetValues]:
    """Search the library."""
    found = f"{topic} in {ctx.context.name}'s library"
    return [found, ag.SetValues(sources=[found])]


def cite(number: int, runtime: ToolRuntime[Tenant, State]) -> str:
    """Cite a source."""
    return f"[{number}] {runtime.state['sources'][number]}, paid by {runtime.context.name}"


def note(
    text: str,
    topic: Annotated[str, InjectedState("topic")],
    call: Annotated[str, InjectedToolCallId],
) -> Command[str]:
    """Note a source."""
    done = ToolMessage(f"noted on {topic}", tool_call_id=call)
    return Command(update={"messages": [done], "sources": [text]})


def forget() -> ag.SetValues:
    """Forget the draft."""
    return ag.SetValues(draft=ag.DELETE)


async def order(book: str) -> str:
    """Order a book."""
    allowed: bool = interrupt(f"Order {book}?", response_schema={"type": "boolean"})
    return f"ordered {book}" if allowed else "not ordered"


# functions


@ag.agent(output_key="draft")
def greeter(ctx: ag.Context[Tenant]) -> str:
    """Greets the tenant."""
    return f"For {ctx.context.name} ({ctx.context.plan}), in turn {len(ctx.messages)}."


@ag.agent
async def critic(ctx: ag.Context[Tenant]) -> AsyncIterator[str | ag.BreakLoop]:
    yield f"Draft {ctx.iteration} has {len(ctx.messages[-1].text)} letters."
    if ctx.runtime.context.plan == "free":
        yield ag.BreakLoop()


def clerk(ctx: ag.Context[Tenant]) -> Iterator[str | ag.Ask | ag.Custom]:
    if not ctx.answered:
        yield ag.Custom({"sources": len(ctx.values["sources"])})
        yield ag.Ask("How many copies?", response_schema=int | None)
    yield f"{ctx.answer} copies"


def has_sources(ctx: ag.Context[Tenant]) -> bool:
    return len(ctx.values.get("sources", [])) > 2


def cites(ctx: ag.Context[Tenant], text: str) -> str | None:
    return None if any(each in text for each in ctx.values["sources"]) else "Cite a source."


def of_users(entries: Sequence[ag.Entry]) -> list[HumanMessage]:
    return [entry.message for entry in entries if isinstance(entry.message, HumanMessage)]


def scores(state: AgentState[Verdict]) -> list[str | ag.SetValues]:
    verdict = state.get("structured_response")
    return [f"Grade {verdict.grade}.", ag.SetValues(sources=verdict.words)] if verdict else []


class Billing(AgentMiddleware[State, Tenant]):
    """Notes which tenant pays for a model call."""

    def __init__(self) -> None:
        super().__init__()
        self.paid: Counter[str] = Counter()

    def before_model(self, state: State, runtime: Runtime[Tenant]) -> None:
        self.paid[runtime.context.name] += 1


# trees


def office(model: BaseChatModel, billing: Billing) -> ag.SequentialAgent:
    """Return a tree that reads sources, has a draft checked, and asks for the number of copies."""
    reader = ag.chat_agent(
        "reader",
        model,
        instruction=lambda ctx: f"You read for {ctx.context.name}.",
        tools=[search, cite, note, forget],
        middleware=[billing, ModelCallLimitMiddleware(run_limit=9)],
    )
    writer = ag.validated(ag.chat_agent("writer", model, history=of_users), cites, max_attempts=2)
    editor: ag.GraphAgent = ag.graph_agent(
        "editor", create_agent(model, response_format=Verdict), output=scores
    )
    printing = ag.workflow(
        "printing",
        [ag.function_agent("clerk", clerk), ag.step(greeter, depends_on=["clerk"])],
    )
    refine = ag.loop("refine", [writer, critic], max_iterations=3, until=has_sources)
    return ag.sequential("office", [reader, refine, editor, printing])


def bureau(model: BaseChatModel) -> ag.ParallelAgent:
    """Return a tree of the other kinds of agents."""
    prompt = ChatPromptTemplate([("system", "About {topic}."), ("placeholder", "{messages}")])
    summary = ag.runnable_agent("summary", prompt | model, output_key="summary")
    boss = ag.human("boss", "Which of {topic}?", response_schema=Literal["bees", "ants"])
    asked = ag.with_helpers(summary, [boss])
    clerks = [ag.chat_agent(name, model, tools=[order]) for name in ("ann", "bob")]
    leader = ag.supervisor("leader", model, [*clerks, greeter], output_schema=dict[str, int] | None)
    planned = ag.plan_execute("planned", planner=model, executor=model, replanner=model)
    return ag.parallel("bureau", [asked, leader, planned], on_error="wait")


# calls


def by_agent(result: ag.Result) -> dict[str, int]:
    return {name: used["total_tokens"] for name, used in result.usage.by_agent.items()}


def answers_to(questions: Iterable[ag.Interrupt]) -> dict[str, int | bool | str]:
    answers: dict[str, int | bool | str] = {"clerk": 2, "boss": "bees", "ann": True}
    return {each.id: answers[each.agent_name] for each in questions}


def day(agent: ag.Agent, path: str | PathLike[str]) -> list[str]:
    """Run a turn up to its end on a file, and return what it shows."""
    tags: RunnableConfig = {"tags": ["research"]}
    with ag.Runner(
        agent, checkpointer=path, values=Values, context_schema=Tenant, config=tags
    ) as runner:
        given: Values = {"topic": "bees", "sources": []}
        result: ag.Result = runner.invoke(
            "Go.", thread_id="monday", values=given, context=Tenant("Ada")
        )
        shown = [result.status, result.message.type if result.message else "", *by_agent(result)]
        answers = answers_to(result.pending)
        for event in runner.resume("monday", answers, context=Tenant("Ada")):
            said = event.message.text if event.output and event.message else event.kind
            shown.append(f"{event.agent_name} {event.run_path.names[-1]}: {said}")
        thread: ag.Thread = runner.thread("monday")
        sources: list[str] = thread.values["sources"]
        shown += [thread.status, f"{len(thread.turns)} turn", *sources]
        runner.copy("monday", "tuesday")
        runner.delete("monday")
        return shown + [each.thread_id for each in runner.threads("done")]


async def aday(agent: ag.Agent, path: str | PathLike[str]) -> ag.Result:
    """Run two turns on a file, with values of a pydantic model, and return the result of the last."""
    with ag.Runner(agent, checkpointer=path, values=Findings, context_schema=Tenant) as runner:
        async with runner.arun("Go.", thread_id="t", context=Tenant("Bob"), stream=True) as run:
            heard = [event async for event in run if not event.partial]
        errors: list[str] = [event.error for event in heard if event.error is not None]
        questions = await runner.apending("t")
        result = await runner.ainvoke(
            thread_id="t", answers=answers_to(questions), context={"name": "Bob"}
        )
        assert not errors
        assert await runner.athreads("done")
        return result


def printed(agent: ag.Agent) -> tuple[ag.Watched, str]:
    """Watch a run of two parts, and return its result and what was printed."""
    console = Console(file=StringIO(), width=90)
    runner = ag.Runner(agent, values=Values, context_schema=Tenant, context=Tenant("Eve"))
    given: Values = {"topic": "bees", "sources": []}
    asked = ag.watch(runner, "Go.", thread_id="t", values=given, console=console)
    answers = answers_to(asked.pending)
    ended = ag.watch(runner, thread_id="t", answers=answers, console=console)
    return ended, "\n".join(f"{event.address} {event.kind}" for event in ended)


def translated(agent: ag.Agent) -> list[ag.AgentEvent]:
    graph = ag.compile_agent(agent, values=Findings, context_schema=Tenant)
    parts = graph.stream(
        {"messages": ["Go."]},
        context=Tenant("Ada"),
        stream_mode=ag.STREAM_MODES,
        subgraphs=True,
        version="v2",
    )
    return [*ag.translate(agent, parts)]


async def atranslated(agent: ag.Agent) -> list[ag.AgentEvent]:
    graph = ag.compile_agent(agent, values=Findings, context_schema=Tenant)
    parts = graph.astream(
        {"messages": ["Go."]}, context=Tenant("Ada"), stream_mode=ag.STREAM_MODES, subgraphs=True
    )
    return [event async for event in ag.atranslate(agent, parts)]
