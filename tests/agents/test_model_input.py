"""What reaches a model: the hook that has the last word, budgets by trimming, and instructions."""

from collections.abc import Iterable
from itertools import count
from typing import Any

import pytest
from helpers import Drive, failing, scripted
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    trim_messages,
)

import agentgraph as ag
from agentgraph.testing import transcript

IDS = count()


def calling(*names: str, **args: Any) -> AIMessage:
    made = [{"name": n, "args": args, "id": f"call{next(IDS)}", "type": "tool_call"} for n in names]
    return AIMessage("", tool_calls=made)


def note() -> str:
    """Notes."""
    return "Noted."


def says(name: str, text: str = "") -> ag.Agent:
    def fn(ctx: ag.Context) -> str:
        return text or name

    return ag.function_agent(name, fn)


def sent(messages: Iterable[BaseMessage]) -> list[str]:
    return [f"{message.type}: {message.text}" for message in messages]


def history(messages: list[BaseMessage]) -> list[BaseMessage]:
    """Return what a model was sent without the instruction."""
    return messages[1:] if isinstance(messages[0], SystemMessage) else messages


class TestAHook:
    def test_is_given_what_the_model_is_about_to_be_sent(self, drive: Drive) -> None:
        given: list[list[str]] = []

        def hook(messages: list[BaseMessage]) -> list[BaseMessage]:
            given.append(sent(messages))
            return [*messages, HumanMessage("Be brief.")]

        model = scripted("Done.")
        writer = ag.chat_agent("w", model, instruction="On {topic}.", model_input=hook)
        runner = ag.Runner(ag.sequential("s", [says("a"), writer]))
        list(drive.run(runner, "Go.", thread_id="t", values={"topic": "bees"}))
        seen = ["system: On bees.", "human: Go.", "human: [a] said: a"]
        assert given == [seen]
        assert sent(model.inputs[0]) == [*seen, "human: Be brief."]
        state = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values
        assert sent(state["messages"]) == ["human: Go.", "ai: a", "ai: Done."]

    def test_may_take_a_context_too(self, drive: Drive) -> None:
        def hook(ctx: ag.Context, messages: list[BaseMessage]) -> list[BaseMessage]:
            facts = (
                f"{ctx.address} {ctx.run_path} {ctx.iteration} {dict(ctx.values)} {len(ctx.messages)}"
            )
            return [*messages, HumanMessage(facts)]

        model = scripted("One.", "Two.")
        writer = ag.chat_agent("w", model, model_input=hook)
        runner = ag.Runner(ag.loop("l", [writer], max_iterations=2))
        list(drive.run(runner, "Go.", values={"topic": "bees"}))
        assert [messages[-1].text for messages in model.inputs] == [
            "l[0]/w l/w 0 {'topic': 'bees'} 1",
            "l[1]/w l/w/w 1 {'topic': 'bees'} 2",
        ]

    def test_is_asked_before_every_call_of_the_model(self, drive: Drive) -> None:
        given: list[int] = []

        def hook(messages: list[BaseMessage]) -> list[BaseMessage]:
            given.append(len(messages))
            return messages

        model = scripted(calling("note"), calling("note"), "no", "7")
        tree = ag.chat_agent("w", model, tools=[note], model_input=hook, output_schema=int)
        list(drive.run(ag.Runner(tree), "Go."))
        assert given == [2, 4, 6, 8]

    def test_may_be_an_object_or_have_defaults(self, drive: Drive) -> None:
        class Hook:
            def __call__(self, messages: list[BaseMessage], least: int = 1) -> list[BaseMessage]:
                return messages[-least:]

        model = scripted("Done.")
        tree = ag.chat_agent("w", model, instruction="Be kind.", model_input=Hook())
        list(drive.run(ag.Runner(tree), "Go."))
        assert sent(model.inputs[0]) == ["human: Go."]

    def test_may_be_langchains_trimmer(self, drive: Drive) -> None:
        def hook(messages: list[BaseMessage]) -> list[BaseMessage]:
            return trim_messages(
                messages, max_tokens=2, token_counter=len, strategy="last", include_system=True
            )

        model = scripted("Done.")
        writer = ag.chat_agent("w", model, instruction="Be kind.", model_input=hook)
        list(drive.run(ag.Runner(ag.sequential("s", [says("a"), says("b"), writer])), "Go."))
        assert sent(model.inputs[0]) == ["system: Be kind.", "human: [b] said: b"]

    @pytest.mark.parametrize("given", [None, "text", (HumanMessage("x"),), ["text"], {"messages": []}])
    def test_that_gives_anything_else_fails_the_agent(self, drive: Drive, given: Any) -> None:
        answers: list[Any] = [given, [HumanMessage("x")]]
        model = scripted("Done.")
        writer = ag.chat_agent("w", model, model_input=lambda messages: answers.pop(0))
        runner = ag.Runner(ag.sequential("s", [writer]))
        events, raised = failing(drive.run(runner, "Go.", thread_id="t"), ag.InvalidOutputError)
        assert str(raised) == (
            f"s/w: model_input returned {given!r}; return the list of messages that the model is to be "
            "sent"
        )
        assert transcript(events) == [f"s/w: [error] {raised!r}"]
        assert model.inputs == []
        assert transcript(drive.resume(runner, "t")) == ["s/w: Done."]

    def test_that_raises_is_told_under_its_agent(self, drive: Drive) -> None:
        def hook(messages: list[BaseMessage]) -> list[BaseMessage]:
            raise KeyError("topic")

        writer = ag.chat_agent("w", scripted("Never."), model_input=hook)
        events, _ = failing(drive.run(ag.Runner(writer), "Go."), KeyError)
        assert transcript(events) == ["w: [error] KeyError('topic')"]

    def test_may_not_change_what_is_kept(self, drive: Drive) -> None:
        def hook(messages: list[BaseMessage]) -> list[BaseMessage]:
            messages.clear()
            messages.append(HumanMessage("Only this."))
            return messages

        model = scripted("One.", "Two.")
        runner = ag.Runner(
            ag.loop("l", [ag.chat_agent("w", model, model_input=hook)], max_iterations=2)
        )
        list(drive.run(runner, "Go.", thread_id="t"))
        assert [sent(messages) for messages in model.inputs] == [["human: Only this."]] * 2
        state = runner.graph.get_state({"configurable": {"thread_id": "t"}}).values
        assert sent(state["messages"]) == ["human: Go.", "ai: One.", "ai: Two."]

    def test_that_cannot_be_asked_is_a_fault(self) -> None:
        async def later(messages: list[BaseMessage]) -> list[BaseMessage]:
            return messages

        hooks: list[Any] = ["x", later, lambda: [], lambda a, b, c: []]
        for hook in hooks:
            with pytest.raises(ag.InvalidAgentError) as caught:
                ag.compile_agent(ag.chat_agent("w", scripted(), model_input=hook))
            assert str(caught.value) == (
                f"w: model_input={hook!r} cannot be used; pass a sync function of the messages, or "
                "of a context and the messages"
            )

    def test_may_be_a_builtin(self, drive: Drive) -> None:
        model = scripted("Done.")
        list(drive.run(ag.Runner(ag.chat_agent("w", model, model_input=list)), "Go."))
        assert sent(model.inputs[0]) == ["human: Go."]


class TestATrimmedHistory:
    def test_is_within_its_budget_on_every_input_of_a_long_loop(self, drive: Drive) -> None:
        model = scripted(*[f"Reply {i}." for i in range(12)])
        writer = ag.chat_agent(
            "w", model, instruction="Be kind.", history=ag.trimmed(4, token_counter=len)
        )
        list(drive.run(ag.Runner(ag.loop("l", [writer, says("b")], max_iterations=12)), "Go."))
        assert [len(history(messages)) for messages in model.inputs] == [1, 3, *[4] * 10]
        assert sent(model.inputs[-1]) == [
            "system: Be kind.",
            "ai: Reply 9.",
            "human: [b] said: b",
            "ai: Reply 10.",
            "human: [b] said: b",
        ]

    def test_is_within_its_budget_in_a_long_loop_of_tools(self, drive: Drive) -> None:
        model = scripted(*[calling("note") for _ in range(12)], "Done.")
        tree = ag.chat_agent("w", model, tools=[note], history=ag.trimmed(5, token_counter=len))
        assert transcript(drive.run(ag.Runner(tree), "Go."))[-1] == "w: Done."
        assert [len(messages) for messages in model.inputs] == [1, 3, 5, *[4] * 10]

    def test_shows_the_last_round_however_long_it_is(self, drive: Drive) -> None:
        def long() -> str:
            """Is long."""
            return "bees " * 1_000

        model = scripted(calling("long", "long"), "Done.")
        tree = ag.chat_agent("w", model, tools=[long], history=ag.trimmed(10))
        list(drive.run(ag.Runner(tree), "Go."))
        assert [message.type for message in model.inputs[1]] == ["ai", "tool", "tool"]

    def test_of_another_policy_trims_what_that_chose(self, drive: Drive) -> None:
        model = scripted("One.", "Two.", "Three.")
        policy = ag.trimmed(2, history="own", token_counter=len)
        writer = ag.chat_agent("w", model, history=policy)
        list(drive.run(ag.Runner(ag.loop("l", [writer, says("b")], max_iterations=3)), "Go."))
        assert [sent(messages) for messages in model.inputs] == [
            ["human: Go."],
            ["human: Go.", "ai: One."],
            ["ai: One.", "ai: Two."],
        ]

    def test_of_a_function_is_what_its_context_shows(self, drive: Drive) -> None:
        seen: list[list[str]] = []

        def fn(ctx: ag.Context) -> str:
            seen.append(sent(ctx.messages))
            return "f"

        last = ag.function_agent("f", fn, history=ag.trimmed(1, token_counter=len))
        list(drive.run(ag.Runner(ag.sequential("s", [says("a"), says("b"), last])), "Go."))
        assert seen == [["human: [b] said: b"]]


class TestATemplate:
    def test_is_filled_and_then_come_transfers_and_schemas(self, drive: Drive) -> None:
        model = scripted('["{topic}"]')
        schema = {"type": "array", "items": {"type": "string"}}
        child = ag.chat_agent("C", scripted(), description="Knows {topic} and {{braces}}.")
        tree = ag.chat_agent(
            "w",
            model,
            instruction='On {topic}, {tone?}{{braces}}, {"a": 1}.',
            sub_agents=[child],
            output_schema=schema,
        )
        list(drive.run(ag.Runner(tree), "Go.", values={"topic": "bees"}))
        assert str(model.inputs[0][0].text).split("\n\n") == [
            'On bees, {braces}, {"a": 1}.',
            "You can hand the conversation over to another agent, who then goes on, with these tools:\n"
            "- transfer_to_C: Knows {topic} and {{braces}}.",
            "Your last reply must be JSON that fits this JSON schema, and nothing else:\n"
            '{"type": "array", "items": {"type": "string"}}',
        ]

    def test_without_an_instruction_still_tells_them(self, drive: Drive) -> None:
        model = scripted("7")
        list(drive.run(ag.Runner(ag.chat_agent("w", model, output_schema=int)), "Go."))
        assert model.inputs[0][0] == SystemMessage(
            "Your last reply must be JSON that fits this JSON schema, and nothing else:\n"
            '{"type": "integer"}'
        )

    def test_is_filled_again_after_a_tool_wrote_a_value(self, drive: Drive) -> None:
        def choose(topic: str) -> ag.SetValues:
            """Chooses."""
            return ag.SetValues(topic=topic)

        model = scripted(calling("choose", topic="bees"), "Done.")
        tree = ag.chat_agent("w", model, instruction="On {topic?}.", tools=[choose])
        list(drive.run(ag.Runner(tree), "Go."))
        assert [messages[0].text for messages in model.inputs] == ["On .", "On bees."]
