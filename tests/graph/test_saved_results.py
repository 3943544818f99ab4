"""The results of finished tasks are read as LangGraph has loaded them, and only those it would give."""

from collections.abc import Callable
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.func import task
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from agentgraph.graph.internals import MISSING
from agentgraph.graph.saving import saved_results

THREAD: RunnableConfig = {"configurable": {"thread_id": "t"}}


class State(TypedDict):
    word: str


def finder(config: RunnableConfig) -> Callable[[str, int], Any]:
    """Return a function that returns what the task of a name and a call number gave, or MISSING."""
    results, task_id = saved_results(config)
    return lambda name, number: results.get(task_id(name, number), MISSING)


def graph_of(
    look: Callable[[Callable[[str, int], Any]], None],
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return a graph whose node looks for saved results, calls two tasks, and asks."""

    @task(name="small")
    def small(word: str) -> str:
        return word

    @task(name="large")
    def large(word: str) -> dict[str, str]:
        return {"said": word.upper()}

    def node(state: State) -> State:
        look(finder(get_config()))
        small("a").result()
        large("b").result()
        return {"word": interrupt("ok?")}

    builder = StateGraph(State).add_node("node", node).add_edge(START, "node")
    return builder.compile(checkpointer=InMemorySaver())


def test_a_result_is_found_under_the_name_and_number_of_its_task_once_it_is_saved() -> None:
    seen: list[Any] = []
    places = [("small", 0), ("large", 1), ("small", 1), ("large", 2), ("node", 0)]
    graph = graph_of(lambda find: seen.append([find(*place) for place in places]))
    graph.invoke({"word": ""}, THREAD)
    assert graph.invoke(Command(resume="yes"), THREAD) == {"word": "yes"}
    assert seen == [[MISSING] * 5, ["a", {"said": "B"}, MISSING, MISSING, MISSING]]


def test_nothing_is_found_where_langgraph_runs_finished_tasks_again() -> None:
    seen: list[Any] = []
    graph = graph_of(lambda find: seen.append(find("small", 0)))
    graph.invoke({"word": ""}, THREAD)
    before = graph.get_state(THREAD).config
    graph.invoke(Command(resume="yes"), THREAD)
    graph.invoke(None, before)  # time travel
    assert seen == [MISSING, "a", MISSING]


def test_nothing_is_found_where_no_node_runs() -> None:
    assert finder({"configurable": {}})("small", 0) is MISSING
