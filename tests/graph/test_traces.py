"""A trace is read as the tree: lanes by their names, agents by their metadata, whatever reads it."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from helpers import Drive, Sync, asks, echo, foreign, says, scripted
from helpers.commands import Commands
from langchain.agents.middleware import wrap_tool_call
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.langchain import LangChainTracer
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.types import Command
from langsmith import Client

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

OURS = ("agent_name", "agent_address", "run_path", "iteration", "lc_agent_name")


def tree() -> ag.Agent:
    helper = ag.agent_tool(says("helper", "Bees."))
    boss = ag.chat_agent("boss", scripted(calls(call("helper", request="x")), "Done."), tools=[helper])
    return ag.sequential(
        "job",
        [
            ag.loop("twice", [says("draft")], max_iterations=2),
            boss,
            ag.parallel("both", [ag.sequential("left", [says("one"), says("two")]), says("right")]),
        ],
    )


class Traced(BaseCallbackHandler):
    """Keeps each run under its id: its name, its metadata, its parent."""

    run_inline = True

    def __init__(self) -> None:
        self.runs: dict[UUID, tuple[str, dict[str, Any], UUID | None]] = {}

    def on_chain_start(self, *_: Any, **run: Any) -> None:
        self.runs[run["run_id"]] = (run.get("name") or "", run["metadata"], run["parent_run_id"])

    def on_chat_model_start(self, *_: Any, **run: Any) -> None:
        self.runs[run["run_id"]] = ("model", run["metadata"], run["parent_run_id"])

    def on_tool_start(self, *_: Any, **run: Any) -> None:
        self.runs[run["run_id"]] = (run.get("name") or "", run["metadata"], run["parent_run_id"])

    def lines(self) -> set[str]:
        """Return each run after the runs around it: `job > both > left > one`."""
        return {" > ".join(self._names(run)) for run in self.runs}

    def _names(self, run: UUID | None) -> Iterator[str]:
        if run is not None:
            name, _, parent = self.runs[run]
            yield from self._names(parent)
            yield name


def test_a_callback_handler_sees_the_tree(drive: Drive) -> None:
    handler = Traced()
    list(drive.run(ag.Runner(tree(), config={"callbacks": [handler]}), "Go."))
    assert handler.lines() == {
        "job",
        "job > draft",
        "job > boss",
        "job > boss > model",
        "job > boss.tools",
        "job > boss.tools > helper",
        "job > boss.tools > helper > helper",
        "job > boss.tools > helper > helper > helper",
        "job > both",
        "job > both > left",
        "job > both > left > left",
        "job > both > left > left > one",
        "job > both > left > left > two",
        "job > both > right",
        "job > both > right > right",
        "job > both > right > right > right",
    }
    leaves = {
        (name, *(metadata[key] for key in OURS))
        for name, metadata, _ in handler.runs.values()
        if metadata.get("agent_name") == name
    }
    assert leaves >= {
        ("draft", "draft", "job/twice[0]/draft", "job/twice/draft", 0, "draft"),
        ("draft", "draft", "job/twice[1]/draft", "job/twice/draft/draft", 1, "draft"),
        ("boss", "boss", "job/boss", "job/twice/boss", None, "boss"),
        ("helper", "helper", "job/boss/helper(0)", "job/twice/boss/helper", None, "helper"),
        ("two", "two", "job/both/left/two", "job/twice/boss/both/left/one/two", None, "two"),
        ("right", "right", "job/both/right", "job/twice/boss/both/right", None, "right"),
    }
    models = [metadata for name, metadata, _ in handler.runs.values() if name == "model"]
    assert {each["agent_address"] for each in models} == {"job/boss"}


def test_a_resumed_run_is_traced_where_it_continues(drive: Drive) -> None:
    handler = Traced()
    runner = ag.Runner(ag.sequential("job", [asks("boss"), says("writer")]))
    list(drive.run(runner, "Go.", thread_id="t"))
    list(drive.resume(runner, "t", "yes", config={"callbacks": [handler]}))
    assert handler.lines() == {"job", "job > boss", "job > writer"}


class Silent(BaseCallbackHandler):
    """Hears of runs, and does nothing."""

    run_inline = True


def every_way() -> ag.Agent:
    helper = ag.chat_agent("clerk", scripted("Sorted."), description="Sorts.")
    boss = ag.supervisor(
        "desk", scripted(calls(call("transfer_to_clerk")), "Done."), [helper], mode="handoff"
    )
    graph = ag.graph_agent("report", foreign(lambda state: {"messages": ["Bees."]}), flat=True)
    steps = [ag.step(says("first")), ag.step(says("then"), depends_on=["first"])]
    return ag.sequential(
        "all", [tree(), boss, graph, ag.workflow("flow", steps), asks("person"), says("out")]
    )


def saved(graph: Any) -> list[Any]:
    """Return of each checkpoint the channels that have values, and those that the next step wrote."""
    return sorted(
        (
            sorted(each.checkpoint["channel_values"]),
            sorted(channel for _, channel, _ in each.pending_writes),
        )
        for each in graph.checkpointer.list({"configurable": {"thread_id": "t"}})
    )


def test_a_node_writes_by_itself_what_langgraphs_writers_write(drive: Drive) -> None:
    ways = []
    for callbacks in ([], [Silent()]):
        graph = ag.compile_agent(every_way(), checkpointer=InMemorySaver())
        config: Any = {"configurable": {"thread_id": "t"}, "callbacks": callbacks}
        for given in ({"messages": ["Go."]}, Command(resume="Yes.")):
            if drive is Sync:
                graph.invoke(given, config)
            else:
                asyncio.run(graph.ainvoke(given, config))
        ways.append(saved(graph))
    assert ways[0] == ways[1]
    assert len(ways[0]) > 15


class LangSmith(ThreadingHTTPServer):
    """Takes the runs that LangSmith's client posts."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Posted)
        self.bodies: list[bytes] = []


class Posted(BaseHTTPRequestHandler):
    server: LangSmith

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.command == "POST":  # a run begins
            self.server.bodies.append(body)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_PATCH = do_POST  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture
def langsmith() -> Iterator[LangSmith]:
    with LangSmith() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_langsmiths_tracer_writes_the_tree(langsmith: LangSmith) -> None:
    client = Client(
        api_url=f"http://127.0.0.1:{langsmith.server_port}", api_key="none", auto_batch_tracing=False
    )
    tracer = LangChainTracer(project_name="tests", client=client)
    ag.Runner(tree()).invoke("Go.", config={"callbacks": [tracer]})
    client.session.close()
    posted = [json.loads(body) for body in langsmith.bodies]
    found = {
        (run["name"], run["extra"]["metadata"].get("agent_address"))
        for run in posted
        if run["extra"]["metadata"].get("agent_name") == run["name"]
    }
    assert {
        ("draft", "job/twice[1]/draft"),
        ("boss", "job/boss"),
        ("two", "job/both/left/two"),
    } <= found
    assert [run["name"] for run in posted if run.get("parent_run_id") is None] == ["job"]


OPEN_TELEMETRY = """
import json
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
LangChainInstrumentor().instrument(tracer_provider=provider)

import agentgraph as ag
from test_traces import tree

ag.Runner(tree()).invoke("Go.")
for span in exporter.get_finished_spans():
    metadata = json.loads(span.attributes.get("metadata", "{}"))
    print(json.dumps([span.name, metadata.get("agent_name"), metadata.get("agent_address")]))
"""


def test_openinference_makes_spans_of_the_agents(program: Commands, tmp_path: Path) -> None:
    path = tmp_path / "traced.py"
    path.write_text(OPEN_TELEMETRY)
    found = program(str(path))
    spans = {tuple(json.loads(line)) for line in found.lines}
    assert {
        ("draft", "draft", "job/twice[0]/draft"),
        ("boss", "boss", "job/boss"),
        ("helper", "helper", "job/boss/helper(0)"),
        ("two", "two", "job/both/left/two"),
    } <= spans
    assert "job" in {name for name, *_ in spans}


class Places(BaseCallbackHandler):
    """Keeps where the tools of a run were called, as the trace says."""

    run_inline = True

    def __init__(self) -> None:
        self.places: list[str] = []

    def on_tool_start(self, *_: Any, metadata: Any = None, **__: Any) -> None:
        self.places.append(metadata["agent_address"])


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_tools_of_an_agent_as_a_tool_have_its_address_and_wraps_that_of_the_caller(
    is_wrapped: bool,
) -> None:
    """The caller's place is in the config that its middleware sees, and in no other."""
    seen: list[tuple[Any, ...]] = []

    @wrap_tool_call  # type: ignore[arg-type]
    def looks(request: Any, handler: Any) -> Any:
        metadata = get_config()["metadata"]
        keys = ("agent_name", "agent_address", "agent_turn")
        seen.append((request.tool_call["name"], *map(metadata.get, keys)))
        return handler(request)

    def replies(*asked: Any) -> ScriptedChatModel:
        return ScriptedChatModel(
            responses=lambda sent: "Done." if sent[-1].type == "tool" else calls(*asked)
        )

    inner = ag.chat_agent(
        "inner", replies(call("echo", "1", text="a"), call("echo", "2", text="b")), tools=[echo]
    )
    tool, places = ag.agent_tool(inner), Places()
    outer = ag.chat_agent(
        "outer",
        replies(call("inner", request="q")),
        tools=[tool],
        approve=["inner"],
        middleware=[looks] if is_wrapped else [],
    )
    runner = ag.Runner(outer, config={"callbacks": [places]})
    runner.invoke("Go.", thread_id="t")
    runner.invoke(thread_id="t", answers="approve")
    assert places.places == ["outer/inner(0)"] * 2
    assert seen == [("inner", "outer", "outer", 0)] * is_wrapped
