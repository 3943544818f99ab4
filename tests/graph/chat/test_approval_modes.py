"""`approve=` side by side with `create_agent`, in both modes of asking, and wherever agents stand."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Commands
from helpers import Async, Drive, check_heard, fresh, scripted, shapes
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ToolRetryMiddleware,
)
from langchain_core.messages import HumanMessage, ToolCall
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from test_approval import APPROVE, REJECT, Files, asked, clerk, decide, edit, paths

import agentgraph as ag
from agentgraph.testing import call, calls, transcript

CONFIG: Any = {"configurable": {"thread_id": "t"}}
SAID = {"type": "reject", "message": "Keep it."}
RESPOND = {"type": "respond", "message": "Did it myself."}


@tool
def look(topic: str) -> str:
    """Look something up."""
    return f"{topic}!"


@tool
def mail(to: str, text: str = "") -> str:
    """Send a mail."""
    return f"sent {text!r} to {to}"


TWO = calls(call("look", "1", topic="a"), call("mail", "2", to="b"))
MORE = calls(call("mail", "3", to="c"), call("look", "4", topic="d"), call("mail", "5", to="e"))


def _about(made: ToolCall, state: Any, runtime: Any) -> str:
    return f"{made['name']} after {len(state['messages'])} messages?"


def _is_far(request: Any) -> bool:
    return bool(request.tool_call["args"]["to"] > "b")


RULES: dict[str, dict[str, Any]] = {
    "all": {"mail": True, "look": True},
    "one": {"mail": True, "look": False},
    "few": {"mail": {"allowed_decisions": ["approve", "reject"], "description": "Send it?"}},
    "told": {"mail": {"allowed_decisions": ["approve", "edit", "respond"], "description": _about}},
    "when": {"mail": {"allowed_decisions": ["approve", "edit", "reject", "respond"], "when": _is_far}},
}


def retrying() -> list[Any]:
    return [ToolRetryMiddleware(initial_delay=0)]


def decided(asked: dict[str, Any], decisions: list[Any], rules: Any) -> Any:
    """Return the answer to a question: of the decisions one that is allowed for the call."""
    each = [_decided(action, decisions, rules) for action in asked.get("action_requests", [asked])]
    return {"decisions": each} if "action_requests" in asked else each[0]


def _decided(action: Any, decisions: list[Any], rules: Any) -> Any:
    decision = decisions[int(action["args"].get("to", "a") > "c") % len(decisions)]
    rule = rules[action["name"]]
    is_mine = decision["type"] != "edit" or action["name"] == decision["edited_action"]["name"]
    is_allowed = rule is True or decision["type"] in rule["allowed_decisions"]
    return decision if is_mine and is_allowed else APPROVE


def in_order(values: Any) -> list[Any]:
    """Return questions in the order of the calls: LangGraph puts them as its tasks end."""
    return sorted(values, key=lambda value: value.get("tool_call_id", ""))


def theirs(drive: Drive, rules: Any, mode: Any, decisions: Any, others: Any) -> list[Any]:
    approval = HumanInTheLoopMiddleware(rules, interrupt_mode=mode)
    stack = [approval, *others()] if mode == "per_call" else [*others(), approval]
    model = scripted(TWO, MORE, "Done.")
    agent: Any = create_agent(model, [look, mail], middleware=stack, checkpointer=InMemorySaver())
    told: list[Any] = []
    value: Any = {"messages": [HumanMessage("Go.")]}
    while True:
        ended = (
            asyncio.run(agent.ainvoke(value, CONFIG)) if drive is Async else agent.invoke(value, CONFIG)
        )
        questions = ended.get("__interrupt__", ())
        if not questions:
            return [*told, shapes(ended["messages"])]
        told.append(in_order(each.value for each in questions))
        value = Command(resume={each.id: decided(each.value, decisions, rules) for each in questions})


def ours(drive: Drive, rules: Any, mode: Any, decisions: Any, others: Any) -> list[Any]:
    agent = ag.chat_agent(
        "writer",
        scripted(TWO, MORE, "Done."),
        tools=[look, mail],
        approve=rules,
        interrupt_mode=mode,
        middleware=others(),
    )
    runner = ag.Runner(ag.sequential("s", [agent]))
    told: list[Any] = []
    events = list(drive.run(runner, "Go.", thread_id="t"))
    while questions := runner.pending("t"):
        told.append([each.value for each in questions])
        answers = {each.id: decided(each.value, decisions, rules) for each in questions}
        events += list(drive.resume(runner, "t", answers))
    assert sorted(runner.events("t"), key=events.index) == events
    return [*told, shapes(runner.graph.get_state(CONFIG).values["messages"])]


@pytest.mark.parametrize("mode", ["batched", "per_call"])
@pytest.mark.parametrize(("rules", "others"), [*((rules, list) for rules in RULES), ("one", retrying)])
@pytest.mark.parametrize(
    "decisions",
    [[APPROVE], [REJECT], [SAID, APPROVE], [RESPOND, SAID], [edit("mail", to="z"), RESPOND]],
    ids=["approve", "reject", "some", "respond", "edit"],
)
def test_an_agent_asks_and_says_what_create_agent_does(
    drive: Drive, rules: str, mode: str, decisions: Any, others: Callable[[], list[Any]]
) -> None:
    arguments = (RULES[rules], mode, decisions, others)
    expected, found = theirs(drive, *arguments), ours(drive, *arguments)
    assert found == expected


# one question for each call


def _each(model: Any, files: Files, **options: Any) -> Any:
    return clerk(model, files, interrupt_mode="per_call", **options)


THREE = calls(
    call("delete", "1", path="a"),
    call("read", "2", path="x"),
    call("delete", "3", path="b"),
    call("delete", "4", path="c"),
)


@pytest.mark.parametrize("order", ["abc", "cab", "bca"])
def test_per_call_each_runs_as_it_is_answered_in_any_order(
    drive: Drive, tmp_path: Path, order: str
) -> None:
    files, path = Files(), tmp_path / "db"
    model = scripted(THREE, "Done.")
    tree = ag.sequential("s", [_each(model, files)])
    answers = {"a": APPROVE, "b": REJECT, "c": edit("delete", path="C")}
    first = fresh(drive, path, tree, "run", "Go.", thread_id="t")
    ids = {each.value["args"]["path"]: each.id for each in asked(first)}
    assert sorted(ids) == ["a", "b", "c"]
    assert files.done == ["read x"]
    told = list(first)
    for n, each in enumerate(order, 1):
        new = fresh(drive, path, tree, "resume", "t", {ids[each]: answers[each]})
        assert {q.id for q in asked(new)} == {ids[left] for left in order[n:]}
        with pytest.raises(ag.UnknownInterruptError):
            fresh(drive, path, tree, "resume", "t", {ids[each]: answers[each]})
        told += new
    assert Counter(files.done) == Counter(["delete a", "read x", "delete C"])
    assert len(model.inputs) == 2
    check_heard(told, fresh(drive, path, tree, "events", "t"))


@pytest.mark.parametrize(
    "answer",
    [decide(APPROVE), "yes", {"type": "maybe"}, edit("read", path="b"), edit("delete", file="b")],
    ids=str,
)
def test_per_call_an_answer_that_does_not_fit_loses_nothing(drive: Drive, answer: Any) -> None:
    files = Files()
    runner = ag.Runner(_each(scripted(calls(call("delete", path="a")), "Done."), files))
    (question,) = asked(drive.run(runner, "Go.", thread_id="t"))
    with pytest.raises(ag.InvalidAnswerError):
        list(drive.resume(runner, "t", {"clerk": answer}))
    assert runner.pending("t") == [question]
    list(drive.resume(runner, "t", {"clerk": edit("delete", path="b")}))
    assert files.done == ["delete b"]


def test_per_call_a_tool_may_ask_when_it_was_approved(drive: Drive, tmp_path: Path) -> None:
    def delete(path: str) -> str:
        """Delete a file."""
        return f"{path}: {interrupt('Really?')}"

    model = scripted(calls(call("delete", path="a")), "Done.")
    tree = ag.chat_agent("clerk", model, tools=[delete], approve=["delete"], interrupt_mode="per_call")
    path = tmp_path / "db"
    fresh(drive, path, tree, "run", "Go.", thread_id="t")
    told = fresh(drive, path, tree, "resume", "t", {"clerk": APPROVE})
    assert transcript(told) == ["clerk: [asks] Really?"]
    assert transcript(fresh(drive, path, tree, "resume", "t", "yes")) == [
        "clerk: a: yes",
        "clerk: Done.",
    ]


def test_per_call_an_agent_as_a_tool_is_approved_before_it_runs_and_asks_itself(
    drive: Drive, tmp_path: Path
) -> None:
    model = scripted(calls(call("boss", "1", request="x"), call("boss", "2", request="y")), "Done.")
    boss = ag.human("boss", "Really?")
    tree = ag.chat_agent(
        "clerk", model, tools=[ag.agent_tool(boss)], approve=["boss"], interrupt_mode="per_call"
    )
    path = tmp_path / "db"
    told = asked(fresh(drive, path, tree, "run", "Go.", thread_id="t"))
    first = sorted(told, key=lambda each: each.value["tool_call_id"])
    assert [(each.address, each.value["args"]["request"]) for each in first] == [
        ("clerk", "x"),
        ("clerk", "y"),
    ]
    second = asked(fresh(drive, path, tree, "resume", "t", {first[1].id: APPROVE}))
    assert sorted(each.address for each in second) == ["clerk", "clerk/boss(1)"]
    third = asked(fresh(drive, path, tree, "resume", "t", {first[0].id: SAID}))
    assert [each.address for each in third] == ["clerk/boss(1)"]
    last = transcript(fresh(drive, path, tree, "resume", "t", "Sure."))
    assert last[-2:] == ["clerk: Sure.", "clerk: Done."]


def test_per_call_an_agent_that_fails_when_it_was_approved_is_not_asked_for_again(
    drive: Drive, tmp_path: Path
) -> None:
    tries: list[str] = []

    def work(ctx: ag.Context) -> str:
        tries.append(ctx.messages[-1].text)
        if len(tries) == 1:
            raise OSError("busy")
        return "Worked."

    model = scripted(calls(call("worker", request="x")), "Done.")
    worker = ag.agent_tool(ag.function_agent("worker", work))
    tree = ag.chat_agent(
        "clerk",
        model,
        tools=[worker],
        approve=["worker"],
        interrupt_mode="per_call",
        on_tool_error="raise",
    )
    path = tmp_path / "db"
    fresh(drive, path, tree, "run", "Go.", thread_id="t")
    with pytest.raises(OSError, match="busy"):
        fresh(drive, path, tree, "resume", "t", {"clerk": edit("worker", request="y")})
    with ag.sqlite_saver(path) as saver:
        assert ag.Runner(tree, checkpointer=saver).pending("t") == []
    fresh(drive, path, tree, "resume", "t")
    assert tries == ["y", "y"]


def test_per_call_a_dropped_question_leaves_no_unanswered_call(drive: Drive) -> None:
    files = Files()
    model = scripted(calls(call("delete", "1", path="a"), call("delete", "2", path="b")), "Fine.")
    runner = ag.Runner(_each(model, files))
    first = asked(drive.run(runner, "Go.", thread_id="t"))
    list(drive.resume(runner, "t", {first[0].id: APPROVE}))
    list(drive.run(runner, "Leave it.", thread_id="t", drop_pending=True))
    answered = [m.tool_call_id for m in model.inputs[1] if m.type == "tool"]
    assert answered == ["1", "2"]
    assert files.done == ["delete a"]


# functions that say what needs approval


@pytest.mark.parametrize("mode", ["batched", "per_call"])
@pytest.mark.parametrize("kind", ["function", "when"])
def test_a_call_that_needed_approval_is_not_run_because_its_rule_forgets_that(
    drive: Drive, tmp_path: Path, mode: Any, kind: str
) -> None:
    files, asks = Files(), [True, False, False, False]
    model = scripted(calls(call("delete", path="a")), "Done.")
    rule: Any = {"allowed_decisions": ["reject"], "when": lambda request: asks.pop(0)}
    approve = {"delete": rule} if kind == "when" else lambda made: asks.pop(0)
    tree = clerk(model, files, approve=approve, interrupt_mode=mode)
    path = tmp_path / "db"
    (question,) = asked(fresh(drive, path, tree, "run", "Go.", thread_id="t"))
    answer = REJECT if mode == "per_call" else decide(REJECT)
    fresh(drive, path, tree, "resume", "t", {question.id: answer})
    assert files.done == []
    assert len(asks) == 3


def test_a_rule_is_asked_anew_for_each_message(drive: Drive) -> None:
    files = Files()
    one = calls(call("delete", "1", path="/a"), call("delete", "2", path="b"))
    two = calls(call("delete", "1", path="c"), call("delete", "2", path="/d"))
    runner = ag.Runner(
        clerk(scripted(one, two, "Done."), files, approve=lambda made: made["args"]["path"][0] == "/")
    )
    assert paths(drive.run(runner, "Go.", thread_id="t")) == [["/a"]]
    assert paths(drive.resume(runner, "t", {"clerk": decide(REJECT)})) == [["/d"]]
    list(drive.resume(runner, "t", {"clerk": decide(APPROVE)}))
    assert sorted(files.done) == ["delete /d", "delete b", "delete c"]


# what edits run


def _seller(model: Any, sold: list[str], **options: Any) -> Any:
    def sell(request: str) -> str:
        """Sell."""
        sold.append(f"sell {request}")
        return f"Sold {request}."

    def work(ctx: ag.Context) -> str:
        sold.append(f"work {ctx.messages[-1].text}")
        return f"Worked at {ctx.messages[-1].text}."

    tools = [sell, ag.agent_tool(ag.function_agent("worker", work))]
    return ag.chat_agent("clerk", model, tools=tools, approve=["sell", "worker"], **options)


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("count", [1, 2])
def test_a_call_may_be_edited_to_an_agent_and_that_of_an_agent_to_a_tool(
    drive: Drive, tmp_path: Path, count: int, parallel: bool
) -> None:
    sold: list[str] = []
    made = [call("sell", "1", request="x"), call("worker", "2", request="y")]
    path = tmp_path / "db"
    for n, of in enumerate([made[:count], made[::-1][:count]]):
        model = scripted(calls(*of), "Done.")
        tree = _seller(model, sold, parallel_tools=parallel)
        first = fresh(drive, path, tree, "run", "Go.", thread_id=str(n))
        other = {"sell": "worker", "worker": "sell"}
        edits = [edit(other[each["name"]], request=f"{n}{i}") for i, each in enumerate(of)]
        told = fresh(drive, path, tree, "resume", str(n), {"clerk": decide(*edits)})
        assert Counter(sold) == Counter(
            f"{'work' if each['name'] == 'sell' else 'sell'} {n}{i}" for i, each in enumerate(of)
        )
        named = {m.tool_call_id: m.name for m in model.inputs[1] if m.type == "tool"}
        assert named == {each["id"]: other[each["name"]] for each in of}
        again, all_told = fresh(drive, path, tree, "events", str(n)), [*first, *told]
        assert sorted(again, key=all_told.index) == all_told
        sold.clear()


def test_an_edit_to_a_tool_that_ends_the_agent_ends_it(drive: Drive) -> None:
    model = scripted(calls(call("delete", path="a")))
    agent = clerk(model, Files(), exit_tool=True, return_directly=["read"], output_key="said")
    for n, made in enumerate([edit("exit", final_result="Bye."), edit("read", path="b")]):
        runner = ag.Runner(ag.sequential("s", [agent, ag.chat_agent("last", scripted("Last."))]))
        list(drive.run(runner, "Go.", thread_id=str(n)))
        told = transcript(drive.resume(runner, str(n), {"s/clerk": decide(made)}))
        assert told[0].endswith(["Tool response:\nBye.", "Tool response:\ntext of b"][n])
        assert told[1] == ["s/clerk: [exit]", "s/clerk/last: Last."][n]
        model = scripted(calls(call("delete", path="a")))
        agent = clerk(model, Files(), exit_tool=True, return_directly=["read"], output_key="said")


def test_a_transfer_that_a_person_answers_is_none_and_others_are_told_of_it(drive: Drive) -> None:
    expert = ag.chat_agent("expert", scripted("Hello."))
    desk = scripted(calls(call("transfer_to_expert")), "As you say.")
    last = scripted("Last.")
    agent = ag.chat_agent("desk", desk, sub_agents=[expert], approve=["transfer_to_expert"])
    runner = ag.Runner(ag.sequential("s", [agent, ag.chat_agent("last", last)]))
    list(drive.run(runner, "Go.", thread_id="t"))
    told = transcript(drive.resume(runner, "t", {"s/desk": decide(RESPOND)}))
    assert told == ["s/desk: Did it myself.", "s/desk: As you say.", "s/desk/last: Last."]
    assert [message.text for message in last.inputs[0]][1:] == [
        "[desk] called transfer_to_expert({})",
        "[desk] transfer_to_expert returned: Did it myself.",
        "[desk] said: As you say.",
    ]


# beside other middleware, in other places, over processes


class Shouting(AgentMiddleware[Any, Any, Any]):
    """Asks about each reply, when what needs approval was decided; and counts calls of tools."""

    def after_model(self, state: Any, runtime: Any) -> Any:
        last = state["messages"][-1]
        return {"messages": [last.model_copy(update={"content": interrupt("Louder?")})]}


def test_the_question_comes_next_to_the_model_before_other_hooks(drive: Drive, tmp_path: Path) -> None:
    files, path = Files(), tmp_path / "db"
    tree = clerk(scripted(calls(call("delete", path="a")), "done"), files, middleware=[Shouting()])
    assert paths(fresh(drive, path, tree, "run", "Go.", thread_id="t")) == [["a"]]
    told = transcript(fresh(drive, path, tree, "resume", "t", {"clerk": decide(APPROVE)}))
    assert told == ["clerk: [asks] Louder?"]
    told = transcript(fresh(drive, path, tree, "resume", "t", "DELETE"))
    assert told[-1] == "clerk: [asks] Louder?"
    told = transcript(fresh(drive, path, tree, "resume", "t", "DONE"))
    assert told == ["clerk: [discarded]", "clerk: DONE"]
    assert files.done == ["delete a"]


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_each_question_has_its_address_in_loops_branches_and_agents_as_tools(
    drive: Drive, tmp_path: Path, mode: Any
) -> None:
    def agent(name: str, **options: Any) -> Any:
        model = scripted(*[calls(call("delete", path=name)), "Done."] * 2)
        return ag.chat_agent(
            name, model, tools=[files.delete], approve=["delete"], interrupt_mode=mode, **options
        )

    files, path = Files(), tmp_path / "db"
    boss = ag.chat_agent(
        "boss",
        scripted(*[calls(call("inner", request="x")), "Done."] * 2),
        tools=[ag.agent_tool(agent("inner"))],
    )
    tree = ag.loop("l", [ag.parallel("p", [agent("x"), boss])], max_iterations=2)
    answer = decide(APPROVE) if mode == "batched" else APPROVE
    questions = asked(fresh(drive, path, tree, "run", "Go.", thread_id="t"))
    for n in range(2):
        at = [f"l[{n}]/p/x", f"l[{n}]/p/boss/inner(0)"]
        ids = {each.address: each.id for each in questions}
        assert sorted(ids) == sorted(at)
        left = asked(fresh(drive, path, tree, "resume", "t", {ids[at[1]]: answer}))
        assert [each.id for each in left] == [ids[at[0]]]
        questions = asked(fresh(drive, path, tree, "resume", "t", {at[0]: answer}))
    assert questions == []
    assert files.done == ["delete inner", "delete x"] * 2


PROCESS = """
import os
import signal
import sys
from pathlib import Path

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

folder, mode, *answers = sys.argv[1:]


def delete(path: str) -> str:
    "Delete a file."
    with open(Path(folder, "ledger"), "a") as file:
        print(path, file=file)
    return "gone"


two = calls(call("delete", "1", path="a"), call("delete", "2", path="b"))
model = ScriptedChatModel(responses=["Done."] if answers else [two])
agent = ag.chat_agent("clerk", model, tools=[delete], approve=["delete"], interrupt_mode=mode)
tree = ag.sequential("s", [agent])
with ag.sqlite_saver(Path(folder, "runs.db")) as saver:
    runner = ag.Runner(tree, checkpointer=saver)
    if not answers:
        list(runner.run("Go.", thread_id="t"))
        os.kill(os.getpid(), signal.SIGKILL)
    no, yes = {"type": "reject"}, {"type": "approve"}
    asked = runner.pending("t")
    each = [no, yes] if mode == "per_call" else [{"decisions": [no, yes]}]
    given = {q.id: answer for q, answer in zip(asked, each, strict=True)}
    print(list(runner.resume("t", given))[-1].text)
"""


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_another_process_answers_when_the_one_that_asked_was_killed(
    program: Commands, tmp_path: Path, mode: str
) -> None:
    script = tmp_path / "tree.py"
    script.write_text(PROCESS)
    command = [str(script), str(tmp_path), mode]
    assert program(*command).code == -9
    done = program(*command, "answer")
    assert (done.out, done.err) == ("Done.\n", "")
    assert (tmp_path / "ledger").read_text() == "b\n"


def test_an_agent_as_a_tool_does_not_see_what_a_person_answered_beside_its_call() -> None:
    inner = scripted("Looked.")
    helper = ag.agent_tool(ag.chat_agent("helper", inner), history="shared")
    asked = calls(call("helper", request="one"), call("helper", request="two"))
    boss = ag.chat_agent("boss", scripted(asked, "Done."), tools=[helper], approve=["helper"])
    runner = ag.Runner(boss)
    list(runner.run("Go.", thread_id="t"))
    decisions = [{"type": "respond", "message": "never mind"}, {"type": "approve"}]
    list(runner.resume("t", {"decisions": decisions}))
    assert [message.text for message in inner.inputs[0]] == ["Go.", "two"]
