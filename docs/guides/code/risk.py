"""Files are deleted by risk: harmless ones at once, doubtful ones after approval, others never."""

from collections.abc import Mapping
from typing import Any

from langchain.agents.middleware import AutoModeMiddleware
from langchain_core.decisions import BaseDecisionModel, ClassifierResponse, Noul

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls

RISKS = {"draft.txt": 0.05, "report.txt": 0.3, "passwords.txt": 0.9}


class Judge(BaseDecisionModel):
    """Looks the risk up; a real one asks a provider."""

    model: str = "judge"

    @property
    def _provider(self) -> str:
        return "scripted"

    def _classify(self, state: Any, questions: dict[str, Any]) -> ClassifierResponse:
        risk = RISKS[state["tool_call"]["args"]["path"]]
        answers = {key: {"type": "noul", "noul": risk} for key in questions}
        return ClassifierResponse.model_validate({"answers": answers, "model": self.model})


judge = Judge()


def delete(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


def is_doubtful(request: Mapping[str, Any]) -> bool:
    """Return whether a person must approve a call; auto mode blocks it from 0.5 on."""
    state = {"tool_call": {"name": request["name"], "args": request["args"]}}
    asked = {"risk": Noul(instructions="Could this call cause harm?")}
    return 0.2 <= judge.invoke({"state": state, "questions": asked}).nouls["risk"].noul < 0.5


def reply(messages: list[Any]) -> Any:
    if messages[-1].type == "tool":
        return "; ".join(each.text for each in messages if each.type == "tool")
    return calls(*(call("delete", path=path) for path in RISKS))


clerk = ag.chat_agent(
    "clerk",
    ScriptedChatModel(responses=reply),
    tools=[delete],
    approve=is_doubtful,
    middleware=[AutoModeMiddleware(tools=["delete"], classifier=judge)],
)
