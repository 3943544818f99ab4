"""A tree of agents as an outline, a line for each agent."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from agentgraph.agents.agents import (
    Agent,
    CheckedAgent,
    Leaf,
    LoopAgent,
    ParallelAgent,
    called_agents,
    sub_agents,
)
from agentgraph.safe_repr import shown

T = TypeVar("T")


def tree_lines(agent: Agent) -> list[str]:
    r"""Return a tree of agents as an outline, a line for each agent.

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
        f"{head}{each.name if hasattr(each, 'name') else shown(each)} ({kind_of(each)})"
        for head, each in outlined(agent, lambda each: (*sub_agents(each), *called_agents(each)))
    ]


def outlined(
    root: T, inside: Callable[[T], Sequence[T]], head: str = "", indent: str = ""
) -> Iterator[tuple[str, T]]:
    """Yield all that is inside a root, itself first, each with the lines of an outline before it.

    Args:
        root: What the outline begins with.
        inside: Returns what is directly inside.
        head: The lines before the root.
        indent: The lines before what is inside it.
    """
    left = [(head, indent, root)]
    while left:
        head, indent, each = left.pop()
        yield head, each
        lines = ("└─ ", "   ")
        for child in reversed(inside(each)):
            left.append((indent + lines[0], indent + lines[1], child))
            lines = ("├─ ", "│  ")


def kind_of(agent: Agent) -> str:
    """Return what kind of agent it is, and its limits: `loop, at most 3`.

    Args:
        agent: The agent, alone.
    """
    if isinstance(agent, CheckedAgent):
        return f"{kind_of(agent.agent)}, checked" if agent.repeats else kind_of(agent.agent)
    kind = type(agent).__name__.removesuffix("Agent").lower()
    if isinstance(agent, LoopAgent):
        return (
            f"{kind}, at most {agent.max_iterations}" if agent.max_iterations else f"{kind}, no bound"
        )
    if isinstance(agent, ParallelAgent) and agent.max_concurrency:
        return f"{kind}, {agent.max_concurrency} at once"
    if isinstance(agent, Leaf) and agent.output_key:
        return f"{kind}, writes {agent.output_key}"
    return kind
