"""LangGraph's guides to state and reducers, restated: values are declared and merged as state is.

A graph by hand has its own keys; a tree has its messages, and all other keys as values.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest
from graph_calls import SAID, in_turn, invoke
from helpers import Drive, gives, texts, writes
from langchain.agents import AgentState, create_agent
from langchain.tools import InjectedState, InjectedToolCallId, ToolRuntime, tool
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
    trim_messages,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import InvalidUpdateError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Overwrite
from pydantic import BaseModel, Field, ValidationError

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

THREAD: Any = {"configurable": {"thread_id": "t"}}
Writes = Sequence[dict[str, Any]]


def by_hand(state: Any, *written: Any, **options: Any) -> Any:
    """Return a graph whose nodes write one update after the other."""
    builder = StateGraph(state)
    for i, update in enumerate(written):
        builder.add_node(f"n{i}", lambda state, update=update: update)
        builder.add_edge(f"n{i - 1}" if i else START, f"n{i}")
    return builder.compile(**options)


def side_by_side(state: Any, *written: Any) -> Any:
    """Return a graph whose nodes write in the same step."""
    builder = StateGraph(state)
    for i, update in enumerate(written):
        builder.add_node(f"n{i}", lambda state, update=update: update).add_edge(START, f"n{i}")
    return builder.compile()


def tree(state: Any, *written: Any, compose: Any = ag.sequential, **options: Any) -> Any:
    """Return a tree whose agents write the same updates as values."""
    agents = [gives(f"n{i}", ag.SetValues(**update)) for i, update in enumerate(written)]
    return ag.compile_agent(compose("all", agents), values=state, **options)


# reducers: each key has its own


def longest(left: str | None, right: str | None) -> str:
    return max(left or "", right or "", key=len)


def without_doubles(left: list[str], right: list[str]) -> list[str]:
    """Add what is new; the names in `{"drop": [...]}` are removed."""
    if isinstance(right, dict):
        return [each for each in left if each not in right["drop"]]
    return [*left, *(each for each in right if each not in left)]


class Overwritten(TypedDict, total=False):
    page: int
    words: list[str]


class Merged(TypedDict, total=False):
    page: int
    words: Annotated[list[str], operator.add]


class Own(TypedDict, total=False):
    page: int
    words: Annotated[list[str], without_doubles]


class Titled(Own, total=False):
    title: Annotated[str, longest]


class Model(BaseModel):
    page: int = 0
    words: Annotated[list[str], operator.add] = []


@dataclass
class Plain:
    page: int = 0
    words: Annotated[list[str], operator.add] = field(default_factory=list)


GIVEN = {"page": 1, "words": ["hive"]}
WRITTEN: Writes = [{"page": 2}, {"words": ["wax"]}, {"page": 3, "words": ["hive"]}]
MERGED: dict[str, tuple[Any, list[str]]] = {
    "written over": (Overwritten, ["hive"]),
    "added": (Merged, ["hive", "wax", "hive"]),
    "a function": (Own, ["hive", "wax"]),
    "a pydantic model": (Model, ["hive", "wax", "hive"]),
    "a dataclass": (Plain, ["hive", "wax", "hive"]),
}


@pytest.mark.parametrize(("state", "words"), MERGED.values(), ids=MERGED)
def test_each_key_is_written_over_or_merged_as_declared(
    drive: Drive, state: Any, words: list[str]
) -> None:
    expected = {"page": 3, "words": words}
    assert invoke(drive, by_hand(state, *WRITTEN), GIVEN) == expected
    assert invoke(drive, tree(state, *WRITTEN), {**SAID, "values": GIVEN})["values"] == expected
    runner = ag.Runner(tree(state, *WRITTEN).agent, values=state)
    list(drive.run(runner, "Go.", thread_id="t", values=GIVEN))
    assert runner.thread("t").values == expected


def test_a_reducer_may_remove_and_choose(drive: Drive) -> None:
    written: Writes = [{"words": ["wax", "pollen"], "title": "Bees"}, {"words": {"drop": ["wax"]}}]
    written = [*written, {"title": "On"}]
    found = {"words": ["pollen"], "title": "Bees"}
    assert invoke(drive, by_hand(Titled, *written), {"words": []}) == found
    assert invoke(drive, tree(Titled, *written), {**SAID, "values": {"words": []}})["values"] == found


def test_updates_of_one_step_are_merged_in_order_and_without_a_reducer_refused(drive: Drive) -> None:
    written: Writes = [{"words": [str(n)]} for n in range(5)]
    expected = {"words": ["hive", *"01234"]}
    given = {"words": ["hive"]}
    assert invoke(drive, side_by_side(Merged, *written), given) == expected
    together = tree(Merged, *written, compose=ag.parallel)
    assert invoke(drive, together, {**SAID, "values": given})["values"] == expected
    with pytest.raises(InvalidUpdateError):
        invoke(drive, side_by_side(Overwritten, *written), given)
    with pytest.raises(ag.ValueConflictError, match="declare a reducer"):
        invoke(drive, tree(Overwritten, *written, compose=ag.parallel), SAID)


# bypassing a reducer


FORMS: dict[str, Any] = {
    "an object": Overwrite(["new"]),
    "JSON": {"__overwrite__": ["new"]},
    "what a server gets": {"value": ["new"], "type": "__overwrite__"},
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_an_overwrite_passes_the_reducer_by(drive: Drive, form: Any) -> None:
    written: Writes = [{"words": ["wax"]}, {"words": form}, {"words": ["more"]}]
    found = {"words": ["new", "more"]}
    given = {"words": ["hive"]}
    assert invoke(drive, by_hand(Merged, *written), given) == found
    assert invoke(drive, tree(Merged, *written), {**SAID, "values": given})["values"] == found


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_two_that_overwrite_side_by_side_are_refused_and_nothing_is_lost(
    drive: Drive, form: Any
) -> None:
    written: Writes = [{"words": form}, {"words": ["wax"]}, {"words": Overwrite(["old"])}]
    with pytest.raises(InvalidUpdateError, match="only one Overwrite"):
        invoke(drive, side_by_side(Merged, *written), {"words": ["hive"]})
    runner = ag.Runner(tree(Merged, *written, compose=ag.parallel).agent, values=Merged)
    with pytest.raises(ag.ValueConflictError) as refused:
        list(drive.run(runner, "Go.", thread_id="t", values={"words": ["hive"]}))
    assert str(refused.value).startswith(
        "all: all/n0 wrote ['new'] and all/n2 wrote ['old'] as the value 'words' while they ran side "
        "by side; let only one of them write an Overwrite, and the others what its reducer takes; or"
    )
    list(drive.resume(runner, "t", values={"words": ["settled"]}))
    assert runner.thread("t").values == {"words": ["settled"]}


def test_two_that_overwrite_with_the_same_agree(drive: Drive) -> None:
    written: Writes = [{"words": Overwrite(["new"])}, {"words": {"__overwrite__": ["new"]}}]
    graph = tree(Merged, *written, compose=ag.parallel)
    assert invoke(drive, graph, SAID)["values"] == {"words": ["new"]}


# messages are the history


class Extra(MessagesState):
    page: int


class ExtraModel(BaseModel):
    messages: Annotated[list[AnyMessage], add_messages] = []
    page: int = 0


@dataclass
class ExtraPlain:
    messages: Annotated[list[AnyMessage], add_messages] = field(default_factory=list)
    page: int = 0


INPUTS: dict[str, Any] = {
    "a message": HumanMessage("Hi."),
    "a role": {"role": "user", "content": "Hi."},
    "a type": {"type": "human", "content": "Hi."},
    "a pair": ("user", "Hi."),
    "a text": "Hi.",
}


@pytest.mark.parametrize("state", [Extra, ExtraModel, ExtraPlain])
@pytest.mark.parametrize("form", INPUTS.values(), ids=INPUTS)
def test_a_state_with_messages_declares_the_history_and_the_other_keys(
    drive: Drive, state: Any, form: Any
) -> None:
    found = invoke(
        drive, by_hand(state, {"messages": [AIMessage("Hello.")], "page": 10}), {"messages": [form]}
    )
    agent = gives("n0", [AIMessage("Hello."), ag.SetValues(page=10)])
    graph = ag.compile_agent(agent, values=state)
    out = invoke(drive, graph, {"messages": [form]})
    assert texts(out["messages"]) == texts(found["messages"]) == ["human: Hi.", "ai: Hello."]
    assert out["values"] == {"page": 10}
    assert "messages" not in graph.get_output_jsonschema()["$defs"]["Values"]["properties"]


def test_a_message_with_a_known_id_is_replaced(drive: Drive) -> None:
    first, second = AIMessage("Draft.", id="1"), AIMessage("Better.", id="1")
    graph = by_hand(MessagesState, {"messages": [first]}, {"messages": [second]})
    agents = [gives("a", first), gives("a2", second)]
    for each in (graph, ag.compile_agent(ag.sequential("s", agents))):
        assert texts(invoke(drive, each, SAID)["messages"]) == ["human: Go.", "ai: Better."]


def test_another_key_holds_messages_of_its_own(drive: Drive) -> None:
    class Notes(TypedDict, total=False):
        notes: Annotated[list[AnyMessage], add_messages]

    written: Writes = [
        {"notes": [AIMessage("One.", id="1"), {"role": "user", "content": "Two."}]},
        {"notes": [AIMessage("ONE.", id="1")]},
        {"notes": [RemoveMessage(id="1"), ("ai", "Three.")]},
    ]
    for count, said in ((1, ["ai: One.", "human: Two."]), (2, ["ai: ONE.", "human: Two."])):
        notes = invoke(drive, by_hand(Notes, *written[:count]), {"notes": []})["notes"]
        mine = invoke(drive, tree(Notes, *written[:count]), SAID)["values"]["notes"]
        assert texts(mine) == texts(notes) == said
    left = invoke(drive, tree(Notes, *written), SAID)["values"]["notes"]
    assert texts(left) == ["human: Two.", "ai: Three."]


def test_old_messages_are_deleted_after_each_turn(drive: Drive) -> None:
    def delete(state: MessagesState) -> Any:
        messages = state["messages"]
        return {"messages": [RemoveMessage(id=str(m.id)) for m in messages[:2] if len(messages) > 2]}

    def answers() -> ScriptedChatModel:
        return ScriptedChatModel(responses=lambda seen: f"{len(seen)}")

    model = answers()

    def call_model(state: MessagesState) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    def drop(ctx: ag.Context) -> list[Any]:
        found = delete({"messages": [each.message for each in ctx.entries]})
        return list(found["messages"])

    saver = InMemorySaver()
    hand = in_turn(MessagesState, call_model, delete, checkpointer=saver)
    agents = [ag.chat_agent("call_model", answers()), ag.function_agent("delete", drop)]
    mine = ag.compile_agent(ag.sequential("s", agents), checkpointer=InMemorySaver())
    for graph in (hand, mine):
        assert texts(invoke(drive, graph, SAID, THREAD)["messages"]) == ["human: Go.", "ai: 1"]
        second = invoke(drive, graph, {"messages": ["And?"]}, THREAD)
        assert texts(second["messages"]) == ["human: And?", "ai: 3"]
        third = invoke(drive, graph, {"messages": ["Then?"]}, THREAD)
        assert texts(third["messages"]) == ["human: Then?", "ai: 3"]


def test_a_model_is_sent_only_the_last_messages_and_the_history_stays(drive: Drive) -> None:
    def trim(messages: Any) -> Any:
        return trim_messages(
            messages, strategy="last", token_counter=len, max_tokens=1, start_on="human"
        )

    def model() -> ScriptedChatModel:
        return ScriptedChatModel(responses=lambda seen: " ".join(each.text for each in seen))

    def call_model(state: MessagesState) -> Any:
        return {"messages": [model().invoke(trim(state["messages"]))]}

    hand = in_turn(MessagesState, call_model)
    agent = ag.chat_agent("call_model", model(), model_input=trim)
    given = {"messages": ["One.", ("ai", "Yes."), "Two."]}
    for graph in (hand, ag.compile_agent(agent)):
        assert texts(invoke(drive, graph, given)["messages"])[-2:] == ["human: Two.", "ai: Two."]


# input, output and private keys


class Question(TypedDict):
    question: str


class Answer(TypedDict):
    answer: str


class Both(Question, Answer):
    pass


def test_a_graph_with_an_input_and_an_output_of_its_own_runs_a_tree(drive: Drive) -> None:
    """A tree gives all its values; a graph around it, or `output=` in a tree, gives what it wants."""

    def answer(state: Question) -> Any:
        return {"answer": state["question"].upper(), "question": state["question"]}

    def by_tree(state: Question) -> Any:
        out = shouting.invoke({**SAID, "values": {"question": state["question"]}})
        return {"answer": out["values"]["answer"]}

    def build(node: Any) -> Any:
        builder = StateGraph(Both, input_schema=Question, output_schema=Answer)
        return builder.add_node("n", node).add_edge(START, "n").compile()

    shout = ag.function_agent("shout", lambda ctx: ctx.values["question"].upper(), output_key="answer")
    shouting = ag.compile_agent(shout, values=Both)
    inner = ag.graph_agent(
        "inner",
        build(answer),
        input=lambda ctx: {"question": ctx.values["question"]},
        output=lambda state: ag.SetValues(given=state),
    )
    for node in (answer, by_tree):
        assert invoke(drive, build(node), {"question": "why"}) == {"answer": "WHY"}
    out = invoke(drive, ag.compile_agent(inner), {**SAID, "values": {"question": "why"}})
    assert out["values"] == {"question": "why", "given": {"answer": "WHY"}}


class Public(TypedDict, total=False):
    a: str


class Private(TypedDict):
    secret: str


def first(state: Public) -> Private:
    return {"secret": f"{state['a']}, then first"}


def second(state: Private) -> Public:
    return {"a": f"{state['secret']}, then second"}


def third(state: Public) -> Public:
    assert [*state] == ["a"]
    return {"a": f"{state['a']}, then third"}


def test_agents_pass_a_private_value_on_that_is_deleted_after_them(drive: Drive) -> None:
    graph = StateGraph(Public).add_sequence([first, second, third]).add_edge(START, "first").compile()
    expected = {"a": "start, then first, then second, then third"}
    assert invoke(drive, graph, {"a": "start"}) == expected

    def agent(node: Any, *read: str, **also: Any) -> ag.Agent:
        def fn(ctx: ag.Context) -> ag.SetValues:
            return ag.SetValues(**node({key: ctx.values[key] for key in read}), **also)

        return ag.function_agent(node.__name__, fn)

    def read_all(ctx: ag.Context) -> ag.SetValues:
        return ag.SetValues(**third(dict(ctx.values)))

    agents = [agent(first, "a"), agent(second, "secret", secret=ag.DELETE)]
    steps = ag.sequential("s", [*agents, ag.function_agent("third", read_all)])
    out = invoke(drive, ag.compile_agent(steps, values=Public), {**SAID, "values": {"a": "start"}})
    assert out["values"] == expected


@pytest.mark.parametrize("flat", [False, True])
def test_a_graph_in_a_tree_keeps_its_private_keys(drive: Drive, flat: bool) -> None:
    graph = StateGraph(Public).add_sequence([first, second, third]).add_edge(START, "first").compile()
    values: Any = {"input": lambda ctx: dict(ctx.values), "output": lambda s: ag.SetValues(**s)}
    agent = ag.graph_agent("g", graph, flat=flat, **values)
    out = invoke(drive, ag.compile_agent(agent, values=Public), {**SAID, "values": {"a": "start"}})
    assert out["values"] == {"a": "start, then first, then second, then third"}


# pydantic models


class Author(BaseModel):
    name: str


class Book(BaseModel):
    title: str
    pages: int = 0
    author: Author = Field(default_factory=lambda: Author(name="Ada"))
    notes: Annotated[list[str], operator.add] = ["new"]


def describe(values: Any) -> str:
    author = values["author"]
    assert isinstance(author, Author)
    return f"{values['title']}, {values['pages']} pages, {author.name}, {values['notes']}"


def test_a_model_has_defaults_and_nested_models_stay_objects(drive: Drive) -> None:
    def node(state: Book) -> Any:
        return {"title": state.title.title(), "pages": state.pages + 1, "notes": ["node"]}

    agent = ag.function_agent(
        "n",
        lambda ctx: ag.SetValues(
            title=ctx.values["title"].title(), pages=ctx.values["pages"] + 1, notes=["node"]
        ),
    )
    graph = ag.compile_agent(agent, values=Book)
    hand = in_turn(Book, node)
    for given in ({"title": "bees"}, Book(title="bees"), Book(title="bees", pages=3)):
        found = invoke(drive, hand, given)
        mine = invoke(drive, graph, {**SAID, "values": given})["values"]
        pages = {"pages": given.pages if isinstance(given, Book) else 0}
        assert found["title"] == mine["title"] == "Bees"
        assert mine["pages"] == pages["pages"] + 1
        assert mine["author"] == Author(name="Ada")
        assert mine["notes"] == ["new", "node"]
        assert Book(**mine).author.name == "Ada"


def test_a_dataclass_is_input_as_a_model_is(drive: Drive) -> None:
    graph = tree(Plain, {"words": ["wax"]})
    out = invoke(drive, graph, {**SAID, "values": Plain(page=4, words=["hive"])})
    assert out["values"] == {"page": 4, "words": ["hive", "wax"]}
    assert invoke(drive, graph, {**SAID, "values": Plain()})["values"] == {"page": 0, "words": ["wax"]}


def test_input_that_does_not_fit_a_model_is_refused_and_nothing_is_converted(drive: Drive) -> None:
    def node(state: Book) -> Any:
        return {"title": f"{state.pages!r}"}

    hand, graph = in_turn(Book, node), tree(Book, {"title": "x"})
    for wrong in ({"title": 3}, {"title": "x", "pages": "many"}, {"title": "x", "author": {}}):
        with pytest.raises(ValidationError):
            invoke(drive, hand, wrong)
        with pytest.raises(ag.AgentGraphError, match="does not fit its declared type"):
            invoke(drive, graph, {**SAID, "values": wrong})
    assert invoke(drive, hand, {"title": "x", "pages": "42"})["title"] == "42"
    with pytest.raises(ag.AgentGraphError, match="should be a valid integer, got '42'"):
        invoke(drive, graph, {**SAID, "values": {"title": "x", "pages": "42"}})


# tools read and write the state


class Shopper(AgentState[Any]):
    user: str
    basket: Annotated[list[str], operator.add]


class Basket(TypedDict):
    user: str
    basket: Annotated[list[str], operator.add]


@tool
def by_state(state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Look at the state."""
    return f"{state['user']}: {state['basket']}"


@tool
def by_key(user: Annotated[str, InjectedState("user")]) -> str:
    """Look at one key."""
    return user


@tool
def by_runtime(runtime: ToolRuntime) -> str:
    """Look at the runtime's state."""
    return f"{runtime.state['user']}: {len(runtime.state['messages'])}"


@tool
def put(item: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Put an item into the basket."""
    done = ToolMessage(f"Put {item}.", tool_call_id=tool_call_id)
    return Command(update={"basket": [item], "user": "eve", "messages": [done]})


def test_tools_read_and_write_the_state_of_an_agent(drive: Drive) -> None:
    def model() -> ScriptedChatModel:
        looks = [call(each.name) for each in (by_state, by_key, by_runtime)]
        return ScriptedChatModel(
            responses=[calls(*looks), calls(call("put", item="tea")), calls(*looks), "Done."]
        )

    tools = [by_state, by_key, by_runtime, put]
    hand = create_agent(model(), tools, state_schema=Shopper)
    state = {"user": "ada", "basket": ["milk"]}
    found = invoke(drive, hand, {**SAID, **state})
    said = [each.text for each in found["messages"]]
    for schema in (Basket, Shopper):
        graph = ag.compile_agent(ag.chat_agent("agent", model(), tools=tools), values=schema)
        out = invoke(drive, graph, {**SAID, "values": state})
        assert [each.text for each in out["messages"]] == said
        assert out["values"] == {key: found[key] for key in state}
    assert said[2:5] == ["ada: ['milk']", "ada", "ada: 2"]
    assert said[8:11] == ["eve: ['milk', 'tea']", "eve", "eve: 8"]


def test_calls_of_one_message_write_through_the_reducer(drive: Drive) -> None:
    class Items(TypedDict):
        basket: Annotated[list[str], operator.add]

    @tool
    def add(item: str, runtime: ToolRuntime) -> Command[Any]:
        """Add an item."""
        done = ToolMessage("Added.", tool_call_id=runtime.tool_call_id)
        return Command(update={"basket": [item], "messages": [done]})

    both = calls(call("add", item="tea"), call("add", item="milk"))
    agent = ag.chat_agent("agent", ScriptedChatModel(responses=[both, "Done."]), tools=[add])
    out = invoke(drive, ag.compile_agent(agent, values=Items), SAID)
    assert out["values"] == {"basket": ["tea", "milk"]}


def test_calls_of_one_message_that_overwrite_differently_are_refused(drive: Drive) -> None:
    @tool
    def replace(item: str, runtime: ToolRuntime) -> Command[Any]:
        """Leave only one item."""
        done = ToolMessage("Replaced.", tool_call_id=runtime.tool_call_id)
        return Command(update={"basket": Overwrite([item]), "messages": [done]})

    def model() -> ScriptedChatModel:
        both = calls(call("replace", item="tea"), call("replace", item="milk"))
        return ScriptedChatModel(responses=[both, "Done."])

    with pytest.raises(InvalidUpdateError, match="only one Overwrite"):
        invoke(drive, create_agent(model(), [replace], state_schema=Shopper), SAID)
    agent = ag.chat_agent("agent", model(), tools=[replace])
    inner = ag.parallel("p", [ag.parallel("q", [agent, gives("a", "A")])])
    runner = ag.Runner(inner, values=Basket)
    with pytest.raises(ag.ValueConflictError, match="let only one of them write an Overwrite"):
        list(drive.run(runner, "Go.", thread_id="t"))
    list(drive.resume(runner, "t", values={"basket": ["tea", "milk"]}))
    assert runner.thread("t").values == {"basket": ["tea", "milk"]}


# edits of a saved state


def test_an_edit_of_a_saved_state_goes_through_the_reducers(drive: Drive) -> None:
    edit = {"page": 7, "words": ["wax"]}
    hand = by_hand(Merged, {"words": ["hive"]}, checkpointer=InMemorySaver())
    invoke(drive, hand, {"page": 1, "words": []}, THREAD)
    hand.update_state(THREAD, edit)
    expected = {"page": 7, "words": ["hive", "wax"]}
    assert hand.get_state(THREAD).values == expected
    graph = tree(Merged, {"words": ["hive"]}, checkpointer=InMemorySaver())
    invoke(drive, graph, {**SAID, "values": {"page": 1}}, THREAD)
    graph.update_state(THREAD, {"values": edit})
    assert graph.get_state(THREAD).values["values"] == expected
    graph.update_state(THREAD, {"values": {"words": Overwrite([])}})
    assert graph.get_state(THREAD).values["values"]["words"] == []
    with pytest.raises(ag.AgentGraphError, match="values must be a mapping, got 3"):
        graph.update_state(THREAD, {"values": 3})
    other = tree(Plain, {"words": ["hive"]}, checkpointer=InMemorySaver())
    invoke(drive, other, SAID, THREAD)
    other.update_state(THREAD, {"values": Plain(page=7, words=["wax"])})
    assert other.get_state(THREAD).values["values"] == expected


def test_agents_write_what_later_ones_see(drive: Drive) -> None:
    runner = ag.Runner(ag.sequential("s", [writes("a", {"page": 2}), writes("b")]), values=Merged)
    texts = [event.text for event in drive.run(runner, "Go.", values={"page": 1, "words": []})]
    assert texts == ["saw {'page': 1, 'words': []}", "saw {'page': 2, 'words': []}"]
