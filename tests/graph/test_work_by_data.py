"""What ports of well-known applications could not say plainly, each as it is written now.

A batch that is killed and goes on is the example `nightly_batch`; `tests/test_examples.py` kills it.
"""

import asyncio
from typing import Annotated, Any, Literal, TypedDict

import pytest
from helpers import Disk, Drive, asks, chat, lines, says, scripted
from pydantic import BaseModel

import agentgraph as ag


def turn(drive: Drive, runner: ag.Runner, **options: Any) -> list[str]:
    return lines(list(drive.run(runner, "Go.", thread_id="t", **options)))


class Outline(BaseModel):
    sections: list[str]


@pytest.mark.parametrize("titles", [[], ["Bees"], [f"Part {n}" for n in range(12)]], ids=len)
def test_a_report_has_as_many_sections_as_a_model_names(titles: list[str], drive: Drive) -> None:
    named = Outline(sections=titles).model_dump_json()
    outline = chat("outline", named, output_schema=Outline, output_key="outline")
    writer = ag.chat_agent("writer", scripted(*[lambda sent: sent[-1].text.upper()] * len(titles)))
    sections = ag.each(
        "sections",
        writer,
        lambda ctx: ctx.values["outline"]["sections"],
        input="{item}",
        output_key="texts",
    )
    report = ag.function_agent("report", lambda ctx: " / ".join(ctx.values["texts"]) or "Nothing.")
    ended = turn(drive, ag.Runner(ag.sequential("book", [outline, sections, report])))
    expected = " / ".join(title.upper() for title in titles) or "Nothing."
    assert ended[-1] == f"book/report: {expected}"


def test_items_that_fail_are_collected_beside_the_results_of_the_others(drive: Drive) -> None:
    halve = ag.function_agent("halve", lambda ctx: str(10 / ctx.values["number"]))
    batch = ag.each(
        "batch",
        halve,
        "numbers",
        as_="number",
        key=str,
        on_error="collect",
        output_key="halves",
        errors_key="failed",
    )
    runner = ag.Runner(batch)
    turn(drive, runner, values={"numbers": [1, 0, 4]})
    values = runner.thread("t").values
    assert values["halves"] == {"1": "10.0", "0": None, "4": "2.5"}
    assert values["failed"] == {"0": "ZeroDivisionError('division by zero')"}


def test_one_item_is_asked_about_while_the_others_go_on(disk: Disk) -> None:
    @ag.agent
    def pay(ctx: ag.Context) -> str | ag.Ask:
        bill = ctx.values["item"]
        if bill > 100 and not ctx.answered:
            return ag.Ask(f"Pay {bill}?")
        return f"{bill} {ctx.answer or 'paid'}"

    bills = ag.each("bills", pay, lambda ctx: {"ada": 50, "bob": 500, "eve": 70}, output_key="paid")
    assert sorted(lines(disk.run(bills))) == [
        "bills/pay(0:ada): 50 paid",
        "bills/pay(1:bob): [asks] Pay 500?",
        "bills/pay(2:eve): 70 paid",
    ]
    resumed = disk.resume(bills, {"bills/pay(1:bob)": "refused"})
    assert lines(resumed) == ["bills/pay(1:bob): 500 refused"]


def test_two_lanes_have_scratch_of_their_own_under_one_name(drive: Drive) -> None:
    class State(TypedDict):
        draft: Annotated[str, ag.LOCAL]

    def draft(name: str) -> ag.Agent:
        write = ag.function_agent(f"{name}_draft", lambda ctx: ag.SetValues(draft=f"for {name}"))
        say = ag.function_agent(name, lambda ctx: f"{name}: {ctx.values['draft']}")
        return ag.sequential(f"{name}_lane", [write, say])

    runner = ag.Runner(ag.parallel("both", [draft("ada"), draft("bob")]), values=State)
    said = [line for line in turn(drive, runner) if "[values]" not in line]
    assert sorted(said) == [
        "both/ada_lane/ada: ada: for ada",
        "both/bob_lane/bob: bob: for bob",
    ]
    assert "draft" not in runner.thread("t").values


class Route(BaseModel):
    to: Literal["bills", "repairs"]


@pytest.mark.parametrize("to", ["bills", "repairs"])
def test_the_answer_of_a_model_is_the_way_that_the_run_takes(to: str, drive: Drive) -> None:
    router = chat("router", f'{{"to": "{to}"}}', output_schema=Route, output_key="route")
    desk = ag.switch(
        "desk",
        lambda ctx: ctx.values["route"]["to"],
        {"bills": says("bills"), "repairs": says("repairs")},
    )
    assert turn(drive, ag.Runner(ag.sequential("line", [router, desk, says("bye")])))[1:] == [
        f"line/desk: [chosen] {to}",
        f"line/desk/{to}: {to}",
        "line/bye: bye",
    ]


def test_a_guard_in_the_middle_of_a_loop_ends_that_loop(drive: Drive) -> None:
    is_good = ag.switch(
        "is_good", lambda ctx: ctx.messages[-1].text, {"good": ag.BreakLoop()}, otherwise=ag.SKIP
    )
    review = ag.sequential("review", [says("reader"), says("critic", "bad", "good"), is_good])
    loop = ag.loop("refine", [says("writer"), review, says("editor")], max_iterations=9)
    said = turn(drive, ag.Runner(ag.sequential("s", [loop, says("printer")])))
    assert said[-4:] == [
        "s/refine[1]/review/reader: reader",
        "s/refine[1]/review/critic: good",
        "s/refine[1]/review/is_good: [chosen] break_loop",
        "s/printer: printer",
    ]
    assert said.count("s/refine[0]/editor: editor") == 1


def test_an_interview_ends_in_the_middle_of_an_iteration(disk: Disk) -> None:
    guest = asks("guest", output_key="answer")
    is_over = ag.switch("is_over", "answer", {"bye": ag.BreakLoop()}, otherwise=ag.SKIP)
    comment = ag.function_agent("comment", lambda ctx: f"So {ctx.values['answer']}.")
    talk = ag.loop("talk", [guest, is_over, comment], max_iterations=None)
    tree = ag.sequential("show", [talk, says("applause")])
    said = lines(disk.run(tree))
    for answer in ("honey", "wax", "bye"):
        said += lines(disk.resume(tree, answer))
    assert [line for line in said if "chosen" not in line and "asks" not in line] == [
        "show/talk[0]/guest: honey",
        "show/talk[0]/comment: So honey.",
        "show/talk[1]/guest: wax",
        "show/talk[1]/comment: So wax.",
        "show/talk[2]/guest: bye",
        "show/applause: applause",
    ]


def test_a_grader_that_only_sets_values_is_an_event(drive: Drive) -> None:
    grader = ag.function_agent("grader", lambda ctx: ag.SetValues(grade=len(ctx.messages)))
    events = list(drive.run(ag.Runner(ag.sequential("s", [says("pupil"), grader])), "Go."))
    assert [(event.address, event.action.values) for event in events if event.action] == [
        ("s/grader", {"grade": 2})
    ]


class Topics(BaseModel):
    topics: list[str]


def test_a_research_flow_in_plain_python_runs_two_agents(drive: Drive) -> None:
    planner = chat("planner", '{"topics": ["hives", "honey"]}', '{"topics": []}', output_schema=Topics)
    researcher = ag.function_agent("researcher", lambda ctx: f"About {ctx.messages[-1].text}.")

    @ag.agent(agents=[planner, researcher])
    async def research(ctx: ag.Context) -> str:
        notes: list[str] = []
        while topics := (await ctx.run("planner", f"Known: {notes}")).data.topics:
            notes += await asyncio.gather(
                *(ctx.run("researcher", topic, key=topic) for topic in topics)
            )
        return " ".join(notes)

    said = turn(drive, ag.Runner(research))
    assert sorted(line for line in said if "planner" not in line) == [
        "research/researcher(hives): About hives.",
        "research/researcher(honey): About honey.",
        "research: About hives. About honey.",
    ]
