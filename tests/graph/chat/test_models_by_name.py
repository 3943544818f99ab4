"""Models by name or chosen for each step, and instructions that are messages or functions."""

from pathlib import Path
from typing import Any

import langchain.chat_models.base
import pytest
from helpers import Drive, scripted
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, LLMToolSelectorMiddleware
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, SystemMessage
from openai_server import OpenAIServer

import agentgraph as ag
from agentgraph.skills import load
from agentgraph.testing import ScriptedChatModel, call, calls, transcript

CACHED: dict[str, Any] = {
    "type": "text",
    "text": "You know {bees}.",
    "cache_control": {"type": "ephemeral"},
}


def look(city: str) -> str:
    """Looks something up."""
    return f"{city} is old."


def note(text: str) -> str:
    """Notes something."""
    return "Noted."


class Seeing(AgentMiddleware[Any, Any, Any]):
    """Sees the model and the system message of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, Any]] = []

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        self._see(request)
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        self._see(request)
        return await handler(request)

    def _see(self, request: Any) -> None:
        system = request.system_message
        self.seen.append((type(request.model).__name__, system and system.content))


@pytest.fixture
def openai_key(monkeypatch: pytest.MonkeyPatch, openai_server: OpenAIServer) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    monkeypatch.setenv("OPENAI_BASE_URL", openai_server.base_url)


class TestAName:
    @pytest.mark.usefixtures("openai_key")
    def test_is_that_of_langchain(self, drive: Drive, openai_server: OpenAIServer) -> None:
        openai_server.script = ["Hum."] * 4
        seeing = Seeing()
        for options in ({}, {"tools": [look]}, {"middleware": [seeing]}):
            runner = ag.Runner(ag.chat_agent("w", "openai:gpt-4.1-mini", **options))
            assert transcript(drive.run(runner, "Go.")) == ["w: Hum."]
        assert {body["model"] for body in openai_server.requests} == {"gpt-4.1-mini"}
        assert seeing.seen == [("ChatOpenAI", None)]

    @pytest.mark.usefixtures("openai_key")
    def test_stands_in_skill_files_and_in_prebuilt_agents(
        self, drive: Drive, openai_server: OpenAIServer, tmp_path: Path
    ) -> None:
        openai_server.script = ["Hum.", '["Look."]', "Seen.", '{"answer": "Yes."}', "Done."]
        (tmp_path / "a.yaml").write_text("{kind: chat, name: w, model: 'openai:gpt-5'}")
        assert transcript(drive.run(ag.Runner(load(tmp_path / "a.yaml")), "Go.")) == ["w: Hum."]
        plan = dict.fromkeys(("planner", "executor", "replanner"), "openai:gpt-4.1")
        told = transcript(drive.run(ag.Runner(ag.plan_execute("p", **plan)), "Go."))
        assert told[-1] == "p: Yes."
        worker = ag.chat_agent("x", scripted(), description="Works.")
        boss = ag.supervisor("boss", "openai:gpt-4.1", [worker])
        assert transcript(drive.run(ag.Runner(boss), "Go.")) == ["boss: Done."]

    def test_needs_nothing_before_the_agent_is_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        graph = ag.compile_agent(ag.chat_agent("w", "openai:gpt-5", tools=[look]))
        assert "w" in graph.get_graph().nodes

    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("openai:gpt-5", "Missing credentials."),
            ("mistralai:mistral-large", "requires the langchain-mistralai package"),
            ("nobody:knows", "Unable to infer model provider"),
        ],
    )
    @pytest.mark.parametrize("chosen", [False, True])
    def test_that_does_not_become_a_model_says_what_to_do(
        self, drive: Drive, name: str, why: str, chosen: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        agent = ag.chat_agent("w", (lambda ctx: name) if chosen else name)
        with pytest.raises(ag.AgentGraphError) as caught:
            list(drive.run(ag.Runner(ag.sequential("s", [agent])), "Go."))
        text = str(caught.value)
        assert text.startswith(f"s/w: LangChain's init_chat_model cannot make the model {name!r} (")
        assert why in text
        assert text.endswith(
            "install the provider's package, set its key in the environment, or pass a model object"
        )

    def test_of_a_provider_is_known_as_langchain_knows_it(self) -> None:
        assert {"openai", "anthropic", "ollama"} <= set(langchain.chat_models.base._BUILTIN_PROVIDERS)

    def test_of_an_unknown_provider_is_a_fault_of_a_skill_file(self, tmp_path: Path) -> None:
        (tmp_path / "a.yaml").write_text("{kind: chat, name: w, model: 'opnai:gpt-5'}")
        with pytest.raises(ag.InvalidSkillError) as caught:
            load(tmp_path / "a.yaml")
        assert str(caught.value).endswith(
            "it is not a known provider of models (did you mean 'openai'?)"
        )


class TestAFunction:
    def test_chooses_the_model_of_each_step(self, drive: Drive) -> None:
        small, large = scripted(calls(call("look", city="Rome")), "Done."), scripted("Old.")

        def choose(ctx: ag.Context) -> Any:
            return large if ctx.values.get("is_hard") else small

        seeing = Seeing()
        for options in ({}, {"middleware": [seeing]}):
            small, large = scripted(calls(call("look", city="Rome")), "Done."), scripted("Old.")
            runner = ag.Runner(ag.chat_agent("w", choose, tools=[look], **options))
            assert transcript(drive.run(runner, "Go.", thread_id="t"))[-1] == "w: Done."
            told = transcript(drive.run(runner, "Go on.", thread_id="t", values={"is_hard": True}))
            assert told == ["w: Old."]
            assert small.tools == large.tools != []
        assert seeing.seen == [("ScriptedChatModel", None)] * 3

    def test_sees_what_the_agent_said_before(self, drive: Drive) -> None:
        asked: list[int] = []
        models = [scripted(calls(call("look", city="Rome"))), scripted("Done.")]

        def choose(ctx: ag.Context) -> Any:
            asked.append(len(ctx.messages))
            return models[len(asked) - 1]

        list(drive.run(ag.Runner(ag.chat_agent("w", choose, tools=[look])), "Go."))
        assert asked == [1, 3]

    def test_may_give_a_model_with_settings(self, drive: Drive) -> None:
        for middleware in ([], [Seeing()]):
            model = scripted("Done.")
            bound = model.bind(temperature=0.5, tool_choice="look")
            agent = ag.chat_agent(
                "w", lambda ctx, bound=bound: bound, tools=[look], middleware=middleware
            )
            list(drive.run(ag.Runner(agent), "Go."))
            assert model.settings == [{"temperature": 0.5, "tool_choice": "look"}]

    def test_chooses_how_an_answer_is_given(self, drive: Drive) -> None:
        schema = {"title": "Town", "type": "object", "properties": {"city": {"type": "string"}}}
        by_provider = ScriptedChatModel(
            responses=['{"city": "Rome"}'], profile={"structured_output": True}
        )
        for model in (by_provider, scripted(calls(call("Town", city="Rome")))):
            agent = ag.chat_agent(
                "w", lambda ctx, model=model: model, output_schema=schema, output_key="o"
            )
            runner = ag.Runner(agent)
            list(drive.run(runner, "Go.", thread_id="t"))
            state: Any = runner.graph.get_state({"configurable": {"thread_id": "t"}})
            assert state.values["values"] == {"o": {"city": "Rome"}}

    @pytest.mark.parametrize("what", ["model", "instruction"])
    def test_that_fails_names_the_agent(self, drive: Drive, what: str) -> None:
        def fails(ctx: ag.Context) -> Any:
            raise OSError("no line")

        given: dict[str, Any] = {"model": scripted("a"), what: fails}
        with pytest.raises(OSError, match="no line") as caught:
            list(drive.run(ag.Runner(ag.sequential("s", [ag.chat_agent("w", **given)])), "Go."))
        assert "This happened in the agent 'w', at s/w." in caught.value.__notes__

    @pytest.mark.parametrize(
        ("what", "told"),
        [
            (
                "model",
                "s/w: the function model= returned 5; return a LangChain chat model, or a name such as "
                "'openai:gpt-5'",
            ),
            (
                "instruction",
                "s/w: the function instruction= returned 5; return a template, or a SystemMessage",
            ),
        ],
    )
    def test_that_gives_something_else_is_an_error(self, drive: Drive, what: str, told: str) -> None:
        given: dict[str, Any] = {"model": scripted("a"), what: lambda ctx: 5}
        with pytest.raises(ag.InvalidOutputError) as caught:
            list(drive.run(ag.Runner(ag.sequential("s", [ag.chat_agent("w", **given)])), "Go."))
        assert str(caught.value) == told

    def test_that_gives_a_model_without_tools_to_an_agent_with_tools_is_an_error(
        self, drive: Drive
    ) -> None:
        model = FakeListChatModel(responses=["a"])
        for options in ({}, {"middleware": [Seeing()]}, {"output_schema": {"type": "object"}}):
            agent = ag.chat_agent("w", lambda ctx: model, tools=[look], **options)
            with pytest.raises(ag.InvalidOutputError) as caught:
                list(drive.run(ag.Runner(ag.sequential("s", [agent])), "Go."))
            assert str(caught.value) == (
                "s/w: the model FakeListChatModel takes no tools; choose one with bind_tools"
            )


class TestAnInstruction:
    @pytest.mark.parametrize("in_function", [False, True])
    @pytest.mark.parametrize("wrapped", [False, True])
    def test_that_is_a_message_is_sent_as_it_is(
        self, drive: Drive, in_function: bool, wrapped: bool
    ) -> None:
        model, message, seeing = scripted("a"), SystemMessage([CACHED]), Seeing()
        agent = ag.chat_agent(
            "w",
            model,
            instruction=(lambda ctx: message) if in_function else message,
            middleware=[seeing] if wrapped else [],
        )
        list(drive.run(ag.Runner(agent), "Go."))
        assert model.inputs[0][0] == message
        assert seeing.seen == [("ScriptedChatModel", [CACHED])] * wrapped

    def test_that_is_a_message_is_followed_by_a_block_of_ours(self, drive: Drive) -> None:
        child = ag.chat_agent("c", scripted(), description="Knows {more}.")
        for schema in (None, int):
            model = scripted("7")
            agent = ag.chat_agent(
                "w",
                model,
                instruction=SystemMessage([CACHED], id="s"),
                sub_agents=[child],
                output_schema=schema,
            )
            list(drive.run(ag.Runner(agent), "Go."))
            blocks: Any = model.inputs[0][0].content
            assert blocks[0] == CACHED
            assert "- transfer_to_c: Knows {more}." in blocks[1]["text"]
            assert [block["type"] for block in blocks] == ["text"] * (2 if schema is None else 3)
            assert model.inputs[0][0].id == "s"

    def test_of_a_function_is_a_template_that_is_called_for_each_step(self, drive: Drive) -> None:
        def instruct(ctx: ag.Context) -> str:
            return f"You have {{topic}}, and {len(ctx.messages)} messages."

        for middleware in ([], [Seeing()]):
            model = scripted(calls(call("look", city="Rome")), "Done.")
            agent = ag.chat_agent("w", model, instruction=instruct, tools=[look], middleware=middleware)
            list(drive.run(ag.Runner(agent), "Go.", values={"topic": "bees"}))
            assert [sent[0].text for sent in model.inputs] == [
                "You have bees, and 1 messages.",
                "You have bees, and 3 messages.",
            ]

    def test_that_is_empty_is_not_sent(self, drive: Drive) -> None:
        model = scripted("a")
        list(drive.run(ag.Runner(ag.chat_agent("w", model, instruction=lambda ctx: "")), "Go."))
        assert [message.type for message in model.inputs[0]] == ["human"]

    def test_of_a_supervisor_may_be_a_function_or_a_message(self, drive: Drive) -> None:
        worker = ag.chat_agent("x", scripted(), description="Works.")
        for given in (SystemMessage("Be kind."), lambda ctx: "Be kind."):
            model = scripted("a")
            list(drive.run(ag.Runner(ag.supervisor("b", model, [worker], instruction=given)), "Go."))
            assert model.inputs[0][0].content == "Be kind."

    def test_of_a_planner_is_followed_by_the_form_of_a_plan(self, drive: Drive) -> None:
        for given in (SystemMessage([CACHED]), lambda ctx: "Plan for {question}"):
            planner, executor = scripted('["Look."]'), scripted("Seen.")
            plan = ag.plan_execute(
                "p",
                planner=ag.chat_agent("planner", planner, instruction=given),
                executor=ag.chat_agent("executor", executor, instruction=SystemMessage([CACHED])),
                replanner=scripted('{"answer": "Yes."}'),
            )
            list(drive.run(ag.Runner(plan), "Go.", values={"question": "Go."}))
            told = planner.inputs[0][0]
            assert '{"steps": ["...", "..."]}' in told.text
            assert executor.inputs[0][0].content == [
                CACHED,
                {"type": "text", "text": "Your step: Look.\nReply with its result alone."},
            ]


def test_tools_are_chosen_for_each_call_by_middleware(drive: Drive) -> None:
    def make() -> tuple[Any, Any]:
        chooser = AIMessage(
            "",
            tool_calls=[{"name": "ToolSelectionResponse", "args": {"tools": ["note"]}, "id": "1"}],
        )
        selecting = LLMToolSelectorMiddleware(model=scripted(chooser), max_tools=1)
        return scripted("Done."), selecting

    model, selecting = make()
    agent = ag.chat_agent("w", model, tools=[look, note], middleware=[selecting])
    list(drive.run(ag.Runner(agent), "Go."))
    theirs, selecting = make()
    create_agent(theirs, [look, note], middleware=[selecting]).invoke({"messages": [("user", "Go.")]})
    names = [tool["function"]["name"] for tool in theirs.tools]
    assert [tool["function"]["name"] for tool in model.tools] == names == ["note"]
