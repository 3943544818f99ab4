"""The checks of a saver: each runs a tree on threads of the saver, and compares what comes back.

Each check is a coroutine that awaits calls, so sync and async savers have the same checks. It raises
`Lost` with the reason if the saver lost something.
"""

import operator
import warnings
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from math import inf
from typing import Annotated, Any
from uuid import UUID, uuid4

from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, ToolCall
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt

from agentgraph.agents.agents import Agent
from agentgraph.agents.builders import (
    chat_agent,
    each,
    function_agent,
    graph_agent,
    human,
    loop,
    parallel,
    sequential,
)
from agentgraph.agents.context import Context
from agentgraph.agents.signals import SetValues
from agentgraph.errors import InvalidAnswerError, UnknownThreadError
from agentgraph.events.events import AgentEvent
from agentgraph.graph.open_types import Saver
from agentgraph.graph.sync_async import Call
from agentgraph.journal.savers.known import Fitness
from agentgraph.threads.runner import Runner

_CHOICE = {"enum": ["yes", "no"]}
_MANY = 12
"""Number of writes of one task: an order by text would have 10 before 2."""
VALUES: Mapping[str, Any] = {
    "text": "Zürich 🐝 \x00 ",
    "number": 2**60 + 1,
    "float": 0.1,
    "infinity": inf,
    "none": None,
    "nested": [{"a": [1, {"b": True}]}, []],
    "bytes": b"\x00\xff",
    "time": datetime(2026, 11, 29, 12, 30, tzinfo=UTC),
    "decimal": Decimal("1.10"),
    "uuid": UUID(int=7),
}
"""The values whose types are compared."""


class Lost(Exception):
    """The saver lost something."""


def unchecked(tree: Agent, saver: Saver) -> Runner:
    """Return a runner that uses a saver whatever is known of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner = Runner(tree, checkpointer=saver, unfit="warn")
    runner.engine.fitness = Fitness()
    return runner


class Checked:
    """The threads of a saver, and the calls of runners that a check makes on them.

    Attributes:
        saver: The saver.
        ran: The addresses of the functions that ran.
    """

    def __init__(self, saver: Saver) -> None:
        self.saver = saver
        self.ran: list[str] = []
        self.made: list[str] = []
        self._prefix = f"check-{uuid4().hex[:12]}"

    def thread(self) -> str:
        """Return the id of a new thread."""
        self.made.append(f"{self._prefix}-{len(self.made)}")
        return self.made[-1]

    def works(self, name: str, *, fails: int = 0) -> Agent:
        """Return an agent that notes that it ran.

        Args:
            name: Its name.
            fails: Number of its first runs that fail.
        """
        left = [fails]

        def work(ctx: Context) -> str:
            self.ran.append(ctx.address)
            left[0] -= 1
            if left[0] >= 0:
                raise OSError(f"{name} fails")
            return f"{name} worked"

        return function_agent(name, work)

    async def call(self, tree: Agent, method: str, *arguments: object, **options: object) -> Any:
        """Return the result of a method of a new runner."""
        runner = unchecked(tree, self.saver)
        sync, awaited = (partial(getattr(runner, name), **options) for name in (method, f"a{method}"))
        return await Call(sync, awaited, arguments)

    async def events(
        self, tree: Agent, method: str, *arguments: object, **options: object
    ) -> list[AgentEvent]:
        """Return the events that a method of a new runner yields."""
        runner = unchecked(tree, self.saver)

        async def collected() -> list[AgentEvent]:
            return [event async for event in getattr(runner, f"a{method}")(*arguments, **options)]

        made: list[AgentEvent] = await Call(
            lambda: [*getattr(runner, method)(*arguments, **options)], collected
        )
        return made

    def expect_runs(self, *addresses: str) -> None:
        """Compare the functions that have run since the last time.

        Raises:
            Lost: Others ran.
        """
        ran, self.ran = self.ran, []
        if sorted(ran) != sorted(addresses):
            raise Lost(f"{_names(ran)} ran, in the place of {_names(addresses)}")


Check = Callable[[Checked], Coroutine[Any, Any, None]]


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"


def expect(found: object, expected: object, what: str) -> None:
    """Compare a result.

    Raises:
        Lost: It differs.
    """
    if found != expected:
        raise Lost(f"{what}: {found!r}, in the place of {expected!r}")


def _desk(saver: Checked) -> Agent:
    two = human("two", "Two?", response_schema=_CHOICE)
    inner = sequential("q", [two, human("three", "Three?")])
    return parallel("desk", [saver.works("worker"), human("one", "One?"), inner])


async def answers(saver: Checked) -> None:
    """Ask questions in branches, in a loop and in a tool; answer them one by one, with new runners."""
    tree, thread = _desk(saver), saver.thread()
    await saver.events(tree, "run", "Go.", thread_id=thread)
    asked = await saver.call(tree, "pending", thread)
    expect([each.address for each in asked], ["desk/one", "desk/q/two"], "the questions are at")
    expect(asked[1].response_schema, _CHOICE, "the schema of a question")
    with suppress(InvalidAnswerError):
        await saver.events(tree, "resume", thread, {"desk/q/two": "maybe"})
        raise Lost("an answer that does not fit the schema was accepted")
    await saver.events(tree, "resume", thread, {"desk/one": "1"})
    again = await saver.call(tree, "pending", thread)
    expect([each.id for each in again], [asked[1].id], "after one answer the open questions are")
    await saver.events(tree, "resume", thread, {"desk/q/two": "yes"})
    events = await saver.events(tree, "resume", thread, "3")
    expect([each.text for each in events if each.kind == "message"][-1:], ["3"], "the last answer")
    saver.expect_runs("desk/worker")
    await _in_a_loop(saver)
    await _in_a_tool(saver)


async def _in_a_loop(saver: Checked) -> None:
    tree, thread = loop("l", [saver.works("a"), human("h", "Well?")], max_iterations=2), saver.thread()
    await saver.events(tree, "run", "Go.", thread_id=thread)
    for number in range(2):
        asked = await saver.call(tree, "pending", thread)
        expect([each.address for each in asked], [f"l[{number}]/h"], "the question of a loop is at")
        await saver.events(tree, "resume", thread, "yes")
    saver.expect_runs("l[0]/a", "l[1]/a")


class _Model(FakeMessagesListChatModel):
    def bind_tools(self, *args: Any, **options: Any) -> Any:
        return self


def ask(text: str) -> str:
    """Ask a person."""
    return str(interrupt(text))


async def _in_a_tool(saver: Checked) -> None:
    def tree() -> Agent:
        both = [
            ToolCall(name="ask", args={"text": text}, id=text, type="tool_call")
            for text in ("A?", "B?")
        ]
        script = [AIMessage("", tool_calls=both), AIMessage("Done.")]
        return chat_agent("c", _Model(responses=[*script]), tools=[ask])

    thread, agent = saver.thread(), tree()
    await saver.events(agent, "run", "Go.", thread_id=thread)
    asked = await saver.call(agent, "pending", thread)
    expect([each.value for each in asked], ["A?", "B?"], "the questions of tools are")
    given = {each.id: each.value.lower() for each in asked}
    events = await saver.events(agent, "resume", thread, given)
    said = sorted(each.text for each in events if each.kind == "message")
    expect(said, ["Done.", "a?", "b?"], "the results of tools are")


def _kept(events: Iterable[AgentEvent]) -> list[tuple[str, str, str]]:
    left = ("discarded", "interrupted")
    return sorted((each.address, each.kind, each.text) for each in events if each.kind not in left)


async def replay(saver: Checked) -> None:
    """Compare the events that were streamed with those that the thread has."""
    items = each("items", saver.works("item"), lambda ctx: ["x", "y", "z"])
    tree = sequential(
        "s", [loop("l", [saver.works("a"), saver.works("b")], max_iterations=2), _desk(saver), items]
    )
    thread = saver.thread()
    streamed = await saver.events(tree, "run", "Go.", thread_id=thread)
    for answer in ({"s/desk/one": "1"}, {"s/desk/q/two": "yes"}, "3"):
        paused = await saver.events(tree, "events", thread)
        expect(_kept(paused), _kept(streamed), "the events of the paused thread are")
        streamed += await saver.events(tree, "resume", thread, answer)
    told = await saver.events(tree, "events", thread)
    expect(_kept(told), _kept(streamed), "the events of the thread are")
    asked = [each.address for each in told if each.kind == "interrupted"]
    expect(sorted(asked), ["s/desk/one", "s/desk/q/three", "s/desk/q/two"], "its questions are at")


async def rewind(saver: Checked) -> None:
    """Go back into a loop, and to a question of a branch, which gets another answer."""
    refine = loop("refine", [saver.works("a"), saver.works("b")], max_iterations=3)
    tree: Agent = sequential("s", [refine, saver.works("last")])
    thread = saver.thread()
    await saver.events(tree, "run", "Go.", thread_id=thread)
    saver.ran.clear()
    await saver.events(tree, "rewind", thread, "s/refine[1]/b")
    saver.expect_runs("s/refine[1]/b", "s/refine[2]/a", "s/refine[2]/b", "s/last")
    told = [each.address for each in await saver.events(tree, "events", thread)]
    expect(len(told), 7, "the number of events after the rewind")
    tree, thread = _desk(saver), saver.thread()
    await saver.events(tree, "run", "Go.", thread_id=thread)
    await saver.events(tree, "resume", thread, {"desk/one": "1", "desk/q/two": "yes"})
    await saver.events(tree, "resume", thread, "3")
    saver.ran.clear()
    await saver.events(tree, "rewind", thread, "desk/q/two", answers="no")
    asked = await saver.call(tree, "pending", thread)
    expect([each.address for each in asked], ["desk/q/three"], "after the rewind the questions are at")
    await saver.events(tree, "resume", thread, "4")
    texts = [each.text for each in await saver.events(tree, "events", thread) if each.kind == "message"]
    expect(sorted(texts), ["1", "4", "no", "worker worked"], "the answers after the rewind are")
    saver.expect_runs()


async def copy(saver: Checked) -> None:
    """Copy a thread that waits for answers, and answer on the copy."""
    tree, thread, to = _desk(saver), saver.thread(), saver.thread()
    await saver.events(tree, "run", "Go.", thread_id=thread)
    saver.ran.clear()
    await saver.call(tree, "copy", thread, to)
    asked = [each.address for each in await saver.call(tree, "pending", to)]
    expect(asked, ["desk/one", "desk/q/two"], "the questions of the copy are at")
    await saver.events(tree, "resume", to, {"desk/one": "1", "desk/q/two": "yes"})
    asked = [each.address for each in await saver.call(tree, "pending", to)]
    expect(asked, ["desk/q/three"], "the questions of the copy are at")
    asked = [each.address for each in await saver.call(tree, "pending", thread)]
    expect(asked, ["desk/one", "desk/q/two"], "the questions of the first thread are at")
    saver.expect_runs()


async def threads(saver: Checked) -> None:
    """List threads, newest first."""
    tree = human("h", "Well?")
    made = [saver.thread() for _ in range(3)]
    for thread in made:
        await saver.events(tree, "run", "Go.", thread_id=thread)
    await saver.events(tree, "resume", made[0], "yes")
    listed = await saver.call(tree, "threads")
    found = [(each.thread_id, each.status) for each in listed if each.thread_id in made]
    expected = [(made[2], "paused"), (made[1], "paused"), (made[0], "done")]
    expect(found, expected, "the threads are")


async def delete(saver: Checked) -> None:
    """Delete a thread, and use its id for a new one."""
    tree, thread = _desk(saver), saver.thread()
    await saver.events(tree, "run", "Go.", thread_id=thread)
    await saver.call(tree, "delete", thread)
    with suppress(UnknownThreadError):
        await saver.call(tree, "pending", thread)
        raise Lost("the deleted thread is still there")
    saver.ran.clear()
    await saver.events(tree, "run", "Go.", thread_id=thread)
    events = await saver.events(tree, "events", thread)
    said = [each for each in events if each.kind == "message"]
    expect(len(said), 1, "messages on a thread that was deleted and begun again")
    saver.expect_runs("desk/worker")


async def fail_and_resume(saver: Checked) -> None:
    """Fail in a branch, in a loop and in an item; resume runs what failed, and nothing else."""
    both = [saver.works("done"), saver.works("flaky", fails=1)]
    branches = parallel("p", both, max_concurrency=1)
    tree: Agent = sequential("s", [saver.works("first"), branches, saver.works("last")])
    thread = saver.thread()
    await _fails(saver, tree, thread)
    saver.expect_runs("s/first", "s/p/done", "s/p/flaky")
    await saver.events(tree, "resume", thread)
    saver.expect_runs("s/p/flaky", "s/last")
    items = each("e", saver.works("item", fails=1), lambda ctx: [*range(_MANY)], max_concurrency=1)
    thread = saver.thread()
    await _fails(saver, items, thread)
    done = [*saver.ran]
    await saver.events(items, "resume", thread)
    failed = sum(saver.ran.count(address) - 1 for address in {*saver.ran})
    if failed > 1:
        raise Lost(f"{failed} of {_MANY} items ran again after one had failed, of {len(done)} that ran")


async def _fails(saver: Checked, tree: Agent, thread: str) -> None:
    try:
        await saver.events(tree, "run", "Go.", thread_id=thread)
    except OSError:
        return
    raise Lost("the failure of an agent did not end the run")


class _Seen(MessagesState):
    seen: Annotated[list[int], operator.add]


def _fanning() -> Any:
    builder = StateGraph(_Seen)
    sends = [Send("work", {"number": number}) for number in range(_MANY)]
    builder.add_node("fan", lambda state: Command(goto=sends))
    builder.add_node("wait", lambda state: {"messages": [AIMessage(interrupt("Well?"))]})
    builder.add_node("work", lambda state: {"seen": [state["number"]]})
    builder.add_node("say", lambda state: {"messages": [AIMessage(str(state["seen"]))]})
    builder.add_edge(START, "fan")
    builder.add_edge(START, "wait")
    builder.add_edge("work", "say")
    return builder.compile()


async def order(saver: Checked) -> None:
    """Read more than ten writes of one task after a pause, in the order in which they were saved."""
    tree, thread = graph_agent("g", _fanning()), saver.thread()
    await saver.events(tree, "run", "Go.", thread_id=thread)
    events = await saver.events(tree, "resume", thread, "yes")
    texts = [each.text for each in events if each.kind == "message"]
    expect(texts[-1:], [str([*range(_MANY)])], "the results are in the order")


async def types(saver: Checked) -> None:
    """Write values, pause, and read them."""
    read: dict[str, object] = {}

    def reads(ctx: Context) -> str:
        read.update({name: ctx.values[name] for name in VALUES})
        return "Read."

    tree = sequential(
        "s",
        [
            function_agent("w", lambda ctx: SetValues(**VALUES)),
            human("h", "Well?"),
            function_agent("r", reads),
        ],
    )
    thread = saver.thread()
    await saver.events(tree, "run", "Go.", thread_id=thread)
    await saver.events(tree, "resume", thread, "yes")
    differing = {
        name: read.get(name)
        for name, value in VALUES.items()
        if type(read.get(name)) is not type(value) or read.get(name) != value
    }
    if differing:
        found = ", ".join(f"{VALUES[name]!r} came back as {got!r}" for name, got in differing.items())
        raise Lost(found)


CHECKS: Mapping[str, Check] = {
    "answers": answers,
    "replay": replay,
    "rewind": rewind,
    "copy": copy,
    "threads": threads,
    "delete": delete,
    "fail and resume": fail_and_resume,
    "order": order,
    "types": types,
}
"""The checks that need one process, by the ability that they try."""
