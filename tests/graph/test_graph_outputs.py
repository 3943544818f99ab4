"""Graphs of any state as agents, entrypoints, and LangChain runnables: what they say and set."""

import operator
from typing import Annotated, Any, TypedDict

import pytest
from helpers import Drive, lines, retrying, scripted
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import JsonOutputParser, StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langgraph.func import entrypoint
from langgraph.graph import START, StateGraph

import agentgraph as ag


class Asked(TypedDict):
    question: str
    answers: Annotated[list[str], operator.add]


def graph(node: Any, **options: Any) -> Any:
    return StateGraph(Asked).add_node("n", node).add_edge(START, "n").compile(**options)


def question(ctx: ag.Context) -> Any:
    return {"question": ctx.messages[-1].text}


OUTPUTS: dict[str, tuple[Any, list[str], dict[str, Any]]] = {
    "a text": (lambda state: state["answers"][0], ["a: Go.!"], {"k": "Go.!"}),
    "a message": (lambda state: AIMessage(state["answers"][0]), ["a: Go.!"], {"k": "Go.!"}),
    "values": (lambda state: ag.SetValues(n=len(state["answers"])), ["a: [values] n"], {"n": 1}),
    "several": (
        lambda state: ["One.", ag.Custom({"n": 1}), ag.SetValues(n=2), "Two."],
        ["a: One.", 'a: [custom] {"n": 1}', "a: [values] n", "a: Two."],
        {"n": 2, "k": "Two."},
    ),
    "nothing": (lambda state: None, [], {}),
}


@pytest.mark.parametrize(("output", "said", "values"), OUTPUTS.values(), ids=OUTPUTS)
def test_output_makes_of_any_state_what_the_agent_says(
    drive: Drive, output: Any, said: list[str], values: dict[str, Any]
) -> None:
    inner = graph(lambda state: {"answers": [f"{state['question']}!"]})
    runner = ag.Runner(ag.graph_agent("a", inner, input=question, output=output, output_key="k"))
    assert lines(drive.run(runner, "Go.", thread_id="t")) == said
    assert runner.thread("t").values == values


def test_an_output_of_another_kind_is_refused(drive: Drive) -> None:
    inner = graph(lambda state: {"answers": ["x"]})
    agent = ag.graph_agent("a", inner, input=question, output=lambda state: ag.Exit())
    with pytest.raises(ag.InvalidOutputError) as caught:
        list(drive.run(ag.Runner(agent), "Go."))
    assert str(caught.value) == (
        "a: output= returned Exit(); return a text, a message, SetValues(...), Custom(...), None, or a "
        "list of these"
    )


def test_faults_of_a_graph_without_messages_and_of_its_output() -> None:
    inner = graph(lambda state: {"answers": ["x"]})
    with pytest.raises(ag.InvalidAgentError) as caught:
        ag.compile_agent(ag.graph_agent("a", inner))
    assert caught.value.faults == (
        "a: the state of its graph has no 'messages'; add them, as in MessagesState, or pass output=, "
        "a function from the state to what the agent says",
    )
    wrong: Any = 3
    with pytest.raises(ag.InvalidAgentError, match="output=3 cannot be used; pass a function"):
        ag.compile_agent(ag.graph_agent("a", inner, output=wrong))


def test_an_output_that_fails_is_tried_again_without_the_graph(drive: Drive) -> None:
    ran: list[str] = []
    tried: list[str] = []

    def node(state: Asked) -> Any:
        ran.append("graph")
        return {"answers": ["x"]}

    def output(state: Any) -> str:
        tried.append("output")
        if len(tried) < 2:
            raise ValueError("not yet")
        return str(state["answers"][0])

    runner = ag.Runner(ag.graph_agent("a", graph(node), input=question, output=output))
    with pytest.raises(ValueError, match="not yet"):
        list(drive.run(runner, "Go.", thread_id="t"))
    assert lines(drive.resume(runner, "t")) == ["a: x"]
    assert (ran, tried) == (["graph"], ["output", "output"])


def test_an_entrypoint_is_an_agent(drive: Drive) -> None:
    @entrypoint()
    def shout(given: Any) -> str:
        return str(given["question"]).upper()

    agent = ag.graph_agent("a", shout, input=question, output=lambda result: result)
    assert lines(drive.run(ag.Runner(agent), "Go.")) == ["a: GO."]


PROMPT = ChatPromptTemplate([("system", "About {topic}."), ("placeholder", "{messages}")])
RUNNABLES: dict[str, tuple[Any, dict[str, Any], list[str], dict[str, Any]]] = {
    "a chain that ends in a message": (
        lambda: PROMPT | scripted("Bees."), {}, ["a: Bees."], {"k": "Bees."}
    ),
    "a chain that ends in a text": (
        lambda: PROMPT | scripted("Bees.") | StrOutputParser(), {}, ["a: Bees."], {"k": "Bees."}
    ),
    "a chain that ends in data": (
        lambda: PROMPT | scripted('{"n": 1}') | JsonOutputParser(),
        {},
        ['a: {"n": 1}'],
        {"k": '{"n": 1}'},
    ),
    "with an output": (
        lambda: PROMPT | scripted('{"n": 1}') | JsonOutputParser(),
        {"output": lambda data: [ag.SetValues(**data), "Done."]},
        ["a: [values] n", "a: Done."],
        {"n": 1, "k": "Done."},
    ),
    "with an input": (
        lambda: RunnableLambda(str.upper),
        {"input": lambda ctx: ctx.messages[-1].text},
        ["a: GO."],
        {"k": "GO."},
    ),
    "a model": (lambda: scripted("Bees."), {}, ["a: Bees."], {"k": "Bees."}),
    "nothing": (lambda: RunnableLambda(lambda given: None), {}, [], {}),
}  # fmt: skip


@pytest.mark.parametrize(("make", "options", "said", "values"), RUNNABLES.values(), ids=RUNNABLES)
def test_a_runnable_is_an_agent(
    drive: Drive, make: Any, options: dict[str, Any], said: list[str], values: dict[str, Any]
) -> None:
    runner = ag.Runner(ag.runnable_agent("a", make(), output_key="k", **options))
    assert lines(drive.run(runner, "Go.", thread_id="t", values={"topic": "bees"})) == said
    assert runner.thread("t").values == {"topic": "bees", **values}


def test_async_runs_await_a_runnable(drive: Drive) -> None:
    called: list[str] = []

    async def on_loop(given: Any) -> str:
        called.append("async")
        return "A"

    def in_thread(given: Any) -> str:
        called.append("sync")
        return "A"

    list(drive.run(ag.Runner(ag.runnable_agent("a", RunnableLambda(in_thread, on_loop))), "Go."))
    assert called == ["async" if drive.__name__ == "Async" else "sync"]


def test_a_runnable_that_fails_is_retried(drive: Drive) -> None:
    tries: list[int] = []

    def fails_once(given: Any) -> str:
        tries.append(1)
        if len(tries) < 2:
            raise ValueError("not yet")
        return "A"

    agent = ag.runnable_agent("a", RunnableLambda(fails_once), retry=retrying(on=ValueError))
    assert lines(drive.run(ag.Runner(agent), "Go.")) == ["a: A"]


def test_what_is_not_a_runnable_is_refused() -> None:
    wrong: Any = print
    with pytest.raises(
        ag.AgentGraphError, match="is not a LangChain runnable; pass one, such as prompt"
    ):
        ag.runnable_agent("a", wrong)
