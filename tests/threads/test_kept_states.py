"""Graphs with `checkpointer=True` on lines, copies and forks: each goes on from what its line has done.

The graphs count their visits, so on any line each has said "visit 0", "visit 1", ... in order.
"""

import asyncio
import operator
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import pytest
from helpers import asks, says
from helpers.databases import Databases
from helpers.sampling import ALL_WAYS
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

import agentgraph as ag
from agentgraph.journal.savers.opening import open_saver
from agentgraph.testing import ScriptedChatModel, call, calls


class Visits(MessagesState):
    log: Annotated[list[int], operator.add]


def visit(state: Visits) -> Any:
    number = len(state.get("log") or [])
    return {"log": [number], "messages": [AIMessage(f"visit {number}")]}


def graph(*, asks_too: bool = False) -> Any:
    builder = StateGraph(Visits).add_node("a", visit).add_edge(START, "a")
    if asks_too:
        builder.add_node("q", lambda state: {"messages": [AIMessage(f"heard {interrupt('Well?')}")]})
        builder.add_edge("a", "q")
    return builder.compile(checkpointer=True)


def kept(name: str, *, asks_too: bool = False) -> ag.Agent:
    return ag.graph_agent(name, graph(asks_too=asks_too))


def around(*, flat: bool) -> ag.Agent:
    builder = StateGraph(MessagesState).add_node("inner", graph()).add_edge(START, "inner")
    return ag.graph_agent("o", builder.compile(), flat=flat)


def seq(name: str, *agents: ag.Agent) -> ag.Agent:
    return ag.sequential(name, list(agents))


def par(name: str, *agents: ag.Agent) -> ag.Agent:
    return ag.parallel(name, list(agents))


def loop(name: str, *agents: ag.Agent) -> ag.Agent:
    return ag.loop(name, list(agents), max_iterations=4)


def calling() -> ag.Agent:
    def respond(messages: Any) -> Any:
        made = sum(each.type == "tool" for each in messages)
        return calls(call("t", request=str(made))) if made < 3 else "Done."

    tool = ag.agent_tool(seq("t", kept("g"), asks("h")))
    return ag.chat_agent("c", ScriptedChatModel(responses=respond), tools=[tool])


def running() -> ag.Agent:
    def fn(ctx: ag.Context) -> str:
        return " ".join(str(ctx.run("t", str(number))) for number in range(3))

    return ag.function_agent("f", fn, agents=[seq("t", kept("g"), asks("h"))])


def working() -> ag.Agent:
    first, second = ag.step(kept("g1")), seq("x", kept("g2"), asks("h2"))
    third = ag.step(seq("u", asks("h3"), kept("g3")))
    return loop("l", ag.workflow("w", [first, ag.step(second, depends_on=["g1"]), third]))


TREES: dict[str, Callable[[], ag.Agent]] = {
    "a loop": lambda: loop("l", kept("g"), asks("h")),
    "loops in branches": lambda: seq(
        "s",
        par("p", loop("b1", kept("g1"), asks("h1")), loop("b2", kept("g2"), asks("h2"))),
        asks("z"),
    ),
    "branches in a loop": lambda: loop(
        "l", par("p", seq("b1", kept("g1"), asks("h1"), kept("g3")), seq("b2", kept("g2"), asks("h2")))
    ),
    "graphs as branches": lambda: loop(
        "l", par("p", kept("g1"), kept("g2"), seq("q", says("y"), asks("h")))
    ),
    "forks in forks": lambda: loop(
        "l",
        par(
            "p",
            seq("b1", kept("g1"), par("i", seq("c1", asks("h1"), kept("g3")), kept("g4"))),
            loop("b2", kept("g2"), asks("h2")),
        ),
    ),
    "a graph that asks": lambda: loop("l", kept("g", asks_too=True), says("y")),
    "graphs that ask in branches": lambda: loop(
        "l",
        par(
            "p",
            kept("g1", asks_too=True),
            seq("b2", kept("g2"), asks("h2"), kept("g3", asks_too=True)),
        ),
    ),
    "a workflow": working,
    "a tool": calling,
    "a run": running,
    "inside a graph": lambda: loop("l", around(flat=False), asks("h")),
    "inside a flat graph": lambda: loop("l", around(flat=True), asks("h")),
}


class Played:
    """A thread in a saver, by sync or async calls of a new runner each."""

    def __init__(self, tree: ag.Agent, place: Any, *, is_async: bool = False) -> None:
        self.tree, self.place, self.is_async, self.thread_id = tree, place, is_async, "t"

    def call(self, name: str, *args: Any, **more: Any) -> Any:
        with open_saver(self.place) as saver:
            return self.call_on(saver, name, *args, **more)

    def call_on(self, saver: Any, name: str, *args: Any, **more: Any) -> Any:
        runner = ag.Runner(self.tree, checkpointer=saver)
        if not self.is_async:
            result = getattr(runner, name)(*args, **more)
            return list(result) if hasattr(result, "__next__") else result
        return asyncio.run(self._acall(getattr(runner, f"a{name}")(*args, **more)))

    @staticmethod
    async def _acall(result: Any) -> Any:
        return [each async for each in result] if hasattr(result, "__anext__") else await result

    def resume(self) -> None:
        """Answer a question, or resume what is not done."""
        thread = self.call("thread", self.thread_id)
        if thread.pending:
            self.call("resume", self.thread_id, {thread.pending[0].id: "x"})
        elif thread.status != "done":
            self.call("resume", self.thread_id)

    def check(self) -> None:
        said: dict[str, list[str]] = defaultdict(list)
        for event in self.call("events", self.thread_id):
            if event.text.startswith("visit"):
                said[re.sub(r"\([^()]*\)|\[\d+\]|\{\d+\}", "", event.address)].append(event.text)
        for address, texts in said.items():
            assert texts == [f"visit {number}" for number in range(len(texts))], address

    def visits(self) -> list[ag.Visit]:
        visits: list[ag.Visit] = self.call("visits", self.thread_id)
        return visits


def wander(thread: Played, choices: random.Random, acts: int) -> None:
    """Go back, to older lines too, on and to copies, at random; each line counts its own visits."""
    thread.call("run", "Go.", thread_id="t")
    known: dict[str, ag.Visit] = {}
    for number in range(acts):
        here = thread.visits()
        known |= {each.step: each for each in here}
        act = choices.choice(("go on", "go on", "rewind", "rewind", "undo", "copy"))
        siblings = choices.choice(("keep", "keep", "rerun"))
        match act:
            case "go on":
                thread.resume()
            case "copy":
                to = f"t{number}"
                thread.call("copy", thread.thread_id, to, at=choices.choice(here).step)
                thread.thread_id, known = to, {}
                thread.resume()
            case _:
                at = choices.choice([*known] if act == "undo" else [each.step for each in here])
                thread.call("rewind", thread.thread_id, at, siblings=siblings)
        thread.check()


@pytest.mark.by_turns  # so that `make properties` has it wander further
@pytest.mark.parametrize(("nth", "tree"), [*enumerate(TREES)], ids=TREES)
def test_each_line_counts_its_own_visits(nth: int, tree: str, tmp_path: Path) -> None:
    thread = Played(TREES[tree](), tmp_path / "t.db", is_async=nth % 2 == 1)
    wander(thread, random.Random(nth), 10 if ALL_WAYS else 5)


@pytest.mark.parametrize("tree", ["branches in a loop", "graphs that ask in branches"])
def test_each_line_counts_its_own_visits_in_postgresql(tree: str, databases: Databases) -> None:
    wander(Played(TREES[tree](), databases.make()), random.Random(1), 5)


@pytest.mark.parametrize("at", ["l[0]/g", "l[1]/g", "l[1]/h", "l[0]/h"])
def test_an_undo_goes_on_where_the_old_line_was(at: str) -> None:
    runner = ag.Runner(TREES["a loop"]())
    list(runner.run("Go.", thread_id="t"))
    for answer in ("0", "1"):
        list(runner.resume("t", answer))
    old = {each.address: each.step for each in runner.visits("t")}
    for _ in range(2):  # the second one is an undo of an undo
        new = [each.text for each in runner.rewind("t", at) if each.text.startswith("visit")]
        assert new[:1] in ([], [f"visit {at[2]}"])
        back = {each.address: each.step for each in runner.visits("t")}
        undone = list(runner.rewind("t", old["l[2]/h"], answers="2"))
        assert [each.text for each in undone if each.text.startswith("visit")][-1] == "visit 3"
        list(runner.rewind("t", back[at]))
        list(runner.rewind("t", old["l[2]/g"]))
        assert [each.text for each in runner.events("t")][-2:] == ["visit 2", ""]


def test_forks_and_copies_go_on_where_their_line_was() -> None:
    tree = TREES["branches in a loop"]
    runner = ag.Runner(tree())
    list(runner.run("Go.", thread_id="t"))
    for _ in range(3):
        list(runner.resume("t", {runner.pending("t")[0].id: "x"}))
    forks = runner.fork_many("t", "l[1]/p/b2/h2", {"a": {"answers": "1"}, "b": {"siblings": "rerun"}})
    for name in forks:
        texts = [each.text for each in runner.events(f"t-{name}") if each.address.endswith("/g1")]
        assert texts[:2] == ["visit 0", "visit 1"]
    assert [each.text for each in runner.events("t") if each.address.endswith("/g3")] == [
        "visit 0",
        "visit 1",
    ]


class Killed(BaseException):
    """Stands for the end of a process: nothing is saved after it."""


@contextmanager
def dying(saver: Any, left: int) -> Iterator[None]:
    """Have a saver fail for good behind its k-th save."""
    saves = {name: getattr(saver, name) for name in ("put", "put_writes")}

    def saving(name: str) -> Callable[..., Any]:
        def save(*args: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return saves[name](*args, **more)

        return save

    for name in saves:
        setattr(saver, name, saving(name))
    yield


@pytest.mark.by_turns("kills")
@pytest.mark.parametrize("kills", [(0, 2, 5), (1, 3, 9)])
@pytest.mark.parametrize(
    ("tree", "at", "runs_async"),
    [
        ("a loop", "l[0]/g", False),
        ("a loop", "l[1]/g", True),
        ("branches in a loop", "l[0]/p/b2/g2", False),
        ("branches in a loop", "l[0]/p/b1/h1", True),
    ],
)
def test_a_rewind_that_is_killed_leaves_each_line_its_state(
    tree: str, at: str, runs_async: bool, kills: tuple[int, ...], tmp_path: Path
) -> None:
    begun = Played(TREES[tree](), tmp_path / "begun.db", is_async=runs_async)
    begun.call("run", "Go.", thread_id="t")
    for _ in range(2):
        begun.resume()
    last = begun.visits()[-1]
    for left in kills:
        place = tmp_path / f"{left}.db"
        with open_saver(begun.place) as old, open_saver(place) as new:
            old.conn.backup(new.conn)
        thread = Played(begun.tree, place, is_async=runs_async)
        with open_saver(place) as saver, suppress(Killed, ag.SaverError), dying(saver, left):
            thread.call_on(saver, "rewind", "t", at)
        thread.resume()
        thread.check()
        thread.call("rewind", "t", last.step)
        thread.resume()
        thread.check()
