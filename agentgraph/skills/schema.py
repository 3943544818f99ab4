"""What a skill file may say: a model for each kind of agent, and for what stands inside it."""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter

from agentgraph.skills.fields import (
    AgentName,
    Count,
    History,
    ModelName,
    Prompt,
    ProviderTool,
    Scalar,
    Seconds,
    ToolName,
)

ALTERNATIVES = (
    *("<agent>", "<name>", "<reference>", "<step>", "<tool>", "<provider>"),
    *("<names>", "<rules>", "<rule>", "<flag>"),
)
"""How the alternatives are called where a part is one of several; no key can be mistaken for one."""
AGENT, NAME, REFERENCE, STEP, TOOL, PROVIDER, NAMES, RULES, RULE, FLAG = ALTERNATIVES

PLAN_PARTS = ("planner", "executor", "replanner")
"""The parts of a plan_execute, each an agent or a model."""


class Part(BaseModel):
    """A mapping of a skill file."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True, defer_build=True
    )
    title: ClassVar[str] = ""


class Retry(Part):
    """How often something that fails is tried, and how long is waited in between."""

    title = "a retry"
    max_attempts: Count = 3
    """How often it is tried, the first time included."""
    initial_interval: Seconds = 0.5
    """How many seconds are waited before the second attempt."""
    backoff_factor: Seconds = 2.0
    """By how much each wait is longer than the one before."""
    max_interval: Seconds = 128.0
    """How many seconds are waited at most."""


class Until(Part):
    """Ends a loop once a value of the run is as wanted."""

    title = "an until"
    value: str
    """The name of the value."""
    wanted: Scalar = Field(alias="is")
    """What it is when the loop ends: a text, a number, true, false or null."""


class Reference(Part):
    """An agent made in Python."""

    title = "a reference to an agent"
    agent: AgentName
    """Its name among the agents that were given, or an allowed module:name."""


class AgentTool(Part):
    """An agent as a tool of a chat agent: it is given a request, and its last message comes back."""

    title = "an agent as a tool"
    agent: "AgentOrName"
    """The agent, or its name; the tool has its name."""
    description: str = ""
    """What the model is told of it; without one, the agent's own description."""
    history: Literal["input", "shared"] = "input"
    """Whether it sees the request only (input), or what the caller sees, and then the request."""


class Rule(Part):
    """What a person may decide of the calls of a tool."""

    title = "a rule of approve"
    allowed_decisions: list[Literal["approve", "edit", "reject", "respond"]]
    """The decisions that are allowed; at least one."""
    description: str = ""
    """What the person reads; left out, the tool and its arguments."""


def _is_names(data: Any) -> str:
    return RULES if isinstance(data, Mapping) else NAMES


def _is_rule(data: Any) -> str:
    return RULE if isinstance(data, Mapping) else FLAG


AnyRule = Annotated[Annotated[Rule, Tag(RULE)] | Annotated[bool, Tag(FLAG)], Discriminator(_is_rule)]
Approve = Annotated[
    Annotated[list[str], Tag(NAMES)] | Annotated[dict[str, AnyRule], Tag(RULES)],
    Discriminator(_is_names),
]


class Chat(Part):
    """A leaf that asks a chat model, and runs the tools that it calls until it calls none."""

    title = "a chat"
    kind: Literal["chat"]
    """A chat agent."""
    name: str
    """The agent's name: letters, digits, _ and -."""
    model: ModelName | None = None
    """The chat model: a name given, or LangChain's, as openai:gpt-5; else that of an agent around."""
    description: str = ""
    """What the agent is for, in a sentence that other agents read."""
    instruction: str = ""
    """The system message, a template: {topic} is filled from the values of the run, {topic?} too."""
    tools: "list[Tool]" = Field(default=[])
    """What the model may call: names of tools, and agents."""
    sub_agents: "list[AnyAgent]" = Field(default=[])
    """The agents that it may transfer to."""
    sub_agents_return: bool = False
    """Whether a sub-agent that ends hands back by itself, instead of ending this agent too."""
    output_key: str | None = None
    """The value that the text of its last message becomes."""
    output_schema: dict[str, Any] | None = None
    """What its last reply must fit: a JSON schema."""
    history: History = "shared"
    """Which messages it sees: shared (all), path (those on the way to it), own, last, input."""
    max_iterations: Count | None = 20
    """How often it may ask the model in one activation; null for no bound."""
    on_max_iterations: Literal["raise", "answer"] = "raise"
    """Whether it fails when it may not ask again, or asks once more without tools."""
    return_directly: list[str] = Field(default=[])
    """The names of tools whose result ends the agent."""
    exit_tool: bool = False
    """Whether the model may end the run, with the tool exit."""
    break_tool: bool = False
    """Whether the model may end the nearest loop, with the tool break_loop."""
    approve: Approve = Field(default=[])
    """The tools whose calls a person must agree to: names, or a mapping of names to true or a rule."""
    interrupt_mode: Literal["batched", "per_call"] = "batched"
    """Whether one question is asked for all calls of a message, or one for each call."""
    parallel_tools: bool = True
    """Whether the calls of one message run at the same time, or one after the other."""
    on_tool_error: Literal["return", "raise"] = "return"
    """Whether the model is told of an exception in a tool, or the agent fails with it."""
    unknown_tool: Literal["return", "raise"] = "return"
    """The same for a call to a tool that there is not."""
    tool_timeout: Seconds | dict[str, Seconds] | None = None
    """How many seconds a call of an async tool may take: a number, or numbers by the names of tools."""
    retry: Retry | None = None
    """How often a call of the model is tried."""
    timeout: Seconds | None = None
    """How many seconds a call of the model may take."""


class Supervisor(Part):
    """A chat agent that decides which worker does what, until it answers by itself."""

    title = "a supervisor"
    kind: Literal["supervisor"]
    """A supervisor of workers."""
    name: str
    """The agent's name: letters, digits, _ and -."""
    model: ModelName | None = None
    """The chat model: a name given, or LangChain's, as openai:gpt-5; else that of an agent around."""
    workers: "list[AnyAgent]"
    """The agents that work; the model reads their descriptions."""
    mode: Literal["tools", "handoff"] = "tools"
    """Whether workers are tools, or are handed over to."""
    description: str = ""
    """What the supervisor is for."""
    instruction: str = ""
    """The system message, a template as in a chat."""
    tools: "list[Tool]" = Field(default=[])
    """Further tools of the supervisor's own."""
    output_key: str | None = None
    """The value that the text of its last message becomes."""
    output_schema: dict[str, Any] | None = None
    """What its last reply must fit: a JSON schema."""
    history: History = "shared"
    """Which messages it is sent, as in a chat."""
    worker_history: Literal["input", "shared"] = "input"
    """In the mode tools, whether workers see their request only, or what the supervisor sees too."""
    max_iterations: Count | None = 20
    """How many turns it has; null for no bound."""
    on_max_iterations: Literal["raise", "answer"] = "raise"
    """Whether it fails when its turns are used up, or is asked once more without tools."""
    exit_tool: bool = False
    """Whether the model may end the run, with the tool exit."""
    approve: Approve = Field(default=[])
    """The tools, those of workers included, whose calls a person must agree to, as in a chat."""
    interrupt_mode: Literal["batched", "per_call"] = "batched"
    """Whether one question is asked for all calls of a message, or one for each call."""
    on_tool_error: Literal["return", "raise"] = "return"
    """Whether the model is told of a failure in a worker or a tool, or the supervisor fails with it."""
    retry: Retry | None = None
    """How often a call of the model is tried."""
    timeout: Seconds | None = None
    """How many seconds a call of the model may take."""


class PlanExecute(Part):
    """An agent that plans, executes the steps, and plans again until it can answer."""

    title = "a plan_execute"
    kind: Literal["plan_execute"]
    """Plan, execute, plan again."""
    name: str
    """The agent's name: letters, digits, _ and -."""
    model: ModelName | None = None
    """The name of the model of those parts that are left out, and of agents inside without one."""
    description: str = ""
    """What the agent is for, in a sentence that other agents read."""
    planner: "ModelOrAgent | None" = None
    """What makes the plan: the name of a model, or an agent."""
    executor: "ModelOrAgent | None" = None
    """What does a step: the name of a model, or an agent."""
    replanner: "ModelOrAgent | None" = None
    """What plans again, or answers: the name of a model, or an agent."""
    max_iterations: Count = 10
    """How often it executes and plans again."""
    parallel: bool = False
    """Whether steps that do not depend on each other run at the same time."""
    approve_plan: bool = False
    """Whether a person must agree to the plan."""


class Human(Part):
    """A leaf that asks a person, and says the answer."""

    title = "a human"
    kind: Literal["human"]
    """A person."""
    name: str
    """The agent's name: letters, digits, _ and -."""
    prompt: Prompt
    """What is asked: a template as in a chat, or plain data."""
    response_schema: dict[str, Any] | None = None
    """What an answer must fit: a JSON schema."""
    output_key: str | None = None
    """The value that the answer becomes."""
    description: str = ""
    """What the person is asked for."""


class Composite(Part):
    """What all agents made of others have."""

    name: str
    """The agent's name: letters, digits, _ and -."""
    model: ModelName | None = None
    """The name of the model of all agents inside that have none."""
    description: str = ""
    """What the agent is for, in a sentence that other agents read."""


class Sequential(Composite):
    """A composite that runs its sub-agents one after the other."""

    title = "a sequential"
    kind: Literal["sequential"]
    """One after the other."""
    sub_agents: "list[AnyAgent]"
    """Its sub-agents, in the order in which they run."""


class Parallel(Composite):
    """A composite that runs its sub-agents at the same time."""

    title = "a parallel"
    kind: Literal["parallel"]
    """All at the same time."""
    sub_agents: "list[AnyAgent]"
    """Its branches, in the order in which their results are joined."""
    on_error: Literal["fail", "wait", "collect", "first"] = "fail"
    """What becomes of the others when a branch fails; first ends with the first success."""
    max_concurrency: Count | None = None
    """How many branches run at once; null for all."""


class Loop(Composite):
    """A composite that runs its sub-agents in turn, again and again."""

    title = "a loop"
    kind: Literal["loop"]
    """Again and again."""
    sub_agents: "list[AnyAgent]"
    """The body of the loop."""
    max_iterations: Count | None
    """After how many iterations it ends; null for no bound."""
    until: Until | None = None
    """Ends the loop once a value of the run is as wanted, as in {value: approved, is: true}."""


class Step(Part):
    """A step of a workflow."""

    title = "a step"
    agent: "AgentOrName"
    """What runs, an agent or its name; the step has its name."""
    depends_on: list[str] = Field(default=[])
    """The names of the steps that must be done before."""
    input: str | None = None
    """What the agent is asked, a template: ${results.analyze} is what the step analyze said last."""
    retry: Retry | None = None
    """How often the step is tried."""
    timeout: Seconds | None = None
    """How many seconds each try may take."""
    compensate: "AnyAgent | None" = None
    """The agent that undoes the step when another one fails."""


class Workflow(Composite):
    """A composite that runs steps, each as soon as those are done that it depends on."""

    title = "a workflow"
    kind: Literal["workflow"]
    """Steps that depend on each other."""
    steps: "list[AnyStep]"
    """The steps, in any order; an agent alone is a step that depends on nothing."""
    on_error: Literal["fail", "wait"] = "fail"
    """Whether running steps are stopped or awaited when another one fails."""


def _is_text(data: Any) -> str:
    return NAME if isinstance(data, str) else AGENT


def _is_reference(data: Any) -> str:
    return REFERENCE if isinstance(data, Mapping) and "agent" in data and "kind" not in data else AGENT


def _is_step(data: Any) -> str:
    return STEP if isinstance(data, Mapping) and "kind" not in data else AGENT


def _is_tool(data: Any) -> str:
    if isinstance(data, Mapping):
        return TOOL if "agent" in data else PROVIDER
    return NAME


Kind = Annotated[
    Chat | Human | Sequential | Parallel | Loop | Workflow | Supervisor | PlanExecute,
    Field(discriminator="kind"),
]
AnyAgent = Annotated[
    Annotated[Reference, Tag(REFERENCE)] | Annotated[Kind, Tag(AGENT)], Discriminator(_is_reference)
]
AgentOrName = Annotated[
    Annotated[AgentName, Tag(NAME)] | Annotated[AnyAgent, Tag(AGENT)], Discriminator(_is_text)
]
ModelOrAgent = Annotated[
    Annotated[ModelName, Tag(NAME)] | Annotated[AnyAgent, Tag(AGENT)], Discriminator(_is_text)
]
AnyStep = Annotated[Annotated[Step, Tag(STEP)] | Annotated[Kind, Tag(AGENT)], Discriminator(_is_step)]
Tool = Annotated[
    Annotated[ToolName, Tag(NAME)]
    | Annotated[AgentTool, Tag(TOOL)]
    | Annotated[ProviderTool, Tag(PROVIDER)],
    Discriminator(_is_tool),
]

KINDS: dict[str, type[Part]] = {
    "sequential": Sequential,
    "parallel": Parallel,
    "loop": Loop,
    "workflow": Workflow,
    "supervisor": Supervisor,
    "plan_execute": PlanExecute,
    "chat": Chat,
    "human": Human,
}
"""The kinds of agents by the word that a file says."""
PARTS: dict[str, type[Part]] = {
    **KINDS,
    REFERENCE: Reference,
    TOOL: AgentTool,
    STEP: Step,
    RULE: Rule,
    "retry": Retry,
    "until": Until,
}
"""The models by the words that lead to them in a location of pydantic's."""


@cache
def skill() -> TypeAdapter[Part]:
    """Return what checks a file; it is made when the first one is read."""
    return TypeAdapter(AnyAgent)


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of skill files, by which editors complete and check them.

    Write it into a file, and name that in the first line of a skill file:
    `# yaml-language-server: $schema=skill.schema.json`.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A skill file of agentgraph",
        **skill().json_schema(),
    }
