"""Trees whose model is the real `ChatOpenAI`, speaking to a server on the loopback address."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import openai
import pytest
from helpers import Drive, failing, standing
from langchain_openai import ChatOpenAI
from openai_server import Body, Failure, OpenAIServer, Reply, serving

import agentgraph as ag
from agentgraph.testing import transcript


def chat_model(server: OpenAIServer, **options: Any) -> ChatOpenAI:
    return ChatOpenAI(
        base_url=server.base_url, api_key="test", model="test-model", max_retries=0, **options
    )


def report(model: ChatOpenAI) -> ag.Agent:
    writer = ag.chat_agent("writer", model, instruction="Write about {topic}.")
    critic = ag.chat_agent("critic", model, instruction="Judge the draft.")
    return ag.sequential("report", [writer, critic])


streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def sent(body: Body) -> list[tuple[str, str | None, str]]:
    return [(m["role"], m.get("name"), m["content"]) for m in body["messages"]]


def partials(events: Iterable[ag.AgentEvent], agent_name: str) -> list[ag.AgentEvent]:
    return [event for event in events if event.partial and event.agent_name == agent_name]


def whole(events: Iterable[ag.AgentEvent], agent_name: str) -> ag.AgentEvent:
    (event,) = (
        e for e in events if e.kind == "message" and not e.partial and e.agent_name == agent_name
    )
    return event


class TestASequence:
    @streamed
    def test_tells_what_each_agent_said(
        self, openai_server: OpenAIServer, drive: Drive, stream: bool
    ) -> None:
        openai_server.script = ["Bees dance.", "Too short."]
        runner = ag.Runner(report(chat_model(openai_server)))

        events = list(drive.run(runner, "Go.", thread_id="t", values={"topic": "bees"}, stream=stream))

        assert transcript(events) == [
            "report/writer: Bees dance.",
            "report/writer/critic: Too short.",
        ]
        assert list(runner.events("t")) == [event for event in events if not event.partial]

    @streamed
    def test_sends_the_filled_instruction_the_users_words_and_the_words_of_others(
        self, openai_server: OpenAIServer, drive: Drive, stream: bool
    ) -> None:
        openai_server.script = ["Bees dance.", "Too short."]
        runner = ag.Runner(report(chat_model(openai_server)))

        list(drive.run(runner, "Go.", values={"topic": "bees"}, stream=stream))

        to_writer, to_critic = openai_server.requests
        assert sent(to_writer) == [("system", None, "Write about bees."), ("user", None, "Go.")]
        assert sent(to_critic) == [
            ("system", None, "Judge the draft."),
            ("user", None, "Go."),
            ("user", "writer", "[writer] said: Bees dance."),
        ]
        assert {body["model"] for body in openai_server.requests} == {"test-model"}

    def test_asks_for_a_stream_only_when_it_tells_one(
        self, openai_server: OpenAIServer, drive: Drive
    ) -> None:
        openai_server.script = ["Bees dance.", "Too short."] * 2
        runner = ag.Runner(report(chat_model(openai_server)))

        untold = list(drive.run(runner, "Go.", values={"topic": "bees"}))
        list(drive.run(runner, "Go.", values={"topic": "bees"}, stream=True))

        assert [event.partial for event in untold] == [False, False]
        assert [body["stream"] for body in openai_server.requests] == [False, False, True, True]

    def test_leaves_it_to_the_model_whether_it_streams(
        self, openai_server: OpenAIServer, drive: Drive
    ) -> None:
        openai_server.script = ["Bees dance.", "Too short."]
        tree = ag.sequential(
            "report",
            [
                ag.chat_agent("writer", chat_model(openai_server, disable_streaming=True)),
                ag.chat_agent("critic", chat_model(openai_server, streaming=True)),
            ],
        )
        runner = ag.Runner(tree)
        assert [event.partial for event in drive.run(runner, "Go.", stream=True)] == [
            *[False],
            *[True, True, False],
        ]
        openai_server.script += ["Bees sing.", "Too long."]
        assert [event.partial for event in drive.run(runner, "Go.")] == [False, False]
        assert [body["stream"] for body in openai_server.requests] == [False, True, False, True]

    def test_tells_chunks_that_carry_the_name_path_address_and_id_of_the_message_behind_them(
        self, openai_server: OpenAIServer, drive: Drive
    ) -> None:
        openai_server.script = ["Bees dance in\n\n the  dark.", "Too short. "]
        runner = ag.Runner(report(chat_model(openai_server)))

        events = list(drive.run(runner, "Go.", thread_id="t", values={"topic": "bees"}, stream=True))

        assert [(e.agent_name, str(e.run_path), e.address, e.partial, e.text) for e in events] == [
            ("writer", "report/writer", "report/writer", True, "Bees"),
            ("writer", "report/writer", "report/writer", True, " dance"),
            ("writer", "report/writer", "report/writer", True, " in"),
            ("writer", "report/writer", "report/writer", True, "\n\n the"),
            ("writer", "report/writer", "report/writer", True, "  dark."),
            ("writer", "report/writer", "report/writer", False, "Bees dance in\n\n the  dark."),
            ("critic", "report/writer/critic", "report/critic", True, "Too"),
            ("critic", "report/writer/critic", "report/critic", True, " short."),
            ("critic", "report/writer/critic", "report/critic", True, " "),
            ("critic", "report/writer/critic", "report/critic", False, "Too short. "),
        ]
        for name in ("writer", "critic"):
            message = whole(events, name)
            assert {chunk.id for chunk in partials(events, name)} == {message.id}
            assert message.message is not None
            assert message.message.id == message.id
        assert {event.thread_id for event in events} == {"t"}
        assert whole(events, "writer").id != whole(events, "critic").id
        assert [ag.AgentEvent.from_dict(event.to_dict()) for event in events] == events

    @streamed
    def test_tells_what_the_server_counted(self, openai_server: OpenAIServer, stream: bool) -> None:
        openai_server.script = ["Bees dance.", "Too short."]
        runner = ag.Runner(report(chat_model(openai_server, stream_usage=True)))

        events = list(runner.run("Go.", thread_id="t", values={"topic": "bees"}, stream=stream))

        for told in (events, list(runner.events("t"))):
            usage = getattr(whole(told, "writer").message, "usage_metadata", None)
            counts = ("input_tokens", "output_tokens", "total_tokens")
            assert [usage[count] for count in counts] == [4, 2, 6]
        asked = [body.get("stream_options") for body in openai_server.requests]
        assert asked == ([{"include_usage": True}] * 2 if stream else [None, None])


class TestALoop:
    @streamed
    def test_keeps_own_messages_native_across_iterations(
        self, openai_server: OpenAIServer, drive: Drive, stream: bool
    ) -> None:
        openai_server.script = ["First draft.", "No.", "Second draft.", "Yes."]
        model = chat_model(openai_server)
        writer, critic = ag.chat_agent("writer", model), ag.chat_agent("critic", model)
        runner = ag.Runner(ag.loop("refine", [writer, critic], max_iterations=2))

        events = list(drive.run(runner, "Go.", stream=stream))

        assert transcript(events) == [
            "refine/writer: First draft.",
            "refine/writer/critic: No.",
            "refine/writer/critic/writer: Second draft.",
            "refine/writer/critic/writer/critic: Yes.",
        ]
        assert [sent(body) for body in openai_server.requests] == [
            [("user", None, "Go.")],
            [("user", None, "Go."), ("user", "writer", "[writer] said: First draft.")],
            [
                ("user", None, "Go."),
                ("assistant", "writer", "First draft."),
                ("user", "critic", "[critic] said: No."),
            ],
            [
                ("user", None, "Go."),
                ("user", "writer", "[writer] said: First draft."),
                ("assistant", "critic", "No."),
                ("user", "writer", "[writer] said: Second draft."),
            ],
        ]


class TestAParallel:
    def test_tells_the_chunks_of_branches_that_stream_at_once_each_under_its_own_agent(
        self, openai_server: OpenAIServer, drive: Drive
    ) -> None:
        texts = {"Be legal.": ["Sue ", "them ", "all."], "Be press.": ["Print ", "it ", "now."]}
        both_were_heard = threading.Event()

        def halting(body: Body) -> Reply:
            return Reply(until_both_were_heard(texts[body["messages"][0]["content"]]))

        def until_both_were_heard(pieces: list[str]) -> Iterator[str]:
            yield pieces[0]
            assert both_were_heard.wait(20)
            yield from pieces[1:]

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

        for name, pieces in (("legal", texts["Be legal."]), ("press", texts["Be press."])):
            message, chunks = whole(events, name), partials(events, name)
            assert [chunk.text for chunk in chunks] == pieces
            assert message.text == "".join(pieces)
            assert {chunk.id for chunk in chunks} == {message.id}
            assert {chunk.address for chunk in chunks} == {f"paper/review/{name}"}
            assert {str(chunk.run_path) for chunk in chunks} == {f"paper/review/{name}"}
            assert events.index(message) > events.index(chunks[-1])


class TestAFailingServer:
    @streamed
    @pytest.mark.parametrize(
        ("status", "error"), [(500, openai.InternalServerError), (429, openai.RateLimitError)]
    )
    def test_is_told_as_an_event_and_raised_and_resume_tries_that_step_alone_again(
        self,
        openai_server: OpenAIServer,
        drive: Drive,
        stream: bool,
        status: int,
        error: type[Exception],
    ) -> None:
        openai_server.script = ["Bees dance.", Failure(status, "out of order"), "Too short."]
        runner = ag.Runner(report(chat_model(openai_server)))

        events, raised = failing(
            drive.run(runner, "Go.", thread_id="t", values={"topic": "bees"}, stream=stream), error
        )
        assert [event.kind for event in events if not event.partial] == ["message", "error"]
        told = events[-1]
        assert (told.agent_name, told.address) == ("critic", "report/critic")
        assert str(told.run_path) == "report/writer/critic"
        assert told.error == repr(raised)
        assert "out of order" in told.error

        resumed = list(drive.resume(runner, "t", stream=stream))
        assert transcript(resumed) == ["report/writer/critic: Too short."]
        assert openai_server.requests[2] == openai_server.requests[1]
        assert len(openai_server.requests) == 3
        told = [event for event in [*events, *resumed] if not event.partial]
        assert list(runner.events("t")) == told

    def test_in_the_middle_of_a_reply_leaves_chunks_that_are_told_and_not_kept(
        self, openai_server: OpenAIServer, drive: Drive
    ) -> None:
        def half(body: Body) -> Reply:
            return Reply(broken())

        def broken() -> Iterator[str]:
            yield "Bees "
            raise Failure(500, "out of order")

        openai_server.script = [half, "Bees dance.", "Too short."]
        runner = ag.Runner(report(chat_model(openai_server)))

        events, _ = failing(
            drive.run(runner, "Go.", thread_id="t", values={"topic": "bees"}, stream=True),
            openai.APIError,
        )
        assert [(event.kind, event.partial, event.text) for event in events] == [
            ("message", True, "Bees "),
            ("discarded", False, ""),
            ("error", False, ""),
        ]
        assert standing(events) == events[2:]
        resumed = list(drive.resume(runner, "t", stream=True))
        assert transcript(resumed) == [
            "report/writer: Bees dance.",
            "report/writer/critic: Too short.",
        ]
        assert "".join(chunk.text for chunk in partials(resumed, "writer")) == "Bees dance."
        assert {chunk.id for chunk in partials(resumed, "writer")} == {whole(resumed, "writer").id}
        assert events[0].id != whole(resumed, "writer").id
        assert sent(openai_server.requests[2])[2:] == [("user", "writer", "[writer] said: Bees dance.")]


class TestAnIteratorLeftEarly:
    def test_leaves_a_thread_that_goes_on_with_nothing_said_twice(
        self, openai_server: OpenAIServer, drive: Drive
    ) -> None:
        was_left = threading.Event()

        def slow(body: Body) -> Reply:
            return Reply(until_it_was_left())

        def until_it_was_left() -> Iterator[str]:
            yield "Too "
            was_left.wait(0.5)
            yield "short."

        openai_server.script = ["Bees dance.", slow, "Too long."]
        runner = ag.Runner(report(chat_model(openai_server)))

        events: Any = drive.run(runner, "Go.", thread_id="t", values={"topic": "bees"}, stream=True)
        while next(events).text != "Too ":
            pass
        events.close()
        was_left.set()
        list(drive.resume(runner, "t"))

        assert [event.agent_name for event in runner.events("t")] == ["writer", "critic"]
        assert list(drive.resume(runner, "t")) == []


TREE = """
import json
import sys

from langchain_openai import ChatOpenAI

import agentgraph as ag

base_url, database, *answers = sys.argv[1:]
model = ChatOpenAI(base_url=base_url, api_key="test", model="test-model", max_retries=0)
writer = ag.chat_agent("writer", model, instruction="Write about {topic}.", output_key="draft")
boss = ag.human("boss", "Print {draft!r}? {draft}")
printer = ag.chat_agent("printer", model, instruction="Print {draft}")
with ag.sqlite_saver(database) as saver:
    runner = ag.Runner(ag.sequential("report", [writer, boss, printer]), checkpointer=saver)
    for event in (
        runner.resume("t", *answers, stream=True)
        if answers
        else runner.run("Go.", thread_id="t", values={"topic": "bees"}, stream=True)
    ):
        print(json.dumps(event.to_dict()))
"""


class TestTwoProcesses:
    def test_share_one_file_so_that_one_pauses_and_the_other_goes_on(
        self, openai_server: OpenAIServer, tmp_path: Any
    ) -> None:
        openai_server.script = ["Bees dance.", "Printed."]
        tree = tmp_path / "tree.py"
        tree.write_text(TREE, encoding="utf-8")

        complaints: list[str] = []

        def process(*answers: str) -> list[ag.AgentEvent]:
            command = [sys.executable, "-W", "error", str(tree), openai_server.base_url]
            command += [str(tmp_path / "runs.db"), *answers]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
            complaints.append(done.stderr)
            return [ag.AgentEvent.from_dict(json.loads(line)) for line in done.stdout.splitlines()]

        paused = process()
        assert transcript(paused) == [
            "report/writer: Bees dance.",
            "report/writer/boss: [asks] Print {draft!r}? Bees dance.",
        ]
        assert [event.text for event in partials(paused, "writer")] == ["Bees", " dance."]

        resumed = process("Yes, at once.")
        assert transcript(resumed) == [
            "report/writer/boss: Yes, at once.",
            "report/writer/boss/printer: Printed.",
        ]
        assert sent(openai_server.requests[1]) == [
            ("system", None, "Print Bees dance."),
            ("user", None, "Go."),
            ("user", "writer", "[writer] said: Bees dance."),
            ("user", "boss", "[boss] said: Yes, at once."),
        ]
        assert complaints == ["", ""]


class TestTheServer:
    def test_refuses_what_it_does_not_know(self, openai_server: OpenAIServer) -> None:
        hello: Any = [{"role": "user", "content": "hello"}]
        with openai.OpenAI(base_url=openai_server.base_url, api_key="test", max_retries=0) as client:
            with pytest.raises(openai.NotFoundError, match="unknown request: POST /v1/embeddings"):
                client.embeddings.create(model="test-model", input="hello")
            with pytest.raises(openai.NotFoundError, match="unknown request: GET /v1/models"):
                client.models.list()
            with pytest.raises(openai.BadRequestError, match="does not know seed; it knows messages"):
                client.chat.completions.create(model="test-model", messages=hello, seed=7)
            with pytest.raises(openai.BadRequestError, match="the script has 0 steps"):
                client.chat.completions.create(model="test-model", messages=hello)
        assert openai_server.requests == []

    def test_leaves_no_thread_and_no_open_port_behind(self) -> None:
        before = set(threading.enumerate())
        with serving() as server:
            server.script = ["Hello."]
            assert chat_model(server).invoke("Hello?").text == "Hello."
        assert set(threading.enumerate()) <= before
        with socket.socket() as late:
            assert late.connect_ex(("127.0.0.1", server.server_port)) != 0

    def test_is_the_only_one_that_a_test_can_reach(self) -> None:
        model = ChatOpenAI(
            base_url="http://192.0.2.1/v1", api_key="test", model="test-model", max_retries=0
        )
        with pytest.raises(RuntimeError) as caught:
            model.invoke("hello")
        assert str(caught.value) == (
            "a test tried to connect to ('192.0.2.1', 80); tests reach the loopback address only"
        )

    @pytest.mark.parametrize("connect", ["connect", "connect_ex"])
    def test_is_reached_by_loopback_addresses_alone(
        self, openai_server: OpenAIServer, connect: str
    ) -> None:
        for host in ("127.0.0.1", "localhost"):
            with socket.socket() as near:
                assert not getattr(near, connect)((host, openai_server.server_port))
        with (
            socket.socket() as far,
            pytest.raises(RuntimeError, match=r"tried to connect to \('example.org', 80\)"),
        ):
            getattr(far, connect)(("example.org", 80))
