"""A trace is read as the tree, whatever reads it: LangSmith, OpenInference, or a callback handler."""

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from helpers import Drive, Sync, asks, echo, foreign, says, scripted
from helpers.commands import Commands
from langchain.agents.middleware import wrap_tool_call
from langchain_core.callbacks import BaseCallbackHandler
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.types import Command
from langsmith import Client, traceable, tracing_context

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls


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


SPANS = [
    "job",
    "job/both",
    "job/both/left",
    "job/both/left/one",
    "job/both/left/two",
    "job/both/right",
    "job/boss",
    "job/boss/helper(0)",
    "job/twice",
    "job/twice[0]/draft",
    "job/twice[1]/draft",
]
"""The spans of `tree()`."""


@traceable(name="looked up")
def look_up() -> str:
    return "Bees."


def test_langsmiths_tracer_writes_the_tree_and_what_its_functions_call(
    langsmith: LangSmith, caplog: pytest.LogCaptureFixture
) -> None:
    """As it does for all that LangChain runs: it is set by the environment, or by a context."""
    client = Client(
        api_url=f"http://127.0.0.1:{langsmith.server_port}", api_key="none", auto_batch_tracing=False
    )
    looking = ag.function_agent("looking", lambda ctx: look_up())
    inside = ag.parallel("inside", [looking, ag.sequential("more", [says("three")])])
    with tracing_context(enabled=True, client=client):
        ag.Runner(ag.sequential("all", [tree(), inside])).invoke("Go.")
    client.session.close()
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []
    posted = {run["id"]: run for run in map(json.loads, langsmith.bodies)}
    at = {key: run["extra"]["metadata"].get("agent_address") for key, run in posted.items()}
    found = {
        (run["name"], at[key], at.get(run.get("parent_run_id")))
        for key, run in posted.items()
        if run["run_type"] == "chain"
    }
    assert found >= {
        ("draft", "all/job/twice[1]/draft", "all/job/twice"),
        ("one", "all/job/both/left/one", "all/job/both/left"),
        ("helper", "all/job/boss/helper(0)", "all/job/boss"),
        ("looked up", "all/inside/looking", "all/inside/looking"),
        ("three", "all/inside/more/three", "all/inside/more"),
    }
    assert len(found) == len(SPANS) + 6
    assert [run["name"] for run in posted.values() if run.get("parent_run_id") is None] == ["all"]


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
    spans = [json.loads(line) for line in program(str(path)).lines]
    agents = [at for name, agent, at in spans if name == agent]
    assert sorted(agents) == sorted(SPANS)


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
