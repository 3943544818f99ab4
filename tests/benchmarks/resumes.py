"""What a resume costs for each branch or tool call that had finished, when only a question is left."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from loops import HELLO, TEXT, THREAD, Opened, savers, says
from measure import Contender, Figure, seconds

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel

_FEW, _MANY, _REPEATS = 50, 800, 3


def figures() -> Iterator[Figure]:
    """Time resumes with many finished branches or calls, and with few."""
    with TemporaryDirectory() as folder:
        for saver, opened in savers(Path(folder)).items():
            for name, made in (("a branch", branches), ("a tool call", calls), ("an item", items)):
                few, many = (
                    min(seconds(contender(made, n, opened)) for _ in range(_REPEATS))
                    for n in (_FEW, _MANY)
                )
                yield Figure(
                    name=f"resume with {_MANY} finished, {name}, {saver}",
                    ours=(many - few) / (_MANY - _FEW),
                    unit="ms",
                    aim=0.001,
                )


def branches(count: int) -> ag.Agent:
    """Return a parallel of which one branch asks."""
    return ag.parallel("p", [*(says(f"a{i}") for i in range(count)), ag.human("boss", "Print it?")])


def items(count: int) -> ag.Agent:
    """Return an `each` of which one item asks."""

    def read(ctx: ag.Context) -> Any:
        return TEXT if ctx.answered or ctx.item.value else ag.Ask("Print it?")

    names = [*range(1, count + 1), 0]
    return ag.each("e", ag.function_agent("read", read), lambda ctx: names, output_key="out")


def calls(count: int) -> ag.Agent:
    """Return a chat agent that calls a tool many times, and one that asks."""

    def look(word: str) -> str:
        """Look a word up."""
        return word

    def ask(word: str) -> Any:
        """Ask the user."""
        return interrupt(word)

    wanted = [("look", f"{i}") for i in range(count)] + [("ask", "x")]
    made = [{"name": name, "args": {"word": word}, "id": f"{name}{word}"} for name, word in wanted]
    answers = [AIMessage("", tool_calls=made), AIMessage("Done.")]
    return ag.chat_agent("c", ScriptedChatModel(responses=answers), tools=[look, ask])


def contender(made: Callable[[int], ag.Agent], count: int, opened: Opened) -> Contender:
    """Run until the question; the call that is measured answers it."""

    @contextmanager
    def resumed() -> Iterator[Callable[[], Any]]:
        with opened() as saver:
            runner = ag.Runner(made(count), checkpointer=saver)
            list(runner.run("hi", thread_id="t"))
            yield lambda: list(runner.resume("t", "yes"))

    return resumed


def in_memory(count: int) -> Contender:
    """Resume a parallel in memory."""
    return contender(branches, count, lambda: nullcontext(InMemorySaver()))


def by_hand(count: int) -> Contender:
    """Resume a graph whose node calls LangGraph's tasks, and asks."""

    def node(state: MessagesState) -> Any:
        said = [each(i) for i in range(count)]
        return {"messages": [*(future.result() for future in said), AIMessage(interrupt("ok?"))]}

    @task
    def each(number: int) -> AIMessage:
        return AIMessage(f"{number} {TEXT}")

    @contextmanager
    def resumed() -> Iterator[Callable[[], Any]]:
        builder = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node")
        graph = builder.compile(checkpointer=InMemorySaver())
        graph.invoke(HELLO, THREAD)
        yield lambda: list(graph.stream(Command(resume="yes"), THREAD))

    return resumed
