"""What tests share: scripted agents, a runner driven sync or async, and what a reader has heard."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, nullcontext, suppress
from dataclasses import is_dataclass
from itertools import count, islice
from typing import Annotated, Any, NotRequired

import pytest
from langchain.agents.middleware import AgentMiddleware, AgentState, ToolRetryMiddleware, hook_config
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, RetryPolicy, interrupt
from pydantic import BaseModel

import agentgraph as ag
from agentgraph.show.lines import event_text
from agentgraph.testing import ScriptedChatModel
from helpers.databases import Place, asaver_at, saver_at


def scripted(*responses: Any) -> ScriptedChatModel:
    return ScriptedChatModel(responses=list(responses))


def says(name: str, *texts: str) -> ag.Agent:
    """Return a function agent that says one text after the other, the last one again and again."""
    left = list(texts or (name,))

    def fn(ctx: ag.Context) -> str:
        return left.pop(0) if len(left) > 1 else left[0]

    return ag.function_agent(name, fn)


def gives(name: str, *items: Any) -> ag.Agent:
    """Return a function agent that gives one item after the other, the last one again and again."""
    left = list(items)

    def fn(ctx: ag.Context) -> Any:
        return left.pop(0) if len(left) > 1 else left[0]

    return ag.function_agent(name, fn)


def asks(name: str, prompt: str = "Well?", **options: Any) -> ag.Agent:
    """Return a human agent."""
    return ag.human(name, prompt, **options)


def fails(name: str, times: int = 1, **options: Any) -> ag.Agent:
    """Return a function agent that raises `ValueError` some times, and then says its name."""
    tries = count(1)

    def fn(ctx: ag.Context) -> str:
        number = next(tries)
        if number <= times:
            raise ValueError(f"{name} failed, time {number}")
        return name

    return ag.function_agent(name, fn, **options)


def chat(name: str, *responses: Any, **options: Any) -> ag.Agent:
    """Return a chat agent whose model follows a script."""
    return ag.chat_agent(name, scripted(*responses), **options)


class Sync:
    run = staticmethod(ag.Runner.run)
    resume = staticmethod(ag.Runner.resume)


class Async:
    @staticmethod
    def run(runner: ag.Runner, *args: Any, **options: Any) -> Iterator[ag.AgentEvent]:
        return driven(runner.arun(*args, **options))

    @staticmethod
    def resume(runner: ag.Runner, *args: Any, **options: Any) -> Iterator[ag.AgentEvent]:
        return driven(runner.aresume(*args, **options))


def driven(events: AsyncIterator[ag.AgentEvent]) -> Iterator[ag.AgentEvent]:
    """Yield what an async iterator gives, in an event loop of its own."""

    async def following() -> ag.AgentEvent | None:
        return await anext(events, None)

    with asyncio.Runner() as loop:
        while (event := loop.run(following())) is not None:
            yield event


Drive = type[Sync] | type[Async]


def fresh(drive: Drive, path: Place, agent: Any, method: str, *args: Any, **options: Any) -> Any:
    """Return what a method of a new runner on a file or a database gives, as a list."""
    found: list[Any] = []
    collect(found, drive, path, agent, method, *args, **options)
    return found


def unvoided(events: Iterable[ag.AgentEvent]) -> list[ag.AgentEvent]:
    """Return the events that no later one voids."""
    left: list[ag.AgentEvent] = []
    for event in events:
        if event.kind == "discarded" and event.action:
            void = event.action.discarded
            left = [each for each in left if each.id not in void and each.step not in void]
        else:
            left.append(event)
    return left


def collect(
    events: list[Any], drive: Drive, path: Place, agent: Any, method: str, *args: Any, **options: Any
) -> None:
    """Add to `events` what a method of a new runner on a file or a database yields, as it comes."""
    if drive is Sync:
        with saver_at(path) as saver:
            events.extend(getattr(ag.Runner(agent, checkpointer=saver), method)(*args, **options))
        return

    async def acollect() -> None:
        async with asaver_at(path) as saver:
            runner = ag.Runner(agent, checkpointer=saver)
            async for event in getattr(runner, f"a{method}")(*args, **options):
                events.append(event)

    asyncio.run(acollect())


class Disk:
    """Runs a tree on a file or a database, each time with a new runner, as another process would.

    Attributes:
        heard: All events of the runs and resumes that ended without an error.
    """

    def __init__(self, drive: Drive, path: Place) -> None:
        self.drive, self.path = drive, path
        self.heard: list[ag.AgentEvent] = []

    def run(self, tree: ag.Agent, text: str = "Go.") -> list[ag.AgentEvent]:
        events: list[ag.AgentEvent] = fresh(self.drive, self.path, tree, "run", text, thread_id="t")
        self.heard += events
        return events

    def resume(self, tree: ag.Agent, *answers: Any) -> list[ag.AgentEvent]:
        events: list[ag.AgentEvent] = fresh(self.drive, self.path, tree, "resume", "t", *answers)
        self.heard += events
        return events

    def events(self, tree: ag.Agent) -> list[ag.AgentEvent]:
        return list(fresh(self.drive, self.path, tree, "events", "t"))

    def fail(self, tree: ag.Agent, method: str, error: type[Exception]) -> list[ag.AgentEvent]:
        """Run or resume up to an error, and return the events before it."""
        events: list[ag.AgentEvent] = []
        call: Any = {"run": (("Go.",), {"thread_id": "t"}), "resume": (("t",), {})}
        args, options = call[method]
        with pytest.raises(error):
            collect(events, self.drive, self.path, tree, method, *args, **options)
        return events


def failing(
    events: Iterable[ag.AgentEvent], error: type[Exception]
) -> tuple[list[ag.AgentEvent], Exception]:
    """Return the events of a run that ends in an error, and the error."""
    found: list[ag.AgentEvent] = []
    with pytest.raises(error) as caught:
        found.extend(events)
    return found, caught.value


def shapes(messages: Sequence[BaseMessage]) -> list[Any]:
    """Return what can be compared of messages: all but ids, names and stamps."""
    return [
        (
            each.type,
            each.text,
            [(c["name"], c["args"], c["id"]) for c in getattr(each, "tool_calls", ())],
            getattr(each, "tool_call_id", None),
            getattr(each, "status", None),
        )
        for each in messages
    ]


def read(lines: Iterable[str]) -> list[ag.AgentEvent]:
    """Return the events in lines of JSON, without chunks."""
    events = [ag.AgentEvent.from_dict(json.loads(line)) for line in lines]
    return [event for event in events if not event.partial]


def check_heard(heard: Sequence[ag.AgentEvent], again: Sequence[ag.AgentEvent]) -> None:
    """Check that `events()` yields again what all runs yielded and none voided, and nothing twice."""
    assert unvoided(heard) == again
    times = [event.time for event in again]
    assert times == sorted(set(times))
    for number, event in enumerate(heard):
        assert event.id not in {each.id for each in unvoided(heard[:number])}


def texts(messages: Iterable[BaseMessage], *, system: bool = True) -> list[str]:
    """Return messages as lines: `human: Go.`"""
    return [f"{each.type}: {each.text}" for each in messages if system or each.type != "system"]


def visits(events: Iterable[ag.AgentEvent]) -> list[tuple[str, str]]:
    """Return the addresses and run paths of a run, each once."""
    return list(dict.fromkeys((event.address, str(event.run_path)) for event in events))


def lines(events: Iterable[ag.AgentEvent]) -> list[str]:
    """Return events as lines led by their addresses: `report/refine[1]/critic: [break_loop]`."""
    return [f"{event.address}: {event_text(event)}" for event in events if not event.partial]


def invokes(name: str, *responses: str, **options: Any) -> ag.Agent:
    """Return a function agent that asks a model of its own for each response, and says them all."""

    def fn(ctx: ag.Context) -> str:
        model = scripted(*responses)
        return " ".join(str(model.invoke("?").text) for _ in responses)

    return ag.function_agent(name, fn, **options)


def catches(name: str, *responses: str) -> ag.Agent:
    """Return an agent as `invokes` does, that goes on whatever a call of its model raises."""

    def fn(ctx: ag.Context) -> Iterator[str]:
        model = scripted(*responses)
        for _ in responses:
            with suppress(Exception):
                yield str(model.invoke("?").text)
        yield "All the same."

    return ag.function_agent(name, fn)


def asks_between(name: str) -> ag.Agent:
    """Return a function agent that asks a model, then a person, then a model again."""

    def fn(ctx: ag.Context) -> str:
        model = scripted("Before.", "After.")
        before = model.invoke("?").text
        answer = interrupt("Well?")
        return f"{before} {answer} {model.invoke('?').text}"

    return ag.function_agent(name, fn)


def asks_model(name: str, response: str) -> BaseTool:
    """Return a tool that asks a model of its own."""

    def ask() -> str:
        return str(scripted(response).invoke("?").text)

    return StructuredTool.from_function(ask, name=name, description="Asks a model.")


def counted(name: str, *responses: str, **options: Any) -> ag.Agent:
    """Return a chat agent whose model reports a token for each word."""
    model = ScriptedChatModel(responses=[*responses], counts_tokens=True)
    return ag.chat_agent(name, model, **options)


def sees(name: str, **options: Any) -> ag.Agent:
    """Return a function agent that says the texts that it sees, but its own."""

    def fn(ctx: ag.Context) -> str:
        return f"saw {' | '.join(each.text for each in ctx.messages if each.type != 'ai')}"

    return ag.function_agent(name, fn, **options)


def yields(name: str, *calls: Sequence[Any], **options: Any) -> ag.Agent:
    """Return a function agent whose calls yield the items of one list after the other.

    An exception among the items is raised. The last list is used again and again.
    """
    left = list(calls)

    def fn(ctx: ag.Context) -> Iterator[Any]:
        for item in left.pop(0) if len(left) > 1 else left[0]:
            if isinstance(item, BaseException):
                raise item
            yield item

    return ag.function_agent(name, fn, **options)


def retrying(times: int = 2, on: type[Exception] = Exception) -> RetryPolicy:
    """Return a policy that tries so many times in all, without a pause."""
    return RetryPolicy(max_attempts=times, initial_interval=0.001, jitter=False, retry_on=on)


def echo(text: str) -> str:
    """Say it again."""
    return text


def ask_person(what: str) -> str:
    """Ask a person."""
    return str(interrupt(what))


def store(value: str) -> list[Any]:
    """Set a value."""
    return [ag.SetValues(stored=value), f"stored {value}"]


def crash(text: str) -> str:
    """Fail."""
    raise ValueError(text)


def tool(name: str, *returned: Any, **options: Any) -> BaseTool:
    """Return a tool that returns one item after the other, the last one again and again.

    An exception among the items is raised.
    """
    left = list(returned)

    def fn() -> Any | ag.Exit | ag.BreakLoop:
        item = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(item, BaseException):
            raise item
        return item

    return StructuredTool.from_function(fn, name=name, description=f"The tool {name}.", **options)


def asking_tool(name: str, *calls: Sequence[Any]) -> BaseTool:
    """Return a tool whose calls go through the items of one list after the other.

    An `Ask` among the items is asked, an exception raised; a text is the result: `{}` is an answer.
    """
    left = list(calls)

    def fn() -> Any:
        answers, result = [], ""
        for item in left[0]:
            match item:
                case ag.Ask(value=value, response_schema=schema):
                    answers.append(interrupt(value, response_schema=schema))
                case BaseException():
                    left.pop(0)
                    raise item
                case _:
                    result = item.format(*answers)
        left.pop(0)
        return result

    return StructuredTool.from_function(fn, name=name, description=f"The tool {name}.")


def results(messages: Iterable[BaseMessage]) -> str:
    """Return the tool results among messages; a model may reply with it: `1 echo success: a`."""
    found = (each for each in messages if isinstance(each, ToolMessage))
    return " | ".join(f"{each.tool_call_id} {each.name} {each.status}: {each.text}" for each in found)


def sent(messages: Iterable[BaseMessage]) -> str:
    """Return all messages; a model may reply with it, to show what it was sent."""
    return " | ".join(texts(messages))


def unreadable(name: str, args: str, id: str | None = "1", error: str | None = None) -> Any:
    """Return a call whose arguments are not JSON."""
    return {"name": name, "args": args, "id": id, "error": error, "type": "invalid_tool_call"}


def tries_calls_again(times: int = 3, **options: Any) -> ToolRetryMiddleware:
    """Return middleware that makes a call that fails with a `ConnectionError` so often in all."""
    given = {"max_retries": times - 1, "retry_on": (ConnectionError,), **options}
    return ToolRetryMiddleware(initial_delay=0.0, jitter=False, **given)


def enforcing(*responses: Any) -> ScriptedChatModel:
    """Return a scripted model whose provider enforces output schemas."""
    return ScriptedChatModel(responses=list(responses), profile={"structured_output": True})


def sent_flat(messages: Iterable[BaseMessage]) -> str:
    """Return what a model was sent, without the empty lines in summaries."""
    return sent(messages).replace("\n\n", " ")


def town() -> dict[str, Any]:
    """Return the JSON schema of an answer that names a city."""
    properties = {"city": {"type": "string"}, "people": {"type": "integer", "minimum": 1}}
    return {"title": "Town", "type": "object", "properties": properties, "required": ["city"]}


def writes(name: str, *values: dict[str, Any], **options: Any) -> ag.Agent:
    """Return a function agent that says the values that it sees, and writes values in turn."""

    def fn(ctx: ag.Context) -> list[Any]:
        return [f"saw {dict(ctx.values)}", *(ag.SetValues(**each) for each in values)]

    return ag.function_agent(name, fn, **options)


def custom() -> ag.Custom:
    """Emit data that has no JSON form."""
    return ag.Custom(int)


def route(where: str) -> list[Any]:
    """Transfer to an agent."""
    return [ag.SetValues(routed=where), ag.Custom({"routed": where}), ag.TransferTo(where)]


def does(name: str) -> ag.Agent:
    """Return a function agent that says which step of a plan it does."""
    return ag.function_agent(name, lambda ctx: f"{ctx.values['step']} done")


def notes(name: str, *keys: str) -> ag.Agent:
    """Return a function agent that emits some values as custom data, and says nothing."""
    return ag.function_agent(name, lambda ctx: ag.Custom([ctx.values.get(key) for key in keys]))


def is_yes(text: str) -> str | None:
    """Check that a text is `yes`."""
    return None if text == "yes" else f"{text!r} is not yes"


THREAD: Any = {"configurable": {"thread_id": "t"}}
"""The config of the thread "t" for LangGraph."""


def middleware(
    name: str = "Middleware",
    *,
    state: Any = AgentState,
    jumps: Sequence[Any] = (),
    tools: Sequence[Any] = (),
    **methods: Any,
) -> AgentMiddleware[Any, Any, Any]:
    """Return a middleware for sync and async runs.

    Args:
        name: Its name.
        state: The schema of its state.
        jumps: Where its hooks may jump to.
        tools: The tools that it brings.
        **methods: Functions of the state for hooks such as `before_model`. And `wrap_model_call` and
            `wrap_tool_call`: functions of a request that return a result, or generators that yield
            requests to be handled, are sent what these gave, and return a result.
    """
    made: dict[str, Any] = {"state_schema": state, "tools": [*tools]}
    for method, does in methods.items():
        if method.startswith("wrap"):
            made |= {method: _wrap(does), f"a{method}": _awrap(does)}
        else:
            made[method] = hook_config(can_jump_to=list(jumps))(_hook(does))
    return type(name, (AgentMiddleware,), made)()  # type: ignore[no-any-return]


def _hook(does: Callable[[Any], Any]) -> Any:
    return lambda self, state, runtime: does(state)


def _wrap(does: Callable[[Any], Any]) -> Any:
    def wrap(self: Any, request: Any, handler: Any) -> Any:
        steps = does(request)
        if not isinstance(steps, Generator):
            return steps
        try:
            request = next(steps)
            while True:
                request = steps.send(handler(request))
        except StopIteration as ended:
            return ended.value

    return wrap


def _awrap(does: Callable[[Any], Any]) -> Any:
    async def wrap(self: Any, request: Any, handler: Any) -> Any:
        steps = does(request)
        if not isinstance(steps, Generator):
            return steps
        try:
            request = next(steps)
            while True:
                request = steps.send(await handler(request))
        except StopIteration as ended:
            return ended.value

    return wrap


def passes(request: Any) -> Any:
    """Wrap a call in `middleware`, and change nothing."""
    return (yield request)


class Counting(AgentState[Any]):
    rounds: NotRequired[int]


def redacts() -> AgentMiddleware[Any, Any, Any]:
    """Return a middleware that has a model see "*" for "bees", whoever said it."""

    def redact(state: Any) -> Any:
        seen = state["messages"]
        return {
            "messages": [m.model_copy(update={"content": m.text.replace("bees", "*")}) for m in seen]
        }

    return middleware("Redacting", before_model=redact)


def rounds() -> AgentMiddleware[Any, Any, Any]:
    """Return a middleware that counts the rounds of all turns, and adds the count to the messages."""

    def count_one(state: Any) -> Any:
        number = state.get("rounds", 0) + 1
        return {"rounds": number, "messages": [HumanMessage(f"Round {number}.")]}

    return middleware("Rounds", state=Counting, before_model=count_one)


def decide(*decisions: Any) -> dict[str, Any]:
    """Return an answer to a question about tool calls: of a word, or what LangChain takes, for each."""
    return {"decisions": [{"type": each} if isinstance(each, str) else each for each in decisions]}


def edited(name: str, **args: Any) -> dict[str, Any]:
    """Return the decision to run another call."""
    return {"type": "edit", "edited_action": {"name": name, "args": args}}


def in_turn(*items: Any) -> Callable[..., Any]:
    """Return a function that gives one item after the other, the last one again and again.

    An exception among the items is raised, and a function is called with what the first is given.
    """
    left = list(items)

    def fn(*given: Any) -> Any:
        item = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(item, BaseException):
            raise item
        return item(*given) if callable(item) else item

    return fn


def removal(id: str = REMOVE_ALL_MESSAGES) -> RemoveMessage:
    """Return a message that removes another one, or all."""
    return RemoveMessage(id=id)


def foreign(*nodes: Callable[[Any], Any], state: Any = MessagesState, **options: Any) -> Any:
    """Return a LangGraph graph that runs nodes one after the other: `n0`, `n1`, ...

    Args:
        *nodes: Functions of the messages; each returns a text, messages, or a command.
        state: The type of the state.
        **options: How the graph is compiled.
    """
    builder = StateGraph(state)
    for i, node in enumerate(nodes):

        def write(state: Any, node: Any = node) -> Any:
            written = node(state["messages"])
            written = AIMessage(written) if isinstance(written, str) else written
            return written if isinstance(written, Command | dict) else {"messages": written}

        builder.add_node(f"n{i}", write)
        builder.add_edge(f"n{i - 1}" if i else START, f"n{i}")
    return builder.compile(**options)


def command(**options: Any) -> Command[Any]:
    """Return a command of LangGraph."""
    return Command(**options)


class Session:
    """A thread, used sync or async, in memory, a file or a database; each call has a new runner."""

    def __init__(self, tree: ag.Agent, drive: Drive, path: Place | None = None) -> None:
        self.tree, self.drive, self.path, self.memory = tree, drive, path, InMemorySaver()
        self.id = "t"

    def runner(self, saver: Any) -> ag.Runner:
        return ag.Runner(self.tree, checkpointer=saver)

    def use(self, act: Callable[[ag.Runner], Any], aact: Callable[[ag.Runner], Any]) -> Any:
        """Return what `act` returns for a new runner; in an async session, what `aact` does."""
        if self.drive is Sync:
            opened = nullcontext(self.memory) if self.path is None else saver_at(self.path)
            with opened as saver:
                return act(self.runner(saver))

        async def in_a_loop() -> Any:
            opened = nullcontext(self.memory) if self.path is None else asaver_at(self.path)
            async with opened as saver:
                return await aact(self.runner(saver))

        return asyncio.run(in_a_loop())

    def follow(
        self,
        method: str,
        *args: Any,
        hear: Callable[[ag.AgentEvent], None],
        left: int | None = None,
        **options: Any,
    ) -> None:
        """Hear the events of a call up to its end, or close it after `left` of them."""

        def act(runner: ag.Runner) -> None:
            events = getattr(runner, method)(*args, **options)
            with nullcontext() if left is None else closing(events):
                for event in islice(events, left):
                    hear(event)

        async def aact(runner: ag.Runner) -> None:
            events, heard = getattr(runner, f"a{method}")(*args, **options), 0
            async with nullcontext() if left is None else aclosing(events):
                while heard != left and (event := await anext(events, None)) is not None:
                    hear(event)
                    heard += 1

        self.use(act, aact)

    def events(self) -> list[ag.AgentEvent]:
        events: list[ag.AgentEvent] = []
        self.follow("events", self.id, hear=events.append)
        return events

    def pending(self) -> list[ag.Interrupt]:
        return list(self.use(lambda runner: runner.pending(self.id), lambda r: r.apending(self.id)))

    def state(self) -> dict[str, Any]:
        """Return the values of the thread's last checkpoint."""
        at: Any = {"configurable": {"thread_id": self.id}}
        found = self.use(lambda r: r.graph.get_state(at), lambda r: r.graph.aget_state(at))
        return dict(found.values)


def tidies(changes: Callable[[Any], Any], name: str = "tidy", **options: Any) -> BaseTool:
    """Return a tool whose command changes the messages that it sees, and may go elsewhere."""

    def tidy(
        state: Annotated[dict[str, Any], InjectedState],
        tool_call_id: Annotated[str, InjectedToolCallId],
    ) -> Command[Any]:
        done = ToolMessage("tidied", tool_call_id=tool_call_id)
        return Command(update={"messages": [*changes(state["messages"]), done]}, **options)

    return StructuredTool.from_function(tidy, name=name, description=f"The tool {name}.")


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal and of one type, and so is all that is in them."""
    if type(one) is not type(other) or one != other:
        return False
    if isinstance(one, Mapping):
        return all(any(same(k, j) and same(v, w) for j, w in other.items()) for k, v in one.items())
    if isinstance(one, list | tuple | deque):
        return all(map(same, one, other))
    if isinstance(one, set | frozenset):
        return all(any(same(each, mine) for mine in other) for each in one)
    if isinstance(one, BaseModel) or is_dataclass(one):
        return all(map(same, vars(one).values(), vars(other).values()))
    return True
