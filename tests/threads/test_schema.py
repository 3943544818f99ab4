"""Each shape that a thread saves is one of the schema, and what does not fit it is refused by name."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest
from helpers import (
    Async,
    Drive,
    Sync,
    asks,
    chat,
    echo,
    fails,
    foreign,
    gives,
    says,
    store,
    tries_calls_again,
    writes,
)
from helpers.commands import wait_until
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from typing_extensions import get_type_hints, is_typeddict

import agentgraph as ag
from agentgraph.graph.internals import RETURN
from agentgraph.graph.strict_serializer import UnreadableError
from agentgraph.graph.task_results import TAG, ours
from agentgraph.journal.saved import Saved, parts_of
from agentgraph.journal.schema import CHANNELS, DATA, MESSAGES, NOTES, VALUES, Result
from agentgraph.journal.soundness import check_sound
from agentgraph.testing import call, calls
from agentgraph.tree.layout import lay_out
from agentgraph.tree.places import Tree

LANGGRAPHS = ("__", "branch:", "middleware", "failure", "untracked")
"""The beginnings of names of channels whose values LangGraph, or a reducer, makes."""
WRONG = 1j
"""A value that no field takes that has a type."""


def wide(drive: Drive) -> ag.Agent:
    """Return a tree with every kind of agent, of which some fail, ask, or are tried again."""
    helper = ag.loop("helper", [fails("unsure"), says("sure")], max_iterations=1)
    flaky = ag.function_agent("flaky", _once(ConnectionError("no line")))
    tools = [echo, store, ag.agent_tool(helper), ag.agent_tool(flaky)]
    both = calls(call("echo", text="q"), call("store", value="v"))

    async def arunning(ctx: ag.Context) -> str | ag.Ask:
        first = await ctx.run("sub", "One?")
        with suppress(ValueError):
            await ctx.run("bad", "Two?")
        return ag.Ask("Sure?") if ctx.answer is None else f"{first} {ctx.answer}"

    def running(ctx: ag.Context) -> str | ag.Ask:
        first = ctx.run("sub", "One?")
        with suppress(ValueError):
            ctx.run("bad", "Two?")
        return ag.Ask("Sure?") if ctx.answer is None else f"{first} {ctx.answer}"

    fn = running if drive is Sync else arunning
    t1 = chat("t1", calls(call("transfer_to_t2")), "1")
    lane = ag.sequential("lane", [says("b"), asks("second")])
    return ag.sequential(
        "s",
        [
            writes("w", {"x": 1}),
            ag.human("clock", "Now?", timeout=0.001, default="no"),
            ag.loop("l", [says("a"), gives("k", ag.BreakLoop())], max_iterations=3),
            gives("told", ag.Custom({"n": 1})),
            ag.switch("sw", lambda ctx: "one", {"one": says("one"), "two": says("two")}),
            chat("c", both, "Done.", tools=tools, middleware=[tries_calls_again()]),
            chat("m", calls(call("helper", request="Go.")), "Done.", tools=tools),
            chat(
                "n",
                calls(call("flaky", request="Go."), call("echo", text="q")),
                "Done.",
                tools=tools,
                middleware=[tries_calls_again()],
            ),
            chat(
                "o",
                '{"mood": "good"}',
                output_schema={
                    "title": "Mood",
                    "type": "object",
                    "properties": {"mood": {"type": "string"}},
                },
            ),
            ag.graph_agent("g", foreign(lambda messages: "Hm.")),
            ag.graph_agent("f", foreign(lambda messages: "Flat."), flat=True),
            ag.each("e", says("item"), lambda ctx: {"p": 1, "q": (2, 3)}),
            ag.workflow("wf", [ag.step(says("u")), ag.step(says("v"), depends_on=["u"])]),
            ag.swarm("team", [t1, chat("t2", "2")], start="t1"),
            ag.function_agent("fn", fn, agents=[says("sub"), fails("bad", 99)]),
            ag.parallel("p", [asks("first"), lane, fails("late")]),
            says("z"),
        ],
    )


def _once(error: Exception) -> Any:
    left = [error]

    def fn(ctx: ag.Context) -> str:
        if left:
            raise left.pop()
        return "At last."

    return fn


def runner_on(path: Path, drive: Drive) -> ag.Runner:
    """Return a runner of the wide tree on a file, whose limits count what is spent."""
    return ag.Runner(wide(drive), checkpointer=path, limits=ag.Limits(steps=1000))


@pytest.fixture(scope="module", params=[Sync, Async])
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Saved]:
    """Return what a file has of a thread that asked, failed, was resumed, edited and rewound."""
    drive: Drive = request.param
    path = tmp_path_factory.mktemp("wide") / "x.db"
    with runner_on(path, drive) as runner:
        list(drive.run(runner, "Go.", thread_id="t"))
        (question,) = runner.pending("t")
        wait_until(lambda: time.time() > (question.deadline or 0))
        list(drive.resume(runner, "t"))
        with pytest.raises(ValueError, match="late failed"):
            list(drive.resume(runner, "t", "yes"))
        list(drive.resume(runner, "t", {each.address: "yes" for each in runner.pending("t")}))
    for at in ("s/p/lane/second", "s/e/item(1:q)"):
        with runner_on(path, drive) as runner:
            list(runner.rewind("t", at))
            assert list(runner.events("t"))
    with ag.sqlite_saver(path) as saver:
        return [Saved(*each) for each in saver.list({"configurable": {"thread_id": "t"}})]


def of_ours(tree: Tree, saved: list[Saved]) -> list[Saved]:
    """Return the checkpoints that are not those of LangGraph's graphs."""
    return [each for each in saved if not tree.is_foreign(parts_of(each.namespace))]


def written(each: Saved) -> Iterator[tuple[str, Any]]:
    """Yield the channels and values of a checkpoint and of the step after it."""
    yield from each.checkpoint["channel_values"].items()
    yield from ((channel, value) for _, channel, value in each.pending_writes or ())


def test_all_that_a_thread_saves_is_of_the_schema(saved: list[Saved]) -> None:
    tree = lay_out(wide(Sync))
    tags, kinds, channels = set[str](), set[str](), set[str]()
    for each in of_ours(tree, saved):
        check_sound(tree, each)
        for channel, value in written(each):
            channels.add(channel)
            tags |= {ours(value)[TAG]} if channel == RETURN else set()
            told = value if channel == NOTES else ours_in(value).get("told", ())
            kinds |= {kind for _, kind, *_ in told}
    known = {*CHANNELS, MESSAGES, VALUES}
    assert {each for each in channels - known if not each.startswith(LANGGRAPHS)} == set()
    assert {*CHANNELS} - channels == {"agentgraph_unsaved"}
    assert tags == {"lane", "call", "unended", "items", "tool", "message"}
    assert {*DATA} - kinds == {"exit", "discarded", "stopped", "changed", "kept", "taken"}


def ours_in(value: object) -> Mapping[str, Any]:
    """Return the position that a value is, or has."""
    if not isinstance(value, dict):
        return {}
    position = value.get("position", value)
    return position if isinstance(position, dict) else {}


def test_numbers_survive_javascript(saved: list[Saved]) -> None:
    """A client in JavaScript sends states back that it has edited: greater numbers come rounded."""
    numbers = [*integers([[*written(each)] for each in saved])]
    assert max(numbers) < 2**53
    assert max(numbers) > 10**15


def integers(value: object) -> Iterator[int]:
    """Yield the integers in plain data, and in the metadata of messages."""
    if isinstance(value, int):
        yield value
    elif isinstance(value, dict):
        yield from integers([*value.values()])
    elif isinstance(value, list | tuple):
        for each in value:
            yield from integers(each)
    elif (metadata := getattr(value, "response_metadata", None)) is not None:
        yield from integers(metadata)


def fields_of(shape: Any) -> dict[str, Any]:
    """Return the fields of a shape that have a type of their own."""
    hints = get_type_hints(shape) if is_typeddict(shape) else {}
    return {name: hint for name, hint in hints.items() if hint is not Any and hint is not object}


RESULTS = {get_args(get_type_hints(each)[TAG])[0]: each for each in get_args(get_args(Result)[0])}
SHAPES = {
    **{tag: (RETURN, shape) for tag, shape in RESULTS.items()},
    **{name: (name, shape) for name, shape in CHANNELS.items() if is_typeddict(shape)},
    **{kind: (NOTES, shape) for kind, shape in DATA.items() if is_typeddict(shape)},
}
FIELDS = [
    pytest.param(name, field, id=f"{name} {field}")
    for name, (_, shape) in SHAPES.items()
    for field in fields_of(shape)
    if field not in (TAG, "inside", "graphs")
]


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_a_field_that_does_not_fit_is_named(saved: list[Saved], name: str, field: str) -> None:
    tree, (channel, _) = lay_out(wide(Sync)), SHAPES[name]
    for each in of_ours(tree, saved):
        for task_id, on, value in each.pending_writes or ():
            is_there = on == channel or (channel == NOTES and on == "position")
            if is_there and (wrong := _with_wrong(value, name, field)) is not None:
                damaged = Saved(*each._replace(pending_writes=[(task_id, on, wrong)]))
                with pytest.raises(UnreadableError, match=rf"malformed: .*\b{field}\b.*1j"):
                    check_sound(tree, damaged)
                return
    pytest.fail(f"nothing saved is a {name}") if name not in _RARE else None


_RARE = ("node", "message", "agentgraph_unsaved", "interrupted", "changed")


def _with_wrong(value: Any, name: str, field: str) -> Any:
    """Return a value of a shape with a field that does not fit; None if it is of another shape."""
    if name in DATA and isinstance(value, dict):
        told = _with_wrong(value.get("told"), name, field)
        return None if told is None else {**value, "told": told}
    if isinstance(value, dict):
        is_it = value.get(TAG, name) == name or name in CHANNELS
        return {**value, field: WRONG} if is_it else None
    for note in value if isinstance(value, list) else ():
        if note[1] == name:
            return [[*note[:2], {**note[2], field: WRONG}, *note[3:]]]
    return None


LIKE_OURS: dict[str, Any] = {
    **{"messages": "a", "values": 5, "number": "b", "position": "c", "signal": 1, "finished": "d"},
    **{"call": [], "agent": {}, "request": 2, "saved": "e", "text": 3, "said": 4, "began": "f"},
    "is": "lane",
}


@pytest.mark.parametrize("given", [LIKE_OURS, {"keys": 1, "values": 2}, {"agentgraph": ["lane"]}])
def test_what_tasks_of_a_users_function_give_is_not_taken_for_ours(
    drive: Drive, tmp_path: Path, given: dict[str, Any]
) -> None:
    @task
    def lookup() -> dict[str, Any]:
        return given

    def fn(ctx: ag.Context) -> str:
        lookup().result()
        return "Found."

    found = ag.function_agent("f", fn)
    tree = ag.sequential("s", [found, ag.parallel("p", [found, fails("late")]), asks("h")])
    events = list[ag.AgentEvent]()
    with ag.Runner(tree, checkpointer=tmp_path / "x.db") as runner:
        with pytest.raises(ValueError, match="late failed"):
            events.extend(drive.run(runner, "Go.", thread_id="t"))
        assert runner.thread("t").status == "failed"
        list(drive.resume(runner, "t"))
        list(drive.resume(runner, "t", "yes"))
        first, *branches, answer = [each.text for each in runner.events("t") if each.text]
        assert (first, sorted(branches), answer) == ("Found.", ["Found.", "late"], "yes")
        assert runner.activation("t", "s/p/f").said[-1].text == "Found."
        assert {each.address for each in runner.visits("t")} >= {"s/f", "s/p/f", "s/p/late"}
        assert runner.timeline("t").bars
        list(runner.rewind("t", "s/p/late"))
        assert runner.thread("t").status == "paused"


def _as_another_version(saver: Any, namespace: str = "") -> None:
    """Change the latest checkpoint of a namespace of a thread "t" into one of another version."""
    saved = saver.get_tuple({"configurable": {"thread_id": "t", "checkpoint_ns": namespace}})
    checkpoint = saved.checkpoint
    position = checkpoint["channel_values"]["position"]
    position["tree"] = position["tree"].partition(".")[2]
    saver.put(saved.parent_config, checkpoint, saved.metadata, checkpoint["channel_versions"])


def test_a_thread_of_another_version_is_refused_with_what_to_do(drive: Drive, tmp_path: Path) -> None:
    with ag.Runner(asks("h"), checkpointer=tmp_path / "x.db") as runner:
        list(drive.run(runner, "Go.", thread_id="t"))
    with ag.sqlite_saver(tmp_path / "x.db") as saver:
        _as_another_version(saver)
    with ag.Runner(asks("h"), checkpointer=tmp_path / "x.db") as runner:
        for read in (runner.thread, runner.pending, lambda at: list(drive.resume(runner, at, "yes"))):
            with pytest.raises(ag.SaverError, match=r"another form .* continue it with the version"):
                read("t")
        runner.delete("t")


INPUTS: Any = ({"messages": [("user", "Again.")]}, Command(resume="yes"), None)


@pytest.mark.parametrize("graph_input", INPUTS)
@pytest.mark.parametrize("is_inside", [False, True])
def test_a_compiled_graph_runs_no_thread_of_another_version(
    drive: Drive, graph_input: Any, is_inside: bool
) -> None:
    saver, at = InMemorySaver(), {"configurable": {"thread_id": "t"}}
    graph: Any = ag.compile_agent(
        ag.sequential("s", [says("a"), asks("h")]), checkpointer=None if is_inside else saver
    )
    if is_inside:
        outer = StateGraph(MessagesState).add_node("tree", graph).add_edge(START, "tree")
        graph = outer.compile(checkpointer=saver)
    graph.invoke({"messages": [("user", "Go.")]}, at)
    [inside] = {e.config["configurable"]["checkpoint_ns"] for e in saver.list(at)} - {""} or {""}
    _as_another_version(saver, inside)
    run = graph.invoke if drive is Sync else lambda *args: asyncio.run(graph.ainvoke(*args))
    if is_inside and graph_input is INPUTS[0]:  # it runs in a namespace of its own
        assert run(graph_input, at)["__interrupt__"]
        return
    count = len([*saver.list(at)])
    with pytest.raises(ag.SaverError, match=r"another form .* continue it with the version"):
        run(graph_input, at)
    assert len([*saver.list(at)]) == count


@pytest.mark.parametrize("field", ["kind", "reason", "messages"])
def test_a_request_that_does_not_fit_is_named(drive: Drive, tmp_path: Path, field: str) -> None:
    with ag.Runner(asks("h"), checkpointer=tmp_path / "x.db") as runner:
        list(drive.run(runner, "Go.", thread_id="t"))
        runner.steer("t", "Be brief.")
        assert [each.text for each in runner.thread("t").queued] == ["Be brief."]
    with ag.sqlite_saver(tmp_path / "x.db") as saver:
        at: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "agentgraph_requests"}}
        saved = saver.get_tuple(at)
        assert saved is not None
        saved.checkpoint["channel_values"][field] = 5
        saver.put(at, saved.checkpoint, saved.metadata, {})
    wrong = rf"malformed: a request for a run \({field}: "
    with (
        ag.Runner(asks("h"), checkpointer=tmp_path / "x.db") as runner,
        pytest.raises(ag.SaverError, match=wrong),
    ):
        runner.thread("t")


def test_items_of_one_leaf_say_when_each_began(drive: Drive) -> None:
    began = dict[str, float]()

    def fn(ctx: ag.Context) -> str:
        began[ctx.address] = time.time()
        return "Read."

    items = ag.each("e", ag.function_agent("item", fn), lambda ctx: [1, 2, 3], max_concurrency=1)
    runner = ag.Runner(items)
    list(drive.run(runner, "Go.", thread_id="t"))
    visits = {each.address: each for each in runner.visits("t") if each.address != "e"}
    bars = {each.address: each for each in runner.timeline("t").bars}
    assert [*visits] == [*began]
    for before, after in pairwise(began):
        ended = visits[before].time + (visits[before].duration or 0.0)
        assert began[before] <= ended <= visits[after].time <= began[after]
        assert bars[after].began == visits[after].time == runner.activation("t", after).began


def test_calls_in_turn_say_when_each_began(drive: Drive) -> None:
    began = list[float]()

    def look() -> str:
        """Look."""
        began.append(time.time())
        return "Seen."

    several = calls(call("look"), call("look"))
    runner = ag.Runner(chat("c", several, "Done.", tools=[look], parallel_tools=False))
    list(drive.run(runner, "Go.", thread_id="t"))
    first, second = runner.activation("t", "c").tools
    assert first.began is not None
    assert second.began is not None
    assert first.began <= began[0] <= second.began <= began[1]


def test_a_leaf_that_a_resume_runs_again_began_when_it_did_last(drive: Drive) -> None:
    items = ag.each("e", fails("item", 1), lambda ctx: [1], max_concurrency=1)
    runner = ag.Runner(ag.sequential("s", [items, fails("c")]))
    with pytest.raises(ValueError, match="item failed"):
        list(drive.run(runner, "Go.", thread_id="t"))
    resumed = time.time()
    with pytest.raises(ValueError, match="c failed"):
        list(drive.resume(runner, "t"))
    again = time.time()
    list(drive.resume(runner, "t"))
    visits = {each.address: each for each in runner.visits("t")}
    item, last = visits["s/e/item(0)"], visits["s/c"]
    assert resumed <= item.time < again
    assert last.duration is not None
    assert last.time < again <= (runner.activation("t", "s/c").began or 0.0)
    assert last.duration <= time.time() - again
    bars = [each for each in runner.timeline("t").bars if each.address == "s/e/item(0)"]
    assert {(each.state, each.began >= resumed) for each in bars} == {("void", False), ("done", True)}
