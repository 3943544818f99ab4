"""The appearance of each kind of agents: one row per kind, in one closed `match`, and the styles."""

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, assert_never

from agentgraph.agents.agents import Agent, EachAgent, checks_of, is_agent, unchecked
from agentgraph.agents.kinds import PlaceKind, kind_of
from agentgraph.show.styles import ENDS, LANE, Style

STYLES = MappingProxyType(
    {
        "chat": Style("chat", ("(", ")"), "#ede9fe", "#7c3aed", hides_rounds=True),
        "tools": Style("tools", ("([", "])"), "#faf5ff", "#a78bfa", "#fdfaff"),
        "middleware": Style(
            "middleware", ("[", "]"), "#faf5ff", "#a78bfa", node_outline="stroke-dasharray:4 3"
        ),
        "function": Style("function", ("[", "]"), "#dbeafe", "#2563eb", "#f5f9ff"),
        "person": Style("person", ("[/", "/]"), "#fef3c7", "#d97706", padding=50),
        "foreign": Style(
            "graph",
            ("[[", "]]"),
            "#e5e9f0",
            "#475569",
            "#f8fafc",
            "stroke-width:2px,stroke-dasharray:2 3",
            is_titled=True,
        ),
        "switch": Style("switch", ("{", "}"), "#ffedd5", "#ea580c", padding=50, is_square=True),
        "swarm": Style("swarm", ("{{", "}}"), "#fce7f3", "#db2777", padding=50),
        "parallel": Style(
            "parallel",
            ("[/", "\\]"),
            "#e0f2fe",
            "#0284c7",
            "#f2faff",
            "stroke-width:2px,rx:12px,ry:12px",
            padding=60,
            is_titled=True,
        ),
        "workflow": Style(
            "workflow",
            ("[\\", "/]"),
            "#e0e7ff",
            "#4338ca",
            "#f5f7ff",
            "stroke-width:2px",
            padding=60,
            is_titled=True,
        ),
        "each": Style(
            "for each",
            ("[(", ")]"),
            "#ecfccb",
            "#4d7c0f",
            "#f9fef0",
            "stroke-width:2px,stroke-dasharray:8 4",
        ),
        LANE: Style("", ("[", "]"), "#ffffff", "#cbd5e1", "#ffffff"),
        ENDS: Style("", ("((", "))"), "#e5e7eb", "#6b7280", padding=10),
    }
)
"""The styles by kind."""


def _writes(agent: object) -> str:
    key = getattr(agent, "output_key", None)
    return f", writes {key}" if key else ""


@dataclass(frozen=True, slots=True)
class Appearance:
    """The appearance of the agents of one kind.

    Attributes:
        style: The style of their nodes in drawings, a key of `STYLES`; empty if they have no node.
        options: Returns the text of an outline about an agent, after the word for its kind.
    """

    style: str = ""
    options: Callable[[Any], str] = _writes


def appearance_of(kind: PlaceKind) -> Appearance:
    """Return the appearance of a kind of agents; see `agents.kinds` for the words."""
    match kind:
        case "chat":
            return Appearance("chat")
        case "function":
            return Appearance("function")
        case "graph" | "node":
            return Appearance("foreign")
        case "human":
            return Appearance("person")
        case "sequential":
            return Appearance()
        case "loop":
            return Appearance(
                options=lambda agent: (
                    f", at most {agent.max_iterations}" if agent.max_iterations else ", no bound"
                )
            )
        case "switch":
            return Appearance(
                "switch",
                lambda agent: f", by {agent.choose}" if isinstance(agent.choose, str) else "",
            )
        case "swarm":
            return Appearance(
                "swarm",
                lambda agent: f", begins at {agent.start}" if isinstance(agent.start, str) else "",
            )
        case "parallel":
            return Appearance("parallel", _at_once)
        case "workflow":
            return Appearance("workflow")
        case "each":
            return Appearance("each", _of_each)
        case _:
            assert_never(kind)


def _at_once(agent: Any) -> str:
    return f", {agent.max_concurrency} at once" if agent.max_concurrency else ""


def _of_each(agent: EachAgent) -> str:
    over = f" of {agent.over}" if isinstance(agent.over, str) else ""
    return f"{over}{_at_once(agent)}{_writes(agent)}"


def kind_text(agent: Agent) -> str:
    """Return the kind of an agent, and its limits: `loop, at most 3`.

    Args:
        agent: The agent; in a tree with faults it may be anything.
    """
    inner = unchecked(agent)
    checked = ", checked" * sum(check.repeats for check in checks_of(agent))
    if not is_agent(inner):
        return type(inner).__name__.lower() + checked
    name = kind_of(inner).name
    return f"{name}{appearance_of(name).options(inner)}{checked}"
