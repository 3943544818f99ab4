"""Structured answers as LangChain has them: by the provider, by a tool, and what others see of them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from helpers import Drive, Sync, fresh, says, scripted, shapes
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, after_agent, after_model, wrap_model_call
from langchain.agents.structured_output import (
    ProviderStrategy,
    StructuredOutputValidationError,
    ToolStrategy,
)
from langchain_core.messages import AIMessage
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls, transcript

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Trip(BaseModel):
    city: str
    days: int = Field(default=1, ge=1)
    begin: date | None = None


class Refusal(BaseModel):
    why: str


@dataclass
class Place:
    city: str


class Dish(TypedDict):
    city: str


SCHEMA = {
    "title": "Town",
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}


def look(city: str) -> str:
    """Looks something up."""
    return f"{city} is old."


def native(*responses: Any) -> ScriptedChatModel:
    """Return a model whose provider keeps to schemas."""
    return ScriptedChatModel(responses=list(responses), profile={"structured_output": True})


def answering(name: str = "Trip", /, **args: Any) -> AIMessage:
    return calls(call(name, **args))


def state(runner: ag.Runner) -> Any:
    return runner.graph.get_state(CONFIG).values


def ran(drive: Drive, model: Any, schema: Any, **options: Any) -> tuple[list[str], Any]:
    """Return what a run told, and its values."""
    runner = ag.Runner(ag.chat_agent("w", model, output_schema=schema, output_key="out", **options))
    told = transcript(drive.run(runner, "Go.", thread_id="t"))
    return told, state(runner)["values"].get("out")


def both(drive: Drive, make: Callable[[], Any], schema: Any, **options: Any) -> tuple[Any, Any]:
    """Return the messages of our agent, and of LangChain's."""
    runner = ag.Runner(ag.chat_agent("w", make(), output_schema=schema, **options))
    list(drive.run(runner, "Go.", thread_id="t"))
    theirs = create_agent(make(), response_format=schema, **options)
    found = theirs.invoke({"messages": [("user", "Go.")]})
    return shapes(state(runner)["messages"]), shapes(found["messages"])


class TestByTheProvider:
    def test_the_answer_is_what_the_model_says(self, drive: Drive) -> None:
        model = native('{"city": "Rome"}')
        told, value = ran(drive, model, Trip)
        assert told == ['w: {"city": "Rome"}']
        assert value == {"city": "Rome", "days": 1, "begin": None}
        assert model.settings[0]["response_format"]["json_schema"]["name"] == "Trip"
        assert [message.type for message in model.inputs[0]] == ["human"]

    @pytest.mark.parametrize("schema", [Trip, Place, Dish, SCHEMA, ProviderStrategy(Trip, strict=True)])
    def test_the_messages_are_those_of_create_agent(self, drive: Drive, schema: Any) -> None:
        ours, theirs = both(drive, lambda: native('{"city": "Rome"}'), schema)
        assert ours == theirs

    def test_tools_come_before_the_answer(self, drive: Drive) -> None:
        def make() -> Any:
            return native(calls(call("look", city="Rome")), '{"city": "Rome"}')

        ours, theirs = both(drive, make, Trip, tools=[look])
        assert ours == theirs
        assert len(ours) == 4

    def test_what_was_bound_to_the_model_stays(self, drive: Drive) -> None:
        model = native('{"city": "Rome"}')
        ran(drive, model.bind(temperature=0.5), Trip)
        assert model.settings[0]["temperature"] == 0.5
        assert "response_format" in model.settings[0]

    @pytest.mark.parametrize(
        ("reply", "why"), [("Rome.", "it is not valid JSON"), ('{"days": 2}', "city: Field required")]
    )
    def test_an_answer_that_does_not_fit_goes_back(self, drive: Drive, reply: str, why: str) -> None:
        model = native(reply, '{"city": "Rome"}')
        told, value = ran(drive, model, Trip)
        assert told == ['w: {"city": "Rome"}']
        assert value["city"] == "Rome"
        assert [message.text for message in model.inputs[1]][1:] == [
            reply,
            f"The reply does not fit the schema: {why}. Reply again, with the JSON alone.",
        ]

    def test_the_third_one_that_does_not_fit_is_an_error(self, drive: Drive) -> None:
        with pytest.raises(ag.InvalidOutputError) as caught:
            ran(drive, native("a", "b", "c"), Trip)
        assert str(caught.value) == (
            "w: none of 3 replies fits the output_schema. The reply does not fit the schema: it is not "
            "valid JSON. Use a model that keeps to schemas, or a simpler schema"
        )

    def test_a_schema_that_is_not_an_object_is_told_in_the_instruction(self, drive: Drive) -> None:
        model = native("[1, 2]")
        assert ran(drive, model, list[int]) == (["w: [1, 2]"], [1, 2])
        assert model.settings == [{}]
        assert "JSON schema" in model.inputs[0][0].text


class TestByATool:
    @pytest.mark.parametrize(
        ("schema", "name"), [(Trip, "Trip"), (Place, "Place"), (Dish, "Dish"), (SCHEMA, "Town")]
    )
    def test_the_answer_is_what_the_tool_is_called_with(
        self, drive: Drive, schema: Any, name: str
    ) -> None:
        model = scripted(answering(name, city="Rome"))
        told, value = ran(drive, model, schema)
        assert value["city"] == "Rome"
        assert told == [f'w: [calls] {name}({{"city": "Rome"}})', f"w: {json.dumps(value)}"]
        assert model.settings == [{"tool_choice": "any"}]
        assert [tool["function"]["name"] for tool in model.tools] == [name]

    def test_the_messages_are_those_of_create_agent_but_for_the_text_of_the_result(
        self, drive: Drive
    ) -> None:
        def make() -> Any:
            return scripted(
                calls(call("look", "a", city="Rome")), calls(call("Trip", "b", city="Rome"))
            )

        ours, theirs = both(drive, make, Trip, tools=[look])
        assert ours[:-1] == theirs[:-1]
        assert ours[-1][1] == '{"city": "Rome", "days": 1, "begin": null}'
        assert theirs[-1][1] == "Returning structured response: city='Rome' days=1 begin=None"
        assert ours[-1][2:] == theirs[-1][2:]

    def test_a_result_that_the_strategy_words_says_that(self, drive: Drive) -> None:
        schema = ToolStrategy(Trip, tool_message_content="Booked.")
        ours, theirs = both(drive, lambda: scripted(answering(city="Rome")), schema)
        assert ours == theirs

    def test_several_schemas_are_several_tools(self, drive: Drive) -> None:
        for made in (scripted, native):
            told, value = ran(drive, made(answering("Refusal", why="No.")), Trip | Refusal)
            assert told == ['w: [calls] Refusal({"why": "No."})', 'w: {"why": "No."}']
            assert value == {"why": "No."}

    def test_several_json_schemas_without_titles_are_told_apart(self, drive: Drive) -> None:
        one, other = ({"type": "object", "properties": {name: {"type": "string"}}} for name in "ab")
        model = scripted(answering("response_2", b="x"))
        _, value = ran(drive, model, {"oneOf": [one, other]})
        assert value == {"b": "x"}
        assert [tool["function"]["name"] for tool in model.tools] == ["response", "response_2"]

    def test_an_answer_in_plain_text_that_fits_is_taken(self, drive: Drive) -> None:
        told, value = ran(drive, scripted('```json\n{"city": "Rome"}\n```'), Trip)
        assert told == ['w: ```json\n{"city": "Rome"}\n```']
        assert value["days"] == 1

    def test_an_answer_in_plain_text_that_does_not_fit_goes_back(self, drive: Drive) -> None:
        model = scripted("Rome.", answering(city="Rome"))
        told, _ = ran(drive, model, Trip)
        assert told[0] == 'w: [calls] Trip({"city": "Rome"})'
        assert model.inputs[1][-1].text == (
            "The reply does not fit the schema: it is not valid JSON. Reply again, by calling Trip."
        )

    @pytest.mark.parametrize(
        "handle",
        [True, "Say it again.", ValueError, (StructuredOutputValidationError,), lambda error: "Again!"],
    )
    @pytest.mark.parametrize(
        "bad", [answering(days=2), calls(call("Trip", "1", city="a"), call("Trip", "2", city="b"))]
    )
    def test_errors_are_handled_as_the_strategy_says(
        self, drive: Drive, handle: Any, bad: AIMessage
    ) -> None:
        schema = ToolStrategy(Trip, handle_errors=handle, tool_message_content="Booked.")

        def make() -> Any:
            return scripted(bad, calls(call("Trip", "3", city="Rome")))

        try:
            ours, theirs = both(drive, make, schema)
        except Exception as error:  # it is handled by neither
            with pytest.raises(type(error)):
                create_agent(make(), response_format=schema).invoke({"messages": [("user", "Go.")]})
        else:
            assert ours == theirs
            assert len(ours) > 4

    def test_an_error_that_is_not_handled_names_the_agent(self, drive: Drive) -> None:
        schema = ToolStrategy(Trip, handle_errors=False)
        with pytest.raises(StructuredOutputValidationError) as caught:
            ran(drive, scripted(answering(days=2)), schema)
        assert any("the agent 'w', at w" in note for note in caught.value.__notes__)

    def test_the_third_call_that_does_not_fit_is_an_error(self, drive: Drive) -> None:
        model = scripted(*[answering(days=2)] * 3, answering(city="Rome"))
        runner = ag.Runner(ag.chat_agent("w", model, output_schema=Trip, output_key="out"))
        with pytest.raises(ag.InvalidOutputError) as caught:
            list(drive.run(runner, "Go.", thread_id="t"))
        assert str(caught.value).startswith(
            "w: none of 3 replies fits the output_schema. Error: Failed to parse structured output for "
            "tool 'Trip': "
        )
        list(drive.resume(runner, "t"))
        assert state(runner)["values"]["out"]["city"] == "Rome"

    def test_a_model_that_falls_back_on_others_answers_as_all_of_them_can(self, drive: Drive) -> None:
        answer = answering(city="Rome")
        for first in (scripted(OSError("no line")), native(OSError("no line"))):
            second = native(answer) if first.profile is None else native('{"city": "Rome"}')
            _, value = ran(drive, first.with_fallbacks([second]), Trip)
            assert value["city"] == "Rome"
            assert ("response_format" in second.settings[0]) is (first.profile is not None)

    def test_a_runnable_around_a_model_is_told_in_the_instruction(self, drive: Drive) -> None:
        model = scripted('{"city": "Rome"}')
        _, value = ran(drive, model.with_retry(), Trip)
        assert value["city"] == "Rome"
        assert "JSON schema" in model.inputs[0][0].text

    def test_arguments_that_do_not_fit_a_json_schema_go_back(self, drive: Drive) -> None:
        model = scripted(answering("Town", city=3), answering("Town", city="Rome"))
        told, value = ran(drive, model, SCHEMA)
        assert value == {"city": "Rome"}
        assert len(told) == 2
        assert model.inputs[1][-1].text == (
            "The reply does not fit the schema: city: Input should be a valid string. Reply again, by "
            "calling Town."
        )

    def test_arguments_that_are_no_json_go_back(self, drive: Drive) -> None:
        broken = AIMessage(
            "",
            invalid_tool_calls=[
                {"name": "Trip", "args": "{", "id": "1", "error": None, "type": "invalid_tool_call"}
            ],
        )
        for tools in ([], [look]):
            model = scripted(broken, answering(city="Rome"))
            told, _ = ran(drive, model, Trip, tools=tools)
            assert len(told) == 2
            assert "the arguments of Trip are not valid JSON" in model.inputs[1][-1].text

    @pytest.mark.parametrize("in_turn", [True, False])
    def test_tools_called_beside_the_answer_run_and_then_it_ends(
        self, drive: Drive, in_turn: bool
    ) -> None:
        model = scripted(calls(call("Trip", city="Rome"), call("look", city="Rome")))
        told, value = ran(drive, model, Trip, tools=[look], parallel_tools=in_turn)
        assert told[1:] == ['w: {"city": "Rome", "days": 1, "begin": null}', "w: Rome is old."]
        assert value["city"] == "Rome"

    def test_the_last_answer_without_tools_fits(self, drive: Drive) -> None:
        asked = calls(call("look", city="Rome"))
        for model in (
            scripted(asked, answering(days=0), answering(city="Rome")),
            native(asked, "Rome", '{"city": "Rome"}'),
        ):
            _, value = ran(
                drive, model, Trip, tools=[look], max_iterations=1, on_max_iterations="answer"
            )
            assert value["city"] == "Rome"
        assert [tool["function"]["name"] for tool in model.tools] == []

    def test_a_tool_of_the_same_name_is_a_fault(self) -> None:
        def Trip(city: str) -> str:  # noqa: N802
            """Books."""
            return city

        schema = {**SCHEMA, "title": "Trip"}
        with pytest.raises(ag.InvalidAgentError) as caught:
            ag.compile_agent(ag.chat_agent("w", scripted(), tools=[Trip], output_schema=schema))
        assert str(caught.value) == (
            "w: the tool 'Trip' has the name of the output schema; rename the tool, or give the schema "
            "another title"
        )


class TestOthers:
    def test_see_one_thing_said(self, drive: Drive) -> None:
        after = scripted("Read.")
        first = ag.chat_agent("w", scripted(answering(city="Rome")), output_schema=Trip)
        list(drive.run(ag.Runner(ag.sequential("s", [first, ag.chat_agent("z", after)])), "Go."))
        assert [message.text for message in after.inputs[0]] == [
            "Go.",
            '[w] said: {"city": "Rome", "days": 1, "begin": null}',
        ]

    def test_see_what_was_said_beside_it(self, drive: Drive) -> None:
        after = scripted("Read.")
        reply = calls(call("Trip", city="Rome"), text="Here it is.")
        first = ag.chat_agent("w", scripted(reply), output_schema=Trip)
        list(drive.run(ag.Runner(ag.sequential("s", [first, ag.chat_agent("z", after)])), "Go."))
        assert [message.text for message in after.inputs[0]][1] == "[w] said: Here it is."

    @pytest.mark.parametrize("history", ["shared", "own", "last", "input"])
    def test_the_agent_itself_sees_calls_with_their_results(self, drive: Drive, history: Any) -> None:
        model = scripted(answering(city="Rome"), answering(city="Pisa"))
        agent = ag.chat_agent("w", model, output_schema=Trip, output_key="out", history=history)
        runner = ag.Runner(ag.sequential("s", [says("a"), agent]))
        list(drive.run(runner, "Go.", thread_id="t"))
        list(drive.run(runner, "And?", thread_id="t"))
        assert state(runner)["values"]["out"]["city"] == "Pisa"

    def test_are_given_it_as_the_result_of_an_agent_as_a_tool(self, drive: Drive) -> None:
        inner = ag.chat_agent("f", scripted(answering(city="Rome")), output_schema=Trip)
        model = scripted(calls(call("f", request="x")), "Done.")
        runner = ag.Runner(ag.chat_agent("w", model, tools=[ag.agent_tool(inner)]))
        list(drive.run(runner, "Go."))
        assert model.inputs[1][-1].text == '{"city": "Rome", "days": 1, "begin": null}'

    def test_a_transfer_is_no_answer(self, drive: Drive) -> None:
        child = ag.chat_agent("c", scripted("Hello."))
        model = scripted(calls(call("transfer_to_c")))
        told, value = ran(drive, model, Trip, sub_agents=[child])
        assert told[-1] == "w/c: Hello."
        assert value is None

    def test_branches_each_have_their_own(self, drive: Drive) -> None:
        inner = [
            ag.chat_agent(n, scripted(answering(city=n)), output_schema=Trip, output_key=n)
            for n in "ab"
        ]
        runner = ag.Runner(ag.parallel("p", inner))
        list(drive.run(runner, "Go.", thread_id="t"))
        found = state(runner)["values"]
        assert [found[n]["city"] for n in "ab"] == ["a", "b"]

    def test_a_stream_tells_what_was_said_and_the_thread_tells_the_same(self, drive: Drive) -> None:
        model = scripted("Rome.", answering(city="Rome"))
        runner = ag.Runner(ag.chat_agent("w", model, output_schema=Trip))
        events = list(drive.run(runner, "Go.", thread_id="t", stream=True))
        voided = {each for event in events if event.action for each in event.action.discarded}
        whole = [e for e in events if not e.partial and e.kind == "message"]
        assert list(runner.events("t")) == whole
        assert not voided & {event.id for event in whole}
        assert voided == {events[0].id}


class TestMiddleware:
    @pytest.mark.parametrize(
        ("make", "schema"),
        [
            (lambda: scripted(answering(city="Rome", begin="2026-01-02")), Trip),
            (lambda: native('{"city": "Rome", "begin": "2026-01-02"}'), Trip),
            (lambda: scripted(answering("Place", city="Rome")), Place),
            (lambda: scripted(answering("Town", city="Rome")), SCHEMA),
            (lambda: scripted(answering("Refusal", why="x")), ToolStrategy(Trip | Refusal)),
        ],
    )
    def test_sees_the_answer_as_in_create_agent(self, drive: Drive, make: Any, schema: Any) -> None:
        seen: list[Any] = []

        @after_model
        def look_at(state: Any, runtime: Any) -> None:
            seen.append(state.get("structured_response"))

        @after_agent
        def look_last(state: Any, runtime: Any) -> None:
            seen.append(state.get("structured_response"))

        middleware = [look_at, look_last]
        create_agent(make(), response_format=schema, middleware=middleware).invoke(
            {"messages": [("user", "Go.")]}
        )
        theirs = seen[:]
        seen.clear()
        _, value = ran(drive, make(), schema, middleware=middleware)
        assert seen == theirs
        assert [type(each) for each in seen] == [type(each) for each in theirs]
        assert value == json.loads(json.dumps(value))

    def test_sees_it_in_another_process(self, drive: Drive, tmp_path: Path) -> None:
        seen: list[Any] = []

        @after_agent
        def fails(state: Any, runtime: Any) -> None:
            seen.append(state["structured_response"])
            if len(seen) == 1:
                raise OSError("no disk")

        agent = ag.chat_agent(
            "w",
            scripted(answering(city="Rome", begin="2026-01-02")),
            output_schema=Trip,
            output_key="out",
            middleware=[fails],
        )
        with pytest.raises(OSError, match="no disk"):
            fresh(drive, tmp_path / "t.db", agent, "run", "Go.", thread_id="t")
        fresh(drive, tmp_path / "t.db", agent, "resume", "t")
        assert seen == [Trip(city="Rome", begin=date(2026, 1, 2))] * 2

    def test_may_replace_the_answer(self, drive: Drive) -> None:
        @after_agent
        def longer(state: Any, runtime: Any) -> Any:
            return {"structured_response": state["structured_response"].model_copy(update={"days": 9})}

        _, value = ran(drive, scripted(answering(city="Rome")), Trip, middleware=[longer])
        assert value["days"] == 9

    @pytest.mark.parametrize("later", [Refusal, ToolStrategy(Refusal), None])
    def test_may_ask_for_another_format(self, drive: Drive, later: Any) -> None:
        @wrap_model_call
        def other(request: Any, handler: Any) -> Any:
            return handler(request.override(response_format=later))

        class Async(AgentMiddleware[Any, Any, Any]):
            async def awrap_model_call(self, request: Any, handler: Any) -> Any:
                return await handler(request.override(response_format=later))

        chosen: Any = other if drive is Sync else Async()
        if later is None:
            assert ran(drive, scripted("Rome."), Trip, middleware=[chosen]) == (["w: Rome."], "Rome.")
            return
        schema = ToolStrategy(Trip | Refusal)
        model = scripted("No.", answering("Refusal", why="No."))
        _, value = ran(drive, model, schema, middleware=[chosen])
        assert value == {"why": "No."}
        assert [tool["function"]["name"] for tool in model.tools] == ["Refusal"]
        assert model.inputs[1][-1].text.endswith("Reply again, by calling Refusal.")

    def test_may_choose_another_model(self, drive: Drive) -> None:
        other = native('{"city": "Rome"}')

        class Choosing(AgentMiddleware[Any, Any, Any]):
            def wrap_model_call(self, request: Any, handler: Any) -> Any:
                return handler(request.override(model=other))

            async def awrap_model_call(self, request: Any, handler: Any) -> Any:
                return await handler(request.override(model=other))

        _, value = ran(drive, scripted(), Trip, middleware=[Choosing()])
        assert value["city"] == "Rome"
        assert "response_format" in other.settings[0]


class Plan(BaseModel):
    steps: list[str]


class TestWhatReadsTheAnswer:
    @pytest.mark.parametrize(
        "make",
        [lambda: native('{"steps": ["Look."]}'), lambda: scripted(answering("Plan", steps=["Look."]))],
    )
    def test_a_plan_is_read_from_it(self, drive: Drive, make: Any) -> None:
        plan = ag.plan_execute(
            "p",
            planner=ag.chat_agent("planner", make(), output_schema=Plan),
            executor=scripted("Seen."),
            replanner=scripted('{"answer": "Yes."}'),
        )
        assert transcript(drive.run(ag.Runner(plan), "Go."))[-1] == "p: Yes."

    def test_a_check_is_given_it_and_may_send_it_back(self, drive: Drive) -> None:
        def is_short(text: str) -> str | None:
            return None if json.loads(text)["days"] < 5 else "it is too long"

        model = scripted(answering(city="Rome", days=9), answering(city="Rome", days=2))
        agent = ag.chat_agent("w", model, output_schema=Trip, output_key="out")
        runner = ag.Runner(ag.validated(agent, is_short))
        list(drive.run(runner, "Go.", thread_id="t"))
        assert state(runner)["values"]["out"]["days"] == 2
        assert [message.type for message in model.inputs[1]] == ["human", "ai", "tool", "human"]

    def test_a_template_and_each_worker_of_a_supervisor(self, drive: Drive) -> None:
        worker = ag.chat_agent(
            "x", scripted(answering(city="Rome")), output_schema=Trip, output_key="x"
        )
        model = scripted(calls(call("x", request="Go.")), answering("Refusal", why="Done."))
        boss = ag.supervisor("b", model, [worker], output_schema=Refusal, output_key="out")
        last = scripted("Read.")
        runner = ag.Runner(
            ag.sequential(
                "s", [boss, ag.chat_agent("z", last, instruction="{out} {x}", history="last")]
            )
        )
        list(drive.run(runner, "Go.", thread_id="t"))
        assert [message.text for message in last.inputs[0]] == [
            '{"why": "Done."} {"city": "Rome", "days": 1, "begin": null}',
            "Go.",
            '[b] said: {"why": "Done."}',
        ]

    def test_a_jump_back_to_the_model_asks_for_another_answer(self, drive: Drive) -> None:
        jumps: list[bool] = []

        @after_model(can_jump_to=["model"])
        def again(state: Any, runtime: Any) -> Any:
            jumps.append(True)
            return {"jump_to": "model"} if len(jumps) == 1 else None

        for model, schema in (
            (native('{"city": "Rome"}', '{"city": "Pisa"}'), Trip),
            (scripted(answering(city="Rome"), answering(city="Pisa")), Trip),
            (scripted('["Rome"]', '["Pisa"]'), list[str]),
        ):
            jumps.clear()
            _, value = ran(drive, model, schema, middleware=[again])
            assert "Pisa" in (value["city"] if schema is Trip else value)

    def test_a_run_goes_on_in_another_process_with_tools_beside_the_answer(
        self, drive: Drive, tmp_path: Path
    ) -> None:
        tries: list[str] = []

        def book(city: str) -> str:
            """Books."""
            tries.append(city)
            if len(tries) == 1:
                raise OSError("no line")
            return "Booked."

        model = scripted(calls(call("Trip", city="Rome"), call("book", city="Rome")))
        agent = ag.chat_agent(
            "w", model, tools=[book], output_schema=Trip, output_key="out", on_tool_error="raise"
        )
        with pytest.raises(OSError, match="no line"):
            fresh(drive, tmp_path / "t.db", agent, "run", "Go.", thread_id="t")
        told = fresh(drive, tmp_path / "t.db", agent, "resume", "t")
        assert transcript(told) == ["w: Booked."]
        with ag.sqlite_saver(tmp_path / "t.db") as saver:
            assert state(ag.Runner(agent, checkpointer=saver))["values"]["out"]["city"] == "Rome"
