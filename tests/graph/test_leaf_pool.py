"""A leaf that is a whole lane runs without a task of LangGraph: what is seen of it stays the same.

LangGraph calls the tasks of a node where the graph has a policy for retries; so one that never applies
shows what each way saves, streams and tells.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from helpers import Drive, Sync, asks, chat, collect, fails, fresh, says
from langchain_core.callbacks import BaseCallbackHandler
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.func import task
from langgraph.types import Command, RetryPolicy, interrupt

import agentgraph as ag
from agentgraph.events.translation import STREAM_MODES
from agentgraph.graph import leaf_tasks

NEVER = RetryPolicy(retry_on=lambda error: False)
GO: Any = {"messages": ["Go."], "values": {"names": ["a", "b", "c"]}}


def named(ctx: ag.Context) -> str:
    return f"{ctx.item.value}."


def keyed() -> ag.Agent:
    worker = ag.function_agent("read", named, output_key="text")
    return ag.each("files", worker, "names", key=str, output_key="out")


def requested() -> ag.Agent:
    worker = chat("read", *["Fine."] * 3)
    return ag.each("files", worker, "names", input=lambda ctx: f"{ctx.item.value}?")


def collected() -> ag.Agent:
    def fn(ctx: ag.Context) -> str:
        if ctx.item.value == "b":
            raise ValueError("no b")
        return ctx.item.value

    worker = ag.function_agent("read", fn)
    return ag.each("files", worker, "names", on_error="collect", errors_key="errors")


def branches() -> ag.Agent:
    return ag.parallel("both", [says("left"), chat("right", "Right.", "Right.")])


def steps() -> ag.Agent:
    return ag.workflow("flow", [ag.step(says("first")), ag.step(says("then"), depends_on=["first"])])


KINDS: dict[str, Callable[[], ag.Agent]] = {
    "each": lambda: ag.each("files", ag.function_agent("read", named), "names", output_key="out"),
    "each with keys": keyed,
    "each of a chat agent with an input": requested,
    "each that collects failures": collected,
    "parallel": branches,
    "workflow": steps,
    "each in parallel": lambda: ag.parallel("both", [keyed(), says("left")]),
    "parallel in a loop": lambda: ag.loop("twice", [branches()], max_iterations=2),
}


class Heard(BaseCallbackHandler):
    """Notes the runs that tracers see, each with those around it, its tags and metadata."""

    run_inline = True

    def __init__(self) -> None:
        self.runs: dict[Any, tuple[str, Any, Any]] = {}

    def on_chain_start(
        self, _: Any, inputs: Any, *, run_id: Any, parent_run_id: Any = None, **run: Any
    ) -> None:
        told = sorted(run["tags"]), sorted(run["metadata"].items())
        self.runs[run_id] = run["name"], parent_run_id, told

    def lines(self) -> list[str]:
        return sorted(
            f"{' > '.join(self._names(run))}: {alike(told)}" for run, (*_, told) in self.runs.items()
        )

    def _names(self, run: Any) -> Iterator[str]:
        if run is not None:
            name, parent, _ = self.runs[run]
            yield from self._names(parent)
            yield name


def alike(value: object) -> str:
    """Return a text of a value in which ids, times and names of steps are the same in each run."""
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|[0-9a-f]{32}", "ID", repr(value))
    text = re.sub(r"\d{13,}|\d+\.\d{3,}|0x[0-9a-f]+", "N", text)
    return re.sub(r"(\['[^']*', \d+), (?:N|0), 'ID:\w+'", r"\1, N, 'STEP'", text)  # stamps


def saved(graph: Any) -> list[str]:
    """Return what is saved in each namespace: of each checkpoint the values and the pending writes."""
    return sorted(
        alike(
            (
                each.config["configurable"]["checkpoint_ns"],
                each.metadata["step"],
                sorted(each.checkpoint["channel_values"].items()),
                sorted((channel, alike(value)) for _, channel, value in each.pending_writes),
            )
        )
        for each in graph.checkpointer.list({"configurable": {"thread_id": "t"}})
    )


def parts_of(graph: Any, drive: Drive, given: Any, config: Any, modes: Any = STREAM_MODES) -> list[Any]:
    options: Any = {"stream_mode": modes, "subgraphs": True}
    if drive is Sync:
        return list(graph.stream(given, config, **options))

    async def streamed() -> list[Any]:
        return [part async for part in graph.astream(given, config, **options)]

    return asyncio.run(streamed())


def seen(
    tree: ag.Agent, drive: Drive, *, in_tasks: bool, modes: Any = STREAM_MODES
) -> dict[str, list[str]]:
    heard, graph = Heard(), ag.compile_agent(tree, checkpointer=InMemorySaver())
    graph.retry_policy = [NEVER] if in_tasks else []
    config = {"configurable": {"thread_id": "t"}, "callbacks": [heard], "metadata": {"mine": 1}}
    parts = parts_of(graph, drive, GO, config, modes)
    return {"parts": sorted(map(alike, parts)), "runs": heard.lines(), "saved": saved(graph)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_leaf_without_a_task_is_saved_streamed_and_traced_as_one_with_a_task(
    kind: str, drive: Drive
) -> None:
    pooled, in_tasks = (seen(KINDS[kind](), drive, in_tasks=each) for each in (False, True))
    assert pooled == in_tasks
    assert len(pooled["runs"]) >= 3


def begins(part: str) -> str:
    """Return the namespace of a part of a stream, and its mode."""
    return part.partition("{")[0].partition("(AIMessage")[0]


@pytest.mark.parametrize("kind", ["parallel", "workflow"])
def test_tracers_and_streams_see_of_a_leaf_without_a_graph_what_they_see_of_one_with_a_graph(
    kind: str, drive: Drive
) -> None:
    without, within = (
        seen(KINDS[kind](), drive, in_tasks=False, modes=[*STREAM_MODES, *more])
        for more in ([], ["values"])
    )
    assert without["runs"] == within["runs"]
    whole = [part for part in within["parts"] if "'values', {'messages'" not in part]
    assert list(map(begins, without["parts"])) == list(map(begins, whole))
    assert len(without["saved"]) < len(within["saved"])


def settings(
    tree: Callable[[Callable[..., Any]], ag.Agent], drive: Drive, *, in_tasks: bool
) -> list[str]:
    """Return the configs that leaves find."""
    found: list[str] = []

    def fn(ctx: ag.Context) -> str:
        config: Any = get_config()
        own = config["configurable"]
        texts = {name: value for name, value in own.items() if isinstance(value, str)}
        info = own["__pregel_runtime"].execution_info
        found.append(alike((sorted(own), texts, config["metadata"], config["tags"], info)))
        return "x"

    graph = ag.compile_agent(tree(fn), checkpointer=InMemorySaver())
    graph.retry_policy = [NEVER] if in_tasks else []
    parts_of(graph, drive, GO, {"configurable": {"thread_id": "t"}, "tags": ["mine"]})
    return sorted(found)


@pytest.mark.parametrize("kind", ["each", "parallel", "workflow"])
def test_a_leaf_without_a_task_finds_the_config_of_one(kind: str, drive: Drive) -> None:
    def tree(fn: Callable[..., Any]) -> ag.Agent:
        worker = ag.function_agent("w", fn)
        if kind == "each":
            return ag.each("all", worker, "names")
        if kind == "parallel":
            return ag.parallel("all", [worker, says("x")])
        return ag.workflow("all", [ag.step(worker)])

    pooled, in_tasks = (settings(tree, drive, in_tasks=each) for each in (False, True))
    assert pooled == in_tasks
    assert pooled


def at_work(kind: str) -> tuple[Counter[str], ag.Agent]:
    """Return a tree of three leaves, of which the second fails once, and how often each ran."""
    ran: Counter[str] = Counter()

    def work(name: str) -> str:
        ran[name] += 1
        if name == "b" and ran[name] == 1:
            raise ValueError("not yet")
        return name

    def worker(name: str) -> ag.Agent:
        return ag.function_agent(name, lambda ctx: work(name))

    item = ag.function_agent("w", lambda ctx: work(ctx.item.value))
    trees: dict[str, ag.Agent] = {
        "each": ag.each("all", item, "names", on_error="wait"),
        "parallel": ag.parallel("all", list(map(worker, "abc")), on_error="wait"),
        "workflow": ag.workflow("all", [ag.step(worker(name)) for name in "abc"], on_error="wait"),
    }
    return ran, trees[kind]


@pytest.mark.parametrize("first_in_tasks", [False, True])
@pytest.mark.parametrize("kind", ["each", "parallel", "workflow"])
def test_either_way_finds_what_the_other_has_saved(
    kind: str, first_in_tasks: bool, drive: Drive
) -> None:
    ran, tree = at_work(kind)
    saver, config = InMemorySaver(), {"configurable": {"thread_id": "t"}}
    for given, in_tasks in ((GO, first_in_tasks), (None, not first_in_tasks)):
        graph = ag.compile_agent(tree, checkpointer=saver)
        graph.retry_policy = [NEVER] if in_tasks else []
        with suppress(ValueError, ag.StepFailedError):
            parts_of(graph, drive, given, config)
    assert ran == {"a": 1, "b": 2, "c": 1}
    said = [each.text for each in graph.get_state(config).values["messages"]]
    assert said == ["Go.", "a", "b", "c"]


@pytest.mark.parametrize("kind", ["each", "parallel", "workflow"])
def test_a_leaf_that_asks_among_many_is_called_once_before_its_answer(
    kind: str, drive: Drive, tmp_path: Path
) -> None:
    names = [f"n{number}" for number in range(40)]
    calls: Counter[str] = Counter()

    def work(name: str, ctx: ag.Context) -> Any:
        calls[f"{name} {ctx.answer}"] += 1
        if ctx.answered or name not in ("n7", "n31"):
            return f"{name} {ctx.answer}"
        return ["Hm.", ag.Ask("Well?")]

    def worker(name: str) -> ag.Agent:
        return ag.function_agent(name, lambda ctx: work(name, ctx))

    trees: dict[str, ag.Agent] = {
        "each": ag.each(
            "all", ag.function_agent("w", lambda ctx: work(ctx.item.value, ctx)), lambda ctx: names
        ),
        "parallel": ag.parallel("all", list(map(worker, names))),
        "workflow": ag.workflow("all", [ag.step(worker(name)) for name in names]),
    }
    path, heard = tmp_path / "x.db", list[ag.AgentEvent]()
    collect(heard, drive, path, trees[kind], "run", "Go.", thread_id="t")
    pending = fresh(Sync, path, trees[kind], "pending", "t")
    assert len(pending) == 2
    assert calls == {f"{name} None": 1 for name in names}
    heard += fresh(drive, path, trees[kind], "resume", "t", {each.id: "Yes." for each in pending})
    asked = {f"{name} Yes.": 1 for name in ("n7", "n31")}
    assert calls == {f"{name} None": 1 for name in names} | asked
    again = fresh(Sync, path, trees[kind], "events", "t")
    assert [each.id for each in again] == [each.id for each in heard]
    assert sum(each.text == "Hm." for each in again) == 2


def test_what_is_asked_before_an_item_begins_is_asked_once_if_it_needs_a_task(drive: Drive) -> None:
    asked: list[str] = []

    def request(ctx: ag.Context) -> str:
        asked.append(ctx.item.value)
        return f"{ctx.item.value}?"

    worker = ag.function_agent("w", lambda ctx: ctx.answer or ag.Ask(ctx.messages[-1].text))
    runner = ag.Runner(ag.each("all", worker, "names", input=request))
    [*drive.run(runner, "Go.", thread_id="t", values={"names": ["a", "b"]})]
    assert [each.value for each in runner.pending("t")] == ["a?", "b?"]
    assert sorted(asked) == ["a", "b"]


VAR: ContextVar[str] = ContextVar("var", default="new")


def test_a_leaf_does_not_see_the_context_variables_of_another_one(drive: Drive) -> None:
    def fn(ctx: ag.Context) -> str:
        before = VAR.get()
        VAR.set("used")
        return before

    async def afn(ctx: ag.Context) -> str:
        return fn(ctx)

    worker = ag.function_agent("w", fn if drive is Sync else afn)
    runner = ag.Runner(
        ag.each("all", worker, lambda ctx: [*range(5)], max_concurrency=1, output_key="out")
    )
    [*drive.run(runner, "Go.", thread_id="t")]
    assert runner.thread("t").values["out"] == ["new"] * 5


def test_a_task_of_langgraph_that_a_leaf_calls_is_found_again(drive: Drive) -> None:
    ran: list[str] = []

    @task
    def doubled(text: str) -> str:
        ran.append(text)
        return text * 2

    def fn(ctx: ag.Context) -> str:
        text = str(doubled(ctx.item.value).result())
        if len(ran) < 4:
            raise ValueError("not yet")
        return text

    tree = ag.each("all", ag.function_agent("w", fn), "names", on_error="wait", output_key="out")
    runner = ag.Runner(tree)
    with suppress(ValueError):
        [*drive.run(runner, "Go.", thread_id="t", values={"names": ["a", "b"]})]
    ran += ["later", "later"]
    [*drive.resume(runner, "t")]
    assert sorted(ran) == ["a", "b", "later", "later"]
    assert runner.thread("t").values["out"] == ["aa", "bb"]


def test_an_interrupt_of_a_helper_among_many_items_is_answered(drive: Drive) -> None:
    helpers = {"ask": interrupt}

    def fn(ctx: ag.Context) -> str:
        return str(helpers["ask"]("Well?")) if ctx.item.value == "b" else "x"

    graph = ag.compile_agent(
        ag.each("all", ag.function_agent("w", fn), "names", output_key="out"),
        checkpointer=InMemorySaver(),
    )
    config = {"configurable": {"thread_id": "t"}}
    parts_of(graph, drive, GO, config)
    parts_of(graph, drive, Command(resume="yes"), config)
    assert graph.get_state(config).values["values"]["out"] == ["x", "yes", "x"]


@pytest.mark.parametrize("kind", ["parallel", "workflow"])
def test_a_branch_or_step_is_told_and_run_again_by_the_step_of_its_visit(
    kind: str, drive: Drive
) -> None:
    ran: list[str] = []

    def worker(name: str) -> ag.Agent:
        return ag.function_agent(name, lambda ctx: ran.append(name) or name)  # type: ignore[func-returns-value]

    agents = list(map(worker, "xyz"))
    tree = (
        ag.parallel("p", agents) if kind == "parallel" else ag.workflow("p", list(map(ag.step, agents)))
    )
    runner = ag.Runner(ag.sequential("s", [tree, worker("after")]))
    [*drive.run(runner, "Go.", thread_id="t")]
    for _ in range(2):
        visits = runner.visits("t")
        assert sorted(each.address for each in visits) == ["s/after", "s/p", "s/p/x", "s/p/y", "s/p/z"]
        assert len({each.step for each in visits}) == 5
        told = [runner.activation("t", each.step).address for each in visits]
        assert told == [each.address for each in visits]
        ran.clear()
        list(runner.rewind("t", next(each.step for each in visits if each.address == "s/p/y")))
        assert ran == ["y", "after"]


@pytest.mark.parametrize("kind", ["each", "parallel", "workflow"])
def test_leaves_run_in_tasks_of_langgraph_where_that_is_not_known(
    kind: str, drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = seen(KINDS[kind](), drive, in_tasks=False)
    monkeypatch.setattr(leaf_tasks, "call_task", None)  # as without LangGraph's private parts
    monkeypatch.setattr(leaf_tasks, "call_async_task", None)
    assert seen(KINDS[kind](), drive, in_tasks=False) == known


@pytest.mark.parametrize("kind", ["each", "parallel"])
def test_what_leaves_gave_is_saved_where_a_run_saves_at_its_end(kind: str, drive: Drive) -> None:
    ran, tree = at_work(kind)
    graph = ag.compile_agent(tree, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    for given in (GO, None):
        with suppress(ValueError):
            if drive is Sync:
                graph.invoke(given, config, durability="exit")
            else:
                asyncio.run(graph.ainvoke(given, config, durability="exit"))
    assert ran == {"a": 1, "b": 2, "c": 1}


def test_a_branch_that_failed_beside_a_question_is_told_at_its_place(drive: Drive) -> None:
    asked = ag.sequential("q", [asks("boss", "Who?"), says("y")])
    lanes = ag.parallel("p", [fails("x", 9), asked], on_error="first", max_concurrency=1)
    runner = ag.Runner(ag.sequential("s", [lanes, says("last")]))
    list(drive.run(runner, "Go.", thread_id="t"))
    (failed,) = [each for each in runner.events("t") if each.error]
    assert failed.address == "s/p/x"
    voided = [each.action.discarded for each in drive.resume(runner, "t", "Me.") if each.action]
    assert voided == [(failed.id,)]


def test_a_branch_whose_failure_is_collected_is_next_in_its_state(drive: Drive) -> None:
    lanes = [fails("x", 9), asks("boss", "Who?")]
    runner = ag.Runner(ag.parallel("p", lanes, on_error="collect"))
    list(drive.run(runner, "Go.", thread_id="t"))
    (task,) = runner.graph.get_state({"configurable": {"thread_id": "t"}}, subgraphs=True).tasks
    failed, asked = (each.state for each in task.state.tasks)
    assert (failed.next, failed.values["messages"], asked.next) == (("x",), [], ("boss",))
