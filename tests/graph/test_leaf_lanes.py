"""An item whose agent is one leaf runs in its task: what is seen, asked and resumed is the same."""

import cProfile
import pstats
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import langgraph.types
import pytest
from helpers import Async, Drive, Sync, collect, fresh, says, scripted, unvoided
from langchain_core.callbacks import BaseCallbackHandler
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.types import interrupt
from langgraph.types import interrupt as interrupted

import agentgraph as ag
from agentgraph.events.translation import STREAM_MODES
from agentgraph.journal.replay import last_turn

CONFIG: Any = {"configurable": {"thread_id": "t"}}
both = pytest.mark.parametrize("drive", [Sync, Async])


def files(fn: Callable[..., Any] | ag.Agent, **options: Any) -> ag.Agent:
    worker = fn if isinstance(fn, ag.ChatAgent | ag.FunctionAgent) else ag.function_agent("read", fn)
    return ag.each("files", worker, "names", max_concurrency=1, **options)


def named(*names: str) -> dict[str, Any]:
    return {"thread_id": "t", "values": {"names": list(names)}}


def lines(events: list[ag.AgentEvent]) -> list[str]:
    return [f"{each.address}: {each.text or each.kind}" for each in events]


def test_an_item_saves_its_result_and_no_checkpoint() -> None:
    runner = ag.Runner(files(lambda ctx: ctx.item.value))
    list(runner.run("Go.", **named("a", "b", "c")))
    saved = list(runner.saver.list(CONFIG))
    assert {each.config["configurable"]["checkpoint_ns"] for each in saved} == {""}
    assert len(saved) == 3  # the input, the step before the each, and that of the each
    returned = [write for each in saved for write in each.pending_writes or () if "return" in write[1]]
    assert len(returned) == 1 + 3  # the items, and what each gave


@both
def test_a_resume_in_another_process_runs_the_failed_item_alone(drive: Drive, tmp_path: Path) -> None:
    ran: Counter[str] = Counter()

    def read(ctx: ag.Context) -> Iterator[str]:
        ran[ctx.item.value] += 1
        yield f"{ctx.item.value}."
        if ctx.item.value == "b" and ran["b"] == 1:
            raise ValueError("Not yet.")
        yield "Done."

    path, tree, heard = tmp_path / "x.db", files(read, on_error="wait"), list[ag.AgentEvent]()
    with suppress(ValueError):
        collect(heard, drive, path, tree, "run", "Go.", **named("a", "b", "c"))
    heard += fresh(drive, path, tree, "resume", "t")
    assert ran == {"a": 1, "b": 2, "c": 1}
    events = fresh(Sync, path, tree, "events", "t")
    assert [each.id for each in events] == [each.id for each in unvoided(heard)]
    said = [line for line in lines(events) if "Error" not in line and "error" not in line]
    assert sorted(said) == sorted(
        f"files/read({n}): {text}" for n, a in enumerate("abc") for text in (f"{a}.", "Done.")
    )


@both
def test_an_item_that_asks_by_ask_is_called_once_before_the_answer(drive: Drive) -> None:
    calls: list[str] = []

    def read(ctx: ag.Context) -> Any:
        calls.append(f"{ctx.item.value} {ctx.answer}")
        if ctx.answered or ctx.item.value != "b":
            return f"{ctx.item.value} {ctx.answer}"
        return ["Hm.", ag.Ask("Well?")]

    runner = ag.Runner(files(read, output_key="out"))
    heard = list(drive.run(runner, "Go.", **named("a", "b", "c")))
    assert [each.address for each in runner.pending("t")] == ["files/read(1)"]
    heard += drive.resume(runner, "t", {"files/read(1)": "Yes."})
    assert calls == ["a None", "b None", "c None", "b Yes."]
    assert lines(heard) == [
        "files/read(0): a None",
        "files/read(1): Hm.",
        "files/read(1): interrupted",
        "files/read(2): c None",
        "files/read(1): b Yes.",
    ]
    assert [each.id for each in runner.events("t")] == [each.id for each in heard]
    assert runner.graph.get_state(CONFIG).values["values"]["out"] == ["a None", "b Yes.", "c None"]


def asked(value: str) -> str:
    return str(interrupt(value))


UNSEEN = {"ask": asked}
"""Where no name leads from an agent's function to LangGraph's `interrupt`."""


@both
@pytest.mark.parametrize(
    "fn",
    [
        lambda ctx: asked(ctx.item.value) + asked("And?"),
        lambda ctx: UNSEEN["ask"](ctx.item.value) + UNSEEN["ask"]("And?"),
    ],
    ids=["helper", "unseen"],
)
def test_questions_that_a_helper_asks_have_the_address_of_the_item(
    fn: Callable[..., Any], drive: Drive
) -> None:
    runner = ag.Runner(files(fn))
    heard = list(drive.run(runner, "Go.", **named("a", "b")))
    assert lines(heard) == ["files/read(0): interrupted", "files/read(1): interrupted"]
    heard += drive.resume(runner, "t", {"files/read(1)": "B"})
    heard += drive.resume(runner, "t", {"files/read(1)": "B2", "files/read(0)": "A"})
    heard += drive.resume(runner, "t", "A2")
    assert [each.id for each in runner.events("t")] == [each.id for each in unvoided(heard)]
    messages = [each.text for each in runner.graph.get_state(CONFIG).values["messages"]]
    assert messages == ["Go.", "AA2", "BB2"]


class Helpers:
    def asks(self, ctx: ag.Context) -> str:
        return asked(ctx.item.value)


def in_closures() -> Callable[..., Any]:
    def far(ctx: ag.Context) -> str:
        return asked(ctx.item.value)

    def near(ctx: ag.Context) -> str:
        return far(ctx)

    return near


@both
@pytest.mark.parametrize(
    "helper",
    [
        *(in_closures(), Helpers().asks, partial(lambda ctx: asked(ctx.item.value))),
        lambda ctx: interrupted(ctx.item.value),
        lambda ctx: langgraph.types.interrupt(ctx.item.value),
    ],
    ids=["closure", "method", "partial", "other name", "module"],
)
def test_what_comes_before_the_question_of_a_helper_runs_as_often_as_in_langgraph(
    helper: Callable[..., Any], drive: Drive
) -> None:
    calls: list[str] = []

    def read(ctx: ag.Context) -> str:
        calls.append(ctx.item.value)
        return f"{helper(ctx)}."

    runner = ag.Runner(files(read, output_key="out"))
    list(drive.run(runner, "Go.", **named("a")))
    assert calls == ["a"]
    list(drive.resume(runner, "t", "Yes"))
    assert (calls, runner.thread("t").values["out"]) == (["a", "a"], ["Yes."])


@both
def test_the_chunks_of_a_model_and_custom_data_have_the_address_of_the_item(drive: Drive) -> None:
    model = ag.chat_agent("read", scripted("Fine words.", "Fine words."))
    events = list(drive.run(ag.Runner(files(model)), "Go.", stream=True, **named("a", "b")))
    for at in ("files/read(0)", "files/read(1)"):
        own = [each for each in events if each.address == at]
        assert "".join(each.text for each in own if each.partial) == "Fine words."
        assert [each.text for each in own if not each.partial] == ["Fine words."]
        assert len({each.id for each in own}) == 1
    written = files(lambda ctx: get_stream_writer()(ctx.item.value))
    assert [
        (each.address, each.output.custom)
        for each in drive.run(ag.Runner(written), "Go.", **named("a"))
    ] == [("files/read(0)", "a")]


def test_a_graph_inside_an_item_is_no_lane_of_the_tree() -> None:
    inner = ag.compile_agent(files(lambda ctx: f"{ctx.item.value}!", output_key="out"))

    def read(ctx: ag.Context) -> str:
        given: Any = {"messages": ["Go."], "values": {"names": [ctx.item.value, "x"]}}
        return str(inner.invoke(given)["values"]["out"])

    runner = ag.Runner(files(read))
    heard = list(runner.run("Go.", **named("a")))
    assert lines(heard) == ["files/read(0): ['a!', 'x!']"]
    assert [each.id for each in runner.events("t")] == [each.id for each in heard]


def test_who_resumes_and_watches_knows_the_items_that_ended_and_said_nothing() -> None:
    def read(ctx: ag.Context) -> Any:
        return ag.Ask("Well?") if ctx.item.value == "b" else ag.SetValues(x=1)

    runner = ag.Runner(files(read))
    list(runner.run("Go.", **named("a", "b")))
    turn = runner.engine.read(last_turn, "t")
    assert [each for each in turn if isinstance(each, str)] == ["files/read(0)"]


class Names(BaseCallbackHandler):
    run_inline = True

    def __init__(self) -> None:
        self.runs: list[tuple[str, str | None]] = []

    def on_chain_start(self, *_: Any, **run: Any) -> None:
        self.runs.append((str(run.get("name")), run["metadata"].get("agent_address")))


@both
def test_a_traced_item_has_a_run_of_its_own_with_its_address(drive: Drive) -> None:
    traced = Names()
    options: Any = {"config": {"callbacks": [traced]}}
    list(drive.run(ag.Runner(files(lambda ctx: "x")), "Go.", **named("a", "b"), **options))
    assert [run for run in traced.runs if run[1] in ("files/read(0)", "files/read(1)")] == [
        ("read", "files/read(0)"),
        ("read", "files/read(1)"),
    ]


def test_a_plain_stream_of_the_graph_has_the_parts_of_items_in_their_namespaces() -> None:
    graph = ag.compile_agent(files(says("read")), checkpointer=InMemorySaver())
    given: Any = {"messages": ["Go."], "values": {"names": ["a"]}}
    options: Any = {"stream_mode": [*STREAM_MODES, "tasks"], "subgraphs": True, "version": "v2"}
    parts = list(graph.stream(given, CONFIG, **options))
    inside = [part for part in parts if len(part["ns"]) == 2]
    names = {tuple(each.partition(":")[0] for each in part["ns"]) for part in inside}
    assert names == {("files", "read")}
    assert Counter(part["type"] for part in inside) == {
        "custom": 1,
        "messages": 1,
        "tasks": 2,
        "updates": 1,
    }


def calls_of(action: Callable[[], object]) -> int:
    profile = cProfile.Profile()
    profile.runcall(action)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def test_a_finished_item_costs_the_same_calls_of_a_resume_however_many_there_are() -> None:
    def resumed(count: int) -> int:
        failed: list[int] = []

        def read(ctx: ag.Context) -> str:
            if ctx.item.value == "last" and not failed:
                failed.append(1)
                raise ValueError("Not yet.")
            return "x"

        runner = ag.Runner(files(read, on_error="wait", output_key="out"))
        with suppress(ValueError):
            list(runner.run("Go.", **named(*map(str, range(count)), "last")))
        return calls_of(lambda: list(Async.resume(runner, "t")))

    first, few, many = (resumed(count) for count in (5, 50, 250))
    assert (many - few) / 200 <= 1.1 * (few - first) / 45
