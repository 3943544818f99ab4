"""Answers to questions about tool calls: what fits, and that nothing is lost where one does not."""

from pathlib import Path
from typing import Any, Literal

import pytest
from helpers import Drive, fresh, scripted
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel, Field
from test_approval import APPROVE, REJECT, Files, asked, clerk, decide, edit, paths

import agentgraph as ag
from agentgraph.testing import call, calls, transcript


@pytest.mark.parametrize(
    "answer",
    [
        "approve",
        True,
        None,
        APPROVE,
        [APPROVE],
        {},
        {"decisions": []},
        {"decisions": [APPROVE, APPROVE]},
        {"decisions": APPROVE},
        {"decisions": ["approve"]},
        {"decisions": [{}]},
        {"decisions": [{"type": "accept"}]},
        {"decisions": [{"type": "ignore", "args": None}]},
        {"decisions": [{"type": "edit"}]},
        {"decisions": [{"type": "edit", "edited_action": {"name": "delete"}}]},
        {"decisions": [{"type": "edit", "edited_action": {"name": "delete", "args": "path"}}]},
        {"decisions": [{"type": "edit", "edited_action": {"name": 5, "args": {}}}]},
        {"decisions": [{"type": "edit", "edited_action": {"name": "format", "args": {}}}]},
        {"decisions": [{"type": "edit", "edited_action": {"name": "delete", "args": {"file": "b"}}}]},
        {"decisions": [{"type": "edit", "edited_action": {"name": "delete", "args": {"path": 5}}}]},
        {"decisions": [{"type": "reject", "message": 5}]},
        {"decisions": [{"type": "respond"}]},
        {"decisions": [APPROVE], "more": 1},
    ],
    ids=str,
)
def test_an_answer_that_does_not_fit_is_refused_and_loses_nothing(drive: Drive, answer: Any) -> None:
    files = Files()
    model = scripted(calls(call("delete", path="a")), "Done.")
    runner = ag.Runner(clerk(model, files))
    first = list(drive.run(runner, "Go.", thread_id="t"))
    (question,) = asked(first)
    with pytest.raises(ag.InvalidAnswerError) as caught:
        list(drive.resume(runner, "t", {question.id: answer}))
    assert str(caught.value).startswith(f"the answer {answer!r} to clerk does not fit: ")
    assert str(caught.value).endswith("; the question is still pending, answer it again")
    assert caught.value.thread_id == "t"
    assert runner.pending("t") == [question]
    assert list(runner.events("t")) == first
    second = list(drive.resume(runner, "t", {question.id: decide(APPROVE)}))
    assert transcript(second) == ["clerk: a is gone", "clerk: Done."]


def test_an_edit_to_an_unknown_tool_is_refused_with_the_tools_that_there_are(drive: Drive) -> None:
    model = scripted(calls(call("delete", path="a")), "Done.")
    runner = ag.Runner(clerk(model, Files(), exit_tool=True))
    list(drive.run(runner, "Go.", thread_id="t"))
    with pytest.raises(ag.InvalidAnswerError) as caught:
        list(drive.resume(runner, "t", {"clerk": decide(edit("format", path="a"))}))
    assert "must be one of ['delete', 'read', 'exit']" in str(caught.value)


class Letter(BaseModel):
    """A letter."""

    to: str
    kind: Literal["short", "long"] = "short"


def send(letters: list[Letter], copies: int = Field(1, ge=1)) -> str:
    """Send letters."""
    return f"{copies} of {[letter.to for letter in letters]}"


LETTER = call("send", letters=[{"to": "Ann"}])
FIELDS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


@pytest.mark.parametrize(
    ("args", "fault"),
    [
        ({}, "letters: Field required"),
        ({"letters": [{"kind": "long"}]}, "letters.0.to: Field required"),
        ({"letters": [{"to": "Bob", "kind": "huge"}]}, "must be one of ['short', 'long']"),
        ({"letters": [], "copies": 0}, "copies: Input should be greater than or equal to 1"),
    ],
)
def test_an_edit_must_fit_the_schema_of_its_tool(drive: Drive, args: Any, fault: str) -> None:
    tools = [StructuredTool.from_function(send), Files().delete]
    model = scripted(calls(LETTER, call("delete", "2", path="a")), "Done.")
    runner = ag.Runner(ag.chat_agent("clerk", model, tools=tools, approve=["send", "delete"]))
    list(drive.run(runner, "Go.", thread_id="t"))
    with pytest.raises(ag.InvalidAnswerError) as caught:
        list(drive.resume(runner, "t", {"clerk": decide(edit("send", **args), APPROVE)}))
    assert fault in str(caught.value)
    fits = edit("send", letters=[{"to": "Bob", "kind": "long"}], copies=2)
    told = transcript(drive.resume(runner, "t", {"clerk": decide(fits, REJECT)}))
    assert told[1].endswith("Tool response:\n2 of ['Bob']")


def test_a_tool_with_a_json_schema_has_its_edits_checked_too(drive: Drive) -> None:
    files = Files()
    tool = StructuredTool.from_function(files.delete, description="Delete.", args_schema=FIELDS)
    model = scripted(calls(call("delete", path="a")), "Done.")
    runner = ag.Runner(ag.chat_agent("clerk", model, tools=[tool], approve=["delete"]))
    list(drive.run(runner, "Go.", thread_id="t"))
    with pytest.raises(ag.InvalidAnswerError, match="path: Field required"):
        list(drive.resume(runner, "t", {"clerk": decide(edit("delete", file="b"))}))
    list(drive.resume(runner, "t", {"clerk": decide(edit("delete", path="b"))}))
    assert files.done == ["delete b"]


@pytest.mark.parametrize("reference", ["#/properties/path"])
def test_arguments_that_answers_cannot_be_checked_against_are_left_to_the_tool(
    drive: Drive, reference: str
) -> None:
    files = Files()
    schema = {**FIELDS, "allOf": [{"$ref": reference}]}
    tool = StructuredTool.from_function(files.delete, description="Delete.", args_schema=schema)
    model = scripted(calls(call("delete", path="a")), "Done.")
    runner = ag.Runner(ag.chat_agent("clerk", model, tools=[tool], approve=["delete"]))
    list(drive.run(runner, "Go.", thread_id="t"))
    list(drive.resume(runner, "t", {"clerk": decide(edit("delete", path="b"))}))
    assert files.done == ["delete b"]


@pytest.mark.parametrize(
    ("decisions", "fault"),
    [
        ([APPROVE], "decisions: must have at least 2 items, and has 1"),
        ([APPROVE, APPROVE, REJECT], "decisions: must have at most 2 items, and has 3"),
        (
            [APPROVE, {"type": "maybe"}],
            "decisions.1.type: must be one of ['approve', 'edit', 'reject'",
        ),
    ],
)
def test_an_answer_must_have_a_decision_for_each_call(
    drive: Drive, tmp_path: Path, decisions: Any, fault: str
) -> None:
    files, path = Files(), tmp_path / "db"
    model = scripted(calls(call("delete", "1", path="a"), call("delete", "2", path="b")), "Done.")
    tree = clerk(model, files)
    first = fresh(drive, path, tree, "run", "Go.", thread_id="t")
    assert paths(first) == [["a", "b"]]
    with pytest.raises(ag.InvalidAnswerError) as caught:
        fresh(drive, path, tree, "resume", "t", {"clerk": decide(*decisions)})
    assert fault in str(caught.value)
    fresh(drive, path, tree, "resume", "t", {asked(first)[0].id: decide(APPROVE, REJECT)})
    assert files.done == ["delete a"]


@pytest.mark.parametrize("answer", ["yes", {}, decide(), decide(APPROVE, APPROVE), decide("approve")])
def test_langchains_middleware_has_its_answers_checked_too(drive: Drive, answer: Any) -> None:
    files = Files()
    middleware = [HumanInTheLoopMiddleware({"delete": {"allowed_decisions": ["approve", "reject"]}})]
    model = scripted(calls(call("delete", path="a")), "Done.")
    runner = ag.Runner(clerk(model, files, approve=(), middleware=middleware))
    (question,) = asked(drive.run(runner, "Go.", thread_id="t"))
    for unfit in (answer, decide(edit("delete", path="b"))):
        with pytest.raises(ag.InvalidAnswerError):
            list(drive.resume(runner, "t", {question.id: unfit}))
    list(drive.resume(runner, "t", {question.id: decide(APPROVE)}))
    assert files.done == ["delete a"]


def test_a_client_of_the_graph_resumes_without_ids() -> None:
    files = Files()
    model = scripted(calls(call("delete", "1", path="a"), call("delete", "2", path="b")), "Done.")
    tree = ag.sequential("s", [ag.loop("l", [clerk(model, files)], max_iterations=1)])
    graph = ag.compile_agent(tree, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    (question,) = graph.invoke({"messages": ["Go."]}, config)["__interrupt__"]
    assert len(question.value["action_requests"]) == 2
    done = graph.invoke(Command(resume={"decisions": [REJECT, APPROVE]}), config)
    assert done["messages"][-1].text == "Done."
    assert files.done == ["delete b"]
