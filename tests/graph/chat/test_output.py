"""Typed output: what a last reply must fit, and what becomes of one that does not."""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from helpers import Drive, Sync, failing, scripted
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from pydantic import BaseModel, Field, TypeAdapter

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, transcript

CONFIG: Any = {"configurable": {"thread_id": "t"}}
AGAIN = "Reply again, by calling response."


class Toolless(ScriptedChatModel):
    """Takes no tools."""

    bind_tools = BaseChatModel.bind_tools


class Place(BaseModel):
    name: str
    tags: list[str] = []


class Trip(BaseModel):
    title: str
    days: int = Field(default=1, ge=1)
    places: list[Place]


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer", "minimum": 1}},
    "required": ["city"],
}


def calling(name: str, **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": "1", "type": "tool_call"}])


def sent(messages: Iterable[BaseMessage]) -> list[str]:
    return [f"{message.type}: {message.text}" for message in messages if message.type != "system"]


def values(runner: ag.Runner) -> Any:
    return runner.graph.get_state(CONFIG).values["values"]


def history(runner: ag.Runner) -> list[str]:
    return sent(runner.graph.get_state(CONFIG).values["messages"])


def came_to(drive: Drive, schema: Any, reply: str) -> Any:
    """Return the value that a reply becomes."""
    runner = ag.Runner(ag.chat_agent("w", scripted(reply), output_schema=schema, output_key="out"))
    list(drive.run(runner, "Go.", thread_id="t"))
    return values(runner)["out"]


class TestAValue:
    @pytest.mark.parametrize(
        ("schema", "reply", "value"),
        [
            (
                Trip,
                '{"title": "Italy", "places": [{"name": "Rome"}, {"name": "Pisa", "tags": ["tower"]}]}',
                {
                    "title": "Italy",
                    "days": 1,
                    "places": [{"name": "Rome", "tags": []}, {"name": "Pisa", "tags": ["tower"]}],
                },
            ),
            (SCHEMA, '{"city": "Rome", "people": 3}', {"city": "Rome", "people": 3}),
            (SCHEMA, '{"city": "Rome"}', {"city": "Rome"}),
            (SCHEMA, '```json\n{"city": "Rome"}\n```', {"city": "Rome"}),
            (SCHEMA, 'Here it is:\n```\n{"city": "Rome"}\n```', {"city": "Rome"}),
            (SCHEMA, ' \n{"city": "{Rome}"}\n', {"city": "{Rome}"}),
            (list[int], "[1, 2]", [1, 2]),
            (int, "7", 7),
            (bool, "false", False),
            (str, '"Rome"', "Rome"),
            (int | None, "null", None),
            ({"enum": ["yes", "no"]}, '"no"', "no"),
        ],
    )
    def test_is_what_the_reply_says_as_plain_data(
        self, drive: Drive, schema: Any, reply: str, value: Any
    ) -> None:
        assert came_to(drive, schema, reply) == value

    def test_fills_the_template_of_a_later_agent_as_json(self, drive: Drive) -> None:
        later = scripted("Read.")
        first = ag.chat_agent("w", scripted('{"city":"Rome"}'), output_schema=SCHEMA, output_key="out")
        tree = ag.sequential("s", [first, ag.chat_agent("z", later, instruction="On {out}.")])
        list(drive.run(ag.Runner(tree), "Go."))
        assert later.inputs[0][0].text == 'On {"city": "Rome"}.'

    def test_is_kept_in_the_saver_as_plain_data(self, tmp_path: Path) -> None:
        reply = '{"title": "Italy", "places": []}'
        tree = ag.chat_agent("w", scripted(reply), output_schema=Trip, output_key="trip")
        with ag.sqlite_saver(tmp_path / "t.db") as saver:
            list(ag.Runner(tree, checkpointer=saver).run("Go.", thread_id="t"))
        with ag.sqlite_saver(tmp_path / "t.db") as saver:
            assert values(ag.Runner(tree, checkpointer=saver)) == {
                "trip": {"title": "Italy", "days": 1, "places": []}
            }

    def test_is_not_written_without_an_output_key_but_checked(self, drive: Drive) -> None:
        model = scripted("Rome", '{"city": "Rome"}')
        runner = ag.Runner(ag.chat_agent("w", model, output_schema=SCHEMA))
        assert transcript(drive.run(runner, "Go.", thread_id="t")) == ['w: {"city": "Rome"}']
        assert values(runner) == {}

    def test_is_of_the_reply_behind_the_tools(self, drive: Drive) -> None:
        def weather(city: str) -> str:
            """Tells the weather."""
            return f"Rain in {city}."

        model = scripted(calling("weather", city="Rome"), "Rome.", '{"city": "Rome"}')
        tree = ag.chat_agent(
            "w", model, tools=[weather], output_schema=SCHEMA, output_key="out", max_iterations=2
        )
        runner = ag.Runner(tree)
        assert transcript(drive.run(runner, "Go.", thread_id="t"))[1:] == [
            "w: Rain in Rome.",
            'w: {"city": "Rome"}',
        ]
        assert values(runner) == {"out": {"city": "Rome"}}
        assert sent(model.inputs[2])[-3:] == [
            "tool: Rain in Rome.",
            "ai: Rome.",
            f"human: The reply does not fit the schema: it is not valid JSON. {AGAIN}",
        ]

    def test_may_be_corrected_by_calling_a_tool_first(self, drive: Drive) -> None:
        def weather(city: str) -> str:
            """Tells the weather."""
            return f"Rain in {city}."

        model = scripted("I do not know.", calling("weather", city="Rome"), '{"city": "Rome"}')
        tree = ag.chat_agent("w", model, tools=[weather], output_schema=SCHEMA, output_key="out")
        runner = ag.Runner(tree)
        assert transcript(drive.run(runner, "Go.", thread_id="t"))[1:] == [
            "w: Rain in Rome.",
            'w: {"city": "Rome"}',
        ]
        assert sent(model.inputs[2]) == ["human: Go.", "ai: ", "tool: Rain in Rome."]

    @pytest.mark.parametrize(
        ("result", "value"), [('{"city": "Rome"}', {"out": {"city": "Rome"}}), ("Rome.", {})]
    )
    def test_is_the_result_of_a_tool_that_ends_the_agent_where_it_fits(
        self, drive: Drive, result: str, value: Any
    ) -> None:
        def answer() -> str:
            """Answers."""
            return result

        tree = ag.chat_agent(
            "w",
            scripted(calling("answer")),
            tools=[answer],
            return_directly=["answer"],
            output_schema=SCHEMA,
            output_key="out",
        )
        runner = ag.Runner(tree)
        assert transcript(drive.run(runner, "Go.", thread_id="t"))[1:] == [f"w: {result}"]
        assert values(runner) == value

    def test_is_the_final_result_of_an_exit(self, drive: Drive) -> None:
        model = scripted(calling("exit", final_result='{"city": "Rome"}'))
        tree = ag.chat_agent("w", model, exit_tool=True, output_schema=SCHEMA, output_key="out")
        runner = ag.Runner(ag.sequential("s", [tree]))
        list(drive.run(runner, "Go.", thread_id="t"))
        assert values(runner) == {"out": {"city": "Rome"}}

    def test_is_made_from_blocks_of_text(self, drive: Drive) -> None:
        blocks = [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": '{"city": "Rome"}'}]
        tree = ag.chat_agent("w", scripted(AIMessage(blocks)), output_schema=SCHEMA, output_key="out")
        runner = ag.Runner(tree)
        list(drive.run(runner, "Go.", thread_id="t"))
        assert values(runner) == {"out": {"city": "Rome"}}

    def test_without_a_schema_is_the_text(self, drive: Drive) -> None:
        assert came_to(drive, None, '{"city": "Rome"}') == '{"city": "Rome"}'

    def test_of_an_agent_as_a_tool_is_its_callers(self, drive: Drive) -> None:
        inner = ag.chat_agent("f", scripted('{"city":"Rome"}'), output_schema=SCHEMA, output_key="out")
        model = scripted(calling("f", request="x"), "Done.")
        runner = ag.Runner(ag.chat_agent("w", model, tools=[ag.agent_tool(inner)]))
        list(drive.run(runner, "Go.", thread_id="t"))
        assert values(runner) == {"out": {"city": "Rome"}}
        assert sent(model.inputs[1])[-1] == 'tool: {"city":"Rome"}'


class TestTheInstruction:
    def test_tells_the_schema_behind_what_is_filled(self) -> None:
        model = Toolless(responses=['{"city": "Rome"}'])
        tree = ag.chat_agent("w", model, instruction="On {topic}.", output_schema=SCHEMA)
        list(ag.Runner(tree).run("Go.", values={"topic": "bees", "city": "NO"}))
        assert model.inputs[0][0].text == (
            "On bees.\n\n"
            "Your last reply must be JSON that fits this JSON schema, and nothing else:\n"
            f"{json.dumps(SCHEMA)}"
        )

    def test_tells_the_json_schema_of_a_type(self) -> None:
        model = Toolless(responses=['{"title": "Italy", "places": []}'])
        list(ag.Runner(ag.chat_agent("w", model, output_schema=Trip)).run("Go."))
        _, _, told = str(model.inputs[0][0].text).partition("\n")
        assert json.loads(told) == TypeAdapter(Trip).json_schema()

    def test_tells_the_transfers_before_the_schema(self) -> None:
        model = scripted('["Rome"]')
        child = ag.chat_agent("C", scripted(), description="Knows {bees}.")
        tree = ag.chat_agent(
            "w", model, instruction="Be kind.", sub_agents=[child], output_schema=list[str]
        )
        list(ag.Runner(tree).run("Go."))
        parts = str(model.inputs[0][0].text).split("\n\n")
        assert [part.partition(" ")[0] for part in parts] == ["Be", "You", "Your"]
        assert parts[1].endswith("- transfer_to_C: Knows {bees}.")


class TestAReplyThatDoesNotFit:
    @pytest.mark.parametrize(
        ("reply", "why"),
        [
            ("Rome.", "it is not valid JSON"),
            ("", "it is not valid JSON"),
            ('{"city": "Rome"', "it is not valid JSON"),
            ('{"people": 3}', "city: Field required"),
            ('{"city": 3}', "city: Input should be a valid string"),
            ('{"city": "Rome", "people": 0}', "people: Input should be greater than or equal to 1"),
            ("[]", "Input should be an object"),
        ],
    )
    def test_goes_back_with_what_is_wrong(self, drive: Drive, reply: str, why: str) -> None:
        model = scripted(reply, '{"city": "Rome"}')
        runner = ag.Runner(ag.chat_agent("w", model, output_schema=SCHEMA, output_key="out"))
        assert transcript(drive.run(runner, "Go.", thread_id="t")) == ['w: {"city": "Rome"}']
        assert sent(model.inputs[1]) == [
            "human: Go.",
            f"ai: {reply}",
            f"human: The reply does not fit the schema: {why}. {AGAIN}",
        ]

    def test_goes_back_twice_with_all_that_was_wrong(self, drive: Drive) -> None:
        model = scripted("Rome.", '{"people": 3}', '{"city": "Rome"}')
        runner = ag.Runner(ag.chat_agent("w", model, output_schema=SCHEMA, output_key="out"))
        list(drive.run(runner, "Go.", thread_id="t"))
        assert sent(model.inputs[2]) == [
            "human: Go.",
            "ai: Rome.",
            f"human: The reply does not fit the schema: it is not valid JSON. {AGAIN}",
            'ai: {"people": 3}',
            f"human: The reply does not fit the schema: city: Field required. {AGAIN}",
        ]

    def test_is_not_in_the_history(self, drive: Drive) -> None:
        after = scripted("Read.")
        first = ag.chat_agent("w", scripted("Rome.", '{"city": "Rome"}'), output_schema=SCHEMA)
        runner = ag.Runner(ag.sequential("s", [first, ag.chat_agent("z", after)]))
        list(drive.run(runner, "Go.", thread_id="t"))
        assert history(runner) == ["human: Go.", 'ai: {"city": "Rome"}', "ai: Read."]
        assert sent(after.inputs[0]) == ["human: Go.", 'human: [w] said: {"city": "Rome"}']

    def test_is_not_told_but_for_its_chunks_which_are_discarded(self, drive: Drive) -> None:
        model = scripted("In Rome.", '{"people": 3}', '{"city": "Rome"}')
        runner = ag.Runner(ag.chat_agent("w", model, output_schema=SCHEMA))
        events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
        assert [(event.kind, event.partial, event.text) for event in events] == [
            ("message", True, "In "),
            ("message", True, "Rome."),
            ("discarded", False, ""),
            ("message", True, '{"people": '),
            ("message", True, "3}"),
            ("discarded", False, ""),
            ("message", True, '{"city": '),
            ("message", True, '"Rome"}'),
            ("message", False, '{"city": "Rome"}'),
        ]
        first, second, third = events[0].id, events[3].id, events[6].id
        assert len({first, second, third}) == 3
        told = [event.action.discarded for event in events if event.action]
        assert told == [(first,), (second,)]
        assert {e.id for e in events[6:]} == {third}
        assert {(e.agent_name, e.address, str(e.run_path)) for e in events} == {("w", "w", "w")}
        assert list(runner.events("t")) == events[-1:]

    def test_for_the_third_time_is_an_error_that_resume_tries_again(self, drive: Drive) -> None:
        model = scripted("a", "b", '{"people": 3}', "c", '{"city": "Rome"}')
        writer = ag.chat_agent("w", model, output_schema=SCHEMA, output_key="out")
        runner = ag.Runner(ag.sequential("s", [writer]))
        events, raised = failing(drive.run(runner, "Go.", thread_id="t"), ag.InvalidOutputError)
        assert str(raised) == (
            "s/w: none of 3 replies fits the output_schema. The reply does not fit the schema: city: "
            "Field required. Use a model that keeps to schemas, or a simpler schema"
        )
        assert transcript(events) == [f"s/w: [error] {raised!r}"]
        assert transcript(drive.resume(runner, "t")) == ['s/w: {"city": "Rome"}']
        assert sent(model.inputs[3]) == ["human: Go."]
        assert history(runner) == ["human: Go.", 'ai: {"city": "Rome"}']
        assert values(runner) == {"out": {"city": "Rome"}}

    def test_in_a_branch_fails_that_branch(self, drive: Drive) -> None:
        bad = ag.chat_agent("bad", scripted("a", "b", "c", '{"city": "Rome"}'), output_schema=SCHEMA)
        good = scripted("Good.")
        runner = ag.Runner(ag.parallel("p", [bad, ag.chat_agent("good", good)]))
        _, raised = failing(drive.run(runner, "Go.", thread_id="t"), ag.InvalidOutputError)
        assert str(raised).startswith("p/bad: none of 3 replies fits the output_schema. ")
        assert 'p/bad: {"city": "Rome"}' in transcript(drive.resume(runner, "t"))
        assert len(good.inputs) == 1

    def test_costs_no_iterations_but_counts_as_calls_of_the_model(self, drive: Drive) -> None:
        def note() -> str:
            """Notes."""
            return "Noted."

        model = scripted("a", calling("note"), '{"city": "Rome"}')
        tree = ag.chat_agent("w", model, tools=[note], output_schema=SCHEMA, max_iterations=3)
        assert transcript(drive.run(ag.Runner(tree), "Go."))[-1] == 'w: {"city": "Rome"}'

    def test_is_tried_again_in_another_process(self, drive: Drive, tmp_path: Path) -> None:
        model = scripted("a", "b", "c", '{"city": "Rome"}')
        tree = ag.chat_agent("w", model, output_schema=SCHEMA, output_key="out")
        told: list[str] = []

        def run(method: str, *args: Any, **options: Any) -> None:
            with ag.sqlite_saver(tmp_path / "t.db") as saver:
                runner = ag.Runner(tree, checkpointer=saver)
                told.extend(transcript(getattr(runner, method)(*args, **options)))

        async def arun(method: str, *args: Any, **options: Any) -> None:
            async with ag.async_sqlite_saver(tmp_path / "t.db") as saver:
                events = getattr(ag.Runner(tree, checkpointer=saver), f"a{method}")(*args, **options)
                told.extend(transcript([event async for event in events]))

        def once(method: str, *args: Any, **options: Any) -> None:
            if drive is Sync:
                run(method, *args, **options)
            else:
                asyncio.run(arun(method, *args, **options))

        with pytest.raises(ag.InvalidOutputError):
            once("run", "Go.", thread_id="t")
        once("resume", "t")
        assert told == ['w: {"city": "Rome"}']


class TestASchema:
    @pytest.mark.parametrize(
        ("schema", "fault"),
        [
            (
                {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}},
                "w: the output schema {'type': 'object', 'properties': {'a': {'$ref': '#/$defs/a'}}} "
                "is neither a type nor a JSON schema (it refers to '#/$defs/a', which is not in it)",
            ),
            (
                {"type": "thing"},
                "w: the output schema {'type': 'thing'} is neither a type nor a JSON schema (type: "
                "must be one of ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string'])",
            ),
        ],
    )
    def test_that_cannot_be_checked_is_a_fault(self, schema: Any, fault: str) -> None:
        with pytest.raises(ag.InvalidAgentError) as caught:
            ag.compile_agent(ag.chat_agent("w", scripted(), output_schema=schema))
        assert str(caught.value) == fault

    @pytest.mark.parametrize("schema", [print, 3, "text"])
    def test_that_is_none_is_a_fault(self, schema: Any) -> None:
        with pytest.raises(ag.InvalidAgentError) as caught:
            ag.compile_agent(ag.chat_agent("w", scripted(), output_schema=schema))
        assert str(caught.value).startswith(
            f"w: the output schema {schema!r} is neither a type nor a JSON schema ("
        )
