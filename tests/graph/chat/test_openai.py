"""Trees whose model is the real `ChatOpenAI`, with a server on the loopback address."""

import json
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from commands import Commands
from helpers import Async, Drive, echo, failing, lines, read, retrying, standing
from langchain.agents.structured_output import ToolStrategy
from langchain_openai import ChatOpenAI
from openai_server import Body, Call, Failure, OpenAIServer, Reply
from pydantic import BaseModel

import agentgraph as ag
from agentgraph.testing import transcript

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


def partials(events: Iterable[ag.AgentEvent], agent_name: str) -> list[ag.AgentEvent]:
    return [event for event in events if event.partial and event.agent_name == agent_name]


def whole(events: Iterable[ag.AgentEvent], agent_name: str) -> ag.AgentEvent:
    messages = (e for e in events if e.kind == "message" and not e.partial)
    (event,) = (event for event in messages if event.agent_name == agent_name)
    return event


# texts


@streamed
def test_a_loop_sends_instructions_and_what_others_said_by_name(
    openai_server: OpenAIServer, drive: Drive, stream: bool
) -> None:
    openai_server.script = ["First draft.", "No.", "Second draft.", "Yes."]
    tree = ag.loop("refine", [report(chat_model(openai_server))], max_iterations=2)
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "Go.", thread_id="t", values={"topic": "bees"}, stream=stream))
    assert lines(events) == [
        "refine[0]/report/writer: First draft.",
        "refine[0]/report/critic: No.",
        "refine[1]/report/writer: Second draft.",
        "refine[1]/report/critic: Yes.",
    ]
    assert list(runner.events("t")) == [event for event in events if not event.partial]
    assert {event.partial for event in events} == {False, stream}
    assert [body["stream"] for body in openai_server.requests] == [stream] * 4
    assert {body["model"] for body in openai_server.requests} == {"test-model"}
    write, judge = ("system", None, "Write about bees."), ("system", None, "Judge the draft.")
    go = ("user", None, "Go.")
    assert [sent(body) for body in openai_server.requests] == [
        [write, go],
        [judge, go, ("user", "writer", "[writer] said: First draft.")],
        [write, go, ("assistant", "writer", "First draft."), ("user", "critic", "[critic] said: No.")],
        [
            *[judge, go, ("user", "writer", "[writer] said: First draft.")],
            *[("assistant", "critic", "No."), ("user", "writer", "[writer] said: Second draft.")],
        ],
    ]


def test_chunks_have_the_name_path_address_and_id_of_their_message(
    openai_server: OpenAIServer, drive: Drive
) -> None:
    openai_server.script = ["Bees dance in\n\n the  dark.", "Too short. "]
    runner = ag.Runner(report(chat_model(openai_server)))
    events = list(drive.run(runner, "Go.", thread_id="t", values={"topic": "bees"}, stream=True))
    writer, critic = ("report/writer", "report/writer"), ("report/writer/critic", "report/critic")
    assert [((str(e.run_path), e.address), e.partial, e.text) for e in events] == [
        (writer, True, "Bees"),
        (writer, True, " dance"),
        (writer, True, " in"),
        (writer, True, "\n\n the"),
        (writer, True, "  dark."),
        (writer, False, "Bees dance in\n\n the  dark."),
        (critic, True, "Too"),
        (critic, True, " short."),
        (critic, True, " "),
        (critic, False, "Too short. "),
    ]
    for name in ("writer", "critic"):
        message = whole(events, name)
        assert {chunk.id for chunk in partials(events, name)} == {message.id}
        assert message.message is not None
        assert message.message.id == message.id
    assert whole(events, "writer").id != whole(events, "critic").id
    assert {event.thread_id for event in events} == {"t"}
    assert [ag.AgentEvent.from_dict(event.to_dict()) for event in events] == events


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


@streamed
def test_usage_is_what_the_server_counted(openai_server: OpenAIServer, stream: bool) -> None:
    openai_server.script = ["Bees dance.", "Too short."]
    runner = ag.Runner(report(chat_model(openai_server, stream_usage=True)))
    events = list(runner.run("Go.", thread_id="t", values={"topic": "bees"}, stream=stream))
    for found in (events, list(runner.events("t"))):
        usage = getattr(whole(found, "writer").message, "usage_metadata", None)
        counts = ("input_tokens", "output_tokens", "total_tokens")
        assert [usage[count] for count in counts] == [4, 2, 6]
    asked = [body.get("stream_options") for body in openai_server.requests]
    assert asked == ([{"include_usage": True}] * 2 if stream else [None, None])


def test_branches_stream_at_once_each_under_its_own_agent(
    openai_server: OpenAIServer, drive: Drive
) -> None:
    pieces = {"Be legal.": ["Sue ", "them ", "all."], "Be press.": ["Print ", "it ", "now."]}
    both_were_heard = threading.Event()

    def halting(body: Body) -> Reply:
        first, *others = pieces[body["messages"][0]["content"]]

        def until_both_were_heard() -> Iterator[str]:
            yield first
            assert both_were_heard.wait(20)
            yield from others

        return Reply(until_both_were_heard())

    openai_server.script = [halting, halting]
    model = chat_model(openai_server)
    legal = ag.chat_agent("legal", model, instruction="Be legal.")
    press = ag.chat_agent("press", model, instruction="Be press.")
    runner = ag.Runner(ag.sequential("paper", [ag.parallel("review", [legal, press])]))
    events: list[ag.AgentEvent] = []
    for event in drive.run(runner, "Go.", stream=True):
        events.append(event)
        if partials(events, "legal") and partials(events, "press"):
            both_were_heard.set()
    for name in ("legal", "press"):
        message, chunks = whole(events, name), partials(events, name)
        assert [chunk.text for chunk in chunks] == pieces[f"Be {name}."]
        at = (message.id, f"paper/review/{name}", f"paper/review/{name}")
        assert {(each.id, each.address, str(each.run_path)) for each in [*chunks, message]} == {at}
        assert events.index(message) > events.index(chunks[-1])


# failures


@streamed
@pytest.mark.parametrize(
    ("status", "error"), [(500, openai.InternalServerError), (429, openai.RateLimitError)]
)
def test_a_failure_of_the_server_is_an_error_and_a_resume_repeats_that_request_alone(
    openai_server: OpenAIServer, drive: Drive, stream: bool, status: int, error: type[Exception]
) -> None:
    openai_server.script = ["Bees dance.", Failure(status, "out of order"), "Too short."]
    runner = ag.Runner(report(chat_model(openai_server)))
    run = drive.run(runner, "Go.", thread_id="t", values={"topic": "bees"}, stream=stream)
    events, raised = failing(run, error)
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
    assert standing(events) == events[2:]
    resumed = list(drive.resume(runner, "t", stream=True))
    chunks = partials(resumed, "writer")
    assert [chunk.text for chunk in chunks] == ["Bees", " dance."]
    assert {chunk.id for chunk in chunks} == {whole(resumed, "writer").id} != {events[0].id}
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
    while next(events).text != "Too ":
        pass
    events.close()
    was_left.set()
    assert transcript(runner.resume("t")) == ["report/writer/critic: Too long."]
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


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


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


def test_arguments_that_are_not_json_go_back(openai_server: OpenAIServer, drive: Drive) -> None:
    broken = Reply(calls=(Call("1", "add", ("", '{"a": 1,')),))
    openai_server.script = [broken, "I give up."]
    runner = ag.Runner(ag.chat_agent("writer", chat_model(openai_server), tools=[add]))
    assert list(drive.run(runner, "Go."))[-1].text == "I give up."
    result = openai_server.requests[1]["messages"][-1]["content"]
    assert result.startswith("Error: the arguments of add cannot be read: ")


TREE = """
import json
import sys
import warnings
from pathlib import Path

warnings.simplefilter("error")

from langchain_openai import ChatOpenAI

import agentgraph as ag

base_url, folder, *answers = sys.argv[1:]


def note(line: str) -> None:
    with Path(folder, "ledger").open("a") as ledger:
        ledger.write(line)


def add(a: int, b: int) -> int:
    "Add two numbers."
    note(f"add {a} {b}\\n")
    return a + b


def mail(to: str, text: str) -> str:
    "Send a mail."
    note(f"mail {to} {text}\\n")
    return f"sent {text!r} to {to}"


model = ChatOpenAI(base_url=base_url, api_key="test", model="test-model", max_retries=0)
writer = ag.chat_agent("writer", model, tools=[add, mail], approve=["mail"], output_key="draft")
printer = ag.chat_agent("printer", model, instruction="Print {draft}")
with ag.sqlite_saver(Path(folder, "runs.db")) as saver:
    runner = ag.Runner(ag.sequential("s", [writer, printer]), checkpointer=saver)
    if answers:
        events = runner.resume("t", {runner.pending("t")[0].id: json.loads(answers[0])}, stream=True)
    else:
        events = runner.run("Go.", thread_id="t", stream=True)
    for event in events:
        print(json.dumps(event.to_dict()))
"""


def test_one_process_pauses_for_an_approval_and_another_runs_what_was_edited(
    openai_server: OpenAIServer, program: Commands, tmp_path: Path
) -> None:
    openai_server.script = [TWO_CALLS, "Three, and sent.", "Printed."]
    (tmp_path / "tree.py").write_text(TREE)
    ledger = tmp_path / "ledger"

    def process(*answers: str) -> list[ag.AgentEvent]:
        done = program(str(tmp_path / "tree.py"), openai_server.base_url, str(tmp_path), *answers)
        assert (done.code, done.err) == (0, "")
        return read(done.lines)

    said, paused = process()
    assert said.text == "I look."
    assert paused.action is not None
    assert paused.action.interrupted is not None
    (asked,) = paused.action.interrupted.value["action_requests"]
    assert (asked["name"], asked["args"]) == ("mail", {"to": "ann", "text": "{3}"})
    assert not ledger.exists()

    action = {"name": "mail", "args": {"to": "bob", "text": "{3}"}}
    decision = {"decisions": [{"type": "edit", "edited_action": action}]}
    assert transcript(process(json.dumps(decision)))[-2:] == [
        "s/writer: Three, and sent.",
        "s/writer/printer: Printed.",
    ]
    assert sorted(ledger.read_text().splitlines()) == ["add 1 2", "mail bob {3}"]
    _, second, third = openai_server.requests
    calls = second["messages"][1]["tool_calls"]
    assert json.loads(calls[1]["function"]["arguments"]) == {"to": "ann", "text": "{3}"}
    executed = f"Executed instead: mail with arguments {json.dumps(action['args'])}."
    assert executed in second["messages"][3]["content"]
    assert sent(third)[0] == ("system", None, "Print Three, and sent.")


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
