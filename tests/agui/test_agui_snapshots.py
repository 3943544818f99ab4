"""What a snapshot of the messages says: what the thread has, and nothing of what was discarded."""

import asyncio
from typing import Any

from ag_ui.core import RunAgentInput
from helpers import retrying
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk

import agentgraph as ag
from agentgraph import agui
from agentgraph.testing import ScriptedChatModel


def run_input(*messages: tuple[str, str, str]) -> RunAgentInput:
    sent = [{"id": key, "role": role, "content": text} for key, role, text in messages]
    rest = {"runId": "r", "state": {}, "tools": [], "context": [], "forwardedProps": {}}
    return RunAgentInput.model_validate({"threadId": "t", "messages": sent, **rest})


async def told(runner: ag.Runner, *messages: tuple[str, str, str]) -> list[Any]:
    return [event async for event in await agui.arun(runner, run_input(*messages))]


def last_snapshot(events: list[Any]) -> list[tuple[str, Any]]:
    snapshots = [each for each in events if each.type.value == "MESSAGES_SNAPSHOT"]
    return [(each.role, each.content) for each in snapshots[-1].messages]


def test_a_snapshot_has_the_threads_text_and_not_what_a_client_sends_under_a_known_id() -> None:
    async def main() -> None:
        model = ScriptedChatModel(responses=lambda sent: f"reply to {sent[-1].text}")
        runner = ag.Runner(ag.chat_agent("c", model))
        await told(runner, ("u", "user", "first"))
        answer = str((await runner.athread("t")).messages[1].id)
        events = await told(runner, ("u", "user", "first"), (answer, "assistant", "EDITED"))
        kept = [each.text for each in (await runner.athread("t")).messages]
        assert kept == ["first", "reply to first"]
        assert [text for _, text in last_snapshot(events)] == kept

    asyncio.run(main())


class Thinking(BaseChatModel):
    """A model that thinks, and whose first reply breaks off."""

    tries: list[int] = []  # noqa: RUF012

    @property
    def _llm_type(self) -> str:
        return "thinking"

    def _generate(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    def _stream(self, messages: Any, *args: Any, **options: Any) -> Any:
        self.tries.append(1)
        number = len(self.tries)
        for block in (
            {"type": "reasoning", "reasoning": f"thought {number}", "index": 0},
            {"type": "text", "text": f"text {number}", "index": 1},
        ):
            yield ChatGenerationChunk(message=AIMessageChunk(content=[block]))
        if number == 1:
            raise ConnectionError("The line broke.")


def test_discarded_reasoning_is_blank_for_the_official_client_keeps_what_a_snapshot_lacks() -> None:
    agent = ag.chat_agent("c", Thinking(tries=[]), retry=retrying(on=ConnectionError))
    events = asyncio.run(told(ag.Runner(agent), ("u", "user", "Go.")))
    snapshots = [each for each in events if each.type.value == "MESSAGES_SNAPSHOT"]
    assert len(snapshots) == 1
    assert last_snapshot(events) == [("user", "Go."), ("reasoning", "")]
