"""Validation: every fault of a tree, told at once, each where it is."""

from collections.abc import Iterator

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool, tool

import agentgraph as ag
from agentgraph import (
    Agent,
    AgentGraphError,
    Ask,
    BreakLoop,
    Exit,
    InvalidAgentError,
    agent_tool,
    chat_agent,
    compile_agent,
    function_agent,
    human,
    loop,
    parallel,
    sequential,
    summarized,
    trimmed,
)
from agentgraph.agents.agents import FunctionAgent
from agentgraph.testing import ScriptedChatModel
from agentgraph.tree.validation import validate


def say(ctx) -> str:
    return "said"


def may_stop(ctx) -> str | Exit:
    return Exit()


def may_leave(ctx) -> Iterator[str | BreakLoop]:
    yield BreakLoop()


def may_ask(ctx) -> str | Ask:
    return Ask("ok?")


def anything(ctx):
    return None


def leaf(name: str, fn=say, **options) -> Agent:
    return function_agent(name, fn, **options)


def model() -> ScriptedChatModel:
    return ScriptedChatModel(responses=[])


class Writer:
    """A class that is no agent."""

    def __repr__(self) -> str:
        return "<a writer>"


a, b, c = map(leaf, "abc")
BAD_NAME = "is not allowed; use letters, digits, '_' and single '-', letter first"
NO_AGENT = "is not an agent; build one with chat_agent, human, sequential, ..."
ENDLESS = (
    "nothing can end this loop; give it max_iterations or until, or an agent inside that may exit "
    "or break_loop"
)


def faults(agent: object) -> tuple[str, ...]:
    with pytest.raises(InvalidAgentError) as refused:
        validate(agent)
    return refused.value.faults


def is_allowed(agent: Agent) -> bool:
    return validate(agent).root.agent is agent


def test_a_tree_without_faults_is_laid_out():
    agent = sequential(
        "report",
        [
            chat_agent("writer", model(), instruction="Write about {topic}.", output_key="draft"),
            loop("refine", [a, leaf("critic", may_leave)], max_iterations=3, until=bool),
            parallel("review", [b, c], max_concurrency=1),
            human("boss", {"text": "ok?"}, response_schema=bool, output_key="ok"),
        ],
    )
    assert [place.name for place in validate(agent).places] == [
        "report",
        "writer",
        "refine",
        "a",
        "critic",
        "review",
        "b",
        "c",
        "boss",
    ]


def test_one_fault_is_the_whole_message():
    agent = sequential("report", [loop("refine", [], max_iterations=2)])
    with pytest.raises(InvalidAgentError) as refused:
        validate(agent)
    assert str(refused.value) == "report/refine: a loop needs at least one sub-agent"
    assert refused.value.faults == ("report/refine: a loop needs at least one sub-agent",)
    assert isinstance(refused.value, AgentGraphError)


def test_all_faults_are_told_in_one_error_in_the_order_of_the_tree():
    agent = sequential(
        "report",
        [
            leaf("a b"),
            loop("refine", [], max_iterations=0),
            loop("forever", [b], max_iterations=None),
            parallel("review", [leaf("law", output_key="note"), leaf("press", output_key="note")]),
            None,
        ],
    )
    with pytest.raises(InvalidAgentError) as refused:
        validate(agent)
    assert str(refused.value) == (
        "6 faults:\n"
        f"- report/a b: the name 'a b' {BAD_NAME}\n"
        "- report/refine: a loop needs at least one sub-agent\n"
        "- report/refine: max_iterations=0 is no limit; use a whole number from 1, or None for no "
        "bound\n"
        f"- report/forever: {ENDLESS}\n"
        "- report/review: the branches 'law' and 'press' write the same output_key 'note'; give "
        "each its own "
        "key, or declare a reducer for 'note' in values=\n"
        f"- report: None {NO_AGENT}"
    )
    assert [f"- {fault}" for fault in refused.value.faults] == str(refused.value).split("\n")[1:]


def test_compiling_refuses_what_validation_refuses():
    with pytest.raises(InvalidAgentError) as refused:
        compile_agent(sequential("report", []))
    assert str(refused.value) == "report: a sequential needs at least one sub-agent"


@pytest.mark.parametrize(
    ("agent", "told"),
    [
        (sequential("s", []), "s: a sequential needs at least one sub-agent"),
        (parallel("s", []), "s: a parallel needs at least one sub-agent"),
        (loop("s", [], max_iterations=None), "s: a loop needs at least one sub-agent"),
    ],
    ids=lambda given: type(given).__name__,
)
def test_a_composite_needs_a_sub_agent(agent, told):
    assert faults(agent) == (told,)


@pytest.mark.parametrize("thing", ["writer", None, 5, Writer, Writer(), AIMessage("no"), ["a"]])
def test_what_is_no_agent_is_refused_at_the_root_and_inside(thing):
    assert faults(sequential("s", [a, thing])) == (f"s: {thing!r} {NO_AGENT}",)
    assert faults(parallel("p", [thing, a])) == (f"p: {thing!r} {NO_AGENT}",)
    assert faults(thing) == (f"the root: {thing!r} {NO_AGENT}",)


def test_a_class_of_agents_is_no_agent():
    assert faults(sequential("s", [FunctionAgent])) == (f"s: {FunctionAgent!r} {NO_AGENT}",)


def test_a_compiled_graph_is_no_agent_of_a_tree():
    graph = compile_agent(a)
    assert faults(sequential("s", [graph])) == (f"s: {graph!r} {NO_AGENT}",)


def test_sub_agents_that_are_no_list_are_refused_as_no_agent():
    assert faults(sequential("s", None)) == (f"s: None {NO_AGENT}",)
    assert faults(sequential("s", "writer")) == (f"s: 'writer' {NO_AGENT}",)


@pytest.mark.parametrize(
    "name",
    [
        "writer",
        "Writer2",
        "w",
        "_",
        "_w",
        "write-it",
        "write_it_2",
        "END",
        "messages",
        "values",
        "w" * 200,
    ],
)
def test_a_name_of_letters_digits_and_dashes_is_allowed(name):
    assert is_allowed(leaf(name))
    assert is_allowed(sequential("s", [leaf(name)]))


@pytest.mark.parametrize(
    "name",
    [
        "a b",
        "1a",
        "a/b",
        "a.b",
        "-a",
        "a#2",
        "a[0]",
        "a:b",
        "a|b",
        "größe",
        "a\n",
        " a",
        "a\u200b",
        "{a}",
    ],
)
def test_any_other_name_is_refused(name):
    assert faults(leaf(name)) == (f"{name}: the name {name!r} {BAD_NAME}",)
    assert faults(sequential("s", [leaf(name)])) == (f"s/{name}: the name {name!r} {BAD_NAME}",)


def test_an_empty_name_is_refused_where_it_stands():
    assert faults(leaf("")) == (f"the root: the name '' {BAD_NAME}",)
    assert faults(sequential("s", [leaf("")])) == (f"s: the name '' {BAD_NAME}",)


@pytest.mark.parametrize("name", ["end", "__x", "__start__", "__end__"])
def test_a_reserved_name_is_refused(name):
    assert faults(sequential("s", [leaf(name)])) == (
        f"s/{name}: the name {name!r} is reserved; choose another",
    )


@pytest.mark.parametrize("name", [None, 5, b"a", ("a",), ["a"], {"a": 1}, say])
def test_a_name_that_is_no_text_is_refused(name):
    (told,) = faults(sequential("s", [leaf(name)]))
    assert told.endswith(f": the name {name!r} {BAD_NAME}")


def test_a_composite_has_a_name_like_any_agent():
    agent = loop("a b", [parallel("end", [sequential("1", [a])])], max_iterations=2)
    assert faults(agent) == (
        f"a b: the name 'a b' {BAD_NAME}",
        "a b/end: the name 'end' is reserved; choose another",
        f"a b/end/1: the name '1' {BAD_NAME}",
    )


def test_two_agents_of_one_name_are_refused():
    agent = sequential("s", [a, loop("l", [leaf("a", may_stop)], max_iterations=2)])
    assert faults(agent) == ("s/l/a: two agents are named 'a'; a name means one agent, rename one",)


def test_a_composite_and_an_agent_inside_it_cannot_share_a_name():
    assert faults(sequential("a", [a])) == (
        "a/a: two agents are named 'a'; a name means one agent, rename one",
    )


@pytest.mark.parametrize(
    "other",
    [
        leaf("a", description="Speaks."),
        leaf("a", output_key="said"),
        leaf("a", history="own"),
        human("a", "ok?"),
        chat_agent("a", model()),
        sequential("a", [b]),
    ],
)
def test_agents_of_one_name_must_be_equal_in_all(other):
    assert faults(sequential("s", [a, other])) == (
        "s/a: two agents are named 'a'; a name means one agent, rename one",
    )


def test_the_same_agent_may_stand_in_several_places():
    inner = loop("l", [a, b], max_iterations=2)
    writer = chat_agent("writer", model())
    assert is_allowed(
        sequential(
            "s", [a, a, inner, parallel("p", [inner, a, writer]), sequential("t", [writer, inner])]
        )
    )


def test_agents_that_are_equal_by_value_are_the_same_agent():
    assert is_allowed(sequential("s", [leaf("a"), loop("l", [leaf("a")], max_iterations=2)]))
    assert is_allowed(sequential("s", [sequential("t", [leaf("a")]), sequential("t", [leaf("a")])]))
    assert is_allowed(sequential("s", [human("h", "ok?"), human("h", "ok?")]))


@pytest.mark.parametrize("limit", [0, -1, True, False, 2.5, "3", [2]])
def test_a_limit_is_a_whole_number_from_1(limit):
    told = f"={limit!r} is no limit; use a whole number from 1, or None for no bound"
    assert faults(loop("l", [a], max_iterations=limit)) == (f"l: max_iterations{told}",)
    assert faults(parallel("p", [a], max_concurrency=limit)) == (f"p: max_concurrency{told}",)


@pytest.mark.parametrize("limit", [1, 2, 10**9])
def test_any_whole_number_from_1_is_a_limit(limit):
    assert is_allowed(loop("l", [a], max_iterations=limit))
    assert is_allowed(parallel("p", [a], max_concurrency=limit))
    assert is_allowed(parallel("p", [a], max_concurrency=None))


@pytest.mark.parametrize(
    "body",
    [
        [a],
        [a, human("h", "ok?"), chat_agent("writer", model())],
        [leaf("f", may_ask)],
        [sequential("t", [a, parallel("p", [b, c])])],
        [loop("inner", [leaf("f", may_leave)], max_iterations=2)],
        [loop("inner", [leaf("f", may_leave)], max_iterations=None)],
        [
            a,
            parallel("p", [loop("inner", [sequential("t", [leaf("f", may_leave)])], max_iterations=2)]),
        ],
    ],
    ids=lambda body: ", ".join(agent.name for agent in body),
)
def test_a_loop_that_nothing_can_end_is_refused(body):
    agent = sequential("report", [loop("refine", body, max_iterations=None)])
    assert faults(agent) == (f"report/refine: {ENDLESS}",)


@pytest.mark.parametrize(
    "body",
    [
        [leaf("f", may_stop)],
        [leaf("f", may_leave)],
        [leaf("f", anything)],
        [leaf("f", lambda ctx: None)],
        [a, sequential("t", [b, leaf("f", may_leave)])],
        [parallel("p", [a, sequential("t", [b, leaf("f", may_leave)])])],
        [parallel("p", [a, parallel("q", [b, leaf("f", may_stop)])])],
        [loop("inner", [leaf("f", may_stop)], max_iterations=2)],
        [loop("inner", [leaf("f", anything)], max_iterations=None)],
        [loop("inner", [leaf("f", may_leave)], max_iterations=None), leaf("g", may_leave)],
    ],
    ids=lambda body: ", ".join(agent.name for agent in body),
)
def test_a_loop_without_bound_is_allowed_where_something_inside_can_end_it(body):
    assert is_allowed(sequential("report", [loop("refine", body, max_iterations=None)]))


def test_a_loop_without_bound_is_allowed_where_until_may_end_it():
    assert is_allowed(loop("refine", [a], max_iterations=None, until=bool))


def test_each_of_several_endless_loops_is_told_where_it_is():
    inner = loop("inner", [a], max_iterations=None)
    agent = loop(
        "outer", [inner, parallel("p", [loop("other", [b], max_iterations=None)])], max_iterations=2
    )
    assert faults(agent) == (f"outer/inner: {ENDLESS}", f"outer/p/other: {ENDLESS}")


@pytest.mark.parametrize(
    ("branches", "told"),
    [
        ([leaf("x", output_key="k"), leaf("y", output_key="k")], "'x' and 'y'"),
        ([leaf("x", output_key="k"), leaf("x", output_key="k")], "'x' and 'x'"),
        ([leaf("x", output_key="k"), a, human("h", "?", output_key="k")], "'x' and 'h'"),
        (
            [
                leaf("x", output_key="k"),
                sequential("t", [a, loop("l", [leaf("y", output_key="k")], max_iterations=2)]),
            ],
            "'x' and 't'",
        ),
        (
            [
                sequential("t", [leaf("x", output_key="k")]),
                sequential("u", [leaf("x", output_key="k")]),
            ],
            "'t' and 'u'",
        ),
        (
            [
                leaf("x", output_key="k"),
                leaf("y", output_key="k"),
                chat_agent("z", model(), output_key="k"),
            ],
            "'x' and 'y' and 'z'",
        ),
        ([leaf("x", output_key="k"), parallel("q", [a, leaf("y", output_key="k")])], "'x' and 'q'"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_two_branches_cannot_write_one_output_key(branches, told):
    assert faults(sequential("s", [parallel("p", branches)])) == (
        f"s/p: the branches {told} write the same output_key 'k'; "
        "give each its own key, or declare a reducer for 'k' in values=",
    )


def test_each_key_that_branches_share_is_told():
    first = sequential("t", [leaf("x", output_key="j"), leaf("y", output_key="k")])
    second = sequential("u", [leaf("v", output_key="k"), leaf("w", output_key="j")])
    assert faults(parallel("p", [first, second])) == (
        "p: the branches 't' and 'u' write the same output_key 'j'; "
        "give each its own key, or declare a reducer for 'j' in values=",
        "p: the branches 't' and 'u' write the same output_key 'k'; "
        "give each its own key, or declare a reducer for 'k' in values=",
    )


def test_one_branch_may_write_its_key_several_times():
    x, y = leaf("x", output_key="k"), leaf("y", output_key="k")
    assert is_allowed(parallel("p", [sequential("t", [x, y, x]), a]))
    assert is_allowed(sequential("s", [x, parallel("p", [y, a]), x]))


@pytest.mark.parametrize("key", ["", "a b", "a.b", "1a", "{a}", 5, ["a"], True])
def test_an_output_key_is_a_plain_name(key):
    told = f"output_key={key!r} cannot be used in a template; use a plain name such as 'draft'"
    assert faults(leaf("x", output_key=key)) == (f"x: {told}",)
    assert faults(chat_agent("x", model(), output_key=key)) == (f"x: {told}",)
    assert faults(human("x", "ok?", output_key=key)) == (f"x: {told}",)
    assert faults(parallel("p", [leaf("x", output_key=key)])) == (f"p/x: {told}",)


@pytest.mark.parametrize("policy", ["all", "", None, 5, ["shared"]])
def test_a_history_is_one_of_five_words_or_a_function(policy):
    told = f"unknown history {policy!r}; use one of shared, path, own, last, input, or a function"
    assert faults(leaf("x", history=policy)) == (f"x: {told}",)
    assert faults(chat_agent("x", model(), history=policy)) == (f"x: {told}",)


@pytest.mark.parametrize("policy", ["shared", "path", "own", "last", "input", list])
def test_every_history_that_there_is_is_allowed(policy):
    assert is_allowed(leaf("x", history=policy))
    assert is_allowed(chat_agent("x", model(), history=policy))


@pytest.mark.parametrize("fn", [None, "say", 5])
def test_a_function_agent_needs_something_to_call(fn):
    assert faults(leaf("x", fn)) == (
        f"x: {fn!r} cannot be called; pass a function that takes a context",
    )


def test_what_cannot_be_called_is_refused_in_an_endless_loop_too():
    told = "l/x: 5 cannot be called; pass a function that takes a context"
    assert told in faults(loop("l", [leaf("x", 5)], max_iterations=None))


async def say_later(ctx):
    return "Later."


@pytest.mark.parametrize("chat", [None, " ", ScriptedChatModel, say_later, lambda: "openai:gpt-5"])
def test_a_chat_agent_needs_a_chat_model(chat):
    assert faults(chat_agent("x", chat)) == (
        f"x: the model {chat!r} is not a LangChain chat model; pass one, such as ChatOpenAI(...), a "
        f"name, "
        "such as 'openai:gpt-5', or a sync function of a context",
    )


@pytest.mark.parametrize("chat", ["openai:gpt-5", "nobody:knows", lambda ctx: "openai:gpt-5"])
def test_a_name_and_a_function_may_stand_for_a_model(chat):
    assert is_allowed(chat_agent("x", chat, tools=[]))
    assert is_allowed(ag.supervisor("s", chat, [a]))


def test_a_runnable_around_a_chat_model_is_one():
    assert is_allowed(chat_agent("x", model().with_retry()))
    assert is_allowed(chat_agent("x", model().with_fallbacks([model()])))
    assert is_allowed(chat_agent("x", RunnableLambda(list) | model()))


@pytest.mark.parametrize("instruction", [None, 5, ["Write."], say_later, lambda a, b: "Write."])
def test_an_instruction_is_a_template_a_message_or_a_function(instruction):
    assert faults(chat_agent("x", model(), instruction=instruction)) == (
        f"x: the instruction {instruction!r} cannot be used; pass a template, a SystemMessage, or a "
        "sync function of a context",
    )


def test_until_must_be_a_function():
    assert faults(loop("l", [a], max_iterations=2, until=True)) == (
        "l: until=True cannot be called; pass a function that takes a context",
    )


def test_a_response_schema_must_be_one_that_answers_can_be_checked_against():
    assert faults(human("h", "ok?", response_schema={"type": "string", "not": 5})) == (
        "h: the response schema {'type': 'string', 'not': 5} is neither a type nor a JSON schema (not: "
        "Input should be an object or a valid boolean)",
    )


def test_a_fault_is_told_at_each_place_where_it_stands():
    bad = loop("l", [a], max_iterations=0)
    told = "l: max_iterations=0 is no limit; use a whole number from 1, or None for no bound"
    assert faults(sequential("s", [bad, sequential("t", [bad])])) == (f"s/{told}", f"s/t/{told}")


# what a chat agent is given besides its model


def search(q: str) -> str:
    """Search."""
    return q


def stop(ctx) -> str | BreakLoop:
    """Stop."""
    return BreakLoop()


def undocumented(q: str) -> str:
    return q


def chat(**options) -> Agent:
    return chat_agent("x", model(), **options)


def test_a_tool_is_a_langchain_tool_a_function_an_agent_or_a_description_for_the_provider():
    other = StructuredTool.from_function(search, name="other")
    assert is_allowed(chat(tools=[search, other, agent_tool(leaf("helper")), {"type": "web_search"}]))
    assert is_allowed(chat(tools=tool(search)))
    assert is_allowed(chat(tools=search))


def test_two_tools_cannot_have_one_name():
    told = "x: 2 tools are named 'search'; a name means one tool, rename the others"
    assert faults(chat(tools=[search, tool(search)])) == (told,)
    assert faults(chat(tools=[search, agent_tool(leaf("search"))])) == (told,)
    assert faults(chat(tools=[search, search, tool(search)])) == (told.replace("2", "3", 1),)


def test_a_tool_cannot_have_the_name_of_one_that_steers():
    told = "x: 2 tools are named {!r}; a name means one tool, rename the others"
    for name, options in (("exit", {"exit_tool": True}), ("break_loop", {"break_tool": True})):
        mine = StructuredTool.from_function(search, name=name)
        assert is_allowed(chat(tools=[mine]))
        agent = loop("l", [chat(tools=[mine], **options)], max_iterations=2)
        assert faults(agent) == (f"l/{told.format(name)}",)


@pytest.mark.parametrize("name", ["transfer_to_a", "transfer_to_", "transfer_to_nobody"])
def test_a_tool_may_be_named_as_those_of_transfers_are(name):
    assert is_allowed(chat(tools=[StructuredTool.from_function(search, name=name)]))


def test_a_tool_cannot_have_the_name_of_one_that_transfers_unless_it_hands_over():
    mine = StructuredTool.from_function(search, name="transfer_to_a")
    told = "x: 2 tools are named 'transfer_to_a'; a name means one tool, rename the others"
    assert faults(chat(tools=[mine], sub_agents=[a])) == (told,)


def test_a_tool_may_have_a_name_that_only_looks_like_a_transfer():
    assert is_allowed(chat(tools=[StructuredTool.from_function(search, name="transfer")]))
    assert is_allowed(chat(tools=[StructuredTool.from_function(search, name="do_transfer_to_a")]))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (undocumented, "Function must have a docstring if description not provided."),
        ("search", None),
        (5, None),
        (None, None),
        (Writer(), None),
    ],
    ids=["undocumented", "text", "number", "None", "object"],
)
def test_what_cannot_be_a_tool_is_refused(given, reason):
    (told,) = faults(chat(tools=[given]))
    assert told.startswith(f"x: {given!r} cannot be used as a tool (")
    assert told.endswith("); pass a LangChain tool, or a function with a docstring")
    assert "\n" not in told
    assert reason is None or f"({reason})" in told


def test_an_agent_is_a_tool_by_agent_tool_alone():
    assert faults(chat(tools=[a])) == (
        f"x: {a!r} cannot be used as a tool (an agent becomes a tool by agent_tool(agent)); pass a "
        "LangChain tool, or a function with a docstring",
    )


@pytest.mark.parametrize("argument", ["return_directly", "approve"])
def test_tools_that_are_named_must_be_there(argument):
    assert faults(chat(tools=[search], **{argument: ["serch", "search", "find"]})) == (
        f"x: {argument} names 'serch', 'find', which is not one of its tools: search",
    )
    assert faults(chat(**{argument: "search"})) == (
        f"x: {argument} names 'search', which is not one of its tools: none",
    )
    assert is_allowed(chat(tools=[search], exit_tool=True, **{argument: ["search", "exit"]}))
    assert is_allowed(chat(sub_agents=[a], **{argument: ["transfer_to_a"]}))
    assert is_allowed(chat(tools=[agent_tool(a)], **{argument: ["a"]}))


def test_approve_may_be_a_function():
    assert is_allowed(chat(tools=[search], approve=bool))


@pytest.mark.parametrize("limit", [0, -1, True, False, 2.5, "3"])
def test_the_limit_of_a_chat_agent_is_a_whole_number_from_1(limit):
    assert faults(chat(max_iterations=limit)) == (
        f"x: max_iterations={limit!r} is no limit; use a whole number from 1, or None for no bound",
    )


@pytest.mark.parametrize("limit", [1, 10**9, None])
def test_a_chat_agent_may_have_any_limit_or_none(limit):
    assert is_allowed(chat(max_iterations=limit))


@pytest.mark.parametrize(
    ("argument", "other"),
    [("on_max_iterations", "answer"), ("unknown_tool", "return")],
)
@pytest.mark.parametrize("word", ["ignore", "", None, True, 5])
def test_a_word_that_is_not_known_is_told_with_those_that_are(argument, other, word):
    words = "'raise' or 'answer'" if other == "answer" else "'return' or 'raise'"
    assert faults(chat(**{argument: word})) == (f"x: {argument}={word!r} is not known; use {words}",)
    assert is_allowed(chat(**{argument: other}))
    assert is_allowed(chat(**{argument: "raise"}))


def test_a_function_may_answer_unknown_tools_and_nothing_else():
    assert is_allowed(chat(unknown_tool=lambda name, args: name))


async def later(error):
    return "Later."


@pytest.mark.parametrize(
    "given",
    ["ignore", "", None, True, 5, str, KeyboardInterrupt, (), (ValueError, 5), lambda: "No.", later],
)
def test_what_cannot_become_of_an_exception_in_a_tool_is_told_with_what_can(given):
    assert faults(chat(on_tool_error=given)) == (
        f"x: on_tool_error={given!r} is not known; use 'return' or 'raise', types of exceptions, "
        "a sentence for the model, or a sync function of the exception",
    )


@pytest.mark.parametrize(
    "given", ["return", "raise", "Try again.", ValueError, (ValueError, KeyError), lambda error: "No."]
)
def test_what_may_become_of_an_exception_in_a_tool(given):
    assert is_allowed(chat(on_tool_error=given))


class Deaf(BaseChatModel):
    """A chat model that takes no tools."""

    @property
    def _llm_type(self) -> str:
        return "deaf"

    def _generate(self, messages, stop=None, run_manager=None, **_):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("deaf", "kind"),
    [
        (Deaf(), "Deaf"),
        (FakeListChatModel(responses=["a"]), "FakeListChatModel"),
        (RunnableLambda(list), "RunnableLambda"),
    ],
)
@pytest.mark.parametrize(
    "options", [{"tools": [search]}, {"exit_tool": True}, {"sub_agents": [a]}], ids=list
)
def test_tools_need_a_model_that_takes_them(deaf, kind, options):
    assert faults(chat_agent("x", deaf, **options)) == (
        f"x: the model {kind} takes no tools; pass one with bind_tools",
    )
    assert is_allowed(chat_agent("x", deaf))


def test_a_model_with_fallbacks_takes_tools():
    assert is_allowed(chat_agent("x", model().with_fallbacks([model()]), tools=[search]))


def test_a_model_with_retries_hides_its_tools_and_the_way_out_is_told():
    assert faults(chat_agent("x", model().with_retry(), tools=[search])) == (
        "x: the model RunnableRetry takes no tools; use retry= instead",
    )


def test_a_model_with_a_fallback_that_takes_no_tools_is_refused():
    (told,) = faults(chat_agent("x", model().with_fallbacks([Deaf()]), tools=[search]))
    assert told.endswith("takes no tools; pass one with bind_tools")


def test_a_runnable_around_a_model_that_hides_its_tools_is_refused():
    assert faults(chat_agent("x", RunnableLambda(list) | model(), tools=[search])) == (
        "x: the model RunnableSequence takes no tools; pass one with bind_tools",
    )


@pytest.mark.parametrize("limit", [0, -1, 2.5, "3", True])
def test_a_budget_is_a_whole_number_from_1(limit):
    told = f"x: max_tokens={limit!r} is no limit; use a whole number from 1, or None for no bound"
    assert told in faults(chat(history=trimmed(limit)))
    assert told in faults(chat(history=summarized(model(), limit)))


def test_a_budget_holds_a_history_that_there_is():
    assert is_allowed(chat(history=trimmed(5, history="own")))
    assert faults(chat(history=trimmed(5, history="all"))) == (
        "x: unknown history 'all'; use one of shared, path, own, last, input, or a function",
    )


@pytest.mark.parametrize("schema", [5, search, object(), ["a"]], ids=["5", "fn", "object", "list"])
def test_an_output_schema_is_a_type_or_a_json_schema(schema):
    (told,) = faults(chat(output_schema=schema))
    assert told.startswith(f"x: the output schema {schema!r} is neither a type nor a JSON schema (")


def test_an_output_schema_that_replies_cannot_be_checked_against_is_refused():
    assert faults(chat(output_schema={"type": "string", "not": 5})) == (
        "x: the output schema {'type': 'string', 'not': 5} is neither a type nor a JSON schema (not: "
        "Input should be an object or a valid boolean)",
    )


@pytest.mark.parametrize("schema", [int, dict[str, int], {"type": "object"}, bool, None])
def test_every_type_that_pydantic_knows_is_an_output_schema(schema):
    assert is_allowed(chat(output_schema=schema))


@pytest.mark.parametrize("hook", ["messages", 5, ["a"]])
def test_what_has_the_last_word_on_the_messages_must_be_a_function(hook):
    assert faults(chat(model_input=hook)) == (
        f"x: model_input={hook!r} cannot be used; pass a sync function of the messages, or of a "
        "context and the messages",
    )


NO_LOOP = "break_tool=True needs an enclosing loop; leave it out"


def test_a_break_tool_needs_a_loop_around_it():
    breaks = chat(break_tool=True)
    assert faults(breaks) == (f"x: {NO_LOOP}",)
    assert faults(sequential("s", [loop("l", [a], max_iterations=2), parallel("p", [breaks])])) == (
        f"s/p/x: {NO_LOOP}",
    )
    assert is_allowed(loop("l", [sequential("s", [parallel("p", [breaks])])], max_iterations=2))


def test_an_agent_that_runs_as_a_tool_cannot_break_a_loop_around_its_caller():
    caller = chat_agent("caller", model(), tools=[agent_tool(chat(break_tool=True))])
    assert faults(loop("l", [caller], max_iterations=2)) == (f"l/caller/x: {NO_LOOP}",)
    inner = loop("inner", [chat(break_tool=True)], max_iterations=2)
    assert is_allowed(chat_agent("caller", model(), tools=[agent_tool(inner)]))


def test_a_break_tool_is_told_at_the_place_that_no_loop_is_around():
    breaks = chat(break_tool=True)
    agent = sequential("s", [loop("l", [breaks], max_iterations=2), breaks])
    assert faults(agent) == (f"s/x: {NO_LOOP}",)


@pytest.mark.parametrize(
    "options",
    [{"exit_tool": True}, {"break_tool": True}, {"tools": [stop]}],
    ids=["exit_tool", "break_tool", "a tool that breaks"],
)
def test_a_loop_without_bound_is_allowed_where_a_tool_may_end_it(options):
    assert is_allowed(loop("refine", [a, chat(**options)], max_iterations=None))


def test_a_loop_without_bound_is_not_ended_by_tools_that_only_speak():
    assert faults(loop("refine", [chat(tools=[search])], max_iterations=None)) == (
        f"refine: {ENDLESS}",
    )
    inner = loop("inner", [chat(tools=[stop])], max_iterations=2)
    assert faults(loop("refine", [inner], max_iterations=None)) == (f"refine: {ENDLESS}",)


def test_a_hook_on_the_messages_is_a_sync_function_of_one_or_two():
    async def later(messages):
        return messages

    assert is_allowed(chat(model_input=lambda messages: messages))
    assert is_allowed(chat(model_input=lambda ctx, messages: messages))
    for hook in (later, lambda: [], lambda a, b, c: []):
        (told,) = faults(chat(model_input=hook))
        assert told.startswith(f"x: model_input={hook!r} cannot be used; ")


def test_all_faults_of_a_chat_agent_are_told_at_once():
    agent = chat(
        tools=[search, tool(search), undocumented],
        max_iterations=0,
        on_tool_error="ignore",
        return_directly=["find"],
        break_tool=True,
        output_key="a b",
        history="all",
    )
    told = faults(sequential("s", [agent]))
    assert len(told) == 8
    assert all(fault.startswith("s/x: ") for fault in told)


def test_an_agent_that_may_transfer_back_has_a_tool_for_it():
    def desk(model, **options):
        bills = chat_agent("bills", model, **options)
        return chat_agent("triage", ScriptedChatModel(responses=[]), sub_agents=[bills])

    assert is_allowed(desk(ScriptedChatModel(responses=[]), approve=["transfer_to_triage"]))
    assert faults(desk(FakeListChatModel(responses=["a"]))) == (
        "triage/bills: the model FakeListChatModel takes no tools; pass one with bind_tools",
    )


@pytest.mark.parametrize("levels", [101, 5000])
def test_a_tree_that_is_nested_too_deep_is_one_fault(levels: int) -> None:
    tree = leaf("inmost")
    for level in range(levels - 1):
        tree = sequential(f"s{level}", [tree])
    with pytest.raises(InvalidAgentError) as raised:
        compile_agent(tree)
    assert str(raised.value).count("nested more than 100 levels deep; put several into one") == 1
    assert len(str(tree).splitlines()) == levels


def test_a_tree_of_a_hundred_levels_runs() -> None:
    tree = leaf("inmost")
    for level in range(99):
        tree = sequential(f"s{level}", [tree])
    runner = ag.Runner(tree)
    told = list(runner.run("Go.", thread_id="t"))
    assert [event.text for event in told] == ["said"]
    assert list(runner.events("t")) == told
