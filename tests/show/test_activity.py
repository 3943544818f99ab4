"""The state of each agent in a live tree, fed by hand and from what LangGraph streams."""

from dataclasses import replace
from typing import Any

import pytest
from helpers import fails, gives, says, scripted
from langchain_core.messages import AIMessage, AIMessageChunk
from langgraph.types import Command

import agentgraph as ag
from agentgraph.events.translation import STREAM_MODES, Translator
from agentgraph.show.activity import Activity, Row
from agentgraph.testing import call, calls
from agentgraph.tree.places import Tree
from agentgraph.tree.validation import validate


class Fed:
    """Feeds an activity by hand, second by second."""

    def __init__(self, agent: ag.Agent) -> None:
        self.tree = validate(agent)
        self.activity = Activity(self.tree)

    def lines(self, now: float = 0.0) -> list[str]:
        return [line(row) for row in self.activity.rows(now)]

    def began(self, at: str, now: float = 0.0) -> None:
        self.activity.began(at, now)

    def ended(self, at: str, now: float = 0.0, then: str | None = None, ending: Any = "done") -> None:
        self.activity.ended(at, now, ending, then)

    def says(self, at: str, text: str, id: str = "1", **message: Any) -> None:
        output = ag.Output(message=AIMessage(text, id=id, **message))
        self.activity.add(event(at, id, output=output), 0.0)

    def chunk(self, at: str, text: str, id: str = "1") -> None:
        output = ag.Output(message=AIMessageChunk(content=text, id=id), partial=True)
        self.activity.add(event(at, id, output=output), 0.0)


def event(at: str, id: str = "1", **what: Any) -> ag.AgentEvent:
    name = at.rpartition("/")[2]
    path = ag.RunPath((ag.RunStep(name),))
    return ag.AgentEvent(agent_name=name, run_path=path, address=at, id=id, **what)


def line(row: Row) -> str:
    seconds = "" if row.seconds is None else f"{row.seconds:g} s"
    tokens = f"{row.tokens_in}>{row.tokens_out}" if row.tokens_in else ""
    said = row.text + "…" * row.is_growing
    parts = [
        row.state,
        row.iteration or (f"{row.runs}x" if row.runs > 1 else ""),
        seconds,
        tokens,
        said,
    ]
    return f"{row.outline}{row.name}: {' | '.join(filter(None, parts))}"


def usage(given: int, made: int) -> dict[str, int]:
    return {"input_tokens": given, "output_tokens": made, "total_tokens": given + made}


def report() -> ag.Agent:
    loop = ag.loop("refine", [says("write"), says("judge")], max_iterations=3)
    branches = [says("facts"), ag.sequential("style", [says("find"), says("count")])]
    return ag.sequential("report", [loop, ag.parallel("review", branches), says("print")])


def test_composites_run_while_anything_in_them_runs_or_comes_next() -> None:
    fed = Fed(report())
    fed.began("report/refine[0]/write", 1)
    fed.ended("report/refine[0]/write", 3, then="report/refine[0]/judge")
    assert fed.lines(4)[:4] == [
        "report: running | 3 s",
        "├─ refine: running | 1 of 3 | 3 s",
        "│  ├─ write: done | 2 s",
        "│  └─ judge: waiting",
    ]
    fed.began("report/refine[0]/judge", 4)
    fed.ended("report/refine[0]/judge", 5, then="report/refine[1]/write")
    fed.began("report/refine[1]/write", 6)
    fed.ended("report/refine[1]/write", 7, then="report/review")
    assert fed.lines(7)[:5] == [
        "report: running | 6 s",
        "├─ refine: done | 2 of 3 | 6 s",
        "│  ├─ write: done | 2x | 3 s",
        "│  └─ judge: done | 1 s",
        "├─ review: waiting",
    ]


def test_the_time_of_a_parallel_is_by_the_clock_and_not_a_sum() -> None:
    fed = Fed(report())
    fed.began("report/review", 0)
    fed.began("report/review/facts", 0)
    fed.began("report/review/style/find", 0)
    fed.ended("report/review/facts", 4)
    fed.ended("report/review/style/find", 3, then="report/review/style/count")
    fed.began("report/review/style/count", 3)
    fed.ended("report/review/style/count", 5)
    fed.ended("report/review", 5, then="report/print")
    assert fed.lines(9)[4:] == [
        "├─ review: done | 5 s",
        "│  ├─ facts: done | 4 s",
        "│  └─ style: done | 5 s",
        "│     ├─ find: done | 3 s",
        "│     └─ count: done | 2 s",
        "└─ print: waiting",
    ]


def test_agents_that_still_run_when_a_fork_fails_have_stopped() -> None:
    fed = Fed(report())
    fed.began("report/review", 0)
    fed.began("report/review/facts", 0)
    fed.began("report/review/style/find", 0)
    fed.activity.add(event("report/review/facts", error="ValueError('no')"), 2)
    fed.activity.finish(3, failed=True)
    assert fed.lines(9) == [
        "report: failed | 3 s",
        "├─ refine: waiting",
        "│  ├─ write: waiting",
        "│  └─ judge: waiting",
        "├─ review: failed | 3 s",
        "│  ├─ facts: failed | 2 s | [error] ValueError('no')",
        "│  └─ style: stopped | 3 s",
        "│     ├─ find: stopped | 3 s",
        "│     └─ count: waiting",
        "└─ print: waiting",
    ]


def test_a_run_that_was_left_has_stopped_and_not_failed() -> None:
    fed = Fed(report())
    fed.began("report/refine[0]/write", 0)
    fed.activity.finish(1)
    assert fed.lines(2)[:3] == [
        "report: stopped | 1 s",
        "├─ refine: stopped | 1 of 3 | 1 s",
        "│  ├─ write: stopped | 1 s",
    ]


def test_a_question_is_asked_by_the_agent_and_all_around_it_until_it_goes_on() -> None:
    fed = Fed(ag.sequential("s", [ag.human("boss", "Print?"), says("print")]))
    fed.began("s/boss", 0)
    fed.ended("s/boss", 1, ending="asks")
    assert fed.lines(5) == ["s: asks | 1 s", "├─ boss: asks | 1 s", "└─ print: waiting"]
    fed.began("s/boss", 60)
    fed.ended("s/boss", 61, then="s/print")
    assert fed.lines(62) == ["s: running | 3 s", "├─ boss: done | 2 s", "└─ print: waiting"]


def test_agents_that_never_began_are_not_run_once_all_is_done() -> None:
    fed = Fed(ag.sequential("s", [says("a"), says("b")]))
    fed.began("s/a")
    fed.ended("s/a")
    assert fed.lines() == ["s: done | 0 s", "├─ a: done | 0 s", "└─ b: not run"]


def test_a_reply_grows_chunk_by_chunk_until_it_is_whole() -> None:
    fed = Fed(says("write"))
    fed.began("write")
    seen = []
    for reply, text in [("1", "A "), ("1", "draft"), ("2", "An"), ("2", "other")]:
        fed.chunk("write", text, reply)
        seen.append(fed.activity.rows(0)[0].text)
    fed.says("write", "Another.", id="2")
    assert seen == ["A ", "A draft", "An", "Another"]
    assert fed.lines() == ["write: running | 0 s | Another."]


def test_of_an_endless_reply_only_the_end_is_kept() -> None:
    fed = Fed(says("write"))
    for number in range(3000):
        fed.chunk("write", f"{number} ")
    assert len(fed.activity.rows(0)[0].text) <= 2000
    assert fed.activity.rows(0)[0].text.endswith("2998 2999 ")


def test_tokens_are_counted_once_for_each_message_and_summed_in_composites() -> None:
    fed = Fed(report())
    for reply, made in [("1", 5), ("2", 7), ("1", 5)]:
        fed.says("report/refine[0]/write", "x", id=reply, usage_metadata=usage(10, made))
    fed.says("report/review/facts", "x", id="3", usage_metadata=usage(100, 1))
    assert [(row.name, row.tokens_in, row.tokens_out) for row in fed.activity.rows(0)] == [
        ("report", 120, 13),
        ("refine", 20, 12),
        ("write", 20, 12),
        ("judge", 0, 0),
        ("review", 100, 1),
        ("facts", 100, 1),
        ("style", 0, 0),
        ("find", 0, 0),
        ("count", 0, 0),
        ("print", 0, 0),
    ]


def test_running_lists_the_innermost_addresses() -> None:
    fed = Fed(report())
    fed.began("report/review", 0)
    fed.began("report/review/facts", 1)
    fed.began("report/review/style/find", 2)
    assert fed.activity.running(4) == [("report/review/facts", 3), ("report/review/style/find", 2)]


@pytest.mark.parametrize("at", ["", "elsewhere", "report/nobody", "report/refine/write", "re port"])
def test_addresses_of_other_trees_are_ignored(at: str) -> None:
    fed = Fed(report())
    fed.began(at)
    fed.ended(at)
    fed.says(at, "x")
    assert fed.lines() == Fed(report()).lines()


class Recorded(Activity):
    """Records what the parts of a stream change."""

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self.changes: list[str] = []

    def began(self, at: str, now: float) -> None:
        self.changes.append(f"+ {at}")
        super().began(at, now)

    def ended(self, at: str, now: float, ending: Any = "done", then: str | None = None) -> None:
        self.changes.append(f"- {at} {ending}" + (f" > {then}" if then else ""))
        super().ended(at, now, ending, then)


class Streamed:
    """Feeds an activity with the stream of a compiled tree; each part takes a second."""

    def __init__(self, agent: ag.Agent) -> None:
        self.tree = validate(agent)
        saver = ag.Runner(agent).saver
        self.graph = ag.compile_agent(agent, checkpointer=saver)
        self.activity = Recorded(self.tree)
        self.changes = self.activity.changes
        self.now = 0.0

    def go(self, given: Any, *, failed: bool = False) -> list[str]:
        translator = Translator(self.tree)
        options: Any = {"stream_mode": [*STREAM_MODES, "tasks"], "subgraphs": True, "version": "v2"}
        try:
            for part in self.graph.stream(given, {"configurable": {"thread_id": "t"}}, **options):
                self.now += 1
                self.activity.feed(part, self.now)
                for event in translator.feed(part):
                    self.activity.add(event, self.now)
        except ValueError as error:
            for event in translator.fail(error):
                self.activity.add(event, self.now)
        self.activity.finish(self.now, failed=failed)
        return [line(replace(row, seconds=None)) for row in self.activity.rows(self.now)]


def run(agent: ag.Agent, **options: Any) -> list[str]:
    return Streamed(agent).go({"messages": [("user", "Go.")]}, **options)


def test_the_stream_of_a_run_gives_what_begins_ends_and_comes_next() -> None:
    loop = ag.loop("l", [says("a"), gives("b", "no", ag.BreakLoop())], max_iterations=5)
    streamed = Streamed(ag.sequential("s", [loop, ag.parallel("p", [says("c")]), ag.human("h", "?")]))
    streamed.go({"messages": [("user", "Go.")]})
    assert streamed.changes == [
        "+ s/l[0]/a",
        "- s/l[0]/a done > s/l[0]/b",
        "+ s/l[0]/b",
        "- s/l[0]/b done > s/l[1]/a",
        "+ s/l[1]/a",
        "- s/l[1]/a done > s/l[1]/b",
        "+ s/l[1]/b",
        "- s/l[1]/b done > s/p",
        "+ s/p",
        "+ s/p/c",
        "- s/p/c done",
        "- s/p done > s/h",
        "+ s/h",
        "- s/h asks",
    ]


def test_a_loop_counts_as_people_do_and_its_body_how_often_it_ran() -> None:
    endless = ag.loop("l", [says("a")], max_iterations=None, until=lambda ctx: ctx.iteration == 2)
    bounded = ag.loop("m", [says("b")], max_iterations=2)
    assert run(ag.sequential("s", [endless, bounded])) == [
        "s: done",
        "├─ l: done | 3",
        "│  └─ a: done | 3x | a",
        "└─ m: done | 2 of 2",
        "   └─ b: done | 2x | b",
    ]


def test_the_steps_of_a_workflow_and_what_undoes_them() -> None:
    hotel = ag.step(says("hotel", "Room 7."), compensate=says("undo", "Cancelled."))
    flight = ag.step(fails("flight"), depends_on=["hotel"])
    taxi = ag.step(says("taxi"), depends_on=["flight"])
    streamed = Streamed(ag.workflow("trip", [hotel, flight, taxi]))
    with pytest.raises(ag.StepFailedError):
        streamed.go({"messages": [("user", "Go.")]})
    streamed.activity.finish(streamed.now, failed=True)
    assert [line(replace(row, seconds=None)) for row in streamed.activity.rows(0)] == [
        "trip: failed",
        "├─ hotel: done | Room 7.",
        "├─ flight: failed | [error] ValueError('flight failed, time 1')",
        "├─ taxi: waiting",
        "└─ undo: done | Cancelled.",
    ]


def test_a_chat_agent_with_tools_runs_once_and_agents_as_its_tools_are_below_it() -> None:
    both = [call("research", request="bees"), call("research", request="ants")]
    research = ag.chat_agent("research", scripted("They hum.", "They walk."))
    writer = ag.chat_agent("writer", scripted(calls(*both), "Done."), tools=[ag.agent_tool(research)])
    writer_row, research_row = run(writer)
    assert writer_row == "writer: done | Done."
    assert research_row.startswith("└─ research: done | 2x | They ")


def test_a_transfer_ends_one_agent_and_begins_another() -> None:
    bills = ag.chat_agent("bills", scripted("Paid."))
    desk = scripted(calls(call("transfer_to_bills")))
    streamed = Streamed(ag.chat_agent("desk", desk, sub_agents=[bills]))
    assert streamed.go({"messages": [("user", "Go.")]}) == [
        "desk: done | [transfer_to] bills",
        "└─ bills: done | Paid.",
    ]
    assert streamed.changes[-3:] == [
        "- desk done > desk[1]/bills",
        "+ desk[1]/bills",
        "- desk[1]/bills done",
    ]


def test_questions_in_branches_and_what_goes_on_with_an_answer() -> None:
    tree = ag.parallel("p", [ag.human("a", "A?"), ag.human("b", "B?"), says("c")])
    streamed = Streamed(tree)
    assert streamed.go({"messages": [("user", "Go.")]}) == [
        "p: asks",
        "├─ a: asks | [asks] A?",
        "├─ b: asks | [asks] B?",
        "└─ c: done | c",
    ]
    [task] = streamed.graph.get_state({"configurable": {"thread_id": "t"}}).tasks
    asked = {question.value: question.id for question in task.interrupts}
    assert streamed.go(Command(resume={asked["A?"]: "yes"})) == [
        "p: asks",
        "├─ a: done | yes",
        "├─ b: asks | [asks] B?",
        "└─ c: done | c",
    ]


def test_a_failed_branch_that_is_collected_does_not_fail_the_rest() -> None:
    tree = ag.parallel("p", [fails("a"), says("b")], on_error="collect")
    assert run(ag.sequential("s", [tree, says("c")])) == [
        "s: done",
        "├─ p: done",
        "│  ├─ a: failed | Failed: ValueError('a failed, time 1')",
        "│  └─ b: done | b",
        "└─ c: done | c",
    ]


def test_a_failure_is_shown_all_the_way_up() -> None:
    loop = ag.loop("l", [says("a"), fails("b")], max_iterations=2)
    assert run(ag.sequential("s", [ag.parallel("p", [loop]), says("c")]), failed=True) == [
        "s: failed",
        "├─ p: failed",
        "│  └─ l: failed | 1 of 2",
        "│     ├─ a: done | a",
        "│     └─ b: failed | [error] ValueError('b failed, time 1')",
        "└─ c: waiting",
    ]


def test_the_nodes_of_a_graph_agent_are_not_agents() -> None:
    inner = ag.graph_agent("inner", ag.compile_agent(ag.sequential("s", [says("a"), says("b")])))
    streamed = Streamed(ag.sequential("s", [says("a"), inner]))
    assert streamed.go({"messages": [("user", "Go.")]}) == [
        "s: done",
        "├─ a: done | a",
        "└─ inner: done | b",
    ]
    assert [change for change in streamed.changes if change.startswith("+")] == ["+ s/a", "+ s/inner"]


def test_a_jump_without_a_position_has_an_address() -> None:
    streamed = Streamed(ag.sequential("s", [says("a"), ag.loop("l", [says("b")], max_iterations=1)]))
    streamed.go({"messages": [("user", "Go.")]})
    streamed.changes.clear()
    streamed.go(Command(goto="b", update={"messages": [("user", "Again.")]}))
    assert "+ s/l[0]/b" in streamed.changes
