"""What was bound to a model stays bound when the agent gives it tools."""

from collections.abc import Sequence
from typing import Any

import pytest
from helpers import Drive
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_openai import ChatOpenAI
from pydantic import PrivateAttr

import agentgraph as ag
from agentgraph.graph.chat.models import with_tools
from agentgraph.testing import ScriptedChatModel


@tool
def look(topic: str) -> str:
    """Look something up."""
    return topic


class Noting(ScriptedChatModel):
    """Notes the settings of each call."""

    _settings: list[Any] = PrivateAttr(default_factory=list)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **given: Any,
    ) -> ChatResult:
        names = [each["function"]["name"] for each in given.pop("tools", [])]
        self._settings.append((given, names))
        return super()._generate(messages, stop, run_manager)


def told(drive: Drive, model: Any, tools: Sequence[Any] = (look,)) -> list[Any]:
    base = Noting(responses=["Done."])
    list(drive.run(ag.Runner(ag.chat_agent("writer", model(base), tools=tools)), "Go."))
    return base._settings


@pytest.mark.parametrize("tools", [[], [look]], ids=["without tools", "with tools"])
def test_settings_stay(drive: Drive, tools: list[Any]) -> None:
    names = [each.name for each in tools]
    found = told(drive, lambda model: model.bind(temperature=0.5).bind(tool_choice="any"), tools)
    assert found == [({"temperature": 0.5, "tool_choice": "any"}, names)]


def test_a_config_stays(drive: Drive) -> None:
    seen: list[Any] = []

    class Tagged(Noting):
        def invoke(self, input: Any, config: Any = None, **options: Any) -> Any:
            seen.append(config["tags"])
            return super().invoke(input, config, **options)

        async def ainvoke(self, input: Any, config: Any = None, **options: Any) -> Any:
            seen.append(config["tags"])
            return await super().ainvoke(input, config, **options)

    model = Tagged(responses=["Done."]).with_config(tags=["mine"])
    list(drive.run(ag.Runner(ag.chat_agent("writer", model, tools=[look])), "Go."))
    assert "mine" in seen[0]


def test_settings_of_fallbacks_stay(drive: Drive) -> None:
    second = Noting(responses=["Done."])
    first = ScriptedChatModel(responses=[OSError("no line")]).bind(temperature=0.1)
    model = first.with_fallbacks([second.bind(temperature=0.9)])
    list(drive.run(ag.Runner(ag.chat_agent("writer", model, tools=[look])), "Go."))
    assert second._settings == [({"temperature": 0.9}, ["look"])]


def test_tools_that_were_bound_strictly_stay_so() -> None:
    model = ChatOpenAI(model="x", api_key="none").bind_tools([look], strict=True, tool_choice="look")
    bound: Any = with_tools(model, [look])
    settings = {**bound.bound.kwargs, **bound.kwargs}
    assert settings["tools"] == [convert_to_openai_tool(look, strict=True)]
    assert settings["tool_choice"] == {"type": "function", "function": {"name": "look"}}


def test_tools_of_the_provider_that_were_bound_stay_beside_the_agents() -> None:
    search = {"type": "web_search"}
    model = ChatOpenAI(model="x", api_key="none").bind_tools([search])
    bound: Any = with_tools(model, [look])
    assert bound.bound.kwargs["tools"] == [convert_to_openai_tool(look), search]
