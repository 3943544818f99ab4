"""`get_state(subgraphs=True)` has the lanes of forks, calls and items."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from helpers import Async, Drive, asks, chat, fails, says
from helpers.databases import asaver_at, saver_at
from langchain.agents.middleware import ToolRetryMiddleware
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, StateSnapshot, interrupt

import agentgraph as ag
from agentgraph.testing import call, calls

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Thread:
    """A thread of a tree, driven sync or async, in memory or on a SQLite file."""

    def __init__(self, tree: ag.Agent, drive: Drive, path: Path | None) -> None:
        self.tree, self.drive, self.path, self.memory = tree, drive, path, InMemorySaver()

    def use(self, method: str, *args: Any, **options: Any) -> Any:
        """Call a method of the compiled graph, or its async twin."""
        if self.drive is Async:
            return asyncio.run(self._ause(f"a{method}", *args, **options))
        if self.path is None:
            return getattr(ag.compile_agent(self.tree, checkpointer=self.memory), method)(
                *args, **options
            )
        with saver_at(self.path) as saver:
            return getattr(ag.compile_agent(self.tree, checkpointer=saver), method)(*args, **options)

    async def _ause(self, method: str, *args: Any, **options: Any) -> Any:
        async with nullcontext(self.memory) if self.path is None else asaver_at(self.path) as saver:
            graph = ag.compile_agent(self.tree, checkpointer=saver)
            return await getattr(graph, method)(*args, **options)

    def run(self, given: Any = None) -> StateSnapshot:
        """Run the graph up to its questions or a failure, and return its state."""
        with suppress(ValueError):
            self.use("invoke", given or {"messages": "Go."}, CONFIG)
        return self.state()

    def state(self, config: Any = CONFIG) -> StateSnapshot:
        found: StateSnapshot = self.use("get_state", config, subgraphs=True)
        return found


@pytest.fixture(params=["memory", "SQLite"])
def thread_of(
    request: pytest.FixtureRequest, drive: Drive, tmp_path: Path
) -> Callable[[ag.Agent], Thread]:
    path = tmp_path / "threads.db" if request.param == "SQLite" else None
    return lambda tree: Thread(tree, drive, path)


ThreadOf = Callable[[ag.Agent], Thread]


def outline(state: Any, depth: int = 0) -> Iterator[str]:
    """Yield what a state shows: its tasks with their words, and what waits in them."""
    for task in state.tasks:
        inner = task.state if isinstance(task.state, StateSnapshot) else None
        said = [each.text for each in (inner.values.get("messages", []) if inner else [])]
        next_nodes = f" -> {', '.join(inner.next)}" if inner and inner.next else ""
        asked = f" asks {len(task.interrupts)}" if task.interrupts else ""
        ended = " ended" if task.result is not None else ""
        yield f"{'  ' * depth}{task.name} {said}{next_nodes}{asked}{ended}".replace(" []", "")
        if inner:
            yield from outline(inner, depth + 1)


def questions(state: StateSnapshot, name: str) -> Iterator[str]:
    """Yield the ids of the questions of tasks with a name."""
    for task in state.tasks:
        if task.name == name:
            yield task.interrupts[0].id
        elif isinstance(task.state, StateSnapshot):
            yield from questions(task.state, name)


def branch(name: str) -> ag.Agent:
    return ag.sequential(name, [says(f"{name}_say", f"{name} said."), asks(f"{name}_ask")])


def calling() -> ag.Agent:
    both = calls(call("left", "1", request="x"), call("right", "2", request="y"), call("ask", "3"))

    def ask() -> str:
        """Ask."""
        return str(interrupt("May I?"))

    tools = [ag.agent_tool(branch("left")), ag.agent_tool(branch("right")), ask]
    return chat("boss", both, "Done.", tools=tools)


async def runs_two(ctx: ag.Context) -> str:
    await asyncio.gather(ctx.run("left", "x"), ctx.run("left", "y", key="bees"))
    return "Done."


def running() -> ag.Agent:
    return ag.function_agent("boss", runs_two, agents=[branch("left")])


def nested() -> ag.Agent:
    inner = ag.parallel("inner", [branch("left"), branch("right")])
    return ag.parallel("outer", [ag.sequential("s", [says("first"), inner]), says("fast")])


def stepped() -> ag.Agent:
    steps = [
        ag.step(says("late"), depends_on=["left"]),
        ag.step(branch("left")),
        ag.step(says("fast"), compensate=says("undo")),
    ]
    return ag.workflow("flow", steps)


def items() -> ag.Agent:
    return ag.each("all", branch("left"), lambda ctx: ["a", "b"])


def swarmed() -> ag.Agent:
    team = ag.swarm("team", [chat("ann", calls(call("transfer_to_bob"))), branch_of_swarm()])
    return ag.parallel("both", [team, says("fast")])


def branch_of_swarm() -> ag.Agent:
    return ag.function_agent("bob", asking)


def asking(ctx: ag.Context) -> str | ag.Ask:
    return "bob" if ctx.answered else ag.Ask("?")


LEFT = ["left ['left said.'] -> left_ask asks 1", "  left_ask asks 1"]
RIGHT = ["right ['right said.'] -> right_ask asks 1", "  right_ask asks 1"]


def inside(*several: list[str]) -> list[str]:
    return [f"  {line}" for lines in several for line in lines]


PAUSED: dict[str, tuple[Callable[[], ag.Agent], list[str]]] = {
    "parallel": (
        lambda: ag.parallel("both", [branch("left"), branch("right"), says("fast")]),
        ["both -> left, right asks 2", *inside(LEFT, RIGHT, ["fast ['fast'] ended"])],
    ),
    "each": (items, ["all -> left, left asks 2", *inside(LEFT, LEFT)]),
    "workflow": (stepped, ["flow -> left asks 1", *inside(LEFT, ["fast ['fast'] ended"])]),
    "tools": (
        calling,
        ["boss.tools -> left, right, boss.call asks 3", *inside(LEFT, RIGHT, ["boss.call asks 1"])],
    ),
    "nested": (
        nested,
        [
            "outer -> s asks 2",
            "  s ['first'] -> inner asks 2",
            "    inner -> left, right asks 2",
            *inside(inside(inside(LEFT, RIGHT))),
            "  fast ['fast'] ended",
        ],
    ),
}


@pytest.mark.parametrize(("make", "shown"), PAUSED.values(), ids=PAUSED)
def test_a_paused_node_shows_its_lanes(
    thread_of: ThreadOf, make: Callable[[], ag.Agent], shown: list[str]
) -> None:
    state = thread_of(make()).run()
    assert [*outline(state)] == shown
    assert len(state.interrupts) == len(state.tasks[0].state.interrupts)  # type: ignore[union-attr]


def test_a_function_shows_the_agents_that_it_runs(drive: Drive) -> None:
    state = Thread(running(), Async, None).run()
    assert [*outline(state)] == ["boss -> left, left asks 2", *inside(LEFT, LEFT)]


def test_a_swarm_in_a_branch_shows_where_it_is(thread_of: ThreadOf) -> None:
    shown = [*outline(thread_of(swarmed()).run())]
    assert shown[0] == "both -> team asks 1"
    assert shown[1].endswith("-> bob.ask asks 1")


@pytest.mark.parametrize("name", ["parallel", "each", "nested", "tools"])
def test_after_an_answer_to_one_question_the_others_stay(thread_of: ThreadOf, name: str) -> None:
    make, before = PAUSED[name]
    thread = thread_of(make())
    first = next(questions(thread.run(), "left_ask"))
    shown = [*outline(thread.run(Command(resume={first: "yes"})))]
    assert (
        sum(line.strip() == "left_ask asks 1" for line in shown)
        == sum(line.strip() == "left_ask asks 1" for line in before) - 1
    )
    (ended,) = [line for line in shown if "yes" in line]
    assert ended.strip() == "left ['left said.', 'yes'] ended"
    thread.run(Command(resume={each.id: "yes" for each in thread.state().interrupts}))
    assert [*outline(thread.state())] == []


def test_without_subgraphs_the_tasks_say_where_their_states_are(thread_of: ThreadOf) -> None:
    thread = thread_of(PAUSED["nested"][0]())
    thread.run()
    (task,) = thread.use("get_state", CONFIG).tasks
    picture: StateSnapshot = thread.use("get_state", task.state)
    assert picture.next == ("s",)
    lane, fast = picture.tasks
    state: StateSnapshot = thread.use("get_state", lane.state)
    assert [each.text for each in state.values["messages"]] == ["first"]
    assert thread.use("get_state", fast.state).next == ()
    (inner,) = thread.state(lane.state).tasks
    assert [*outline(inner.state)] == [*LEFT, *RIGHT]


def test_an_earlier_checkpoint_shows_the_lanes_of_its_step(thread_of: ThreadOf) -> None:
    tree = ag.loop("l", [ag.parallel("both", [branch("left"), says("fast")])], max_iterations=2)
    thread = thread_of(tree)
    first = thread.run()
    second = thread.run(Command(resume="one"))
    assert [*outline(second)][1] == "  left ['left said.'] -> left_ask asks 1"
    before = [*outline(thread.state(first.config))]
    assert before[1:] == ["  left ['left said.', 'one'] ended", "  fast ['fast'] ended"]


def test_a_failed_branch_shows_its_error_and_the_others_what_they_said(thread_of: ThreadOf) -> None:
    bad = ag.sequential("bad", [says("first"), fails("bang", times=9)])
    state = thread_of(ag.parallel("both", [bad, branch("left")], on_error="fail")).run()
    both = state.tasks[0].state
    assert isinstance(both, StateSnapshot)
    failed = both.tasks[0]
    assert "bang failed" in str(failed.error)
    assert isinstance(failed.state, StateSnapshot)
    assert [each.text for each in failed.state.values["messages"]] == ["first"]


def test_a_run_that_was_left_shows_what_its_lanes_have_saved(drive: Drive) -> None:
    """As after a kill: the step has saved nothing of the lane that runs."""
    saver, seen = InMemorySaver(), []

    def look(ctx: ag.Context) -> str:
        state = graph.get_state(CONFIG, subgraphs=True)
        seen.extend(outline(state))
        return "looked"

    slow = ag.sequential("slow", [says("first"), ag.function_agent("look", look)])
    for tree in (
        ag.parallel("both", [slow, says("fast")]),
        ag.each("both", slow, lambda ctx: [1]),
        chat("both", calls(call("slow", request="x")), "Done.", tools=[ag.agent_tool(slow)]),
    ):
        saver, seen[:] = InMemorySaver(), []
        graph: Any = ag.compile_agent(tree, checkpointer=saver)
        if drive is Async:
            asyncio.run(graph.ainvoke({"messages": "Go."}, CONFIG, durability="sync"))
        else:
            graph.invoke({"messages": "Go."}, CONFIG, durability="sync")
        assert "  slow ['first'] -> look" in seen


def test_the_last_attempt_of_a_call_is_shown(thread_of: ThreadOf) -> None:
    worker = ag.sequential("worker", [fails("bang"), says("good"), asks("boss")])
    retry = ToolRetryMiddleware(max_retries=2, initial_delay=0, jitter=False)
    tree = chat(
        "ann", calls(call("worker", request="x")), tools=[ag.agent_tool(worker)], middleware=[retry]
    )
    assert [*outline(thread_of(tree).run())][1] == "  worker ['bang', 'good'] -> boss asks 1"


def test_a_rewound_step_shows_its_lanes(drive: Drive) -> None:
    runner = ag.Runner(ag.parallel("both", [branch("left"), branch("right")]))
    list(drive.run(runner, "Go.", thread_id="t"))
    list(runner.rewind("t", "both/left/left_say"))
    assert [*outline(runner.graph.get_state(CONFIG, subgraphs=True))][1:] == inside(LEFT, RIGHT)


def test_items_that_are_one_leaf_show_what_they_said(thread_of: ThreadOf) -> None:
    worker = ag.function_agent("read", lambda ctx: asking(ctx) if ctx.item.value == "b" else "read")
    shown = [*outline(thread_of(ag.each("all", worker, lambda ctx: ["a", "b", "c"])).run())]
    assert shown[1:] == [
        "  read ['read'] ended",
        "  read -> read.ask asks 1",
        "    read.ask asks 1",
        "  read ['read'] ended",
    ]
