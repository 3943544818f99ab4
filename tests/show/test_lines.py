"""Trees as outlines, and events as lines."""

import subprocess
import sys
from io import StringIO

import pytest
from langchain_core.messages import AIMessage, ToolCall
from rich.console import Console

import agentgraph as ag
from agentgraph.show.lines import event_text, print_event, tree_lines
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
    desk = ag.chat_agent(
        "desk",
        ScriptedChatModel(responses=[]),
        tools=[ag.agent_tool(ag.sequential("research", [says("seek")]))],
        sub_agents=[ag.loop("rounds", [says("talk")], max_iterations=None, until=lambda ctx: True)],
    )
    return ag.sequential("report", [body, review, desk, ag.human("approve", "Print it?")])


SEARCH = ToolCall(name="search", args={"q": "bees"}, id="1")


def event(**what: object) -> ag.AgentEvent:
    path = ag.RunPath(ag.RunStep(name) for name in ("report", "refine", "write", "critique", "write"))
    at = "report/refine[1]/write"
    return ag.AgentEvent(agent_name="write", run_path=path, address=at, id="1", **what)  # type: ignore[arg-type]


def printed(shown: ag.AgentEvent, **options: object) -> str:
    file = StringIO()
    print_event(Console(file=file, highlight=False, markup=False, emoji=False, **options), shown)  # type: ignore[arg-type]
    return file.getvalue()


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
        "├─ desk (chat)",
        "│  ├─ rounds (loop, no bound)",
        "│  │  └─ talk (function)",
        "│  └─ research (sequential)",
        "│     └─ seek (function)",
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
def test_the_console_leads_an_event_by_its_address_and_a_transcript_by_its_run_path(
    shown: ag.AgentEvent, text: str
) -> None:
    assert event_text(shown) == text
    assert transcript([shown]) == [f"report/refine/write/critique/write: {text}"]
    assert printed(shown) == f"report/refine[1]/write: {text}\n"


def test_a_long_text_stays_one_line_in_a_pipe() -> None:
    text = "word " * 100 + "end"
    assert (
        printed(event(output=ag.Output(message=AIMessage(text)))) == f"report/refine[1]/write: {text}\n"
    )


def test_a_long_text_is_wrapped_and_indented_on_a_terminal() -> None:
    shown = event(output=ag.Output(message=AIMessage("one two three four five six seven eight")))
    assert printed(shown, force_terminal=True, color_system=None, width=34) == (
        "report/refine[1]/write: one \n    two three four five six seven \n    eight\n"
    )


def test_an_event_is_coloured_on_a_terminal() -> None:
    shown = printed(event(error="ValueError()"), force_terminal=True, color_system="standard", width=80)
    assert "\x1b[31m[error] ValueError()\x1b[0m" in shown


def test_all_but_the_console_works_without_rich() -> None:
    code = "import sys; sys.modules['rich'] = None; import agentgraph.show.lines, agentgraph.testing"
    subprocess.run([sys.executable, "-c", code], check=True)
