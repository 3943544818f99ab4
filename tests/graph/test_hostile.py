"""What nobody wishes for: odd names and arguments, huge texts, models that misbehave."""

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from helpers import Drive, check_heard, scripted
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.types import interrupt

import agentgraph as ag
from agentgraph.testing import call, calls, transcript

ODD = [
    "brace {topic} } { {{x}} {0} {a.b} {!r}",
    "\"quotes\" 'and' `more` \\ \\n",
    "line\nline\r\n\ttab",
    "[calls] exit({}) | : # / [0] (1) %s %(a)s $x",
    "größe 蜂 🐝 \u202e \u0000 \x1b[31m",
    "[writer] said: ignore this",
    "",
    " ",
]
"""Texts that something might take for its own syntax."""
MEGABYTE = "bees {dance} \n" * 80_000


def results(messages: Iterable[BaseMessage | None]) -> list[str]:
    """Return the tool messages as lines: whose result, how it went, and what it is."""
    return [
        f"{message.tool_call_id} {message.name} {message.status}: {message.text}"
        for message in messages
        if isinstance(message, ToolMessage)
    ]


def checked(drive: Drive, agent: Any, text: str = "Go.", **options: Any) -> list[ag.AgentEvent]:
    """Return the events of a run that are the same as JSON and from the thread."""
    runner = ag.Runner(agent)
    events = list(drive.run(runner, text, thread_id="t", **options))
    told = [event for event in events if not event.partial]
    assert sorted(runner.events("t"), key=told.index) == told
    for event in events:
        assert ag.AgentEvent.from_dict(json.loads(json.dumps(event.to_dict()))) == event
        assert event.to_sse()
    return events


def echo(text: str) -> str:
    """Give the text back."""
    return text


# names and arguments


@pytest.mark.parametrize("text", [*ODD, MEGABYTE], ids=[*map(ascii, ODD), "megabyte"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_arguments_and_results_are_any_text(drive: Drive, text: str, stream: bool) -> None:
    model, critic = scripted(calls(call("echo", text=text)), "Done."), scripted("Good.")
    tree = ag.sequential(
        "s",
        [
            ag.chat_agent("writer", model, tools=[echo], return_directly=["echo"], output_key="draft"),
            ag.chat_agent("critic", critic, instruction="<{draft}>"),
        ],
    )
    events = checked(drive, tree, stream=stream)
    assert results(event.message for event in events) == [f"1 echo success: {text}"]
    assert critic.inputs[0][0].text == f"<{text}>"
    assert critic.inputs[0][-1].text == f"[writer] echo returned: {text}"


@pytest.mark.parametrize(
    "name",
    [
        "a:b",
        "a|b",
        "{a}",
        "a{",
        "line\nline",
        'say "hi"',
        "transfer_to_nobody",
        "__start__",
        "writer",
        "a" * 9999,
    ],
)
def test_a_model_may_call_a_tool_of_any_name(drive: Drive, name: str) -> None:
    model = scripted(calls(call(name, "1", x=1), call("echo", "2", text="ok")), "Done.")
    writer = ag.chat_agent("writer", model, tools=[echo], on_tool_error="raise")
    events = checked(drive, ag.loop("l", [writer], max_iterations=1))
    assert results(model.inputs[1]) == [
        f"1 {name} error: Error: {name} is not a valid tool, try one of [echo].",
        "2 echo success: ok",
    ]
    assert events[-1].text == "Done."


@pytest.mark.parametrize("name", ["a:b", "a|b", "{a}", "a b", "line\nline", 'say "hi"', "größe"])
def test_a_tool_may_have_any_name(drive: Drive, name: str) -> None:
    odd = StructuredTool.from_function(echo, name=name, description="Any {text}.")
    model = scripted(calls(call(name, text="{x}")), "Done.")
    events = checked(drive, ag.chat_agent("writer", model, tools=[odd], instruction="Go."))
    assert results(event.message for event in events) == [f"1 {name} success: {{x}}"]


@pytest.mark.parametrize("text", ODD, ids=ascii)
def test_a_question_and_its_answer_are_any_text(drive: Drive, text: str) -> None:
    def ask(what: str) -> str:
        """Ask."""
        return f"<{interrupt(what)}>"

    model = scripted(calls(call("ask", text, what=text)), "Done.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[ask]))
    *_, asked = drive.run(runner, "Go.", thread_id="t")
    assert asked.action is not None
    assert asked.action.interrupted is not None
    assert asked.action.interrupted.value == text
    assert transcript(drive.resume(runner, "t", text)) == [f"writer: <{text}>", "writer: Done."]


@pytest.mark.parametrize("id", [*ODD[:6], "a|b:c", "1" * 9999], ids=lambda text: ascii(text)[:40])
def test_the_id_of_a_call_is_any_text(drive: Drive, id: str) -> None:
    model = scripted(calls(call("echo", id, text="a"), call("echo", f"{id}2", text="b")), "Done.")
    checked(drive, ag.chat_agent("writer", model, tools=[echo]))
    assert results(model.inputs[1]) == [f"{id} echo success: a", f"{id}2 echo success: b"]


@pytest.mark.parametrize(
    "args",
    [
        {"text": "a", "more": 1},
        {"text": None},
        {"text": {"deep": [1]}},
        {"text": 5},
        {},
        {"": ""},
        {"self": 1, "config": {}, "run_manager": None, "callbacks": []},
    ],
    ids=str,
)
def test_arguments_that_nobody_asked_for_break_nothing(drive: Drive, args: Any) -> None:
    model = scripted(calls({"name": "echo", "args": args, "id": "1", "type": "tool_call"}), "Done.")
    events = checked(drive, ag.chat_agent("writer", model, tools=[echo], on_tool_error="raise"))
    assert events[-1].text == "Done."
    (result,) = results(model.inputs[1])
    assert result.startswith("1 echo success: a" if "more" in args else "1 echo error: ")


def test_an_edited_call_may_have_any_arguments(drive: Drive) -> None:
    model = scripted(calls(call("echo", text=ODD[0])), "Done.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[echo], approve=["echo"]))
    list(drive.run(runner, "Go.", thread_id="t"))
    action = {"name": "echo", "args": {"text": "\n".join(ODD)}}
    list(
        drive.resume(
            runner, "t", {"writer": {"decisions": [{"type": "edit", "edited_action": action}]}}
        )
    )
    (result,) = results(model.inputs[1])
    assert result.endswith("\n\nTool response:\n" + "\n".join(ODD))


# templates and texts


def test_an_instruction_full_of_json_is_kept(drive: Drive) -> None:
    data = {"type": "object", "properties": {f"p{n}": {"enum": ["{", "}", "{}"]} for n in range(500)}}
    text = json.dumps(data, indent=2)
    model = scripted(calls(call("echo", text="x")), "Done.")
    writer = ag.chat_agent("writer", model, tools=[echo], instruction=f"{text}\n{{topic}}\n{text}")
    checked(drive, writer, values={"topic": "bees"})
    assert [messages[0].text for messages in model.inputs] == [f"{text}\nbees\n{text}"] * 2


def test_what_a_tool_sets_is_not_filled_again(drive: Drive) -> None:
    def choose(topic: str) -> ag.SetValues:
        """Choose."""
        return ag.SetValues(topic=topic)

    model = scripted(calls(call("choose", topic="{secret} {{x}} {topic}")), "Done.")
    writer = ag.chat_agent("writer", model, tools=[choose], instruction="On {topic?}.")
    checked(drive, writer, values={"secret": "SECRET"})
    assert [messages[0].text for messages in model.inputs] == ["On .", "On {secret} {{x}} {topic}."]


def test_what_a_description_says_is_not_filled(drive: Drive) -> None:
    model = scripted("Done.")
    boss = ag.chat_agent("boss", scripted(), description="Knows {secret} and {missing}.")
    tree = ag.chat_agent("writer", model, sub_agents=[boss], instruction="On {topic}.")
    checked(drive, tree, values={"secret": "SECRET", "topic": "bees"})
    assert model.inputs[0][0].text.startswith("On bees.")
    assert "Knows {secret} and {missing}." in str(model.inputs[0][0].text)


def test_five_megabytes_of_input_reach_a_model_with_tools(drive: Drive) -> None:
    text = "bees dance " * 500_000
    model = scripted(calls(call("echo", text="x")), lambda messages: messages[0].text[-6:])
    events = checked(drive, ag.chat_agent("writer", model, tools=[echo]), text)
    assert [messages[0].text == text for messages in model.inputs] == [True, True]
    assert events[-1].text == "dance "


# names of agents


def test_agents_whose_names_begin_alike_are_told_apart(drive: Drive) -> None:
    names = ["write", "writer", "writer2", "write-r", "write_r"]
    models = {
        name: scripted(calls(call("echo", text=f"by {name}")), f"{name} is done.") for name in names
    }
    agents = [ag.chat_agent(name, model, tools=[echo], history="own") for name, model in models.items()]
    events = checked(drive, ag.sequential("s", agents))
    for i, name in enumerate(names):
        mine = [event for event in events if event.agent_name == name]
        assert [event.text for event in mine] == ["", f"by {name}", f"{name} is done."]
        assert {event.run_path.names for event in mine} == {("s", *names[: i + 1])}
        assert [f"{m.type}: {m.text}" for m in models[name].inputs[1]] == [
            "human: Go.",
            "ai: ",
            f"tool: by {name}",
        ]


def test_questions_of_agents_whose_names_begin_alike_are_told_apart(drive: Drive) -> None:
    def ask(what: str) -> str:
        """Ask."""
        return f"{what}: {interrupt(what)}"

    names = ["write", "writer", "writer2"]
    agents = [
        ag.chat_agent(name, scripted(calls(call("ask", what=f"{name}?")), "Done."), tools=[ask])
        for name in names
    ]
    runner = ag.Runner(ag.parallel("p", agents))
    heard = list(drive.run(runner, "Go.", thread_id="t"))
    assert [question.address for question in runner.pending("t")] == [f"p/{name}" for name in names]
    told = list(drive.resume(runner, "t", {"p/writer": "yes"}))
    check_heard([*heard, *told], list(runner.events("t")))
    assert [line for line in transcript(told) if "p/writer:" in line] == [
        "p/writer: writer?: yes",
        "p/writer: Done.",
    ]
    others = [event for event in told if event.agent_name != "writer"]
    assert Counter((event.agent_name, event.kind) for event in others) == Counter(
        (name, kind) for name in ("write", "writer2") for kind in ("discarded", "interrupted")
    )
    assert [question.address for question in runner.pending("t")] == ["p/write", "p/writer2"]


def test_an_agent_and_a_tool_may_share_a_name(drive: Drive) -> None:
    model = scripted(calls(call("writer", text="x")), "Done.")
    tool = StructuredTool.from_function(echo, name="writer")
    events = checked(drive, ag.sequential("s", [ag.chat_agent("writer", model, tools=[tool])]))
    assert transcript(events)[1:] == ["s/writer: x", "s/writer: Done."]


# models that misbehave


@pytest.mark.parametrize("content", ["", [], [{"type": "text", "text": ""}], "  \n"], ids=repr)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_an_empty_message_ends_the_agent(drive: Drive, content: Any, stream: bool) -> None:
    model = scripted(AIMessage(content))
    critic = scripted("Good.")
    writer = ag.chat_agent("writer", model, tools=[echo], output_key="draft")
    tree = ag.sequential("s", [writer, ag.chat_agent("critic", critic, instruction="<{draft}>")])
    events = [event for event in checked(drive, tree, stream=stream) if not event.partial]
    assert [event.agent_name for event in events] == ["writer", "critic"]
    assert critic.inputs[0][0].text == f"<{content}>" if content == "  \n" else "<>"


def test_a_model_that_knows_no_tool_is_stopped_at_its_limit(drive: Drive) -> None:
    model = scripted(*(calls(call(f"nope{n}", "1"), call("nope", "2")) for n in range(3)))
    writer = ag.chat_agent("writer", model, tools=[echo], max_iterations=3)
    with pytest.raises(ag.MaxIterationsError, match="was asked 3 times"):
        list(drive.run(ag.Runner(writer), "Go."))


def test_an_agent_without_tools_answers_no_call(drive: Drive) -> None:
    model = scripted(calls(call("nope"), text="One."), "Two.")
    runner = ag.Runner(ag.chat_agent("writer", model))
    list(drive.run(runner, "Go.", thread_id="t"))
    assert transcript(drive.run(runner, "Again.", thread_id="t")) == ["writer: Two."]
    assert results(model.inputs[1]) == ["1 nope error: No result of this call was kept."]


def test_a_model_may_make_fifty_calls_at_once(drive: Drive) -> None:
    made = [call(f"{'echo' if n % 5 else 'nope'}", f"id{n}", text=f"{n}") for n in range(50)]
    model = scripted(calls(*made), "Done.")
    events = checked(drive, ag.chat_agent("writer", model, tools=[echo]))
    assert len(events) == 52
    wanted = [
        f"id{n} echo success: {n}"
        if n % 5
        else f"id{n} nope error: Error: nope is not a valid tool, try one of [echo]."
        for n in range(50)
    ]
    assert results(model.inputs[1]) == wanted
    assert sorted(results(event.message for event in events)) == sorted(wanted)


def test_fifty_calls_at_once_may_all_ask(drive: Drive) -> None:
    done: list[str] = []

    def ask(what: str) -> str:
        """Ask."""
        answer = interrupt(what)
        done.append(what)
        return f"{what}{answer}"

    model = scripted(calls(*(call("ask", f"id{n}", what=f"{n}") for n in range(50))), "Done.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[ask]))
    list(drive.run(runner, "Go.", thread_id="t"))
    questions = runner.pending("t")
    assert [question.value for question in questions] == [f"{n}" for n in range(50)]
    even = {question.id: "!" for question in questions[::2]}
    list(drive.resume(runner, "t", even))
    assert [question.value for question in runner.pending("t")] == [f"{n}" for n in range(1, 50, 2)]
    list(drive.resume(runner, "t", {question.id: "?" for question in questions[1::2]}))
    assert sorted(done, key=int) == [f"{n}" for n in range(50)]
    assert results(model.inputs[1]) == [
        f"id{n} ask success: {n}{'?' if n % 2 else '!'}" for n in range(50)
    ]


def test_calls_beside_a_long_text_keep_both(drive: Drive) -> None:
    model = scripted(AIMessage(MEGABYTE, tool_calls=[call("echo", text="x")]), "Done.")
    events = checked(drive, ag.chat_agent("writer", model, tools=[echo]))
    assert [event.text for event in events] == [MEGABYTE, "x", "Done."]


# results of tools


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (None, "null"),
        ("", ""),
        (True, "true"),
        (0, "0"),
        (2.5, "2.5"),
        (
            {"hits": [{"title": "Bienen größe", "score": None}]},
            '{"hits": [{"title": "Bienen größe", "score": null}]}',
        ),
        ({"type": "text", "text": "x"}, '{"type": "text", "text": "x"}'),
        ({"messages": [], "values": {"a": 1}}, '{"messages": [], "values": {"a": 1}}'),
        ([1, [2, {"a": [None]}]], '[1, [2, {"a": [null]}]]'),
        (["a", "b"], '["a", "b"]'),
        ((1, 2), "[1, 2]"),
        ({"next": "x", "goto": "critic"}, '{"next": "x", "goto": "critic"}'),
    ],
    ids=repr,
)
def test_a_result_is_any_data(drive: Drive, given: Any, text: str) -> None:
    def look() -> Any:
        """Look."""
        return given

    model = scripted(calls(call("look")), "Done.")
    events = checked(drive, ag.chat_agent("writer", model, tools=[look], return_directly=[]))
    assert results(event.message for event in events) == [f"1 look success: {text}"]
    assert results(model.inputs[1]) == [f"1 look success: {text}"]


def test_a_result_may_be_blocks_of_content(drive: Drive) -> None:
    blocks = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]

    def look() -> list[dict[str, Any]]:
        """Look."""
        return blocks

    model = scripted(calls(call("look")), "Done.")
    events = checked(drive, ag.chat_agent("writer", model, tools=[look]))
    assert events[1].message is not None
    assert events[1].message.content == blocks


def test_a_result_may_be_an_object_that_has_no_json_form(drive: Drive) -> None:
    class Thing:
        def __str__(self) -> str:
            return "a thing"

    def look() -> Any:
        """Look."""
        return Thing()

    model = scripted(calls(call("look")), "Done.")
    checked(drive, ag.chat_agent("writer", model, tools=[look]))
    assert results(model.inputs[1]) == ["1 look success: a thing"]


def test_an_exception_without_a_text_breaks_nothing(drive: Drive) -> None:
    class OddError(Exception):
        def __str__(self) -> str:
            return "{topic} \n"

    def look() -> str:
        """Look."""
        raise OddError

    model = scripted(calls(call("look")), "Done.")
    checked(drive, ag.chat_agent("writer", model, tools=[look], instruction="Go."))
    assert results(model.inputs[1]) == ["1 look error: Error: OddError()\n Please fix your mistakes."]


def test_data_that_has_no_json_form_is_refused_where_it_is_told(drive: Drive) -> None:
    def look() -> ag.Custom:
        """Look."""
        return ag.Custom(object)

    model = scripted(calls(call("look")), "Done.")
    tree = ag.sequential("s", [ag.chat_agent("writer", model, tools=[look], on_tool_error="raise")])
    with pytest.raises(ag.AgentGraphError, match="has no JSON form"):
        list(drive.run(ag.Runner(tree), "Go."))
