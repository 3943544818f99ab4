"""Ids of calls that come again: a front end, which knows calls by their ids alone, tells them apart."""

import asyncio
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest
from ag_ui.core import RunAgentInput
from agui_client import Shown, Verifier
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage

import agentgraph as ag
from agentgraph import agui
from agentgraph.testing import ScriptedChatModel, call, calls, pairing_faults

TOOLS: Any = [{"name": "shoot", "description": "Take a picture."}]


class Client:
    """A front end in the process of its server."""

    def __init__(self, tree: ag.Agent) -> None:
        self.runner = ag.Runner(tree)
        self.shown = Shown()
        self.events: list[dict[str, Any]] = []

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.shown.messages

    def say(self, text: str) -> None:
        self.messages.append({"id": f"u{len(self.messages)}", "role": "user", "content": text})

    def result(self, call_id: str, content: str) -> None:
        made = {"id": f"r-{call_id}", "role": "tool", "toolCallId": call_id, "content": content}
        self.messages.append(made)

    def run(self, **more: Any) -> dict[str, Any]:
        """Run, and return how that ended."""
        body = {"threadId": "t", "runId": "r", "messages": deepcopy(self.messages), "tools": TOOLS}
        run_input = RunAgentInput.model_validate({**body, "state": {}, "context": [], **more})
        verifier = Verifier()

        async def follow() -> None:
            async for each in agui.arun(self.runner, run_input):
                event = each.model_dump(mode="json", by_alias=True)
                verifier.check(event)
                self.shown.apply(event)
                self.events.append(event)

        asyncio.run(follow())
        outcome: dict[str, Any] = self.events[-1]["outcome"]
        return outcome

    def check(self) -> None:
        """Check that the front end has each call once, with its arguments, and then its result."""
        made = [c for m in self.messages for c in m.get("toolCalls", ())]
        assert len({each["id"] for each in made}) == len(made)
        said = [e.message for e in self.runner.events("t") if isinstance(e.message, AIMessage)]
        of_thread = [(c["name"], c["args"]["x"]) for m in said for c in m.tool_calls]
        shown = [(c["function"]["name"], c["function"]["arguments"]) for c in made]
        assert sorted(shown) == sorted((name, f'{{"x": "{x}"}}') for name, x in of_thread)
        results = {m["toolCallId"]: m["content"] for m in self.messages if m["role"] == "tool"}
        for each in made:
            x = each["function"]["arguments"].split('"')[3]
            assert results[each["id"]].endswith(f"of {x}")


def look(x: str) -> str:
    """Look."""
    return f"picture of {x}"


def rounds(*several: Sequence[str], name: str = "look") -> ScriptedChatModel:
    """Return a model that calls a tool in rounds, each call under the id that its place has."""

    def reply(messages: Sequence[BaseMessage]) -> Any:
        assert pairing_faults(messages) == []
        begun = sum(isinstance(each, AIMessage) and bool(each.tool_calls) for each in messages)
        if begun >= len(several):
            return "done"
        return calls(*(call(name, f"{name}:0", x=x) for x in several[begun]))

    return ScriptedChatModel(responses=reply)


TREES: dict[str, Callable[[], ag.Agent]] = {
    "two rounds": lambda: ag.chat_agent("c", rounds(["a"], ["b"]), tools=[look]),
    "twice in a message": lambda: ag.chat_agent("c", rounds(["a", "b"], ["c"]), tools=[look]),
    "branches": lambda: ag.parallel(
        "p",
        [
            ag.chat_agent("c", rounds(["a"], ["b"]), tools=[look]),
            ag.chat_agent("d", rounds(["e"], ["f"]), tools=[look]),
        ],
    ),
    "nested": lambda: ag.graph_agent("c", create_agent(rounds(["a"], ["b"]), [look])),
    "flat": lambda: ag.graph_agent("c", create_agent(rounds(["a"], ["b"]), [look]), flat=True),
    "two agents": lambda: ag.sequential(
        "s",
        [
            ag.chat_agent("c", rounds(["a"]), tools=[look], history="own"),
            ag.chat_agent("d", rounds(["b"]), tools=[look], history="own"),
        ],
    ),
}


@pytest.mark.parametrize("kind", TREES)
def test_each_call_is_shown_with_its_arguments_and_its_result(kind: str) -> None:
    client = Client(TREES[kind]())
    client.say("Go.")
    assert client.run() == {"type": "success"}
    client.check()
    seen, client.shown = client.messages, Shown()
    client.run()  # it asks for what it lacks
    assert [each["id"] for each in client.messages] == [each["id"] for each in seen]
    client.check()


def test_an_earlier_result_is_not_that_of_a_call_that_waits() -> None:
    model = rounds(["a"], ["b"], name="shoot")
    client = Client(ag.chat_agent("c", model, middleware=[agui.frontend_tools()]))
    client.say("Go.")
    for x in "ab":
        outcome = client.run()
        (waits,) = outcome["pendingToolCallIds"]
        assert client.run()["pendingToolCallIds"] == [waits]  # what it sends again is no answer
        client.result(waits, f"picture of {x}")
    client.run()
    client.check()
    assert [m.text for m in model.inputs[-1] if m.type == "tool"] == ["picture of a", "picture of b"]


def test_calls_of_branches_under_one_id_wait_for_a_result_each() -> None:
    agents = [
        ag.chat_agent(name, rounds([x], name="shoot"), middleware=[agui.frontend_tools()])
        for name, x in (("c", "a"), ("d", "b"))
    ]
    client = Client(ag.parallel("p", agents))
    client.say("Go.")
    pending = client.run()["pendingToolCallIds"]
    assert len({*pending}) == 2
    asked = {
        c["id"]: c["function"]["arguments"] for m in client.messages for c in m.get("toolCalls", ())
    }
    for each in pending:
        client.result(each, f"picture of {asked[each].split(chr(34))[3]}")
    client.run()
    client.check()


def test_a_tool_of_the_server_is_not_taken_for_one_of_the_front_end() -> None:
    def reply(messages: Sequence[BaseMessage]) -> Any:
        results = sum(each.type == "tool" for each in messages)
        return (calls(call("shoot", "1", x="a")), calls(call("look", "1", x="b")), "done")[results]

    model = ScriptedChatModel(responses=reply)
    client = Client(ag.chat_agent("c", model, tools=[look], middleware=[agui.frontend_tools()]))
    client.say("Go.")
    (waits,) = client.run()["pendingToolCallIds"]
    client.result(waits, "picture of a")
    assert client.run() == {"type": "success"}
    client.check()


def test_a_question_for_approval_names_the_call_as_it_is_shown() -> None:
    for mode in ("batched", "per_call"):
        options: Any = {"approve": ["look"], "interrupt_mode": mode}
        client = Client(ag.chat_agent("c", rounds(["a"], ["b"]), tools=[look], **options))
        client.say("Go.")
        outcome, named = client.run(), []
        while outcome["type"] == "interrupt":
            (asked,) = outcome["interrupts"]
            named.append(asked["toolCallId"])
            approved: Any = {"type": "approve"}
            payload = approved if mode == "per_call" else {"decisions": [approved]}
            answer = {"interruptId": asked["id"], "status": "resolved", "payload": payload}
            outcome = client.run(resume=[answer])
        client.check()
        assert named == [c["id"] for m in client.messages for c in m.get("toolCalls", ())]


def test_a_question_with_a_deadline_expires_and_takes_its_default() -> None:
    boss = ag.human("boss", "Print it?", timeout=0.2, default="no")
    client = Client(ag.sequential("s", [boss, ag.function_agent("press", lambda ctx: "Ended.")]))
    client.say("Go.")
    (asked,) = client.run()["interrupts"]
    expires = datetime.fromisoformat(asked["expiresAt"])
    deadline = client.runner.pending("t")[0].deadline
    assert expires.timestamp() == pytest.approx(deadline, rel=0, abs=1e-5)
    while datetime.now(UTC) <= expires:
        time.sleep(0.01)
    assert client.run()["type"] == "success"
    (told,) = [each["value"] for each in client.events if each.get("name") == "agentgraph.default"]
    assert told["default"] == {"id": asked["id"], "answer": "no", "deadline": deadline}
    client.check()
