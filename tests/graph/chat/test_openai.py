"""Trees whose model is the real `ChatOpenAI`, with a server on the loopback address."""

import json
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import openai
import pytest
from helpers import Async, Disk, Drive, add, echo, failing, lines, retrying, unvoided
from helpers.openai_server import Body, Call, Failure, OpenAIServer, Reply
from langchain.agents.structured_output import ToolStrategy
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

import agentgraph as ag
from agentgraph.testing import transcript

pytestmark = pytest.mark.by_turns("drive")

CONFIG: Any = {"configurable": {"thread_id": "t"}}
streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def chat_model(server: OpenAIServer, name: str = "test-model", **options: Any) -> ChatOpenAI:
    return ChatOpenAI(base_url=server.base_url, api_key="test", model=name, max_retries=0, **options)


def report(model: ChatOpenAI) -> ag.Agent:
    writer = ag.chat_agent("writer", model, instruction="Write about {topic}.")
    critic = ag.chat_agent("critic", model, instruction="Judge the draft.")
    return ag.sequential("report", [writer, critic])


def sent(body: Body) -> list[tuple[str, str | None, str]]:
    return [(m["role"], m.get("name"), m["content"]) for m in body["messages"]]


def check_chunks(events: Iterable[ag.AgentEvent]) -> None:
    """Check that the chunks before each message are its own, and add up to it."""
    chunks: list[ag.AgentEvent] = []
    for event in events:
        if event.partial:
            chunks.append(event)
        elif event.kind == "message":
            assert "".join(chunk.text for chunk in chunks) in ("", event.text)
            at = (event.id, event.agent_name, event.address, event.run_path, event.thread_id)
            assert {(c.id, c.agent_name, c.address, c.run_path, c.thread_id) for c in chunks} <= {at}
            chunks = []


# texts


@streamed
def test_a_loop_sends_instructions_and_what_others_said_by_name(
    openai_server: OpenAIServer, drive: Drive, stream: bool
) -> None:
    openai_server.script = ["First\n\n draft. ", "No.", "Second draft.", "Yes."]
    tree = ag.loop("refine", [report(chat_model(openai_server, stream_usage=True))], max_iterations=2)
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "Go.", thread_id="t", values={"topic": "bees"}, stream=stream))
    assert lines(events) == [
        "refine[0]/report/writer: First\n\n draft. ",
        "refine[0]/report/critic: No.",
        "refine[1]/report/writer: Second draft.",
        "refine[1]/report/critic: Yes.",
    ]
    check_chunks(events)
    assert [event.text for event in events][:3] == (
        ["First", "\n\n draft.", " "] if stream else ["First\n\n draft. ", "No.", "Second draft."]
    )
    kept = list(runner.events("t"))
    assert kept == [event for event in events if not event.partial]
    assert [ag.AgentEvent.from_dict(event.to_dict()) for event in events] == events
    usage: Any = getattr(kept[0].message, "usage_metadata", None)
    assert (usage["input_tokens"], usage["output_tokens"]) == (4, 2)
    write, judge = ("system", None, "Write about bees."), ("system", None, "Judge the draft.")
    go, first = ("user", None, "Go."), "First\n\n draft. "
    assert [sent(body) for body in openai_server.requests] == [
        [write, go],
        [judge, go, ("user", "writer", f"[writer] said: {first}")],
        [write, go, ("assistant", "writer", first), ("user", "critic", "[critic] said: No.")],
        [
            *[judge, go, ("user", "writer", f"[writer] said: {first}")],
            *[("assistant", "critic", "No."), ("user", "writer", "[writer] said: Second draft.")],
        ],
    ]
    options = {"include_usage": True} if stream else None
    for body in openai_server.requests:
        assert (body["model"], body["stream"]) == ("test-model", stream)
        assert body.get("stream_options") == options


@pytest.mark.parametrize(
    ("options", "stream", "partials"),
    [
        ({"disable_streaming": True}, True, []),
        ({"streaming": True}, False, []),
        ({"streaming": True}, True, [True, True]),
    ],
    ids=["never", "always, unheard", "always"],
)
def test_a_model_decides_itself_whether_it_streams(
    openai_server: OpenAIServer, drive: Drive, options: Any, stream: bool, partials: list[bool]
) -> None:
    openai_server.script = ["Bees dance."]
    writer = ag.chat_agent("writer", chat_model(openai_server, **options))
    events = list(drive.run(ag.Runner(writer), "Go.", stream=stream))
    assert [event.partial for event in events] == [*partials, False]
    assert [body["stream"] for body in openai_server.requests] == ["streaming" in options]


# failures


@streamed
def test_a_failure_of_the_server_is_an_error_and_a_resume_repeats_that_request_alone(
    openai_server: OpenAIServer, drive: Drive, stream: bool
) -> None:
    openai_server.script = ["Bees dance.", Failure(429, "out of order"), "Too short."]
    runner = ag.Runner(report(chat_model(openai_server)))
    run = drive.run(runner, "Go.", thread_id="t", values={"topic": "bees"}, stream=stream)
    events, raised = failing(run, openai.RateLimitError)
    assert "out of order" in str(raised)
    assert transcript(events)[1:] == [f"report/writer/critic: [error] {raised!r}"]
    resumed = list(drive.resume(runner, "t", stream=stream))
    assert transcript(resumed) == ["report/writer/critic: Too short."]
    assert len(openai_server.requests) == 3
    assert openai_server.requests[2] == openai_server.requests[1]
    assert list(runner.events("t")) == [e for e in [*events, *resumed] if not e.partial]


def test_the_chunks_of_a_reply_that_breaks_off_are_discarded(
    openai_server: OpenAIServer, drive: Drive
) -> None:
    def broken() -> Iterator[str]:
        yield "Bees "
        raise Failure(500, "out of order")

    openai_server.script = [lambda body: Reply(broken()), "Bees dance.", "Too short."]
    runner = ag.Runner(report(chat_model(openai_server)))
    run = drive.run(runner, "Go.", thread_id="t", values={"topic": "bees"}, stream=True)
    events, _ = failing(run, openai.APIError)
    assert [(event.kind, event.partial, event.text) for event in events] == [
        ("message", True, "Bees "),
        ("discarded", False, ""),
        ("error", False, ""),
    ]
    assert unvoided(events) == events[2:]
    resumed = list(drive.resume(runner, "t", stream=True))
    check_chunks(resumed)
    assert [event.text for event in resumed][:3] == ["Bees", " dance.", "Bees dance."]
    assert resumed[0].id != events[0].id
    assert sent(openai_server.requests[2])[2:] == [("user", "writer", "[writer] said: Bees dance.")]


def test_a_thread_whose_reader_left_early_continues_without_repeating(
    openai_server: OpenAIServer,
) -> None:
    was_left = threading.Event()

    def slow() -> Iterator[str]:
        yield "Too "
        assert was_left.wait(20)
        yield "short."

    openai_server.script = ["Bees dance.", lambda body: Reply(slow()), "Too long."]
    runner = ag.Runner(report(chat_model(openai_server)))
    events: Any = Async.run(runner, "Go.", thread_id="t", values={"topic": "bees"}, stream=True)
    chunk = next(event for event in events if event.text == "Too ")
    events.close()
    was_left.set()
    void, said = runner.resume("t")
    assert void.action.discarded == (chunk.step,)
    assert transcript([said]) == ["report/writer/critic: Too long."]
    assert [event.agent_name for event in runner.events("t")] == ["writer", "critic"]
    assert list(runner.resume("t")) == []


# tools

TWO_CALLS = Reply(
    ["I ", "look."],
    calls=(
        Call("call_a", "add", ("", '{"a": 1,', ' "b": 2}')),
        Call("call_b", "mail", ("", '{"to": ', '"ann", "text": "{3}"}')),
    ),
)


def mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent {text!r} to {to}"


@streamed
def test_calls_run_at_once_and_their_results_go_back_in_order(
    openai_server: OpenAIServer, drive: Drive, stream: bool
) -> None:
    openai_server.script = [TWO_CALLS, "Three, and sent."]
    writer = ag.chat_agent("writer", chat_model(openai_server), tools=[add, mail])
    events = list(drive.run(ag.Runner(ag.loop("l", [writer], max_iterations=1)), "Go.", stream=stream))
    said, *results, last = [event for event in events if not event.partial]
    assert (said.text, last.text) == ("I look.", "Three, and sent.")
    assert sorted(event.text for event in results) == ["3", "sent '{3}' to ann"]
    first, second = openai_server.requests
    assert [tool["function"]["name"] for tool in first["tools"]] == ["add", "mail"]
    assert [(m["role"], m.get("tool_call_id") or m["content"]) for m in second["messages"]] == [
        ("user", "Go."),
        ("assistant", "I look."),
        ("tool", "call_a"),
        ("tool", "call_b"),
    ]
    message: Any = said.message
    args = [{"a": 1, "b": 2}, {"to": "ann", "text": "{3}"}]
    assert [call["args"] for call in message.tool_calls] == args
    chunks: list[Any] = [event for event in events if event.partial and event.id == said.id]
    assert bool(chunks) is stream
    if chunks:
        added = sum((event.message for event in chunks[1:]), chunks[0].message)
        assert added.tool_calls == message.tool_calls
        assert {event.address for event in chunks} == {"l[0]/writer"}


def test_an_approval_may_edit_a_call(openai_server: OpenAIServer, disk: Disk) -> None:
    openai_server.script = [TWO_CALLS, "Three, and sent."]
    model = chat_model(openai_server)
    writer = ag.chat_agent("writer", model, tools=[add, mail], approve=["mail"])
    assert [event.kind for event in disk.run(writer)] == ["message", "interrupted"]
    action = {"name": "mail", "args": {"to": "bob", "text": "{3}"}}
    decision = {"decisions": [{"type": "edit", "edited_action": action}]}
    *results, last = lines(disk.resume(writer, decision))
    assert last == "writer: Three, and sent."
    assert "writer: 3" in results
    calls, added, sent = openai_server.requests[1]["messages"][1:]
    arguments = calls["tool_calls"][1]["function"]["arguments"]
    assert json.loads(arguments) == {"to": "ann", "text": "{3}"}
    assert added["content"] == "3"
    assert "sent '{3}' to bob" in sent["content"]
    executed = f"Executed instead: mail with arguments {json.dumps(action['args'])}."
    assert executed in sent["content"]


# structured answers


class Trip(BaseModel):
    """Where to."""

    city: str
    days: int


TRIP = {"city": "Rome", "days": 3}
LOOKS = Reply(calls=(Call("a", "echo", ("", '{"text": ', '"Old."}')),))
ANSWER = Reply(['{"city": "Rome', '", "days": 3}'])
CALLS = Reply(calls=(Call("b", "Trip", ("", '{"city": "Rome"', ', "days": 3}')),))


def answer(drive: Drive, stream: bool, model: Any, schema: Any = Trip, **options: Any) -> Any:
    """Return the answer that a run saved."""
    agent = ag.chat_agent("w", model, output_schema=schema, output_key="trip", **options)
    runner = ag.Runner(agent)
    events = list(drive.run(runner, "Go.", thread_id="t", stream=stream))
    assert any(event.partial for event in events) is stream
    kept = [event for event in events if not event.partial and event.kind != "discarded"]
    assert list(runner.events("t")) == kept
    return runner.graph.get_state(CONFIG).values["values"]["trip"]


def tool_names(body: Body) -> list[str]:
    return [tool["function"]["name"] for tool in body.get("tools", [])]


@streamed
def test_the_provider_enforces_the_schema_with_strict_tools_and_a_retry(
    openai_server: OpenAIServer, drive: Drive, stream: bool
) -> None:
    openai_server.script = [LOOKS, Failure(500, "down"), Reply(["Rome."]), ANSWER]
    model = chat_model(openai_server, "gpt-4.1")
    assert answer(drive, stream, model, tools=[echo], retry=retrying()) == TRIP
    for body in openai_server.requests:
        assert body["response_format"]["type"] == "json_schema"
        schema = body["response_format"]["json_schema"]
        assert (schema["name"], sorted(schema["schema"]["properties"])) == ("Trip", ["city", "days"])
        assert [tool["function"]["strict"] for tool in body["tools"]] == [True]
        assert tool_names(body) == ["echo"]
        assert "tool_choice" not in body
    assert openai_server.requests[-1]["messages"][-1]["content"] == (
        "The reply does not fit the schema: it is not valid JSON. Reply again, with the JSON alone."
    )


@streamed
@pytest.mark.parametrize(
    ("name", "schema"),
    [("gpt-4.1", ToolStrategy(Trip)), ("test-model", Trip)],
    ids=["a strategy", "a model without a profile"],
)
def test_otherwise_the_answer_is_a_call(
    openai_server: OpenAIServer, drive: Drive, stream: bool, name: str, schema: Any
) -> None:
    openai_server.script = [LOOKS, Failure(500, "down"), CALLS]
    model = chat_model(openai_server, name)
    assert answer(drive, stream, model, schema, tools=[echo], retry=retrying()) == TRIP
    for body in openai_server.requests:
        assert tool_names(body) == ["echo", "Trip"]
        assert body["tool_choice"] == "required"
        assert "response_format" not in body


@streamed
def test_the_last_answer_without_tools_fits_the_schema(
    openai_server: OpenAIServer, drive: Drive, stream: bool
) -> None:
    openai_server.script = [LOOKS, ANSWER]
    model = chat_model(openai_server, "gpt-4.1")
    once: Any = {"tools": [echo], "max_iterations": 1, "on_max_iterations": "answer"}
    assert answer(drive, stream, model, **once) == TRIP
    assert "tools" not in openai_server.requests[1]
    assert openai_server.requests[1]["response_format"]["type"] == "json_schema"


@streamed
@pytest.mark.parametrize("tools", [[], [echo]], ids=["without tools", "with tools"])
def test_settings_that_were_bound_are_sent(
    openai_server: OpenAIServer, drive: Drive, stream: bool, tools: list[Any]
) -> None:
    openai_server.script = [ANSWER]
    model = chat_model(openai_server, "gpt-4.1").bind(temperature=0.3, parallel_tool_calls=False)
    answer(drive, stream, model, tools=tools)
    (body,) = openai_server.requests
    assert (body["temperature"], body["parallel_tool_calls"]) == (0.3, False)
    assert body["response_format"]["type"] == "json_schema"


def test_a_tool_choice_that_was_bound_is_sent(openai_server: OpenAIServer, drive: Drive) -> None:
    openai_server.script = [LOOKS]
    model = chat_model(openai_server).bind_tools([echo], tool_choice="echo", strict=True)
    agent = ag.chat_agent("w", model, tools=[echo], return_directly=["echo"])
    list(drive.run(ag.Runner(agent), "Go."))
    (body,) = openai_server.requests
    assert body["tool_choice"] == {"type": "function", "function": {"name": "echo"}}
    assert body["tools"][0]["function"]["strict"] is True


def test_the_server_refuses_what_it_does_not_know(openai_server: OpenAIServer) -> None:
    hello: Any = [{"role": "user", "content": "hello"}]
    with openai.OpenAI(base_url=openai_server.base_url, api_key="test", max_retries=0) as client:
        with pytest.raises(openai.NotFoundError, match="unknown request: POST /v1/embeddings"):
            client.embeddings.create(model="test-model", input="hello")
        with pytest.raises(openai.BadRequestError, match="does not know seed; it knows messages"):
            client.chat.completions.create(model="test-model", messages=hello, seed=7)
        with pytest.raises(openai.BadRequestError, match="the script has 0 steps"):
            client.chat.completions.create(model="test-model", messages=hello)
    assert openai_server.requests == []
