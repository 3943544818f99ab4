"""What front ends show of runs, over real HTTP: each event is checked as the official client checks."""

from collections.abc import Callable
from typing import Any

from ag_ui.core import RunAgentInput
from agui_client import Client, Shown, Verifier
from agui_server import runners_of, serving
from helpers import retrying
from helpers.openai_server import Failure, OpenAIServer, Reply
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

import agentgraph as ag
from agentgraph import agui
from agentgraph.testing import ScriptedChatModel, call, calls

Clients = Callable[[str], Client]


class Work(BaseModel):
    n: int


def steps(client: Client) -> list[str]:
    """Return how steps began and ended in the last run."""
    signs = {"STEP_STARTED": "+", "STEP_FINISHED": "-"}
    return [signs[e["type"]] + e["stepName"] for e in client.events if e["type"] in signs]


def customs(client: Client) -> list[tuple[str, Any]]:
    return [(e["name"], e["value"]) for e in client.events if e["type"] == "CUSTOM"]


def test_a_chat_streams_its_words_its_calls_and_their_results(client: Clients) -> None:
    chat = client("chat")
    events = chat.say("Go.")
    assert chat.lines == [
        "user: Go.",
        'chat: Let me look. [weather {"city": "Bonn"}]',
        "tool: sunny in Bonn",
        "chat: Done. sunny in Bonn",
    ]
    assert chat.kinds.count("TEXT_MESSAGE_CONTENT") == 7
    assert chat.kinds.count("TOOL_CALL_ARGS") == 2
    starts = [e for e in events if e["type"].endswith("_START")]
    assert [e["metadata"]["agentgraph"]["address"] for e in starts] == ["chat"] * 3
    assert starts[1]["parentMessageId"] == starts[0]["messageId"]
    assert chat.outcome == {"type": "success"}


def test_a_second_turn_takes_only_the_new_message(client: Clients) -> None:
    loop = client("values")
    loop.say("Go.")
    loop.say("Again.")
    assert loop.lines == ["user: Go.", "tells: About bees.", "user: Again.", "tells: About bees."]
    assert loop.shown.state == {"topic": "bees", "log": ["turn of nothing", "turn of bees"]}


def test_branches_that_talk_at_once_are_open_at_once(client: Clients) -> None:
    both = client("parallel")
    both.say("Go.")
    assert both.lines[1:] == [
        "ann: one two three four five",
        "bob: six seven eight nine ten",
        "first: First.",
    ]
    first_end = both.kinds.index("TEXT_MESSAGE_END")
    assert both.kinds[:first_end].count("TEXT_MESSAGE_START") == 2
    assert sorted(steps(both)[:4]) == ["+both", "+both/talk", "+both/talk/ann", "+both/talk/bob"]
    assert sorted(steps(both)[4:7]) == ["-both/talk", "-both/talk/ann", "-both/talk/bob"]
    assert steps(both)[7:] == ["+both/first", "-both/first", "-both"]


def test_iterations_are_steps_and_a_question_waits_for_the_next_request(client: Clients) -> None:
    report = client("loop")
    report.say("Go.")
    assert steps(report) == [
        *("+report", "+report/refine[0]", "+report/refine[0]/writer", "-report/refine[0]/writer"),
        *("+report/refine[0]/critic", "-report/refine[0]/critic", "-report/refine[0]"),
        *("+report/refine[1]", "+report/refine[1]/writer", "-report/refine[1]/writer"),
        *("+report/refine[1]/critic", "-report/refine[1]/critic", "-report/refine[1]"),
        *("+report/boss", "-report/boss", "-report"),
    ]
    critic = {"agent_name": "critic", "address": "report/refine[1]/critic"}
    told, (name, asks) = customs(report)
    assert told == ("agentgraph.break_loop", critic)
    assert (name, asks["address"]) == ("agentgraph.interrupted", "report/boss")
    assert report.kinds[-3:] == ["STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    (asked,) = report.outcome["interrupts"]
    assert asks["interrupt"].items() <= asked.items()
    assert (asked["reason"], asked["message"]) == ("input_required", "Print it?")
    assert asked["responseSchema"] == {"enum": ["yes", "no"]}
    assert asked["metadata"]["agentgraph"]["address"] == "report/boss"
    report.answer("yes")
    assert report.lines[1:] == [
        "writer: Draft 0.",
        "critic: Too short.",
        "writer: Draft 1.",
        "boss: yes",
    ]
    assert report.messages[-1]["role"] == "user"
    assert report.outcome == {"type": "success"}


def test_an_agent_as_a_tool_runs_inside_the_step_of_its_caller(client: Clients) -> None:
    lead = client("supervisor")
    lead.say("Go.")
    assert steps(lead) == ["+lead", "+lead/research(0)", "-lead/research(0)", "-lead"]
    assert lead.lines == [
        "user: Go.",
        'assistant: [research {"request": "bees"}]',
        "tool: They hum.",
        "research: They hum.",
        "lead: Done. They hum.",
    ]


def test_an_approval_is_an_interrupt_of_its_call(client: Clients) -> None:
    post = client("approval")
    post.say("Go.")
    (asked,) = post.outcome["interrupts"]
    assert (asked["reason"], asked["toolCallId"]) == ("tool_call", "m1")
    post.answer({"decisions": [{"type": "approve"}]})
    assert post.lines[2:] == ["tool: sent to Ann", "post: Done. sent to Ann"]
    assert "TOOL_CALL_START" not in post.kinds


def test_written_values_change_the_state_at_once_and_merged_ones_at_the_end(client: Clients) -> None:
    note = client("values")
    events = note.say("Go.")
    (delta,) = [e["delta"] for e in events if e["type"] == "STATE_DELTA"]
    assert delta == [{"op": "add", "path": "/topic", "value": "bees"}]
    assert note.kinds[-2:] == ["STATE_SNAPSHOT", "RUN_FINISHED"]
    assert note.shown.state == {"topic": "bees", "log": ["turn of nothing"]}


def test_a_failure_is_a_run_error_and_the_next_run_tries_again(client: Clients) -> None:
    job = client("failure")
    (*_, last) = job.say("Go.")
    assert (last["type"], last["message"], last["code"]) == (
        "RUN_ERROR",
        "the disk is full",
        "ValueError",
    )
    assert customs(job)[0][0] == "agentgraph.error"
    job.run()
    assert job.kinds[-1] == "RUN_ERROR"
    assert job.lines == ["user: Go.", "first: First."]


def test_thoughts_are_reasoning(client: Clients) -> None:
    mind = client("mind")
    mind.say("Go.")
    assert mind.lines == ["user: Go.", "reasoning: Hm, well.", "mind: Yes."]
    assert mind.kinds[2:8] == [
        *("REASONING_START", "REASONING_MESSAGE_START"),
        *["REASONING_MESSAGE_CONTENT"] * 2,
        *("REASONING_MESSAGE_END", "REASONING_END"),
    ]


def test_words_of_an_attempt_that_failed_in_mid_stream_leave_the_conversation(
    openai_server: OpenAIServer,
) -> None:
    """The model is OpenAI's own client, whose stream breaks after two words."""

    def breaking() -> Any:
        yield from ("Half ", "an ")
        raise Failure(500, "the stream broke")

    openai_server.script = [Reply(breaking()), "The whole answer.", "Fine."]
    model = ChatOpenAI(base_url=openai_server.base_url, api_key="test", model="m", max_retries=0)
    chat = ag.chat_agent("chat", model, retry=retrying())
    with serving({"chat": ag.Runner(chat)}) as address:
        client = Client(f"{address}/chat", "t")
        client.messages.append({"id": "u", "role": "user", "content": "Go."})
        seen: list[list[str]] = []
        for event in client.stream():
            client.events.append(event)
            seen.append(client.lines)
        assert ["user: Go.", "chat: Half an "] in seen
        assert client.lines == ["user: Go.", "chat: The whole answer."]
        assert client.kinds.count("MESSAGES_SNAPSHOT") == 1
        ((name, value),) = customs(client)
        assert (name, len(value["ids"])) == ("agentgraph.discarded", 1)
        client.say("Thanks.")
        assert client.lines[2:] == ["user: Thanks.", "chat: Fine."]
    sent = [message["content"] for message in openai_server.requests[-1]["messages"]]
    assert sent == ["Go.", "The whole answer.", "Thanks."]


def told(agent_events: Any, **more: Any) -> tuple[Shown, list[dict[str, Any]]]:
    """Return what `events` tells, checked, and what a client shows of it."""
    run_input = RunAgentInput(thread_id="t", run_id="r", **{"messages": [], **more})
    verifier, shown, found = Verifier(), Shown(), []
    for event in agui.events(agent_events, run_input):
        found.append(event.model_dump(mode="json", by_alias=True))
        verifier.check(found[-1])
        shown.apply(found[-1])
    return shown, found


def test_a_replayed_thread_shows_what_its_runs_showed() -> None:
    for name, runner in runners_of().items():
        if name in ("waiting", "branches", "meeting", "failure", "frontend"):
            continue
        live, _ = told(runner.run("Go.", thread_id=name, stream=True))
        again, found = told(runner.events(name))
        assert [{**m, "metadata": 0} for m in again.messages] == [
            {**m, "metadata": 0} for m in live.messages
        ]
        assert found[-1]["type"] == "RUN_FINISHED"


def said_by(fn: Any) -> Any:
    return ag.Runner(ag.function_agent("a", fn)).run("Go.", stream=True)


def test_a_message_that_was_corrected_under_its_id_is_shown_as_it_is() -> None:
    def fn(ctx: ag.Context) -> Any:
        yield AIMessageChunk("A drft", id="m")
        yield AIMessage("Other.", id="n")
        yield AIMessage("A draft.", id="n")

    shown, found = told(said_by(fn))
    assert [m["content"] for m in shown.messages] == ["A drft", "A draft."]
    assert [e["type"] for e in found].count("MESSAGES_SNAPSHOT") == 1


def test_odd_content_is_told_as_json_that_every_client_reads() -> None:
    def fn(ctx: ag.Context) -> Any:
        yield ag.Custom({"sizes": (1, float("nan")), 7: b"bytes"})
        yield AIMessage([{"type": "image", "url": "http://x/y.png"}, {"type": "text", "text": "See."}])

    half = ag.Output(message=AIMessage("\ud800 odd", id="m"))
    path = ag.RunPath([ag.RunStep("a")])
    odd = ag.AgentEvent(agent_name="a", run_path=path, address="a", output=half, id="m")
    shown, found = told([odd, *said_by(fn)])
    assert [m["content"] for m in shown.messages] == ["? odd", "See."]
    values = [e["value"] for e in found if e["type"] == "CUSTOM"]
    assert values[0]["data"] == {"sizes": [1, None], "7": "bytes"}
    assert values[1]["content"] == [{"type": "image", "url": "http://x/y.png"}]


def test_parts_of_a_result_are_parts_of_the_tool_message() -> None:
    def fn(ctx: ag.Context) -> Any:
        yield AIMessage(
            "", id="m", tool_calls=[{"name": "t", "args": {}, "id": "c", "type": "tool_call"}]
        )
        image = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
        yield ToolMessage([{"type": "text", "text": "See."}, image], tool_call_id="c", id="r")

    shown, _ = told(said_by(fn))
    assert shown.messages[0]["toolCalls"][0]["function"] == {"name": "t", "arguments": "{}"}
    assert shown.messages[1]["content"] == [
        {"type": "text", "text": "See."},
        {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}},
    ]


def test_transfers_and_choices_are_custom_events() -> None:
    left = ag.function_agent("left", lambda ctx: "Left.")
    way = ag.switch("way", lambda ctx: "l", {"l": left})
    _, found = told(ag.Runner(way).run("Go.", stream=True))
    (chosen,) = [e for e in found if e["type"] == "CUSTOM"]
    assert chosen["name"] == "agentgraph.chosen"
    assert chosen["value"] == {"agent_name": "way", "address": "way", "chosen": "left"}


def test_tokens_are_told_at_the_end() -> None:
    usage = {"input_tokens": 2, "output_tokens": 3, "total_tokens": 5}
    about = {"model_name": "m", "model_provider": "p"}
    reply = AIMessage("Hi.", usage_metadata=usage, response_metadata=about)  # type: ignore[arg-type]
    _, found = told(said_by(lambda ctx: reply))
    assert found[-1]["usage"] == [
        {"provider": "p", "model": "m", "inputTokens": 2, "outputTokens": 3, "totalTokens": 5}
    ]


def test_messages_of_the_client_are_not_told_again() -> None:
    known = [{"id": "m", "role": "assistant", "content": "A draft."}]
    _, found = told(said_by(lambda ctx: AIMessage("A draft.", id="m")), messages=known)
    assert not [e for e in found if e["type"].startswith("TEXT_MESSAGE")]


def test_a_users_message_among_the_events_is_a_users() -> None:
    shown, _ = told(said_by(lambda ctx: HumanMessage("Me too.", id="h")))
    assert shown.messages[0]["role"] == "user"


def test_progress_of_a_tool_names_the_call_as_the_client_has_it() -> None:
    made = [calls(call("job", "a", n=1), call("job", "b", n=2)), calls(call("job", "a", n=3)), "Done."]

    def work(ctx: ag.Context) -> ag.Custom:
        return ag.Custom(ctx.values["n"])

    tool = ag.agent_tool(ag.function_agent("job", work), args_schema=Work)
    tree = ag.chat_agent("desk", ScriptedChatModel(responses=made), tools=[tool], parallel_tools=False)
    sent = [
        *agui.events(ag.Runner(tree).run("Go."), RunAgentInput(thread_id="t", run_id="r", messages=[]))
    ]
    started = [each.tool_call_id for each in sent if each.type == "TOOL_CALL_START"]
    custom = [each.value for each in sent if each.type == "CUSTOM"]
    assert started[:2] == ["a", "b"]
    assert [(each["data"], each["tool_call_id"]) for each in custom] == [
        *zip([1, 2, 3], started, strict=True)
    ]
    assert custom[2]["call"] == {"message": 1, "place": 0, "id": "a"}
