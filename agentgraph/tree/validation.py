"""Finds every fault of a tree before it is compiled, and the names of values that it knows."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, assert_never

from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from agentgraph.agents.agents import (
    Agent,
    ChatAgent,
    Composite,
    EachAgent,
    FunctionAgent,
    GraphAgent,
    Handoff,
    HumanAgent,
    Leaf,
    LoopAgent,
    Middleware,
    ParallelAgent,
    SequentialAgent,
    SwarmAgent,
    SwitchAgent,
    WorkflowAgent,
    active_key,
    agent_tools,
    called_agents,
    changed,
    checks_of,
    handoff_to,
    has_case,
    output_keys,
    peers_of,
    sub_agents,
    unchecked,
    written_keys,
)
from agentgraph.agents.builders import as_tuple
from agentgraph.agents.dependencies import DependsOn, dependency_faults, known_dependencies, upstream
from agentgraph.agents.functions import gives_one_value
from agentgraph.agents.limits import Limits, limit_faults, word_faults
from agentgraph.agents.middleware import middleware_faults
from agentgraph.agents.prebuilt.plans import PLAN_VALUES, Planned
from agentgraph.agents.signals import BreakLoop, Exit
from agentgraph.agents.templates import bare_in, names_in, results_in, unreadable_in
from agentgraph.errors import InvalidAgentError
from agentgraph.safe_repr import LONGEST, cut, printable, shown
from agentgraph.tree.kinds import capabilities_of, kind_of, side_by_side
from agentgraph.tree.leaf_faults import (
    LONGEST_TOOL_NAME,
    arguments_fault,
    chat_faults,
    function_faults,
    graph_faults,
    human_faults,
    is_agent,
    policy_faults,
)
from agentgraph.tree.places import AS_THEY_ARE, Place, Tree, lay_out

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(-[A-Za-z0-9_]+)*")
_TOOL_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{LONGEST_TOOL_NAME}}}")  # what all providers take
MOST_LEVELS = 100
"""How deep agents may be nested: most functions that walk over a tree are recursive."""
_RESERVED = frozenset({"end"})  # a keyword of Mermaid, which cannot draw a node of this name


def validate(
    root: Agent,
    merged: Container[str] | None = (),
    middleware: Iterable[Middleware] = (),
    known_as: Mapping[str, str] = AS_THEY_ARE,
) -> Tree:
    """Check a tree and return it laid out.

    Args:
        root: The root of the tree.
        merged: The names of the values that have a reducer or are local; None if they are not known.
        middleware: LangChain middleware for every chat agent, outside its own.
        known_as: The names under which threads know agents that have other names now.

    Raises:
        InvalidAgentError: The tree has faults; the error lists all of them.
    """
    if _is_too_deep(root):
        fault = f"nested more than {MOST_LEVELS} levels deep; put several into one sequential instead"
        raise InvalidAgentError([f"{_shown_name(root)}: its agents are {fault}"])
    outermost = as_tuple(middleware)
    faults = [f"the middleware of the tree: {fault}" for fault in middleware_faults(outermost)]
    if outermost and not faults:
        root = changed(root, lambda chat: replace(chat, middleware=(*outermost, *chat.middleware)))
    if faults := [*faults, *_faults(root, merged)]:
        raise InvalidAgentError(faults)
    return lay_out(root, known_as)


def _is_too_deep(root: Agent) -> bool:
    """Return whether a tree is nested too deep for the recursive functions."""
    level = [root]
    for _ in range(MOST_LEVELS):
        inner = [unchecked(agent) for agent in level if is_agent(agent)]
        level = [child for each in inner for child in (*sub_agents(each), *called_agents(each))]
        if not level:
            return False
    return True


def _faults(root: Agent, merged: Container[str] | None) -> Iterator[str]:
    known: dict[str, Agent] = {}
    keepers: dict[str, Agent] = {}
    for where, agent, around in _walk(root):
        if not is_agent(agent):
            it = unchecked(agent)
            yield f"{where}: {shown(it)} is not an agent; {_way_to_agent(it)}"
            continue
        yield from (f"{where}: {fault}" for fault in _common_faults(agent))
        namesake = known.setdefault(_shown_name(agent), agent)
        if unchecked(namesake) != unchecked(agent) and not _are_parts(agent, namesake):
            yield (
                f"{where}: two agents are named {shown(agent.name)}; a name means one agent, rename one"
            )
        yield from (f"{where}: {fault}" for check in checks_of(agent) for fault in check.faults)
        if sum(check.repeats for check in checks_of(agent)) > 1:
            yield f"{where}: it has two validated(...) checks; combine them into one"
        inner = unchecked(agent)
        if (key := active_key(inner)) is not None:
            other = keepers.setdefault(key, agent)
            if other.name != agent.name:
                yield (
                    f"{where}: {shown(other.name)} and {shown(agent.name)} would both keep who is "
                    f"active in the value {shown(key)}; rename one"
                )
        yield from (f"{where}: {fault}" for fault in _own_faults(inner, around))
        if merged is not None:
            yield from (f"{where}: {fault}" for fault in _shared_keys(inner, merged))


def _common_faults(agent: Agent) -> Iterator[str]:
    """Yield what is wrong with the options that all agents have."""
    yield from _name_faults(agent.name)
    if not isinstance(agent.description, str):
        yield f"description={shown(agent.description)} is not a text; say what it is for"
    for each in (unchecked(agent), *checks_of(agent)):
        if not isinstance(each.limits, Limits | None):
            yield f"limits={shown(each.limits)} are none; pass Limits, as in ag.Limits(model_calls=20)"


def _way_to_agent(it: object) -> str:
    """Return how to make an agent of something that is none."""
    match it:
        case type() if issubclass(it, BreakLoop | Exit):
            return f"it is a class: write ag.{it.__name__}()"
        case type():
            return "it is a class: build an agent with ag.chat_agent, ag.human, ag.sequential, ..."
        case Handoff():
            return "a handoff stands in sub_agents= of a chat agent, or in the agents of a swarm"
        case BaseTool():
            return 'it is a tool: pass it in the tools of ag.chat_agent("name", model, tools=[...])'
        case BaseLanguageModel():
            return 'it is a model: pass ag.chat_agent("name", model)'
        case _ if hasattr(it, "get_state"):
            return 'it is a graph of LangGraph: pass ag.graph_agent("name", graph)'
        case _ if hasattr(it, "add_conditional_edges"):
            return 'it is a graph that is not compiled: pass ag.graph_agent("name", graph.compile())'
        case Runnable():
            return 'it is a runnable: pass ag.runnable_agent("name", runnable)'
        case list() | tuple():
            return 'put several agents in one: ag.sequential("name", [...]), ag.parallel("name", [...])'
        case None:
            return "did a function that builds it return nothing?"
        case _ if callable(it):
            return 'make the function one with @ag.agent, or pass ag.function_agent("name", function)'
    return "build one with ag.chat_agent, ag.human, ag.sequential, ..."


def _are_parts(*agents: Agent) -> bool:
    """Return whether all are parts of derived agents, where equal names are allowed."""
    return all(isinstance(agent, LoopAgent) and agent.is_part for agent in agents)


class _Around(NamedTuple):
    """What encloses an agent.

    Attributes:
        where: The names of the enclosing agents, for messages: "report/refine".
        in_loop: Whether it can break out of an enclosing loop.
        beside: The agents above it and beside it that it may transfer to.
        own: How others hand over to it; None where it is no sub-agent.
    """

    where: str = ""
    in_loop: bool = False
    beside: tuple[Handoff, ...] = ()
    own: Handoff | None = None


def _walk(agent: Agent, around: _Around = _Around()) -> Iterator[tuple[str, Agent, _Around]]:  # noqa: B008
    name = _shown_name(agent) if is_agent(agent) else ""
    where = f"{around.where}/{name}" if around.where and name else around.where or name or "the root"
    yield where, agent, around
    inner = unchecked(agent)
    in_loop = around.in_loop or (is_agent(inner) and kind_of(inner).goes_round)
    for child in sub_agents(inner):
        if isinstance(inner, ChatAgent | SwarmAgent) and is_agent(child):
            own = handoff_to(inner, child)
            yield from _walk(child, _Around(where, in_loop, _beside(child, inner, around), own))
        else:
            yield from _walk(child, _Around(where, in_loop))
    for child in called_agents(inner):
        yield from _walk(child, _Around(where, in_loop and isinstance(inner, EachAgent)))


def _beside(child: Agent, parent: ChatAgent | SwarmAgent, around: _Around) -> tuple[Handoff, ...]:
    """Return the agents above a sub-agent and beside it to which it may transfer."""
    peers = [handoff_to(parent, peer) for peer in peers_of(parent, child.name)]
    if isinstance(parent, SwarmAgent):
        return (*peers, *around.beside)
    above = () if parent.sub_agents_return else (around.own or Handoff(agent=parent),)
    return (*above, *peers)


def _shown_name(agent: Agent) -> str:
    name: object = agent.name
    return printable(cut(name, LONGEST)) if isinstance(name, str) else shown(name)


def _name_faults(name: object) -> Iterator[str]:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield (
            f"the name {shown(name)} is not allowed; use letters, digits, '_' and single '-', letter "
            "first"
        )
    elif name in _RESERVED or name.startswith("__"):
        yield f"the name {shown(name)} is reserved; choose another"


def _own_faults(agent: Leaf | Composite, around: _Around) -> Iterator[str]:
    if isinstance(agent, Composite):
        yield from _composite_faults(agent, around)
        return
    match agent:
        case ChatAgent():
            yield from chat_faults(agent, around.beside, in_loop=around.in_loop)
            yield from _handoff_faults(agent.by_handoff)
        case FunctionAgent():
            yield from function_faults(agent)
        case GraphAgent():
            yield from graph_faults(agent)
        case HumanAgent():
            yield from human_faults(agent)
        case _:
            assert_never(agent)
    yield from _key_faults("output_key", agent.output_key)


def _composite_faults(agent: Composite, around: _Around) -> Iterator[str]:
    match agent:
        case SequentialAgent():
            yield from sub_agent_faults(agent)
        case LoopAgent():
            yield from loop_faults(agent)
        case ParallelAgent():
            yield from parallel_faults(agent)
        case WorkflowAgent():
            yield from workflow_faults(agent)
        case SwitchAgent():
            yield from switch_faults(agent, around.in_loop)
        case SwarmAgent():
            yield from swarm_faults(agent)
            yield from _handoff_faults(agent.by_handoff)
        case EachAgent():
            yield from each_faults(agent)
        case _:
            assert_never(agent)


def _key_faults(option: str, key: object) -> Iterator[str]:
    if key is not None and (not isinstance(key, str) or not key.isidentifier()):
        yield f"{option}={shown(key)} cannot be used in a template; use a plain name such as 'draft'"


def _shared_keys(agent: Leaf | Composite, merged: Container[str]) -> Iterator[str]:
    """Yield which keys without a reducer several branches or steps write."""
    if isinstance(agent, EachAgent) and not (agent.collects or kind_of(agent).first_wins):
        for key in dict.fromkeys(written_keys(agent.agent)):
            if key not in merged:
                yield (
                    f"all items write the output_key {shown(key)}; collect their results with "
                    f"each(..., output_key=...), declare a reducer for {shown(key)} in values=, or "
                    "keep it in each item by Annotated[..., ag.LOCAL]"
                )
    what, concurrent = side_by_side(agent)
    writers: dict[str, dict[int, str]] = {}
    for i, branch in enumerate(concurrent):
        for key in written_keys(branch):
            writers.setdefault(key, {})[i] = shown(getattr(branch, "name", branch))
    for key, names in writers.items():
        if len(names) > 1 and key not in merged:
            yield (
                f"the {what} {' and '.join(names.values())} write the same output_key {shown(key)}; "
                f"give each its own key, declare a reducer for {shown(key)} in values=, or keep it in "
                "each by Annotated[..., ag.LOCAL]"
            )


def sub_agent_faults(agent: SequentialAgent | ParallelAgent | LoopAgent) -> Iterator[str]:
    """Yield what is wrong with the sub-agents of a composite."""
    if not agent.sub_agents:
        yield f"a {kind_of(agent).name} needs at least one sub-agent"


def loop_faults(agent: LoopAgent) -> Iterator[str]:
    """Yield what is wrong with a loop."""
    yield from sub_agent_faults(agent)
    yield from limit_faults("max_iterations", agent.max_iterations)
    if agent.until is not None and not gives_one_value(agent.until):
        yield f"until={shown(agent.until)} cannot be used; pass a function of a context"
    unbounded = agent.max_iterations is None and agent.until is None
    if unbounded and agent.sub_agents and not any(map(_can_end, agent.sub_agents)):
        yield (
            "nothing can end this loop; give it max_iterations or until, or an agent inside that "
            "may exit or break_loop"
        )


def switch_faults(agent: SwitchAgent, in_loop: bool) -> Iterator[str]:
    """Yield what is wrong with a switch."""
    yield from agent.faults
    if not agent.cases and not agent.faults:
        yield "a switch needs at least one case"
    yield from _source_faults("choose", agent.choose)
    seen: set[object] = set()
    for key, _ in agent.cases:
        try:
            if key in seen:
                yield f"two cases have the key {shown(key)}; leave one out"
            seen.add(key)
        except TypeError:
            yield f"the key {shown(key)} cannot be hashed; use a text, a number or a boolean"
    if has_case(agent, BreakLoop) and not in_loop:
        yield "a case is BreakLoop(), but no loop is around it; use SKIP or Exit()"


def swarm_faults(agent: SwarmAgent) -> Iterator[str]:
    """Yield what is wrong with a swarm."""
    yield from agent.faults
    if not agent.sub_agents:
        yield "a swarm needs at least one agent"
    for each in filter(is_agent, agent.sub_agents):
        if not isinstance(unchecked(each), ChatAgent | FunctionAgent | GraphAgent | SwarmAgent):
            yield (
                f"{_shown_name(each)} is a {kind_of(unchecked(each)).name}; the agents of a swarm are "
                "chat, function and graph agents, and swarms; put it in the sub_agents of one of these"
            )
    names = [each.name for each in agent.sub_agents if is_agent(each)]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield f"{shown(name)} is in it twice; leave one out"
    if agent.start is not None and agent.start not in names:
        yield f"start={shown(agent.start)} is none of its agents; there are: {_listed(names)}"
    for name, others in (agent.handoffs or {}).items():
        for unknown in [each for each in (name, *others) if each not in names]:
            yield f"handoffs= names {shown(unknown)}, which is none of its agents: {_listed(names)}"


def _handoff_faults(given: Iterable[Handoff]) -> Iterator[str]:
    """Yield what is wrong with how others hand over to the sub-agents of an agent."""
    for each in given:
        if not is_agent(each.agent):
            continue  # reported at the place of the agent
        to = f"the handoff to {_shown_name(each.agent)}"
        if each.name is not None and not _is_tool_name(each.name):
            yield f"{to}: name={shown(each.name)} is no name of a tool; use letters, digits, _ and -"
        if not isinstance(each.description, str | None):
            yield f"{to}: description={shown(each.description)} is not a text"
        if each.context is not None:
            faults = word_faults("context", each.context, ("shared", "last"))
            yield from (f"{to}: {fault}" for fault in faults)
        if fault := arguments_fault(each.args_schema):
            yield f"{to}: {fault}"
        if each.context == "last" and not hasattr(unchecked(each.agent), "history"):
            kind = kind_of(unchecked(each.agent)).name
            yield f"{to}: context='last' needs an agent with a history=; give it to those in the {kind}"


def _is_tool_name(name: object) -> bool:
    return isinstance(name, str) and _TOOL_NAME.fullmatch(name) is not None


def _listed(names: Iterable[object]) -> str:
    return ", ".join(map(shown, names)) or "none"


def _source_faults(option: str, source: object) -> Iterator[str]:
    if not (isinstance(source, str) and source.isidentifier()) and not gives_one_value(source):
        yield (
            f"{option}={shown(source)} cannot be used; pass the name of a value, or a function of a "
            "context"
        )


def parallel_faults(agent: ParallelAgent) -> Iterator[str]:
    """Yield what is wrong with a parallel."""
    yield from sub_agent_faults(agent)
    yield from limit_faults("max_concurrency", agent.max_concurrency)
    yield from word_faults("on_error", agent.on_error, ("fail", "wait", "collect", "first"))


def each_faults(agent: EachAgent) -> Iterator[str]:
    """Yield what is wrong with an each."""
    yield from _source_faults("over", agent.over)
    yield from _key_faults("as_", agent.as_)
    yield from _key_faults("output_key", agent.output_key)
    yield from _key_faults("errors_key", agent.errors_key)
    if agent.as_ is None:
        yield "as_=None cannot be used; pass the name of a value"
    names = [n for n in (agent.as_, agent.output_key, agent.errors_key) if isinstance(n, str)]
    if len(set(names)) < len(names):
        yield f"as_, output_key and errors_key must differ; they are {', '.join(map(shown, names))}"
    if agent.key is not None and not gives_one_value(agent.key):
        yield f"key={shown(agent.key)} cannot be used; pass a function of an item"
    yield from limit_faults("max_concurrency", agent.max_concurrency)
    first = () if agent.depends_on else ("first",)  # steps of a plan are all needed
    yield from word_faults("on_error", agent.on_error, ("fail", "wait", "collect", *first))
    if agent.output_mode is not None:
        yield from word_faults("output_mode", agent.output_mode, ("full", "last", "none"))
    yield from _input_faults(agent.input, "the input", agent.name, {agent.name: ()})


def workflow_faults(agent: WorkflowAgent) -> Iterator[str]:
    """Yield what is wrong with a workflow."""
    if not agent.steps:
        yield "a workflow needs at least one step"
    yield from word_faults("on_error", agent.on_error, ("fail", "wait"))
    if not all(is_agent(step.agent) for step in agent.steps):
        return  # reported at the places of the agents
    if not all(isinstance(step.name, str) for step in agent.steps):
        return  # reported at the places of the agents too
    names = [step.name for step in agent.steps]
    depends_on = {step.name: step.depends_on for step in agent.steps}
    yield from dependency_faults(names, depends_on)
    keyed = {step.name for step in agent.steps if any(output_keys(step.agent))}
    for step in agent.steps:
        yield from (f"the step {shown(step.name)}: {fault}" for fault in policy_faults(step))
        if step.when is not None:
            yield from (f"the step {shown(step.name)}: {f}" for f in _source_faults("when", step.when))
        what = f"the input of the step {shown(step.name)}"
        yield from _input_faults(step.input, what, step.name, known_dependencies(depends_on), keyed)


def _input_faults(
    template: object, what: str, name: str, depends_on: DependsOn, keyed: Container[str] = ()
) -> Iterator[str]:
    """Yield what is wrong with the input of a step or an item.

    Args:
        template: The input.
        what: What it is, for messages.
        name: The name of the step.
        depends_on: The dependencies of all steps.
        keyed: The names of the steps with an output key.
    """
    if template is None or gives_one_value(template):
        return
    if not isinstance(template, str):
        yield (
            f"{what} is {shown(template)} and cannot be used; pass a template, or a function of a "
            "context"
        )
        return
    for text in unreadable_in(template):
        yield (
            f"{what} names {text}, which cannot be read; use ${{results.STEP}} for what a step said, "
            "or ${VALUE} for a value of the run"
        )
    for text in dict.fromkeys(bare_in(template)):
        inside = text.strip("{} ")
        yield (
            f"{what} has {text}, which is sent unchanged; write ${{{inside}}} for the value, or "
            f"{{{{{inside}}}}} for the braces"
        )
    for result, fields in dict.fromkeys(results_in(template)):
        if wrong := _result_fault(result, name, depends_on):
            yield f"{what} names ${{results.{result}{fields}}}, which {wrong}"
        elif fields and result not in keyed:
            yield (
                f"{what} names ${{results.{result}{fields}}}, but {shown(result)} has no output_key; "
                f"give it one, or write ${{results.{result}}} for what it says"
            )


def _result_fault(name: str, step: str, depends_on: DependsOn) -> str | None:
    """Return why the input of a step cannot use the result of another step; None if it can."""
    if name in upstream(depends_on, step):
        return None
    if name not in depends_on:
        others = ", ".join(shown(each) for each in depends_on if each != step) or "none but itself"
        return f"is not a step; there are: {others}"
    if name == step or step in upstream(depends_on, name):
        return "runs after it; take it out"
    return f"does not come before it; add {shown(name)} to its depends_on, or take it out"


def _can_end(agent: Agent, nearest: bool = True) -> bool:
    """Return whether an agent can end the loop that encloses it.

    `nearest` is false if another loop is between them, which a `break_loop` would end instead.
    """
    inner = unchecked(agent)
    if not is_agent(inner):
        return False
    capabilities, kind = capabilities_of(inner), kind_of(inner)
    if capabilities.exit or (nearest and capabilities.break_loop):
        return True
    inside = called_agents(inner) if kind.is_fork and not sub_agents(inner) else sub_agents(inner)
    return any(_can_end(child, nearest and not kind.goes_round) for child in inside)


def value_names(tree: Tree) -> set[str]:
    """Return the names of the values that agents write or read, as far as the tree says so.

    Those are output keys, names in templates, the values of plans, and the state of middleware.
    """
    return {name for place in tree.places for name in _names(place)}


def _names(place: Place) -> Iterator[str]:
    agent = place.agent
    if any(isinstance(each.check, Planned) for each in place.checks):
        yield from PLAN_VALUES
    yield from filter(None, (getattr(agent, "output_key", None), active_key(agent)))
    yield from _named_values(agent)
    for template in _templates(agent):
        if isinstance(template, str):
            yield from names_in(template)


def _named_values(agent: object) -> Iterator[str]:
    """Yield the values that options of an agent name."""
    match agent:
        case ChatAgent(middleware=middleware):
            for each in middleware:
                yield from getattr(each.state_schema, "__annotations__", ())
            yield from (tool.enabled for tool in agent_tools(agent) if isinstance(tool.enabled, str))
        case WorkflowAgent(steps=steps):
            yield from (step.when for step in steps if isinstance(step.when, str))
        case SwitchAgent(choose=str(choose)):
            yield choose
        case EachAgent(over=over):
            yield from filter(None, (agent.as_, agent.errors_key))
            yield from [over] if isinstance(over, str) else ()


def _templates(agent: object) -> list[object]:
    """Return the templates of an agent."""
    match agent:
        case ChatAgent(instruction=instruction):
            return [instruction]
        case HumanAgent(prompt=prompt):
            return [prompt]
        case WorkflowAgent(steps=steps):
            return [step.input for step in steps]
        case EachAgent():
            return [agent.input]
    return []
