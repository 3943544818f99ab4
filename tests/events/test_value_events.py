"""Events of values that functions, tools and graphs set; which there are is in `tests/transcripts`."""

import json
import operator
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from helpers import Disk, Drive, chat, gives, middleware, says, yields
from langchain_core.messages import AIMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.types import Command, Overwrite
from pydantic import BaseModel
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.events.translation import STREAM_MODES
from agentgraph.testing import call, calls

LARGE = 400_000


class Values(TypedDict):
    log: Annotated[list[str], operator.add]


def written(events: Any) -> list[tuple[str, Any]]:
    """Return the values that events set, with the address of the event."""
    return [(event.address, event.action.values) for event in events if event.kind == "values"]


def test_values_are_told_as_they_were_written_before_their_reducer(drive: Drive) -> None:
    items = ag.SetValues(log=["b"], n=1), ag.SetValues(log=Overwrite(["c"])), ag.SetValues(n=ag.DELETE)
    tree = ag.loop("l", [gives("f", *([each] for each in items))], max_iterations=3)
    runner = ag.Runner(tree, values=Values)
    events = list(drive.run(runner, "Go.", thread_id="t", values={"log": ["a"]}))
    assert written(events) == [
        ("l[0]/f", {"log": ["b"], "n": 1}),
        ("l[1]/f", {"log": {"__overwrite__": ["c"]}}),
        ("l[2]/f", {"n": ag.DELETE}),
    ]
    assert runner.thread("t").values == {"log": ["c"]}
    assert list(runner.events("t")) == events


def test_a_yielded_value_is_told_when_it_is_yielded(drive: Drive) -> None:
    heard = threading.Event()

    def fn(ctx: ag.Context) -> Iterator[str | ag.SetValues]:
        yield ag.SetValues(n=1)
        yield "Heard." if heard.wait(10) else "Not heard."

    texts = []
    for event in drive.run(ag.Runner(ag.function_agent("f", fn)), "Go."):
        texts.append(event.text or event.kind)
        heard.set()
    assert texts == ["values", "Heard."]


def test_a_list_that_the_function_changes_later_was_told_as_it_was(disk: Disk) -> None:
    def fn(ctx: ag.Context) -> Iterator[ag.SetValues]:
        found = ["a"]
        yield ag.SetValues(found=found)
        found.append("b")
        yield ag.SetValues(found=found)

    tree = ag.function_agent("f", fn)
    events = disk.run(tree)
    assert written(events) == [("f", {"found": ["a"]}), ("f", {"found": ["a", "b"]})]
    assert disk.events(tree) == events


def test_tools_branches_and_calls_tell_what_they_set_at_their_address(disk: Disk) -> None:
    @tool
    def sets(call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Set values."""
        return Command(update={"topic": "bees", "values": {"n": 1}})

    helper = ag.agent_tool(gives("helper", ag.SetValues(inner=1)))
    agent = chat(
        "boss", calls(call("sets", "1")), calls(call("sets", "2"), call("helper", "3", request="x")),
        "Done.", tools=[sets, helper], output_key="answer",
    )  # fmt: skip
    tree = ag.parallel("p", [agent, says("other", "Hi.")])
    events = disk.run(tree)
    first, *others = written(events)
    assert first == ("p/boss", {"n": 1, "topic": "bees"})
    assert sorted(others, key=str) == [first, ("p/boss/helper(2)", {"inner": 1})]
    assert disk.events(tree) == events


def test_a_graph_tells_what_its_output_sets_and_the_state_of_middleware_is_none(drive: Drive) -> None:
    inner = ag.compile_agent(says("inner", "Hi."))
    graph = ag.graph_agent("g", inner, output=lambda state: [ag.SetValues(n=1), "Hi."], output_key="k")
    counts = middleware("counts", before_model=lambda state: {"count": 1})
    tree = ag.sequential("s", [graph, chat("c", "Done.", middleware=[counts])])
    assert written(drive.run(ag.Runner(tree), "Go.", values={"given": 1})) == [("s/g", {"n": 1})]


def test_values_of_a_failed_attempt_are_void(disk: Disk) -> None:
    tree = yields("f", [ag.SetValues(n=1), ValueError("once")], [ag.SetValues(n=2), "Done."])
    told = disk.fail(tree, "run", ValueError)
    told += disk.resume(tree)
    (void,) = (event.action.discarded for event in told if event.kind == "discarded" and event.action)
    assert [event.id in void for event in told if event.kind == "values"] == [True, False]
    assert written(disk.events(tree)) == [("f", {"n": 2})]


@dataclass
class Point:
    x: int


class Model(BaseModel):
    y: int


def test_events_of_values_have_a_json_form_without_loss() -> None:
    data = {"m": AIMessage("Hi."), "t": (1, 2), "d": ag.DELETE, "o": {"$agentgraph": ["tuple", []]}}
    runner = ag.Runner(gives("f", ag.SetValues(**data)))
    (event,) = runner.query("Go.")
    assert ag.AgentEvent.from_dict(json.loads(json.dumps(event.to_dict()))) == event
    assert event.to_sse().startswith(f"event: values\nid: {event.cursor}\n")
    typed_values = gives("f", ag.SetValues(p=Point(1), q=Model(y=2)))
    (typed,) = ag.Runner(typed_values, allow=[Point, Model]).query("Go.")
    assert typed.to_dict()["action"]["values"] == {"p": {"x": 1}, "q": {"y": 2}}


@pytest.mark.parametrize("mode", ["updates", "all"])
def test_a_plain_stream_of_langgraph_tells_values(mode: str) -> None:
    tree = ag.sequential("s", [gives("f", ag.SetValues(n=1)), says("g", "Hi.")])
    modes = STREAM_MODES if mode == "all" else ["updates", "messages"]
    graph = ag.compile_agent(tree)
    options: Any = {"stream_mode": modes, "subgraphs": True, "version": "v2"}
    events = [*ag.translate(tree, graph.stream({"messages": "Go."}, **options))]
    assert [(event.agent_name, event.kind) for event in events] == [("f", "values"), ("g", "message")]
    assert written(events) == [("s/f", {"n": 1})]


def test_a_large_value_that_is_set_is_saved_as_if_there_were_no_event(tmp_path: Path) -> None:
    sizes = []
    for name in ("n", "_n"):
        path = tmp_path / f"{name}.db"
        with ag.Runner(gives("f", ag.SetValues(**{name: "x" * LARGE})), checkpointer=path) as runner:
            events = list(runner.query("Go.", thread_id="t"))
            assert list(runner.events("t")) == events
        sizes.append(path.stat().st_size)
    assert sizes[0] - sizes[1] < LARGE / 4
