"""LangGraph's guides to long-term memory, restated: the store, in nodes and tools, sync and async."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from graph_calls import in_turn, invoke, last, stream
from helpers import Async, Drive, Sync, scripted, sent
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, before_model
from langchain.tools import InjectedStore, ToolRuntime, tool
from langchain_core.messages import SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_store
from langgraph.graph import MessagesState
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import AsyncSqliteStore, SqliteStore
from typing_extensions import TypedDict

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

Factory = Callable[..., Any]


@dataclass
class User:
    id: str


class Profile(TypedDict):
    name: str
    town: str


ADA: Profile = {"name": "Ada", "town": "London"}


def langchain_agent(model: Any, tools: Any = (), **options: Any) -> Any:
    return create_agent(model, list(tools), **options)


def tree(model: Any, tools: Any = (), **options: Any) -> Any:
    compiled = {key: options.pop(key, None) for key in ("store", "context_schema", "checkpointer")}
    return ag.compile_agent(ag.chat_agent("agent", model, tools=tools, **options), **compiled)


both = pytest.mark.parametrize("make", [langchain_agent, tree])


def says(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def thread(name: str, **more: Any) -> Any:
    return {"configurable": {"thread_id": name, **more}}


# a node remembers over threads


def known_of(items: list[Any]) -> str:
    """Return what items say; stores find them in any order."""
    return ", ".join(sorted(item.value["text"] for item in items)) or "nothing"


def remembering(store: BaseStore, user: str, text: str) -> str:
    """Save what a user asks to be remembered, and return what is known of them."""
    namespace = ("memories", user)
    if text.startswith("Remember: "):
        key = str(len(store.search(namespace)))
        store.put(namespace, key, {"text": text.removeprefix("Remember: ")})
    return known_of(store.search(namespace))


async def aremembering(store: BaseStore, user: str, text: str) -> str:
    namespace = ("memories", user)
    if text.startswith("Remember: "):
        key = str(len(await store.asearch(namespace)))
        await store.aput(namespace, key, {"text": text.removeprefix("Remember: ")})
    return known_of(await store.asearch(namespace))


TALKS = [
    ("1", "ada", "Remember: I like bees.", "I like bees."),
    ("1", "ada", "What do I like?", "I like bees."),
    ("2", "ada", "And here?", "I like bees."),
    ("3", "eve", "And me?", "nothing"),
    ("2", "ada", "Remember: I like tea.", "I like bees., I like tea."),
]


def test_a_node_remembers_a_user_over_threads_by_the_context(drive: Drive) -> None:
    model = scripted(*[lambda seen: seen[0].text] * 99)

    def call_model(state: MessagesState, runtime: Runtime[User]) -> Any:
        assert runtime.store is not None
        known = remembering(runtime.store, runtime.context.id, state["messages"][-1].text)
        return {"messages": [model.invoke([SystemMessage(known), *state["messages"]])]}

    def by_store(state: MessagesState, config: RunnableConfig, *, store: BaseStore) -> Any:
        user = config["configurable"]["user_id"]
        return {"messages": [("ai", remembering(store, user, state["messages"][-1].text))]}

    def instruct(ctx: ag.Context[User]) -> SystemMessage:
        assert ctx.store is not None
        return SystemMessage(remembering(ctx.store, ctx.context.id, ctx.messages[-1].text))

    agents = {
        "chat": ag.chat_agent("chat", model, instruction=instruct),
        "function": ag.function_agent("f", lambda ctx: instruct(ctx).text),
        "branch": ag.parallel("p", [ag.function_agent("f", lambda ctx: instruct(ctx).text)]),
    }
    stores = [InMemoryStore() for _ in range(5)]
    options: Any = {"context_schema": User}
    graphs = [
        in_turn(MessagesState, node, **options, checkpointer=InMemorySaver(), store=store)
        for node, store in zip((call_model, by_store), stores, strict=False)
    ]
    for agent, store in zip(agents.values(), stores[2:], strict=True):
        graphs.append(ag.compile_agent(agent, checkpointer=InMemorySaver(), store=store, **options))
    for graph in graphs:
        for name, user, text, known in TALKS:
            config = thread(name, user_id=user)
            assert last(invoke(drive, graph, says(text), config, context={"id": user})) == known
    for store in stores:
        assert [item.value["text"] for item in store.search(("memories",))] == [
            "I like bees.",
            "I like tea.",
        ]


def test_a_coroutine_remembers_by_the_stores_async_calls() -> None:
    async def fn(ctx: ag.Context[User]) -> str:
        assert ctx.store is not None
        return await aremembering(ctx.store, ctx.context.id, ctx.messages[-1].text)

    agents = [ag.function_agent("f", fn), ag.parallel("p", [ag.function_agent("f", fn)])]
    for agent in agents:
        runner = ag.Runner(agent, store=InMemoryStore(), context_schema=User)
        for name, user, text, known in TALKS:
            events = Async.run(runner, text, thread_id=name, context=User(user))
            assert [event.text for event in events] == [known]


def test_a_store_in_a_file_is_read_by_another_run(drive: Drive, tmp_path: Path) -> None:
    """The store is the caller's: the tree opens and closes none."""
    path = str(tmp_path / "memories.db")

    def fn(ctx: ag.Context[User]) -> str:
        assert ctx.store is not None
        return remembering(ctx.store, ctx.context.id, ctx.messages[-1].text)

    async def afn(ctx: ag.Context[User]) -> str:
        assert ctx.store is not None
        return await aremembering(ctx.store, ctx.context.id, ctx.messages[-1].text)

    async def atalk(text: str, user: str) -> str:
        async with AsyncSqliteStore.from_conn_string(path) as store:
            await store.setup()
            runner = ag.Runner(ag.function_agent("f", afn), store=store, context_schema=User)
            return (await runner.ainvoke(text, context=User(user))).text

    def talk(text: str, user: str) -> str:
        if drive is Async:
            return asyncio.run(atalk(text, user))
        with SqliteStore.from_conn_string(path) as store:
            store.setup()
            runner = ag.Runner(ag.function_agent("f", fn), store=store, context_schema=User)
            return runner.invoke(text, context=User(user)).text

    for _, user, text, known in TALKS:
        assert talk(text, user) == known


# tools read and write it


@tool
def read_by_runtime(runtime: ToolRuntime[User]) -> str:
    """Look up the user."""
    assert runtime.store is not None
    found = runtime.store.get(("users",), runtime.context.id)
    return str(found.value) if found else "unknown"


@tool
def read_by_get_store(config: RunnableConfig) -> str:
    """Look up the user."""
    found = get_store().get(("users",), config["configurable"]["user_id"])
    return str(found.value) if found else "unknown"


@tool
def read_injected(
    store: Annotated[Any, InjectedStore()], config: RunnableConfig, which: str = "users"
) -> str:
    """Look up the user."""
    found = store.get((which,), config["configurable"]["user_id"])
    return str(found.value) if found else "unknown"


@tool
async def read_later(runtime: ToolRuntime[User]) -> str:
    """Look up the user."""
    assert runtime.store is not None
    found = await runtime.store.aget(("users",), runtime.context.id)
    return str(found.value) if found else "unknown"


@tool
def save(profile: Profile, runtime: ToolRuntime[User]) -> str:
    """Save the profile of the user."""
    assert runtime.store is not None
    runtime.store.put(("users",), runtime.context.id, dict(profile))
    return "Saved."


@tool
def save_by_get_store(profile: Profile, config: RunnableConfig) -> str:
    """Save the profile of the user."""
    get_store().put(("users",), config["configurable"]["user_id"], dict(profile))
    return "Saved."


READ = [read_by_runtime, read_by_get_store, read_injected]


@both
@pytest.mark.parametrize("read", READ, ids=lambda each: each.name)
def test_a_tool_reads_what_is_known_of_the_user(drive: Drive, make: Factory, read: Any) -> None:
    store = InMemoryStore()
    store.put(("users",), "ada", dict(ADA))
    model = scripted(*[calls(call(read.name)), lambda seen: seen[-1].text] * 2)
    agent = make(model, [read], store=store, context_schema=User)
    for user, known in (("ada", str(ADA)), ("eve", "unknown")):
        config = thread(user, user_id=user)
        out = invoke(drive, agent, says("Who am I?"), config, context=User(user))
        assert last(out) == known
    shown = model.tools[0]["function"]["parameters"]["properties"]
    assert set(shown) <= {"which"}


@both
def test_a_coroutine_as_a_tool_reads_the_store(make: Factory) -> None:
    store = InMemoryStore()
    store.put(("users",), "ada", dict(ADA))
    model = scripted(calls(call("read_later")), lambda seen: seen[-1].text)
    agent = make(model, [read_later], store=store, context_schema=User)
    assert last(invoke(Async, agent, says("Who am I?"), context=User("ada"))) == str(ADA)


@both
@pytest.mark.parametrize("saves", [save, save_by_get_store], ids=lambda each: each.name)
def test_a_tool_saves_what_the_model_found_out(drive: Drive, make: Factory, saves: Any) -> None:
    store = InMemoryStore()
    model = scripted(calls(call(saves.name, profile=dict(ADA))), "Nice to meet you.")
    agent = make(model, [saves], store=store, context_schema=User)
    config = thread("1", user_id="ada")
    assert last(invoke(drive, agent, says("I am Ada."), config, context=User("ada"))) == (
        "Nice to meet you."
    )
    found = store.get(("users",), "ada")
    assert found is not None
    assert found.value == ADA


def test_what_one_agent_saves_another_one_reads(drive: Drive) -> None:
    """An agent as a tool, a branch and a later agent have the same store."""
    reads = [
        ag.chat_agent(name, scripted(calls(call("read_by_runtime")), sent), tools=[read_by_runtime])
        for name in ("inner", "branch", "later")
    ]
    model = scripted(
        calls(call("save", profile=dict(ADA))), calls(call("inner", request="Who?")), "Done."
    )
    boss = ag.chat_agent("boss", model, tools=[save, ag.agent_tool(reads[0])])
    steps = ag.sequential("s", [boss, ag.parallel("p", [reads[1]]), reads[2]])
    runner = ag.Runner(steps, store=InMemoryStore(), context_schema=User)
    events = list(drive.run(runner, "I am Ada.", context={"id": "ada"}))
    results = [event for event in events if event.message and event.message.type == "tool"]
    read = [each.text for each in results if each.message.name == "read_by_runtime"]  # type: ignore[union-attr]
    assert read == [str(ADA)] * 3


# middleware


@both
def test_middleware_reads_the_store_for_the_prompt(drive: Drive, make: Factory) -> None:
    seen: list[Any] = []

    @before_model
    def look(state: Any, runtime: Runtime[User]) -> None:
        assert runtime.store is not None
        seen.append(runtime.store.get(("users",), runtime.context.id))

    class Prompt(AgentMiddleware[Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(self.prompted(request))

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            return await handler(self.prompted(request))

        def prompted(self, request: Any) -> Any:
            found = request.runtime.store.get(("users",), request.runtime.context.id)
            return request.override(system_message=SystemMessage(f"This is {found.value['name']}."))

    store = InMemoryStore()
    store.put(("users",), "ada", dict(ADA))
    options: Any = {"store": store, "context_schema": User, "middleware": [look, Prompt()]}
    agent = make(scripted(sent), **options)
    out = invoke(drive, agent, says("Hi."), context=User("ada"))
    assert last(out) == "system: This is Ada. | human: Hi."
    assert [each.key for each in seen] == ["ada"]


# search


def embed(texts: list[str]) -> list[list[float]]:
    """Embed texts by their subject: food, or work."""
    food, work = ("pizza", "hungry", "eat"), ("plumber", "job", "work")
    return [[float(any(w in t for w in words)) for words in (food, work)] for t in texts]


def test_a_model_gets_the_memories_that_are_nearest_to_the_question(drive: Drive) -> None:
    store = InMemoryStore(index={"embed": embed, "dims": 2, "fields": ["text"]})
    store.put(("ada", "memories"), "1", {"text": "I love pizza"})
    store.put(("ada", "memories"), "2", {"text": "I am a plumber"})
    store.put(("eve", "memories"), "1", {"text": "I never eat"})

    def memories(store: BaseStore, question: str) -> str:
        found = store.search(("ada", "memories"), query=question, limit=1)
        return "\n".join(item.value["text"] for item in found)

    def model() -> ScriptedChatModel:
        return scripted(*[sent] * 2)

    nearest = model()

    def chat(state: MessagesState, *, store: BaseStore) -> Any:
        about = memories(store, state["messages"][-1].text)
        return {"messages": [nearest.invoke([SystemMessage(about), *state["messages"]])]}

    def instruct(ctx: ag.Context) -> SystemMessage:
        assert ctx.store is not None
        return SystemMessage(memories(ctx.store, ctx.messages[-1].text))

    agent = ag.chat_agent("chat", model(), instruction=instruct)
    for graph in (in_turn(MessagesState, chat, store=store), ag.compile_agent(agent, store=store)):
        for question, memory in (("I am hungry", "I love pizza"), ("A job?", "I am a plumber")):
            parts = stream(drive, graph, says(question), stream_mode="messages")
            text = "".join(message.text for message, _ in parts)
            assert text == f"system: {memory} | human: {question}"


def test_a_namespace_is_searched_listed_filtered_and_its_items_are_deleted(drive: Drive) -> None:
    def fn(ctx: ag.Context) -> list[Any]:
        store = ctx.store
        assert store is not None
        for n, kind in enumerate(("food", "work", "food")):
            store.put(("ada", kind), str(n), {"kind": kind, "n": n})
        store.delete(("ada", "food"), "0")
        found = store.search(("ada",), filter={"kind": "food"})
        return [ag.SetValues(left=[item.value["n"] for item in found]), str(store.list_namespaces())]

    runner = ag.Runner(ag.function_agent("f", fn), store=InMemoryStore())
    (event,) = drive.run(runner, "Go.", thread_id="t")
    assert event.text == "[('ada', 'food'), ('ada', 'work')]"
    assert runner.thread("t").values == {"left": [2]}


def test_without_a_store_a_tree_has_none_as_a_graph_has() -> None:
    seen: list[Any] = []

    @tool
    def look(runtime: ToolRuntime) -> str:
        """Look."""
        seen.append(runtime.store)
        return "seen"

    for make in (langchain_agent, tree):
        invoke(Sync, make(scripted(calls(call("look")), "Done."), [look]), says("Go."))
    assert seen == [None, None]
