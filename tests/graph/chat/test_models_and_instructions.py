"""The model and the instruction of a chat agent: given, named, or chosen for each step."""

from pathlib import Path
from typing import Any

import pytest
from helpers import Drive, echo, enforcing, failing, middleware, scripted, town
from helpers.openai_server import OpenAIServer
from langchain.agents import create_agent
from langchain.agents.middleware import LLMToolSelectorMiddleware
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_openai import ChatOpenAI

import agentgraph as ag
from agentgraph.graph.chat.models import with_tools
from agentgraph.skills import load
from agentgraph.testing import ScriptedChatModel, call, calls, transcript

CACHED: dict[str, Any] = {
    "type": "text",
    "text": "You know {bees}.",
    "cache_control": {"type": "ephemeral"},
}


Seen = list[tuple[str, Any]]


def seeing(seen: Seen) -> Any:
    """Return middleware that sees the model and the system message of each call."""

    def see(request: Any) -> Any:
        system = request.system_message
        seen.append((type(request.model).__name__, system and system.content))
        return (yield request)

    return middleware("Seeing", wrap_model_call=see)


wrapped = pytest.mark.parametrize("stack", [(), (seeing([]),)], ids=["plain", "wrapped"])


def ran(drive: Drive, model: Any, *, values: Any = None, **options: Any) -> list[str]:
    """Return the transcript of a run of a sequence of one agent."""
    tree = ag.sequential("s", [ag.chat_agent("w", model, **options)])
    return transcript(drive.run(ag.Runner(tree), "Go.", values=values))


# the name of a model


@pytest.fixture
def openai_key(monkeypatch: pytest.MonkeyPatch, openai_server: OpenAIServer) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    monkeypatch.setenv("OPENAI_BASE_URL", openai_server.base_url)


@pytest.mark.usefixtures("openai_key")
def test_a_name_becomes_a_model_of_langchain(drive: Drive, openai_server: OpenAIServer) -> None:
    openai_server.script = ["Hum."] * 4
    seen: Seen = []
    for options in ({}, {"tools": [echo]}, {"middleware": [seeing(seen)]}):
        assert ran(drive, "openai:gpt-4.1-mini", **options) == ["s/w: Hum."]
    assert {body["model"] for body in openai_server.requests} == {"gpt-4.1-mini"}
    assert seen == [("ChatOpenAI", None)]


@pytest.mark.usefixtures("openai_key")
def test_skill_files_and_prebuilt_agents_take_names(
    drive: Drive, openai_server: OpenAIServer, tmp_path: Path
) -> None:
    openai_server.script = ["Hum.", '["Look."]', "Seen.", '{"answer": "Yes."}', "Done."]
    (tmp_path / "a.yaml").write_text("{kind: chat, name: w, model: 'openai:gpt-5'}")
    plan = dict.fromkeys(("planner", "executor", "replanner"), "openai:gpt-4.1")
    worker = ag.chat_agent("x", scripted(), description="Works.")
    trees = [
        load(tmp_path / "a.yaml"),
        ag.plan_execute("p", **plan),
        ag.supervisor("boss", "openai:gpt-4.1", [worker]),
    ]
    ends = [transcript(drive.run(ag.Runner(tree), "Go."))[-1] for tree in trees]
    assert ends == ["w: Hum.", "p: Yes.", "boss: Done."]


def test_an_unknown_provider_is_a_fault_of_a_skill_file(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("{kind: chat, name: w, model: 'opnai:gpt-5'}")
    with pytest.raises(ag.InvalidSkillError) as caught:
        load(tmp_path / "a.yaml")
    assert str(caught.value).endswith("it is not a known provider of models (did you mean 'openai'?)")


def test_a_named_model_needs_nothing_before_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    graph = ag.compile_agent(ag.chat_agent("w", "openai:gpt-5", tools=[echo]))
    assert "w" in graph.get_graph().nodes


# functions


@wrapped
def test_a_function_chooses_the_model_of_each_step(drive: Drive, stack: Any) -> None:
    small, large = scripted(calls(call("echo", text="x")), "Done."), scripted("Old.")
    seen: list[int] = []

    def choose(ctx: ag.Context) -> Any:
        seen.append(len(ctx.messages))
        return large if ctx.values.get("is_hard") else small

    runner = ag.Runner(ag.chat_agent("w", choose, tools=[echo], middleware=stack))
    assert transcript(drive.run(runner, "Go.", thread_id="t"))[-1] == "w: Done."
    hard = drive.run(runner, "Go on.", thread_id="t", values={"is_hard": True})
    assert transcript(hard) == ["w: Old."]
    assert seen == [1, 3, 5]
    assert small.tools == large.tools != []


@wrapped
def test_a_model_that_was_chosen_keeps_its_settings(drive: Drive, stack: Any) -> None:
    model = scripted("Done.")
    bound = model.bind(temperature=0.5, tool_choice="echo")
    ran(drive, lambda ctx: bound, tools=[echo], middleware=stack)
    assert model.settings == [{"temperature": 0.5, "tool_choice": "echo"}]


@pytest.mark.parametrize(
    "model",
    [lambda: enforcing('{"city": "Rome"}'), lambda: scripted(calls(call("Town", city="Rome")))],
    ids=["provider", "tool"],
)
def test_the_chosen_model_decides_how_a_structured_answer_is_given(drive: Drive, model: Any) -> None:
    made = model()
    assert ran(drive, lambda ctx: made, output_schema=town())[-1] == 's/w: {"city": "Rome"}'


@pytest.mark.parametrize("what", ["model", "instruction"])
def test_an_error_of_a_function_names_the_agent(drive: Drive, what: str) -> None:
    def fails(ctx: ag.Context) -> Any:
        raise OSError("no line")

    with pytest.raises(OSError, match="no line") as caught:
        ran(drive, **{"model": scripted("a"), what: fails})
    assert "This happened in the agent 'w', at s/w." in caught.value.__notes__


@pytest.mark.parametrize(
    "options",
    [{}, {"middleware": [seeing([])]}, {"output_schema": town()}],
    ids=["plain", "wrapped", "structured"],
)
def test_a_model_that_takes_no_tools_chosen_for_an_agent_with_tools_is_an_error(
    drive: Drive, options: Any
) -> None:
    with pytest.raises(ag.InvalidOutputError) as caught:
        ran(drive, lambda ctx: FakeListChatModel(responses=["a"]), tools=[echo], **options)
    assert str(caught.value) == (
        "s/w: the model FakeListChatModel takes no tools; choose one with bind_tools"
    )


@wrapped
def test_a_function_gives_the_template_of_each_step(drive: Drive, stack: Any) -> None:
    def instruct(ctx: ag.Context) -> str:
        return f"You have {{topic}}, and {len(ctx.messages)} messages."

    model = scripted(calls(call("echo", text="x")), "Done.")
    options: Any = {"instruction": instruct, "tools": [echo], "middleware": stack}
    ran(drive, model, values={"topic": "bees"}, **options)
    assert [messages[0].text for messages in model.inputs] == [
        "You have bees, and 1 messages.",
        "You have bees, and 3 messages.",
    ]


# instructions that are messages


@pytest.mark.parametrize("in_function", [False, True], ids=["given", "of a function"])
@pytest.mark.parametrize("has_middleware", [False, True], ids=["plain", "wrapped"])
def test_a_message_is_sent_unchanged(drive: Drive, in_function: bool, has_middleware: bool) -> None:
    model, message, seen = scripted("a"), SystemMessage([CACHED]), list[Any]()
    instruction = (lambda ctx: message) if in_function else message
    ran(drive, model, instruction=instruction, middleware=[seeing(seen)] if has_middleware else [])
    assert model.inputs[0][0] == message
    assert seen == [("ScriptedChatModel", [CACHED])] * has_middleware


@pytest.mark.parametrize(("schema", "blocks"), [(None, 2), (int, 3)])
def test_what_we_add_to_a_message_is_a_block_of_its_own(drive: Drive, schema: Any, blocks: int) -> None:
    model = scripted("7")
    child = ag.chat_agent("c", scripted(), description="Knows {more}.")
    message = SystemMessage([CACHED], id="s")
    ran(drive, model, instruction=message, sub_agents=[child], output_schema=schema)
    sent: Any = model.inputs[0][0]
    assert sent.id == "s"
    assert sent.content[0] == CACHED
    assert sent.content[1]["text"].endswith("- transfer_to_c: Knows {more}.")
    assert [block["type"] for block in sent.content] == ["text"] * blocks


@pytest.mark.parametrize(
    "instruction",
    [SystemMessage([CACHED]), lambda ctx: "Plan for {question}"],
    ids=["message", "function"],
)
def test_a_plan_adds_its_form_to_any_instruction(drive: Drive, instruction: Any) -> None:
    planner, executor = scripted('["Look."]'), scripted("Seen.")
    plan = ag.plan_execute(
        "p",
        planner=ag.chat_agent("planner", planner, instruction=instruction),
        executor=ag.chat_agent("executor", executor, instruction=SystemMessage([CACHED])),
        replanner=scripted('{"answer": "Yes."}'),
    )
    list(drive.run(ag.Runner(plan), "Go.", values={"question": "Go."}))
    assert '{"steps": ["...", "..."]}' in planner.inputs[0][0].text
    assert executor.inputs[0][0].content == [
        CACHED,
        {"type": "text", "text": "Your step: Look.\nReply with its result alone."},
    ]


# what was bound to a model, and tools


@pytest.mark.parametrize("tools", [[], [echo]], ids=["without tools", "with tools"])
def test_settings_of_a_model_stay(drive: Drive, tools: list[Any]) -> None:
    model = scripted("Done.")
    ran(drive, model.bind(temperature=0.5).bind(tool_choice="any"), tools=tools)
    assert model.settings == [{"temperature": 0.5, "tool_choice": "any"}]
    assert [tool["function"]["name"] for tool in model.tools] == ["echo"] * len(tools)


def test_settings_of_fallbacks_stay(drive: Drive) -> None:
    first, second = scripted(OSError("no line")), scripted("Done.")
    model = first.bind(temperature=0.1).with_fallbacks([second.bind(temperature=0.9)])
    ran(drive, model, tools=[echo])
    assert (first.settings, second.settings) == ([{"temperature": 0.1}], [{"temperature": 0.9}])
    assert first.tools == second.tools != []


def test_the_config_of_a_model_stays(drive: Drive) -> None:
    seen: list[Any] = []

    class Tagged(ScriptedChatModel):
        def invoke(self, input: Any, config: Any = None, **options: Any) -> Any:
            seen.append(config["tags"])
            return super().invoke(input, config, **options)

        async def ainvoke(self, input: Any, config: Any = None, **options: Any) -> Any:
            seen.append(config["tags"])
            return await super().ainvoke(input, config, **options)

    ran(drive, Tagged(responses=["Done."]).with_config(tags=["mine"]), tools=[echo])
    assert "mine" in seen[0]


def test_tools_that_were_bound_stay_in_their_form_and_those_of_the_provider_too() -> None:
    search = {"type": "web_search"}
    model = ChatOpenAI(model="x", api_key="none")
    bound: Any = with_tools(model.bind_tools([echo, search], strict=True, tool_choice="echo"), [echo])
    settings = {**bound.bound.kwargs, **bound.kwargs}
    assert settings["tools"] == [convert_to_openai_tool(echo, strict=True), search]
    assert settings["tool_choice"] == {"type": "function", "function": {"name": "echo"}}


def test_middleware_chooses_the_tools_of_each_call_as_in_create_agent(drive: Drive) -> None:
    def note(text: str) -> str:
        """Note it."""
        return text

    def selecting() -> LLMToolSelectorMiddleware:
        chosen = [calls(call("ToolSelectionResponse", tools=[name])) for name in ("note", "echo")]
        return LLMToolSelectorMiddleware(model=scripted(*chosen), max_tools=1)

    ours, theirs = (scripted(calls(call("note", text="x")), "Done.") for _ in range(2))
    ran(drive, ours, tools=[echo, note], middleware=[selecting()])
    agent: Any = create_agent(theirs, [echo, note], middleware=[selecting()])
    agent.invoke({"messages": [("user", "Go.")]})
    assert ours.tools == theirs.tools == [convert_to_openai_tool(echo)]


# what a model returns


@pytest.mark.parametrize("reply", ["Go on.", AIMessageChunk("Go on.")], ids=["text", "chunk"])
def test_a_text_or_a_chunk_becomes_a_message(drive: Drive, reply: Any) -> None:
    writer = ag.chat_agent("writer", RunnableLambda(lambda messages: reply))
    (event,) = drive.run(ag.Runner(writer), "Go.")
    assert type(event.message) is AIMessage
    assert (event.text, event.message.name, event.id) == ("Go on.", "writer", event.message.id)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [(HumanMessage("Hm."), "HumanMessage"), (None, "NoneType"), ([AIMessage("text")], "list")],
    ids=["a message of the user", "nothing", "a list"],
)
def test_a_model_that_returns_anything_else_is_an_error(drive: Drive, reply: Any, kind: str) -> None:
    replies = [reply, AIMessage("Better.")]
    writer = ag.chat_agent("writer", RunnableLambda(lambda messages: replies.pop(0)))
    runner = ag.Runner(ag.sequential("s", [writer]))
    events, raised = failing(drive.run(runner, "Go.", thread_id="t"), ag.InvalidOutputError)
    assert str(raised) == (
        f"s/writer: the model returned {kind}, not an AIMessage; "
        "pass a chat model, or a runnable that ends in one"
    )
    assert transcript(events) == [f"s/writer: [error] {raised!r}"]
    assert transcript(drive.resume(runner, "t")) == ["s/writer: Better."]


def test_a_reply_keeps_its_id_blocks_and_metadata() -> None:
    reply = AIMessage(
        [{"type": "text", "text": "Done."}],
        id="mine",
        usage_metadata={"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
        response_metadata={"finish_reason": "stop"},
    )
    (event,) = ag.Runner(ag.chat_agent("writer", scripted(reply))).query("Go.")
    message: Any = event.message
    assert (event.id, message.id, message.name) == ("mine", "mine", "writer")
    assert (message.content, message.usage_metadata) == (reply.content, reply.usage_metadata)
    assert message.response_metadata["finish_reason"] == "stop"
    assert reply.response_metadata == {"finish_reason": "stop"}
    assert ag.AgentEvent.from_dict(event.to_dict()) == event
