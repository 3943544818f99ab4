"""What a run input asks for, over real HTTP: turns, answers, tools of browsers, refusals, kills."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import agui_server
import httpx
import pytest
from ag_ui.core import RunAgentInput
from agui_client import Client, Refused, Shown
from helpers.commands import Commands, Running, wait_until

import agentgraph as ag
from agentgraph import agui
from agentgraph.testing import ScriptedChatModel, call, calls

Clients = Callable[[str], Client]


def test_a_tool_of_the_front_end_gets_its_result_with_the_next_request(client: Clients) -> None:
    ui = client("frontend")
    ui.say("Go.")
    assert ui.outcome == {"type": "success", "pendingToolCallIds": ["c1", "c2"]}
    assert ui.lines[2:] == ["tool: sunny in Rome"]
    ui.result("c1", "red now")
    ui.run()
    assert ui.outcome == {"type": "success", "pendingToolCallIds": ["c2"]}
    ui.result("c2", "", error="no camera")
    ui.run(tools=[])
    assert ui.lines[-1] == "ui: Done. red now sunny in Rome no camera"
    assert ui.outcome == {"type": "success"}
    assert "TOOL_CALL_RESULT" not in ui.kinds


def test_a_result_and_a_new_message_are_a_resume_and_a_turn(client: Clients) -> None:
    ui = client("frontend")
    ui.say("Go.")
    for each in ("c1", "c2"):
        ui.result(each, "ok")
    ui.say("And now?")
    assert [line.partition(":")[0] for line in ui.lines[-3:]] == ["user", "ui", "ui"]
    assert ui.lines[-2] == ui.lines[-1]


def test_a_message_in_place_of_a_result_gives_up_the_turn(client: Clients) -> None:
    ui = client("frontend")
    ui.say("Go.")
    ui.say("Never mind.")
    assert ui.outcome == {"type": "success"}
    assert "not finished" in ui.lines[-1]


def test_agents_without_the_middleware_have_no_tools_of_the_front_end(client: Clients) -> None:
    chat = client("chat")
    chat.say("Go.")
    assert chat.outcome == {"type": "success"}
    model = ScriptedChatModel(responses=["Hi."])
    runner = ag.Runner(ag.chat_agent("chat", model, middleware=[agui.frontend_tools()]))
    tools = [{"name": "look", "description": "Look."}]
    run_input = RunAgentInput(thread_id="t", run_id="r", tools=tools, messages=[USER])  # type: ignore[list-item]

    async def run() -> None:
        async for _ in agui.arun(runner, run_input):
            pass

    asyncio.run(run())
    assert [tool["function"]["name"] for tool in model.tools] == ["look"]


USER: Any = {"id": "u", "role": "user", "content": "Go."}


def test_the_middleware_serves_sync_runs_and_other_programs_too(tmp_path: Path) -> None:
    """A run of the command line knows no client: the question is answered by a text."""
    model = ScriptedChatModel(responses=[calls(call("look")), "Seen."])
    runner = ag.Runner(
        ag.chat_agent("chat", model), middleware=[agui.frontend_tools()], checkpointer=tmp_path / "t.db"
    )
    tools: Any = [{"name": "look", "description": "Look."}]
    run_input = RunAgentInput(thread_id="t", run_id="r", tools=tools, messages=[USER])
    config: Any = {"configurable": {"ag_ui": run_input}}
    events = [*runner.run("Go.", thread_id="t", config=config)]
    asked = events[-1].action and events[-1].action.interrupted
    assert asked
    assert asked.value["tool_call"]["name"] == "look"
    assert [event.text for event in runner.resume("t", "a page")] == ["a page", "Seen."]
    runner.close()


def test_new_messages_are_refused_while_questions_wait(client: Clients) -> None:
    report = client("loop")
    report.say("Go.")
    with pytest.raises(Refused, match=r"PendingInterruptError.*waits for answers") as refusal:
        report.say("Hello?")
    assert refusal.value.status == 409
    report.messages.pop()
    with pytest.raises(Refused, match="InvalidAnswerError"):
        report.answer("perhaps")
    with pytest.raises(Refused, match=r"UnknownInterruptError.*'nope', which is not pending"):
        report.run(resume=[{"interruptId": "nope", "status": "resolved", "payload": "yes"}])


def test_a_client_that_lost_the_questions_is_told_again(client: Clients) -> None:
    report = client("loop")
    report.say("Go.")
    asked = report.outcome
    report.run()
    assert report.outcome == asked
    assert len(report.lines) == 4


def test_a_cancelled_question_gives_up_the_turn_with_the_next_message(client: Clients) -> None:
    report = client("loop")
    report.say("Go.")
    asked = report.outcome["interrupts"]
    with pytest.raises(Refused, match=r"InvalidAnswerError.*report/boss.*cancelled"):
        report.answer(None)
    cancelled = [{"interruptId": asked[0]["id"], "status": "cancelled"}]
    report.say("Anew.", resume=cancelled)
    assert report.lines[-4:] == ["user: Anew.", *report.lines[1:4]]
    assert report.outcome["interrupts"][0]["id"] != asked[0]["id"]


def test_a_cancelled_approval_is_rejected(client: Clients) -> None:
    post = client("approval")
    post.say("Go.")
    post.answer(None)
    assert "sent" not in " ".join(post.lines)
    assert post.outcome == {"type": "success"}


def test_the_state_of_the_client_is_written_where_it_differs(client: Clients) -> None:
    note = client("values")
    note.shown.state = {"topic": "wasps", "_hidden": 1}
    note.say("Go.")
    assert note.shown.state == {"topic": "bees", "log": ["turn of wasps"]}
    note.shown.state = {**note.shown.state, "log": ["mine"]}
    note.say("Go.")
    assert note.shown.state["log"] == ["mine", "turn of bees"]
    with pytest.raises(Refused, match="state=3 is not an object") as refusal:
        note.run(state=3)
    assert refusal.value.status == 422


def test_parts_of_a_users_message_reach_the_agent() -> None:
    seen: list[Any] = []

    @ag.agent
    def reads(ctx: ag.Context) -> str:
        seen.extend(ctx.messages[-1].content)
        seen.append(ctx.config["configurable"]["ag_ui"].forwarded_props)
        return "Read."

    with agui_server.serving({"reads": ag.Runner(reads)}) as address:
        image = {"type": "image", "source": {"type": "url", "value": "http://x/y.png"}}
        paper = {"type": "document", "source": {"type": "data", "value": "aGk=", "mimeType": "a/b"}}
        Client(f"{address}/reads", "t").say(
            [{"type": "text", "text": "See."}, image, paper], forwardedProps={"a": 1}
        )
    assert seen == [
        {"type": "text", "text": "See."},
        {"type": "image", "url": "http://x/y.png"},
        {"type": "file", "base64": "aGk=", "mime_type": "a/b"},
        {"a": 1},
    ]


def test_a_busy_thread_is_refused_and_its_run_goes_on(client: Clients) -> None:
    agui_server.GATE.clear()
    slow = client("waiting")
    slow.messages.append(USER)
    running = slow.stream()
    while next(running)["type"] != "TEXT_MESSAGE_CONTENT" or len(slow.lines) < 3:
        pass
    other = client("waiting")
    with pytest.raises(Refused, match="ThreadBusyError") as refusal:
        other.say("Me too.")
    assert refusal.value.status == 409
    agui_server.GATE.set()
    assert [*running][-1]["outcome"] == {"type": "success"}
    assert slow.lines == ["user: Go.", "first: First.", "waits: One, two."]


def until_asked(running: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """Read a stream up to the question of a branch, while another branch runs."""
    for event in running:
        if event.get("name") == "agentgraph.interrupted":
            return dict(event["value"]["interrupt"])
    raise AssertionError("nothing was asked")


def resolved(asked: dict[str, Any], payload: object) -> list[dict[str, Any]]:
    return [{"interruptId": asked["id"], "status": "resolved", "payload": payload}]


def test_an_answer_goes_to_the_active_run_and_both_clients_see_what_follows(client: Clients) -> None:
    agui_server.GATE.clear()
    one, other = client("branches"), client("branches")
    one.messages.append(USER)
    running = one.stream()
    asked = until_asked(running)
    assert (asked["message"], asked["responseSchema"]) == ("Print it?", {"enum": ["yes", "no"]})
    for payload, error in (("maybe", "InvalidAnswerError"), (None, "InvalidAnswerError")):
        with pytest.raises(Refused, match=error) as refusal:
            other.run(resume=resolved(asked, payload))
        assert refusal.value.status == 409
    following = other.stream(resume=resolved(asked, "yes"))
    while "first: First." not in other.lines:
        next(following)
    while "first: First." not in one.lines:
        next(running)
    for answers in (resolved(asked, "no"), [{"interruptId": asked["id"], "status": "cancelled"}]):
        with pytest.raises(Refused, match="UnknownInterruptError"):
            client("branches").run(resume=answers)
    agui_server.GATE.set()
    assert [*running][-1]["outcome"] == [*following][-1]["outcome"] == {"type": "success"}
    assert sorted(one.lines) == ["boss: yes", "first: First.", "user: Go.", "waits: One, two."]
    assert sorted(other.lines) == ["boss: yes", "first: First.", "waits: One, two."]


def test_a_client_that_follows_may_leave_and_the_run_goes_on(client: Clients) -> None:
    agui_server.GATE.clear()
    one, other = client("branches"), client("branches")
    one.messages.append(USER)
    running = one.stream()
    following = other.stream(resume=resolved(until_asked(running), "no"))
    next(following)
    following.close()  # type: ignore[attr-defined]
    agui_server.GATE.set()
    assert [*running][-1]["outcome"] == {"type": "success"}
    assert "boss: no" in one.lines


def test_a_client_whose_run_another_one_leaves_goes_on_with_its_next_request(client: Clients) -> None:
    agui_server.GATE.clear()
    one, other = client("branches"), client("branches")
    one.messages.append(USER)
    running = one.stream()
    following = other.stream(resume=resolved(until_asked(running), "yes"))
    while "first: First." not in other.lines:
        next(following)
    running.close()  # type: ignore[attr-defined]
    *_, error = following
    assert (error["type"], error["code"]) == ("RUN_ERROR", "ThreadError")
    assert "a request without new input continues it" in error["message"]
    agui_server.GATE.set()
    other.run()
    assert other.outcome == {"type": "success"}
    assert sorted(other.lines) == ["boss: yes", "first: First.", "user: Go.", "waits: One, two."]


def flow() -> ag.Agent:
    async def fn(ctx: ag.Context) -> str:
        return f"{await ctx.run('ann', 'x')} {await ctx.run('bob', 'y')}"

    return ag.function_agent("flow", fn, agents=[ag.human("ann", "Ann?"), ag.human("bob", "Bob?")])


@pytest.mark.parametrize(
    "tree", [ag.parallel("p", [ag.human("ann", "Ann?"), ag.human("bob", "Bob?")]), flow()]
)
def test_an_answer_that_a_client_sends_back_is_not_a_new_message(tree: ag.Agent) -> None:
    runner, shown = ag.Runner(tree), Shown()

    async def sent(number: int, **more: Any) -> dict[str, Any]:
        body = {"threadId": "t", "runId": f"{number}", "state": {}, "tools": [], "context": []}
        body |= {"forwardedProps": {}, "messages": shown.messages, **more}
        async for event in await agui.arun(runner, RunAgentInput.model_validate(body)):
            data = event.model_dump(mode="json", by_alias=True)
            shown.apply(data)
        return dict(data["outcome"])

    async def main() -> None:
        for turn in range(2):
            shown.messages.append({"id": f"u{turn}", "role": "user", "content": "Go."})
            outcome = await sent(turn)
            for payload in ("a", "b"):
                (asked, *_) = outcome["interrupts"]
                outcome = await sent(turn, resume=resolved(asked, payload))
            assert outcome == {"type": "success"}
        thread = await runner.athread("t")
        assert [[each.text for each in turn.messages] for turn in thread.turns] == [["Go."], ["Go."]]

    asyncio.run(main())


def test_a_client_that_lost_its_messages_gets_them_without_a_run(client: Clients) -> None:
    chat = client("chat")
    chat.say("Go.")
    lines, messages = chat.lines, [*chat.messages]
    chat.messages.clear()
    chat.run()
    assert [line.replace("assistant", "chat") for line in chat.lines] == lines
    assert [each["id"] for each in chat.messages] == [each["id"] for each in messages]
    assert chat.kinds == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]


def test_a_client_that_leaves_in_mid_stream_goes_on_with_its_next_request(client: Clients) -> None:
    agui_server.GATE.clear()
    slow = client("waiting")
    slow.messages.append(USER)
    running = slow.stream()
    while len(slow.lines) < 3:
        next(running)
    running.close()  # type: ignore[attr-defined]
    agui_server.GATE.set()
    slow.run()
    assert slow.lines == ["user: Go.", "first: First.", "waits: One, two."]


def started(program: Commands, *more: str) -> tuple[Running, str]:
    """Start a server in a process of its own, and return its address."""
    server = program.start(agui_server.__file__, str(program.folder), *more)
    wait_until(lambda: server.out.endswith("\n"))
    return server, server.out.strip()


@pytest.mark.parametrize("text", ["", "More."])
def test_after_a_kill_what_was_half_said_is_gone_from_the_client(program: Commands, text: str) -> None:
    """Without a new message the turn goes on; with one it is given up, and another begins."""
    server, address = started(program)
    slow = Client(f"{address}/waiting", "t")
    slow.messages.append(USER)
    running = slow.stream()
    while slow.lines[-1] != "waits: One, ":
        next(running)
    server.signal(signal.SIGKILL)
    server.wait()
    with pytest.raises(httpx.RemoteProtocolError):
        list(running)
    assert slow.lines[-1] == "waits: One, "
    server, address = started(program, "open")
    slow.url = f"{address}/waiting"
    if text:
        slow.say(text)
    else:
        slow.run()
    (program.folder / "end").touch()
    assert server.wait().code == 0
    more = ["user: More.", "first: First."] if text else []  # a saved reply that is told again is last
    assert slow.lines == ["user: Go.", *more, "first: First.", "waits: One, two."]
    void = [e["value"]["ids"] for e in slow.events if e.get("name") == "agentgraph.discarded"]
    assert len(void) == 1


def test_a_call_of_a_tool_of_the_front_end_outlives_a_kill(program: Commands) -> None:
    server, address = started(program)
    tools = [{"name": each, "description": each} for each in ("set_color", "look")]
    ui = Client(f"{address}/frontend", "t", tools)
    ui.say("Go.")
    ui.result("c1", "red now")
    ui.run()
    server.signal(signal.SIGKILL)
    server.wait()
    server, address = started(program)
    ui.url = f"{address}/frontend"
    ui.result("c2", "a page")
    ui.run(tools=[])
    (program.folder / "end").touch()
    assert server.wait().code == 0
    assert ui.lines[-1] == "ui: Done. red now sunny in Rome a page"


def test_a_refusal_is_raised_when_the_run_is_awaited_or_by_its_first_event() -> None:
    runner = ag.Runner(ag.human("boss", "Print it?"))
    run_input = RunAgentInput(thread_id="t", run_id="r", messages=[USER])
    more = RunAgentInput(thread_id="t", run_id="s", messages=[{**USER, "id": "v"}])  # type: ignore[list-item]

    async def run() -> None:
        async with agui.arun(runner, run_input) as events:
            assert [event.type.value async for event in events][-1] == "RUN_FINISHED"
        with pytest.raises(ag.PendingInterruptError):
            await agui.arun(runner, more)
        with pytest.raises(ag.PendingInterruptError):
            await anext(agui.arun(runner, more))

    asyncio.run(run())
    with pytest.raises(ag.AgentGraphError, match="is not a RunAgentInput"):
        agui.arun(runner, {"threadId": "t"})  # type: ignore[arg-type]
