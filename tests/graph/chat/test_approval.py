"""Tool calls that a person must agree to: what is asked, and what becomes of the decisions."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, get_args

import pytest
from helpers import Drive, failing, fresh, scripted
from langchain.agents.middleware.human_in_the_loop import (
    ActionRequest,
    Decision,
    DecisionType,
    HITLRequest,
    HITLResponse,
    ReviewConfig,
)
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolCallId
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from pydantic import TypeAdapter

import agentgraph as ag
from agentgraph.testing import call, calls, transcript

APPROVE = {"type": "approve"}
REJECT = {"type": "reject"}


NOTICE = (
    "Note: a human reviewer replaced this tool call before it ran. The call recorded in your message "
    "is the one you produced, not the one that executed. This was intentional and authorized. Do not "
    "re-issue your original call. Executed instead: {} with arguments {}.\n\nTool response:\n"
)
"""What LangChain writes before the result of a call that a person edited."""


def decide(*decisions: Any) -> dict[str, Any]:
    return {"decisions": list(decisions)}


def edit(name: str, **args: Any) -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": name, "args": args}}


def results(messages: Iterable[BaseMessage | None]) -> list[str]:
    """Return the tool messages as lines: whose result, how it went, and what it is."""
    return [
        f"{message.tool_call_id} {message.name} {message.status}: {message.text}"
        for message in messages
        if isinstance(message, ToolMessage)
    ]


def asked(events: Iterable[ag.AgentEvent]) -> list[ag.Interrupt]:
    told = [event.action and event.action.interrupted for event in events]
    return [question for question in told if question]


def paths(events: Iterable[ag.AgentEvent]) -> list[list[str]]:
    """Return the paths that the calls are about of each question."""
    return [[each["args"]["path"] for each in q.value["action_requests"]] for q in asked(events)]


class Files:
    """Tools for files, and a note of what they did."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def delete(self, path: str) -> str:
        """Delete a file."""
        self.done.append(f"delete {path}")
        return f"{path} is gone"

    def read(self, path: str) -> str:
        """Read a file."""
        self.done.append(f"read {path}")
        return f"text of {path}"


def clerk(model: Any, files: Files, **options: Any) -> Any:
    options = {"approve": ["delete"], "tools": [files.delete, files.read], **options}
    return ag.chat_agent("clerk", model, **options)


# what is asked


def test_the_question_has_the_shapes_of_langchain(drive: Drive) -> None:
    model = scripted(calls(call("delete", path="größe.txt")), "Done.")
    tree = ag.loop("l", [clerk(model, Files())], max_iterations=1)
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "Go.", thread_id="t"))
    (question,) = asked(events)

    assert question.value == {
        "action_requests": [
            {
                "name": "delete",
                "args": {"path": "größe.txt"},
                "description": (
                    "Tool execution requires approval\n\nTool: delete\nArgs: {'path': 'größe.txt'}"
                ),
            }
        ],
        "review_configs": [
            {"action_name": "delete", "allowed_decisions": ["approve", "edit", "reject", "respond"]}
        ],
    }
    TypeAdapter(HITLRequest).validate_python(question.value, strict=True)
    assert set(question.value) == set(HITLRequest.__annotations__)
    assert set(question.value["action_requests"][0]) <= set(ActionRequest.__annotations__)
    assert set(question.value["review_configs"][0]) <= set(ReviewConfig.__annotations__)
    assert set(question.value["review_configs"][0]["allowed_decisions"]) == set(get_args(DecisionType))
    assert (question.address, question.agent_name) == ("l[0]/clerk", "clerk")
    assert runner.pending("t") == [question]
    assert transcript(events)[0] == 'l/clerk: [calls] delete({"path": "größe.txt"})'


@pytest.mark.parametrize(
    "decision",
    [
        APPROVE,
        edit("read", path="b"),
        REJECT,
        {"type": "reject", "message": "No."},
        {"type": "respond", "message": "b is gone"},
    ],
)
def test_every_answer_of_langchains_is_taken(drive: Drive, decision: Any) -> None:
    TypeAdapter(Decision).validate_python(decision, strict=True)
    TypeAdapter(HITLResponse).validate_python(decide(decision), strict=True)
    model = scripted(calls(call("delete", path="a")), "Done.")
    runner = ag.Runner(clerk(model, Files()))
    list(drive.run(runner, "Go.", thread_id="t"))
    assert transcript(drive.resume(runner, "t", {"clerk": decide(decision)}))[-1] == "clerk: Done."


def test_a_call_that_needs_no_approval_asks_nothing(drive: Drive) -> None:
    files = Files()
    model = scripted(calls(call("read", path="a")), "Done.")
    assert transcript(drive.run(ag.Runner(clerk(model, files)), "Go.")) == [
        'clerk: [calls] read({"path": "a"})',
        "clerk: text of a",
        "clerk: Done.",
    ]


def test_nothing_runs_before_all_is_decided_and_then_all_runs(drive: Drive) -> None:
    files = Files()
    model = scripted(
        calls(
            call("read", "1", path="x"),
            call("delete", "2", path="a"),
            call("delete", "3", path="b"),
        ),
        "Done.",
    )
    runner = ag.Runner(clerk(model, files, parallel_tools=False))
    first = list(drive.run(runner, "Go.", thread_id="t"))
    assert paths(first) == [["a", "b"]]
    assert files.done == []
    second = list(drive.resume(runner, "t", {"clerk": decide(REJECT, APPROVE)}))
    assert files.done == ["read x", "delete b"]
    assert [line.partition(":")[0] for line in results(model.inputs[1])] == [
        "1 read success",
        "2 delete error",
        "3 delete success",
    ]
    assert [each.message.tool_call_id for each in second if isinstance(each.message, ToolMessage)] == [
        "2",
        "1",
        "3",
    ]
    assert list(runner.events("t")) == [*first, *second]


def test_one_name_needs_no_list(drive: Drive) -> None:
    model = scripted(calls(call("delete", path="a")))
    events = drive.run(ag.Runner(clerk(model, Files(), approve="delete")), "Go.")
    assert paths(events) == [["a"]]


# what a person decides


def test_an_approved_call_runs(drive: Drive, tmp_path: Path) -> None:
    files = Files()
    model = scripted(calls(call("delete", path="a")), "Done.")
    tree = clerk(model, files)
    path = tmp_path / "db"
    first = fresh(drive, path, tree, "run", "Go.", thread_id="t")
    assert files.done == []
    second = fresh(drive, path, tree, "resume", "t", {asked(first)[0].id: decide(APPROVE)})
    assert transcript(second) == ["clerk: a is gone", "clerk: Done."]
    assert files.done == ["delete a"]
    assert results(model.inputs[1]) == ["1 delete success: a is gone"]
    assert fresh(drive, path, tree, "events", "t") == [*first, *second]


def test_an_edited_call_runs_as_edited_and_the_message_stays_as_it_was_said(
    drive: Drive, tmp_path: Path
) -> None:
    files = Files()
    model = scripted(calls(call("read", "1", path="x"), call("delete", "2", path="a")), "Done.")
    tree = clerk(model, files, parallel_tools=False)
    path = tmp_path / "db"
    first = fresh(drive, path, tree, "run", "Go.", thread_id="t")
    answers = {asked(first)[0].id: decide(edit("delete", path="b"))}
    second = fresh(drive, path, tree, "resume", "t", answers)
    assert files.done == ["read x", "delete b"]
    made = model.inputs[1][1]
    assert isinstance(made, AIMessage)
    assert [(each["name"], each["args"], each["id"]) for each in made.tool_calls] == [
        ("read", {"path": "x"}, "1"),
        ("delete", {"path": "a"}, "2"),
    ]
    assert len(model.inputs[1]) == 4
    told = NOTICE.format("delete", '{"path": "b"}') + "b is gone"
    assert results(model.inputs[1])[1] == f"2 delete success: {told}"
    assert transcript(second) == ["clerk: text of x", f"clerk: {told}", "clerk: Done."]
    assert fresh(drive, path, tree, "events", "t") == [*first, *second]


def test_a_call_may_be_edited_to_another_tool(drive: Drive) -> None:
    files = Files()
    model = scripted(calls(call("delete", path="a")), "Done.")
    runner = ag.Runner(clerk(model, files))
    list(drive.run(runner, "Go.", thread_id="t"))
    list(drive.resume(runner, "t", {"clerk": decide(edit("read", path="a"))}))
    assert files.done == ["read a"]
    told = NOTICE.format("read", '{"path": "a"}')
    assert results(model.inputs[1]) == [f"1 read success: {told}text of a"]


@pytest.mark.parametrize(
    ("decision", "text"),
    [
        (
            REJECT,
            "User rejected the tool call for `delete` with id 1. The tool was not executed. Do not "
            "retry this tool call unless the user explicitly requests it.",
        ),
        (
            {"type": "reject", "message": "Keep {it}."},
            "User rejected the tool call for `delete` with reason: Keep {it}.",
        ),
    ],
    ids=["without", "with a message"],
)
def test_a_rejected_call_does_not_run_and_the_model_is_told(
    drive: Drive, tmp_path: Path, decision: Any, text: str
) -> None:
    files = Files()
    model = scripted(calls(call("delete", path="a")), "I keep it.")
    tree = clerk(model, files, on_tool_error="raise", return_directly=["delete"])
    fresh(drive, tmp_path / "db", tree, "run", "Go.", thread_id="t")
    told = fresh(drive, tmp_path / "db", tree, "resume", "t", {"clerk": decide(decision)})
    assert transcript(told) == [f"clerk: {text}", "clerk: I keep it."]
    assert results(model.inputs[1]) == [f"1 delete error: {text}"]
    assert files.done == []


@pytest.mark.parametrize("text", ["It was gone.", ""])
def test_a_person_may_respond_in_the_place_of_the_tool(drive: Drive, tmp_path: Path, text: str) -> None:
    files = Files()
    model = scripted(calls(call("delete", path="a")), "Good.")
    tree = clerk(model, files)
    fresh(drive, tmp_path / "db", tree, "run", "Go.", thread_id="t")
    answer = decide({"type": "respond", "message": text})
    told = fresh(drive, tmp_path / "db", tree, "resume", "t", {"clerk": answer})
    assert transcript(told) == [f"clerk: {text}", "clerk: Good."]
    assert results(model.inputs[1]) == [f"1 delete success: {text}"]
    assert files.done == []


def test_all_calls_of_a_message_are_decided_by_one_answer_of_a_new_runner(
    drive: Drive, tmp_path: Path
) -> None:
    files = Files()
    made = [call("delete", f"id {path}", path=path) for path in "abc"]
    model = scripted(calls(made[0], call("read", "id x", path="x"), *made[1:]), "Done.")
    tree = ag.sequential("s", [clerk(model, files)])
    path = tmp_path / "db"
    assert paths(fresh(drive, path, tree, "run", "Go.", thread_id="t")) == [["a", "b", "c"]]
    answer = decide(APPROVE, REJECT, edit("delete", path="C"))
    fresh(drive, path, tree, "resume", "t", {"s/clerk": answer})
    assert Counter(files.done) == Counter(["delete a", "read x", "delete C"])
    assert [line.partition(":")[0] for line in results(model.inputs[1])] == [
        "id a delete success",
        "id x read success",
        "id b delete error",
        "id c delete success",
    ]
    assert len(model.inputs) == 2


def test_questions_of_the_next_round_are_new_ones(drive: Drive, tmp_path: Path) -> None:
    files = Files()
    model = scripted(calls(call("delete", path="a")), calls(call("delete", path="b")), "Done.")
    tree = clerk(model, files)
    path = tmp_path / "db"
    first = asked(fresh(drive, path, tree, "run", "Go.", thread_id="t"))
    second = asked(fresh(drive, path, tree, "resume", "t", {first[0].id: decide(APPROVE)}))
    assert second[0].id != first[0].id
    with pytest.raises(ag.UnknownInterruptError):
        fresh(drive, path, tree, "resume", "t", {first[0].id: decide(APPROVE)})
    fresh(drive, path, tree, "resume", "t", {second[0].id: decide(REJECT)})
    assert files.done == ["delete a"]


def test_a_tool_may_ask_when_it_was_approved(drive: Drive, tmp_path: Path) -> None:
    def delete(path: str) -> str:
        """Delete a file."""
        return f"{path}: {interrupt('Really?')}"

    model = scripted(calls(call("delete", path="a")), "Done.")
    tree = ag.chat_agent("clerk", model, tools=[delete], approve=["delete"])
    path = tmp_path / "db"
    fresh(drive, path, tree, "run", "Go.", thread_id="t")
    told = fresh(drive, path, tree, "resume", "t", {"clerk": decide(APPROVE)})
    assert transcript(told) == ["clerk: [asks] Really?"]
    assert transcript(fresh(drive, path, tree, "resume", "t", "yes")) == [
        "clerk: a: yes",
        "clerk: Done.",
    ]


def test_branches_are_approved_apart(drive: Drive, tmp_path: Path) -> None:
    files = {name: Files() for name in "xy"}
    agents = [
        ag.chat_agent(
            name,
            scripted(calls(call("delete", path=name)), "Done."),
            tools=[files[name].delete],
            approve=["delete"],
        )
        for name in "xy"
    ]
    tree = ag.parallel("p", agents)
    path = tmp_path / "db"
    ids = {q.address: q.id for q in asked(fresh(drive, path, tree, "run", "Go.", thread_id="t"))}
    assert set(ids) == {"p/x", "p/y"}
    told = fresh(drive, path, tree, "resume", "t", {"p/y": decide(APPROVE)})
    assert [each.id for each in asked(told)] == [ids["p/x"]]
    assert (files["x"].done, files["y"].done) == ([], ["delete y"])
    with pytest.raises(ag.UnknownInterruptError):
        fresh(drive, path, tree, "resume", "t", {ids["p/y"]: decide(APPROVE)})
    told = fresh(drive, path, tree, "resume", "t", {ids["p/x"]: decide(REJECT)})
    assert transcript(told)[-1] == "p/x: Done."
    assert files["x"].done == []


def test_the_tools_that_steer_may_need_approval(drive: Drive) -> None:
    model = scripted(calls(call("exit", final_result="Bye.")), "I stay.")
    agent = ag.chat_agent("clerk", model, exit_tool=True, approve=["exit"])
    tree = ag.sequential("s", [agent, ag.chat_agent("critic", scripted("Good."))])
    runner = ag.Runner(tree)
    list(drive.run(runner, "Go.", thread_id="t"))
    told = drive.resume(runner, "t", {"s/clerk": decide({"type": "reject", "message": "Stay."})})
    assert transcript(told)[1:] == ["s/clerk: I stay.", "s/clerk/critic: Good."]


def test_an_approved_exit_ends_the_run(drive: Drive) -> None:
    model = scripted(calls(call("exit", final_result="Bye.")))
    agent = ag.chat_agent("clerk", model, exit_tool=True, approve=["exit"])
    tree = ag.sequential("s", [agent, ag.chat_agent("critic", scripted("Never."))])
    runner = ag.Runner(tree)
    list(drive.run(runner, "Go.", thread_id="t"))
    told = drive.resume(runner, "t", {"s/clerk": decide(APPROVE)})
    assert transcript(told) == ["s/clerk: Bye.", "s/clerk: [exit]"]


def test_a_failed_tool_is_tried_again_without_asking_again(drive: Drive, tmp_path: Path) -> None:
    tries: list[str] = []

    def delete(path: str) -> str:
        """Fail once."""
        tries.append(path)
        if len(tries) == 1:
            raise OSError("busy")
        return "gone"

    model = scripted(calls(call("delete", path="a")), "Done.")
    tree = ag.chat_agent("clerk", model, tools=[delete], approve=["delete"], on_tool_error="raise")
    path = tmp_path / "db"
    fresh(drive, path, tree, "run", "Go.", thread_id="t")
    with pytest.raises(OSError, match="busy"):
        fresh(drive, path, tree, "resume", "t", {"clerk": decide(edit("delete", path="b"))})
    told = NOTICE.format("delete", '{"path": "b"}')
    assert transcript(fresh(drive, path, tree, "resume", "t")) == [f"clerk: {told}gone", "clerk: Done."]
    assert tries == ["b", "b"]


def test_calls_that_share_an_id_are_decided_apart(drive: Drive) -> None:
    files = Files()
    model = scripted(calls(call("delete", "1", path="a"), call("delete", "1", path="b")), "Done.")
    runner = ag.Runner(clerk(model, files))
    assert paths(drive.run(runner, "Go.", thread_id="t")) == [["a", "b"]]
    list(drive.resume(runner, "t", {"clerk": decide(REJECT, APPROVE)}))
    assert files.done == ["delete b"]


def test_the_call_id_that_a_tool_is_given_is_that_of_the_edited_call(drive: Drive) -> None:
    seen: list[str] = []

    def delete(path: str, id: Annotated[str, InjectedToolCallId]) -> str:
        """Delete a file."""
        seen.append(id)
        return path

    model = scripted(calls(call("delete", "7", path="a")), "Done.")
    runner = ag.Runner(ag.chat_agent("clerk", model, tools=[delete], approve=["delete"]))
    list(drive.run(runner, "Go.", thread_id="t"))
    list(drive.resume(runner, "t", {"clerk": decide(edit("delete", path="b"))}))
    assert seen == ["7"]


def test_a_dropped_approval_leaves_no_unanswered_call(drive: Drive) -> None:
    files = Files()
    model = scripted(calls(call("delete", "1", path="a"), call("read", "2", path="b")), "Fine.")
    runner = ag.Runner(clerk(model, files))
    list(drive.run(runner, "Go.", thread_id="t"))
    list(drive.run(runner, "Leave it.", thread_id="t", drop_pending=True))
    assert results(model.inputs[1]) == [
        "1 delete error: The call was not finished.",
        "2 read error: The call was not finished.",
    ]
    assert files.done == []


# a function that says which calls


def test_a_function_may_say_which_calls_need_approval_and_is_asked_once(
    drive: Drive, tmp_path: Path
) -> None:
    put: list[ToolCall] = []

    def needs(made: ToolCall) -> bool:
        put.append(dict(made))
        return made["args"]["path"].startswith("/")

    files = Files()
    model = scripted(
        calls(
            call("delete", "1", path="a"), call("read", "2", path="/b"), call("delete", "3", path="/c")
        ),
        "Done.",
    )
    tree = clerk(model, files, approve=needs)
    path = tmp_path / "db"
    assert paths(fresh(drive, path, tree, "run", "Go.", thread_id="t")) == [["/b", "/c"]]
    answer = decide(APPROVE, edit("delete", path="/d"))
    fresh(drive, path, tree, "resume", "t", {"clerk": answer})
    assert sorted(files.done) == ["delete /d", "delete a", "read /b"]
    assert [(each["name"], each["args"], each["id"]) for each in put] == [
        ("delete", {"path": "a"}, "1"),
        ("read", {"path": "/b"}, "2"),
        ("delete", {"path": "/c"}, "3"),
    ]


def test_a_function_is_asked_of_unknown_tools_too(drive: Drive) -> None:
    model = scripted(calls(call("format", disk="C:")), "Done.")
    runner = ag.Runner(clerk(model, Files(), approve=lambda made: True))
    (question,) = asked(drive.run(runner, "Go.", thread_id="t"))
    assert question.value["action_requests"][0]["name"] == "format"
    list(drive.resume(runner, "t", {"clerk": decide(APPROVE)}))
    assert results(model.inputs[1]) == [
        "1 format error: Error: format is not a valid tool, try one of [delete, read]."
    ]


def test_a_function_that_fails_is_told_under_its_agent(drive: Drive) -> None:
    model = scripted(calls(call("delete", path="a")))
    tree = ag.sequential("s", [clerk(model, Files(), approve=lambda made: made["no"])])
    told, raised = failing(drive.run(ag.Runner(tree), "Go."), KeyError)
    assert transcript(told)[1:] == [f"s/clerk: [error] {raised!r}"]
    assert len(model.inputs) == 1


def test_langgraph_alone_is_asked_again_until_an_answer_fits() -> None:
    files = Files()
    model = scripted(calls(call("delete", path="a")), "Done.")
    graph = ag.compile_agent(clerk(model, files), checkpointer=InMemorySaver())
    config: RunnableConfig = {"configurable": {"thread_id": "t"}}
    (first,) = graph.invoke({"messages": ["Go."]}, config)["__interrupt__"]
    (second,) = graph.invoke(Command(resume="yes"), config)["__interrupt__"]
    assert second.value == first.value
    assert files.done == []
    done = graph.invoke(Command(resume=decide(APPROVE)), config)
    assert [message.text for message in done["messages"]] == ["Go.", "", "a is gone", "Done."]


def test_a_thread_that_waits_for_approval_is_refused_by_a_tree_that_asks_for_none(
    drive: Drive, tmp_path: Path
) -> None:
    model = scripted(calls(call("delete", path="a")), "Done.")
    path = tmp_path / "db"
    asking, silent = clerk(model, Files()), clerk(model, Files(), approve=())
    fresh(drive, path, asking, "run", "Go.", thread_id="t")
    with pytest.raises(ag.TreeChangedError, match="was left by a tree of another shape"):
        fresh(drive, path, silent, "resume", "t", {"clerk": decide(APPROVE)})
    assert transcript(fresh(drive, path, asking, "resume", "t", {"clerk": decide(APPROVE)})) == [
        "clerk: a is gone",
        "clerk: Done.",
    ]
