"""What a chat agent sends its model, and what becomes of the reply."""

import json
import threading
from collections.abc import Iterable
from typing import Any

import pytest
from helpers import Drive, failing, scripted
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
)
from langchain_core.runnables import RunnableLambda

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, transcript


def sent(messages: Iterable[BaseMessage]) -> list[str]:
    return [f"{message.type}: {message.text}" for message in messages]


def instruction_sent(template: str, **values: Any) -> str:
    """Return the system message that an instruction becomes."""
    model = scripted("Done.")
    runner = ag.Runner(ag.chat_agent("writer", model, instruction=template))
    list(runner.query("Go.", values=values))
    system, _ = model.inputs[0]
    assert isinstance(system, SystemMessage)
    return str(system.text)


class TestAnInstruction:
    def test_is_filled_from_the_values_of_the_run(self, drive: Drive) -> None:
        model = scripted("Done.")
        runner = ag.Runner(ag.chat_agent("writer", model, instruction="Write about {topic}{more?}."))

        list(drive.run(runner, "Go.", values={"topic": "bees"}))

        assert [sent(messages) for messages in model.inputs] == [
            ["system: Write about bees.", "human: Go."]
        ]

    def test_is_filled_from_what_earlier_agents_wrote(self, drive: Drive) -> None:
        def planner(ctx: ag.Context) -> ag.SetValues:
            return ag.SetValues(topic="bees", sections=["hive", "dance"])

        model = scripted("Done.")
        tree = ag.sequential(
            "report",
            [
                ag.function_agent("planner", planner),
                ag.chat_agent("writer", scripted("A {draft}."), output_key="draft"),
                ag.chat_agent("critic", model, instruction="{topic} {sections} {draft} {tone}"),
            ],
        )
        list(drive.run(ag.Runner(tree), "Go.", values={"tone": "kind", "topic": "wasps"}))

        assert model.inputs[0][0] == SystemMessage('bees ["hive", "dance"] A {draft}. kind')

    def test_is_no_message_of_the_history(self) -> None:
        model = scripted("One.", "Two.")
        writer = ag.chat_agent("writer", model, instruction="Write.")
        runner = ag.Runner(ag.loop("refine", [writer], max_iterations=2))

        list(runner.query("Go.", thread_id="t"))

        assert sent(model.inputs[1]) == ["system: Write.", "human: Go.", "ai: One."]
        history = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"]
        assert sent(history) == ["human: Go.", "ai: One.", "ai: Two."]

    def test_that_is_empty_is_not_sent(self) -> None:
        model = scripted("One.", "Two.")
        tree = ag.sequential(
            "report",
            [ag.chat_agent("writer", model), ag.chat_agent("critic", model, instruction="{style?}")],
        )
        list(ag.Runner(tree).query("Go."))
        assert [messages[0].type for messages in model.inputs] == ["human", "human"]

    @pytest.mark.parametrize(
        "text",
        [
            '{"city": "Rome", "days": [1, 2], "deep": {"a": {"b": {}}}}',
            json.dumps({"type": "object", "properties": {"a": {"type": "string"}}}, indent=2),
            "for (;;) { if (x) { y() } }",
            "def f(): return {k: v for k, v in {}.items()}",
            "{a.b} {a[0]} {a!r} {a:>10} {0} {} { a } {a-b}",
        ],
    )
    def test_keeps_json_and_code_as_they_are(self, text: str) -> None:
        assert instruction_sent(f"{text}\n{{topic}}: {text}", topic="bees", a="A") == (
            f"{text}\nbees: {text}"
        )

    def test_does_not_fill_what_it_was_filled_with(self) -> None:
        assert instruction_sent("{draft}, {{topic}}", draft="{topic} {{x}}", topic="bees") == (
            "{topic} {{x}}, {topic}"
        )


class TestAMissingValue:
    MESSAGE = (
        "writer: the template names {topic}, but the run has no value of that name "
        "(there are: length, tone); pass it with values=, or write {topic?} where it may be missing"
    )

    def test_is_an_error_before_the_model_is_called_and_resume_may_give_it(self, drive: Drive) -> None:
        model = scripted("Bees dance.")
        runner = ag.Runner(ag.chat_agent("writer", model, instruction="On {topic}, {tone}, {length}."))

        events, raised = failing(
            drive.run(runner, "Go.", thread_id="t", values={"tone": "kind", "length": 9}),
            ag.MissingValueError,
        )
        assert str(raised) == self.MESSAGE
        assert isinstance(raised, ag.MissingValueError)
        assert (raised.agent_name, raised.placeholder) == ("writer", "topic")
        assert raised.available == ("length", "tone")
        assert [(e.agent_name, e.address, str(e.run_path), e.error) for e in events] == [
            ("writer", "writer", "writer", repr(raised))
        ]
        assert model.inputs == []

        resumed = list(drive.resume(runner, "t", values={"topic": "bees"}))
        assert transcript(resumed) == ["writer: Bees dance."]
        assert sent(model.inputs[0]) == ["system: On bees, kind, 9.", "human: Go."]

    def test_deep_in_a_tree_costs_nothing_of_what_had_finished(self, drive: Drive) -> None:
        legal_has_read = threading.Event()

        def read_first(messages: list[BaseMessage]) -> str:
            legal_has_read.set()
            return "Legal."

        def read_then(messages: list[BaseMessage]) -> str:
            assert legal_has_read.wait(20)
            return "Read."

        reads, writes = scripted(read_then), scripted("Press.")
        press = ag.sequential(
            "press",
            [
                ag.chat_agent("reader", reads),
                ag.chat_agent("writer", writes, instruction="Be {tone}."),
            ],
        )
        legal = scripted(read_first)
        tree = ag.sequential("s", [ag.parallel("review", [ag.chat_agent("legal", legal), press])])
        runner = ag.Runner(tree)

        first, raised = failing(drive.run(runner, "Go.", thread_id="t"), ag.MissingValueError)
        again, _ = failing(drive.resume(runner, "t"), ag.MissingValueError)
        resumed = list(drive.resume(runner, "t", values={"tone": "loud"}))

        assert set(transcript(first)) == {
            "s/review/legal: Legal.",
            "s/review/press/reader: Read.",
            f"s/review/press/reader/writer: [error] {raised!r}",
        }
        assert transcript(again) == [f"s/review/press/reader/writer: [error] {raised!r}"]
        assert transcript(resumed) == ["s/review/press/reader/writer: Press."]
        assert sent(writes.inputs[0]) == [
            "system: Be loud.",
            "human: Go.",
            "human: [reader] said: Read.",
        ]
        legal.assert_finished()
        reads.assert_finished()

    def test_may_be_given_with_the_next_turn(self) -> None:
        model = scripted("Bees dance.")
        runner = ag.Runner(ag.chat_agent("writer", model, instruction="On {topic}."))
        failing(runner.query("Go.", thread_id="t"), ag.MissingValueError)
        events = runner.query("Go on.", thread_id="t", values={"topic": "bees"})
        assert transcript(events) == ["writer: Bees dance."]
        assert sent(model.inputs[0]) == ["system: On bees.", "human: Go.", "human: Go on."]


def newsroom(history: Any) -> tuple[ag.Runner, ScriptedChatModel]:
    """Return a runner whose agent `editor` has `history` and comes twice, behind much else."""
    editor = scripted("Edit 1.", "Edit 2.", "Edit 3.", "Edit 4.")
    tree = ag.sequential(
        "paper",
        [
            ag.chat_agent("writer", scripted("Draft 1.", "Draft 2.")),
            ag.parallel(
                "review",
                [
                    ag.chat_agent("legal", scripted("Legal 1.", "Legal 2.")),
                    ag.chat_agent("press", scripted("Press 1.", "Press 2.")),
                ],
            ),
            ag.loop("refine", [ag.chat_agent("editor", editor, history=history)], max_iterations=2),
        ],
    )
    return ag.Runner(tree), editor


USER, USER_AGAIN = "human: Go.", "human: Again."
DRAFT, DRAFT_AGAIN = "human: [writer] said: Draft 1.", "human: [writer] said: Draft 2."
LEGAL, LEGAL_AGAIN = "human: [legal] said: Legal 1.", "human: [legal] said: Legal 2."
PRESS, PRESS_AGAIN = "human: [press] said: Press 1.", "human: [press] said: Press 2."


class TestAHistory:
    @pytest.mark.parametrize(
        ("history", "seen"),
        [
            (
                "shared",
                [
                    [USER, DRAFT, LEGAL, PRESS],
                    [USER, DRAFT, LEGAL, PRESS, "ai: Edit 1."],
                ],
            ),
            ("path", [[USER, DRAFT], [USER, DRAFT, "ai: Edit 1."]]),
            ("own", [[USER], [USER, "ai: Edit 1."]]),
            ("last", [[USER, PRESS], [USER, "ai: Edit 1."]]),
            ("input", [[USER], [USER]]),
        ],
    )
    def test_is_what_its_policy_says(self, drive: Drive, history: Any, seen: list[list[str]]) -> None:
        runner, editor = newsroom(history)
        list(drive.run(runner, "Go."))
        assert [sent(messages) for messages in editor.inputs] == seen

    @pytest.mark.parametrize(
        ("history", "seen"),
        [
            (
                "shared",
                [
                    *[USER, DRAFT, LEGAL, PRESS, "ai: Edit 1.", "ai: Edit 2."],
                    *[USER_AGAIN, DRAFT_AGAIN, LEGAL_AGAIN, PRESS_AGAIN],
                ],
            ),
            ("own", [USER, "ai: Edit 1.", "ai: Edit 2.", USER_AGAIN]),
            ("last", [USER_AGAIN, PRESS_AGAIN]),
            ("input", [USER_AGAIN]),
        ],
    )
    def test_goes_over_the_turns_of_a_thread(self, drive: Drive, history: Any, seen: list[str]) -> None:
        runner, editor = newsroom(history)
        list(drive.run(runner, "Go.", thread_id="t"))
        list(drive.run(runner, "Again.", thread_id="t"))
        assert sent(editor.inputs[2]) == seen

    def test_may_be_a_function_of_entries(self, drive: Drive) -> None:
        asked: list[list[tuple[str | None, str | None, str, str]]] = []

        def legal_only(entries: list[ag.Entry]) -> list[BaseMessage]:
            asked.append(
                [(e.agent_name, e.address, str(e.run_path), str(e.message.text)) for e in entries]
            )
            return [HumanMessage(f"{e.address}?") for e in entries if e.agent_name == "legal"]

        runner, editor = newsroom(legal_only)
        list(drive.run(runner, "Go."))

        assert [sent(messages) for messages in editor.inputs] == [["human: paper/review/legal?"]] * 2
        assert asked[1] == [
            (None, None, "", "Go."),
            ("writer", "paper/writer", "paper/writer", "Draft 1."),
            ("legal", "paper/review/legal", "paper/writer/review/legal", "Legal 1."),
            ("press", "paper/review/press", "paper/writer/review/press", "Press 1."),
            ("editor", "paper/refine[0]/editor", "paper/writer/review/refine/editor", "Edit 1."),
        ]

    def test_of_a_branch_is_what_was_there_before_the_fork(self, drive: Drive) -> None:
        legal, press = scripted("Legal 1.", "Legal 2."), scripted("Press 1.", "Press 2.")
        tree = ag.sequential(
            "paper",
            [
                ag.chat_agent("writer", scripted("Draft 1.")),
                ag.parallel(
                    "review",
                    [
                        ag.loop("a", [ag.chat_agent("legal", legal)], max_iterations=2),
                        ag.loop("b", [ag.chat_agent("press", press)], max_iterations=2),
                    ],
                ),
            ],
        )
        list(drive.run(ag.Runner(tree), "Go."))
        assert sent(legal.inputs[1]) == [USER, DRAFT, "ai: Legal 1."]
        assert sent(press.inputs[1]) == [USER, DRAFT, "ai: Press 1."]

    def test_never_takes_one_name_for_the_beginning_of_another(self) -> None:
        models = {
            name: scripted(f"{name} 1.", f"{name} 2.") for name in ("a", "ab", "abc", "a_b", "a-b")
        }
        agents = [ag.chat_agent(name, model, history="shared") for name, model in models.items()]
        list(ag.Runner(ag.loop("rounds", agents, max_iterations=2)).query("Go."))

        for i, (name, model) in enumerate(models.items()):
            before = [f"human: [{other}] said: {other} 1." for other in models]
            now = [f"human: [{other}] said: {other} 2." for other in list(models)[:i]]
            before[i] = f"ai: {name} 1."
            assert sent(model.inputs[1]) == ["human: Go.", *before, *now]

    def test_on_a_path_never_takes_one_name_for_the_beginning_of_another(self) -> None:
        model = scripted("Seen.")
        tree = ag.sequential(
            "s",
            [
                ag.parallel("p", [ag.chat_agent("writer", scripted("In p."))]),
                ag.chat_agent("p2", scripted("In s.")),
                ag.chat_agent("writer2", model, history="path"),
            ],
        )
        list(ag.Runner(tree).query("Go."))
        assert sent(model.inputs[0]) == ["human: Go.", "human: [p2] said: In s."]

    def test_keeps_an_agent_that_stands_in_two_places_one_speaker(self) -> None:
        model = scripted("One.", "Two.", "Three.")
        writer = ag.chat_agent("writer", model)
        tree = ag.sequential("s", [writer, ag.sequential("t", [writer]), writer])
        events = list(ag.Runner(tree).query("Go."))
        assert transcript(events) == [
            "s/writer: One.",
            "s/writer/t/writer: Two.",
            "s/writer/t/writer: Three.",
        ]
        assert [event.address for event in events] == ["s/writer", "s/t/writer", "s/writer#2"]
        assert sent(model.inputs[2]) == ["human: Go.", "ai: One.", "ai: Two."]

    def test_names_the_person_who_answered(self) -> None:
        model = scripted("Printed.")
        tree = ag.sequential("s", [ag.human("boss", "Print it?"), ag.chat_agent("printer", model)])
        runner = ag.Runner(tree)
        list(runner.query("Go.", thread_id="t"))
        list(runner.resume("t", "Yes."))
        assert sent(model.inputs[0]) == ["human: Go.", "human: [boss] said: Yes."]
        assert model.inputs[0][1].name == "boss"

    def test_of_a_second_turn_begins_with_the_first(self, drive: Drive) -> None:
        model = scripted("Hello Ada.", "You are Ada.")
        runner = ag.Runner(ag.chat_agent("greeter", model, instruction="Greet {name}."))
        list(drive.run(runner, "I am Ada.", thread_id="t", values={"name": "Ada"}))
        events = list(drive.run(runner, "Who am I?", thread_id="t"))
        assert transcript(events) == ["greeter: You are Ada."]
        assert sent(model.inputs[1]) == [
            "system: Greet Ada.",
            "human: I am Ada.",
            "ai: Hello Ada.",
            "human: Who am I?",
        ]

    def test_takes_five_megabytes_of_text(self, drive: Drive) -> None:
        text = "bees dance " * 500_000
        model = scripted(lambda messages: messages[-1].text[::-1])
        tree = ag.sequential(
            "s", [ag.chat_agent("writer", model), ag.chat_agent("critic", scripted("Long."))]
        )
        runner = ag.Runner(tree)
        events = list(drive.run(runner, text, thread_id="t"))
        assert model.inputs[0][0].text == text
        assert events[0].text == text[::-1]
        assert transcript(events)[1] == "s/writer/critic: Long."
        assert [event.text for event in runner.events("t")] == [text[::-1], "Long."]


class TestAModel:
    def test_may_give_a_text(self, drive: Drive) -> None:
        tree = ag.chat_agent("writer", RunnableLambda(lambda messages: messages[-1].text.upper()))
        (event,) = drive.run(ag.Runner(tree), "Go.")
        assert isinstance(event.message, AIMessage)
        assert (event.text, event.message.name, event.id) == ("GO.", "writer", event.message.id)

    def test_may_give_a_chunk(self, drive: Drive) -> None:
        model = RunnableLambda(lambda messages: AIMessageChunk("Go on."))
        (event,) = drive.run(ag.Runner(ag.chat_agent("writer", model)), "Go.")
        assert type(event.message) is AIMessage
        assert event.text == "Go on."

    @pytest.mark.parametrize(
        ("given", "kind"),
        [
            (HumanMessage("I am no model."), "HumanMessage"),
            (None, "NoneType"),
            ({"content": "text"}, "dict"),
            ([AIMessage("text")], "list"),
        ],
    )
    def test_that_gives_anything_else_is_an_error(self, drive: Drive, given: Any, kind: str) -> None:
        replies: list[Any] = [given, AIMessage("Better.")]
        model = RunnableLambda(lambda messages: replies.pop(0))
        tree = ag.sequential("s", [ag.chat_agent("writer", model)])
        runner = ag.Runner(tree)

        events, raised = failing(drive.run(runner, "Go.", thread_id="t"), ag.InvalidOutputError)

        assert str(raised) == (
            f"s/writer: the model gave {kind}, not an AIMessage; "
            "pass a chat model, or a runnable that ends in one"
        )
        assert transcript(events) == [f"s/writer: [error] {raised!r}"]
        assert transcript(drive.resume(runner, "t")) == ["s/writer: Better."]

    def test_may_be_tried_again_by_langchain(self, drive: Drive) -> None:
        model = scripted(ConnectionError("once"), ConnectionError("twice"), "Third time.")
        patient = model.with_retry(
            retry_if_exception_type=(ConnectionError,),
            wait_exponential_jitter=False,
            stop_after_attempt=3,
        )
        events = list(drive.run(ag.Runner(ag.chat_agent("writer", patient)), "Go."))
        assert transcript(events) == ["writer: Third time."]
        assert [sent(messages) for messages in model.inputs] == [["human: Go."]] * 3

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
    def test_may_have_fallbacks(self, drive: Drive, stream: bool) -> None:
        first, second = scripted(ConnectionError("down")), scripted("From the second.")
        model = first.with_fallbacks([second])
        writer = ag.chat_agent("writer", model, instruction="Write.", output_key="draft")
        critic = ag.chat_agent("critic", scripted("Read."), instruction="{draft}")

        events = list(drive.run(ag.Runner(ag.sequential("s", [writer, critic])), "Go.", stream=stream))

        assert transcript(events) == ["s/writer: From the second.", "s/writer/critic: Read."]
        assert sent(first.inputs[0]) == sent(second.inputs[0]) == ["system: Write.", "human: Go."]
        chunks = [event for event in events if event.partial and event.agent_name == "writer"]
        assert "".join(chunk.text for chunk in chunks) == ("From the second." if stream else "")
        whole = next(event for event in events if event.kind == "message" and not event.partial)
        assert {chunk.id for chunk in chunks} <= {whole.id}

    def test_that_fails_is_told_under_its_agent_and_tried_again_by_resume(self, drive: Drive) -> None:
        writer, critic = scripted("Draft."), scripted(ConnectionError("down"), OSError("out"), "Good.")
        tree = ag.sequential("s", [ag.chat_agent("writer", writer), ag.chat_agent("critic", critic)])
        runner = ag.Runner(tree)

        first, _ = failing(drive.run(runner, "Go.", thread_id="t"), ConnectionError)
        second, _ = failing(drive.resume(runner, "t"), OSError)
        third = list(drive.resume(runner, "t"))

        assert transcript(first) == [
            "s/writer: Draft.",
            "s/writer/critic: [error] ConnectionError('down')",
        ]
        assert transcript(second) == ["s/writer/critic: [error] OSError('out')"]
        assert transcript(third) == ["s/writer/critic: Good."]
        writer.assert_finished()
        critic.assert_finished()
        assert [sent(messages) for messages in critic.inputs] == [
            ["human: Go.", "human: [writer] said: Draft."]
        ] * 3

    def test_that_failed_is_told_again_from_the_thread(self, drive: Drive) -> None:
        runner = ag.Runner(ag.chat_agent("writer", scripted(ConnectionError("down"), "Good.")))
        first, _ = failing(drive.run(runner, "Go.", thread_id="t"), ConnectionError)
        second = list(drive.resume(runner, "t"))
        assert list(runner.events("t")) == [*first, *second]

    def test_that_failed_twice_is_told_again_with_both_failures(self, drive: Drive) -> None:
        model = scripted(ConnectionError("down"), OSError("out"), "Good.")
        runner = ag.Runner(ag.chat_agent("writer", model))
        first, _ = failing(drive.run(runner, "Go.", thread_id="t"), ConnectionError)
        second, _ = failing(drive.resume(runner, "t"), OSError)
        third = list(drive.resume(runner, "t"))
        assert list(runner.events("t")) == [*first, *second, *third]

    def test_reply_keeps_what_the_model_told_with_it(self) -> None:
        reply = AIMessage(
            [{"type": "text", "text": "Done."}],
            id="mine",
            usage_metadata={"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
            response_metadata={"finish_reason": "stop"},
        )
        writer = ag.chat_agent("writer", scripted(reply), output_key="draft")
        runner = ag.Runner(writer)
        (event,) = runner.query("Go.", thread_id="t")

        assert isinstance(event.message, AIMessage)
        assert event.message.content == [{"type": "text", "text": "Done."}]
        assert (event.id, event.message.id, event.message.name) == ("mine", "mine", "writer")
        assert event.message.usage_metadata == reply.usage_metadata
        assert event.message.response_metadata["finish_reason"] == "stop"
        state = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values
        assert state["values"] == {"draft": "Done."}
        assert reply.response_metadata == {"finish_reason": "stop"}
        assert ag.AgentEvent.from_dict(event.to_dict()) == event


class TestAStream:
    def test_tells_chunks_under_the_id_of_the_message_behind_them(self, drive: Drive) -> None:
        model = scripted("One two three.", AIMessage([{"type": "text", "text": "A block."}]))
        tree = ag.loop("refine", [ag.chat_agent("writer", model)], max_iterations=2)

        events = list(drive.run(ag.Runner(tree), "Go.", thread_id="t", stream=True))

        assert [(event.address, event.partial, event.text) for event in events] == [
            ("refine[0]/writer", True, "One "),
            ("refine[0]/writer", True, "two "),
            ("refine[0]/writer", True, "three."),
            ("refine[0]/writer", False, "One two three."),
            ("refine[1]/writer", True, "A block."),
            ("refine[1]/writer", False, "A block."),
        ]
        first, second = {event.id for event in events[:4]}, {event.id for event in events[4:]}
        assert len(first) == len(second) == 1
        assert first != second
        assert {str(event.run_path) for event in events[4:]} == {"refine/writer/writer"}
        assert {event.thread_id for event in events} == {"t"}

    def test_is_told_again_from_the_thread_without_its_chunks(self, drive: Drive) -> None:
        agents = [ag.chat_agent(name, scripted("One two.", "Three four.")) for name in "ab"]
        runner = ag.Runner(ag.loop("l", [ag.parallel("p", agents)], max_iterations=2))
        events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
        assert len(events) == 4 * 3
        told = [event for event in events if not event.partial]
        assert sorted(runner.events("t"), key=told.index) == told

    def test_is_the_same_as_json(self, drive: Drive) -> None:
        call = {"name": "weather", "args": {"city": "Rome"}, "id": "1", "type": "tool_call"}
        model = scripted(AIMessage("One two.", tool_calls=[call]))
        events = list(drive.run(ag.Runner(ag.chat_agent("writer", model)), "Go.", stream=True))
        assert [ag.AgentEvent.from_dict(json.loads(json.dumps(e.to_dict()))) for e in events] == events

    def test_that_was_not_asked_for_tells_no_chunks(self, drive: Drive) -> None:
        model = scripted("One two three.")
        events = list(drive.run(ag.Runner(ag.chat_agent("writer", model)), "Go."))
        assert [event.partial for event in events] == [False]

    def test_goes_on_in_what_is_resumed(self, drive: Drive) -> None:
        tree = ag.sequential(
            "s", [ag.human("boss", "Well?"), ag.chat_agent("writer", scripted("One two."))]
        )
        runner = ag.Runner(tree)
        list(drive.run(runner, "Go.", thread_id="t", stream=True))
        events = list(drive.resume(runner, "t", "Write.", stream=True))
        assert [event.text for event in events] == ["Write.", "One ", "two.", "One two."]

    def test_of_branches_tells_each_chunk_under_its_own_agent(self, drive: Drive) -> None:
        names = [f"agent{i}" for i in range(8)]
        text = "one two three four five six seven eight nine ten"
        agents = [ag.chat_agent(name, scripted(f"{name} {text}")) for name in names]

        events = list(drive.run(ag.Runner(ag.parallel("all", agents)), "Go.", stream=True))

        for name in names:
            *chunks, whole = [event for event in events if event.agent_name == name]
            assert "".join(chunk.text for chunk in chunks) == whole.text == f"{name} {text}"
            assert all(chunk.partial for chunk in chunks)
            assert {(event.id, event.address) for event in chunks} == {(whole.id, f"all/{name}")}

    def test_tells_tool_calls_in_chunks_that_add_up(self, drive: Drive) -> None:
        call = {"name": "weather", "args": {"city": "Rome"}, "id": "1", "type": "tool_call"}
        model = scripted(AIMessage("", tool_calls=[call]))
        *chunks, whole = drive.run(ag.Runner(ag.chat_agent("writer", model)), "Go.", stream=True)
        messages: list[Any] = [chunk.message for chunk in chunks]
        assert [chunk.partial for chunk in chunks] == [True, True]
        assert (messages[0] + messages[1]).tool_calls == [call]
        assert isinstance(whole.message, AIMessage)
        assert whole.message.tool_calls == [call]
