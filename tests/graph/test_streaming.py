"""Streaming: chunks under the right agent and id, what is thrown away, and what takes too long."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from helpers import Drive, driven, failing, scripted
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import NodeTimeoutError
from langgraph.types import RetryPolicy, TimeoutPolicy
from pydantic import PrivateAttr

import agentgraph as ag
from agentgraph.testing import transcript

PATIENT = RetryPolicy(max_attempts=3, initial_interval=0.01, jitter=False)


class Chunked(BaseChatModel):
    """Streams the chunks of one attempt after the other; an exception among them is raised."""

    attempts: list[list[Any]]
    _calls: int = PrivateAttr(default=0)

    @property
    def calls(self) -> int:
        return self._calls

    @property
    def _llm_type(self) -> str:
        return "chunked"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **_: Any,
    ) -> ChatResult:
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
        for chunk in self.attempts[self._calls - 1]:
            if isinstance(chunk, Exception):
                raise chunk
            yield AIMessageChunk(chunk) if isinstance(chunk, str) else chunk.model_copy()


def calling(name: str, **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": "1", "type": "tool_call"}])


def told(events: Iterable[ag.AgentEvent]) -> list[str]:
    """Return what events tell: chunks behind `~`, what is void as `discarded`."""
    return [
        f"~{event.text}" if event.partial else event.text if event.kind == "message" else event.kind
        for event in events
    ]


def discarded(events: Iterable[ag.AgentEvent]) -> list[tuple[str, ...]]:
    return [event.action.discarded for event in events if event.kind == "discarded" and event.action]


def kept(events: Iterable[ag.AgentEvent]) -> list[str]:
    """Return the texts that a reader shows at the end, who puts chunks together by their id."""
    shown: dict[str, str] = {}
    for event in events:
        if event.partial:
            shown[event.id] = shown.get(event.id, "") + event.text
        elif event.kind == "message":
            shown[event.id] = event.text
        elif event.kind == "discarded" and event.action:
            for void in event.action.discarded:
                del shown[void]
    return list(shown.values())


def check_chunks(events: list[ag.AgentEvent]) -> None:
    """Check that chunks come before their message, under its agent, address, path and id."""
    wholes = {event.id: event for event in events if event.kind == "message" and not event.partial}
    void = {each for ids in discarded(events) for each in ids}
    for index, event in enumerate(events):
        if not event.partial or event.id in void:
            continue
        whole = wholes[event.id]
        assert index < events.index(whole)
        assert isinstance(event.message, AIMessageChunk)
        for name in ("agent_name", "address", "run_path", "thread_id"):
            assert getattr(event, name) == getattr(whole, name)
    for whole in wholes.values():
        chunks = [event for event in events if event.partial and event.id == whole.id]
        assert not chunks or "".join(chunk.text for chunk in chunks) == whole.text


class TestChunks:
    def test_of_text_come_before_the_message_of_their_id(self, drive: Drive) -> None:
        runner = ag.Runner(
            ag.sequential("s", [ag.chat_agent("w", Chunked(attempts=[["One ", "two."]]))])
        )
        events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
        assert told(events) == ["~One ", "~two.", "One two."]
        assert len({event.id for event in events}) == 1
        check_chunks(events)
        assert list(runner.events("t")) == events[-1:]

    def test_of_tool_calls_add_up(self, drive: Drive) -> None:
        head = tool_call_chunk(name="weather", args='{"ci', id="1", index=0)
        tail = tool_call_chunk(args='ty": "Rome"}', index=0)
        chunks = [AIMessageChunk("", tool_call_chunks=[part]) for part in (head, tail)]

        def weather(city: str) -> str:
            """Tells the weather."""
            return f"Rain in {city}."

        tree = ag.chat_agent("w", Chunked(attempts=[chunks, ["Rain."]]), tools=[weather])
        events = list(drive.run(ag.Runner(tree), "Go.", stream=True))
        assert told(events) == ["~", "~", "", "Rain in Rome.", "~Rain.", "Rain."]
        first, second, whole = (event.message for event in events[:3])
        assert isinstance(first, AIMessageChunk)
        assert isinstance(second, AIMessageChunk)
        assert isinstance(whole, AIMessage)
        assert (first + second).tool_calls == whole.tool_calls  # type: ignore[union-attr]
        assert [call["args"] for call in whole.tool_calls] == [{"city": "Rome"}]
        check_chunks(events)

    @pytest.mark.parametrize(("kind", "field"), [("reasoning", "reasoning"), ("thinking", "thinking")])
    def test_of_reasoning_are_told_as_blocks(self, drive: Drive, kind: str, field: str) -> None:
        thought = (
            [{"type": kind, field: "Hm, ", "index": 0}],
            [{"type": kind, field: "bees.", "index": 0}],
        )
        chunks = [AIMessageChunk(content=block) for block in thought]  # type: ignore[arg-type]
        answer = AIMessageChunk(content=[{"type": "text", "text": "Bees dance.", "index": 1}])
        runner = ag.Runner(ag.chat_agent("w", Chunked(attempts=[[*chunks, answer]])))
        events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
        assert told(events) == ["~", "~", "~Bees dance.", "Bees dance."]
        contents = [event.message.content for event in events if event.message]
        assert contents[0] == [{"type": kind, field: "Hm, ", "index": 0}]
        assert contents[3][0] == {"type": kind, field: "Hm, bees.", "index": 0}
        check_chunks(events)
        assert list(runner.events("t")) == events[-1:]
        assert [ag.AgentEvent.from_dict(event.to_dict()) for event in events] == events

    def test_of_reasoning_are_not_read_out_to_the_next_agent_as_text(self, drive: Drive) -> None:
        blocks = [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Bees dance."}]
        reader = scripted("Read.")
        writer = ag.chat_agent("w", scripted(AIMessage(blocks)))
        list(drive.run(ag.Runner(ag.sequential("s", [writer, ag.chat_agent("z", reader)])), "Go."))
        assert reader.inputs[0][1].text == "[w] said:Bees dance."

    def test_of_branches_at_once_are_told_apart(self, drive: Drive) -> None:
        turns = threading.Barrier(2, timeout=20)

        def one(messages: list[BaseMessage]) -> str:
            turns.wait()
            return f"{messages[-1].text} one two three four"

        agents = [ag.chat_agent(name, scripted(one, one)) for name in ("a", "b")]
        runner = ag.Runner(ag.loop("l", [ag.parallel("p", agents)], max_iterations=2))
        events = list(drive.run(runner, "Go.", stream=True))
        assert sum(event.partial for event in events) > 4 * 4
        assert {event.address for event in events} == {f"l[{i}]/p/{n}" for i in (0, 1) for n in "ab"}
        assert len({event.id for event in events}) == 4
        check_chunks(events)

    def test_of_agents_that_run_as_tools_are_told_under_them(self, drive: Drive) -> None:
        calls = [
            {"name": "search", "args": {"request": each}, "id": each, "type": "tool_call"}
            for each in "ab"
        ]
        inner = ag.chat_agent("search", scripted("One two.", "One two."))
        model = scripted(AIMessage("", tool_calls=calls), "Done now.")
        tree = ag.sequential("s", [ag.chat_agent("w", model, tools=[ag.agent_tool(inner)])])
        runner = ag.Runner(tree)
        events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
        chunks = [(e.address, str(e.run_path), e.text) for e in events if e.partial]
        for address in ("s/w/search(0)", "s/w/search(1)"):
            assert [c for c in chunks if c[0] == address] == [
                (address, "s/w/search", "One "),
                (address, "s/w/search", "two."),
            ]
        check_chunks(events)
        assert {e.id: e for e in runner.events("t")} == {e.id: e for e in events if not e.partial}

    def test_of_a_bare_graph_are_translated_the_same(self) -> None:
        def tree() -> ag.Agent:
            inner = ag.chat_agent("search", scripted("One two."))
            model = scripted(calling("search", request="x"), "Done now.")
            return ag.chat_agent("w", model, tools=[ag.agent_tool(inner)])

        graph = ag.compile_agent(tree(), checkpointer=InMemorySaver())
        modes = list(ag.STREAM_MODES)
        config: Any = {"configurable": {"thread_id": "t"}}
        parts = graph.stream({"messages": ["Go."]}, config, stream_mode=modes, subgraphs=True)
        events = list(ag.translate(tree(), parts))
        runner = ag.Runner(tree())
        assert told(events) == told(runner.run("Go.", stream=True))
        check_chunks(events)

    def test_of_the_model_that_sums_up_are_told_to_nobody(self, drive: Drive) -> None:
        policy = ag.summarized(scripted("It was long."), 2, token_counter=len)
        tree = ag.sequential(
            "s",
            [says("a"), says("b"), says("c"), ag.chat_agent("w", scripted("One two."), history=policy)],
        )
        events = list(drive.run(ag.Runner(tree), "Go.", stream=True))
        assert told(e for e in events if e.agent_name == "w") == ["~One ", "~two.", "One two."]

    def test_of_a_model_that_a_function_or_a_tool_calls_are_not_the_agents(self, drive: Drive) -> None:
        own = scripted("Inner words.", "Tool words.")

        def fn(ctx: ag.Context) -> str:
            return f"f: {own.invoke(ctx.messages).text}"

        def ask() -> str:
            """Asks."""
            return str(own.invoke("x").text)

        model = scripted(calling("ask"), "Done.")
        tree = ag.sequential("s", [ag.function_agent("f", fn), ag.chat_agent("w", model, tools=[ask])])
        events = list(drive.run(ag.Runner(tree), "Go.", stream=True))
        assert [event.text for event in events if event.partial and event.text] == ["Done."]

    def test_are_not_told_when_they_were_not_asked_for(self, drive: Drive) -> None:
        tree = ag.chat_agent("w", Chunked(attempts=[["One ", "two."]]))
        assert told(drive.run(ag.Runner(tree), "Go.")) == ["One two."]


def says(name: str) -> ag.Agent:
    def fn(ctx: ag.Context) -> str:
        return name

    return ag.function_agent(name, fn)


class TestARetryOfAModel:
    def test_marks_what_it_throws_away(self, drive: Drive) -> None:
        model = Chunked(
            attempts=[
                ["Bad ", "start.", ConnectionError("once")],
                ["Worse ", ConnectionError("twice")],
                ["One ", "two."],
            ]
        )
        runner = ag.Runner(ag.sequential("s", [ag.chat_agent("w", model, retry=PATIENT), says("z")]))
        events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
        assert told(events) == [
            *["~Bad ", "~start.", "discarded", "~Worse ", "discarded"],
            *["~One ", "~two.", "One two.", "z"],
        ]
        assert discarded(events) == [(events[0].id,), (events[3].id,)]
        assert kept(events) == ["One two.", "z"]
        assert {event.address for event in events[:-1]} == {"s/w"}
        check_chunks(events)
        assert list(runner.events("t")) == events[-2:]

    def test_that_streams_nothing_in_the_end_marks_it_too(self, drive: Drive) -> None:
        model = Chunked(attempts=[["Bad ", ConnectionError("once")], [""]])
        runner = ag.Runner(ag.chat_agent("w", model, retry=PATIENT))
        events = list(drive.run(runner, "Go.", stream=True))
        assert told(events) == ["~Bad ", "discarded", ""]
        assert kept(events) == [""]

    def test_without_a_stream_tells_nothing(self, drive: Drive) -> None:
        model = scripted(ConnectionError("once"), ConnectionError("twice"), "Done.")
        tree = ag.chat_agent("w", model, retry=PATIENT, output_key="out")
        assert told(drive.run(ag.Runner(tree), "Go.")) == ["Done."]
        model.assert_finished()

    def test_that_fails_too_often_fails_the_run(self, drive: Drive) -> None:
        attempts = [["Bad ", ConnectionError(str(i))] for i in range(3)]
        model = Chunked(attempts=[*attempts, ["One ", "two."]])
        runner = ag.Runner(ag.chat_agent("w", model, retry=PATIENT))
        events, raised = failing(drive.run(runner, "Go.", thread_id="t", stream=True), ConnectionError)
        assert str(raised) == "2"
        assert told(events) == [*["~Bad ", "discarded"] * 3, "error"]
        assert transcript(events) == ["w: [discarded]"] * 3 + ["w: [error] ConnectionError('2')"]
        again = list(drive.resume(runner, "t", stream=True))
        assert told(again) == ["~One ", "~two.", "One two."]

    def test_of_some_errors_only_lets_others_through(self, drive: Drive) -> None:
        model = scripted(ValueError("no"), "Never.")
        policy = RetryPolicy(max_attempts=3, initial_interval=0.01, retry_on=ConnectionError)
        _, raised = failing(
            drive.run(ag.Runner(ag.chat_agent("w", model, retry=policy)), "Go."), ValueError
        )
        assert str(raised) == "no"
        assert len(model.inputs) == 1

    def test_runs_no_tool_twice(self, drive: Drive) -> None:
        noted: list[int] = []

        def note() -> str:
            """Notes."""
            noted.append(1)
            return "Noted."

        model = scripted(ConnectionError("0"), calling("note"), ConnectionError("1"), "Done.")
        tree = ag.chat_agent("w", model, tools=[note], retry=PATIENT, max_iterations=2)
        assert told(drive.run(ag.Runner(tree), "Go.")) == ["", "Noted.", "Done."]
        assert noted == [1]

    def test_in_branches_and_tools_marks_only_its_own(self, drive: Drive) -> None:
        bad = Chunked(attempts=[["Bad ", ConnectionError("once")], ["Good ", "now."]])
        inner = ag.chat_agent("f", bad, retry=PATIENT)
        writer = ag.chat_agent(
            "w", scripted(calling("f", request="x"), "All done."), tools=[ag.agent_tool(inner)]
        )
        other = ag.chat_agent("o", scripted("Other words."))
        events = list(drive.run(ag.Runner(ag.parallel("p", [writer, other])), "Go.", stream=True))
        (void,) = [event for event in events if event.kind == "discarded"]
        assert (void.agent_name, void.address, str(void.run_path)) == ("f", "p/w/f(0)", "p/w/f")
        assert sorted(kept(events)) == ["", "All done.", "Good now.", "Good now.", "Other words."]
        check_chunks(events)


class TestARetryOfAFunction:
    def test_marks_what_it_throws_away(self, drive: Drive) -> None:
        calls: list[int] = []

        def fn(ctx: ag.Context) -> Iterator[str]:
            calls.append(1)
            yield f"One {len(calls)}."
            if len(calls) < 3:
                yield "Half."
                raise ConnectionError("down")
            yield "Two."

        runner = ag.Runner(ag.sequential("s", [ag.function_agent("f", fn, retry=PATIENT), says("z")]))
        events = list(drive.run(runner, "Go.", thread_id="t"))
        assert told(events) == [
            *["One 1.", "Half.", "discarded", "One 2.", "Half.", "discarded"],
            *["One 3.", "Two.", "z"],
        ]
        assert discarded(events) == [tuple(e.id for e in events[i : i + 2]) for i in (0, 3)]
        assert kept(events) == ["One 3.", "Two.", "z"]
        assert list(runner.events("t")) == events[-3:]

    def test_of_an_async_generator_marks_it_too(self, drive: Drive) -> None:
        calls: list[int] = []

        async def fn(ctx: ag.Context) -> AsyncIterator[str]:
            calls.append(1)
            yield f"One {len(calls)}."
            if len(calls) < 2:
                raise ConnectionError("down")

        tree = ag.function_agent("f", fn, retry=PATIENT)
        assert told(drive.run(ag.Runner(tree), "Go.")) == ["One 1.", "discarded", "One 2."]

    def test_that_says_nothing_in_the_end_marks_it_too(self, drive: Drive) -> None:
        calls: list[int] = []

        def fn(ctx: ag.Context) -> Iterator[str]:
            calls.append(1)
            if len(calls) < 2:
                yield "Half."
                raise ConnectionError("down")

        tree = ag.sequential("s", [ag.function_agent("f", fn, retry=PATIENT), says("z")])
        events = list(drive.run(ag.Runner(tree), "Go."))
        assert told(events) == ["Half.", "discarded", "z"]
        assert kept(events) == ["z"]

    def test_of_a_plain_function_has_nothing_to_mark(self, drive: Drive) -> None:
        calls: list[int] = []

        def fn(ctx: ag.Context) -> str:
            calls.append(1)
            if len(calls) < 3:
                raise ConnectionError("down")
            return "Done."

        assert told(drive.run(ag.Runner(ag.function_agent("f", fn, retry=PATIENT)), "Go.")) == ["Done."]

    def test_that_fails_too_often_fails_the_run(self, drive: Drive) -> None:
        def fn(ctx: ag.Context) -> Iterator[str]:
            yield "Half."
            raise ConnectionError("down")

        runner = ag.Runner(ag.function_agent("f", fn, retry=PATIENT))
        events, _ = failing(drive.run(runner, "Go."), ConnectionError)
        assert told(events) == [*["Half.", "discarded"] * 3, "error"]

    def test_that_asks_is_asked_once(self, drive: Drive) -> None:
        calls: list[bool] = []

        def fn(ctx: ag.Context) -> Iterator[str | ag.Ask]:
            calls.append(ctx.answered)
            if not ctx.answered:
                yield "Before."
                yield ag.Ask("Well?")
            elif len(calls) < 3:
                yield "Half."
                raise ConnectionError("down")
            else:
                yield f"Heard {ctx.answer}."

        runner = ag.Runner(ag.function_agent("f", fn, retry=PATIENT))
        assert told(drive.run(runner, "Go.", thread_id="t")) == ["Before.", "interrupted"]
        assert told(drive.resume(runner, "t", "yes")) == ["Half.", "discarded", "Heard yes."]
        assert calls == [False, True, True]

    def test_goes_through_json(self) -> None:
        calls: list[int] = []

        def fn(ctx: ag.Context) -> Iterator[str]:
            calls.append(1)
            yield "One."
            if len(calls) < 2:
                raise ConnectionError("down")

        events = list(ag.Runner(ag.function_agent("f", fn, retry=PATIENT)).run("Go."))
        assert [ag.AgentEvent.from_dict(event.to_dict()) for event in events] == events
        assert events[1].to_sse().startswith("event: discarded\n")


class TestLangChainsOwn:
    def test_fallbacks_mark_what_they_throw_away(self, drive: Drive) -> None:
        first = Chunked(attempts=[["Bad ", "start.", ConnectionError("down")]])
        second = Chunked(attempts=[["One ", "two."]])
        runner = ag.Runner(ag.chat_agent("w", first.with_fallbacks([second])))
        events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
        assert told(events) == ["~Bad ", "~start.", "discarded", "~One ", "~two.", "One two."]
        assert discarded(events) == [(events[0].id,)]
        check_chunks(events)
        assert list(runner.events("t")) == events[-1:]

    def test_retries_mark_what_they_throw_away(self, drive: Drive) -> None:
        model = Chunked(attempts=[["Bad ", ConnectionError("once")], ["One ", "two."]])
        patient = model.with_retry(wait_exponential_jitter=False, stop_after_attempt=2)
        events = list(drive.run(ag.Runner(ag.chat_agent("w", patient)), "Go.", stream=True))
        assert told(events) == ["~Bad ", "discarded", "~One ", "~two.", "One two."]
        assert kept(events) == ["One two."]
        check_chunks(events)

    def test_fallbacks_with_tools_do_so_in_each_round(self, drive: Drive) -> None:
        def note() -> str:
            """Notes."""
            return "Noted."

        call = AIMessageChunk("", tool_call_chunks=[tool_call_chunk(name="note", args="{}", id="1")])
        down = [[f"Bad {i} ", ConnectionError("down")] for i in range(2)]
        model = Chunked(attempts=down).with_fallbacks([Chunked(attempts=[[call], ["One ", "two."]])])
        tree = ag.chat_agent("w", model, tools=[note])
        events = list(drive.run(ag.Runner(tree), "Go.", stream=True))
        assert told(events) == [
            *["~Bad 0 ", "discarded", "~", "", "Noted."],
            *["~Bad 1 ", "discarded", "~One ", "~two.", "One two."],
        ]
        check_chunks(events)


class TestATimeout:
    @pytest.mark.parametrize("timeout", [0.05, timedelta(milliseconds=50)])
    def test_of_a_model_is_a_clear_error_that_resume_tries_again(self, timeout: Any) -> None:
        def slow(messages: list[BaseMessage]) -> str:
            time.sleep(0.3)
            return "Late."

        model = scripted(slow, "In time.")
        runner = ag.Runner(ag.sequential("s", [says("a"), ag.chat_agent("w", model, timeout=timeout)]))
        events, raised = failing(driven(runner.arun("Go.", thread_id="t")), NodeTimeoutError)
        assert str(raised).startswith("Node 'w' exceeded its run timeout of 0.050s (elapsed: 0.")
        assert raised.__notes__[0] == "This happened in the agent 'w', at s/w."
        assert transcript(events) == ["s/a: a", f"s/a/w: [error] {raised!r}"]
        assert transcript(driven(runner.aresume("t"))) == ["s/a/w: In time."]

    def test_of_a_function_is_a_clear_error(self) -> None:
        async def fn(ctx: ag.Context) -> AsyncIterator[str]:
            yield "Half."
            await asyncio.sleep(5)
            yield "Late."

        runner = ag.Runner(ag.function_agent("f", fn, timeout=0.05))
        events, raised = failing(driven(runner.arun("Go.")), NodeTimeoutError)
        assert transcript(events) == ["f: Half.", "f: [discarded]", f"f: [error] {raised!r}"]

    def test_with_a_retry_is_tried_again(self) -> None:
        calls: list[int] = []

        async def fn(ctx: ag.Context) -> AsyncIterator[str]:
            calls.append(1)
            yield f"One {len(calls)}."
            await asyncio.sleep(5 if len(calls) < 2 else 0)

        tree = ag.function_agent("f", fn, timeout=0.1, retry=PATIENT)
        assert told(driven(ag.Runner(tree).arun("Go."))) == ["One 1.", "discarded", "One 2."]

    def test_that_is_kept_changes_nothing(self) -> None:
        tree = ag.sequential(
            "s",
            [
                ag.chat_agent("w", scripted("One two."), timeout=20),
                ag.function_agent("f", lambda ctx: "f", timeout=20),
            ],
        )
        events = list(driven(ag.Runner(tree).arun("Go.", stream=True)))
        assert told(events) == ["~One ", "~two.", "One two.", "f"]

    def test_of_an_agent_as_a_tool_goes_to_its_caller(self) -> None:
        async def fn(ctx: ag.Context) -> str:
            await asyncio.sleep(5)
            return "Late."

        inner = ag.function_agent("f", fn, timeout=0.05)
        model = scripted(calling("f", request="x"), "Sorry.")
        events = list(
            driven(ag.Runner(ag.chat_agent("w", model, tools=[ag.agent_tool(inner)])).arun("Go."))
        )
        assert [event.kind for event in events] == ["message", "error", "message", "message"]
        assert (events[1].address, events[-1].text) == ("w/f(0)", "Sorry.")

    def timed(self, model: Any) -> ag.Agent:
        agents = [
            ag.chat_agent("w", model, timeout=5),
            ag.parallel("p", [ag.function_agent("f", lambda ctx: "f", timeout=5)]),
        ]
        return ag.sequential("s", [says("a"), *agents])

    def test_in_a_sync_run_or_resume_is_refused_before_anything_runs(self) -> None:
        model = scripted(ConnectionError("down"), "Now.")
        runner = ag.Runner(self.timed(model))
        refusal = (
            "w, f: timeout= needs arun and aresume: a sync call cannot be stopped; use these, or leave "
            "it out and set a timeout on the model"
        )
        with pytest.raises(ag.AgentGraphError) as caught:
            runner.run("Go.", thread_id="t")
        assert str(caught.value) == refusal
        failing(driven(runner.arun("Go.", thread_id="t")), ConnectionError)
        with pytest.raises(ag.AgentGraphError) as caught:
            runner.resume("t")
        assert str(caught.value) == refusal
        assert len(model.inputs) == 1
        assert transcript(driven(runner.aresume("t"))) == ["s/a/w: Now.", "s/a/w/p/f: f"]

    def test_in_a_bare_graph_is_refused_where_it_is_reached(self) -> None:
        model = scripted("Never.")
        with pytest.raises(ag.AgentGraphError) as caught:
            ag.compile_agent(self.timed(model)).invoke({"messages": ["Go."]})
        assert str(caught.value) == (
            "s/w: timeout= needs arun() or ainvoke(): a sync call cannot be stopped; use these, or "
            "leave it out and set a timeout on the model"
        )
        assert model.inputs == []

    def test_may_be_a_policy_of_langgraphs(self) -> None:
        async def fn(ctx: ag.Context) -> AsyncIterator[str]:
            yield "Half."
            await asyncio.sleep(5)

        tree = ag.function_agent("f", fn, timeout=TimeoutPolicy(run_timeout=0.05))
        events, raised = failing(driven(ag.Runner(tree).arun("Go.")), NodeTimeoutError)
        assert transcript(events) == ["f: Half.", "f: [discarded]", f"f: [error] {raised!r}"]

    @pytest.mark.parametrize("timeout", [0, -1, "soon", True, timedelta()], ids=repr)
    def test_that_is_none_is_a_fault(self, timeout: Any) -> None:
        for agent in (
            ag.chat_agent("w", scripted(), timeout=timeout),
            ag.function_agent("w", lambda ctx: "w", timeout=timeout),
        ):
            with pytest.raises(ag.InvalidAgentError) as caught:
                ag.compile_agent(agent)
            assert str(caught.value) == (
                f"w: timeout={timeout!r} is not a timeout; pass seconds above 0, a timedelta, or a "
                "TimeoutPolicy"
            )


class TestAPolicyOfRetries:
    def test_may_be_several(self, drive: Drive) -> None:
        options: Any = {"initial_interval": 0.01, "jitter": False}
        policies = [
            RetryPolicy(max_attempts=2, retry_on=ConnectionError, **options),
            RetryPolicy(max_attempts=3, retry_on=ValueError, **options),
        ]
        model = scripted(ConnectionError("0"), ValueError("1"), "Done.")
        tree = ag.chat_agent("w", model, retry=policies)
        assert told(drive.run(ag.Runner(tree), "Go.")) == ["Done."]

    @pytest.mark.parametrize("retry", [3, "often", [3]], ids=repr)
    def test_that_is_none_is_a_fault(self, retry: Any) -> None:
        for agent in (
            ag.chat_agent("w", scripted(), retry=retry),
            ag.function_agent("w", lambda ctx: "w", retry=retry),
        ):
            with pytest.raises(ag.InvalidAgentError) as caught:
                ag.compile_agent(agent)
            assert str(caught.value) == (
                f"w: retry={retry!r} is not a retry policy; pass langgraph.types.RetryPolicy(...), "
                f"or several"
            )
