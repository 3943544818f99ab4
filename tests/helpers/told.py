"""A thread whose activations are reported, and chat agents whose models repeat their input."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel

Mode = Literal["sync", "async"]


def call(name: str, /, id: str = "1", **args: Any) -> AIMessage:
    return calls((name, args), first=id)


def calls(*several: tuple[str, dict[str, Any]], first: str = "1") -> AIMessage:
    made = [
        {"name": name, "args": args, "id": f"{first}{i or ''}", "type": "tool_call"}
        for i, (name, args) in enumerate(several)
    ]
    return AIMessage("", tool_calls=made)


def search(q: str) -> str:
    """Search."""
    if q == "nothing":
        raise ValueError("no such thing")
    return f"3 hits for {q}"


class Team:
    """Chat agents with scripted models, by their names."""

    def __init__(self) -> None:
        self.models: dict[str, ScriptedChatModel] = {}

    def chat(self, name: str, *responses: Any, **options: Any) -> ag.ChatAgent:
        self.models[name] = ScriptedChatModel(responses=list(responses), counts_tokens=True)
        return ag.chat_agent(name, self.models[name], **options)


class Told:
    """A thread, driven sync in memory or async in a file."""

    def __init__(self, mode: Mode, path: Path | None) -> None:
        self.mode, self.path = mode, path
        self.runner: ag.Runner

    def of(self, agent: ag.Agent, **options: Any) -> "Told":
        self.runner = ag.Runner(agent, checkpointer=self.path, **options)
        return self

    def invoke(self, *args: Any, **options: Any) -> ag.Result:
        if self.mode == "sync":
            return self.runner.invoke(*args, thread_id="t", **options)
        return asyncio.run(self.runner.ainvoke(*args, thread_id="t", **options))

    def rewind(self, at: str, **options: Any) -> None:
        async def rewound() -> None:
            async for _ in self.runner.arewind("t", at, **options):
                pass

        if self.mode == "sync":
            list(self.runner.rewind("t", at, **options))
        else:
            asyncio.run(rewound())

    def __call__(self, at: str, **options: Any) -> ag.ActivationReport:
        if self.mode == "sync":
            return self.runner.activation("t", at, **options)
        return asyncio.run(self.runner.aactivation("t", at, **options))

    def check_saw(self, team: Team) -> None:
        """Compare the reported input of each model call on this line with the input of the models."""
        every = self.runner.visits("t")
        shared = {one.step for one, next_ in pairwise(every) if one.step == next_.step}
        for name, model in team.models.items():
            reports = [
                self(each.address, turn=each.turn) if each.step in shared else self(each.step)
                for each in every
                if each.agent_name == name and each.node == name
            ]
            assert [seen(each.saw) for each in reports] == [*map(seen, model.inputs)], name
            assert not any(each.remarks for each in reports), name


def seen(messages: Sequence[BaseMessage]) -> list[Any]:
    """Return all of messages that a provider is sent."""
    return [
        (
            each.type,
            each.content,
            each.name,
            getattr(each, "tool_calls", None),
            getattr(each, "tool_call_id", None),
        )
        for each in messages
    ]
