"""LangGraph's config and runtime context: they reach all code of a tree, on each call of a runner."""

import asyncio
import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from helpers import Drive, asks, chat, scripted, sent, tries_calls_again
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import ConfigurableField, RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from pydantic import BaseModel

import agentgraph as ag
from agentgraph.testing import call, calls


@dataclass
class Tenant:
    name: str


class TenantModel(BaseModel):
    name: str


class TenantDict(TypedDict):
    name: str


class Tagged(BaseCallbackHandler):
    """Counts the runs by kind, and checks that each has the tag of the runner."""

    run_inline = True

    def __init__(self) -> None:
        self.begun: dict[str, int] = {}

    def note(self, kind: str, tags: list[str] | None) -> None:
        assert tags
        assert "all" in tags
        assert "mine" in tags
        self.begun[kind] = self.begun.get(kind, 0) + 1

    def on_chain_start(self, *_: Any, tags: Any = None, **__: Any) -> None:
        self.note("chain", tags)

    def on_chat_model_start(self, *_: Any, tags: Any = None, **__: Any) -> None:
        self.note("model", tags)

    def on_tool_start(self, *_: Any, tags: Any = None, **__: Any) -> None:
        self.note("tool", tags)


Seen = list[tuple[str, str, Any, Any]]


def everywhere(seen: Seen) -> ag.Agent:
    """Return a tree all of whose functions note where they are, and the context that they see."""

    def note(what: str) -> Callable[..., Any]:
        def fn(ctx: ag.Context[Tenant], *_: Any) -> Any:
            temperature = ctx.config["configurable"].get("temperature")
            assert ctx.store is not None
            seen.append((what, ctx.context.name, temperature, ctx.config["metadata"].get("job")))
            return {"until": False, "check": True}.get(what, what)

        return fn

    def check(ctx: ag.Context[Tenant], text: str) -> bool:
        return bool(note("check")(ctx))

    async def waits(ctx: ag.Context[Tenant]) -> str:
        return str(note("coroutine")(ctx))

    def look(word: str, ctx: ag.Context[Tenant]) -> str:
        """Look."""
        return str(note("tool")(ctx))

    def greet(state: MessagesState, runtime: Runtime[Tenant]) -> Any:
        seen.append(("graph", runtime.context.name, None, None))
        return {"messages": [("ai", "Hello.")]}

    inner = StateGraph(MessagesState, context_schema=Tenant).add_node(greet).add_edge(START, "greet")
    agent = ag.function_agent
    model = scripted(calls(call("look", word="x"), call("helper", request="y")), "Done.")
    boss = ag.chat_agent(
        "boss",
        model,
        instruction=note("instruction"),
        tools=[look, ag.agent_tool(agent("helper", note("agent tool")))],
    )
    return ag.sequential(
        "job",
        [
            ag.parallel("both", [agent("left", note("branch")), agent("right", waits)]),
            boss,
            ag.graph_agent("foreign", inner.compile()),
            ag.loop("twice", [agent("again", note("loop"))], max_iterations=2, until=note("until")),
            ag.validated(agent("checked", note("validated")), check),
            asks("person"),
            ag.parallel("more", [agent("later", note("resumed")), agent("other", waits)]),
        ],
    )


CONTEXTS = {
    "an object": (Tenant, Tenant("ada")),
    "a dict for a dataclass": (Tenant, {"name": "ada"}),
    "a dict for a model": (TenantModel, {"name": "ada"}),
}


@pytest.mark.parametrize(("schema", "context"), CONTEXTS.values(), ids=CONTEXTS)
def test_they_reach_all_code_of_a_tree(drive: Drive, schema: type, context: Any) -> None:
    seen: Seen = []
    handler = Tagged()
    runner = ag.Runner(
        everywhere(seen),
        store=InMemoryStore(),
        context_schema=schema,
        config={"callbacks": [handler], "tags": ["all"]},
        context=context,
    )
    mine: Any = {"tags": ["mine"], "metadata": {"job": 1}, "configurable": {"temperature": 2}}
    events = [*drive.run(runner, "Go.", thread_id="t", config=mine)]
    assert events[-1].kind == "interrupted"
    assert {what for what, *_ in seen} == {
        "branch", "coroutine", "instruction", "tool", "agent tool", "graph", "loop", "until",
        "validated", "check",
    }  # fmt: skip
    assert {tuple(found) for what, *found in seen if what != "graph"} == {("ada", 2, 1)}
    assert handler.begun["model"] == 2
    assert handler.begun["tool"] == 1
    assert handler.begun["chain"] > 10

    seen.clear()
    other: Any = {"tags": ["mine"]}
    given = schema(name="eve")
    [*drive.resume(runner, "t", "yes", context=given, config=other)]
    assert seen == [("resumed", "eve", None, None), ("coroutine", "eve", None, None)] or seen == [
        ("coroutine", "eve", None, None),
        ("resumed", "eve", None, None),
    ]


def test_they_reach_each_attempt_of_an_agent_as_a_tool(drive: Drive) -> None:
    seen: list[Any] = []

    def help_(ctx: ag.Context[Tenant]) -> str:
        config = ctx.config
        seen.append(
            (ctx.context.name, config["configurable"]["temperature"], config["metadata"]["job"])
        )
        if len(seen) == 1:
            raise ConnectionError("down")
        return "Helped."

    helper = ag.agent_tool(ag.function_agent("helper", help_))
    model = scripted(calls(call("helper", request="x")), "Done.")
    boss = ag.chat_agent("boss", model, tools=[helper], middleware=[tries_calls_again()])
    config: Any = {"metadata": {"job": 1}, "configurable": {"temperature": 2}}
    runner = ag.Runner(boss, context_schema=Tenant)
    [*drive.run(runner, "Go.", context=Tenant("ada"), config=config)]
    assert seen == [("ada", 2, 1)] * 2


def test_a_typed_dict_is_passed_as_it_is() -> None:
    runner = ag.Runner(
        ag.function_agent("a", lambda ctx: ctx.context["name"]), context_schema=TenantDict
    )
    assert runner.invoke("Go.", context={"name": "ada"}).text == "ada"


def test_without_a_context_there_is_none() -> None:
    runner = ag.Runner(ag.function_agent("a", lambda ctx: f"{ctx.context} {ctx.store}"))
    assert runner.invoke("Go.").text == "None None"


class Warm(BaseChatModel):
    """Says its temperature."""

    temperature: int = 0

    @property
    def _llm_type(self) -> str:
        return "warm"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(f"{self.temperature}"))])


def test_models_with_configurable_fields_are_configured(drive: Drive) -> None:
    model = Warm().configurable_fields(temperature=ConfigurableField(id="temperature"))
    tree = ag.parallel("both", [ag.chat_agent("a", model), ag.chat_agent("b", model)])
    config: Any = {"configurable": {"temperature": 5}}
    texts = sorted(event.text for event in drive.run(ag.Runner(tree), "Go.", config=config))
    assert texts == ["5", "5"]


def test_the_run_has_the_name_of_the_config() -> None:
    names: list[Any] = []

    class Names(BaseCallbackHandler):
        run_inline = True

        def on_chain_start(
            self, *_: Any, name: Any = None, parent_run_id: Any = None, **__: Any
        ) -> None:
            names.extend([name] if parent_run_id is None else [])

    runner = ag.Runner(ag.function_agent("a", lambda ctx: "A"), config={"callbacks": [Names()]})
    runner.invoke("Go.")
    runner.invoke("Go.", config={"run_name": "monday"})
    assert names == ["a", "monday"]


def test_a_config_may_name_the_thread(drive: Drive) -> None:
    runner = ag.Runner(asks("boss"))
    (event,) = drive.run(runner, "Go.", config={"configurable": {"thread_id": "monday"}})
    assert event.thread_id == "monday"
    assert len(runner.pending("monday")) == 1
    done = runner.invoke(config={"configurable": {"thread_id": "monday"}}, answers="yes")
    assert done.status == "done"


def inner_run(config: RunnableConfig) -> str:
    """Return what a run inside says that is given the config of the code around it."""

    def sub(ctx: ag.Context) -> str:
        return f"{model.invoke('Hello.').text} for {ctx.config['configurable']['tenant']}"

    model = scripted("Two words")
    inner = ag.Runner(ag.function_agent("sub", sub)).invoke("Go.", config=config)
    assert inner.thread_id != "outer"
    return inner.text


def test_the_config_around_a_run_inside_may_be_given_another_thread(drive: Drive) -> None:
    def fn(ctx: ag.Context) -> str:
        own = {**ctx.config["configurable"], "thread_id": "inner"}
        inner = ag.Runner(ag.function_agent("sub", lambda ctx: "Said."))
        return inner.invoke("Go.", config={**ctx.config, "configurable": own}).thread_id

    (event,) = drive.run(ag.Runner(ag.function_agent("outer", fn)), "Go.", thread_id="outer")
    assert event.text == "inner"


def research(config: RunnableConfig) -> str:
    """Do research."""
    return inner_run(config)


def in_a_node(state: Any, config: RunnableConfig) -> Any:
    return {"messages": [AIMessage(inner_run(config))]}


def in_a_function() -> ag.Agent:
    return ag.function_agent("outer", lambda ctx: inner_run(ctx.config))


PASSED_ON: dict[str, Callable[[], ag.Agent]] = {
    "a function": in_a_function,
    "a branch": lambda: ag.parallel("p", [in_a_function()]),
    "a tool": lambda: chat(
        "outer", calls(call("research")), sent, tools=[research], return_directly=["research"]
    ),
    "a node": lambda: ag.graph_agent(
        "outer", StateGraph(MessagesState).add_node("n", in_a_node).add_edge(START, "n").compile()
    ),
}


@pytest.mark.parametrize("outer", PASSED_ON.values(), ids=PASSED_ON)
def test_a_run_inside_that_is_passed_the_config_around_it_is_one_of_its_own(
    drive: Drive, outer: Callable[[], ag.Agent]
) -> None:
    config: Any = {"callbacks": [tagged := Tagged()], "tags": ["mine", "all"]}
    config["configurable"] = {"tenant": "Ada", "thread_id": "outer"}
    events = [*drive.run(ag.Runner(outer()), "Go.", stream=True, config=config)]
    assert events[-1].text == "Two words for Ada"
    assert not [each for each in events if each.partial and each.text]  # the model is not streamed
    assert tagged.begun["model"] > 0


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no config": (
        {"config": 3},
        "config must be LangGraph's config, got 3; pass a dict such as {'callbacks': [...], "
        "'tags': [...], 'configurable': {...}}",
    ),
    "a checkpoint": (
        {"config": {"configurable": {"checkpoint_id": "1"}}},
        "config: the configurable 'checkpoint_id' cannot be set, because a runner continues a thread "
        "at its latest checkpoint; to go back to an earlier one, also with another answer, use "
        "rewind(thread_id, at): visits(thread_id) lists the addresses and steps",
    ),
    "a checkpoint beside what is configurable": (
        {"config": {"checkpoint_id": "1"}},
        "config: the configurable 'checkpoint_id' cannot be set, because a runner continues a thread "
        "at its latest checkpoint; to go back to an earlier one, also with another answer, use "
        "rewind(thread_id, at): visits(thread_id) lists the addresses and steps",
    ),
    "a thread beside what is configurable": (
        {"config": {"thread_id": "a", "configurable": {"user": "ada"}}},
        "config: LangChain would ignore 'thread_id' next to 'configurable'; pass it inside, as "
        "config={'configurable': {'user': 'ada', 'thread_id': 'a'}}, or as thread_id='a'",
    ),
    "a key with a typo": (
        {"config": {"tag": ["a"]}},
        "config: LangChain would ignore the key 'tag'; did you mean 'tags'?",
    ),
    "two threads": (
        {"config": {"configurable": {"thread_id": "a"}}, "thread_id": "b"},
        "thread_id='b', but config names the thread 'a'; leave one of them out",
    ),
    "a context that does not fit": (
        {"context": {"nme": "ada"}},
        "context={'nme': 'ada'} does not fit Tenant (Tenant.__init__() got an unexpected keyword "
        "argument 'nme'); pass a Tenant, or a dict of its fields",
    ),
    "tags that are a text": (
        {"config": {"tags": "a"}},
        "config: 'tags' must be a list of texts, got 'a'",
    ),
    "metadata that is a number": (
        {"config": {"metadata": 5}},
        "config: 'metadata' must be a dict, got 5",
    ),
    "callbacks that are a number": (
        {"config": {"callbacks": 5}},
        "config: 'callbacks' must be a list of callback handlers, got 5",
    ),
    "a callback that is a number": (
        {"config": {"callbacks": [5]}},
        "config: 5 in 'callbacks' is not a callback handler of LangChain",
    ),
    "a limit that is a text": (
        {"config": {"recursion_limit": "9"}},
        "config: 'recursion_limit' must be a number of steps from 1 on, got '9'",
    ),
    "no thread at all": (
        {"config": {"max_concurrency": 0}},
        "config: 'max_concurrency' must be a number of tasks from 1 on, got 0",
    ),
}


@pytest.mark.parametrize(("given", "message"), WRONG.values(), ids=WRONG)
def test_what_is_refused_before_the_run(drive: Drive, given: dict[str, Any], message: str) -> None:
    runner = ag.Runner(ag.function_agent("a", lambda ctx: "A"), context_schema=Tenant)
    with pytest.raises(ag.AgentGraphError) as caught:
        [*drive.run(runner, "Go.", **given)]
    assert str(caught.value) == message
    assert runner.threads() == []


def test_what_a_model_of_the_context_refuses_is_named() -> None:
    runner = ag.Runner(ag.function_agent("a", lambda ctx: "A"), context_schema=TenantModel)
    with pytest.raises(ag.AgentGraphError) as caught:
        runner.run("Go.", context={"name": 5})
    assert str(caught.value) == (
        "context={'name': 5} does not fit TenantModel (name: Input should be a valid string); pass a "
        "TenantModel, or a dict of its fields"
    )


def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises(ag.AgentGraphError, match="context_schema=3 is not the type of a context; pass"):
        ag.compile_agent(ag.function_agent("a", lambda ctx: "A"), context_schema=3)  # type: ignore[arg-type]


def test_a_graph_has_the_schema_of_its_context() -> None:
    graph = ag.compile_agent(
        ag.function_agent("a", lambda ctx: ctx.context.name), context_schema=Tenant
    )
    schema = graph.get_context_jsonschema()
    assert schema is not None
    assert schema["properties"]["name"]["type"] == "string"
    assert graph.invoke({"messages": ["Go."]}, context={"name": "ada"})["messages"][-1].text == "ada"  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["athread", "arun", "afollow"])
def test_a_call_inside_a_run_may_be_cancelled_before_it_begins(method: str) -> None:
    with ag.Runner(ag.function_agent("inner", lambda ctx: "Done.")) as inner:
        list(inner.run("Go.", thread_id="t"))
        given = ("Again.",) if method == "arun" else ()

        async def begun() -> None:
            await getattr(inner, method)(*given, thread_id="t")

        async def cancels(ctx: ag.Context) -> str:
            beginning = asyncio.ensure_future(begun())
            await asyncio.sleep(0)  # it waits for a task now, in which nothing has run yet
            beginning.cancel()
            with pytest.raises(asyncio.CancelledError):
                await beginning
            return "Cancelled."

        outer = ag.Runner(ag.function_agent("f", cancels))
        assert asyncio.run(outer.ainvoke("Go.")).text == "Cancelled."
        gc.collect()
        assert inner.thread("t").status == "done"
