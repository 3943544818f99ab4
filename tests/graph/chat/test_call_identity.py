"""Ids of tool calls that come again: which call is which, and the keys by which each is done once."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from helpers import Disk, Drive, Sync, driven, lines, shapes
from langchain.agents import create_agent
from langchain.agents.middleware import ToolCallLimitMiddleware
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import StructuredTool

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls, pairing_faults

pytestmark = pytest.mark.by_turns("drive")

PAID: list[tuple[str, str, str]] = []
"""For each payment: who was paid, the address, the key."""


@pytest.fixture(autouse=True)
def nothing_is_paid() -> None:
    PAID.clear()


def pay(to: str, ctx: ag.Context) -> str:
    """Pay."""
    PAID.append((to, ctx.address, ctx.idempotency_key))
    return f"paid {to}"


def keys() -> list[str]:
    return [key for _, _, key in PAID]


def made(*to: str, ids: Sequence[str | None] = ("functions.pay:0",)) -> AIMessage:
    """Return a reply that pays some, with ids as gateways give them that number calls per reply."""
    each = zip(to, [*ids, *ids[-1:] * len(to)], strict=False)
    return AIMessage("", tool_calls=[{"name": "pay", "args": {"to": t}, "id": i} for t, i in each])


def rounds(*replies: AIMessage) -> Callable[[Sequence[BaseMessage]], AIMessage | str]:
    """Return a model's answers: one reply after the other in an activation, then "done"."""

    def reply(messages: Sequence[BaseMessage]) -> AIMessage | str:
        assert pairing_faults(messages) == []
        before = sum(isinstance(each, AIMessage) and bool(each.tool_calls) for each in messages)
        return replies[before] if before < len(replies) else "done"

    return reply


def payer(*replies: AIMessage, name: str = "c", **options: Any) -> ag.Agent:
    replies = replies or (made("a"), made("b"))
    model = ScriptedChatModel(responses=rounds(*replies))
    return ag.chat_agent(name, model, tools=[pay], description="pays", **options)


def asking(*requests: str) -> ag.Agent:
    """Return an agent that calls one agent as a tool, in one round or several, always under one id."""

    def reply(messages: Sequence[BaseMessage]) -> AIMessage | str:
        before = sum(each.type == "tool" for each in messages)
        more = [call("c", "1", request=each) for each in requests[before : before + 1]]
        return calls(*more) if more else "end"

    return ag.chat_agent("o", ScriptedChatModel(responses=reply), tools=[ag.agent_tool(payer())])


TREES: dict[str, tuple[Callable[[], ag.Agent], int]] = {
    "chat": (payer, 2),
    "calls in sequence": (lambda: payer(parallel_tools=False), 2),
    "approved": (lambda: payer(approve=["pay"]), 2),
    "approved each": (lambda: payer(approve=["pay"], interrupt_mode="per_call"), 2),
    "one id twice in a message": (lambda: payer(made("a", "b"), made("c", "d")), 4),
    "no ids": (lambda: payer(made("a", "b", ids=[None]), made("c", ids=[None])), 3),
    "the same payment twice": (lambda: payer(made("a"), made("a")), 2),
    "agent as a tool": (lambda: asking("x", "x"), 4),
    "swarm": (lambda: ag.swarm("s", [payer(), ag.function_agent("f", lambda ctx: "f")]), 2),
    "each": (lambda: ag.each("e", payer(), lambda ctx: [1, 2]), 4),
    "parallel": (lambda: ag.parallel("p", [payer(), payer(name="d")]), 4),
    "loop": (lambda: ag.loop("l", [payer(history="input")], max_iterations=2), 4),
}


@pytest.mark.parametrize("kind", TREES)
def test_each_call_has_a_key_of_its_own_whatever_ids_the_provider_gives(
    drive: Drive, disk: Disk, kind: str
) -> None:
    make, count = TREES[kind]
    disk.run(make())
    with ag.Runner(make(), checkpointer=disk.path) as runner:
        while asked := runner.pending("t"):
            approved: Any = {"type": "approve"}
            batch = {"decisions": [approved]}
            answers = {
                q.id: batch if "decisions" in str(q.response_schema) else approved for q in asked
            }
            list(drive.resume(runner, "t", answers))
        assert len(PAID) == len({*keys()}) == count
        assert runner.thread("t").status == "done"
        assert pairing_faults(runner.thread("t").messages) == []


def go_back(drive: Drive, runner: ag.Runner, at: str) -> set[tuple[str, str, str]]:
    """Rewind, and return what is paid then."""
    PAID.clear()
    list(runner.rewind("t", at) if drive is Sync else driven(runner.arewind("t", at)))
    return {*PAID}


@pytest.mark.parametrize("kind", ["chat", "one id twice in a message", "no ids", "agent as a tool"])
def test_the_same_call_again_has_the_same_key_after_a_rewind_and_another_one_another(
    drive: Drive, disk: Disk, kind: str
) -> None:
    tree = TREES[kind][0]()
    disk.run(tree)
    before = {*PAID}
    with ag.Runner(tree, checkpointer=disk.path) as runner:
        step = next(e for e in runner.events("t") if e.message and e.message.type == "tool").step
        assert step is not None
        assert go_back(drive, runner, step) == before  # behind the message: its calls run again
        assert go_back(drive, runner, tree.name) == before  # a model that calls the same again
    other = payer(made("a"), made("z"), name=tree.name)
    with ag.Runner(other, checkpointer=disk.path) as runner:
        paid = go_back(drive, runner, tree.name)
    has_same_id = kind in ("chat", "one id twice in a message")
    same = {each for each in before if has_same_id and each[0] == "a"}
    assert (len(paid), paid & before) == (2, same)


def test_the_key_is_of_the_arguments_that_a_person_approved(drive: Drive) -> None:
    runner = ag.Runner(payer(made("a"), made("b"), approve=["pay"]))
    list(drive.run(runner, "Go.", thread_id="t"))
    action = {"name": "pay", "args": {"to": "edited"}}
    edit = {"decisions": [{"type": "edit", "edited_action": action}]}
    list(drive.resume(runner, "t", edit))
    list(drive.resume(runner, "t", {"decisions": [{"type": "approve"}]}))
    assert [to for to, _, _ in PAID] == ["edited", "b"]  # the edit of the first is not the second's
    of_edited = keys()
    PAID.clear()
    plain = ag.Runner(payer(made("edited"), made("b")))
    list(drive.run(plain, "Go.", thread_id="t"))
    assert keys() == of_edited


def test_agents_as_tools_with_one_id_have_an_address_and_a_result_each(drive: Drive) -> None:
    echo = ag.function_agent("c", lambda ctx: f"did {ctx.messages[-1].text}")
    twice = calls(call("c", "1", request="x"), call("c", "1", request="y"))
    model = ScriptedChatModel(responses=[twice, calls(call("c", "1", request="z")), "end"])
    runner = ag.Runner(ag.chat_agent("o", model, tools=[ag.agent_tool(echo)]))
    said = lines(drive.run(runner, "Go.", thread_id="t"))
    assert {"o/c(0): did x", "o/c(1): did y", "o/c(2): did z"} <= {*said}
    seen = [(each[1], bool(each[2])) for each in shapes(model.inputs[-1])]
    assert seen == [
        ("Go.", False),
        ("", True),
        ("did x", False),
        ("did y", False),
        ("", True),
        ("did z", False),
    ]
    assert pairing_faults(model.inputs[-1]) == []


def looking(*fails: str) -> tuple[ScriptedChatModel, Callable[[str], str]]:
    """Return a model that calls in three rounds under one id, and a tool that fails of some."""

    def look(x: str) -> str:
        """Look."""
        if x in fails:
            raise RuntimeError(f"no {x}")
        return f"saw {x}"

    def reply(messages: Sequence[BaseMessage]) -> Any:
        assert pairing_faults(messages) == []
        asked = max(i for i, each in enumerate(messages) if each.text in ("Go.", "And?"))
        made = sum(isinstance(each, AIMessage) and bool(each.tool_calls) for each in messages[asked:])
        if made >= 3 or messages[asked].text == "And?":
            return "done"
        return calls(call("look", "f:0", x="abc"[made]))

    return ScriptedChatModel(responses=reply), look


KINDS = ["chat", "middleware", "nested", "flat"]


def looker(kind: str, model: Any, look: Any) -> ag.Agent:
    if kind in ("nested", "flat"):
        return ag.graph_agent("c", create_agent(model, [look]), flat=kind == "flat")
    middleware = [ToolCallLimitMiddleware(run_limit=9)] if kind == "middleware" else []
    return ag.chat_agent("c", model, tools=[look], middleware=middleware, on_tool_error="raise")


@pytest.mark.parametrize("kind", KINDS)
def test_a_turn_that_is_given_up_keeps_each_result_with_its_call(
    drive: Drive, disk: Disk, kind: str
) -> None:
    model, look = looking("b")
    tree = ag.sequential("s", [looker(kind, model, look)])
    with pytest.raises(RuntimeError, match="no b"):
        disk.run(tree)
    disk.run(tree, "And?")
    with ag.Runner(tree, checkpointer=disk.path) as runner:
        messages = runner.thread("t").messages
    assert pairing_faults(messages) == []
    assert [each.text for each in messages if each.type == "tool"] == [
        "saw a",
        "The call was not finished.",
    ]


@pytest.mark.parametrize("kind", ["chat", "middleware", "nested"])
def test_reports_have_the_result_of_each_call(drive: Drive, kind: str) -> None:
    model, look = looking()
    runner = ag.Runner(ag.sequential("s", [looker(kind, model, look)]))
    list(drive.run(runner, "Go.", thread_id="t"))
    runs = runner.activation("t", "s/c").tools
    expected = [("look", {"x": x}, f"saw {x}", "done") for x in "abc"]
    assert [(run.name, run.args, run.result, run.status) for run in runs] == expected
    bars = [bar for bar in runner.timeline("t").bars if bar.kind == "tool"]
    seen = [] if kind == "nested" else [f"saw {x}" for x in "abc"]
    assert [bar.text for bar in bars] == seen


def nested(**options: Any) -> ag.Agent:
    """Return a tree in a tree, which pays by a function and by a tool."""

    def paying(ctx: ag.Context) -> str:
        return pay("x", ctx)

    inner = ag.sequential("inner", [ag.function_agent("f", paying), payer(made("a"))])
    return ag.graph_agent("g", ag.compile_agent(inner), history="input", **options)


def twice_nested() -> ag.Agent:
    inner = ag.compile_agent(ag.function_agent("f", lambda ctx: pay("x", ctx)))
    middle = ag.compile_agent(ag.loop("m", [ag.graph_agent("g", inner)], max_iterations=2))
    return ag.loop("l", [ag.graph_agent("o", middle)], max_iterations=2)


def nested_as_a_tool() -> ag.Agent:
    def reply(messages: Sequence[BaseMessage]) -> AIMessage | str:
        return "end" if messages[-1].type == "tool" else calls(call("g", "1", request="Go."))

    inner = ag.agent_tool(nested(description="pays"))
    return ag.chat_agent("o", ScriptedChatModel(responses=reply), tools=[inner])


def pays_twice() -> Callable[..., str]:
    """Return a function that pays twice, each time by a tree of its own."""
    inner = ag.compile_agent(ag.function_agent("f", lambda ctx: pay("x", ctx)))

    def ask(**_: object) -> str:
        for _ in range(2):
            inner.invoke({"messages": "Go."})
        return "paid"

    return ask


def in_a_function() -> ag.Agent:
    ask = pays_twice()
    return ag.loop("l", [ag.function_agent("o", lambda ctx: ask())], max_iterations=2)


def in_a_tool() -> ag.Agent:
    ask = StructuredTool.from_function(
        pays_twice(), name="ask", description="Ask.", args_schema={"type": "object", "properties": {}}
    )
    asked = [call("ask", "1"), call("ask", "1")]
    model = ScriptedChatModel(responses=rounds(calls(*asked), calls(asked[0])))
    return ag.chat_agent("o", model, tools=[ask], history="input")


NESTED: dict[str, tuple[Callable[[], ag.Agent], int]] = {
    "in a loop": (lambda: ag.loop("l", [nested()], max_iterations=2), 4),
    "in a nested loop": (twice_nested, 4),
    "as a tool": (nested_as_a_tool, 2),
    "in branches": (lambda: ag.each("e", nested(), lambda ctx: [1, 2]), 4),
    "run by a function": (in_a_function, 4),
    "run by a function in branches": (lambda: ag.each("e", in_a_function(), lambda ctx: [1, 2]), 8),
    "run by a tool": (in_a_tool, 6),
}


@pytest.mark.parametrize("kind", NESTED)
def test_trees_in_trees_have_keys_of_their_own_too(drive: Drive, disk: Disk, kind: str) -> None:
    make, count = NESTED[kind]
    tree = make()
    disk.run(tree)
    before = {*PAID}
    with ag.Runner(tree, checkpointer=disk.path) as runner:
        assert go_back(drive, runner, tree.name) == before
    PAID.clear()
    disk.run(tree)
    assert len(before) == len({*PAID}) == count
    assert {key for *_, key in before}.isdisjoint(keys())


@pytest.mark.parametrize("how", ["beside", "in sequence", "in rounds"])
def test_a_call_that_ended_does_not_run_again_and_one_that_failed_keeps_its_key(
    disk: Disk, how: str
) -> None:
    failed: list[str] = []

    def pay(to: str, ctx: ag.Context) -> str:
        """Pay."""
        PAID.append((to, ctx.address, ctx.idempotency_key))
        if to == "b" and not failed:
            failed.append(ctx.idempotency_key)
            raise RuntimeError("cut off")
        return f"paid {to}"

    replies = [made("a"), made("b")] if how == "in rounds" else [made("a", "b")]
    model = ScriptedChatModel(responses=rounds(*replies))
    options: Any = {"parallel_tools": how != "in sequence", "on_tool_error": "raise"}
    tree = ag.chat_agent("c", model, tools=[pay], **options)
    with pytest.raises(RuntimeError, match="cut off"):
        disk.run(tree)
    disk.resume(tree)
    assert sorted(to for to, _, _ in PAID) == ["a", "b", "b"]
    assert {key for to, _, key in PAID if to == "b"} == {*failed}
    assert len({*keys()}) == 2
