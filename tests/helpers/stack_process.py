"""A program: an agent with a hook and a wrap at each place, which may kill itself in one of these."""

import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

import agentgraph as ag
from agentgraph.testing import ScriptedChatModel, call, calls
from helpers import Async, Session, Sync

HOOKS = ("before_agent", "before_model", "after_model", "after_agent")
NOWHERE = "nowhere"


def _summed(old: dict[str, int], new: dict[str, int]) -> dict[str, int]:
    return {name: old.get(name, 0) + new.get(name, 0) for name in {**old, **new}}


class Counts(AgentState[Any]):
    """How often each middleware has been called."""

    counts: NotRequired[Annotated[dict[str, int], _summed]]


class World:
    """The effects of a run, on disk, as lines; at one of them the process kills itself."""

    def __init__(self, folder: Path, point: str) -> None:
        self._ledger, self._point = folder / "ledger", point

    def does(self, name: str) -> None:
        with self._ledger.open("a") as file:
            file.write(f"{name}\n")
            file.flush()
            os.fsync(file.fileno())
        if name == self._point:
            os.kill(os.getpid(), signal.SIGKILL)


def tree(world: World) -> ag.Agent:
    """Return a sequence with an agent with middleware; what it says shows what the model saw."""

    def look(topic: str) -> str:
        """Look something up."""
        world.does(f"tool {topic}")
        return f"{topic}!"

    def reply(sent: list[BaseMessage]) -> AIMessage:
        results = sum(isinstance(message, ToolMessage) for message in sent)
        world.does(f"model {results}")
        if results == 0:
            return calls(call("look", "a", topic="a"), call("look", "b", topic="b"))
        if results == 2:
            return calls(call("look", "c", topic="c"))
        return AIMessage(" | ".join(message.text for message in sent))

    def leaf(name: str) -> ag.Agent:
        def fn(ctx: ag.Context) -> str:
            world.does(name)
            return name

        return ag.function_agent(name, fn)

    writer = ag.chat_agent(
        "writer",
        ScriptedChatModel(responses=reply),
        tools=[look],
        parallel_tools=False,
        middleware=[*(_hook(world, place) for place in HOOKS), _around(world)],
        output_key="written",
    )
    return ag.sequential("s", [leaf("first"), writer, leaf("last")])


def _hook(world: World, place: str) -> AgentMiddleware[Any, Any, Any]:
    def hook(self: Any, state: Any, runtime: Any) -> Any:
        count, last = state.get("counts", {}).get(place, 0), state["messages"][-1]
        world.does(f"{place} {count}")
        said: list[BaseMessage] = []
        if place == "after_model":
            said = [last.model_copy(update={"content": f"{last.text}, reply {count}"})]
        elif place == "before_model":
            said = [HumanMessage(f"round {count}")]
        elif place == "after_agent":
            said = [AIMessage(f"after {state['counts']}")]
        return {"counts": {place: 1}, "messages": said}

    return type(f"At_{place}", (AgentMiddleware,), {"state_schema": Counts, place: hook})()


def _around(world: World) -> AgentMiddleware[Any, Any, Any]:
    def wraps(name: str, step: Callable[[Any], Any]) -> dict[str, Any]:
        def wrap(self: Any, request: Any, handler: Callable[[Any], Any]) -> Any:
            world.does(f"before the {step(request)}")
            result = handler(request)
            world.does(f"after the {step(request)}")
            return result

        async def awrap(self: Any, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
            world.does(f"before the {step(request)}")
            result = await handler(request)
            world.does(f"after the {step(request)}")
            return result

        return {name: wrap, f"a{name}": awrap}

    methods = {
        **wraps("wrap_model_call", lambda request: f"model {_results(request)}"),
        **wraps("wrap_tool_call", lambda request: f"tool {request.tool_call['id']}"),
    }
    return type("Around", (AgentMiddleware,), methods)()


def _results(request: Any) -> int:
    return sum(isinstance(message, ToolMessage) for message in request.messages)


def act(folder: str, mode: str, method: str, point: str) -> None:
    """Run or resume the thread, note the events, and at the end what the thread keeps."""
    at = Path(folder)
    agent = tree(World(at, point))
    session = Session(agent, Async if mode == "async" else Sync, at / "runs.db")
    args: Any = (("Go.",), {"thread_id": "t"}) if method == "run" else (("t",), {})
    with (at / "heard").open("a") as heard:

        def hear(event: ag.AgentEvent) -> None:
            print(json.dumps(event.to_dict()), file=heard, flush=True)

        session.follow(method, *args[0], hear=hear, **args[1])
    state = session.state()
    kept = {
        "events": [event.to_dict() for event in session.events()],
        "values": state["values"],
        "messages": [[message.type, message.text] for message in state["messages"]],
    }
    (at / "kept").write_text(json.dumps(kept))


if __name__ == "__main__":
    act(*sys.argv[1:])
