"""`history=summarized(...)`: LangChain's summarization in the stack of a chat agent."""

import asyncio
from collections.abc import Iterable
from itertools import count
from typing import Any

import pytest
from helpers import Async, Disk, Drive, failing, says, scripted, shapes
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware, before_model
from langchain_core.exceptions import ContextOverflowError, ModelAuthenticationError
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.utils import get_buffer_string
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt
from openai_server import OpenAIServer

import agentgraph as ag
from agentgraph.testing import call, calls, pairing_faults, transcript

IDS = count()
HEAD = "human: Here is a summary of the conversation to date:\n\n"
CONFIG: Any = {"configurable": {"thread_id": "t"}}


def calling(*names: str, **args: Any) -> AIMessage:
    made = [{"name": n, "args": args, "id": f"call{next(IDS)}", "type": "tool_call"} for n in names]
    return AIMessage("", tool_calls=made)


def note() -> str:
    """Notes."""
    return "Noted."


def sent(messages: Iterable[BaseMessage]) -> list[str]:
    return [f"{message.type}: {message.text}" for message in messages]


def history(messages: list[BaseMessage]) -> list[BaseMessage]:
    """Return what a model was sent without the instruction."""
    return messages[1:] if isinstance(messages[0], SystemMessage) else messages


def to_sum_up(asked: list[BaseMessage]) -> str:
    """Return the conversation in what a summarising model was asked by LangChain's prompt."""
    [message] = asked
    before, _, rest = message.text.partition("<messages>\nMessages to summarize:\n")
    assert before.startswith("<role>")
    return rest.removesuffix("\n</messages>")


def reader(model: Any, summarising: Any, max_tokens: int = 6, **options: Any) -> Any:
    policy = ag.summarized(summarising, max_tokens, token_counter=len)
    return ag.chat_agent("w", model, history=policy, **options)


@pytest.fixture
def openai_key(monkeypatch: pytest.MonkeyPatch, openai_server: OpenAIServer) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    monkeypatch.setenv("OPENAI_BASE_URL", openai_server.base_url)


def test_it_is_langchains_summarization(drive: Drive) -> None:
    rounds = [calling("note", "note"), calling("note"), "Done.", calling("note"), "Well.", "Bye."]
    sums = [f"Sum {n}." for n in range(9)]
    asked, summing = scripted(*rounds), scripted(*sums)
    runner = ag.Runner(
        reader(asked, summing, 5, tools=[note], instruction="Be kind.", parallel_tools=False)
    )
    told = [e for text in ("Go.", "On.", "And?") for e in drive.run(runner, text, thread_id="t")]
    their_asked, their_summing = scripted(*rounds), scripted(*sums)
    summarization = SummarizationMiddleware(
        their_summing,
        trigger=("tokens", 5),
        keep=("tokens", 2),
        token_counter=len,
        trim_tokens_to_summarize=None,
    )
    theirs: Any = create_agent(
        their_asked,
        [note],
        system_prompt="Be kind.",
        middleware=[summarization],
        checkpointer=InMemorySaver(),
    )
    for text in ("Go.", "On.", "And?"):
        given = {"messages": [HumanMessage(text)]}
        asyncio.run(theirs.ainvoke(given, CONFIG)) if drive is Async else theirs.invoke(given, CONFIG)
    assert len(summing.inputs) > 1
    assert [shapes(each) for each in asked.inputs] == [shapes(each) for each in their_asked.inputs]
    assert [shapes(each) for each in summing.inputs] == [shapes(e) for e in their_summing.inputs]
    assert list(runner.events("t")) == told


class TestASummary:
    def test_keeps_every_input_within_the_budget_and_is_written_now_and_then(
        self, drive: Drive
    ) -> None:
        model = scripted(*[calling("note") for _ in range(12)], "Done.")
        sums = scripted(*[f"Sum {i}." for i in range(5)])
        tree = reader(model, sums, 8, tools=[note], instruction="Be kind.")
        assert transcript(drive.run(ag.Runner(tree), "Go."))[-1] == "w: Done."
        sizes = [len(history(messages)) for messages in model.inputs]
        assert sizes == [1, 3, 5, 7, 5, 7, 5, 7, 5, 7, 5, 7, 5]
        sums.assert_finished()
        assert [sent(messages)[1] for messages in model.inputs][4::2] == [
            f"{HEAD}Sum {i}." for i in range(5)
        ]

    def test_stands_in_place_of_what_it_covers(self, drive: Drive) -> None:
        model, sums = scripted("One.", "Two."), scripted("a and b spoke.")
        speakers = [says(name) for name in "abcde"]
        tree = ag.sequential("s", [*speakers, reader(model, sums, 5)])
        list(drive.run(ag.Runner(tree), "Go."))
        assert sent(model.inputs[0]) == [
            f"{HEAD}a and b spoke.",
            "human: [d] said: d",
            "human: [e] said: e",
        ]
        assert to_sum_up(sums.inputs[0]) == (
            '<message type="human">Go.</message>\n'
            '<message type="human">[a] said: a</message>\n'
            '<message type="human">[b] said: b</message>\n'
            '<message type="human">[c] said: c</message>'
        )

    def test_is_not_written_where_all_fits(self, drive: Drive) -> None:
        model, sums = scripted("Done."), scripted()
        list(drive.run(ag.Runner(ag.sequential("s", [says("a"), reader(model, sums)])), "Go."))
        assert sent(model.inputs[0]) == ["human: Go.", "human: [a] said: a"]
        assert sums.inputs == []

    def test_survives_a_resume(self, disk: Disk) -> None:
        model = scripted(*[calling("note") for _ in range(4)], calling("ask"), "Done.")
        sums = scripted("Sum.", "Never.")

        def tree() -> ag.Agent:
            def ask() -> str:
                """Asks."""
                return f"Heard {interrupt('Well?')}."

            return reader(model, sums, 8, tools=[note, ask])

        assert transcript(disk.run(tree()))[-1] == "w: [asks] Well?"
        assert len(sums.inputs) == 1
        assert transcript(disk.resume(tree(), "yes")) == ["w: Heard yes.", "w: Done."]
        assert len(sums.inputs) == 1
        assert sent(model.inputs[-1])[0] == f"{HEAD}Sum."
        assert sent(model.inputs[-1])[-1] == "tool: Heard yes."

    def test_survives_a_second_turn_and_is_covered_by_a_further_one(self, disk: Disk) -> None:
        model = scripted("One.", "Two.", "Three.", "Four.")
        sums = scripted("Sum 0.", "Sum 1.")

        def tree() -> ag.Agent:
            return ag.sequential("s", [says("a"), says("b"), reader(model, sums, 5)])

        disk.run(tree(), "First.")
        assert len(sums.inputs) == 0
        disk.run(tree(), "Second.")
        assert len(sums.inputs) == 1
        assert sent(model.inputs[1]) == [f"{HEAD}Sum 0.", "human: [a] said: a", "human: [b] said: b"]
        disk.run(tree(), "Third.")
        assert len(sums.inputs) == 2
        assert to_sum_up(sums.inputs[1]) == (
            '<message type="human">Here is a summary of the conversation to date:\n\nSum 0.</message>\n'
            '<message type="human">[a] said: a</message>\n'
            '<message type="human">[b] said: b</message>\n'
            '<message type="ai">Two.</message>\n'
            '<message type="human">Third.</message>'
        )
        assert sent(model.inputs[2]) == [f"{HEAD}Sum 1.", "human: [a] said: a", "human: [b] said: b"]

    def test_is_not_written_again_when_the_model_that_reads_it_fails(self, disk: Disk) -> None:
        model = scripted(*[calling("note") for _ in range(4)], ConnectionError("down"), "Done.")
        sums = scripted("Sum.", "Never.")
        tree = reader(model, sums, 8, tools=[note])
        with pytest.raises(ConnectionError):
            disk.run(tree)
        assert len(sums.inputs) == 1
        assert transcript(disk.resume(tree)) == ["w: Done."]
        assert len(sums.inputs) == 1
        assert sent(model.inputs[-1])[0] == f"{HEAD}Sum."

    def test_that_fails_fails_its_agent_and_is_tried_again(self, drive: Drive) -> None:
        model, sums = scripted("Done."), scripted(ModelAuthenticationError("no key"), "Sum.")
        tree = ag.sequential("s", [*[says(name) for name in "abcde"], reader(model, sums, 5)])
        runner = ag.Runner(tree)
        events, _ = failing(drive.run(runner, "Go.", thread_id="t"), ModelAuthenticationError)
        assert transcript(events)[-1] == "s/a/b/c/d/e/w: [error] ModelAuthenticationError('no key')"
        assert model.inputs == []
        assert transcript(drive.resume(runner, "t")) == ["s/a/b/c/d/e/w: Done."]

    def test_is_the_agents_own(self, drive: Drive) -> None:
        sums, other_sums = scripted("Mine."), scripted("Other.")
        first, second, third = scripted("W."), scripted("V."), scripted("U.")
        policy = ag.summarized(other_sums, 5, token_counter=len)
        agents = [
            *[says(name) for name in "abcde"],
            reader(first, sums, 5),
            ag.chat_agent("v", second, history=policy),
            ag.chat_agent("u", third),
        ]
        list(drive.run(ag.Runner(ag.sequential("s", agents)), "Go."))
        assert sent(first.inputs[0])[0] == f"{HEAD}Mine."
        assert sent(second.inputs[0])[0] == f"{HEAD}Other."
        assert len(third.inputs[0]) == 8

    def test_in_branches_and_in_agents_as_tools_is_written(self, drive: Drive) -> None:
        sums, inner = scripted("Sum."), scripted("Inner.")
        tool = ag.agent_tool(reader(inner, sums, 5), history="shared")
        model = scripted(calling("w", request="x"), "Done.")
        outer = ag.chat_agent("outer", model, tools=[tool])
        tree = ag.sequential("s", [*[says(name) for name in "abcde"], ag.parallel("p", [outer])])
        assert transcript(drive.run(ag.Runner(tree), "Go."))[-1] == "s/a/b/c/d/e/p/outer: Done."
        assert sent(inner.inputs[0])[0] == f"{HEAD}Sum."
        assert sent(inner.inputs[0])[-1] == "human: x"

    def test_with_a_hook_is_what_the_hook_is_given(self, drive: Drive) -> None:
        given: list[list[str]] = []

        def hook(messages: list[BaseMessage]) -> list[BaseMessage]:
            given.append(sent(messages))
            return messages

        tree = ag.sequential(
            "s",
            [
                says("a"),
                says("b"),
                reader(scripted("Done."), scripted("Sum."), 2, model_input=hook, instruction="Be."),
            ],
        )
        list(drive.run(ag.Runner(tree), "Go."))
        assert given == [["system: Be.", f"{HEAD}Sum.", "human: [b] said: b"]]

    def test_is_kept_by_address_and_is_no_value(self, drive: Drive) -> None:
        tree = ag.sequential(
            "s", [says("a"), says("b"), reader(scripted("Done."), scripted("Sum."), 2)]
        )
        runner = ag.Runner(tree)
        events = list(drive.run(runner, "Go.", thread_id="t"))
        state = runner.graph.get_state(CONFIG).values
        assert state.get("values", {}) == {}
        assert list(state["middleware"]) == ["w"]
        assert [each.text for each in state["messages"]] == ["Go.", "a", "b", "Done."]
        assert list(runner.events("t")) == events

    def test_holds_in_the_next_iteration_of_a_loop(self, disk: Disk) -> None:
        model, sums = scripted(*"vwxyz"), scripted("Sum.", "Never.")
        tree = ag.loop("l", [reader(model, sums, 5)], max_iterations=5)
        disk.run(tree)
        assert len(sums.inputs) == 1
        assert sent(model.inputs[4]) == [f"{HEAD}Sum.", "ai: x", "ai: y"]

    def test_that_covers_a_call_without_a_result_holds_in_the_next_iteration(
        self, drive: Drive
    ) -> None:
        """What answers such a call is made up anew each time, and has to be known again."""

        def ask() -> str:
            """Asks."""
            return str(interrupt("Well?"))

        model, sums = scripted(calling("ask"), *"abcd"), scripted("Sum.", "Never.")
        body = reader(model, sums, 6, tools=[ask])
        graph: Any = ag.compile_agent(
            ag.loop("l", [body], max_iterations=4), checkpointer=InMemorySaver()
        )
        for text in ("Go.", "On."):
            given = {"messages": [HumanMessage(text)]}
            asyncio.run(graph.ainvoke(given, CONFIG)) if drive is Async else graph.invoke(given, CONFIG)
        assert [len(each) for each in model.inputs] == [1, 4, 5, 4, 5]
        assert len(sums.inputs) == 1

    @pytest.mark.parametrize("policy", ["input", "last", lambda entries: [entries[0].message]])
    def test_of_a_passing_choice_holds_until_the_agent_has_answered(
        self, drive: Drive, policy: Any
    ) -> None:
        rounds = [calling("note") for _ in range(5)]
        model, sums = scripted(*rounds, "Done.", "Again."), scripted("Sum.", "Never.")
        summarized = ag.summarized(sums, 8, token_counter=len, history=policy)
        runner = ag.Runner(ag.chat_agent("w", model, tools=[note], history=summarized))
        list(drive.run(runner, "Go.", thread_id="t"))
        assert [len(each) for each in model.inputs] == [1, 3, 5, 7, 5, 7]
        assert [sent(each)[0] for each in model.inputs[4:]] == [f"{HEAD}Sum."] * 2
        list(drive.run(runner, "On.", thread_id="t"))
        assert not any("Sum." in text for text in sent(model.inputs[-1]))

    def test_of_a_branch_is_that_branchs(self, disk: Disk) -> None:
        left, right = scripted("l", "l"), scripted("r", "r")
        left_sums, right_sums = scripted("Left."), scripted("Right.")

        def chat(name: str, model: Any, sums: Any) -> ag.Agent:
            policy = ag.summarized(sums, 4, token_counter=len)
            return ag.chat_agent(name, model, history=policy)

        branches = [chat("left", left, left_sums), chat("right", right, right_sums)]
        tree = ag.parallel("p", branches)
        disk.run(tree, "Go.")
        disk.run(tree, "On.")
        assert sent(left.inputs[1])[0] == f"{HEAD}Left."
        assert sent(right.inputs[1])[0] == f"{HEAD}Right."
        assert disk.events(tree) == disk.told


class TestTheNode:
    def test_is_the_last_hook_before_the_model(self) -> None:
        @before_model
        def mine(state: Any, runtime: Any) -> None:
            return None

        @before_model
        def of_the_tree(state: Any, runtime: Any) -> None:
            return None

        tree = reader(scripted(), scripted(), middleware=[mine])
        nodes = ag.compile_agent(tree, middleware=[of_the_tree]).get_graph()
        ways = {each.source: each.target for each in nodes.edges}
        assert ways["w.of_the_tree.before_model"] == "w.mine.before_model"
        assert ways["w.mine.before_model"] == "w.SummarizationMiddleware.before_model"
        assert ways["w.SummarizationMiddleware.before_model"] == "w"

    def test_agents_without_a_summary_do_not_have(self) -> None:
        policy = ag.trimmed(5)
        graph = ag.compile_agent(ag.chat_agent("w", scripted(), history=policy))
        assert [name for name in graph.nodes if not name.startswith("__")] == ["w"]

    def test_comes_after_what_the_agent_redacts(self, drive: Drive) -> None:
        @before_model
        def redact(state: Any, runtime: Any) -> Any:
            hidden = [HumanMessage("...", id=m.id) for m in state["messages"] if "@" in m.text]
            return {"messages": hidden} if hidden else None

        model, sums = scripted("Done."), scripted("Sum.")
        tree = reader(model, sums, 2, middleware=[redact])
        list(drive.run(ag.Runner(tree), ["I am a@b.com.", "Hm."]))
        assert to_sum_up(sums.inputs[0]) == '<message type="human">...</message>'

    def test_is_a_supervisors_too(self, drive: Drive) -> None:
        model, sums = scripted(calls(call("helper", "1", request="?")), "Done."), scripted("Sum.")
        policy = ag.summarized(sums, 3, token_counter=len)
        helper = ag.chat_agent("helper", scripted("Help."), description="Helps.")
        boss = ag.supervisor("boss", model, [helper], history=policy)
        assert transcript(drive.run(ag.Runner(boss), "Go."))[-1] == "boss: Done."
        assert [message.type for message in history(model.inputs[1])] == ["human", "ai", "tool"]
        assert sent(history(model.inputs[1]))[0] == f"{HEAD}Sum."


class TestTheSummarisingModel:
    def test_may_be_a_name(self, drive: Drive, openai_key: None, openai_server: OpenAIServer) -> None:
        openai_server.script = ["Sum."]
        model = scripted("Done.")
        tree = ag.sequential("s", [says("a"), reader(model, "openai:gpt-4.1-mini", 2)])
        list(drive.run(ag.Runner(tree), "Go."))
        assert [body["model"] for body in openai_server.requests] == ["gpt-4.1-mini"]
        assert sent(model.inputs[0]) == [f"{HEAD}Sum.", "human: [a] said: a"]

    def test_of_a_name_is_made_when_it_is_asked(
        self, drive: Drive, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        tree = reader(scripted("Hm.", "Done."), "openai:gpt-4.1-mini", 3)
        runner = ag.Runner(tree)
        list(drive.run(runner, "Go.", thread_id="t"))
        with pytest.raises(ag.AgentGraphError) as caught:
            list(drive.run(runner, "On.", thread_id="t"))
        text = str(caught.value)
        assert text.startswith(
            "w, in summarized(...): LangChain's init_chat_model cannot make the model "
            "'openai:gpt-4.1-mini' ("
        )
        assert text.endswith(
            "install the provider's package, set its key in the environment, or pass a model object"
        )

    @pytest.mark.parametrize(
        "wrap",
        [
            lambda model: model.bind(stop=["x"]),
            lambda model: model.with_fallbacks([scripted()]),
            lambda model: RunnableLambda(lambda asked: asked) | model,
            lambda model: model | RunnableLambda(lambda reply: reply.text),
        ],
        ids=["settings", "fallbacks", "sequence", "text"],
    )
    def test_may_be_a_runnable_around_one(self, drive: Drive, wrap: Any) -> None:
        model, sums = scripted(reported("Hm.", 5000), "Done."), scripted("Sum.")
        policy = ag.summarized(wrap(sums), 25)
        writer = ag.chat_agent("w", model, history=policy)
        runner = ag.Runner(writer)
        list(drive.run(runner, "Bees", thread_id="t"))
        list(drive.run(runner, ["Bees " * 50, "Ants."], thread_id="t"))
        assert sent(model.inputs[1]) == [f"{HEAD}Sum.", "human: Ants."]

    @pytest.mark.parametrize("reply", ["", " \n", calling("note")], ids=["empty", "blank", "call"])
    def test_that_gives_no_summary_loses_nothing(self, drive: Drive, reply: Any) -> None:
        model, sums = scripted("Done."), scripted(reply, "Sum.")
        runner = ag.Runner(reader(model, sums, 2))
        told = drive.run(runner, ["One.", "Two."], thread_id="t")
        _, error = failing(told, ag.InvalidOutputError)
        assert str(error).startswith("w: the model of summarized(...) returned AIMessage(")
        assert str(error).endswith(
            ", which is not a summary; nothing was left out for it. Resume to ask it again, or use "
            "another model"
        )
        assert transcript(drive.resume(runner, "t")) == ["w: Done."]
        assert sent(model.inputs[0]) == [f"{HEAD}Sum.", "human: Two."]

    def test_is_sent_all_that_it_sums_up(self, drive: Drive) -> None:
        """LangChain sends the last 4,000 tokens unless it is told otherwise."""
        model, sums = scripted("Done."), scripted("Sum.")
        writer = ag.chat_agent("w", model, history=ag.summarized(sums, 1000))
        long = [f"{n} " + "bees " * 4_000 for n in range(5)]
        list(drive.run(ag.Runner(writer), [*long, "Well?"]))
        assert to_sum_up(sums.inputs[0]).count("bees ") == 5 * 4_000
        assert sent(model.inputs[0]) == [f"{HEAD}Sum.", "human: Well?"]

    def test_that_refuses_so_much_is_asked_without_the_middle(self, drive: Drive) -> None:
        model, sums = scripted("Done."), scripted(ContextOverflowError("too long"), "Sum.")
        writer = ag.chat_agent("w", model, history=ag.summarized(sums, 10))
        list(drive.run(ag.Runner(writer), ["First. " + "bees " * 500 + "Last.", "Well?"]))
        again = to_sum_up(sums.inputs[1])
        assert again.startswith('<message type="human">First. bees')
        assert "[... middle of conversation omitted ...]" in again
        assert again.endswith("bees Last.</message>")
        assert len(again) < len(to_sum_up(sums.inputs[0])) * 0.6
        assert sent(model.inputs[0]) == [f"{HEAD}Sum.", "human: Well?"]

    def test_has_an_instruction_of_ones_own(self, drive: Drive) -> None:
        asked: list[str] = []
        for instruction in ("In {five} words.", "In {five} words: {messages} {{Go}}!"):
            sums = scripted("Sum.")
            policy = ag.summarized(sums, 2, token_counter=len, instruction=instruction)
            writer = ag.chat_agent("w", scripted("Done."), history=policy)
            list(drive.run(ag.Runner(ag.sequential("s", [says("a"), writer])), "{Go}."))
            asked += [message.text for message in sums.inputs[0]]
        assert asked == [
            'In {five} words.\n\n<messages>\n<message type="human">{Go}.</message>\n</messages>',
            'In {five} words: <message type="human">{Go}.</message> {{Go}}!',
        ]


def reported(text: str, tokens: int) -> AIMessage:
    """Return a reply whose provider, that of the scripted models, reports tokens."""
    usage = {"input_tokens": tokens - 1, "output_tokens": 1, "total_tokens": tokens}
    return AIMessage(
        text,
        usage_metadata=usage,  # type: ignore[arg-type]
        response_metadata={"model_provider": "scriptedchatmodel"},
    )


class TestTheBudget:
    def test_of_langchains_counter_knows_what_the_provider_reports(self, drive: Drive) -> None:
        sums = scripted("Sum.")
        model = scripted(reported("One.", 5000), "Two.")
        writer = ag.chat_agent("w", model, history=ag.summarized(sums, 100))
        runner = ag.Runner(writer)
        list(drive.run(runner, "bees " * 45, thread_id="t"))
        list(drive.run(runner, "On.", thread_id="t"))
        assert len(sums.inputs) == 1

    def test_of_another_counter_is_what_that_counts(self, drive: Drive) -> None:
        sums = scripted()
        model = scripted(reported("One.", 5000), "Two.")
        runner = ag.Runner(reader(model, sums, 4))
        list(drive.run(runner, "Go.", thread_id="t"))
        list(drive.run(runner, "On.", thread_id="t"))
        assert [len(each) for each in model.inputs] == [1, 3]

    def test_that_one_message_passes_leaves_it_as_it_is(self, drive: Drive) -> None:
        model, sums = scripted("Done."), scripted()
        writer = ag.chat_agent("w", model, history=ag.summarized(sums, 1))
        list(drive.run(ag.Runner(writer), "bees " * 100))
        assert len(model.inputs[0]) == 1

    def test_that_one_round_passes_leaves_the_round_as_it_is(self, drive: Drive) -> None:
        def long() -> str:
            """Is long."""
            return "bees " * 1_000

        model, sums = scripted(calling("long", "long"), "Done."), scripted("Sum.")
        writer = ag.chat_agent("w", model, tools=[long], history=ag.summarized(sums, 10))
        list(drive.run(ag.Runner(writer), "Go."))
        assert [message.type for message in model.inputs[1]] == ["human", "ai", "tool", "tool"]
        assert sent(model.inputs[1])[0] == f"{HEAD}Sum."


def words(messages: Any) -> int:
    return sum(len(message.text.split()) for message in messages)


TEXTS = st.sampled_from(["", "a", "a b c"])
TURN = st.one_of(
    st.builds(lambda text: [HumanMessage(text)], TEXTS),
    st.builds(lambda text: [AIMessage(text)], TEXTS),
    st.builds(
        lambda n: [
            (made := calling(*["note"] * n)),
            *(ToolMessage("a b", tool_call_id=each["id"]) for each in made.tool_calls),
        ],
        st.integers(1, 3),
    ),
)
TALKS = st.lists(TURN, min_size=1, max_size=6).map(lambda turns: [m for turn in turns for m in turn])


@given(TALKS, st.integers(1, 12))
@settings(max_examples=100, deadline=None)
def test_a_summary_and_what_is_newer_hold_the_whole_of_any_talk(
    talk: list[BaseMessage], max_tokens: int
) -> None:
    said = [each.model_copy(update={"id": str(n)}) for n, each in enumerate(talk)]
    sums, model = scripted("Sum."), scripted("Done.")
    policy = ag.summarized(
        sums, max_tokens, token_counter=words, history=lambda entries: [e.message for e in entries]
    )
    graph: Any = ag.compile_agent(ag.chat_agent("w", model, history=policy))
    graph.invoke({"messages": said})
    [seen] = model.inputs
    if not sums.inputs:
        assert shapes(seen) == shapes(said)
        return
    newest = shapes(seen)[1:]
    older = said[: len(said) - len(newest)]
    assert sent(seen)[0] == f"{HEAD}Sum."
    assert newest == shapes(said[len(older) :]) != []
    assert to_sum_up(sums.inputs[0]) == get_buffer_string(older, format="xml")
    assert pairing_faults(seen) == pairing_faults(older) == []


class TestAFault:
    def test_is_a_second_middleware_that_sums_up(self) -> None:
        summing = SummarizationMiddleware(scripted())
        fault = (
            "w: it has both history=summarized(...) and a SummarizationMiddleware, its own or one of "
            "the whole tree, which would sum up twice; leave one out"
        )
        assert faults(reader(scripted(), scripted(), middleware=[summing])) == (fault,)
        assert faults(reader(scripted(), scripted()), middleware=[summing]) == (fault,)

        class Mine(SummarizationMiddleware):
            pass

        assert faults(reader(scripted(), scripted(), middleware=[Mine(scripted())])) == (fault,)

    @pytest.mark.parametrize("model", [None, "", " ", 5, lambda ctx: scripted()])
    def test_is_a_model_that_is_none(self, model: Any) -> None:
        [fault] = faults(reader(scripted(), model))
        assert fault.startswith("w: the summarising model ")
        assert fault.endswith(
            "is not a LangChain chat model; pass one, such as ChatOpenAI(...), or a name, such as "
            "'openai:gpt-5-mini'"
        )

    def test_is_an_instruction_that_is_no_text(self) -> None:
        policy: Any = ag.summarized(scripted(), 5, instruction=SystemMessage("x"))  # type: ignore[arg-type]
        [fault] = faults(ag.chat_agent("w", scripted(), history=policy))
        assert fault.endswith("of summarized(...) is not a text; pass one, or leave it out")

    @pytest.mark.parametrize("make", [ag.trimmed, lambda n, **o: ag.summarized(scripted(), n, **o)])
    def test_is_a_counter_that_cannot_be_called(self, make: Any) -> None:
        assert faults(ag.chat_agent("w", scripted(), history=make(5, token_counter=7))) == (
            "w: token_counter=7 cannot be called; pass a function of a list of messages, such as len",
        )


def faults(tree: Any, **options: Any) -> tuple[str, ...]:
    with pytest.raises(ag.InvalidAgentError) as refused:
        ag.compile_agent(tree, **options)
    return refused.value.faults
