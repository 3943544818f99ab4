"""How graphs, trees and events are shown."""

import subprocess
import sys
from io import StringIO

import pytest
from langchain_core.messages import AIMessage, ToolCall
from langgraph.graph import END, START, MessagesState, StateGraph
from rich.console import Console

import agentgraph as ag
from agentgraph.display import event_text, mermaid, print_event, tree_lines
from agentgraph.testing import ScriptedChatModel, transcript


def says(name: str, output_key: str | None = None) -> ag.Agent:
    def fn(ctx: ag.Context) -> str:
        return name

    return ag.function_agent(name, fn, output_key=output_key)


def report() -> ag.Agent:
    writer = ag.chat_agent("write", ScriptedChatModel(responses=["text"]), output_key="draft")
    body = ag.loop("refine", [writer, says("critique")], max_iterations=3)
    branches = [ag.sequential("facts", [says("find"), says("count")]), says("style", "remark")]
    review = ag.parallel("review", branches, max_concurrency=2)
    endless = ag.loop("chat", [says("talk")], max_iterations=None, until=lambda ctx: True)
    return ag.sequential("report", [body, review, endless, ag.human("approve", "Print it?")])


SEARCH = ToolCall(name="search", args={"q": "bees"}, id="1")


def edges(text: str) -> set[str]:
    lines = (line.strip().rstrip(";") for line in text.splitlines())
    return {line for line in lines if " --> " in line or " -.-> " in line}


def event(**what: object) -> ag.AgentEvent:
    path = ag.RunPath((ag.RunStep("report"), ag.RunStep("write")))
    return ag.AgentEvent(agent_name="write", run_path=path, address="report/write", id="1", **what)  # type: ignore[arg-type]


def printed(shown: ag.AgentEvent, **options: object) -> str:
    file = StringIO()
    print_event(Console(file=file, highlight=False, markup=False, emoji=False, **options), shown)  # type: ignore[arg-type]
    return file.getvalue()


def test_a_graph_is_drawn_with_a_box_for_each_agent_that_runs() -> None:
    drawn = mermaid(ag.compile_agent(report()), xray=False)
    assert edges(drawn) == {
        "__start__ --> write",
        "write --> critique",
        "critique -.-> write",
        "critique -.-> review",
        "review --> talk",
        "talk -.-> talk",
        "talk -.-> approve",
        "approve --> __end__",
    }


def test_a_box_holds_a_name_and_nothing_else() -> None:
    drawn = mermaid(ag.compile_agent(report()))
    assert "\twrite(write)\n" in drawn
    assert "agent_name" not in drawn
    assert "__turn__" not in drawn


def test_branches_are_drawn_inside_the_box_of_their_parallel() -> None:
    drawn = mermaid(ag.compile_agent(report()))
    assert "\tsubgraph review\n" in drawn
    assert "\tsubgraph facts\n" in drawn
    assert r"review\3afacts\3afind --> review\3afacts\3acount" in edges(drawn)


def test_a_tree_inside_another_graph_is_drawn_without_the_node_that_begins_its_turns() -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("inner", ag.compile_agent(ag.sequential("pair", [says("a"), says("b")])))
    builder.add_edge(START, "inner")
    builder.add_edge("inner", END)
    assert edges(mermaid(builder.compile())) == {
        r"__start__ --> inner\3aa",
        r"inner\3aa --> inner\3ab",
        r"inner\3ab --> __end__",
    }


def test_drawing_leaves_the_graph_as_it_is() -> None:
    graph = ag.compile_agent(report())
    mermaid(graph)
    assert graph.get_graph().nodes["write"].metadata == {"agent_name": "write"}


def test_a_tree_is_shown_as_an_outline() -> None:
    assert tree_lines(report()) == [
        "report (sequential)",
        "├─ refine (loop, at most 3)",
        "│  ├─ write (chat, writes draft)",
        "│  └─ critique (function)",
        "├─ review (parallel, 2 at once)",
        "│  ├─ facts (sequential)",
        "│  │  ├─ find (function)",
        "│  │  └─ count (function)",
        "│  └─ style (function, writes remark)",
        "├─ chat (loop, no bound)",
        "│  └─ talk (function)",
        "└─ approve (human)",
    ]


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (event(output=ag.Output(message=AIMessage("A draft."))), "A draft."),
        (event(output=ag.Output(custom={"done": 1})), '[custom] {"done": 1}'),
        (event(action=ag.Action(exit=True)), "[exit]"),
        (event(action=ag.Action(break_loop=True)), "[break_loop]"),
        (event(action=ag.Action(transfer_to="critique")), "[transfer_to] critique"),
        (event(action=ag.Action(discarded=("1", "2"))), "[discarded]"),
        (
            event(output=ag.Output(message=AIMessage("", tool_calls=[SEARCH, {**SEARCH, "id": "2"}]))),
            '[calls] search({"q": "bees"}), search({"q": "bees"})',
        ),
        (event(output=ag.Output(message=AIMessage("Wait.", tool_calls=[SEARCH]))), "Wait."),
        (
            event(
                action=ag.Action(
                    interrupted=ag.Interrupt(id="1", address="a", agent_name="a", value="Print?")
                )
            ),
            "[asks] Print?",
        ),
        (event(error="ValueError('no')"), "[error] ValueError('no')"),
    ],
)
def test_an_event_has_one_text_in_transcripts_and_on_the_console(
    shown: ag.AgentEvent, text: str
) -> None:
    assert event_text(shown) == text
    assert transcript([shown]) == [f"report/write: {text}"]
    assert printed(shown) == f"report/write: {text}\n"


def test_a_long_text_stays_one_line_in_a_pipe() -> None:
    text = "word " * 100 + "end"
    assert printed(event(output=ag.Output(message=AIMessage(text)))) == f"report/write: {text}\n"


def test_a_long_text_is_wrapped_and_indented_on_a_terminal() -> None:
    shown = event(output=ag.Output(message=AIMessage("one two three four five six seven eight")))
    assert printed(shown, force_terminal=True, color_system=None, width=34) == (
        "report/write: one two three \n    four five six seven eight\n"
    )


def test_an_event_is_coloured_on_a_terminal() -> None:
    shown = printed(event(error="ValueError()"), force_terminal=True, color_system="standard", width=80)
    assert "\x1b[31m[error] ValueError()\x1b[0m" in shown


def test_all_but_the_console_works_without_rich() -> None:
    code = "import sys; sys.modules['rich'] = None; import agentgraph.display, agentgraph.testing"
    subprocess.run([sys.executable, "-c", code], check=True)


def desk() -> ag.Agent:
    """Return a chat agent with tools, an agent as a tool, and agents to transfer to."""

    def note() -> str:
        """Notes."""
        return "Noted."

    def chat(name: str, **options: object) -> ag.Agent:
        return ag.chat_agent(name, ScriptedChatModel(responses=[]), **options)  # type: ignore[arg-type]

    research = ag.sequential("research", [says("find"), chat("count", tools=[note])])
    return chat(
        "desk",
        tools=[ag.agent_tool(research), note],
        sub_agents=[chat("bills"), ag.loop("rounds", [says("ask")], max_iterations=2)],
    )


def test_agents_to_transfer_to_and_agents_as_tools_stand_in_the_outline() -> None:
    assert tree_lines(ag.sequential("all", [desk(), says("close")])) == [
        "all (sequential)",
        "├─ desk (chat)",
        "│  ├─ bills (chat)",
        "│  ├─ rounds (loop, at most 2)",
        "│  │  └─ ask (function)",
        "│  └─ research (sequential)",
        "│     ├─ find (function)",
        "│     └─ count (chat)",
        "└─ close (function)",
    ]


def test_transfers_are_drawn_as_edges_from_the_tools_of_an_agent() -> None:
    assert edges(mermaid(ag.compile_agent(desk()), xray=False)) == {
        "__start__ --> desk",
        "desk -.-> desk\\2etools",
        "desk -.-> __end__",
        "desk\\2etools -.-> desk",
        "desk\\2etools -.-> bills",
        "desk\\2etools -.-> ask",
        "bills -.-> bills\\2etools",
        "bills -.-> __end__",
        "bills\\2etools -.-> bills",
        "bills\\2etools -.-> desk",
        "ask -.-> ask",
        "ask -.-> __end__",
    }


def test_an_agent_as_a_tool_is_drawn_in_the_box_of_the_tools() -> None:
    drawn = mermaid(ag.compile_agent(desk()))
    assert "\tsubgraph desk.tools\n" in drawn
    assert "\tsubgraph research\n" in drawn
    assert "(desk.call)\n" in drawn
    assert "__turn__" not in drawn
