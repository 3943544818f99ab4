"""How graphs, trees and events are shown: as Mermaid text, as outlines, as lines."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables.graph import Edge, Graph, Node
from langgraph.graph.state import CompiledStateGraph

from agentgraph.agents import (
    LEAVES,
    Agent,
    CheckedAgent,
    LoopAgent,
    ParallelAgent,
    called_agents,
    sub_agents,
)
from agentgraph.events import AgentEvent
from agentgraph.nodes.turn import NEW_TURN

if TYPE_CHECKING:
    from rich.console import Console

_INDENT = "    "
_STYLES = {"message": "", "custom": "blue", "error": "red", "interrupted": "magenta"}
_ACTION_STYLE = "yellow"


def mermaid(graph: CompiledStateGraph[Any, Any, Any, Any], *, xray: bool = True) -> str:
    """Return a compiled graph as Mermaid text, a box for each agent that runs.

    The node at which LangGraph begins each turn is left out, and so is the metadata of nodes.

    ```
    print(mermaid(compile_agent(report)))
    graph TD;
        write --> critique;
        critique -.-> write;
    ```

    Args:
        graph: What `compile_agent` gave.
        xray: Whether the branches of a Parallel are drawn inside its box.
    """
    drawn = graph.get_graph(xray=xray)
    turns = [node.id for node in drawn.nodes.values() if node.name == NEW_TURN]
    nodes = {key: _plain(node) for key, node in drawn.nodes.items() if key not in turns}
    edges = drawn.edges
    for turn in turns:
        edges = _bridged(edges, turn)
    return Graph(nodes=nodes, edges=edges).draw_mermaid()


def _plain(node: Node) -> Node:
    return node._replace(metadata=None)


def _bridged(edges: list[Edge], gone: str) -> list[Edge]:
    """Return the edges with those to and from a node joined to one."""
    onwards = [edge.target for edge in edges if edge.source == gone]
    bridged: list[Edge] = []
    for edge in edges:
        if edge.target == gone:
            bridged.extend(edge.copy(target=target) for target in onwards)
        elif edge.source != gone:
            bridged.append(edge)
    return bridged


def tree_lines(agent: Agent) -> list[str]:
    r"""Return a tree of agents as an outline, a line for each agent.

    ```
    report (sequential)
    ├─ refine (loop, at most 3)
    │  ├─ write (chat, writes draft)
    │  └─ critique (chat)
    └─ approve (human)
    ```
    """
    return list(_branches(agent, "", ""))


def _branches(agent: Agent, head: str, indent: str) -> Iterator[str]:
    yield f"{head}{agent.name} ({kind_of(agent)})"
    children = (*sub_agents(agent), *called_agents(agent))
    for child in children[:-1]:
        yield from _branches(child, f"{indent}├─ ", f"{indent}│  ")
    for child in children[-1:]:
        yield from _branches(child, f"{indent}└─ ", f"{indent}   ")


def kind_of(agent: Agent) -> str:
    """Return what kind of agent it is, and its limits: `loop, at most 3`."""
    if isinstance(agent, CheckedAgent):
        return f"{kind_of(agent.agent)}, checked" if agent.repeats else kind_of(agent.agent)
    kind = type(agent).__name__.removesuffix("Agent").lower()
    if isinstance(agent, LoopAgent):
        return (
            f"{kind}, at most {agent.max_iterations}" if agent.max_iterations else f"{kind}, no bound"
        )
    if isinstance(agent, ParallelAgent) and agent.max_concurrency:
        return f"{kind}, {agent.max_concurrency} at once"
    if isinstance(agent, LEAVES) and agent.output_key:
        return f"{kind}, writes {agent.output_key}"
    return kind


def event_text(event: AgentEvent) -> str:
    """Return what an event tells, without its run path: a text, or an action such as `[exit]`."""
    match event.kind:
        case "message":
            return event.text or _calls_text(event.message)
        case "custom":
            return f"[custom] {json.dumps(event.output.custom if event.output else None)}"
        case "interrupted":
            question = event.action and event.action.interrupted
            return f"[asks] {question.value if question else ''}"
        case "error":
            return f"[error] {event.error}"
        case "transfer_to":
            return f"[transfer_to] {event.action.transfer_to if event.action else ''}"
        case kind:
            return f"[{kind}]"


def _calls_text(message: BaseMessage | None) -> str:
    """Return the tool calls of a message that says nothing: `[calls] search({"q": "bees"})`."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    told = [
        f"{call['name']}({json.dumps(call['args'], ensure_ascii=False, default=str)})" for call in calls
    ]
    return f"[calls] {', '.join(told)}" if told else ""


def print_event(console: "Console", event: AgentEvent) -> None:
    """Print an event at once as `run/path: text`; further lines of the text are indented.

    On a terminal it is coloured and wrapped at words; in a pipe it is plain.
    """
    from rich.text import Text

    before, slash, name = str(event.run_path).rpartition("/")
    style = _STYLES.get(event.kind, _ACTION_STYLE)
    line = Text.assemble((before + slash, "dim"), (name, "cyan"), ": ", (event_text(event), style))
    if console.is_terminal:
        lines = line.wrap(console, max(console.width - len(_INDENT), 20))
    else:
        lines = line.split("\n", allow_blank=True)
    console.print(Text("\n" + _INDENT).join(lines), soft_wrap=True)
