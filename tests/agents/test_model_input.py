"""The input of a model: the last hook, budgets by trimming, and instructions.

The input of a hook is in `tests/transcripts/model_input.txt`.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from helpers import Drive, echo, failing, lines, says, scripted, store, texts
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

import agentgraph as ag
from agentgraph.safe_repr import shown
from agentgraph.testing import call, calls


class TestAHook:
    def test_is_asked_before_every_call_of_the_model(self, drive: Drive) -> None:
        class Hook:
            """A hook may be an object, and give any sequence."""

            def __call__(self, messages: list[BaseMessage]) -> tuple[BaseMessage, ...]:
                lengths.append(len(messages))
                return tuple(messages)

        lengths: list[int] = []
        echoes = [calls(call("echo", text="x"))] * 2
        model = scripted(*echoes, "no", "7")
        tree = ag.chat_agent("w", model, tools=[echo], model_input=Hook(), output_schema=int)
        list(drive.run(ag.Runner(tree), "Go."))
        assert lengths == [2, 4, 6, 8]

    @pytest.mark.parametrize("given", [None, "text", ["text"], {"messages": []}])
    def test_that_gives_anything_else_fails_the_agent(self, drive: Drive, given: Any) -> None:
        answers: list[Any] = [given, [HumanMessage("x")]]
        model = scripted("Done.")
        writer = ag.chat_agent("w", model, model_input=lambda messages: answers.pop(0))
        runner = ag.Runner(ag.sequential("s", [writer]))
        events, raised = failing(drive.run(runner, "Go.", thread_id="t"), ag.InvalidOutputError)
        assert str(raised) == (
            f"s/w: model_input returned {shown(given)}; return the list of messages that the "
            "model is to be sent"
        )
        assert lines(events) == [f"s/w: [error] {raised!r}"]
        assert model.inputs == []
        assert lines(drive.resume(runner, "t")) == ["s/w: Done."]

    def test_must_be_a_function_of_one_or_two_arguments(self) -> None:
        async def streamed(messages: list[BaseMessage]) -> AsyncIterator[BaseMessage]:
            yield messages[0]

        hooks: list[Any] = ["x", streamed, lambda: [], lambda a, b, c: []]
        for hook in hooks:
            with pytest.raises(ag.InvalidAgentError) as caught:
                ag.compile_agent(ag.chat_agent("w", scripted(), model_input=hook))
            assert str(caught.value) == (
                f"w: model_input={shown(hook)} cannot be used; pass a function of the messages, or "
                "of a context and the messages"
            )


class TestATrimmedHistory:
    def test_is_within_its_budget_in_a_long_loop(self) -> None:
        model = scripted(*map(str, range(12)))
        policy = ag.trimmed(4, token_counter=len)
        writer = ag.chat_agent("w", model, instruction="Be kind.", history=policy)
        list(ag.Runner(ag.loop("l", [writer, says("b")], max_iterations=12)).run("Go."))
        assert [len(messages) - 1 for messages in model.inputs] == [1, 3, *[4] * 10]
        said = ["ai: 9", "human: [b] said: b", "ai: 10", "human: [b] said: b"]
        assert texts(model.inputs[-1]) == ["system: Be kind.", *said]

    def test_is_within_its_budget_in_a_long_loop_of_tools(self) -> None:
        model = scripted(*[calls(call("echo", text="x"))] * 12, "Done.")
        tree = ag.chat_agent("w", model, tools=[echo], history=ag.trimmed(5, token_counter=len))
        assert list(ag.Runner(tree).run("Go."))[-1].text == "Done."
        assert [len(messages) for messages in model.inputs] == [1, 3, 5, *[4] * 10]
        assert isinstance(model.inputs[-1][0], AIMessage)


class TestAnInstruction:
    def test_is_filled_and_followed_by_transfers_and_the_schema(self, drive: Drive) -> None:
        model = scripted('["{topic}"]')
        tree = ag.chat_agent(
            "w",
            model,
            instruction='On {topic}, {tone?}{{braces}}, {"a": 1}.',
            sub_agents=[ag.chat_agent("C", scripted(), description="Knows {topic} and {{braces}}.")],
            output_schema={"type": "array", "items": {"type": "string"}},
        )
        list(drive.run(ag.Runner(tree), "Go.", values={"topic": "bees"}))
        assert str(model.inputs[0][0].text).split("\n\n") == [
            'On bees, {braces}, {"a": 1}.',
            "You can hand the conversation over to another agent, who continues, with these tools:\n"
            "- transfer_to_C: Knows {topic} and {{braces}}.",
            "Your last reply must be JSON that fits this JSON schema, and nothing else:\n"
            '{"type": "array", "items": {"type": "string"}}',
        ]

    def test_may_be_the_schema_alone(self) -> None:
        model = scripted("7")
        list(ag.Runner(ag.chat_agent("w", model, output_schema=int)).run("Go."))
        assert model.inputs[0][0] == SystemMessage(
            "Your last reply must be JSON that fits this JSON schema, and nothing else:\n"
            '{"type": "integer"}'
        )

    def test_is_filled_again_after_a_tool_wrote_a_value(self, drive: Drive) -> None:
        model = scripted(calls(call("store", value="bees")), "Done.")
        tree = ag.chat_agent("w", model, instruction="On {stored?}.", tools=[store])
        list(drive.run(ag.Runner(tree), "Go."))
        assert [messages[0].text for messages in model.inputs] == ["On .", "On bees."]
