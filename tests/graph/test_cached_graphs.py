"""Graphs with a `cache_policy`, and chat models with a cache of LangChain's."""

from collections.abc import Callable
from typing import Any

import pytest
from cached import Cache, Ran, heard, message
from helpers import Drive, chat, lines, notes
from langchain_core.caches import InMemoryCache as ModelCache
from langchain_core.messages import AIMessage, RemoveMessage, ToolMessage
from langgraph.config import get_stream_writer
from langgraph.types import CachePolicy, Command

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

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


def test_a_cache_of_models_works_in_a_chat_agent(drive: Drive) -> None:
    """After a hit LangChain's messages say that they cost nothing, so the next call differs once."""

    def look(to: str) -> str:
        """Look."""
        return "seen"

    def reply(messages: Any) -> Any:
        return "Done." if messages[-1].type == "tool" else calls(call("look", to="bees"))

    model = ScriptedChatModel(responses=[reply] * 9, cache=ModelCache())
    agents = [ag.chat_agent("a", model, tools=[look]), ag.chat_agent("b", model)]
    runner = ag.Runner(ag.sequential("s", [agents[0]]))
    said, asked = [], []
    for thread in "123":
        said.append(lines(heard(drive, runner, thread)))
        asked.append(len(model.inputs))
    assert said == [['s/a: [calls] look({"to": "bees"})', "s/a: seen", "s/a: Done."]] * 3
    assert asked == [2, 3, 3]
