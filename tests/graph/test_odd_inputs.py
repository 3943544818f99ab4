"""Odd names, texts, arguments and results: nothing takes them for its own syntax."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from helpers import Drive, ask_person, check_heard, echo, lines, scripted
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import StructuredTool

import agentgraph as ag
from agentgraph.testing import call, calls

pytestmark = pytest.mark.by_turns("drive")

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
LONG = "bees {dance} \n" * 80_000


def results(messages: Iterable[BaseMessage | None]) -> list[str]:
    """Return the tool messages as lines: id of the call, tool, status and text."""
    return [
        f"{each.tool_call_id} {each.name} {each.status}: {each.text}"
        for each in messages
        if isinstance(each, ToolMessage)
    ]


def run(drive: Drive, agent: ag.Agent, text: str = "Go.", **options: Any) -> list[ag.AgentEvent]:
    """Return the events of a run, which are the same as JSON, and from the thread."""
    runner = ag.Runner(agent)
    events = list(drive.run(runner, text, thread_id="t", **options))
    check_heard([event for event in events if not event.partial], list(runner.events("t")))
    for event in events:
        assert ag.AgentEvent.from_dict(json.loads(json.dumps(event.to_dict()))) == event
        assert event.to_sse()
    return events


@pytest.mark.parametrize("text", [*ODD, LONG], ids=[*map(ascii, ODD), "a megabyte"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_tool_takes_and_returns_any_text(drive: Drive, text: str, stream: bool) -> None:
    model, critic = scripted(calls(call("echo", text=text)), "Done."), scripted("Good.")
    options: Any = {"return_directly": ["echo"], "output_key": "draft"}
    agents = [
        ag.chat_agent("writer", model, tools=[echo], **options),
        ag.chat_agent("critic", critic, instruction="<{draft}>"),
    ]
    events = run(drive, ag.sequential("s", agents), stream=stream)
    assert results(event.message for event in events) == [f"1 echo success: {text}"]
    assert critic.inputs[0][0].text == f"<{text}>"
    assert critic.inputs[0][-1].text == f"[writer] echo returned: {text}"


NAMES = ["a:b", "a|b", "{a}", "a b", "l\nl", 'say "hi"', "größe", "writer", "__start__", "a" * 9999]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
def test_a_tool_may_have_any_name_also_one_that_is_unknown(drive: Drive, name: str) -> None:
    odd = StructuredTool.from_function(echo, name=name, description="Any {text}.")
    made = [calls(call(name, text="{x}"), call("echo", "2", text="ok")), "Done."]
    model = scripted(*made)
    run(drive, ag.chat_agent("writer", model, tools=[odd, echo], instruction="Go."))
    assert results(model.inputs[1]) == [f"1 {name} success: {{x}}", "2 echo success: ok"]
    model = scripted(*made)
    run(drive, ag.chat_agent("writer", model, tools=[echo], on_tool_error="raise"))
    fault = f"1 {name} error: Error: {name} is not a valid tool, try one of [echo]."
    assert results(model.inputs[1]) == [fault, "2 echo success: ok"]


IDS = [*ODD[:6], "a|b:c", "1" * 9999]
ARGUMENTS: list[tuple[Any, str]] = [
    ({"text": "a", "more": 1}, "success"),
    ({"text": None}, "error"),
    ({"text": {"deep": [1]}}, "error"),
    ({}, "error"),
    ({"": ""}, "error"),
    ({"self": 1, "config": {}, "run_manager": None, "callbacks": []}, "error"),
]


def test_a_tool_may_be_called_under_any_id_and_with_any_arguments(drive: Drive) -> None:
    asked = [call("echo", key, text=str(n)) for n, key in enumerate(IDS)]
    asked += [{**call("echo", f"{n}"), "args": args} for n, (args, _) in enumerate(ARGUMENTS)]
    model = scripted(calls(*asked), "Done.")
    run(drive, ag.chat_agent("writer", model, tools=[echo], on_tool_error="raise"))
    assert [line.partition(": ")[0] for line in results(model.inputs[1])[len(IDS) :]] == [
        f"{n} echo {status}" for n, (_, status) in enumerate(ARGUMENTS)
    ]
    assert results(model.inputs[1])[: len(IDS)] == [
        f"{key} echo success: {n}" for n, key in enumerate(IDS)
    ]


RESULTS: list[tuple[Any, str]] = [
    (None, "null"),
    ("", ""),
    (True, "true"),
    (2.5, "2.5"),
    ({"hits": [{"title": "größe", "n": None}]}, '{"hits": [{"title": "größe", "n": null}]}'),
    ({"type": "text", "text": "x"}, '{"type": "text", "text": "x"}'),
    ({"messages": [], "values": {"a": 1}}, '{"messages": [], "values": {"a": 1}}'),
    ({"next": "x", "goto": "critic"}, '{"next": "x", "goto": "critic"}'),
    ([1, [2, {"a": [None]}]], '[1, [2, {"a": [null]}]]'),
    (["a", "b"], '["a", "b"]'),
    ((1, 2), "[1, 2]"),
    ([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "onetwo"),
    (type("Thing", (), {"__str__": lambda self: "a thing"})(), "a thing"),
]


def test_a_tool_may_return_any_data_and_raise_any_error(drive: Drive) -> None:
    class OddError(Exception):
        def __str__(self) -> str:
            return "{topic} \n"

    def look(n: int) -> Any:
        """Look."""
        if n == len(RESULTS):
            raise OddError
        return RESULTS[n][0]

    asked = [call("look", str(n), n=n) for n in range(len(RESULTS) + 1)]
    model = scripted(calls(*asked), "Done.")
    run(drive, ag.chat_agent("writer", model, tools=[look], instruction="Go."))
    assert results(model.inputs[1]) == [
        *[f"{n} look success: {text}" for n, (_, text) in enumerate(RESULTS)],
        f"{len(RESULTS)} look error: Error: OddError()\n Please fix your mistakes.",
    ]


def test_a_template_may_be_full_of_json(drive: Drive) -> None:
    data = {"type": "object", "properties": {f"p{n}": {"enum": ["{", "}"]} for n in range(500)}}
    text = json.dumps(data, indent=2)
    model = scripted(calls(call("echo", text="x")), "Done.")
    writer = ag.chat_agent("writer", model, tools=[echo], instruction=f"{text}\n{{topic}}\n{text}")
    run(drive, writer, values={"topic": "bees"})
    assert [messages[0].text for messages in model.inputs] == [f"{text}\nbees\n{text}"] * 2


def test_a_template_fills_neither_values_nor_descriptions_again(drive: Drive) -> None:
    def choose(topic: str) -> ag.SetValues:
        """Choose."""
        return ag.SetValues(topic=topic)

    model = scripted(calls(call("choose", topic="{secret} {{x}} {topic}")), "Done.")
    boss = ag.chat_agent("boss", scripted(), description="Knows {secret} and {missing}.")
    tree = ag.chat_agent("writer", model, tools=[choose], sub_agents=[boss], instruction="On {topic?}.")
    run(drive, tree, values={"secret": "SECRET"})
    first, second = (str(messages[0].text) for messages in model.inputs)
    assert first.startswith("On .")
    assert second.startswith("On {secret} {{x}} {topic}.")
    assert "Knows {secret} and {missing}." in first


def test_agents_whose_names_begin_alike_have_their_own_messages_and_questions(drive: Drive) -> None:
    names = ["write", "writer", "writer2", "write-r", "write_r"]
    models = {
        name: scripted(
            calls(call("echo", text=f"by {name}")), calls(call("ask_person", what=name)), "Done."
        )
        for name in names
    }
    tools = [echo, ask_person]
    agents = [ag.chat_agent(name, model, tools=tools, history="own") for name, model in models.items()]
    runner = ag.Runner(ag.parallel("p", agents))
    heard = list(drive.run(runner, "Go.", thread_id="t"))
    assert [question.address for question in runner.pending("t")] == [f"p/{name}" for name in names]
    more = list(drive.resume(runner, "t", {"p/writer": "yes"}))
    check_heard([*heard, *more], list(runner.events("t")))
    assert [line for line in lines(more) if "asks" not in line and "discarded" not in line] == [
        *["p/writer: yes", "p/writer: Done."]
    ]
    assert [question.agent_name for question in runner.pending("t")] == [
        name for name in names if name != "writer"
    ]
    assert [m.text for m in models["writer"].inputs[2]] == ["Go.", "", "by writer", "", "yes"]


@pytest.mark.parametrize("content", ["", [], [{"type": "text", "text": ""}], "  \n"], ids=repr)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_model_that_answers_nothing_ends_its_agent(drive: Drive, content: Any, stream: bool) -> None:
    critic = scripted("Good.")
    writer = ag.chat_agent("writer", scripted(AIMessage(content)), tools=[echo], output_key="draft")
    tree = ag.sequential("s", [writer, ag.chat_agent("critic", critic, instruction="<{draft}>")])
    events = [event for event in run(drive, tree, stream=stream) if not event.partial]
    assert [event.agent_name for event in events] == ["writer", "critic"]
    assert critic.inputs[0][0].text == ("<  \n>" if content == "  \n" else "<>")


def test_calls_of_a_model_that_has_no_tools_are_answered_in_the_next_turn(drive: Drive) -> None:
    model = scripted(calls(call("nope"), text="One."), "Two.")
    runner = ag.Runner(ag.chat_agent("writer", model))
    list(drive.run(runner, "Go.", thread_id="t"))
    assert lines(drive.run(runner, "Again.", thread_id="t")) == ["writer: Two."]
    assert results(model.inputs[1]) == ["1 nope error: No result of this call was kept."]


def test_a_model_may_make_many_calls_at_once_that_ask_any_text(drive: Drive) -> None:
    texts = [*ODD, *(f"{n}" for n in range(12))]
    made = [call("ask_person", f"id{n}", what=text) for n, text in enumerate(texts)]
    model = scripted(calls(*made, call("nope", "no")), "Done.")
    runner = ag.Runner(ag.chat_agent("writer", model, tools=[ask_person]))
    list(drive.run(runner, "Go.", thread_id="t"))
    questions = runner.pending("t")
    assert [question.value for question in questions] == texts
    list(drive.resume(runner, "t", {q.id: q.value for q in questions[::2]}))
    assert [question.value for question in runner.pending("t")] == texts[1::2]
    list(drive.resume(runner, "t", {q.id: q.value for q in questions[1::2]}))
    assert results(model.inputs[1]) == [
        *[f"id{n} ask_person success: {text}" for n, text in enumerate(texts)],
        "no nope error: Error: nope is not a valid tool, try one of [ask_person].",
    ]


def test_a_model_may_say_a_long_text_with_its_calls_and_read_a_longer_one(drive: Drive) -> None:
    text = "bees dance " * 500_000
    model = scripted(AIMessage(LONG, tool_calls=[call("echo", text="x")]), "Done.")
    events = run(drive, ag.chat_agent("writer", model, tools=[echo]), text)
    assert [event.text for event in events] == [LONG, "x", "Done."]
    assert [messages[0].text == text for messages in model.inputs] == [True, True]
