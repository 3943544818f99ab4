"""Tools whose results come in a later turn, and the keys by which services do a thing once."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from helpers import Async, Disk, Drive, chat, fails, lines, says, scripted
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.types import RetryPolicy, interrupt

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls, pairing_faults


def file(what: str) -> str:
    """Files a request."""
    return f"{what} is filed."


def clerk(*then: Any, made: Any = None, **options: Any) -> tuple[Any, ag.Agent]:
    """Return a model and its agent, which files something in its first turn."""
    model = scripted(made or calls(call("file", "7", what="it")), "Filed.", *then)
    return model, ag.chat_agent("clerk", model, tools=[ag.long_running(file)], **options)


def result(text: str = "Approved.", of: str = "7") -> ToolMessage:
    return ToolMessage(text, tool_call_id=of)


def thread(runner: ag.Runner, drive: Drive) -> ag.Thread:
    return asyncio.run(runner.athread("t")) if drive is Async else runner.thread("t")


def test_the_thread_lists_the_call_until_a_later_turn_brings_its_result(
    drive: Drive, disk: Disk
) -> None:
    model, agent = clerk("Fine.", "Great.")
    with ag.Runner(agent, checkpointer=disk.path) as runner:
        said = lines(drive.run(runner, "Go.", thread_id="t"))
        assert said[1:] == ["clerk: it is filed.", "clerk: Filed."]
        (waiting,) = thread(runner, drive).open_calls
        assert waiting == ag.LateCall("7", "file", {"what": "it"}, "clerk", "clerk", 0, "it is filed.")
        assert lines(drive.run(runner, "And?", thread_id="t")) == ["clerk: Fine."]
        assert thread(runner, drive).open_calls == [waiting]
        assert lines(drive.run(runner, result(), thread_id="t")) == ["clerk: Great."]
        assert thread(runner, drive).open_calls == []
        assert [each.text for each in model.inputs[-1]][-2:] == [
            "Fine.",
            "file returned for its call 7: Approved.",
        ]
        kept = thread(runner, drive).messages[-2]
        assert isinstance(kept, ToolMessage)
        assert (kept.name, kept.text) == ("file", "Approved.")
        (turn,) = [each for each in thread(runner, drive).turns if each.number == 2]
        assert [each.text for each in turn.messages] == ["Approved."]


@pytest.mark.parametrize("of", ["7", "8"])
def test_a_second_result_and_one_of_no_call_are_refused_and_change_nothing(
    drive: Drive, of: str
) -> None:
    _, agent = clerk("Great.")
    runner = ag.Runner(agent)
    list(drive.run(runner, "Go.", thread_id="t"))
    if of == "7":
        list(drive.run(runner, result(), thread_id="t"))
    before = runner.thread("t").messages
    there = "none" if of == "7" else r"7 \(file\)"
    with pytest.raises(
        ag.AgentGraphError, match=rf"no call '{of}' of a long_running tool .*: {there}$"
    ):
        list(drive.run(runner, result(of=of), thread_id="t"))
    assert runner.thread("t").messages == before


def test_two_results_may_come_in_one_turn_but_not_one_twice(drive: Drive) -> None:
    made = calls(call("file", "7", what="a"), call("file", "8", what="b"))
    model, agent = clerk("Great.", made=made)
    runner = ag.Runner(agent)
    list(drive.run(runner, "Go.", thread_id="t"))
    assert [each.args["what"] for each in runner.thread("t").open_calls] == ["a", "b"]
    with pytest.raises(ag.AgentGraphError, match="no call '7'"):
        list(drive.run(runner, [result(), result()], thread_id="t"))
    list(drive.run(runner, [result("No.", "8"), result("Yes."), HumanMessage("So?")], thread_id="t"))
    assert [each.text for each in model.inputs[-1]][-3:] == [
        "file returned for its call 8: No.",
        "file returned for its call 7: Yes.",
        "So?",
    ]
    assert runner.thread("t").open_calls == []


def test_the_call_of_an_agent_in_a_tool_or_a_branch_is_listed_too(drive: Drive) -> None:
    _, inner = clerk()
    boss = chat("boss", calls(call("clerk", request="x")), "Done.", tools=[ag.agent_tool(inner)])
    runner = ag.Runner(ag.parallel("p", [boss, says("b")]))
    list(drive.run(runner, "Go.", thread_id="t"))
    (waiting,) = runner.thread("t").open_calls
    assert (waiting.address, waiting.args) == ("p/boss/clerk(0)", {"what": "it"})


def test_a_call_that_failed_or_has_its_result_in_the_input_is_not_open() -> None:
    def refuse(what: str) -> str:
        """Refuses."""
        raise ValueError("no")

    made = calls(call("refuse", "7", what="x"))
    tree = chat("clerk", made, "Sorry.", "Fine.", tools=[ag.long_running(refuse)])
    runner = ag.Runner(tree)
    list(runner.run("Go.", thread_id="t"))
    assert runner.thread("t").open_calls == []
    asked = AIMessage("", tool_calls=[call("file", "9", what="y")])
    said = lines(runner.run([asked, result("There.", "9"), HumanMessage("So?")], thread_id="t"))
    assert said == ["clerk: Fine."]


def repeating(whats: Sequence[str], name: str = "clerk") -> tuple[ScriptedChatModel, ag.Agent]:
    """Return a model that files one thing a round, each under one id, and its agent."""

    def reply(messages: Sequence[BaseMessage]) -> AIMessage | str:
        assert pairing_faults(messages) == []
        asked = max(i for i, each in enumerate(messages) if each.text in ("Go.", "x"))
        made = sum(isinstance(each, AIMessage) and bool(each.tool_calls) for each in messages[asked:])
        return calls(call("file", "f:0", what=whats[made])) if made < len(whats) else "Filed."

    model = ScriptedChatModel(responses=reply)
    return model, ag.chat_agent(name, model, tools=[ag.long_running(file)])


def test_calls_under_one_id_are_open_until_each_has_its_result(drive: Drive, disk: Disk) -> None:
    model, agent = repeating(["a", "b", "c"])
    with ag.Runner(agent, checkpointer=disk.path) as runner:
        list(drive.run(runner, "Go.", thread_id="t"))
        waiting = thread(runner, drive).open_calls
        assert [each.args["what"] for each in waiting] == ["a", "b", "c"]
        assert [each.id for each in waiting] == [f"clerk:0.{number}.0" for number in range(3)]
        before = runner.thread("t").messages
        with pytest.raises(
            ag.AgentGraphError,
            match=r"several open calls have the id 'f:0'.*: clerk:0\.0\.0 \(file\), clerk:0\.1\.0 ",
        ):
            list(drive.run(runner, result(of="f:0"), thread_id="t"))
        assert runner.thread("t").messages == before
        list(drive.run(runner, result("b!", waiting[1].id), thread_id="t"))
        assert model.inputs[-1][-1].text == (
            'file returned for its call f:0, made with {"what": "b"}: b!'
        )
        assert [each.args["what"] for each in thread(runner, drive).open_calls] == ["a", "c"]
        late = [result("c!", "f:0"), result("a!", waiting[0].id)]  # the other one leaves one for it
        list(drive.run(runner, late, thread_id="t"))
        assert [each.text.rpartition("made with ")[2] for each in model.inputs[-1]][-2:] == [
            '{"what": "c"}: c!',
            '{"what": "a"}: a!',
        ]
        assert thread(runner, drive).open_calls == []
        kept = [each for each in runner.thread("t").messages if isinstance(each, ToolMessage)]
        assert {each.tool_call_id for each in kept} == {"f:0"}
        with pytest.raises(ag.AgentGraphError, match=r"no call 'clerk:0\.0\.0'"):
            list(drive.run(runner, result(of=waiting[0].id), thread_id="t"))


def test_calls_under_one_id_are_open_in_turns_branches_and_agents_as_tools(drive: Drive) -> None:
    inner = ag.agent_tool(repeating(["x"], "inner")[1])
    boss = chat("boss", calls(call("inner", request="x")), *["Done."] * 8, tools=[inner])
    runner = ag.Runner(ag.parallel("p", [boss, repeating(["y", "z"])[1]]))
    for _ in range(2):
        list(drive.run(runner, "Go.", thread_id="t"))
    waiting = thread(runner, drive).open_calls
    assert len({each.id for each in waiting}) == len(waiting) == 5
    made = sorted((each.turn, each.address, each.args["what"]) for each in waiting)
    assert made[:3] == [(0, "p/boss/inner(0)", "x"), (0, "p/clerk", "y"), (0, "p/clerk", "z")]
    for each in waiting:
        runner.copy("t", each.id)
        list(drive.run(runner, result("Yes.", each.id), thread_id=each.id))
        left = runner.thread(each.id).open_calls
        assert [other.id for other in left] == [other.id for other in waiting if other is not each]


def test_a_late_error_is_told_as_a_failure(drive: Drive) -> None:
    model, agent = clerk("Sorry.")
    runner = ag.Runner(agent)
    list(drive.run(runner, "Go.", thread_id="t"))
    failed = ToolMessage("disk full", tool_call_id="7", status="error")
    list(drive.run(runner, failed, thread_id="t"))
    assert model.inputs[-1][-1].text == "file failed for its call 7: disk full"


@pytest.mark.parametrize("thing", [5, None, says("a"), ag.agent_tool(says("a")), lambda: 1])
def test_only_a_tool_is_long_running(thing: Any) -> None:
    with pytest.raises(ag.AgentGraphError, match=r"^long_running\("):
        ag.long_running(thing)


def test_a_langchain_tool_with_retries_is_long_running_too() -> None:
    filing = ag.long_running(tool(file).with_retry())
    made = calls(call("file", "7", what="it"))
    runner = ag.Runner(chat("clerk", made, "Filed.", tools=[filing]))
    list(runner.run("Go.", thread_id="t"))
    assert [each.name for each in runner.thread("t").open_calls] == ["file"]


def payer(keys: list[str], *, fails_first: bool = False) -> Callable[[ag.Context], str]:
    """Return a function that pays, and notes its key; it may fail the first time."""

    def pay(ctx: ag.Context) -> str:
        """Pays."""
        keys.append(ctx.idempotency_key)
        if fails_first and len(keys) == 1:
            raise ValueError("no")
        return "paid"

    return pay


def test_the_key_of_a_call_is_the_same_over_a_failure_a_question_and_a_resume(disk: Disk) -> None:
    keys: list[str] = []

    def pay(what: str, ctx: ag.Context) -> str:
        """Pays."""
        keys.append(ctx.idempotency_key)
        return str(interrupt("Sure?"))

    made = calls(call("pay", "1", what="a"), call("pay", "2", what="b"))
    tree = chat("desk", made, "Done.", tools=[pay])
    disk.run(tree)
    assert len({*keys}) == len(keys) == 2
    with ag.Runner(tree, checkpointer=disk.path) as runner:
        answers = {each.id: "yes" for each in runner.pending("t")}
        list(runner.resume("t", answers))
    assert len({*keys}) == 2


def test_the_key_is_another_one_in_another_turn_thread_copy_and_place(drive: Drive) -> None:
    keys: list[str] = []

    tree = ag.loop("l", [ag.function_agent("pay", payer(keys))], max_iterations=2)
    runner = ag.Runner(tree)
    for thread_id in ("t", "t", "u"):
        list(drive.run(runner, "Go.", thread_id=thread_id))
    runner.copy("t", "v")
    list(drive.run(runner, "Go.", thread_id="v"))
    assert len({*keys}) == len(keys) == 8


def test_the_key_is_the_same_over_retries_of_functions_tools_and_agents(drive: Drive) -> None:
    keys: list[str] = []

    pay = payer(keys, fails_first=True)
    runner = ag.Runner(ag.function_agent("pay", pay, retry=RetryPolicy(retry_on=ValueError)))
    list(drive.run(runner, "Go.", thread_id="t"))
    assert len(keys) == 2
    assert len({*keys}) == 1
    keys.clear()
    boss = chat(
        "boss",
        calls(call("pay", request="x")),
        "Done.",
        tools=[ag.agent_tool(ag.function_agent("pay", pay))],
        middleware=[ToolRetryMiddleware(max_retries=2, initial_delay=0)],
    )
    list(drive.run(ag.Runner(boss), "Go.", thread_id="t"))
    assert len(keys) == 2
    assert len({*keys}) == 1


def test_without_a_thread_each_run_has_keys_of_its_own(drive: Drive) -> None:
    keys: list[str] = []

    graph = ag.compile_agent(ag.function_agent("pay", payer(keys)))
    for _ in range(2):
        graph.invoke({"messages": [("user", "Go.")]})
    assert len({*keys}) == 2


def test_the_key_of_a_failed_step_is_the_same_on_its_resume(drive: Drive, disk: Disk) -> None:
    keys: list[str] = []

    pay = ag.function_agent("pay", payer(keys, fails_first=True))
    tree = ag.sequential("s", [fails("never", 0), pay])
    for _ in range(2):
        with ag.Runner(tree, checkpointer=disk.path) as runner:
            if not keys:
                with pytest.raises(ValueError, match="no"):
                    list(drive.run(runner, "Go.", thread_id="t"))
            else:
                assert lines(drive.resume(runner, "t")) == ["s/pay: paid"]
    assert len({*keys}) == 1
