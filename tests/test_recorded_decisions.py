"""Cassettes store the answers of decision models that middleware holds, and play them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain_core.decisions import BaseDecisionModel, ClassifierResponse, Noul
from langchain_core.messages import ToolMessage

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls, recorded

ASKED: list[str] = []


class Judge(BaseDecisionModel):
    model: str = "judge"
    fails: bool = False

    @property
    def _provider(self) -> str:
        return "scripted"

    def _classify(self, state: Any, questions: dict[str, Any]) -> ClassifierResponse:
        ASKED.append("judge")
        if self.fails:
            raise ValueError("the judge is ill")
        call = state.get("tool_call") if isinstance(state, dict) else None
        risk = 0.9 if "risky" in str(call) else 0.1
        answers = {key: {"type": "noul", "noul": risk} for key in questions}
        usage = {"input_tokens": 7, "output_tokens": 3}
        return ClassifierResponse.model_validate({"answers": answers, "model": "judge", "usage": usage})


QUESTIONS = {"risky": Noul(instructions="Is it risky?")}


class Guard(AgentMiddleware[Any, Any, Any]):
    """Asks before the agent, and before each tool call, as LangChain's router and auto mode do."""

    def __init__(self, judge: BaseDecisionModel) -> None:
        super().__init__()
        self.classifier = judge

    def before_agent(self, state: Any, runtime: Any) -> None:
        self.classifier.invoke({"state": state["messages"][-1], "questions": QUESTIONS})

    async def abefore_agent(self, state: Any, runtime: Any) -> None:
        await self.classifier.ainvoke({"state": state["messages"][-1], "questions": QUESTIONS})

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        answer = self.classifier.invoke(self._asked(request))
        return self._blocked(request, answer) or handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        answer = await self.classifier.ainvoke(self._asked(request))
        return self._blocked(request, answer) or await handler(request)

    def _asked(self, request: Any) -> Any:
        state = {"messages": request.state["messages"], "tool_call": dict(request.tool_call)}
        return {"state": state, "questions": QUESTIONS}

    def _blocked(self, request: Any, answer: ClassifierResponse) -> ToolMessage | None:
        if answer.nouls["risky"].noul < 0.5:
            return None
        return ToolMessage("blocked", tool_call_id=request.tool_call["id"])


def delete(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


def clerk(name: str, judge: Judge) -> ag.Agent:
    def reply(messages: Any) -> Any:
        if messages[-1].type == "tool":
            return "; ".join(each.text for each in messages if each.type == "tool")
        return calls(call("delete", path="draft"), call("delete", path="risky"))

    return ag.chat_agent(
        name, ScriptedChatModel(responses=reply), tools=[delete], middleware=[Guard(judge)]
    )


def run(tree: ag.Agent, path: Path, mode: Any, way: str) -> ag.Result:
    runner = ag.Runner(tree, middleware=[recorded(path, mode=mode)], limits=ag.Limits(model_calls=50))
    if way == "sync":
        return runner.invoke("Go.")
    return asyncio.run(runner.ainvoke("Go."))


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_cassette_plays_decisions(tmp_path: Path, way: str) -> None:
    both = ag.parallel("both", [clerk("a", Judge()), clerk("b", Judge())])
    ASKED.clear()
    first = run(both, tmp_path / "c.json", "auto", way)
    assert len(ASKED) == 6
    again = run(both, tmp_path / "c.json", "play", way)
    assert len(ASKED) == 6
    texts = sorted(each.text for each in again.events if each.text)
    assert texts == sorted(each.text for each in first.events if each.text)
    assert "deleted draft; blocked" in texts
    assert (again.spent.model_calls, again.spent.tokens) == (10, 60)


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_decision_that_is_not_in_the_cassette_ends_playback(tmp_path: Path, way: str) -> None:
    plain = ag.chat_agent("a", ScriptedChatModel(responses=["Done."]))
    run(plain, tmp_path / "c.json", "auto", way)
    with pytest.raises(ag.CassetteError, match="a: decision of turn 0 is not in"):
        run(clerk("a", Judge()), tmp_path / "c.json", "play", way)


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_failure_of_a_decision_is_played(tmp_path: Path, way: str) -> None:
    ASKED.clear()
    for mode in ("auto", "play"):
        with pytest.raises(Exception, match="the judge is ill"):
            run(clerk("a", Judge(fails=True)), tmp_path / "c.json", mode, way)
    assert len(ASKED) == 1


def test_middleware_of_the_user_stays_as_it_is(tmp_path: Path) -> None:
    judge = Judge()
    guard = Guard(judge)
    tree = ag.chat_agent("a", ScriptedChatModel(responses=["Done."]), middleware=[guard])
    run(tree, tmp_path / "c.json", "auto", "sync")
    assert guard.classifier is judge
