"""Formats trees and events as lines of text, for terminals and pipes."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from agentgraph.agents.agents import Agent
from agentgraph.agents.kinds import agents_inside
from agentgraph.events.events import AgentEvent
from agentgraph.safe_repr import as_json, cut, printable, shown
from agentgraph.show.approvals import question_text, until_text
from agentgraph.show.kinds import kind_text

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")

_INDENT = "    "
_STYLES = {"message": "", "custom": "blue", "error": "red", "interrupted": "magenta"}
_ACTION_STYLE = "yellow"
_CONTROLS = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, and all that moves the cursor
    r"|\x1b[\]PX^_].*?(?:\x07|\x9c|\x1b\\|$)"  # titles, links
    r"|\x1b.?|\r(?=\n)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]",
    re.DOTALL,
)
"""Matches escape sequences and control characters, and those that reverse the direction of text."""


def tree_lines(agent: Agent) -> list[str]:
    r"""Return the outline of a tree, a line for each agent.

    ```
    report (sequential)
    ├─ refine (loop, at most 3)
    │  ├─ write (chat, writes draft)
    │  └─ critique (chat)
    └─ approve (human)
    ```

    Args:
        agent: The root of the tree; it may have faults.
    """
    return [
        head + printable(f"{each.name if hasattr(each, 'name') else shown(each)} ({kind_text(each)})")
        for head, each in outlined(agent, agents_inside)
    ]


def outlined(root: T, inside: Callable[[T], Sequence[T]]) -> Iterator[tuple[str, T]]:
    """Yield a root and all its descendants, each with the lines of the outline to print before it.

    Args:
        root: The root.
        inside: Returns the children of an item.
    """
    stack = [("", "", root)]
    while stack:
        head, indent, each = stack.pop()
        yield head, each
        lines = ("└─ ", "   ")
        for child in reversed(inside(each)):
            stack.append((indent + lines[0], indent + lines[1], child))
            lines = ("├─ ", "│  ")


def event_text(event: AgentEvent) -> str:
    """Return an event as text: the text of its message, or an action such as `[exit]`.

    Args:
        event: The event.
    """
    match event.kind:
        case "message":
            return event.text or _calls_text(event.message)
        case "custom":
            return f"[custom] {json.dumps(event.output.custom if event.output else None)}"
        case "interrupted":
            question = event.action and event.action.interrupted
            return f"[asks] {question.value if question else ''}"
        case "default":
            answer = event.action.default.answer if event.action and event.action.default else None
            return f"[default] {answer if isinstance(answer, str) else as_json(answer)}"
        case "error":
            return f"[error] {event.error}"
        case "transfer_to":
            return f"[transfer_to] {event.action.transfer_to if event.action else ''}"
        case "chosen":
            return f"[chosen] {event.action.chosen if event.action else ''}"
        case "values":
            return f"[values] {', '.join((event.action and event.action.values) or ())}"
        case kind:
            return f"[{kind}]"


def shown_text(event: AgentEvent) -> str:
    """Return an event as text for people: as `event_text`, except results of tools and approvals.

    A result names its tool, and a question for approval has a line for each call and argument.
    `transcript` has neither: its lines are compared by tests.

    Args:
        event: The event.
    """
    if event.action and (question := event.action.interrupted):
        return f"[asks] {question_text(question)}{until_text(question)}"
    if isinstance(event.message, ToolMessage):
        return f"[result] {event.message.name or 'a tool'}: {event.text}"
    return event_text(event)


def _calls_text(message: BaseMessage | None) -> str:
    """Return the tool calls of a message without text: `[calls] search({"q": "bees"})`."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    texts = [f"{call['name']}({as_json(call['args'])})" for call in calls]
    return f"[calls] {', '.join(texts)}" if texts else ""


def without_controls(text: str) -> str:
    r"""Return a text without escape sequences and control characters; newlines and tabs stay.

    All printed text passes through this function, also for pipes and files, which a terminal may show
    later. `AgentEvent.text`, `transcript` and `--json` leave a text unchanged; JSON escapes it.

    >>> without_controls("\x1b[31mred\x1b[0m\a")
    'red'

    Args:
        text: A text to print, of a model, a person, or an exception.
    """
    return cut(_CONTROLS.sub("", text), len(text))


def one_line(text: str) -> str:
    """Return a text as one line, without escape sequences and control characters.

    Args:
        text: A text to print.
    """
    return " ".join(without_controls(text).split())


def print_event(console: "Console", event: AgentEvent) -> None:
    """Print an event as `report/refine[1]/critic: text`; further lines of the text are indented.

    Escape sequences and control characters are removed. At a terminal the line is coloured and
    wrapped at words; in a pipe it is plain.

    Args:
        console: The console to print to.
        event: The event.
    """
    from rich.text import Text

    before, slash, name = one_line(event.address).rpartition("/")
    style = _STYLES.get(event.kind, _ACTION_STYLE)
    text = without_controls(shown_text(event))
    line = Text.assemble((before + slash, "dim"), (name, "cyan"), ": ", (text, style))
    if console.is_terminal:
        lines = line.wrap(console, max(console.width - len(_INDENT), 20))
    else:
        lines = line.split("\n", allow_blank=True)
    console.print(Text("\n" + _INDENT).join(lines), soft_wrap=True)
