"""Tool calls that a person must approve: beside `create_agent`, from elsewhere, and checked by schemas.

What is asked, and what becomes of each decision, is in `tests/transcripts/approval.txt`.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from beside_langchain import run_graph, run_tree
from helpers import THREAD, Disk, Drive, chat, check_heard, decide, edited, lines, look, scripted
from helpers.commands import Commands
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ToolRetryMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel, Field

import agentgraph as ag
from agentgraph.testing import call, calls

pytestmark = pytest.mark.by_turns("drive")

APPROVE, REJECT = {"type": "approve"}, {"type": "reject"}
MODES = ["batched", "per_call"]


def answer(mode: str, decision: Any) -> Any:
    """Return the answer to a question about one call."""
    return decision if mode == "per_call" else decide(decision)


def questions(events: list[ag.AgentEvent]) -> list[ag.Interrupt]:
    asked = [event.action and event.action.interrupted for event in events]
    return [question for question in asked if question]


class Files:
    """A tool that notes what it deleted."""

    def __init__(self) -> None:
        self.deleted: list[str] = []

    def delete(self, path: str) -> str:
        """Delete a file."""
        self.deleted.append(path)
        return f"{path} is gone"


def clerk(files: Files, *paths: str, **options: Any) -> ag.Agent:
    """Return an agent that calls a tool for each path."""
    made = [call("delete", str(number), path=path) for number, path in enumerate(paths)]
    options = {"tools": [files.delete], "approve": ["delete"], **options}
    return chat("clerk", calls(*made), "Done.", **options)


# beside create_agent


@tool
def mail(to: str, text: str = "") -> str:
    """Send a mail."""
    return f"sent {text!r} to {to}"


def about(made: Any, state: Any, runtime: Any) -> str:
    return f"{made['name']} after {len(state['messages'])} messages?"


def is_critical(request: Any) -> bool:
    return bool(request.tool_call["args"]["to"].startswith("re"))


RULES: dict[str, Any] = {
    "both tools": {"mail": True, "look": True},
    "one tool": {"mail": True, "look": False},
    "two decisions": {"mail": {"allowed_decisions": ["approve", "reject"], "description": "Send it?"}},
    "a function describes": {
        "mail": {"allowed_decisions": ["approve", "edit", "respond"], "description": about}
    },
    "a function says when": {
        "mail": {"allowed_decisions": ["approve", "edit", "reject", "respond"], "when": is_critical}
    },
}
DECISIONS: dict[str, Any] = {
    "ann": APPROVE,
    "rex": REJECT,
    "reg": {"type": "reject", "message": "Keep it."},
    "ren": {"type": "respond", "message": "Did it myself."},
    "red": edited("mail", to="zed"),
}
"""What is decided of a mail, by whom it is to."""
ROUNDS = [
    calls(call("look", "1", topic="a"), call("mail", "2", to="ann")),
    calls(call("mail", "3", to="rex"), call("look", "4", topic="d"), call("mail", "5", to="red")),
    calls(call("mail", "6", to="reg"), call("mail", "7", to="ren"), call("mail", "8", to="rex")),
]


def decided(question: Any, rules: Any) -> Any:
    """Return the answer to a question; an approval where what was to be decided is not allowed."""

    def one(action: Any) -> Any:
        decision, rule = DECISIONS.get(action["args"].get("to"), APPROVE), rules[action["name"]]
        return decision if rule is True or decision["type"] in rule["allowed_decisions"] else APPROVE

    if "action_requests" not in question:
        return one(question)
    return {"decisions": [one(action) for action in question["action_requests"]]}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("rules", "beside"),
    [*((RULES[each], []) for each in RULES), (RULES["one tool"], [ToolRetryMiddleware()])],
    ids=[*RULES, "with other middleware"],
)
def test_an_agent_asks_and_says_what_create_agent_does(
    drive: Drive, rules: Any, beside: Any, mode: Any
) -> None:
    approval = HumanInTheLoopMiddleware(rules, interrupt_mode=mode)
    stack = [approval, *beside] if mode == "per_call" else [*beside, approval]
    theirs = create_agent(
        scripted(*ROUNDS, "Done."), [look, mail], middleware=stack, checkpointer=InMemorySaver()
    )
    ours = chat(
        "writer",
        *ROUNDS,
        "Done.",
        tools=[look, mail],
        approve=rules,
        interrupt_mode=mode,
        middleware=beside,
    )

    def given(question: Any) -> Any:
        return decided(question, rules)

    *expected, their_messages = run_graph(drive, theirs, ["Go."], given)
    *found, our_messages = run_tree(drive, ag.sequential("s", [ours]), ["Go."], given)
    in_order = [sorted(each, key=lambda one: one.get("tool_call_id", "")) for each in expected]
    assert (found, our_messages) == (in_order, their_messages)


# one question for each call


@pytest.mark.parametrize("order", ["abc", "cab"])
def test_each_call_runs_as_its_question_is_answered_in_any_order(disk: Disk, order: str) -> None:
    files = Files()
    tree = ag.sequential("s", [clerk(files, *"abc", interrupt_mode="per_call")])
    answers = {"a": APPROVE, "b": REJECT, "c": edited("delete", path="C")}
    ids = {each.value["args"]["path"]: each.id for each in questions(disk.run(tree))}
    for number, each in enumerate(order, 1):
        asked = questions(disk.resume(tree, {ids[each]: answers[each]}))
        assert {question.id for question in asked} == {ids[left] for left in order[number:]}
        with pytest.raises(ag.UnknownInterruptError):
            disk.resume(tree, {ids[each]: answers[each]})
    assert Counter(files.deleted) == Counter("aC")
    check_heard(disk.heard, disk.events(tree))


def test_an_agent_as_a_tool_asks_itself_while_another_call_of_it_waits_for_approval(
    disk: Disk,
) -> None:
    tree = chat(
        "clerk",
        calls(call("boss", "1", request="x"), call("boss", "2", request="y")),
        "Done.",
        tools=[ag.agent_tool(ag.human("boss", "Really?"))],
        approve=["boss"],
        interrupt_mode="per_call",
    )
    first = {each.value["tool_call_id"]: each.id for each in questions(disk.run(tree))}
    asked = questions(disk.resume(tree, {first["2"]: APPROVE}))
    assert sorted(each.address for each in asked) == ["clerk", "clerk/boss(1)"]
    asked = questions(disk.resume(tree, {first["1"]: REJECT}))
    assert [each.address for each in asked] == ["clerk/boss(1)"]
    assert lines(disk.resume(tree, "Sure."))[-2:] == ["clerk: Sure.", "clerk: Done."]


def test_a_turn_that_is_given_up_keeps_the_calls_that_were_answered(drive: Drive) -> None:
    files, model = (
        Files(),
        scripted(calls(call("delete", "1", path="a"), call("delete", "2", path="b")), "Fine."),
    )
    runner = ag.Runner(
        ag.chat_agent(
            "clerk", model, tools=[files.delete], approve=["delete"], interrupt_mode="per_call"
        )
    )
    first = questions(list(drive.run(runner, "Go.", thread_id="t")))
    list(drive.resume(runner, "t", {first[0].id: APPROVE}))
    list(drive.run(runner, "Leave it.", thread_id="t", drop_pending=True))
    results = [each.text for each in model.inputs[1] if isinstance(each, ToolMessage)]
    assert results == ["a is gone", "The call was not finished."]
    assert files.deleted == ["a"]


# what runs


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["function", "when"])
def test_a_rule_is_asked_once_and_a_rejected_call_does_not_run_where_it_changed_its_mind(
    disk: Disk, mode: Any, kind: str
) -> None:
    files, needs = Files(), [True, False, False]
    rule: Any = {"allowed_decisions": ["reject"], "when": lambda request: needs.pop(0)}
    approve = {"delete": rule} if kind == "when" else lambda made: needs.pop(0)
    tree = clerk(files, "a", approve=approve, interrupt_mode=mode)
    disk.run(tree)
    disk.resume(tree, {"clerk": answer(mode, REJECT)})
    assert (files.deleted, needs) == ([], [False, False])


def test_a_tool_that_failed_is_tried_again_as_it_was_edited_without_asking_again(disk: Disk) -> None:
    tries: list[str] = []

    def delete(path: str) -> str:
        """Delete a file."""
        tries.append(path)
        if len(tries) == 1:
            raise OSError("busy")
        return "gone"

    tree = clerk(Files(), "a", tools=[delete], on_tool_error="raise")
    disk.run(tree)
    with pytest.raises(OSError, match="busy"):
        disk.resume(tree, {"clerk": decide(edited("delete", path="b"))})
    last = lines(disk.resume(tree))
    assert (last[0][-5:], last[1:], tries) == ("\ngone", ["clerk: Done."], ["b", "b"])


def test_an_edited_call_has_the_id_of_the_call(drive: Drive) -> None:
    seen: list[str] = []

    def delete(path: str, id: Annotated[str, InjectedToolCallId]) -> str:
        """Delete a file."""
        seen.append(f"{id} {path}")
        return path

    runner = ag.Runner(clerk(Files(), "a", "b", tools=[delete], parallel_tools=False))
    list(drive.run(runner, "Go.", thread_id="t"))
    list(drive.resume(runner, "t", decide("approve", edited("delete", path="c"))))
    assert seen == ["0 a", "1 c"]


def test_a_refusal_in_a_branch_is_shown_to_the_model_once(disk: Disk) -> None:
    model = scripted(calls(call("delete", "0", path="a")), "Done.", "Bye.")
    one = ag.chat_agent("clerk", model, tools=[Files().delete], approve=["delete"])
    tree = ag.parallel("p", [ag.loop("l", [one], max_iterations=2), chat("other", "Hello.")])
    disk.run(tree)
    disk.resume(tree, decide({**REJECT, "message": "Leave it."}))
    assert len(model.inputs) == 3
    for sent in model.inputs[1:]:
        assert ["Leave it." in each.text for each in sent].count(True) == 1


# answers are checked


class Letter(BaseModel):
    """A letter."""

    to: str
    kind: Literal["short", "long"] = "short"


def send(letters: list[Letter], copies: int = Field(1, ge=1)) -> str:
    """Send letters."""
    return f"{copies} of {[letter.to for letter in letters]}"


UNFIT: list[tuple[dict[str, Any], str]] = [
    ({}, "letters: Field required"),
    ({"letters": [{"kind": "long"}]}, "letters.0.to: Field required"),
    ({"letters": [{"to": "Bob", "kind": "huge"}]}, "must be one of ['short', 'long']"),
    ({"letters": [], "copies": 0}, "copies: Input should be greater than or equal to 1"),
]


def test_an_edit_must_fit_the_schema_of_its_tool(drive: Drive) -> None:
    letter, more = call("send", letters=[{"to": "Ann"}]), call("delete", "2", path="a")
    tools = [StructuredTool.from_function(send), Files().delete]
    agent = chat("clerk", calls(letter, more), "Done.", tools=tools, approve=["send", "delete"])
    runner = ag.Runner(agent)
    list(drive.run(runner, "Go.", thread_id="t"))
    for args, fault in UNFIT:
        with pytest.raises(ag.InvalidAnswerError) as caught:
            list(drive.resume(runner, "t", decide(edited("send", **args), "approve")))
        assert fault in str(caught.value)
    fits = edited("send", letters=[{"to": "Bob", "kind": "long"}], copies=2)
    heard = lines(drive.resume(runner, "t", decide(fits, "reject")))
    assert any(line.endswith("Tool response:\n2 of ['Bob']") for line in heard)


FIELDS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


@pytest.mark.parametrize("mode", MODES)
def test_an_error_shows_the_decision_that_was_meant_for_the_calls_that_were_asked(
    mode: str, drive: Drive
) -> None:
    runner = ag.Runner(clerk(Files(), "a", interrupt_mode=mode))
    list(drive.run(runner, "Go.", thread_id="t"))
    meant = {"type": "edit", "edited_action": {"name": "delete", "args": {"path": "a"}}}
    for wrong in ({"type": "edit", "args": {"path": "b"}}, 'edit: {"path": "b"}'):
        with pytest.raises(ag.InvalidAnswerError) as caught:
            list(drive.resume(runner, "t", wrong))
        assert str(caught.value).endswith(f"as in {json.dumps(answer(mode, meant))}")
    list(drive.resume(runner, "t", answer(mode, meant)))
    assert runner.thread("t").status == "done"


def test_an_error_does_not_show_long_arguments(drive: Drive) -> None:
    runner = ag.Runner(clerk(Files(), "a" * 200))
    list(drive.run(runner, "Go.", thread_id="t"))
    with pytest.raises(ag.InvalidAnswerError, match=r"'approve' alone$"):
        list(drive.resume(runner, "t", {"type": "edit"}))


@pytest.mark.parametrize(
    ("more", "is_checked"),
    [({}, True), ({"allOf": [{"$ref": "#/properties/path"}]}, False)],
    ids=["checked", "not checked where it refers to what is not a definition"],
)
def test_an_edit_for_a_tool_with_a_json_schema_is(drive: Drive, more: Any, is_checked: bool) -> None:
    files = Files()
    made = StructuredTool.from_function(
        files.delete, description="Delete.", args_schema={**FIELDS, **more}
    )
    runner = ag.Runner(clerk(files, "a", tools=[made]))
    list(drive.run(runner, "Go.", thread_id="t"))
    if is_checked:
        with pytest.raises(ag.InvalidAnswerError, match="path: Field required"):
            list(drive.resume(runner, "t", decide(edited("delete", file="b"))))
    list(drive.resume(runner, "t", decide(edited("delete", path="b"))))
    assert files.deleted == ["b"]


def test_answers_to_langchains_own_middleware_are_checked_too(drive: Drive) -> None:
    files = Files()
    ask = HumanInTheLoopMiddleware({"delete": {"allowed_decisions": ["approve", "reject"]}})
    runner = ag.Runner(clerk(files, "a", approve=(), middleware=[ask]))
    (question,) = questions(list(drive.run(runner, "Go.", thread_id="t")))
    unfit = ["yes", {}, decide(), decide("approve", "approve"), decide(edited("delete", path="b"))]
    for each in [*unfit, {"decisions": ["approve"]}]:
        with pytest.raises(ag.InvalidAnswerError):
            list(drive.resume(runner, "t", {question.id: each}))
    list(drive.resume(runner, "t", {question.id: decide("approve")}))
    assert files.deleted == ["a"]


# from elsewhere


def test_langgraph_alone_asks_again_until_an_answer_fits() -> None:
    files = Files()
    tree = ag.sequential("s", [ag.loop("l", [clerk(files, "a", "b")], max_iterations=1)])
    graph = ag.compile_agent(tree, checkpointer=InMemorySaver())
    (first,) = graph.invoke({"messages": ["Go."]}, THREAD)["__interrupt__"]
    (second,) = graph.invoke(Command(resume="yes"), THREAD)["__interrupt__"]
    assert (second.value, files.deleted) == (first.value, [])
    done = graph.invoke(Command(resume=decide("reject", "approve")), THREAD)
    assert (done["messages"][-1].text, files.deleted) == ("Done.", ["b"])


def test_a_tree_that_asks_for_no_approval_refuses_a_thread_that_waits_for_it(disk: Disk) -> None:
    asking, silent = clerk(Files(), "a"), clerk(Files(), "a", approve=())
    disk.run(asking)
    with pytest.raises(ag.TreeChangedError, match="was left by a tree of another shape"):
        disk.resume(silent, {"clerk": decide("approve")})
    assert lines(disk.resume(asking, decide("approve"))) == ["clerk: a is gone", "clerk: Done."]


PROCESS = """
import os
import signal
import sys
from pathlib import Path

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

folder, *answers = sys.argv[1:]


def delete(path: str) -> str:
    "Delete a file."
    with open(Path(folder, "ledger"), "a") as file:
        print(path, file=file)
    return "gone"


def clerk(mode):
    two = calls(call("delete", "1", path=f"{mode} a"), call("delete", "2", path=f"{mode} b"))
    model = ScriptedChatModel(responses=["Done."] if answers else [two])
    return ag.chat_agent("clerk", model, tools=[delete], approve=["delete"], interrupt_mode=mode)


with ag.sqlite_saver(Path(folder, "runs.db")) as saver:
    runners = {mode: ag.Runner(clerk(mode), checkpointer=saver) for mode in ("batched", "per_call")}
    for mode, runner in runners.items():
        if not answers:
            list(runner.run("Go.", thread_id=mode))
            continue
        no, yes = {"type": "reject"}, {"type": "approve"}
        each = [no, yes] if mode == "per_call" else [{"decisions": [no, yes]}]
        given = {q.id: answer for q, answer in zip(runner.pending(mode), each, strict=True)}
        print(list(runner.resume(mode, given))[-1].text)
    if not answers:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_another_process_answers_when_the_one_that_asked_was_killed(
    program: Commands, tmp_path: Path
) -> None:
    script = tmp_path / "tree.py"
    script.write_text(PROCESS)
    assert program(str(script), str(tmp_path)).code == -9
    done = program(str(script), str(tmp_path), "answer")
    assert (done.out, done.err) == ("Done.\nDone.\n", "")
    assert (tmp_path / "ledger").read_text() == "batched b\nper_call b\n"
