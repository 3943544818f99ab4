"""Tools in short, and what calls of these look like."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from langchain_core.messages import RemoveMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, interrupt

import agentgraph as ag
from helpers.agents import scripted


def asks_model(name: str, response: str) -> BaseTool:
    """Return a tool that calls its own model."""

    def ask() -> str:
        return str(scripted(response).invoke("?").text)

    return StructuredTool.from_function(ask, name=name, description="Asks a model.")


def echo(text: str) -> str:
    """Say it again."""
    return text


def ask_person(what: str) -> str:
    """Ask a person."""
    return str(interrupt(what))


def store(value: str) -> list[Any]:
    """Set a value."""
    return [ag.SetValues(stored=value), f"stored {value}"]


def crash(text: str) -> str:
    """Fail."""
    raise ValueError(text)


def tool(name: str, *returned: Any, **options: Any) -> BaseTool:
    """Return a tool that returns one item after the other, the last one again and again.

    An exception among the items is raised.
    """
    left = list(returned)

    def fn() -> Any | ag.Exit | ag.BreakLoop:
        item = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(item, BaseException):
            raise item
        return item

    return StructuredTool.from_function(fn, name=name, description=f"The tool {name}.", **options)


def asking_tool(name: str, *calls: Sequence[Any]) -> BaseTool:
    """Return a tool whose calls go through the items of one list after the other.

    An `Ask` among the items is asked, an exception raised; a text is the result: `{}` is an answer.
    """
    left = list(calls)

    def fn() -> Any:
        answers, result = [], ""
        for item in left[0]:
            match item:
                case ag.Ask(value=value, response_schema=schema):
                    answers.append(interrupt(value, response_schema=schema))
                case BaseException():
                    left.pop(0)
                    raise item
                case _:
                    result = item.format(*answers)
        left.pop(0)
        return result

    return StructuredTool.from_function(fn, name=name, description=f"The tool {name}.")


def unreadable(name: str, args: str, id: str | None = "1", error: str | None = None) -> Any:
    """Return a call whose arguments are not JSON."""
    return {"name": name, "args": args, "id": id, "error": error, "type": "invalid_tool_call"}


def custom() -> ag.Custom:
    """Emit data that has no JSON form."""
    return ag.Custom(int)


def route(where: str) -> list[Any]:
    """Transfer to an agent."""
    return [ag.SetValues(routed=where), ag.Custom({"routed": where}), ag.TransferTo(where)]


def decide(*decisions: Any) -> dict[str, Any]:
    """Return an answer to a question about tool calls: of a word, or what LangChain takes, for each."""
    return {"decisions": [{"type": each} if isinstance(each, str) else each for each in decisions]}


def edited(name: str, **args: Any) -> dict[str, Any]:
    """Return the decision to run another call."""
    return {"type": "edit", "edited_action": {"name": name, "args": args}}


def removal(id: str = REMOVE_ALL_MESSAGES) -> RemoveMessage:
    """Return a message that removes another one, or all."""
    return RemoveMessage(id=id)


def tidies(changes: Callable[[Any], Any], name: str = "tidy", **options: Any) -> BaseTool:
    """Return a tool whose command changes the messages that it sees, and may go elsewhere."""

    def tidy(
        state: Annotated[dict[str, Any], InjectedState],
        tool_call_id: Annotated[str, InjectedToolCallId],
    ) -> Command[Any]:
        done = ToolMessage("tidied", tool_call_id=tool_call_id)
        return Command(update={"messages": [*changes(state["messages"]), done]}, **options)

    return StructuredTool.from_function(tidy, name=name, description=f"The tool {name}.")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def look(topic: str) -> str:
    """Look something up."""
    return f"{topic}!"


def mail(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


def note() -> str:
    """Note."""
    return "Noted."
