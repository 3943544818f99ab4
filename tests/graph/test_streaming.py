"""Streamed chunks: under the agent and id of their message, and discarded with a try that failed."""

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from helpers import Drive, failing, retrying, says, scripted
from helpers.walking import par, rounds, seq
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import PrivateAttr

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls


class Chunked(BaseChatModel):
    """Streams the chunks of one try after the other; an exception among them is raised."""

    tries: list[list[Any]]
    _calls: int = PrivateAttr(default=0)

    @property
    def _llm_type(self) -> str:
        return "chunked"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        whole = AIMessageChunk("")
        for chunk in self._chunks():
            whole = whole + chunk
        message = AIMessage(whole.content, tool_calls=whole.tool_calls)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **_: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for message in self._chunks():
            chunk = ChatGenerationChunk(message=message)
            if run_manager:
                run_manager.on_llm_new_token(str(message.text), chunk=chunk)
            yield chunk

    def _chunks(self) -> Iterator[AIMessageChunk]:
        self._calls += 1
        for chunk in self.tries[self._calls - 1]:
            if isinstance(chunk, Exception):
                raise chunk
            yield AIMessageChunk(chunk) if isinstance(chunk, str) else chunk.model_copy()


def streaming(name: str, *tries: list[Any], **options: Any) -> ag.Agent:
    return ag.chat_agent(name, Chunked(tries=list(tries)), **options)


BAD, WORSE = ["Bad ", "start.", ConnectionError("once")], ["Worse ", ConnectionError("twice")]
GOOD = ["One ", "two."]


def weather(city: str) -> str:
    """Look at the sky."""
    return f"Rain in {city}."


def short(events: Iterable[ag.AgentEvent]) -> str:
    """Return events in short: chunks with a `~`, others as their text or kind."""
    return " | ".join(
        f"~{event.text}" if event.partial else event.text if event.kind == "message" else event.kind
        for event in events
    )


def check_chunks(events: list[ag.AgentEvent]) -> None:
    """Check that chunks add up to a later message of their agent, or are discarded, each once."""
    shown: dict[str, str] = {}
    for index, event in enumerate(events):
        if event.kind == "discarded" and event.action:
            for void in event.action.discarded:
                del shown[void]
        elif event.partial:
            assert isinstance(event.message, AIMessageChunk)
            shown[event.id] = shown.get(event.id, "") + event.text
        elif event.kind == "message":
            assert shown.pop(event.id, event.text) == event.text
            for chunk in (each for each in events[:index] if each.id == event.id):
                for name in ("agent_name", "address", "run_path", "thread_id"):
                    assert getattr(chunk, name) == getattr(event, name)
    assert shown == {}


def stream(drive: Drive, tree: ag.Agent) -> list[ag.AgentEvent]:
    """Return the events of a run with chunks; without, they are those of the thread."""
    runner = ag.Runner(tree)
    events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
    check_chunks(events)
    void = {each for event in events if event.action for each in event.action.discarded}
    whole = [e for e in events if not e.partial and e.id not in void and e.kind != "discarded"]
    assert sorted(runner.events("t"), key=whole.index) == whole
    return events


def parts_of_a_call(*args: str) -> list[AIMessageChunk]:
    """Return chunks that call `weather`, each with a part of the arguments."""
    parts = [tool_call_chunk(name="weather", args=args[0], id="1", index=0)]
    parts += [tool_call_chunk(args=each, index=0) for each in args[1:]]
    return [AIMessageChunk("", tool_call_chunks=[part]) for part in parts]


TRIED = "~Bad  | ~start. | discarded | ~One  | ~two. | One two."
ASKED = parts_of_a_call('{"city": "Rome"}')
# What makes a tree, and what is streamed of it.
STREAMS: dict[str, tuple[Callable[[], ag.Agent], str]] = {
    "a retry discards the chunks of each try that failed": (
        lambda: seq("s", streaming("w", BAD, WORSE, GOOD, retry=retrying(3)), says("z")),
        "~Bad  | ~start. | discarded | ~Worse  | discarded | ~One  | ~two. | One two. | z",
    ),
    "a retry discards them before an empty message": (
        lambda: streaming("w", BAD, [""], retry=retrying()),
        "~Bad  | ~start. | discarded | ",
    ),
    "fallbacks of LangChain discard chunks too": (
        lambda: ag.chat_agent("w", Chunked(tries=[BAD]).with_fallbacks([Chunked(tries=[GOOD])])),
        TRIED,
    ),
    "a retry of LangChain discards chunks too": (
        lambda: ag.chat_agent(
            "w",
            Chunked(tries=[BAD, GOOD]).with_retry(wait_exponential_jitter=False, stop_after_attempt=2),
        ),
        TRIED,
    ),
    "LangChain's discard chunks in each round of calls": (
        lambda: ag.chat_agent(
            "w",
            Chunked(tries=[WORSE, WORSE]).with_fallbacks([Chunked(tries=[ASKED, GOOD])]),
            tools=[weather],
        ),
        "~Worse  | discarded | ~ |  | Rain in Rome. | ~Worse  | discarded | ~One  | ~two. | One two.",
    ),
}


@pytest.mark.parametrize(("make", "expected"), STREAMS.values(), ids=STREAMS)
def test_a_stream(drive: Drive, make: Callable[[], ag.Agent], expected: str) -> None:
    assert short(stream(drive, make())) == expected


def test_chunks_of_tool_calls_add_up(drive: Drive) -> None:
    asked = parts_of_a_call('{"ci', 'ty": "Rome"}')
    events = stream(drive, streaming("w", asked, ["Rain."], tools=[weather]))
    assert short(events) == "~ | ~ |  | Rain in Rome. | ~Rain. | Rain."
    first, second, whole = (event.message for event in events[:3])
    assert isinstance(whole, AIMessage)
    assert (first + second).tool_calls == whole.tool_calls  # type: ignore[operator, union-attr]
    assert [made["args"] for made in whole.tool_calls] == [{"city": "Rome"}]


@pytest.mark.parametrize("kind", ["reasoning", "thinking"])
def test_chunks_of_reasoning_keep_their_blocks(drive: Drive, kind: str) -> None:
    thoughts: list[Any] = [[{"type": kind, kind: text, "index": 0}] for text in ("Hm, ", "bees.")]
    answer: Any = [{"type": "text", "text": "Bees dance.", "index": 1}]
    chunks = [AIMessageChunk(content=each) for each in (*thoughts, answer)]
    events = stream(drive, streaming("w", chunks))
    assert short(events) == "~ | ~ | ~Bees dance. | Bees dance."
    contents = [event.message.content for event in events if event.message]
    assert contents[0] == thoughts[0]
    assert contents[3][0] == {"type": kind, kind: "Hm, bees.", "index": 0}
    assert [ag.AgentEvent.from_dict(event.to_dict()) for event in events] == events


def test_thoughts_are_not_passed_to_the_next_agent(drive: Drive) -> None:
    blocks: Any = [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Bees dance."}]
    reader = scripted("Read.")
    writer = ag.chat_agent("w", scripted(AIMessage(blocks)))
    list(drive.run(ag.Runner(seq("s", writer, ag.chat_agent("z", reader))), "Go."))
    assert reader.inputs[0][1].text == "[w] said:Bees dance."


def test_chunks_of_concurrent_branches_have_their_addresses(drive: Drive) -> None:
    turns = threading.Barrier(2, timeout=20)

    def reply(messages: list[BaseMessage]) -> str:
        turns.wait()
        return "one two three four"

    agents = [ag.chat_agent(name, scripted(reply, reply)) for name in "ab"]
    events = stream(drive, rounds(2, "l", par("p", *agents)))
    assert sum(event.partial for event in events) >= 4 * 4
    assert {event.address for event in events} == {f"l[{i}]/p/{n}" for i in (0, 1) for n in "ab"}


def test_chunks_of_a_graph_without_a_runner_are_the_same() -> None:
    def tree() -> ag.Agent:
        inner = ag.chat_agent("search", scripted("One two."))
        model = scripted(calls(call("search", request="x")), "Done now.")
        return ag.chat_agent("w", model, tools=[ag.agent_tool(inner)])

    graph = ag.compile_agent(tree(), checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    parts = graph.stream(
        {"messages": ["Go."]}, config, stream_mode=list(ag.STREAM_MODES), subgraphs=True
    )
    events = list(ag.translate(tree(), parts))
    check_chunks(events)
    assert short(events) == short(ag.Runner(tree()).run("Go.", stream=True))


def test_chunks_of_models_in_tools_and_of_summaries_are_not_streamed(drive: Drive) -> None:
    other = ScriptedChatModel(responses=lambda messages: "Inner words.")

    def ask() -> str:
        """Asks."""
        return str(other.invoke("x").text)

    f = ag.function_agent("f", lambda ctx: other.invoke(ctx.messages).text)
    policy = ag.summarized(other, 2, token_counter=len)
    writer = ag.chat_agent("w", scripted(calls(call("ask")), "Done."), tools=[ask], history=policy)
    events = stream(drive, seq("s", f, says("b"), says("c"), writer))
    chunks = [(event.agent_name, event.text) for event in events if event.partial and event.text]
    assert chunks == [("f", "Inner "), ("f", "words."), ("w", "Done.")]


def test_chunks_are_not_streamed_unless_asked_for_and_then_nothing_is_discarded(drive: Drive) -> None:
    tree = streaming("w", BAD, WORSE, GOOD, retry=retrying(3))
    assert short(drive.run(ag.Runner(tree), "Go.")) == "One two."


def test_a_retry_discards_only_the_chunks_of_its_agent(drive: Drive) -> None:
    inner = ag.agent_tool(streaming("f", BAD, GOOD, retry=retrying()))
    writer = ag.chat_agent("w", scripted(calls(call("f", request="x")), "All done."), tools=[inner])
    events = stream(drive, par("p", writer, ag.chat_agent("o", scripted("Other words."))))
    (void,) = [event for event in events if event.kind == "discarded"]
    assert (void.agent_name, void.address, str(void.run_path)) == ("f", "p/w/f(0)", "p/w/f")


def test_a_retry_fails_after_the_last_try_and_a_resume_tries_again(drive: Drive) -> None:
    runner = ag.Runner(streaming("w", WORSE, WORSE, GOOD, retry=retrying()))
    events, raised = failing(drive.run(runner, "Go.", thread_id="t", stream=True), ConnectionError)
    assert str(raised) == "twice"
    assert short(events) == "~Worse  | discarded | ~Worse  | discarded | error"
    assert short(drive.resume(runner, "t", stream=True)) == "~One  | ~two. | One two."


def test_a_retry_is_only_for_the_errors_of_its_policy(drive: Drive) -> None:
    model = scripted(ValueError("no"), "Never.")
    agent = ag.chat_agent("w", model, retry=retrying(3, ConnectionError))
    _, raised = failing(drive.run(ag.Runner(agent), "Go."), ValueError)
    assert (str(raised), len(model.inputs)) == ("no", 1)


def test_a_retry_runs_no_tool_again_and_counts_no_iteration(drive: Drive) -> None:
    down = ConnectionError("down")
    model = scripted(down, calls(call("weather", city="Rome")), down, "Done.")
    tree = ag.chat_agent("w", model, tools=[weather], retry=retrying(), max_iterations=2)
    assert short(drive.run(ag.Runner(tree), "Go.")) == " | Rain in Rome. | Done."
