"""The shape of compiled graphs: which nodes and edges came out, and what they take and give."""

from collections.abc import Iterator

import helpers
import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls


def says(name, text="ok"):
    return helpers.says(name, text)


def capabilities(name, hint):
    def fn(ctx):
        return "ok"

    fn.__annotations__["return"] = hint
    return ag.function_agent(name, fn)


def edges(agent, *, xray=False):
    graph = ag.compile_agent(agent).get_graph(xray=xray)
    return {f"{e.source} {'..' if e.conditional else '->'} {e.target}" for e in graph.edges}


DRAWN: dict[str, tuple[ag.Agent, str]] = {
    "a sequence is a chain of solid edges": (
        ag.sequential("s", [says("a"), says("b")]),
        "__start__ -> a, a -> b, b -> __end__",
    ),
    "a loop goes back only from its last agent": (
        ag.loop("l", [says("a"), says("b")], max_iterations=3),
        "__start__ -> a, a -> b, b .. a, b .. __end__",
    ),
    "a loop of one iteration has no way back": (
        ag.loop("l", [says("a"), says("b")], max_iterations=1),
        "__start__ -> a, a -> b, b -> __end__",
    ),
    "a loop without bound ends only where its agents say so": (
        ag.sequential(
            "s",
            [
                ag.loop("l", [says("a"), capabilities("b", str | ag.BreakLoop)], max_iterations=None),
                says("c"),
            ],
        ),
        "__start__ -> a, a -> b, b .. a, b .. c, c -> __end__",
    ),
    "an annotation names an exit": (
        ag.sequential("s", [capabilities("a", str | ag.Exit), says("b")]),
        "__start__ -> a, a .. b, a .. __end__, b -> __end__",
    ),
    "an annotation names a question": (
        ag.sequential("s", [capabilities("a", Iterator[str | ag.Ask]), says("b")]),
        "__start__ -> a, a .. a.ask, a.ask -> a, a .. b, b -> __end__",
    ),
    "a function without annotation may do everything": (
        ag.loop("l", [ag.function_agent("a", lambda ctx: "x"), says("b")], max_iterations=2),
        "__start__ -> a, a .. b, a .. __end__, a .. a.ask, a.ask -> a, b .. a, b .. __end__",
    ),
    "a break in a branch leads out of the loop after the join": (
        ag.sequential(
            "s",
            [
                ag.loop(
                    "l",
                    [ag.parallel("p", [capabilities("a", str | ag.BreakLoop), says("b")]), says("c")],
                    max_iterations=2,
                ),
                says("d"),
            ],
        ),
        "__start__ -> p, p .. c, p .. d, c .. p, c .. d, d -> __end__",
    ),
    "an agent in several places has a node for each": (
        (lambda a: ag.sequential("s", [a, ag.loop("l", [a, a], max_iterations=1)]))(says("a")),
        "__start__ -> s.a, s.a -> s.l.a, s.l.a -> s.l.a#2, s.l.a#2 -> __end__",
    ),
    "a name that Mermaid cannot read gets its path": (
        ag.sequential("s", [says("style"), says("graph-maker")]),
        "__start__ -> s.style, s.style -> s.graph-maker, s.graph-maker -> __end__",
    ),
}


@pytest.mark.parametrize("case", DRAWN)
def test_drawn_is_just_what_can_happen(case):
    agent, expected = DRAWN[case]
    assert edges(agent) == set(expected.split(", "))


def test_branches_are_boxes_inside_the_node_that_runs_them():
    tree = ag.parallel("review", [says("legal"), ag.sequential("press", [says("p"), says("q")])])
    drawn = edges(tree, xray=True)
    assert {
        "review:__start__ -> review:legal",
        "review:__start__ -> review:press:p",
        "review:press:p -> review:press:q",
        "review:press:q -> review:__end__",
    } <= drawn
    assert {"__start__ -> review", "review -> __end__"} <= edges(tree)


def test_branches_of_a_branch_are_boxes_too():
    inner = ag.parallel("q", [says("a"), says("b")])
    drawn = edges(ag.parallel("p", [inner, says("c")]), xray=True)
    assert {"p:q:__start__ -> p:q:a", "p:q:b -> p:q:__end__", "p:q:__end__ -> p:__end__"} <= drawn


def test_the_state_of_a_branch_is_found():
    tree = ag.parallel("p", [ag.sequential("x", [says("a"), ag.human("h", "?")]), says("b")])
    saver = InMemorySaver()
    graph = ag.compile_agent(tree, checkpointer=saver)
    graph.invoke({"messages": ["hi"]}, {"configurable": {"thread_id": "t"}})
    (namespace,) = {
        saved.config["configurable"]["checkpoint_ns"]
        for saved in saver.list({"configurable": {"thread_id": "t"}})
        if "|x:" in saved.config["configurable"]["checkpoint_ns"]
    }
    state = graph.get_state({"configurable": {"thread_id": "t", "checkpoint_ns": namespace}})
    assert state.next == ("h",)
    assert [message.text for message in state.values["messages"]] == ["ok"]


def test_nodes_carry_the_name_of_their_agent():
    nodes = (
        ag.compile_agent(ag.sequential("s", [capabilities("a", ag.Ask), says("b")])).get_graph().nodes
    )
    named = {name: node.metadata and node.metadata["agent_name"] for name, node in nodes.items()}
    assert named == {
        "__start__": None,
        "a": "a",
        "a.ask": "a",
        "b": "b",
        "__end__": None,
    }


def test_a_compiled_tree_is_a_plain_graph_that_takes_and_gives_messages():
    graph = ag.compile_agent(ag.sequential("s", [says("a", "one"), says("b", "two")]))
    assert isinstance(graph, CompiledStateGraph)
    assert graph.checkpointer is None
    out = graph.invoke({"messages": [{"role": "user", "content": "hi"}]})
    assert [(type(m).__name__, m.content) for m in out["messages"]] == [
        ("HumanMessage", "hi"),
        ("AIMessage", "one"),
        ("AIMessage", "two"),
    ]


def test_the_schemas_show_messages_and_values():
    graph = ag.compile_agent(says("a"))
    assert set(graph.get_input_jsonschema()["properties"]) == {"messages", "values"}
    assert set(graph.get_output_jsonschema()["properties"]) == {"messages", "values"}


def test_a_compiled_tree_nests_in_another_graph():
    tree = ag.loop("l", [says("a", "x")], max_iterations=2)
    outer = StateGraph(MessagesState)
    outer.add_node("before", lambda state: {"messages": [AIMessage("before")]})
    outer.add_node("tree", ag.compile_agent(tree))
    outer.add_edge(START, "before")
    outer.add_edge("before", "tree")
    outer.add_edge("tree", END)
    out = outer.compile().invoke({"messages": [HumanMessage("hi")]})
    assert [m.text for m in out["messages"]] == ["hi", "before", "x", "x"]


def test_a_second_turn_starts_afresh_after_a_turn_that_stopped_in_the_middle():
    def fn(ctx):
        if ctx.iteration == 1 and len(ctx.messages) < 4:
            raise ValueError("once")
        return f"{ctx.iteration}"

    graph = ag.compile_agent(
        ag.loop("l", [ag.function_agent("a", fn)], max_iterations=3), checkpointer=InMemorySaver()
    )
    config = {"configurable": {"thread_id": "t"}}
    with pytest.raises(ValueError, match="once"):
        graph.invoke({"messages": ["one"]}, config)
    out = graph.invoke({"messages": ["two", "three"]}, config)
    assert [m.text for m in out["messages"]] == ["one", "0", "two", "three", "0", "1", "2"]


def test_a_command_as_input_jumps_to_any_node_with_the_counters_it_names():
    tree = ag.sequential(
        "s",
        [
            ag.loop("l", [ag.function_agent("a", lambda ctx: ctx.address)], max_iterations=5),
            ag.function_agent("b", lambda ctx: ctx.address),
        ],
    )
    graph = ag.compile_agent(tree, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    graph.invoke({"messages": ["hi"]}, config)
    position = graph.get_state(config).values["position"]
    jump = Command(goto="a", update={"position": {**position, "next": "a", "cursor": [3]}})
    out = graph.invoke(jump, config)
    assert [m.text for m in out["messages"]][-3:] == ["s/l[3]/a", "s/l[4]/a", "s/b"]


def test_a_jump_without_a_position_starts_the_loops_on_the_way_at_zero():
    tree = ag.loop("l", [ag.function_agent("a", lambda ctx: ctx.address)], max_iterations=2)
    graph = ag.compile_agent(tree, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    graph.invoke({"messages": ["hi"]}, config)
    out = graph.invoke(Command(goto="a"), config)
    assert [m.text for m in out["messages"]][-2:] == ["l[0]/a", "l[1]/a"]


def test_state_edited_in_the_middle_of_a_loop_goes_on_with_the_right_counters():
    tree = ag.loop("l", [says("a"), ag.function_agent("b", lambda c: c.address)], max_iterations=3)
    graph = ag.compile_agent(tree, checkpointer=InMemorySaver(), interrupt_before=["b"])
    config = {"configurable": {"thread_id": "t"}}
    graph.invoke({"messages": ["hi"]}, config)
    graph.invoke(None, config)
    graph.update_state(config, {"messages": [HumanMessage("a word from the side")]})
    graph.invoke(None, config)
    out = graph.invoke(None, config)
    texts = [m.text for m in out["messages"]]
    assert texts == ["hi", "ok", "l[0]/b", "ok", "a word from the side", "l[1]/b", "ok", "l[2]/b"]


def test_functions_replace_and_remove_messages_by_id():
    def write(ctx):
        yield AIMessage("draft", id="draft")
        yield AIMessage("note", id="note")

    def edit(ctx):
        yield AIMessage("better", id="draft")
        yield RemoveMessage(id="note")

    tree = ag.sequential("s", [ag.function_agent("w", write), ag.function_agent("e", edit)])
    out = ag.compile_agent(tree).invoke({"messages": ["hi"]})
    assert [m.text for m in out["messages"]] == ["hi", "better"]


def test_a_long_loop_does_not_meet_langgraphs_limit_of_steps():
    ended = []

    def fn(ctx) -> str | ag.BreakLoop:
        return ag.BreakLoop() if ctx.iteration == 10_100 else ended.append(1)

    fn.__annotations__["return"] = ag.BreakLoop | None
    ag.compile_agent(ag.loop("l", [ag.function_agent("a", fn)], max_iterations=None)).invoke(
        {"messages": []}
    )
    assert len(ended) == 10_100


def test_the_users_own_limit_of_steps_holds():
    graph = ag.compile_agent(ag.loop("l", [says("a")], max_iterations=100))
    with pytest.raises(GraphRecursionError):
        graph.invoke({"messages": []}, {"recursion_limit": 10})


def test_a_tool_call_edited_in_the_state_is_what_runs_and_the_loop_goes_on_where_it_was():
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    asks = calls(call("add", a=1, b=2))
    model = ScriptedChatModel(responses=[asks, "One.", asks, "Two."])
    tree = ag.loop("l", [ag.chat_agent("writer", model, tools=[add])], max_iterations=2)
    graph = ag.compile_agent(tree, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    for given in ({"messages": ["Go."]}, None):
        graph.invoke(given, config, interrupt_before=["writer.tools"])
    asked = graph.get_state(config).values["messages"][-1]
    edited = [{**asked.tool_calls[0], "args": {"a": 40, "b": 2}}]
    graph.update_state(config, {"messages": [asked.model_copy(update={"tool_calls": edited})]})
    assert graph.get_state(config).next == ("writer.tools",)
    state = graph.invoke(None, config)
    assert [m.text for m in state["messages"]] == ["Go.", "", "3", "One.", "", "42", "Two."]
    assert state["messages"][-2].response_metadata["agentgraph"] == "l[1]/writer"


def chat(**options):
    return ag.chat_agent("w", ScriptedChatModel(responses=[]), **options)


def find(topic: str) -> str:
    """Find something."""
    return topic


def behind(node, agent):
    """Return what is drawn behind a node of a chat agent in a loop, with a human behind the loop."""
    tree = ag.sequential("s", [ag.loop("l", [agent, says("a")], max_iterations=2), ag.human("h", "?")])
    return {edge.partition(" ")[2] for edge in edges(tree) if edge.partition(" ")[0] == node}


def test_a_chat_agent_without_tools_is_one_node():
    assert behind("w", chat()) == {"-> a"}
    assert behind("w", chat(tools=[{"type": "web_search"}])) == {"-> a"}


def test_tools_go_back_to_the_model_and_nowhere_else():
    assert behind("w", chat(tools=[find])) == {".. w.tools", ".. a"}
    assert behind("w.tools", chat(tools=[find])) == {"-> w"}


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_what_may_need_approval_is_asked_for_before_the_tools(mode):
    agent = chat(tools=[find], approve=["find"], interrupt_mode=mode)
    assert behind("w", agent) == {"-> w.approve"}
    assert behind("w.approve", agent) == {".. w.tools", ".. w", ".. a"}


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ({"return_directly": ["find"]}, {".. a"}),
        ({"exit_tool": True}, {".. __end__"}),
        ({"break_tool": True}, {".. h"}),
    ],
)
def test_what_tools_may_do_is_drawn_behind_them(options, more):
    assert behind("w.tools", chat(tools=[find], **options)) == {".. w", *more}


def test_a_tool_that_says_nothing_of_itself_may_do_everything():
    def silent(topic: str):
        """Do something."""

    assert behind("w.tools", chat(tools=[silent])) == {".. w", ".. __end__", ".. h"}
