"""Values from LangGraph code are accepted, or answered by the code to write instead."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any

import pytest
from helpers import says
from langchain_core.messages import HumanMessage
from langgraph.types import Command

import agentgraph as ag

ASKING = ag.sequential("s", [ag.human("boss", "Print it?"), ag.human("press", "Good?")])


def paused(tree: ag.Agent = ASKING) -> ag.Runner:
    runner = ag.Runner(tree)
    assert runner.invoke("Go.", thread_id="t").status == "paused"
    return runner


async def aresumed(runner: ag.Runner, answer: Any) -> list[str]:
    return [event.text async for event in runner.aresume("t", answer)]


async def arun(runner: ag.Runner, answer: Any) -> list[str]:
    return [event.text async for event in runner.arun(answer, thread_id="t")]


RESUMED: list[Callable[[ag.Runner, Any], list[str]]] = [
    lambda runner, answer: [event.text for event in runner.run(answer, thread_id="t")],
    lambda runner, answer: [event.text for event in runner.resume("t", answer)],
    lambda runner, answer: [each.text for each in runner.invoke(answer, thread_id="t").events],
    lambda runner, answer: [each.text for each in runner.invoke(thread_id="t", answers=answer).events],
    lambda runner, answer: [
        each.text for each in asyncio.run(runner.ainvoke(answer, thread_id="t")).events
    ],
    lambda runner, answer: asyncio.run(arun(runner, answer)),
    lambda runner, answer: asyncio.run(aresumed(runner, answer)),
    lambda runner, answer: [event.text for event in runner.follow(runner.start(answer, thread_id="t"))][
        1:
    ],
]


@pytest.mark.parametrize("resumed", RESUMED)
def test_the_answer_in_a_command_resumes_the_thread(resumed: Callable[..., list[str]]) -> None:
    runner = paused()
    assert resumed(runner, Command(resume="yes")) == ["yes", ""]
    (question,) = runner.pending("t")
    assert question.address == "s/press"
    assert resumed(runner, Command(resume={question.id: "good"}))[-1] == "good"
    assert runner.thread("t").status == "done"


def test_a_command_as_one_of_several_answers_is_the_answer_in_it() -> None:
    runner = paused(ag.parallel("p", [ag.human("a", "A?"), ag.human("b", "B?")]))
    result = runner.invoke(thread_id="t", answers={"p/a": Command(resume={"x": 1}), "p/b": "no"})
    assert sorted(each.text for each in result.events) == ["no", '{"x": 1}']


@pytest.mark.parametrize("resumed", RESUMED[:7])
def test_a_command_with_more_than_an_answer_is_refused_and_the_question_stays(
    resumed: Callable[..., list[str]],
) -> None:
    runner = paused()
    for command in (Command(resume="yes", goto="press"), Command(resume="yes", update={"x": 1})):
        with pytest.raises(ag.AgentGraphError) as caught:
            resumed(runner, command)
        assert str(caught.value) == (
            f"{command!r} is not an answer alone; write Command(resume=...), and pass goto and "
            "update to compile_agent(tree).invoke"
        )
    assert [each.address for each in runner.pending("t")] == ["s/boss"]


def test_a_command_without_a_thread_is_refused() -> None:
    for call in (paused().run, paused().invoke, paused().arun):
        with pytest.raises(ag.AgentGraphError) as caught:
            call(Command(resume="yes"))
        assert str(caught.value) == "Command(resume='yes') resumes a thread; name it with thread_id="


MESSAGES = [
    {"messages": [("user", "Go.")]},
    {"messages": "Go."},
    {"messages": [HumanMessage("Go.")]},
    {"messages": [{"role": "user", "content": "Go."}]},
]


@pytest.mark.parametrize("messages", MESSAGES)
def test_the_input_of_a_langgraph_graph_is_an_input(messages: Mapping[str, Any]) -> None:
    runner = ag.Runner(ag.agent(lambda ctx: ctx.messages[-1].text * 2, name="echo"))
    assert runner.invoke(messages).text == "Go.Go."
    assert [event.text for event in runner.run(messages)] == ["Go.Go."]
    assert asyncio.run(runner.ainvoke(messages)).text == "Go.Go."


def test_an_input_with_further_keys_is_answered_by_what_to_write() -> None:
    runner = ag.Runner(says("a"))
    with pytest.raises(ag.AgentGraphError) as caught:
        runner.invoke({"messages": "Go.", "topic": "bees"})
    assert str(caught.value) == (
        "the input has the keys 'topic' in addition to 'messages'; pass {'messages': [...]} or the "
        "messages alone, and values={...} for the rest"
    )
    with pytest.raises(ag.AgentGraphError, match=r", and values of the run as values=\{\.\.\.\}$"):
        runner.invoke({"topic": "bees"})
    assert runner.invoke({"role": "user", "content": "Go."}).text == "a"


def test_a_text_for_a_compiled_graph_is_answered_by_what_to_pass() -> None:
    graph: Any = ag.compile_agent(says("a"))
    calls = (
        graph.invoke,
        lambda text: asyncio.run(graph.ainvoke(text)),
        lambda text: [*graph.stream(text)],
    )
    for call in calls:
        with pytest.raises(ag.AgentGraphError) as caught:
            call("Go.")
        assert str(caught.value) == (
            "the input of a graph is a mapping, not 'Go.'; pass {\"messages\": [(\"user\", 'Go.')]}"
        )


RETURNED: list[tuple[object, str]] = [
    ({"topic": "bees"}, "return ag.SetValues(topic=...)"),
    ({"messages": ["Hi."]}, "return the messages themselves"),
    (
        {"messages": ["Hi."], "a": 1, "b": 2},
        "return the messages themselves and ag.SetValues(a=..., b=...)",
    ),
    ({}, "return ag.SetValues(name=...)"),
    (Command(goto="bob"), "return ag.TransferTo('bob')"),
    (Command(update={"x": 1}), "return ag.SetValues(x=...)"),
    (
        Command(update={"x": 1}, goto="bob"),
        "return ag.SetValues(x=...), and return ag.TransferTo('bob')",
    ),
    (Command(resume=1), "return ag.SetValues(name=...) or ag.TransferTo(name)"),
    (ag.Exit, "return an object of it, as in ag.Exit()"),
]


@pytest.mark.parametrize(("returned", "instead"), RETURNED)
@pytest.mark.parametrize("yields", [False, True])
def test_a_function_that_returns_what_a_node_returns_is_answered(
    returned: object, instead: str, yields: bool
) -> None:
    def plain(ctx: ag.Context) -> Any:
        return returned

    def generator(ctx: ag.Context) -> Any:
        yield returned

    with pytest.raises(ag.InvalidOutputError) as caught:
        ag.Runner(ag.function_agent("f", generator if yields else plain)).invoke("Go.")
    assert str(caught.value) == f"f: the function returned {returned!r}; {instead}"


def test_a_transfer_to_an_agent_itself_is_answered_by_its_name() -> None:
    to: Any = says("bob")
    with pytest.raises(ag.InvalidOutputError) as caught:
        ag.Runner(ag.agent(lambda ctx: ag.TransferTo(to), name="f")).invoke("Go.")
    assert (
        str(caught.value) == "f: TransferTo takes a name, and got an agent; write ag.TransferTo('bob')"
    )


def of_a_node(state: Any, config: Any) -> str:
    return "never"


def with_a_keyword(ctx: ag.Context, *, config: Any) -> str:
    return "never"


def of_nothing() -> str:
    return "never"


class Method:
    def ask(self, ctx: ag.Context, config: Any) -> str:
        return "never"

    def __call__(self) -> str:
        return "never"


async def of_a_node_too(state: Any, config: Any) -> str:
    return "never"


TAKES: list[tuple[Any, str]] = [
    (of_a_node, "(state: Any, config: Any)"),
    (of_a_node_too, "(state: Any, config: Any)"),
    (with_a_keyword, "(ctx: agentgraph.agents.context.Context, *, config: Any)"),
    (of_nothing, "()"),
    (Method().ask, "(ctx: agentgraph.agents.context.Context, config: Any)"),
    (Method(), "()"),
]


@pytest.mark.parametrize(("fn", "parameters"), TAKES)
def test_a_function_that_takes_what_a_node_takes_is_a_fault(fn: Any, parameters: str) -> None:
    with pytest.raises(ag.InvalidAgentError) as caught:
        ag.Runner(ag.function_agent("f", fn))
    text = str(caught.value).replace("typing.Any", "Any")
    assert text == (
        f"f: its function takes {parameters}; it takes one argument, a Context: LangGraph's state is "
        "in ctx.messages and ctx.values, its config in ctx.config"
    )


def returns_a_dict(ctx: ag.Context) -> dict[str, Any]:
    return {}


def returns_a_command(ctx: ag.Context) -> "Command[Any]":
    return Command()


@pytest.mark.parametrize(("fn", "kind"), [(returns_a_dict, "dict"), (returns_a_command, "Command")])
def test_a_function_whose_annotation_is_that_of_a_node_is_a_fault(fn: Any, kind: str) -> None:
    with pytest.raises(ag.InvalidAgentError) as caught:
        ag.Runner(ag.function_agent("f", fn))
    assert str(caught.value) == (
        f"f: its function returns a {kind}, as its annotation says; return ag.SetValues(topic=...) or "
        "ag.TransferTo(name)"
    )


def injected(fn: Callable[..., str]) -> Callable[..., str]:
    @wraps(fn)
    def decorated(*args: Any) -> str:
        return fn(*args, "more")

    return decorated


class Called:
    def __call__(self, ctx: ag.Context, more: str = "more") -> str:
        return more

    def method(self, ctx: ag.Context) -> str:
        return "more"


@pytest.mark.parametrize(
    "fn",
    [
        injected(lambda ctx, more: more),
        partial(lambda more, ctx: more, "more"),
        lambda ctx, more="more": more,
        lambda *args: "more",
        Called(),
        Called().method,
    ],
)
def test_a_function_that_can_be_called_with_a_context_alone_is_none(fn: Any) -> None:
    assert ag.Runner(ag.function_agent("f", fn)).invoke("Go.").text == "more"


def raises(ctx: ag.Context) -> str:
    raise ag.BreakLoop()  # type: ignore[misc]


def sets(ctx: Any) -> None:
    ctx.values["topic"] = "bees"


def deletes(ctx: Any) -> None:
    del ctx.values["topic"]


NOTES: list[tuple[Any, str]] = [
    (raises, "Return or yield a signal, as in `return ag.BreakLoop()`; it is not raised."),
    (sets, "ctx.values is read-only; write a value with `return ag.SetValues(name=...)`."),
    (deletes, "ctx.values is read-only; write a value with `return ag.SetValues(name=...)`."),
]


@pytest.mark.parametrize(("fn", "note"), NOTES)
def test_a_function_that_raises_a_signal_or_sets_a_value_is_answered_in_a_note(
    fn: Any, note: str
) -> None:
    tree = ag.loop("l", [ag.agent(fn)], max_iterations=1)
    with pytest.raises(TypeError) as caught:
        ag.Runner(tree).invoke("Go.")
    assert note in caught.value.__notes__
    assert sum(each == note for each in caught.value.__notes__) == 1
