"""`compile_agent` takes the options of LangGraph's `compile`, and answers others with advice."""

import asyncio
from typing import Any, TypedDict

import pytest
from helpers import Drive, Sync, says
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag

of: Any = ag
TREE = ag.sequential("s", [says("a"), says("b"), ag.parallel("p", [says("c"), says("d")])])


class State(TypedDict):
    topic: str


OPTIONS = [
    ("state_schema", State, "use values=State; the messages are there without it"),
    ("config_schema", State, "use context_schema="),
    ("output_schema", State, "leave it out; it takes messages and values"),
    ("recursion_limit", 50, "use limits=ag.Limits(model_calls=...)"),
    (
        "thread_id",
        "t",
        'pass it to the graph: graph.invoke(..., config={"configurable": {"thread_id": ...}})',
    ),
    ("renames", {}, "use ag.Runner(tree, ...), which has it"),
    ("verbose", True, 'leave it out; ag.watch(runner, "Go.") shows what agents do as they do it'),
]


@pytest.mark.parametrize(("option", "value", "hint"), OPTIONS, ids=[each for each, *_ in OPTIONS])
def test_an_option_of_no_graph_is_answered_by_what_to_write(
    option: str, value: object, hint: str
) -> None:
    with pytest.raises(TypeError) as caught:
        of.compile_agent(TREE, **{option: value})
    assert str(caught.value) == f"compile_agent() has no option {option!r}; {hint}"
    assert caught.value.__context__ is None


def test_without_a_hint_the_options_of_langgraph_are_listed_too() -> None:
    with pytest.raises(TypeError) as caught:
        of.compile_agent(TREE, interrupt_befor=["a"])
    assert str(caught.value) == (
        "compile_agent() has no option 'interrupt_befor'; did you mean interrupt_before=? available: "
        "agent, checkpointer, store, context_schema, limits, prices, values, middleware, cache, "
        "interrupt_before, interrupt_after, debug, name, transformers"
    )


WRONG = [
    (
        {"checkpointer": "runs.db"},
        "checkpointer='runs.db' is not a saver of LangGraph; pass one, such as that of "
        'ag.sqlite_saver("runs.db"), or use ag.Runner(tree, checkpointer="runs.db")',
    ),
    (
        {"checkpointer": InMemorySaver},
        "checkpointer=<class 'langgraph.checkpoint.memory.InMemorySaver'> is not a saver of LangGraph; "
        'pass one, such as that of ag.sqlite_saver("runs.db"), or use ag.Runner(tree, '
        'checkpointer="runs.db")',
    ),
    (
        {"store": {}},
        "store={} is not a store of LangGraph; pass one, such as "
        "langgraph.store.memory.InMemoryStore()",
    ),
    *(
        (
            {"interrupt_after": nodes},
            f"interrupt_after={nodes!r} is not a list of nodes of the graph; choose from ['a', 'b', "
            "'p'], or put ag.human(...) in front of the agent",
        )
        for nodes in ("b", ["c"], ["b", "zoo"], 3)
    ),
]


@pytest.mark.parametrize(("options", "text"), WRONG)
def test_a_wrong_value_is_answered_by_what_to_pass(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ag.AgentGraphError) as caught:
        of.compile_agent(TREE, **options)
    assert str(caught.value) == text


@pytest.mark.parametrize("option", ["interrupt_before", "interrupt_after"])
def test_a_graph_stops_where_langgraph_would(drive: Drive, option: str) -> None:
    at = {"interrupt_before": "b", "interrupt_after": "a"}[option]
    options: dict[str, Any] = {option: [at]}
    graph = ag.compile_agent(TREE, checkpointer=InMemorySaver(), name="job", **options)
    config: Any = {"configurable": {"thread_id": "t"}}
    assert graph.name == "job"
    for sent, texts in (({"messages": ["Go."]}, ["Go.", "a"]), (None, ["Go.", "a", "b", "c", "d"])):
        if drive is Sync:
            graph.invoke(sent, config)
        else:
            asyncio.run(graph.ainvoke(sent, config))
        assert [each.text for each in graph.get_state(config).values["messages"]] == texts
