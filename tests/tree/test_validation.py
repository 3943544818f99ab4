"""Validation: every fault of a tree is in one error, each with the address of its agent."""

import re
from collections.abc import Iterator

import pytest
from langchain_core.messages import AIMessage
from walking import a, anything, b, c, group, leaf, may_leave, may_stop

import agentgraph as ag
from agentgraph import Agent, Ask, BreakLoop, chat_agent, human, loop, parallel, sequential
from agentgraph.agents.agents import FunctionAgent
from agentgraph.testing import ScriptedChatModel
from agentgraph.tree.validation import validate

MODEL = ScriptedChatModel(responses=[])
BAD_NAME = "is not allowed; use letters, digits, '_' and single '-', letter first"
NO_AGENT = "is not an agent; build one with chat_agent, human, sequential, ..."
NO_LIMIT = "is not a limit; use a whole number from 1, or None for no bound"
ENDLESS = (
    "nothing can end this loop; give it max_iterations or until, or an agent inside that may exit "
    "or break_loop"
)
NAMESAKE = "two agents are named 'a'; a name means one agent, rename one"
ONE_KEY = (
    "write the same output_key 'k'; give each its own key, or declare a reducer for 'k' in values="
)


def faults(agent: object) -> tuple[str, ...]:
    with pytest.raises(ag.InvalidAgentError) as refused:
        validate(agent)
    return refused.value.faults


def is_allowed(agent: Agent) -> bool:
    return validate(agent).root.agent is agent


def may_ask(ctx) -> str | Ask:
    return Ask("ok?")


def may_leave_later(ctx) -> Iterator[str | BreakLoop]:
    yield BreakLoop()


def keyed(name: str, key: object = "k") -> Agent:
    return ag.function_agent(name, lambda ctx: "said", output_key=key)


def endless(*body: Agent) -> Agent:
    return loop("refine", body, max_iterations=None)


class TestTheError:
    def test_is_the_fault_if_there_is_one(self):
        with pytest.raises(ag.InvalidAgentError) as refused:
            ag.compile_agent(sequential("report", [loop("refine", [], max_iterations=2)]))
        assert str(refused.value) == "report/refine: a loop needs at least one sub-agent"
        assert refused.value.faults == (str(refused.value),)

    def test_lists_all_faults_in_the_order_of_the_tree(self):
        agent = sequential(
            "report",
            [leaf("a b"), loop("refine", [], max_iterations=0), parallel("p", [keyed("a"), None])],
        )
        with pytest.raises(ag.InvalidAgentError) as refused:
            validate(agent)
        assert str(refused.value) == (
            "4 faults:\n"
            f"- report/a b: the name 'a b' {BAD_NAME}\n"
            "- report/refine: a loop needs at least one sub-agent\n"
            f"- report/refine: max_iterations=0 {NO_LIMIT}\n"
            f"- report/p: None {NO_AGENT}"
        )
        assert [f"- {fault}" for fault in refused.value.faults] == str(refused.value).split("\n")[1:]

    def test_has_a_fault_for_each_place(self):
        bad = loop("l", [a], max_iterations=0)
        fault = f"l: max_iterations=0 {NO_LIMIT}"
        assert faults(sequential("s", [bad, sequential("t", [bad])])) == (f"s/{fault}", f"s/t/{fault}")


REFUSED = {
    "an empty sequential": (sequential("s", []), "s: a sequential needs at least one sub-agent"),
    "an empty parallel": (parallel("s", []), "s: a parallel needs at least one sub-agent"),
    "an empty loop, though it is endless": (endless(), "refine: a loop needs at least one sub-agent"),
    "sub-agents that are None": (sequential("s", None), f"s: None {NO_AGENT}"),
    "sub-agents that are a text": (sequential("s", "writer"), f"s: 'writer' {NO_AGENT}"),
    "a class of agents": (sequential("s", [FunctionAgent]), f"s: {FunctionAgent!r} {NO_AGENT}"),
    "an empty name": (leaf(""), f"the root: the name '' {BAD_NAME}"),
    "an empty name inside": (sequential("s", [leaf("")]), f"s: the name '' {BAD_NAME}"),
    "a bad name of a composite": (sequential("1", [a]), f"1: the name '1' {BAD_NAME}"),
    "two agents of one name": (
        sequential("s", [a, loop("l", [leaf("a", may_stop)], max_iterations=2)]),
        f"s/l/a: {NAMESAKE}",
    ),
    "a composite with the name of an agent in it": (sequential("a", [a]), f"a/a: {NAMESAKE}"),
    "another description": (
        sequential("s", [a, ag.function_agent("a", a.fn, description="Speaks.")]),
        f"s/a: {NAMESAKE}",
    ),
    "an until that is no function": (
        loop("l", [a], max_iterations=2, until=True),
        "l: until=True cannot be called; pass a function that takes a context",
    ),
    "a response schema that answers cannot be checked against": (
        human("h", "ok?", response_schema={"type": "string", "not": 5}),
        "h: the response schema {'type': 'string', 'not': 5} is neither a type nor a JSON schema (not: "
        "Input should be an object or a valid boolean)",
    ),
    "a function agent without a function": (
        leaf("x", 5),
        "x: 5 cannot be called; pass a function that takes a context",
    ),
    "an unknown history": (
        ag.function_agent("x", lambda ctx: "", history=["shared"]),
        "x: unknown history ['shared']; use one of shared, path, own, last, input, or a function",
    ),
    "a graph that is not compiled": (
        ag.graph_agent("g", "graph"),
        "g: 'graph' is not a compiled LangGraph graph; call compile() on its builder",
    ),
    "an input of a graph that is no function": (
        ag.graph_agent("g", ag.compile_agent(a), input=5),
        "g: input=5 cannot be called; pass a function that takes a context",
    ),
    "a summary for a function": (
        ag.function_agent("x", lambda ctx: "", history=ag.summarized(MODEL, 9)),
        "x: only a chat agent can have a summary written; use trimmed(...) for a function",
    ),
    "a summary for a graph": (
        ag.graph_agent("g", ag.compile_agent(a), history=ag.summarized(MODEL, 9)),
        "g: only a chat agent can have a summary written; use trimmed(...) for a graph",
    ),
    "two checks": (
        ag.validated(ag.validated(a, bool), bool),
        "a: it has two validated(...) checks; combine them into one",
    ),
    "an on_error of a parallel": (
        parallel("p", [a], on_error="ignore"),
        "p: on_error='ignore' is not known; use 'fail' or 'wait' or 'collect' or 'first'",
    ),
    "a workflow without steps": (ag.workflow("w", []), "w: a workflow needs at least one step"),
    "an input of a step that is no text": (
        ag.workflow("w", [ag.step(a, input=5)]),
        "w: the input 5 of the step 'a' is not a string; pass a template",
    ),
}


@pytest.mark.parametrize(("agent", "fault"), REFUSED.values(), ids=REFUSED)
def test_a_tree_is_refused(agent, fault):
    assert faults(agent) == (fault,)


@pytest.mark.parametrize("thing", ["writer", None, 5, FunctionAgent, AIMessage("no"), ["a"]], ids=repr)
def test_a_thing_that_is_not_an_agent_is_refused_everywhere(thing):
    assert faults(sequential("s", [a, thing])) == (f"s: {thing!r} {NO_AGENT}",)
    assert faults(parallel("p", [thing, a])) == (f"p: {thing!r} {NO_AGENT}",)
    assert faults(thing) == (f"the root: {thing!r} {NO_AGENT}",)


def test_a_compiled_graph_is_not_an_agent():
    graph = ag.compile_agent(a)
    assert faults(sequential("s", [graph])) == (f"s: {graph!r} {NO_AGENT}",)


NAMES = "writer Writer2 w _ _w write-it write_it_2 END messages values"


@pytest.mark.parametrize("name", NAMES.split())
def test_a_name_of_letters_digits_and_dashes_is_allowed(name):
    assert is_allowed(sequential("s", [leaf(name)]))


BAD_NAMES = "a b|1a|a/b|a.b|-a|a#2|a[0]|a:b|a--b|größe|a\n| a|a\u200b|{a}"


@pytest.mark.parametrize("name", BAD_NAMES.split("|"))
def test_any_other_name_is_refused(name):
    assert faults(sequential("s", [leaf(name)])) == (f"s/{name}: the name {name!r} {BAD_NAME}",)


@pytest.mark.parametrize("name", ["end", "__x"])
def test_a_reserved_name_is_refused(name):
    fault = f"s/{name}: the name {name!r} is reserved; choose another"
    assert faults(sequential("s", [leaf(name)])) == (fault,)


@pytest.mark.parametrize("name", [None, 5, ["a"]], ids=str)
def test_a_name_that_is_not_a_text_is_refused(name):
    assert faults(sequential("s", [leaf(name)])) == (f"s/{name}: the name {name!r} {BAD_NAME}",)


def test_equal_agents_may_be_in_several_places():
    inner, writer = loop("l", [a, b], max_iterations=2), chat_agent("writer", MODEL)
    again = [writer, inner, leaf("a"), human("h", "ok?")]
    agent = sequential(
        "s", [a, a, inner, parallel("p", [inner, a, writer]), human("h", "ok?"), sequential("t", again)]
    )
    assert is_allowed(agent)


@pytest.mark.parametrize("limit", [0, -1, True, 2.5, "3"])
def test_a_limit_that_is_not_a_whole_number_from_1_is_refused(limit):
    assert faults(loop("l", [a], max_iterations=limit)) == (f"l: max_iterations={limit!r} {NO_LIMIT}",)
    bounded = parallel("p", [a], max_concurrency=limit)
    assert faults(bounded) == (f"p: max_concurrency={limit!r} {NO_LIMIT}",)
    chat = chat_agent("x", MODEL, max_iterations=limit, history=ag.trimmed(limit))
    assert {*faults(chat)} == {
        f"x: max_iterations={limit!r} {NO_LIMIT}",
        f"x: max_tokens={limit!r} {NO_LIMIT}",
    }


def test_a_limit_may_be_1_or_none():
    assert is_allowed(loop("l", [parallel("p", [a], max_concurrency=1)], max_iterations=1))
    assert is_allowed(
        parallel("p", [chat_agent("x", MODEL, max_iterations=None)], max_concurrency=None)
    )


LEAVES = leaf("f", may_leave)
ENDLESS_BODIES = {
    "agents that only speak or ask": [a, chat_agent("w", MODEL), leaf("f", may_ask)],
    "composites of them": [sequential("t", [a, parallel("p", [b, c])])],
    "a break of an inner loop": [loop("inner", [LEAVES], max_iterations=2)],
    "a break of a loop in a branch": [
        parallel("p", [loop("inner", [sequential("t", [LEAVES])], max_iterations=2)])
    ],
}


@pytest.mark.parametrize("body", ENDLESS_BODIES.values(), ids=ENDLESS_BODIES)
def test_a_loop_that_nothing_can_end_is_refused(body):
    assert faults(sequential("s", [endless(*body)])) == (f"s/refine: {ENDLESS}",)


ENDING_BODIES = {
    "an exit": [leaf("f", may_stop)],
    "a break": [leaf("f", may_leave_later)],
    "a function without annotation": [leaf("f", anything)],
    "a break in a sequential in a branch": [parallel("p", [a, sequential("t", [b, LEAVES])])],
    "an exit in a branch of a branch": [parallel("p", [a, parallel("q", [b, leaf("f", may_stop)])])],
    "an exit in an inner loop": [loop("inner", [leaf("f", may_stop)], max_iterations=2)],
    "a break after an endless inner loop": [loop("inner", [LEAVES], max_iterations=None), LEAVES],
}


@pytest.mark.parametrize("body", ENDING_BODIES.values(), ids=ENDING_BODIES)
def test_a_loop_without_bound_that_something_inside_can_end_is_allowed(body):
    assert is_allowed(sequential("s", [endless(*body)]))


def test_a_loop_without_bound_that_until_may_end_is_allowed():
    assert is_allowed(loop("refine", [a], max_iterations=None, until=bool))


SHARED_KEYS = {
    "'x' and 'y'": [keyed("x"), keyed("y")],
    "'x' and 'x'": [keyed("x"), keyed("x")],
    "'x' and 'h'": [keyed("x"), a, human("h", "?", output_key="k")],
    "'x' and 't'": [
        keyed("x"),
        sequential("t", [a, loop("l", [human("y", "?", output_key="k")], max_iterations=2)]),
    ],
    "'x' and 'y' and 'z'": [keyed("x"), keyed("y"), chat_agent("z", MODEL, output_key="k")],
    "'x' and 'q'": [keyed("x"), parallel("q", [a, human("y", "?", output_key="k")])],
}


@pytest.mark.parametrize("names", SHARED_KEYS)
def test_branches_with_one_output_key_are_refused(names):
    agent = sequential("s", [parallel("p", SHARED_KEYS[names])])
    assert f"s/p: the branches {names} {ONE_KEY}" in faults(agent)


def test_each_shared_output_key_is_a_fault_of_a_workflow_too():
    first = sequential("t", [keyed("x", "j"), human("y", "?", output_key="k")])
    second = sequential("u", [human("v", "?", output_key="k"), human("w", "?", output_key="j")])
    assert faults(ag.workflow("f", [ag.step(first), ag.step(second)])) == (
        f"f: the steps 't' and 'u' {ONE_KEY}".replace("'k'", "'j'"),
        f"f: the steps 't' and 'u' {ONE_KEY}",
    )


def test_one_branch_may_write_its_key_several_times():
    x, y = human("x", "?", output_key="k"), human("y", "?", output_key="k")
    assert is_allowed(sequential("s", [x, parallel("p", [sequential("t", [x, y, x]), a]), x]))
    assert is_allowed(parallel("p", [x, y], on_error="first"))


@pytest.mark.parametrize("key", ["", "a b", "a.b", "1a", "{a}", 5, ["a"], True], ids=str)
def test_an_output_key_that_is_not_a_plain_name_is_refused(key):
    fault = f"output_key={key!r} cannot be used in a template; use a plain name such as 'draft'"
    assert faults(keyed("x", key)) == (f"x: {fault}",)
    assert faults(chat_agent("x", MODEL, output_key=key)) == (f"x: {fault}",)
    assert faults(parallel("p", [human("x", "ok?", output_key=key)])) == (f"p/x: {fault}",)


def test_an_agent_as_a_tool_is_in_no_loop_of_its_caller():
    breaks = chat_agent("x", MODEL, break_tool=True)
    fault = "break_tool=True needs an enclosing loop; leave it out"
    assert faults(sequential("s", [loop("l", [breaks], max_iterations=2), breaks])) == (
        f"s/x: {fault}",
    )
    assert faults(loop("l", [group("y", tools=[breaks])], max_iterations=2)) == (f"l/y/x: {fault}",)
    assert is_allowed(group("y", tools=[loop("l", [parallel("p", [breaks])], max_iterations=2)]))
    assert is_allowed(endless(breaks))
    assert faults(endless(group("y", tools=[loop("l", [breaks], max_iterations=2)]))) == (
        f"refine: {ENDLESS}",
    )


def nested(levels: int) -> Agent:
    tree = leaf("inmost")
    for level in range(levels - 1):
        tree = sequential(f"s{level}", [tree])
    return tree


@pytest.mark.parametrize("levels", [101, 5000])
def test_a_tree_that_is_nested_too_deep_is_one_fault(levels: int) -> None:
    (fault,) = faults(nested(levels))
    name = re.escape(f"s{levels - 2}")
    assert re.fullmatch(
        f"{name}: its agents are nested more than 100 levels deep; put several into one .*", fault
    )
    assert len(str(nested(levels)).splitlines()) == levels


def test_a_tree_of_a_hundred_levels_runs() -> None:
    runner = ag.Runner(nested(100))
    events = list(runner.run("Go.", thread_id="t"))
    assert [event.text for event in events] == ["said"]
    assert list(runner.events("t")) == events
