"""`history=summarized(...)`: LangChain's summarization in the stack of a chat agent.

When a summary is written and where it is seen is in `transcripts/summarized.txt`.
"""

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from helpers import Async, Drive, failing, note, says, scripted, shapes, texts
from helpers.openai_server import OpenAIServer
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware, before_model
from langchain_core.exceptions import ContextOverflowError, ModelAuthenticationError
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.utils import get_buffer_string
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver

import agentgraph as ag
from agentgraph.safe_repr import shown
from agentgraph.testing import call, calls, pairing_faults, transcript

HEAD = "human: Here is a summary of the conversation to date:\n\n"
CONFIG: Any = {"configurable": {"thread_id": "t"}}
IDS = count()


def notes(times: int = 1) -> AIMessage:
    """Return calls of `note`, whose ids are new."""
    return calls(*[call("note", f"call{next(IDS)}") for _ in range(times)])


def summed_up(asked: Sequence[BaseMessage]) -> str:
    """Return the conversation in what LangChain's prompt asks of a summarising model."""
    [message] = asked
    before, _, rest = message.text.partition("<messages>\nMessages to summarize:\n")
    assert before.startswith("<role>")
    return rest.removesuffix("\n</messages>")


def reader(model: Any, sums: Any, max_tokens: int = 2, **options: Any) -> Any:
    policy = ag.summarized(sums, max_tokens, token_counter=len)
    return ag.chat_agent("w", model, history=policy, **options)


def reported(text: str, tokens: int) -> AIMessage:
    """Return a reply whose provider, that of the scripted models, reports tokens."""
    usage: Any = {"input_tokens": tokens - 1, "output_tokens": 1, "total_tokens": tokens}
    metadata = {"model_provider": "scriptedchatmodel"}
    return AIMessage(text, usage_metadata=usage, response_metadata=metadata)


def test_inputs_are_those_of_langchains_summarization(drive: Drive) -> None:
    rounds = [notes(2), notes(), "Done.", notes(), "Well.", "Bye."]
    models = [scripted(*rounds), scripted(*rounds)]
    sums = [scripted(*[f"Sum {n}." for n in range(9)]) for _ in range(2)]
    options: Any = {"tools": [note], "instruction": "Be kind.", "parallel_tools": False}
    runner = ag.Runner(reader(models[0], sums[0], 5, **options))
    summarization = SummarizationMiddleware(
        sums[1],
        trigger=("tokens", 5),
        keep=("tokens", 2),
        token_counter=len,
        trim_tokens_to_summarize=None,
    )
    theirs: Any = create_agent(
        models[1],
        [note],
        system_prompt="Be kind.",
        middleware=[summarization],
        checkpointer=InMemorySaver(),
    )
    events = []
    for text in ("Go.", "On.", "And?"):
        events += drive.run(runner, text, thread_id="t")
        given = {"messages": [HumanMessage(text)]}
        asyncio.run(theirs.ainvoke(given, CONFIG)) if drive is Async else theirs.invoke(given, CONFIG)
    for ours, other in (models, sums):
        assert [shapes(each) for each in ours.inputs] == [shapes(each) for each in other.inputs]
    assert len(sums[0].inputs) > 1
    assert list(runner.events("t")) == events


def test_every_input_is_within_the_budget_and_few_summaries_are_written(drive: Drive) -> None:
    model = scripted(*[notes() for _ in range(12)], "Done.")
    sums = scripted(*[f"Sum {n}." for n in range(5)])
    writer = reader(model, sums, 8, tools=[note], instruction="Be kind.")
    assert transcript(drive.run(ag.Runner(writer), "Go."))[-1] == "w: Done."
    inputs = [texts(messages, system=False) for messages in model.inputs]
    assert [len(each) for each in inputs] == [1, 3, 5, 7, 5, 7, 5, 7, 5, 7, 5, 7, 5]
    assert [each[0] for each in inputs[4::2]] == [f"{HEAD}Sum {n}." for n in range(5)]
    sums.assert_finished()


def test_the_state_has_the_summary_by_address_and_the_history_is_unchanged(drive: Drive) -> None:
    writer = reader(scripted("Done."), scripted("Sum."))
    runner = ag.Runner(ag.sequential("s", [says("a"), says("b"), writer]))
    events = list(drive.run(runner, "Go.", thread_id="t"))
    state = runner.graph.get_state(CONFIG).values
    assert state.get("values", {}) == {}
    assert list(state["middleware"]) == ["w"]
    assert [each.text for each in state["messages"]] == ["Go.", "a", "b", "Done."]
    assert list(runner.events("t")) == events


@pytest.mark.parametrize(
    "policy", ["input", "last", lambda entries: [entries[0].message]], ids=["input", "last", "function"]
)
def test_a_summary_of_what_is_seen_for_one_answer_is_dropped_after_it(
    drive: Drive, policy: Any
) -> None:
    model = scripted(*[notes() for _ in range(5)], "Done.", "Again.")
    summarized = ag.summarized(scripted("Sum."), 8, token_counter=len, history=policy)
    runner = ag.Runner(ag.chat_agent("w", model, tools=[note], history=summarized))
    list(drive.run(runner, "Go.", thread_id="t"))
    list(drive.run(runner, "On.", thread_id="t"))
    *_, before, first, second, after = [texts(each) for each in model.inputs]
    assert [len(each) for each in (before, first, second)] == [7, 5, 7]
    assert first[0] == second[0] == f"{HEAD}Sum."
    assert f"{HEAD}Sum." not in after


# its node


def test_it_is_the_last_hook_before_the_model() -> None:
    @before_model
    def mine(state: Any, runtime: Any) -> None:
        return None

    graph = ag.compile_agent(reader(scripted(), scripted()), middleware=[mine])
    ways = {each.source: each.target for each in graph.get_graph().edges}
    assert ways["w.mine.before_model"] == "w.SummarizationMiddleware.before_model"
    assert ways["w.SummarizationMiddleware.before_model"] == "w"


def test_agents_without_a_summary_have_no_such_node() -> None:
    graph = ag.compile_agent(ag.chat_agent("w", scripted(), history=ag.trimmed(5)))
    assert [name for name in graph.nodes if not name.startswith("__")] == ["w"]


def test_what_the_agent_redacts_is_not_summed_up(drive: Drive) -> None:
    @before_model
    def redact(state: Any, runtime: Any) -> Any:
        hidden = [HumanMessage("...", id=m.id) for m in state["messages"] if "@" in m.text]
        return {"messages": hidden} if hidden else None

    sums = scripted("Sum.")
    tree = reader(scripted("Done."), sums, middleware=[redact])
    list(drive.run(ag.Runner(tree), ["I am a@b.com.", "Hm."]))
    assert summed_up(sums.inputs[0]) == '<message type="human">...</message>'


# the summarising model


def test_the_model_may_be_a_name(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, openai_server: OpenAIServer
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    monkeypatch.setenv("OPENAI_BASE_URL", openai_server.base_url)
    openai_server.script = ["Sum."]
    model = scripted("Done.")
    tree = ag.sequential("s", [says("a"), reader(model, "openai:gpt-4.1-mini")])
    list(drive.run(ag.Runner(tree), "Go."))
    assert [body["model"] for body in openai_server.requests] == ["gpt-4.1-mini"]
    assert texts(model.inputs[0]) == [f"{HEAD}Sum.", "human: [a] said: a"]


def test_a_name_becomes_a_model_when_it_is_needed(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    runner = ag.Runner(reader(scripted("Hm."), "openai:gpt-4.1-mini", 3))
    list(drive.run(runner, "Go.", thread_id="t"))
    with pytest.raises(ag.AgentGraphError) as caught:
        list(drive.run(runner, "On.", thread_id="t"))
    assert str(caught.value).startswith(
        "w, in summarized(...): the model 'openai:gpt-4.1-mini' needs OPENAI_API_KEY, which is not set"
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
def test_the_model_may_be_a_runnable_around_one(drive: Drive, wrap: Any) -> None:
    model = scripted(reported("Hm.", 5000), "Done.")
    policy = ag.summarized(wrap(scripted("Sum.")), 25)
    runner = ag.Runner(ag.chat_agent("w", model, history=policy))
    list(drive.run(runner, "Bees", thread_id="t"))
    list(drive.run(runner, ["Bees " * 50, "Ants."], thread_id="t"))
    assert texts(model.inputs[1]) == [f"{HEAD}Sum.", "human: Ants."]


@pytest.mark.parametrize("reply", ["", " \n", notes()], ids=["empty", "blank", "call"])
def test_a_reply_that_is_not_a_summary_is_an_error_and_loses_nothing(drive: Drive, reply: Any) -> None:
    model = scripted("Done.")
    runner = ag.Runner(reader(model, scripted(reply, "Sum.")))
    _, error = failing(drive.run(runner, ["One.", "Two."], thread_id="t"), ag.InvalidOutputError)
    assert str(error).startswith("w: the model of summarized(...) returned AIMessage(")
    assert str(error).endswith(
        ", which is not a summary; nothing was left out for it. Resume to ask it again, or use "
        "another model"
    )
    assert transcript(drive.resume(runner, "t")) == ["w: Done."]
    assert texts(model.inputs[0]) == [f"{HEAD}Sum.", "human: Two."]


def test_a_failure_of_the_model_fails_the_agent_and_a_resume_asks_again(drive: Drive) -> None:
    """Errors of other kinds are tried up to three times, with pauses."""
    model, sums = scripted("Done."), scripted(ModelAuthenticationError("no key"), "Sum.")
    runner = ag.Runner(reader(model, sums))
    run = drive.run(runner, ["One.", "Two."], thread_id="t")
    events, _ = failing(run, ModelAuthenticationError)
    assert transcript(events) == ["w: [error] ModelAuthenticationError('no key')"]
    assert model.inputs == []
    assert transcript(drive.resume(runner, "t")) == ["w: Done."]


def test_the_model_is_sent_all_that_is_summed_up(drive: Drive) -> None:
    """LangChain sends the last 4,000 tokens by default."""
    model, sums = scripted("Done."), scripted("Sum.")
    writer = ag.chat_agent("w", model, history=ag.summarized(sums, 1000))
    long = [f"{n} " + "bees " * 4_000 for n in range(5)]
    list(drive.run(ag.Runner(writer), [*long, "Well?"]))
    assert summed_up(sums.inputs[0]).count("bees ") == 5 * 4_000
    assert texts(model.inputs[0]) == [f"{HEAD}Sum.", "human: Well?"]


def test_a_model_that_refuses_so_much_is_asked_without_the_middle(drive: Drive) -> None:
    model, sums = scripted("Done."), scripted(ContextOverflowError("too long"), "Sum.")
    writer = ag.chat_agent("w", model, history=ag.summarized(sums, 10))
    list(drive.run(ag.Runner(writer), ["First. " + "bees " * 500 + "Last.", "Well?"]))
    whole, again = map(summed_up, sums.inputs)
    assert again.startswith('<message type="human">First. bees')
    assert "[... middle of conversation omitted ...]" in again
    assert again.endswith("bees Last.</message>")
    assert len(again) < len(whole) * 0.6
    assert texts(model.inputs[0]) == [f"{HEAD}Sum.", "human: Well?"]


# the budget


@pytest.mark.parametrize(
    ("counter", "summaries"),
    [({}, 1), ({"token_counter": lambda messages: len(messages)}, 0)],
    ids=["LangChain's counter", "another counter"],
)
def test_tokens_that_the_provider_reports_count_with_langchains_counter_alone(
    drive: Drive, counter: Any, summaries: int
) -> None:
    sums = scripted("Sum.")
    model = scripted(reported("One.", 5000), "Two.")
    policy = ag.summarized(sums, 100, **counter)
    runner = ag.Runner(ag.chat_agent("w", model, history=policy))
    list(drive.run(runner, "bees " * 45, thread_id="t"))
    list(drive.run(runner, "On.", thread_id="t"))
    assert len(sums.inputs) == summaries


def words(messages: Any) -> int:
    return sum(len(message.text.split()) for message in messages)


def round_of_calls(times: int) -> list[BaseMessage]:
    made = notes(times)
    return [made, *(ToolMessage("a b", tool_call_id=each["id"]) for each in made.tool_calls)]


TEXTS = st.sampled_from(["", "a", "a b c"])
TURN = st.one_of(
    st.builds(lambda text: [HumanMessage(text)], TEXTS),
    st.builds(lambda text: [AIMessage(text)], TEXTS),
    st.builds(round_of_calls, st.integers(1, 3)),
)
TALKS = st.lists(TURN, min_size=1, max_size=6).map(lambda turns: [m for turn in turns for m in turn])


@given(TALKS, st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_a_summary_and_what_is_newer_are_the_whole_of_any_talk(
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
    assert texts(seen)[0] == f"{HEAD}Sum."
    assert newest == shapes(said[len(older) :]) != []
    assert summed_up(sums.inputs[0]) == get_buffer_string(older, format="xml")
    assert pairing_faults(seen) == pairing_faults(older) == []


# faults


class Mine(SummarizationMiddleware):
    """Sums up, too."""


def faults(agent: Any, **options: Any) -> tuple[str, ...]:
    with pytest.raises(ag.InvalidAgentError) as refused:
        ag.compile_agent(agent, **options)
    return refused.value.faults


@pytest.mark.parametrize("kind", [SummarizationMiddleware, Mine])
@pytest.mark.parametrize("of_the_tree", [False, True])
def test_a_second_middleware_that_sums_up_is_a_fault(kind: Any, of_the_tree: bool) -> None:
    middleware = [kind(scripted())]
    own, others = ([], middleware) if of_the_tree else (middleware, [])
    assert faults(reader(scripted(), scripted(), middleware=own), middleware=others) == (
        "w: it has both history=summarized(...) and a SummarizationMiddleware, its own or one of "
        "the whole tree, which would sum up twice; leave one out",
    )


@pytest.mark.parametrize(
    "model",
    [None, "", " ", 5, lambda ctx: scripted()],
    ids=["None", "empty", "blank", "a number", "a function"],
)
def test_a_model_that_is_not_one_is_a_fault(model: Any) -> None:
    assert faults(reader(scripted(), model)) == (
        f"w: the summarising model {shown(model)} is not a LangChain chat model; pass one, such as "
        "ChatOpenAI(...), or a name, such as 'openai:gpt-5-mini'",
    )


INSTRUCTION = "w: the instruction 7 of summarized(...) is not a text; pass one, or leave it out"
COUNTER = "w: token_counter=7 cannot be used; pass a sync function of a list of messages, such as len"
WRONG: Any = 7


@pytest.mark.parametrize(
    ("policy", "fault"),
    [
        (ag.summarized(scripted(), 5, instruction=WRONG), INSTRUCTION),
        (ag.summarized(scripted(), 5, token_counter=WRONG), COUNTER),
        (ag.trimmed(5, token_counter=WRONG), COUNTER),
    ],
    ids=["an instruction", "a counter", "the counter of a trimmed history"],
)
def test_a_wrong_option_is_a_fault(policy: Any, fault: str) -> None:
    assert faults(ag.chat_agent("w", scripted(), history=policy)) == (fault,)
