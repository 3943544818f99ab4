"""Trees as outlines, and events as lines."""

from io import StringIO
from typing import Any

import pytest
from helpers import chat, says
from helpers.walking import par, rounds, seq
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from rich.console import Console

import agentgraph as ag
from agentgraph.show.lines import event_text, print_event, tree_lines
from agentgraph.testing import transcript


def test_a_tree_is_shown_as_an_outline() -> None:
    style = ag.function_agent("style", lambda ctx: "x", output_key="remark")
    desk = chat(
        "desk",
        tools=[ag.agent_tool(seq("research", says("seek")))],
        sub_agents=[rounds(None, "rounds", says("talk"), until=lambda ctx: True)],
    )
    tree = seq(
        "report",
        rounds(3, "refine", chat("write", output_key="draft"), says("critique")),
        par("review", seq("facts", says("find"), says("count")), style, max_concurrency=2),
        desk,
        ag.human("approve", "Print it?"),
    )
    assert tree_lines(tree) == [
        "report (sequential)",
        "├─ refine (loop, at most 3)",
        "│  ├─ write (chat, writes draft)",
        "│  └─ critique (function)",
        "├─ review (parallel, 2 at once)",
        "│  ├─ facts (sequential)",
        "│  │  ├─ find (function)",
        "│  │  └─ count (function)",
        "│  └─ style (function, writes remark)",
        "├─ desk (chat)",
        "│  ├─ rounds (loop, no bound)",
        "│  │  └─ talk (function)",
        "│  └─ research (sequential)",
        "│     └─ seek (function)",
        "└─ approve (human)",
    ]


SEARCH = ToolCall(name="search", args={"q": "bees"}, id="1")
PRINT = ag.Interrupt(id="1", address="a", agent_name="a", value="Print?")


def event(**what: Any) -> ag.AgentEvent:
    path = ag.RunPath(ag.RunStep(name) for name in ("report", "refine", "write", "critique", "write"))
    at = "report/refine[1]/write"
    return ag.AgentEvent(agent_name="write", run_path=path, address=at, id="1", **what)


def said(text: str, *calls: ToolCall) -> ag.AgentEvent:
    return event(output=ag.Output(message=AIMessage(text, tool_calls=list(calls))))


def printed(shown: ag.AgentEvent, **options: Any) -> str:
    file = StringIO()
    print_event(Console(file=file, highlight=False, markup=False, emoji=False, **options), shown)
    return file.getvalue()


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (said("A draft."), "A draft."),
        (said("word " * 100 + "end"), "word " * 100 + "end"),
        (
            said("", SEARCH, {**SEARCH, "id": "2"}),
            '[calls] search({"q": "bees"}), search({"q": "bees"})',
        ),
        (said("Wait.", SEARCH), "Wait."),
        (event(output=ag.Output(custom={"done": 1})), '[custom] {"done": 1}'),
        (event(action=ag.Action(exit=True)), "[exit]"),
        (event(action=ag.Action(break_loop=True)), "[break_loop]"),
        (event(action=ag.Action(transfer_to="critique")), "[transfer_to] critique"),
        (event(action=ag.Action(discarded=("1", "2"))), "[discarded]"),
        (event(action=ag.Action(interrupted=PRINT)), "[asks] Print?"),
        (event(error="ValueError('no')"), "[error] ValueError('no')"),
    ],
    ids=lambda each: each[:20] if isinstance(each, str) else each.kind,
)
def test_a_pipe_leads_an_event_by_its_address_and_a_transcript_by_its_run_path(
    shown: ag.AgentEvent, text: str
) -> None:
    assert event_text(shown) == text
    assert transcript([shown]) == [f"report/refine/write/critique/write: {text}"]
    assert printed(shown) == f"report/refine[1]/write: {text}\n"


def test_a_result_of_a_tool_is_printed_with_the_name_of_the_tool() -> None:
    result = event(output=ag.Output(message=ToolMessage("3 hives", tool_call_id="1", name="search")))
    assert printed(result) == "report/refine[1]/write: [result] search: 3 hives\n"
    assert transcript([result]) == ["report/refine/write/critique/write: 3 hives"]
    nameless = event(output=ag.Output(message=ToolMessage("3 hives", tool_call_id="1")))
    assert printed(nameless) == "report/refine[1]/write: [result] a tool: 3 hives\n"


def test_on_a_terminal_a_long_text_is_wrapped_and_indented_and_an_event_coloured() -> None:
    wide: Any = {"force_terminal": True, "width": 34}
    assert printed(said("one two three four five six seven eight"), color_system=None, **wide) == (
        "report/refine[1]/write: one \n    two three four five six seven \n    eight\n"
    )
    coloured = printed(event(error="V()"), color_system="standard", **wide)
    assert "\x1b[31m[error] V()\x1b[0m" in coloured
