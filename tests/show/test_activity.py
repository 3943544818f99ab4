"""The state of each agent in a live tree, fed by hand and from what LangGraph streams."""

from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from helpers import fails, says, scripted
from helpers.walking import NAMES, cases, par, rounds, seq
from langchain_core.messages import AIMessage, AIMessageChunk
from langgraph.types import Command

import agentgraph as ag
from agentgraph.events.translation import STREAM_MODES, Translator
from agentgraph.show.activity import Activity, Row
from agentgraph.testing import call, calls
from agentgraph.tree.places import Tree
from agentgraph.tree.validation import validate


def line(row: Row) -> str:
    return f"{row.outline}{row.name}: " + " | ".join(
        part
        for part in (
            row.state,
            row.iteration or (f"{row.runs}x" if row.runs > 1 else ""),
            "" if row.seconds is None else f"{row.seconds:g} s",
            f"{row.tokens_in}>{row.tokens_out}" if row.tokens_in else "",
            row.text + "…" * row.is_growing,
        )
        if part
    )


def event(at: str, id: str = "1", **what: Any) -> ag.AgentEvent:
    name = at.rpartition("/")[2]
    path = ag.RunPath((ag.RunStep(name),))
    return ag.AgentEvent(agent_name=name, run_path=path, address=at, id=id, **what)


# fed by hand


class Fed(Activity):
    """An activity that is fed by hand, second by second."""

    def __init__(self, agent: ag.Agent) -> None:
        super().__init__(validate(agent))

    def lines(self, now: float = 0.0) -> list[str]:
        return [line(row) for row in self.rows(now)]

    def ran(
        self, at: str, begun: float, ended: float, then: str | None = None, as_: Any = "done"
    ) -> None:
        self.began(at, begun)
        self.ended(at, ended, as_, then)

    def says(self, at: str, text: str, id: str = "1", **message: Any) -> None:
        self.add(event(at, id, output=ag.Output(message=AIMessage(text, id=id, **message))), 0.0)

    def chunk(self, at: str, text: str, id: str = "1") -> None:
        message = AIMessageChunk(content=text, id=id)
        self.add(event(at, id, output=ag.Output(message=message, partial=True)), 0.0)


def report() -> ag.Agent:
    loop = rounds(3, "refine", says("write"), says("judge"))
    return seq(
        "report",
        loop,
        par("review", says("facts"), seq("style", says("find"), says("count"))),
        says("print"),
    )


def test_composites_run_while_anything_in_them_runs_or_comes_next() -> None:
    fed = Fed(report())
    fed.ran("report/refine[0]/write", 1, 3, then="report/refine[0]/judge")
    assert fed.lines(4)[:4] == [
        "report: running | 3 s",
        "├─ refine: running | 1 of 3 | 3 s",
        "│  ├─ write: done | 2 s",
        "│  └─ judge: waiting",
    ]
    fed.ran("report/refine[0]/judge", 4, 5, then="report/refine[1]/write")
    fed.ran("report/refine[1]/write", 6, 7, then="report/review")
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
    fed.began("report/review/facts", 1)
    fed.began("report/review/style/find", 2)
    assert fed.running(4) == [("report/review/facts", 3), ("report/review/style/find", 2)]
    fed.ended("report/review/facts", 4)
    fed.ended("report/review/style/find", 3, then="report/review/style/count")
    fed.ran("report/review/style/count", 3, 5)
    fed.ended("report/review", 5, then="report/print")
    assert fed.lines(9)[4:] == [
        "├─ review: done | 5 s",
        "│  ├─ facts: done | 3 s",
        "│  └─ style: done | 3 s",
        "│     ├─ find: done | 1 s",
        "│     └─ count: done | 2 s",
        "└─ print: waiting",
    ]


def test_the_time_of_an_agent_that_runs_twice_at_once_is_by_the_clock() -> None:
    fed = Fed(ag.chat_agent("desk", scripted(), tools=[ag.agent_tool(says("find"))]))
    fed.began("desk", 0)
    fed.began("desk/find(0)", 1)
    fed.began("desk/find(1)", 2)
    fed.ended("desk/find(0)", 4)
    assert fed.lines(5) == ["desk: running | 5 s", "└─ find: running | 2x | 4 s"]
    fed.ended("desk/find(1)", 6)
    assert fed.lines(9) == ["desk: running | 9 s", "└─ find: done | 2x | 5 s"]


@pytest.mark.parametrize(("failed", "left"), [(True, "failed"), (False, "stopped")])
def test_agents_that_still_run_at_the_end_have_stopped_or_failed_with_an_agent_in_them(
    failed: bool, left: str
) -> None:
    fed = Fed(report())
    fed.began("report/review", 0)
    fed.began("report/review/facts", 0)
    fed.began("report/review/style/find", 0)
    fed.add(event("report/review/facts", error="ValueError('no')"), 2)
    fed.finish(3, failed=failed)
    assert fed.lines(9) == [
        f"report: {left} | 3 s",
        "├─ refine: waiting",
        "│  ├─ write: waiting",
        "│  └─ judge: waiting",
        f"├─ review: {left} | 3 s",
        "│  ├─ facts: failed | 2 s | [error] ValueError('no')",
        "│  └─ style: stopped | 3 s",
        "│     ├─ find: stopped | 3 s",
        "│     └─ count: waiting",
        "└─ print: waiting",
    ]


def test_a_question_is_asked_by_the_agent_and_all_around_it_until_it_goes_on() -> None:
    fed = Fed(seq("s", ag.human("boss", "Print?"), says("print")))
    fed.ran("s/boss", 0, 1, as_="asks")
    assert fed.lines(5) == ["s: asks | 1 s", "├─ boss: asks | 1 s", "└─ print: waiting"]
    fed.ran("s/boss", 60, 61, then="s/print")
    assert fed.lines(62) == ["s: running | 3 s", "├─ boss: done | 2 s", "└─ print: waiting"]


def test_agents_that_never_began_are_not_run_once_all_is_done() -> None:
    fed = Fed(seq("s", says("a"), says("b")))
    fed.ran("s/a", 0, 0)
    assert fed.lines() == ["s: done | 0 s", "├─ a: done | 0 s", "└─ b: not run"]


def test_a_reply_grows_chunk_by_chunk_until_it_is_whole_and_of_a_long_one_the_end_is_kept() -> None:
    fed, seen = Fed(says("write")), []
    fed.began("write", 0)
    for reply, text in [("1", "A "), ("1", "draft"), ("2", "An"), ("2", "other")]:
        fed.chunk("write", text, reply)
        seen += fed.lines()
    assert seen == [f"write: running | 0 s | {text}…" for text in ("A ", "A draft", "An", "Another")]
    fed.says("write", "Another.", id="2")
    assert fed.lines() == ["write: running | 0 s | Another."]
    for number in range(3000):
        fed.chunk("write", f"{number} ", "3")
    assert len(fed.rows(0)[0].text) <= 2000
    assert fed.rows(0)[0].text.endswith("2998 2999 ")


def test_tokens_are_counted_once_for_each_message_and_summed_in_composites() -> None:
    def usage(given: int, made: int) -> dict[str, int]:
        return {"input_tokens": given, "output_tokens": made, "total_tokens": given + made}

    fed = Fed(report())
    for reply, made in [("1", 5), ("2", 7), ("1", 5)]:
        fed.says("report/refine[0]/write", "x", id=reply, usage_metadata=usage(10, made))
    fed.says("report/review/facts", "x", id="3", usage_metadata=usage(100, 1))
    counted = {row.name: f"{row.tokens_in} {row.tokens_out}" for row in fed.rows(0) if row.tokens_in}
    assert counted == {
        **{"report": "120 13", "refine": "20 12", "write": "20 12", "review": "100 1", "facts": "100 1"}
    }


@pytest.mark.parametrize("at", ["", "elsewhere", "report/nobody", "report/refine/write", "re port"])
def test_addresses_of_other_trees_are_ignored(at: str) -> None:
    fed = Fed(report())
    fed.ran(at, 0, 0)
    fed.says(at, "x")
    assert fed.lines() == Fed(report()).lines()


# fed with a stream


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
        self.graph = ag.Runner(agent).graph
        self.activity = Recorded(self.tree)
        self.changes = self.activity.changes
        self.now = 0.0

    def go(self, given: Any) -> list[str]:
        """Return the rows in the end, without times."""
        translator, failed = Translator(self.tree), False
        options: Any = {"stream_mode": [*STREAM_MODES, "tasks"], "subgraphs": True, "version": "v2"}
        try:
            for part in self.graph.stream(given, {"configurable": {"thread_id": "t"}}, **options):
                self.now += 1
                self.activity.feed(part, self.now)
                for event in translator.feed(part):
                    self.activity.add(event, self.now)
        except Exception as error:
            failed = True
            for event in translator.fail(error):
                self.activity.add(event, self.now)
        self.activity.finish(self.now, failed=failed)
        return [line(replace(row, seconds=None)) for row in self.activity.rows(self.now)]


GO: Any = {"messages": [("user", "Go.")]}


def until_third(ctx: ag.Context) -> bool:
    return ctx.iteration == 2


@pytest.mark.parametrize(("expression", "expected"), cases(Path(__file__).with_name("activities.txt")))
def test_the_changes_and_the_rows_of_a_run(expression: str, expected: str) -> None:
    assert followed(eval(expression, {**NAMES, "until_third": until_third})) == expected


def followed(agent: ag.Agent) -> str:
    """Return the starts and ends, each once in a row, and the last rows."""
    streamed = Streamed(agent)
    rows = streamed.go(GO)
    changes = [each for each, _ in groupby(streamed.changes)]
    return "\n".join([*changes, *rows])


def test_an_agent_as_a_tool_that_runs_twice_at_once_is_below_its_caller() -> None:
    both = [call("research", request="bees"), call("research", request="ants")]
    research = ag.chat_agent("research", scripted("They hum.", "They walk."))
    writer = ag.chat_agent("writer", scripted(calls(*both), "Done."), tools=[ag.agent_tool(research)])
    writer_row, research_row = Streamed(writer).go(GO)
    assert writer_row == "writer: done | Done."
    assert research_row.startswith("└─ research: done | 2x | They ")


def test_questions_in_branches_and_what_goes_on_with_an_answer() -> None:
    streamed = Streamed(par("p", ag.human("a", "A?"), ag.human("b", "B?"), says("c")))
    assert streamed.go(GO) == [
        *["p: asks", "├─ a: asks | [asks] A?", "├─ b: asks | [asks] B?", "└─ c: done | c"]
    ]
    [task] = streamed.graph.get_state({"configurable": {"thread_id": "t"}}).tasks
    asked = {question.value: question.id for question in task.interrupts}
    assert streamed.go(Command(resume={asked["A?"]: "yes"})) == [
        *["p: asks", "├─ a: done | yes", "├─ b: asks | [asks] B?", "└─ c: done | c"]
    ]


def test_an_each_has_a_row_for_each_item_that_runs_asks_or_has_failed_and_counts_the_others() -> None:
    fed = Fed(ag.each("files", seq("do", says("read")), "names", on_error="collect"))
    fed.began("files", 0)
    for number, key in enumerate(["a", "b", "c"]):
        fed.began(f"files/do({number}:{key})/read", number)
    fed.says("files/do(1:b)/read", "Hm.")
    fed.ended("files/do(0:a)/read", 3)
    assert fed.lines(4) == [
        "files: running | 4 s",
        "└─ do: running | 1 of 3 done | 4 s",
        "   · do(1:b): running | 3 s | Hm.",
        "   · do(2:c): running | 2 s",
        "   └─ read: running | 3x | 4 s | Hm.",
    ]
    fed.ended("files/do(1:b)/read", 4, "failed")
    fed.ended("files/do(2:c)/read", 4)
    assert fed.lines(4)[1:3] == ["└─ do: done | 2 of 3 done | 4 s", "   · do(1:b): failed | Hm."]


def test_a_jump_without_a_position_has_an_address() -> None:
    streamed = Streamed(seq("s", says("a"), rounds(1, "l", says("b"))))
    streamed.go(GO)
    streamed.changes.clear()
    streamed.go(Command(goto="b", update={"messages": [("user", "Again.")]}))
    assert "+ s/l[0]/b" in streamed.changes


def test_each_call_of_a_function_has_a_row_below_its_agent() -> None:
    def fn(ctx: ag.Context) -> str:
        one = ctx.run("find", "bees", key="bees")
        with suppress(ValueError):
            ctx.run("broken", "x")
        return f"{one} {ctx.run('find', 'wasps')} {ctx.run('team', 'y', key='t')}"

    team = seq("team", says("a"), ag.human("boss", "Well?"))
    agents = [says("find", "Found."), fails("broken"), team]
    streamed = Streamed(ag.function_agent("flow", fn, agents=agents))
    calls = [
        "├─ find: done | 2x | Found.",
        "│  · find(bees): done | Found.",
        "│  · find(1): done | Found.",
        "├─ broken: failed | [error] ValueError('broken failed, time 1')",
        "│  · broken(0): failed | [error] ValueError('broken failed, time 1')",
    ]
    assert streamed.go(GO) == [
        "flow: asks",
        *calls,
        "└─ team: asks",
        "   · team(t): asks | [asks] Well?",
        "   ├─ a: done | a",
        "   └─ boss: asks | [asks] Well?",
    ]
    assert streamed.go(Command(resume="yes")) == [
        "flow: done | Found. Found. yes",
        *calls,
        "└─ team: done",
        "   · team(t): done | yes",
        "   ├─ a: done | a",
        "   └─ boss: done | yes",
    ]


def test_of_many_calls_only_those_that_have_not_ended_well_have_rows() -> None:
    def fn(ctx: ag.Context) -> str:
        return str([ctx.run("find", "x") for _ in range(30)][-1])

    streamed = Streamed(ag.function_agent("flow", fn, agents=[says("find", "Found.")]))
    assert streamed.go(GO) == ["flow: done | Found.", "└─ find: done | 30x | Found."]
