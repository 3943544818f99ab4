"""Runs that are watched: at a terminal, in a pipe, with a custom screen."""

import asyncio
import re
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from helpers import fails, gives, lines, says, scripted
from helpers.commands import wait_until
from helpers.walking import par, rounds, seq
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from rich.console import Console

import agentgraph as ag
from agentgraph.cli.session import Printed
from agentgraph.journal.replay import last_turn
from agentgraph.show.activity import Row
from agentgraph.show.screens import Lines, Screen, Terminal, screen_for
from agentgraph.testing import ScriptedChatModel, call, calls

Watch = Callable[..., Any]
SPINNER = "[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]"


@pytest.fixture(params=["watch", "awatch"])
def watch(request: pytest.FixtureRequest) -> Watch:
    """Watch with the sync method of a runner, or with its async twin."""

    def watched(runner: ag.Runner, *args: Any, **options: Any) -> Any:
        if request.param == "watch":
            return ag.watch(runner, *args, **options)
        return asyncio.run(ag.awatch(runner, *args, **options))

    return watched


def terminal(width: int = 80, height: int = 40, term: str = "xterm-256color") -> Console:
    options: Any = {
        "color_system": None,
        "highlight": False,
        "markup": False,
        "_environ": {"TERM": term},
    }
    return Console(file=StringIO(), force_terminal=True, width=width, height=height, **options)


def pipe() -> Console:
    return Console(file=StringIO(), width=80, highlight=False, markup=False)


def printed(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def on_screen(console: Console) -> list[str]:
    """Return the lines on a terminal after all that was printed."""
    lines, row = [""], 0
    for piece in re.findall(r"\x1b\[[0-?]*[ -/]*[@-~]|[\r\n]|[^\x1b\r\n]+", printed(console)):
        if piece == "\n":
            row += 1
            lines += [""] * (row == len(lines))
        elif piece == "\x1b[1A":
            row -= 1
        elif piece == "\x1b[2K":
            lines[row] = ""
        elif piece[0] not in "\x1b\r":
            lines[row] += piece
    return [re.sub(r"\d\.\d s", "0.0 s", line.rstrip()) for line in lines if line.strip()]


class Recorded(Screen):
    """Records the rows at each change."""

    streams = True

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[list[Row]] = []

    def changed(self) -> None:
        self.frames.append(self.activity.rows(time.monotonic()))

    def states(self) -> str:
        """Return the last state of each agent, with how often it ran if more than once."""
        rows = self.activity.rows(0)
        return ", ".join(f"{r.name} {r.state}{f' {r.runs}x' * (r.runs > 1)}" for r in rows)


def report() -> ag.Agent:
    usage: Any = {"input_tokens": 1200, "output_tokens": 80, "total_tokens": 1280}
    writer = ag.chat_agent("write", scripted(*[AIMessage("Bees hum.", usage_metadata=usage)] * 2))
    loop = rounds(2, "refine", writer, says("judge", "Too short.", "Good."))
    review = par("review", says("facts", "日本語 " * 20))
    return seq("report", loop, review, ag.human("boss", "Print it?"), says("print", "Done."))


LINES = [
    "report/refine[0]/write: Bees hum.",
    "report/refine[0]/judge: Too short.",
    "report/refine[1]/write: Bees hum.",
    "report/refine[1]/judge: Good.",
    f"report/review/facts: {'日本語 ' * 20}",
    "report/boss: [asks] Print it?",
]


# what is shown


def test_at_a_terminal_lines_scroll_above_a_tree_that_stays(watch: Watch) -> None:
    narrow, wide, runner = terminal(80), terminal(140), ag.Runner(report())
    watched = watch(runner, "Go.", thread_id="t", console=narrow)
    assert lines(watched) == LINES
    assert watched[0].text == "Bees hum."
    assert [event.kind for event in watched[-2:]] == ["message", "interrupted"]
    assert [question.address for question in watched.pending] == ["report/boss"]
    assert (watched.thread_id, repr(watched)) == ("t", "<Watched: 6 events on thread 't', 1 pending>")
    assert on_screen(narrow) == [
        *LINES[:4],
        "report/review/facts: 日本語 日本語 日本語 日本語 日本語 日本語 日本語 日本語",
        "    日本語 日本語 日本語 日本語 日本語 日本語 日本語 日本語 日本語 日本語 日本語",
        "    日本語",
        LINES[5],
        "agent        state      runs     time    tokens  last",
        "report       ? asks             0.0 s  2.4k→160",
        "├─ refine    ✓ done     2 of 2  0.0 s  2.4k→160",
        "│  ├─ write  ✓ done     2       0.0 s  2.4k→160  Bees hum.",
        "│  └─ judge  ✓ done     2       0.0 s            Good.",
        "├─ review    ✓ done             0.0 s",
        "│  └─ facts  ✓ done             0.0 s            日本語 日本語 日本語 日本語 日…",
        "├─ boss      ? asks             0.0 s            [asks] Print it?",
        "└─ print     · waiting",
    ]
    resumed = watch(runner, thread_id="t", answers="yes", console=wide)
    assert (resumed.text, resumed.pending) == ("Done.", ())
    assert repr(resumed) == "<Watched: 2 events on thread 't'>"
    assert on_screen(wide) == [
        "report/boss: yes",
        "report/print: Done.",
        "agent        kind        state   runs     time    tokens  last",
        "report       sequential  ✓ done          0.0 s  2.4k→160",
        "├─ refine    loop        ✓ done  2 of 2  0.0 s  2.4k→160",
        "│  ├─ write  chat        ✓ done  2       0.0 s  2.4k→160  Bees hum.",
        "│  └─ judge  function    ✓ done  2       0.0 s            Good.",
        "├─ review    parallel    ✓ done          0.0 s",
        f"│  └─ facts  function    ✓ done          0.0 s            {'日本語 ' * 11}日本…",
        "├─ boss      human       ✓ done          0.0 s            yes",
        "└─ print     function    ✓ done          0.0 s            Done.",
    ]


def test_in_a_pipe_there_are_only_lines(watch: Watch) -> None:
    console = pipe()
    watch(ag.Runner(report()), "Go.", console=console)
    assert printed(console).split("\n") == [*LINES, ""]


def test_a_terminal_that_cannot_move_its_cursor_gets_lines() -> None:
    assert type(screen_for(terminal(term="dumb"))) is Lines
    assert type(screen_for(terminal())) is Terminal


def test_a_tree_that_is_taller_than_the_screen_shows_the_agents_that_have_begun(watch: Watch) -> None:
    console = terminal(height=12)
    agents = [says("a"), gives("stops", ag.Exit()), *(says(f"b{i}") for i in range(40))]
    watch(ag.Runner(seq("s", *agents)), "Go.", console=console)
    assert on_screen(console)[2:] == [
        "agent     kind        state    time  last",
        "s         sequential  ✓ done  0.0 s",
        "├─ a      function    ✓ done  0.0 s  a",
        "├─ stops  function    ✓ done  0.0 s  [exit]",
        "… 40 more",
    ]


def test_an_exception_is_shown_at_its_agent_and_then_raised(watch: Watch) -> None:
    console, runner = terminal(), ag.Runner(seq("s", says("first"), fails("fax", 2), says("last")))
    with pytest.raises(ValueError, match="time 1"):
        watch(runner, "Go.", thread_id="t", console=console)
    assert on_screen(console)[2:] == [
        "agent     kind        state       time  last",
        "s         sequential  ✗ failed   0.0 s",
        "├─ first  function    ✓ done     0.0 s  first",
        "├─ fax    function    ✗ failed   0.0 s  [error] ValueError('fax failed, time 1')",
        "└─ last   function    · waiting",
    ]
    with pytest.raises(ValueError, match="time 2"):
        watch(runner, thread_id="t", console=console)


def test_ctrl_c_leaves_the_tree_as_it_was_and_the_thread_can_go_on() -> None:
    console, hits = terminal(), iter([signal.SIGINT])

    def slow(ctx: ag.Context) -> str:
        for hit in hits:
            signal.raise_signal(hit)  # the main thread raises it when it wakes up
        return "Slow."

    runner = ag.Runner(seq("s", says("a"), ag.function_agent("slow", slow), says("b")))
    with pytest.raises(KeyboardInterrupt):
        ag.watch(runner, "Go.", thread_id="t", console=console)
    assert on_screen(console)[1:] == [
        "agent    kind        state       time  last",
        "s        sequential  ■ stopped  0.0 s",
        "├─ a     function    ✓ done     0.0 s  a",
        "├─ slow  function    ■ stopped  0.0 s",
        "└─ b     function    · waiting",
    ]
    assert printed(console).count("\x1b[?25h") == 1
    assert ag.watch(runner, thread_id="t", console=pipe()).text == "b"


def test_texts_of_agents_cannot_break_the_screen(watch: Watch) -> None:
    hostile = "one\ntwo \x1b[2J\x1b[31mred \x1b]0;title\x07[red]<script>\a " + "x" * 200
    console = terminal()
    watch(ag.Runner(seq("s", says("bad", hostile), says("good"))), "Go.", console=console)
    codes = set(re.findall(r"\x1b(?:\[[^A-Za-z]*[A-Za-z]|.)", printed(console)))
    assert codes <= {"\x1b[1A", "\x1b[2K", "\x1b[?25l", "\x1b[?25h"}
    assert "\a" not in printed(console)
    assert on_screen(console)[-2:] == [
        "├─ bad   function    ✓ done  0.0 s  one two red [red]<script> xxxxxxxxxxxxxxxxx…",
        "└─ good  function    ✓ done  0.0 s  good",
    ]


# while it runs


def test_the_tree_is_drawn_again_and_again_while_an_agent_runs(watch: Watch) -> None:
    console = terminal()

    def slow(ctx: ag.Context) -> str:
        def shows() -> bool:
            last = printed(console).rpartition("agent ")[2]
            return re.search(rf"└─ slow +function +{SPINNER} running +0\.[2-9] s", last) is not None

        wait_until(shows)
        return "Seen."

    tree = seq("s", says("first"), ag.function_agent("slow", slow))
    assert watch(ag.Runner(tree), "Go.", console=console).text == "Seen."
    drawn = printed(console)
    assert len(set(re.findall(SPINNER, drawn))) > 1
    assert drawn.count("\x1b[?25l") == drawn.count("\x1b[?25h") == 1


def test_a_reply_is_seen_to_grow(watch: Watch) -> None:
    screen = Recorded()
    runner = ag.Runner(seq("s", ag.chat_agent("chat", scripted("Bees hum in A."))))
    assert len(watch(runner, "Go.", console=screen)) == 1
    said = [(rows[1].text, rows[1].is_growing) for rows in screen.frames if rows[1].text]
    grown = ["Bees ", "Bees hum ", "Bees hum in ", "Bees hum in A."]
    assert list(dict.fromkeys(said)) == [*((text, True) for text in grown), ("Bees hum in A.", False)]


def test_two_branches_are_seen_to_run_at_once(watch: Watch) -> None:
    screen = Recorded()

    def both(ctx: ag.Context) -> str:
        wait_until(lambda: any({row.state for row in rows} == {"running"} for rows in [*screen.frames]))
        return "Met."

    branches = [ag.function_agent(name, both) for name in ("left", "right")]
    watched = watch(ag.Runner(par("p", *branches)), "Go.", console=screen)
    assert [event.text for event in watched] == ["Met.", "Met."]


def test_when_no_event_comes_for_long_the_running_agents_are_printed(watch: Watch) -> None:
    notes: list[str] = []
    said: list[str] = []

    class Noted(Printed):
        def line(self, event: ag.AgentEvent) -> None:
            super().line(event)
            said.append(event.text)

        def note(self, text: str) -> None:
            notes.append(text)

    def slow(ctx: ag.Context) -> str:
        wait_until(lambda: len(notes) > 1)
        return "Slow."

    loop = rounds(1, "l", says("a"), ag.function_agent("slow", slow))
    branches = [loop, *(ag.human(f"h{i}", "?") for i in range(2))]
    watch(ag.Runner(par("p", *branches)), "Go.", console=Noted(pipe(), quiet=0.05))
    assert notes[-1] == "still running: p/l[0]/slow (0 s)"
    assert [text for text in said if text] == ["a", "Slow."]


# what is known when a thread is resumed


def draft(ctx: ag.Context) -> str:
    return f"Draft {ctx.iteration}."


def note(text: str) -> str:
    """Notes a text."""
    return f"Noted {text}."


def noting(messages: list[BaseMessage]) -> str | AIMessage:
    if messages[-1].type == "tool":
        return "All is noted."
    return calls(call("note", text="a"), call("ask", request="b"))


def questions() -> ag.Agent:
    """Return a tree with questions in branches, in a step, in an agent as a tool, and after all."""
    clerk = seq("ask", says("clerk", "Wait."), ag.human("who", "Who?"))
    model = ScriptedChatModel(responses=noting, counts_tokens=True)
    hotel = seq("hotel", ag.function_agent("room", draft), ag.human("bed", "Bed?"))
    fly = ag.step(ag.function_agent("fly", draft), depends_on=["hotel"])
    return seq(
        "all",
        rounds(4, "rounds", ag.function_agent("write", draft), gives("stop", None, ag.BreakLoop())),
        gives("silent", None),
        par("both", ag.human("one", "1?"), rounds(2, "again", ag.human("two", "2?"))),
        par("some", fails("bad"), ag.human("good", "Well?"), on_error="collect"),
        ag.chat_agent("desk", model, tools=[note, ag.agent_tool(clerk)]),
        ag.workflow("trip", [ag.step(hotel), fly]),
        ag.human("last", "Done?"),
    )


def known(screen: Recorded) -> list[Row]:
    """Return the rows of a tree without times."""
    return [replace(row, seconds=None) for row in screen.activity.rows(0)]


def test_a_new_runner_for_each_answer_shows_the_same_tree_as_one_that_watched_all(watch: Watch) -> None:
    saver = InMemorySaver()
    one, here, there = ag.Runner(questions()), Recorded(), Recorded()
    watched = watch(one, "Go.", thread_id="t", console=here)
    watch(ag.Runner(questions(), checkpointer=saver), "Go.", thread_id="t", console=there)
    answered = 0
    while watched.pending:
        answers = {watched.pending[-1].address: f"answer {answered}"}
        answered += 1
        here, there = Recorded(), Recorded()
        watched = watch(one, thread_id="t", answers=answers, console=here)
        again = ag.Runner(questions(), checkpointer=saver)
        watch(again, thread_id="t", answers=answers, console=there)
        assert known(there) == known(here)
        live = known(here)
        here.activity.recall(one.engine.read(last_turn, "t"))
        assert known(here) == live
    assert answered == 7
    assert {row.name for row in known(here) if row.state == "failed"} == {"bad"}
    assert {row.state for row in known(here)} == {"done", "failed"}


def test_times_are_shown_only_of_what_was_watched(watch: Watch) -> None:
    screen, saver = Recorded(), InMemorySaver()
    first, second = (ag.Runner(report(), checkpointer=saver) for _ in range(2))
    watch(first, "Go.", thread_id="t", console=pipe())
    watch(second, thread_id="t", answers="yes", console=screen)
    unknown = [row.name for row in screen.activity.rows(0) if row.seconds is None]
    assert unknown == ["refine", "write", "judge", "review", "facts"]


def test_the_turn_before_is_not_shown(watch: Watch) -> None:
    screen, runner = Recorded(), ag.Runner(seq("s", says("a"), ag.human("b", "?"), says("c")))
    watch(runner, "Go.", thread_id="t", console=screen)
    watch(runner, thread_id="t", answers="yes", console=screen)
    assert screen.states() == "s done, a done, b done, c done"
    watch(runner, "Go.", thread_id="t", console=screen)
    assert screen.states() == "s asks, a done, b asks, c waiting"
    watch(ag.Runner(runner.agent, checkpointer=runner.saver), thread_id="t", console=screen)
    assert screen.states() == "s asks, a done, b asks, c waiting"
    with pytest.raises(ag.PendingInterruptError):  # and forgets nothing
        watch(runner, "Go.", thread_id="t", console=pipe())
    watch(runner, thread_id="t", answers="yes", console=screen)
    assert screen.states() == "s done, a done, b done, c done"


def test_a_thread_that_goes_back_shows_what_is_kept(watch: Watch) -> None:
    screen, runner = Recorded(), ag.Runner(seq("s", says("a"), ag.human("b", "?"), says("c")))
    watch(runner, "Go.", thread_id="t", console=screen)
    watch(runner, thread_id="t", answers="yes", console=screen)
    asked = watch(runner, thread_id="t", at="s/b", console=screen)
    assert [event.kind for event in asked] == ["discarded", "interrupted"]
    assert screen.states() == "s asks, a done, b asks, c waiting"
    done = watch(runner, thread_id="t", at="s/b", answers="no", console=screen)
    assert (done.status, done.text) == ("done", "c")
    assert screen.states() == "s done, a done, b done, c done"
    with pytest.raises(ag.UnknownAddressError):
        watch(runner, thread_id="t", at="s/d", console=screen)


def test_a_question_that_nobody_waits_for_any_more_is_not_pending(watch: Watch) -> None:
    first = seq("first", ag.human("a", "A?"), says("b"))
    tree = par("p", first, ag.human("c", "C?"), on_error="first")
    runner, screen = ag.Runner(seq("s", tree, says("d"))), Recorded()
    asked = watch(runner, "Go.", thread_id="t", console=screen)
    assert [question.agent_name for question in asked.pending] == ["a", "c"]
    answered = watch(runner, thread_id="t", answers={"s/p/first/a": "yes"}, console=screen)
    assert answered.pending == ()
    assert screen.states() == "s done, p done, first done, a done, b done, c stopped, d done"


# calls of watch


def test_a_run_that_says_nothing_has_an_empty_text_and_a_thread_of_its_own(watch: Watch) -> None:
    runner = ag.Runner(gives("mute", None))
    one, two = (watch(runner, "Go.", console=pipe()) for _ in range(2))
    assert (list(one), one.text) == ([], "")
    assert one.thread_id != two.thread_id


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "there is nothing to run; pass messages, or a thread_id to resume"),
    (
        {"messages": "Go.", "answers": "yes"},
        "answers='yes' can only be given to resume a thread; leave the messages out",
    ),
    ({"messages": "Go.", "thread_id": "t"}, "thread 't' waits for answers to s/boss"),
    ({"answers": {"s/a": "yes"}, "thread_id": "t"}, "thread 't': the question 's/a' is not pending"),
]


def test_a_refused_run_shows_nothing(watch: Watch) -> None:
    runner = ag.Runner(seq("s", says("a"), ag.human("boss", "Print it?")))
    watch(runner, "Go.", thread_id="t", console=pipe())
    for arguments, message in REFUSED:
        console = terminal()
        with pytest.raises(ag.AgentGraphError, match=re.escape(message)):
            watch(runner, console=console, **arguments)
        assert printed(console) == ""
    assert len(watch(runner, "Go.", thread_id="t", drop_pending=True, console=pipe())) == 3
    with pytest.raises(
        ag.AgentGraphError, match=r"is not a Runner; write watch\(Runner\(agent\), \.\.\.\)"
    ):
        watch(says("a"), "Go.")


def test_values_reach_a_turn_and_a_resume(watch: Watch) -> None:
    about = ag.function_agent("about", lambda ctx: f"About {ctx.values['topic']}.")
    runner = ag.Runner(seq("s", about, ag.human("boss", "?"), about))
    first = watch(runner, "Go.", thread_id="t", values={"topic": "bees"}, console=pipe())
    then = watch(runner, thread_id="t", answers="x", values={"topic": "ants"}, console=pipe())
    assert (first.text, then.text) == ("About bees.", "About ants.")


def test_a_timeout_needs_the_async_twin() -> None:
    async def hum(ctx: ag.Context) -> str:
        return "Hum."

    runner = ag.Runner(ag.function_agent("hum", hum, timeout=5))
    with pytest.raises(ag.AgentGraphError, match="awatch"):
        ag.watch(runner, "Go.", console=pipe())
    assert asyncio.run(ag.awatch(runner, "Go.", console=pipe())).text == "Hum."
