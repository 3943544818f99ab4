"""Models that LangChain cannot make of a name: a missing key or package, an unknown provider."""

import asyncio
import os
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from helpers import THREAD, Drive, asks, chat, echo, scripted
from helpers.openai_server import OpenAIServer
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import RetryPolicy

import agentgraph as ag
from agentgraph.agents.agents import Agent
from agentgraph.testing import call, calls, recorded, transcript

pytestmark = pytest.mark.usefixtures("offline")

NAME = "openai:gpt-5"
NEEDS = f"the model {NAME!r} needs OPENAI_API_KEY, which is not set; set it in the environment"
RETRY = RetryPolicy(max_attempts=3, initial_interval=0.01)
OBJECT = "or pass a model object as model="


@pytest.fixture
def ran() -> list[str]:
    return []


@pytest.fixture
def noting(ran: list[str]) -> Agent:
    """Return an agent that notes that it ran."""

    def note(ctx: ag.Context) -> str:
        ran.append(ctx.address)
        return "Noted."

    return ag.function_agent("note", note)


def failure(
    call: Callable[..., Iterable[ag.AgentEvent]], *args: Any, **options: Any
) -> tuple[list[ag.AgentEvent], ag.AgentGraphError]:
    """Return the events of a call that fails, and its error; a sync call fails at once."""
    events: list[ag.AgentEvent] = []
    with pytest.raises(ag.AgentGraphError) as caught:
        events.extend(call(*args, **options))
    return events, caught.value


def names(model: Any = NAME, name: str = "w", **options: Any) -> Agent:
    return ag.chat_agent(name, model, description="Writes.", **options)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        (NAME, f"{NEEDS}, {OBJECT}"),
        (
            "google_genai:gemini-3",
            "the model 'google_genai:gemini-3' needs GOOGLE_API_KEY, which is not set; set it in the "
            f"environment, {OBJECT}",
        ),
        (
            "mistralai:mistral-large",
            "the model 'mistralai:mistral-large' needs the package langchain-mistralai; run pip "
            f"install langchain-mistralai, {OBJECT}",
        ),
        (
            "opnai:gpt-5",
            "the model 'opnai:gpt-5' names the unknown provider 'opnai'; did you mean 'openai:gpt-5'?",
        ),
        (
            "nobody:knows",
            "the model 'nobody:knows' names the unknown provider 'nobody'; write it as in "
            "'openai:gpt-5'",
        ),
        (
            "gtp5",
            "the model 'gtp5' does not name its provider; write it as in 'openai:gpt-5', " + OBJECT,
        ),
    ],
)
@pytest.mark.parametrize("chosen", [False, True], ids=["fixed", "chosen"])
def test_the_error_is_one_line_with_agent_model_and_way_out(
    drive: Drive, name: str, fault: str, chosen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(variable, raising=False)
    tree = ag.sequential("s", [names((lambda ctx: name) if chosen else name)])
    _, error = failure(drive.run, ag.Runner(tree), "Go.")
    assert str(error) == f"{'s/w' if chosen else 'w'}: {fault}"


ANTHROPIC = "anthropic:claude-opus-5"


@pytest.fixture
def no_anthropic(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [each for each in os.environ if each.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(variable)


@pytest.mark.usefixtures("no_anthropic")
@pytest.mark.parametrize(("model", "where"), [(ANTHROPIC, "w"), (lambda ctx: ANTHROPIC, "s/w(0)")])
def test_a_model_that_is_made_without_its_key_fails_alike(drive: Drive, model: Any, where: str) -> None:
    runner = ag.Runner(ag.each("s", names(model), over="items", on_error="collect"))
    _, error = failure(drive.run, runner, "Go.", values={"items": ["a"]})
    assert str(error) == (
        f"{where}: the model {ANTHROPIC!r} needs ANTHROPIC_API_KEY, which is not set; set it in the "
        f"environment, {OBJECT}"
    )


@pytest.mark.usefixtures("no_anthropic")
@pytest.mark.parametrize("variable", ["API_KEY", "BASE_URL", "AUTH_TOKEN"])
def test_a_model_may_do_without_a_key_if_its_provider_has_another_variable(
    drive: Drive, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(ctx: ag.Context) -> ag.Exit:
        return ag.Exit()

    runner = ag.Runner(ag.sequential("s", [ag.function_agent("stop", stop), names(ANTHROPIC)]))
    failure(drive.run, runner, "Go.")
    monkeypatch.setenv(f"ANTHROPIC_{variable}", "http://127.0.0.1:9")
    assert transcript(drive.run(runner, "Go.")) == ["s/stop: [exit]"]


@pytest.mark.usefixtures("no_anthropic")
def test_a_played_model_needs_no_key(drive: Drive, tmp_path: Path) -> None:
    path = tmp_path / "bees.json"
    recording = ag.Runner(names(scripted("Bees hum.")), middleware=[recorded(path)])
    assert transcript(drive.run(recording, "Go.")) == ["w: Bees hum."]
    for model in (ANTHROPIC, lambda ctx: ANTHROPIC):
        played = ag.Runner(names(model), middleware=[recorded(path, mode="play")])
        assert transcript(drive.run(played, "Go.")) == ["w: Bees hum."]


def test_the_traceback_is_short(drive: Drive) -> None:
    _, error = failure(drive.run, ag.Runner(names()), "Go.")
    text = "".join(traceback.format_exception(error))
    assert "During handling" not in text
    assert "direct cause" not in text
    assert text.endswith(f"InvalidAgentError: w: {NEEDS}, {OBJECT}\n")


def test_all_models_that_cannot_be_made_are_named_at_once(drive: Drive) -> None:
    agents = [names(name=name) for name in "abcde"]
    tree = ag.sequential("s", [*agents, names("opnai:gpt-5", "typo")])
    _, error = failure(drive.run, ag.Runner(tree), "Go.")
    assert isinstance(error, ag.InvalidAgentError)
    assert error.faults == (
        f"a, b, c and 2 more: {NEEDS}, {OBJECT}",
        "typo: the model 'opnai:gpt-5' names the unknown provider 'opnai'; did you mean "
        "'openai:gpt-5'?",
    )
    assert error.http_status == 500


TREES: dict[str, Callable[[Agent], Agent]] = {
    "sequential": lambda note: ag.sequential("s", [note, names()]),
    "loop": lambda note: ag.loop("s", [note, names()], max_iterations=2),
    "parallel, collect": lambda note: ag.parallel("s", [note, names()], on_error="collect"),
    "parallel, first": lambda note: ag.parallel("s", [names(), note], on_error="first"),
    "each, collect": lambda note: ag.each("s", names(), over="items", on_error="collect"),
    "each of several": lambda note: ag.each(
        "s", ag.sequential("one", [note, names()]), over="items", on_error="collect"
    ),
    "retried": lambda note: ag.sequential("s", [note, names(retry=RETRY)]),
    "middleware": lambda note: ag.sequential("s", [note, names(approve=["echo"], tools=[echo])]),
    "output_schema": lambda note: ag.sequential("s", [note, names(output_schema={"type": "object"})]),
    "as a tool": lambda note: ag.sequential(
        "s", [note, chat("c", calls(call("w", request="x")), "Done.", tools=[ag.agent_tool(names())])]
    ),
    "supervisor": lambda note: ag.sequential("s", [note, ag.supervisor("b", NAME, [chat("x", "Hm.")])]),
    "worker": lambda note: ag.sequential("s", [note, ag.supervisor("b", scripted("Hm."), [names()])]),
    "swarm": lambda note: ag.sequential("s", [note, ag.swarm("b", [names(), chat("x")], start="w")]),
    "planner": lambda note: ag.sequential(
        "s", [note, ag.plan_execute("b", planner=NAME, executor=scripted(), replanner=scripted())]
    ),
    "switch": lambda note: ag.sequential(
        "s", [note, ag.switch("b", lambda ctx: "x", {"x": chat("x", "Hm."), "y": names()})]
    ),
    "workflow": lambda note: ag.workflow("s", [note, ag.step(names(), depends_on=["note"])]),
    "run by a function": lambda note: ag.sequential(
        "s", [note, ag.function_agent("f", lambda ctx: ctx.run("w", "?").text, agents=[names()])]
    ),
}


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_nothing_runs_and_nothing_is_saved(
    drive: Drive, tree: Callable[[Agent], Agent], noting: Agent, ran: list[str]
) -> None:
    runner = ag.Runner(tree(noting))
    values = {"items": ["a", "b"]}
    events, error = failure(drive.run, runner, "Go.", thread_id="t", values=values)
    assert NEEDS in str(error)
    assert (events, ran, runner.threads()) == ([], [], [])


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_compiled_graph_saves_nothing_either(
    tree: Callable[[Agent], Agent], is_async: bool, noting: Agent, ran: list[str]
) -> None:
    saver = InMemorySaver()
    graph = ag.compile_agent(tree(noting), checkpointer=saver)
    given: Any = {"messages": ["Go."], "values": {"items": ["a", "b"]}}
    with pytest.raises(ag.AgentGraphError, match="needs OPENAI_API_KEY"):
        asyncio.run(graph.ainvoke(given, THREAD)) if is_async else graph.invoke(given, THREAD)
    assert (ran, [*saver.list(None)]) == ([], [])


def inner_graph() -> Any:
    """Return a LangGraph graph with a compiled tree as a node."""
    builder = StateGraph(MessagesState)
    builder.add_node("inner", ag.compile_agent(names()))
    builder.add_edge(START, "inner")
    builder.add_edge("inner", END)
    return builder.compile()


LATE: dict[str, Callable[[list[str]], Agent]] = {
    "chosen": lambda ran: names(lambda ctx: (ran.append("w"), NAME)[1]),
    "chosen, with a schema": lambda ran: names(
        lambda ctx: (ran.append("w"), NAME)[1], output_schema={"type": "object"}
    ),
    "chosen, retried": lambda ran: names(lambda ctx: (ran.append("w"), NAME)[1], retry=RETRY),
    "of a summary": lambda ran: chat("w", "Hm.", history=ag.summarized(NAME, 1)),
    "of a tree in a graph": lambda ran: ag.graph_agent("w", ag.compile_agent(names(name="x"))),
    "of a tree in a node": lambda ran: ag.graph_agent("w", inner_graph(), flat=False),
    "in a tool": lambda ran: chat(
        "w", calls(call("x", request="?")), "Done.", tools=[ag.agent_tool(names(lambda ctx: NAME, "x"))]
    ),
    "of a function's runner": lambda ran: ag.function_agent(
        "w", lambda ctx: ag.Runner(names()).invoke("?").text
    ),
}
AROUND: dict[str, Callable[[Agent], Agent]] = {
    "each": lambda agent: ag.each("s", agent, over="items", max_concurrency=1, on_error="collect"),
    "collect": lambda agent: ag.parallel("s", [agent, chat("o", "Hm.")], on_error="collect"),
    "first": lambda agent: ag.parallel("s", [agent, asks("o")], on_error="first"),
}


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
def test_a_model_that_is_made_late_fails_the_run_at_once(
    drive: Drive, late: Callable[[list[str]], Agent], around: Callable[[Agent], Agent], ran: list[str]
) -> None:
    runner = ag.Runner(around(late(ran)))
    values = {"items": ["a", "b"]}
    _, error = failure(drive.run, runner, "Go on and on.", thread_id="t", values=values)
    assert NEEDS in str(error)
    assert ran in ([], ["w"])


@pytest.mark.parametrize("method", ["resume", "run"])
def test_a_thread_stays_as_it_is_while_the_key_is_missing(
    drive: Drive, method: str, monkeypatch: pytest.MonkeyPatch, openai_server: OpenAIServer
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", openai_server.base_url)
    openai_server.script = ["Hum."]
    tree, saver = ag.sequential("s", [asks("boss"), names()]), InMemorySaver()
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    list(drive.run(ag.Runner(tree, checkpointer=saver), "Go.", thread_id="t"))
    monkeypatch.delenv("OPENAI_API_KEY")
    runner = ag.Runner(tree, checkpointer=saver)
    count = len([*saver.list(None)])
    if method == "resume":
        failure(drive.resume, runner, "t", "Yes.")
    else:
        failure(drive.run, runner, "On.", thread_id="t", drop_pending=True)
    assert (len([*saver.list(None)]), runner.thread("t").status) == (count, "paused")
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    assert transcript(drive.resume(runner, "t", "Yes."))[-1] == "s/boss/w: Hum."


def test_a_model_is_made_once_for_all_agents_that_name_it(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, openai_server: OpenAIServer
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    monkeypatch.setenv("OPENAI_BASE_URL", openai_server.base_url)
    openai_server.script = ["A.", "B."] * 2
    runner = ag.Runner(ag.sequential("s", [names(name="a"), names(name="b")]))
    assert transcript(drive.run(runner, "Go.", thread_id="t")) == ["s/a: A.", "s/a/b: B."]
    monkeypatch.delenv("OPENAI_API_KEY")
    assert transcript(drive.run(runner, "Go.", thread_id="t")) == ["s/a: A.", "s/a/b: B."]


def test_trees_are_compiled_drawn_and_read_without_a_key() -> None:
    runner = ag.Runner(ag.sequential("s", [names(), ag.each("e", names(name="x"), over="items")]))
    assert "w" in runner.graph.get_graph().nodes
    assert (runner.threads(), runner.thread("t").status) == ([], "new")
    assert "w (chat)" in str(runner.agent)
