"""Graphs with a `cache_policy`, and chat models with a cache of LangChain's."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from helpers import Drive, chat, lines, notes
from helpers.cached import Cache, Ran, heard, message
from langchain_core.caches import InMemoryCache as ModelCache
from langchain_core.globals import set_llm_cache
from langchain_core.messages import AIMessage, RemoveMessage, ToolMessage
from langgraph.config import get_stream_writer
from langgraph.func import entrypoint
from langgraph.types import CachePolicy, Command

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

pytestmark = pytest.mark.by_turns("drive")

SAID: dict[str, tuple[list[Callable[[Any], Any]], dict[str, Any]]] = {
    "texts": ([lambda m: "One.", lambda m: "Two."], {"output_key": "out"}),
    "calls": ([lambda m: message(1), lambda m: ToolMessage("hit", name="look", tool_call_id="1")], {}),
    "changed": ([lambda m: "One.", lambda m: AIMessage("Two.", id=m[-1].id)], {}),
    "removed": ([lambda m: "One.", lambda m: [RemoveMessage(id=m[-1].id), AIMessage("Two.")]], {}),
    "written": ([lambda m: get_stream_writer()({"n": 1}) or "One."], {}),
    "an output": (
        [lambda m: "One."],
        {"output": lambda state: ["Two.", ag.SetValues(n=1), ag.Custom(2)], "output_key": "out"},
    ),
    "an input": ([lambda m: "One."], {"input": lambda ctx: {"messages": ["Anew."]}}),
}


@pytest.mark.parametrize("case", SAID)
def test_a_graph_that_gets_the_same_input_is_not_run(
    drive: Drive, cache: Cache, ran: Ran, case: str
) -> None:
    nodes, options = SAID[case]
    a = ran.graph("a", *nodes, **options)
    runner = ag.Runner(ag.sequential("s", [a, notes("z", "out", "n")]), cache=cache)
    miss, hit = heard(drive, runner, "1"), heard(drive, runner, "2")
    assert ran == ["a"]
    assert lines(hit) == lines(miss)
    assert runner.thread("2").values == runner.thread("1").values


def test_a_tree_in_a_tree_is_cached_as_a_whole(drive: Drive, cache: Cache, ran: Ran) -> None:
    inner = ag.compile_agent(ran.agent("i", "One.", ag.Custom(1), "Two.", cache_policy=None))
    runner = ag.Runner(ag.graph_agent("a", inner, cache_policy=CachePolicy()), cache=cache)
    assert lines(heard(drive, runner, "1")) == lines(heard(drive, runner, "2"))
    assert ran == ["i"]


def test_an_entrypoint_is_cached_by_its_input(drive: Drive, cache: Cache, ran: Ran) -> None:
    @entrypoint()
    def shout(text: str) -> str:
        ran.append(text)
        return text.upper()

    a = ag.graph_agent(
        "a",
        shout,
        input=lambda ctx: ctx.values["topic"],
        output=lambda said: said,
        cache_policy=CachePolicy(),
    )
    runner = ag.Runner(a, cache=cache)
    for topic in ("bees", "wasps", "bees"):
        assert lines(drive.run(runner, f"Go {len(ran)}.", values={"topic": topic})) == [
            f"a: {topic.upper()}"
        ]
    assert ran == ["bees", "wasps"]


def test_a_handoff_of_a_graph_is_cached(drive: Drive, cache: Cache, ran: Ran) -> None:
    def hand_over(messages: Any) -> Any:
        update = {"messages": [AIMessage("Over.")], "n": 1}
        return Command(goto="desk", graph=Command.PARENT, update=update)

    replies = [calls(call("transfer_to_a")), "Bye."]
    desk = chat("desk", *replies * 2, sub_agents=[ran.graph("a", hand_over)])
    desk = ag.sequential("s", [desk, notes("z", "n")])
    runner = ag.Runner(desk, cache=cache)
    miss, hit = heard(drive, runner, "1"), heard(drive, runner, "2")
    assert ran == ["a"]
    assert lines(hit) == lines(miss)
    over = ["Over.", "[transfer_to] desk"]
    assert lines(hit)[-4:-2] == [f"s/desk[1]/a: {each}" for each in over]
    assert lines(hit)[-1] == "s/z: [custom] [1]"


# Chat models, which LangChain caches


def look(to: str) -> str:
    """Look."""
    return "seen"


def reply(messages: Any) -> Any:
    return "Done." if messages[-1].type == "tool" else calls(call("look", to="bees"))


def fail(messages: Any) -> Exception:
    return ValueError("no")


@pytest.fixture(params=["its own", "of all"])
def model(request: pytest.FixtureRequest) -> Iterator[ScriptedChatModel]:
    if request.param == "its own":
        yield ScriptedChatModel(responses=[reply] * 9, cache=ModelCache())
        return
    set_llm_cache(ModelCache())
    yield ScriptedChatModel(responses=[reply] * 9)
    set_llm_cache(None)


AROUND: dict[str, Callable[[ScriptedChatModel], Any]] = {
    "alone": lambda model: model,
    "bound": lambda model: model.bind(temperature=0),
    "with fallbacks": lambda model: model.with_fallbacks([ScriptedChatModel(responses=[])]),
    "a fallback": lambda model: ScriptedChatModel(responses=fail).with_fallbacks([model]),
    "chosen": lambda model: lambda ctx: model,
}


@pytest.mark.parametrize("around", AROUND)
def test_a_cached_model_is_asked_once_for_what_it_is_sent(
    drive: Drive, model: ScriptedChatModel, around: str
) -> None:
    """After a hit LangChain's message says that it cost nothing, so the next call differs once."""
    chat_agent = ag.chat_agent("a", AROUND[around](model), tools=[look])
    runner = ag.Runner(ag.sequential("s", [chat_agent]))
    for thread, asked in (("1", 2), ("2", 3), ("3", 3)):
        said = lines(heard(drive, runner, thread))
        assert said == ['s/a: [calls] look({"to": "bees"})', "s/a: seen", "s/a: Done."]
        assert len(model.inputs) == asked


def test_a_cached_model_is_found_in_the_words_of_others(drive: Drive) -> None:
    model = ScriptedChatModel(responses=["One.", "Two."], cache=ModelCache())
    agents = [ag.chat_agent(name, model) for name in "ab"]
    runner = ag.Runner(ag.sequential("s", agents))
    said = [lines(heard(drive, runner, thread)) for thread in "12"]
    assert said == [["s/a: One.", "s/b: Two."]] * 2
    model.assert_finished()
