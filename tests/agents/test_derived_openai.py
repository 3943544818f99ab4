"""Derived agents whose model is the real `ChatOpenAI`, on the loopback address."""

from typing import Any

import pytest
from helpers import Drive, lines
from langchain_openai import ChatOpenAI
from openai_server import Call, Failure, OpenAIServer, Reply

import agentgraph as ag


class Server:
    """A server that follows a script."""

    def __init__(self, drive: Drive, server: OpenAIServer) -> None:
        self.drive, self.server = drive, server
        self.model = ChatOpenAI(base_url=server.base_url, api_key="x", model="m", max_retries=0)

    def chat(self, name: str) -> ag.Agent:
        return ag.chat_agent(name, self.model)

    def run(self, tree: ag.Agent, *script: Any) -> list[str]:
        """Run a tree, and return its lines."""
        self.server.script = [*script]
        return lines(self.drive.run(ag.Runner(tree), "Go."))

    def sent(self, number: int) -> list[str]:
        """Return the messages of a request: `user: Go.`"""
        body: Any = self.server.requests[number]
        return [f"{m['role']}: {m['content']}" for m in body["messages"] if m["role"] != "system"]


@pytest.fixture
def openai(drive: Drive, openai_server: OpenAIServer) -> Server:
    return Server(drive, openai_server)


def calling(name: str, arguments: str = "{}") -> Reply:
    return Reply(calls=(Call("call_a", name, ("", arguments)),))


def test_a_supervisor_with_a_worker_as_a_tool(openai: Server) -> None:
    tree = ag.supervisor("S", openai.model, [openai.chat("W")])
    said = openai.run(tree, calling("W", '{"request": "bees"}'), "Three.", "Done.")
    assert said[1:] == ["S/W(0): Three.", "S: Three.", "S: Done."]
    assert openai.sent(1) == ["user: bees"]
    assert openai.sent(2)[-1] == "tool: Three."


def test_a_supervisor_that_hands_over(openai: Server) -> None:
    tree = ag.supervisor("S", openai.model, [openai.chat("W")], mode="handoff")
    said = openai.run(tree, calling("transfer_to_W"), "Three.", "Done.")
    assert said[-2:] == ["S[1]/W: Three.", "S[1.0]: Done."]
    first, worker, _ = openai.server.requests
    assert [tool["function"]["name"] for tool in first["tools"]] == ["transfer_to_W"]
    assert "tools" not in worker
    assert [openai.sent(1), openai.sent(2)] == [["user: Go."], ["user: Go.", "user: [W] said: Three."]]


@pytest.mark.parametrize("parallel", [False, True])
def test_a_plan_execute_whose_first_plan_cannot_be_used(openai: Server, parallel: bool) -> None:
    model = openai.model
    tree = ag.plan_execute("p", planner=model, executor=model, replanner=model, parallel=parallel)
    said = openai.run(tree, "I cannot.", '["x"]', "X.", '{"answer": "All."}')
    assert said[2:] == [
        'p/planner{1}: ["x"]',
        f"p/execute[0]/{'p_steps/executor(0)' if parallel else 'executor'}: X.",
        'p/execute[0]/replanner: {"answer": "All."}',
        "p: All.",
    ]
    assert openai.sent(1) == [
        "user: Go.",
        "assistant: I cannot.",
        said[1].replace("p/planner:", "user:"),
    ]
    assert openai.sent(2)[-1] == ("user: x" if parallel else 'user: [planner] said: ["x"]')


def test_a_writer_whose_work_is_checked(openai: Server) -> None:
    said = openai.run(ag.validated(openai.chat("w"), int), "three", "3")
    assert said[::2] == ["w: three", "w{1}: 3"]
    assert openai.sent(1) == ["user: Go.", "assistant: three", said[1].replace("w:", "user:")]


def test_a_writer_with_helpers(openai: Server) -> None:
    openai.run(ag.with_helpers(openai.chat("w"), [openai.chat("h")]), "Facts.", "Text.")
    assert openai.sent(1) == ["user: Go.", "user: [h] said: Facts."]


def test_a_workflow_that_undoes_what_it_did(openai: Server) -> None:
    hotel = ag.step(openai.chat("hotel"), compensate=openai.chat("cancel"))
    flight = ag.step(openai.chat("flight"), depends_on=["hotel"], input="After ${results.hotel}")
    with pytest.raises(ag.StepFailedError) as raised:
        openai.run(ag.workflow("trip", [hotel, flight]), "Room 7.", Failure(500, "full"), "Cancelled.")
    assert (raised.value.step, raised.value.undone) == ("flight", ("hotel",))
    assert openai.sent(1) == ["user: After Room 7."]
    assert openai.sent(2)[-1] == "user: [hotel] said: Room 7."


@pytest.mark.parametrize(("on_error", "collects"), [("collect", True), ("first", False)])
def test_branches_of_which_one_fails(openai: Server, on_error: Any, collects: bool) -> None:
    branches = [openai.chat("a"), openai.chat("b")]
    tree = ag.parallel("p", branches, on_error=on_error, max_concurrency=1)
    said = openai.run(tree, Failure(500, "no"), "There.")
    failed = [line.split()[1] for line in said if "Error code: 500" in line]
    assert failed == (["[error]", "Failed:"] if collects else ["[error]"])
    assert "p/b: There." in said
