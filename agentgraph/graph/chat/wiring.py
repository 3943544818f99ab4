"""How a chat agent's nodes follow each other in its lane, as LangChain's `create_agent` has them."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from langgraph.graph import END
from langgraph.prebuilt import ToolCallTransformer

from agentgraph.agents.schemas import answer_tools
from agentgraph.agents.signals import Capabilities
from agentgraph.agents.tools import tool_capabilities
from agentgraph.graph.chat.agent import BuiltAgent
from agentgraph.graph.chat.middleware import Summarizing
from agentgraph.graph.chat.nodes import HookNode, ModelNode
from agentgraph.graph.chat.tools_node import ToolsNode
from agentgraph.graph.graph_classes import LaneNode
from agentgraph.graph.nodes.concurrency import AT_ONCE
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.lane import Lane
from agentgraph.graph.pictures import picture_of
from agentgraph.tree.places import Tree
from agentgraph.tree.position import start


def chat_nodes(node_context: NodeContext, lanes: Sequence[Lane]) -> Iterator[LaneNode]:
    """Yield the nodes of a chat agent; those that may end it do so by way of the last hooks."""
    built = BuiltAgent(node_context)
    place, agent = node_context.place, built.agent
    reads: tuple[str, ...] = ("middleware",) if built.keeps_record else ()
    reads += ("untracked",) if built.middleware else ()
    last, again = place.nodes.after_agent, [place.nodes.round]
    if place.nodes.after_model:
        model = LaneNode(ModelNode(built), None, [place.nodes.after_model])
    else:
        corrects = (built.wraps_model and built.runs_tools) or answer_tools(agent.output_schema)
        others = [place.nodes.tools] if built.runs_tools else []
        others += again if corrects else []
        model = _through(last, LaneNode(ModelNode(built), Capabilities(), others))
    active = _starts(node_context) if agent.sticky else {}
    yield model._replace(reads=reads, others=[*model.others, *active.get(place.node, ())])
    for hook in place.nodes.hooks:
        node = _hook_node(HookNode(built, hook))
        yield node._replace(reads=reads, others=[*node.others, *active.get(node.node.name, ())])
    if built.runs_tools:
        calls = [place.nodes.call] if len(lanes) < len(agent.tools) else []
        picture = picture_of(lanes, calls) if lanes else None
        node = _through(last, LaneNode(ToolsNode(built, lanes), tool_capabilities(agent), again))
        yield node._replace(reads=reads, picture=picture, at_once=AT_ONCE)


def _starts(node_context: NodeContext) -> dict[str, list[str]]:
    tree, place = node_context.tree, node_context.place
    firsts = (start(tree, child).place for child in tree.children[place])
    return {place.nodes.entry: [first.nodes.entry for first in firsts if first]}


def _through(last: str | None, node: LaneNode) -> LaneNode:
    """Return a node that may end its agent; where hooks come last, by way of the first of these."""
    return node if last is None else LaneNode(node.node, None, [last, *node.others], is_free=True)


def _hook_node(node: HookNode) -> LaneNode:
    place, successors = node.node_context.place, node.built.flat.successors(node.hook)
    named = {"model": [place.node], "tools": [place.nodes.tools], END: []}
    others = [
        name for successor in successors for name in named.get(successor, [place.nodes.hook(successor)])
    ]
    is_last, last = node.hook.endswith(".after_agent"), place.nodes.after_agent
    ends_by = place.kind.capabilities(place.agent) if is_last else Capabilities()
    is_free = len(successors) > 1 or END in successors or node.hook.endswith(".after_model")
    capabilities = ends_by if END in successors else None
    if node.may_exit and not is_last:
        if last is None:
            capabilities = (capabilities or Capabilities(proceed=False)) | Capabilities(exit=True)
        elif last not in others:
            others.append(last)
    return LaneNode(node, capabilities, others, is_free or node.may_exit)


def transformers(tree: Tree, others: Iterable[object]) -> list[object]:
    """Return the stream transformers of the tree, each once, in LangChain's order.

    First the one for tool calls that `create_agent` has, then those of the middleware.
    """
    agents = [place.chat for place in tree.places if place.chat]
    brought = [getattr(one, "transformers", ()) for agent in agents for one in agent.middleware]
    if any(place.sums_up for place in tree.places):
        brought.append(Summarizing.transformers)
    return list({id(each): each for each in (ToolCallTransformer, *chain(*brought), *others)}.values())
