"""Going back to what a thread has visited: what is kept, what is changed there, and what is refused."""

import asyncio
import json
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest
from helpers import Drive, Session, Sync, lines, unvoided
from helpers.databases import Place
from helpers.failing_savers import Failing
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls
from agentgraph.threads.rewinds.rewinding import RewindArguments, commit, new_line

pytestmark = pytest.mark.by_turns("drive")

RAN: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def nothing_has_run() -> None:
    RAN.clear()


def says(name: str, **options: Any) -> ag.Agent:
    """Return an agent that says how often it ran, and the value `mood`."""

    def fn(ctx: ag.Context) -> str:
        RAN[ctx.address] += 1
        return f"{name} {RAN[ctx.address]}" + (f" {ctx.values['mood']}" if "mood" in ctx.values else "")

    return ag.function_agent(name, fn, **options)


class Thread(Session):
    """A thread, all that was heard of it, and what is left of that."""

    def __init__(self, tree: ag.Agent, drive: Drive, path: Place | None = None) -> None:
        super().__init__(tree, drive, path)
        self.heard: list[ag.AgentEvent] = []

    def go(self, method: str, *args: Any, **options: Any) -> list[str]:
        """Return the lines of what a call gives; what was heard of the thread is what it has."""
        began = len(self.heard)
        self.follow(method, *args, hear=self.heard.append, **options)
        assert unvoided(self.heard) == self.events()
        return lines(self.heard[began:])

    def run(self, text: str = "Go.") -> list[str]:
        return self.go("run", text, thread_id=self.id)

    def resume(self, *answers: Any) -> list[str]:
        return self.go("resume", self.id, *answers)

    def rewind(self, at: str, **options: Any) -> list[str]:
        RAN.clear()
        return self.go("rewind", self.id, at, **options)

    def replayed(self, line: str) -> list[ag.AgentEvent]:
        events: list[ag.AgentEvent] = []
        self.follow("events", self.id, line=line, hear=events.append)
        return events

    def texts(self) -> list[str]:
        return [event.text for event in self.events() if event.text]


@pytest.fixture
def started(drive: Drive, tmp_path: Path) -> Callable[[ag.Agent], Thread]:
    """Return a function that runs a tree on a thread: sync in memory, or async on a file."""
    path = None if drive is Sync else tmp_path / "t.db"

    def start(tree: ag.Agent) -> Thread:
        thread = Thread(tree, drive, path)
        thread.run()
        return thread

    return start


Start = Callable[[ag.Agent], Thread]


def test_what_came_before_is_kept_and_the_rest_runs_again(started: Start) -> None:
    thread = started(
        ag.sequential("s", [says("a"), ag.loop("l", [says("b")], max_iterations=3), says("z")])
    )
    assert [visit.address for visit in thread.visits()] == [
        "s/a",
        "s/l[0]/b",
        "s/l[1]/b",
        "s/l[2]/b",
        "s/z",
    ]
    assert thread.rewind("s/l[1]/b") == [
        "s: [discarded]",
        "s/l[1]/b: b 1",
        "s/l[2]/b: b 1",
        "s/z: z 1",
    ]
    assert RAN == {"s/l[1]/b": 1, "s/l[2]/b": 1, "s/z": 1}
    assert thread.thread().status == "done"


@pytest.mark.parametrize(
    ("at", "ran"),
    [
        ("s", ["s/a", "s/l[0]/b", "s/l[1]/b"]),
        ("s/l", ["s/l[0]/b", "s/l[1]/b"]),
        ("s/l[1]", ["s/l[1]/b"]),
    ],
)
def test_a_composite_means_its_first_visit(started: Start, at: str, ran: list[str]) -> None:
    thread = started(ag.sequential("s", [says("a"), ag.loop("l", [says("b")], max_iterations=2)]))
    thread.rewind(at)
    assert [*RAN] == ran


def test_values_and_messages_are_there_before_it_begins(started: Start) -> None:
    thread = started(ag.sequential("s", [says("a"), says("b")]))
    assert thread.rewind("s/b", values={"mood": "glad"}, messages="Be kind.")[-1] == "s/b: b 1 glad"
    assert thread.thread().values == {"mood": "glad"}
    assert [message.text for message in thread.thread().messages] == [
        "Go.",
        "a 1",
        "Be kind.",
        "b 1 glad",
    ]
    thread.rewind("s/a")
    assert thread.thread().values == {}
    assert [message.text for message in thread.thread().messages] == ["Go.", "a 1", "b 1"]


FORKS = {
    "branch": (lambda: ag.parallel("p", [says("a"), says("b")]), "p/b"),
    "branch of two": (
        lambda: ag.parallel("p", [says("a"), ag.sequential("x", [says("c"), says("b")])]),
        "p/x/b",
    ),
    "step": (lambda: ag.workflow("p", [says("a"), says("b")]), "p/b"),
    "item": (lambda: ag.each("p", says("b"), lambda ctx: [1, 2], output_mode="full"), "p/b(1)"),
    "keyed item": (
        lambda: ag.each("p", says("b"), lambda ctx: {"x": 1, "y": 2}, output_mode="full"),
        "p/b(1)",
    ),
    "item of two": (
        lambda: ag.each(
            "p", ag.sequential("w", [says("c"), says("b")]), lambda ctx: [1, 2], output_mode="full"
        ),
        "p/w(1)/b",
    ),
}


@pytest.mark.parametrize("at", ["s/a", "s/p/b", "s/p/x/c", "s/lead/helper(0)/d", "s/last"])
def test_a_message_of_the_user_is_replaced_where_it_goes_back_to(started: Start, at: str) -> None:
    saw: dict[str, list[str]] = {}

    def hears(name: str) -> ag.Agent:
        def fn(ctx: ag.Context) -> str:
            saw[ctx.address] = [each.text for each in ctx.messages if not each.name]
            return name

        return ag.function_agent(name, fn)

    model = ScriptedChatModel(
        responses=lambda seen: (
            "Done." if seen[-1].type == "tool" else calls(call("helper", request="Help."))
        )
    )
    lead = ag.chat_agent("lead", model, tools=[ag.agent_tool(ag.sequential("helper", [hears("d")]))])
    branches = ag.parallel("p", [hears("b"), ag.sequential("x", [hears("c")])])
    thread = started(ag.sequential("s", [hears("a"), branches, lead, hears("last")]))
    is_inside = "helper" in at
    assert saw[at] == (["Help."] if is_inside else ["Go."])
    report = thread.use(lambda r: r.activation(thread.id, at), lambda r: r.aactivation(thread.id, at))
    (own,) = [each.id for each in report.saw if each.type == "human" and not each.name]
    thread.rewind(at, messages=[HumanMessage("Other.", id=own)])
    assert saw[at] == ["Other."]
    assert saw["s/last"] == (["Go."] if is_inside else ["Other."])
    assert thread.thread().messages[0].text == ("Go." if is_inside else "Other.")


@pytest.mark.parametrize("name", FORKS)
def test_values_in_a_lane_are_there_and_what_ran_beside_is_kept(started: Start, name: str) -> None:
    build, at = FORKS[name]
    thread = started(build())
    new = thread.rewind(at, values={"mood": "glad"}, messages="Be kind.")
    assert [line.partition(": ")[2] for line in new[1:]] == ["b 1 glad"]
    assert sum(RAN.values()) == 1
    assert thread.thread().values == {"mood": "glad"}
    assert "Be kind." in [message.text for message in thread.thread().messages]


@pytest.mark.parametrize("name", FORKS)
def test_what_ran_beside_it_runs_again_if_that_is_wanted(started: Start, name: str) -> None:
    build, at = FORKS[name]
    thread = started(build())
    thread.rewind(at, siblings="rerun")
    beside = [address for address in RAN if not address.startswith(at.rpartition("/b")[0] + "/")]
    assert sum(RAN.values()) >= 2, (RAN, beside)


def test_of_a_workflow_what_the_step_depends_on_is_kept_and_what_depends_on_it_runs_again(
    started: Start,
) -> None:
    steps = [
        says("a"),
        ag.step(says("b"), depends_on=["a"]),
        ag.step(says("c"), depends_on=["a"]),
        ag.step(says("d"), depends_on=["b"]),
    ]
    thread = started(ag.workflow("w", steps))
    thread.rewind("w/b")
    assert {*RAN} == {"w/b", "w/d"}
    thread.rewind("w/b", siblings="rerun")
    assert {*RAN} == {"w/b", "w/c", "w/d"}


def asks(name: str) -> ag.Agent:
    def fn(ctx: ag.Context) -> Any:
        RAN[ctx.address] += 1
        return f"{name} {ctx.answer}" if ctx.answered else ag.Ask("Well?", {"type": "string"})

    return ag.function_agent(name, fn)


def interrupts(name: str) -> ag.Agent:
    def fn(ctx: ag.Context) -> str:
        RAN[ctx.address] += 1
        first = interrupt("First?")
        return f"{name} {first} {interrupt('Well?')}"

    return ag.function_agent(name, fn)


def calling(name: str, tool: Any, *requests: str, **options: Any) -> ag.Agent:
    """Return a chat agent that calls a tool for each request, and says what came of it."""

    def reply(sent: Sequence[BaseMessage]) -> AIMessage:
        if sent[-1].type == "tool":
            return AIMessage(f"{name} {sent[-1].text}")
        return calls(*(call("lookup", str(n), what=what) for n, what in enumerate(requests)))

    return ag.chat_agent(name, ScriptedChatModel(responses=[reply] * 20), tools=[tool], **options)


def lookup(what: str) -> str:
    """Look something up."""
    return what


def asking_lookup(what: str) -> str:
    """Look something up, and ask."""
    return f"{what} {interrupt('Well?')}"


asking_lookup.__name__ = "lookup"
ASKING = {
    "human": lambda: ag.human("q", "Well?"),
    "Ask": lambda: asks("q"),
    "interrupt": lambda: interrupts("q"),
}


@pytest.mark.parametrize("kind", ASKING)
@pytest.mark.parametrize("where", ["root", "branch", "item"])
def test_a_new_answer_follows_the_question(started: Start, kind: str, where: str) -> None:
    inner = ag.sequential("x", [says("a"), ASKING[kind](), says("z")])
    around = {
        "root": lambda: inner,
        "branch": lambda: ag.parallel("x0", [inner, says("c")]),
        "item": lambda: ag.each("x0", inner, lambda ctx: [1, 2], output_mode="full"),
    }
    at = {"root": "x", "branch": "x0/x", "item": "x0/x(1)"}[where]
    thread = started(around[where]())
    while questions := thread.pending():
        thread.resume({each.id: "yes" for each in questions})
    new = thread.rewind(f"{at}/q", answers="no")
    assert new[0] in ("x: [discarded]", "x0: [discarded]")
    asked, answer, after = [line for line in new[1:] if line.startswith(f"{at}/")][-3:]
    assert (asked, after) == (f"{at}/q: [asks] Well?", f"{at}/z: z 1")
    assert answer.endswith("no")
    assert RAN[f"{at}/a"] == 0
    assert thread.thread().status == "done"
    assert sum(text.endswith("no") for text in thread.texts()) == 1
    assert thread.rewind(f"{at}/q", answers="maybe")[-2].endswith("maybe")


def test_a_decision_is_changed(started: Start) -> None:
    thread = started(
        ag.sequential("s", [calling("boss", lookup, "bees", approve=["lookup"]), says("z")])
    )
    thread.resume("approve")
    assert thread.texts() == ["bees", "boss bees", "z 1"]
    new = thread.rewind("s/boss", answers="reject")
    assert "bees" not in [line.removeprefix("s/boss: ") for line in new]
    assert new[-1] == "s/z: z 1"


def test_one_of_several_questions_of_tools_is_answered_anew(started: Start) -> None:
    thread = started(ag.sequential("s", [calling("boss", asking_lookup, "bees", "ants"), says("z")]))
    bees, ants = thread.pending()
    thread.resume({bees.id: "yes", ants.id: "yes"})
    (step,) = {each.step for each in thread.events() if each.kind == "interrupted"}
    asked = [each.id for each in thread.events() if each.kind == "interrupted"]
    thread.rewind(step, answers={asked[0]: "no"})
    (left,) = thread.pending()
    thread.resume({left.id: "never"})
    assert [text for text in thread.texts() if text.startswith(("bees", "ants"))] == [
        "bees no",
        "ants never",
    ]


def runs(name: str, agent: ag.Agent, *keys: str) -> ag.Agent:
    """Return an agent that runs another one for each key, side by side."""

    async def fn(ctx: ag.Context) -> str:
        said = await asyncio.gather(*(ctx.run(agent.name, each, key=each) for each in keys))
        return " ".join(map(str, said))

    return ag.function_agent(name, fn, agents=[agent])


def test_a_question_inside_a_visit_is_gone_also_after_a_rewind_beside_it(started: Start) -> None:
    branches = ag.parallel("p", [ag.sequential("x", [asks("q"), says("z")]), says("c")])
    thread = started(ag.parallel("s", [runs("f", branches, "k"), says("d")]))
    thread.resume("yes")
    for at in ("s/f/p(k)/c", "s/f/p(k)/x/z"):
        thread.rewind(at)
        assert not thread.pending()
    thread.rewind("s/f/p(k)")
    thread.resume("no")
    asked = [each.address for each in thread.events() if each.kind == "interrupted"]
    assert asked == ["s/f/p(k)/x/q"]
    assert [text for text in thread.texts() if text.startswith("q ")] == ["q no"]


def twice(what: str) -> str:
    """Ask twice."""
    return f"{what} {interrupt('First?')} {interrupt('Second?')}"


def test_the_questions_of_a_call_stay_with_it_over_several_rewinds(started: Start) -> None:
    helper = ag.sequential("helper", [says("a"), says("b")])

    def reply(sent: Sequence[BaseMessage]) -> AIMessage:
        if sent[-1].type == "tool":
            return AIMessage("Done.")
        return calls(call("twice", "1", what="bees"), call("helper", "2", request="Help."))

    boss = ag.chat_agent(
        "boss", ScriptedChatModel(responses=[reply] * 20), tools=[twice, ag.agent_tool(helper)]
    )
    thread = started(ag.parallel("p", [boss, says("c")]))
    for _ in range(2):
        thread.resume("yes")
    asked = [each.address for each in thread.events() if each.kind == "interrupted"]
    for at in ("p/boss/helper(1)/b", "p/c", "p/boss/helper(1)", "p/boss/helper(1)/b"):
        thread.rewind(at)
        assert not thread.pending(), at
        left = [each for each in thread.events() if each.kind == "interrupted"]
        assert [each.address for each in left] == asked, at
        assert "bees yes yes" in thread.texts()


def test_calls_side_by_side_stay_so_where_one_has_run_again(started: Start) -> None:
    thread = started(runs("f", ag.sequential("x", [says("a"), says("b")]), "k1", "k2"))
    for at, other in (("f/x(k1)", "f/x(k2)"), ("f/x(k2)", "f/x(k1)"), ("f/x(k1)/b", "f/x(k2)")):
        thread.rewind(at)
        assert RAN[f"{at.removesuffix('/b')}/b"] == 1
        assert not any(each.startswith(other) for each in RAN), at


def test_without_an_answer_it_asks_again(started: Start) -> None:
    thread = started(ag.sequential("s", [ag.human("q", "Well?"), says("z")]))
    thread.resume("yes")
    assert thread.rewind("s/q")[1:] == ["s/q: [asks] Well?"]
    assert [each.address for each in thread.pending()] == ["s/q"]
    assert thread.resume("no") == ["s/q: no", "s/z: z 1"]


REFUSED = {
    "unknown address": (("s/nowhere",), {}, ag.UnknownAddressError, "the nearest address is"),
    "no address": (("",), {}, ag.AgentGraphError, "neither an address nor a step"),
    "unknown turn": (("s/a",), {"turn": 7}, ag.UnknownAddressError, "has not visited 's/a'"),
    "unknown step": (
        ("1ef4f797-8335-6428-8001-8a1503f9b875:a",),
        {},
        ag.UnknownAddressError,
        "visits",
    ),
    "siblings": (("s/a",), {"siblings": "all"}, ag.AgentGraphError, "'keep' nor 'rerun'"),
    "nothing asked": (("s/a",), {"answers": "x"}, ag.UnknownInterruptError, "nothing was asked at s/a"),
    "unfit": (("s/q",), {"answers": 3}, ag.InvalidAnswerError, "does not fit"),
    "values": (("s/a",), {"values": ["x"]}, ag.AgentGraphError, "values"),
    "unsaved": (("s/a",), {"values": {"x": object()}}, ag.AgentGraphError, "cannot be saved"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_and_writes_nothing(started: Start, name: str) -> None:
    (at,), options, kind, text = REFUSED[name]
    thread = started(ag.sequential("s", [says("a"), asks("q"), says("z")]))
    thread.resume("yes")
    before = thread.state()
    with pytest.raises(kind, match=text):
        thread.rewind(at, **options)
    assert (thread.state(), len(thread.visits())) == (before, 5)


def test_a_step_is_in_one_turn(started: Start) -> None:
    thread = started(ag.sequential("s", [says("a")]))
    with pytest.raises(ag.AgentGraphError, match="leave turn=0 out"):
        thread.rewind(thread.visits()[0].step, turn=0)


def test_an_unknown_thread_has_no_visits() -> None:
    runner = ag.Runner(says("a"))
    with pytest.raises(ag.UnknownThreadError):
        runner.visits("t")
    with pytest.raises(ag.UnknownThreadError):
        runner.rewind("t", "a")


def test_a_thread_is_unchanged_until_the_first_event_is_asked_for() -> None:
    runner = ag.Runner(ag.sequential("s", [says("a"), says("b")]))
    runner.invoke("Go.", thread_id="t")
    before = runner.events("t")
    run = runner.rewind("t", "s/a")
    with pytest.raises(ag.ThreadBusyError):
        runner.rewind("t", "s/a")
    run.close()
    assert [*runner.events("t")] == [*before]
    run = runner.rewind("t", "s/b")
    assert next(run).kind == "discarded"
    run.close()
    assert [event.text for event in runner.events("t")] == ["a 1"]
    assert [event.text for event in runner.resume("t")] == ["", "a 1", "b 2"]


def test_a_step_of_an_older_line_brings_it_back(started: Start) -> None:
    thread = started(ag.sequential("s", [says("a"), says("b"), says("c")]))
    last = thread.visits()[-1]
    thread.rewind("s/a", values={"mood": "glad"})
    assert thread.texts() == ["a 1 glad", "b 1 glad", "c 1 glad"]
    new = thread.rewind(last.step)
    assert new[1:] == ["s/a: a 1", "s/b: b 1", "s/c: c 1"]
    assert RAN == {"s/c": 1}
    assert thread.thread().values == {}


@pytest.mark.parametrize("at", ["s/a", "s/b", "s/c"])
def test_a_rewind_follows_one_whose_first_event_was_not_received(started: Start, at: str) -> None:
    thread = started(ag.sequential("s", [says("a"), says("b"), says("c")]))
    step = thread.visits()[2].step
    thread.rewind("s/a")

    async def cut_short(saver: Any) -> None:  # as by a kill after the commit
        await commit(saver, (await new_line(saver, RewindArguments(step))).copies)

    thread.use(
        lambda r: r.engine.read(cut_short, thread.id), lambda r: r.engine.aread(cut_short, thread.id)
    )
    thread.rewind("s/b")
    thread.rewind(at)


def test_a_clock_that_is_behind_is_refused() -> None:
    saver = InMemorySaver()
    runner = ag.Runner(ag.sequential("s", [says("a"), says("b")]), checkpointer=saver)
    runner.invoke("Go.", thread_id="t")
    head = saver.get_tuple({"configurable": {"thread_id": "t"}})
    assert head is not None
    later = {**head.checkpoint, "id": f"2{head.checkpoint['id'][1:]}"}  # decades from now
    saver.put(head.config, later, {**head.metadata, "source": "update"}, {})
    with pytest.raises(ag.ThreadError, match="this machine's clock has not reached"):
        runner.rewind("t", "s/a")
    assert [event.text for event in runner.events("t")] == ["a 1", "b 1"]


def test_the_step_of_an_event_is_found_on_the_new_line(started: Start) -> None:
    inner = ag.sequential("x", [says("a"), says("b")])
    thread = started(ag.parallel("p", [inner, ag.sequential("y", [says("c"), says("d")])]))
    (kept,) = [event for event in thread.events() if event.address == "p/x/b"]
    thread.rewind("p/y/c")
    thread.rewind(kept.step)
    assert RAN == {"p/x/b": 1}


def test_an_address_means_the_last_turn_that_visited_it(started: Start) -> None:
    thread = started(ag.sequential("s", [says("a"), says("b")]))
    thread.run("Again.")
    assert [visit.turn for visit in thread.visits()] == [0, 0, 1, 1]
    thread.rewind("s/b")
    assert [turn.messages[0].text for turn in thread.thread().turns] == ["Go.", "Again."]
    thread.rewind("s/b", turn=0)
    assert [turn.messages[0].text for turn in thread.thread().turns] == ["Go."]
    thread.run("And again.")
    assert [visit.turn for visit in thread.visits()] == [0, 0, 1, 1]


def test_the_older_lines_stay(started: Start) -> None:
    thread = started(
        ag.sequential("s", [says("a"), ag.parallel("p", [says("b"), says("c")]), says("d")])
    )
    first = list(thread.events())
    assert len(thread.thread().lines) == 1
    thread.rewind("s/p/b")
    thread.rewind("s/d")
    present, *older = thread.thread().lines
    assert present.is_present
    assert [line.parts_at for line in older] == ["s/d", "s/p/b"]
    assert [*thread.replayed(present.head)] == thread.events()
    assert thread.replayed(older[1].head) == first
    with pytest.raises(ag.ThreadError, match="has no line with the head 'x'"):
        thread.replayed("x")


class Counted(MessagesState):
    """The state of a graph: how often it has run."""

    count: Annotated[int, operator.add]


def test_what_a_graph_keeps_over_turns_goes_back_too(started: Start) -> None:
    def say(state: Counted) -> dict[str, Any]:
        return {"count": 1, "messages": [AIMessage(f"{state.get('count', 0)} before")]}

    builder = StateGraph(Counted).add_node("say", say).add_edge(START, "say").add_edge("say", END)
    graph = ag.graph_agent("g", builder.compile(checkpointer=True))
    beside = ag.graph_agent("h", builder.compile(checkpointer=True))
    pair = ag.parallel("p", [ag.sequential("x", [says("a"), graph]), ag.sequential("y", [beside])])
    thread = started(ag.loop("l", [pair], max_iterations=3))
    for at, count in (("l[1]/p/x/g", 1), ("l[0]/p/x/a", 0), ("l[2]/p/x/g", 2), ("l[1]/p/x/g", 1)):
        new = thread.rewind(at)
        said = [line for line in new if line.startswith(at.rpartition("/")[0]) and "before" in line]
        assert said[0].endswith(f"/g: {count} before")
        texts = {event.address: event.text for event in thread.events()}
        for n in range(3):
            assert texts[f"l[{n}]/p/x/g"] == texts[f"l[{n}]/p/y/h"] == f"{n} before"


def test_what_a_rewind_left_does_not_count_for_limits() -> None:
    tree = ag.loop("l", [says("a")], max_iterations=4)
    runner = ag.Runner(tree, limits=ag.Limits(steps=5))
    runner.invoke("Go.", thread_id="t")
    for _ in range(3):
        assert len(list(runner.rewind("t", "l[2]/a"))) == 3
    assert runner.thread("t").spent.steps == 4


@pytest.mark.parametrize("at", ["s/p/x/b", "s/e/w(1)", "s/a"])
def test_a_saver_that_fails_at_any_save_loses_nothing(at: str) -> None:
    tree = ag.sequential(
        "s",
        [
            says("a"),
            ag.parallel(
                "p", [ag.sequential("x", [says("b"), says("c")]), ag.sequential("y", [says("d")])]
            ),
            ag.each("e", says("w"), lambda ctx: [1, 2], output_mode="full"),
        ],
    )
    for saves in range(len(at) % 5, 100, 5):
        runner = ag.Runner(tree, checkpointer=(saver := Failing()))
        heard = list(runner.run("Go.", thread_id="t"))
        saver.left = saves
        is_over = True
        run = runner.rewind("t", at, values={"mood": "glad"})
        try:
            heard += run
        except ag.SaverError:
            is_over = False
        has_failed, saver.left = saver.left is None, None
        if not has_failed:
            assert is_over
            assert saves > 5
            return
        heard += runner.resume("t")
        assert unvoided(heard) == list(runner.events("t"))
        assert runner.thread("t").status == "done"
        heard += runner.rewind("t", at)
        assert unvoided(heard) == list(runner.events("t"))
    raise AssertionError("there is no end to the saves")


def test_later_questions_of_the_run_are_answered_by_address(started: Start) -> None:
    branches = ag.parallel("p", [ag.human("x", "X?"), ag.human("y", "Y?")])
    thread = started(
        ag.sequential("s", [ag.human("q", "Well?"), branches, ag.human("r", "R?"), says("z")])
    )
    thread.resume("yes")
    new = thread.rewind("s/q", answers={"s/q": "no", "s/p/x": "1", "s/r": "3"})
    assert new[1:3] == ["s/q: [asks] Well?", "s/q: no"]
    assert [each.address for each in thread.pending()] == ["s/p/y"]
    assert thread.resume("2")[-1] == "s/r: [asks] R?"
    new = thread.rewind("s/p", answers={"s/p/x": "1", "s/p/y": "2", "s/r": "3"})
    assert new[-1] == "s/z: z 1"
    assert sorted(thread.texts()) == ["1", "2", "3", "no", "z 1"]
    with pytest.raises(ag.UnknownInterruptError, match="'nobody'"):
        thread.rewind("s/q", answers={"s/q": "no", "nobody": "1"})


def test_a_thread_that_a_bare_graph_ran_goes_back_and_the_graph_goes_on() -> None:
    branches = ag.parallel("p", [ag.sequential("x", [says("b"), ag.human("q", "Well?")]), says("c")])
    tree = ag.sequential("s", [says("a"), branches, says("z")])
    saver = InMemorySaver()
    graph, runner = ag.compile_agent(tree, checkpointer=saver), ag.Runner(tree, checkpointer=saver)
    at: Any = {"configurable": {"thread_id": "t"}}
    graph.invoke({"messages": ["Go."]}, at)
    graph.invoke(Command(resume="yes"), at)
    RAN.clear()
    new = list(runner.rewind("t", "s/p/x/b", values={"mood": "glad"}))
    assert [event.kind for event in new] == ["discarded", "message", "interrupted"]
    assert RAN == {"s/p/x/b": 1}
    assert graph.invoke(Command(resume="no"), at)["messages"][-1].text == "z 1 glad"
    texts = [event.text for event in runner.events("t") if event.text]
    assert sorted(texts) == ["a 1", "b 1 glad", "c 1", "no", "z 1 glad"]


def test_of_a_plan_what_a_step_depends_on_is_kept_and_what_depends_on_it_runs_again(
    started: Start,
) -> None:
    needs = {"a": [], "b": ["a"], "c": [], "d": ["b"]}
    steps = [{"name": name, "task": name, "depends_on": each} for name, each in needs.items()]
    planner = ag.function_agent("planner", lambda ctx: json.dumps({"steps": steps}))
    replanner = ag.function_agent("replanner", lambda ctx: json.dumps({"response": "Done."}))
    thread = started(
        ag.plan_execute("pe", planner=planner, executor=says("do"), replanner=replanner, parallel=True)
    )
    at = "pe/execute[0]/pe_steps/do({})"
    items = {"a": "0:a", "b": "1:b", "c": "2:c", "d": "3:d"}
    for step, siblings, ran in (
        ("b", "keep", "bd"),
        ("c", "keep", "c"),
        ("a", "keep", "abd"),
        ("d", "keep", "d"),
        ("d", "rerun", "cd"),
    ):
        thread.rewind(at.format(items[step]), siblings=siblings)
        assert {*RAN} == {at.format(items[each]) for each in ran}, (step, siblings)
