"""The form of skill files: a pydantic model for each kind of agent and for each part inside it.

The model of a kind has its fields, its builder, and the names of those fields that are filled in with
the chat model of an enclosing agent.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Any, ClassVar, Literal, get_args

from langgraph.types import RetryPolicy
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationInfo,
    WithJsonSchema,
)

from agentgraph.agents.agents import Agent
from agentgraph.agents.budgets import PolicyWord
from agentgraph.agents.builders import agent_tool, chat_agent, human
from agentgraph.agents.composites import loop, parallel, sequential, step, workflow
from agentgraph.agents.prebuilt.plan_execute import plan_execute
from agentgraph.agents.prebuilt.supervisor import supervisor
from agentgraph.skills.references import Registry, refused

AGENT, NAME, REFERENCE, STEP, TOOL, PROVIDER, NAMES, RULES, RULE, FLAG = ALTERNATIVES = (
    *("<agent>", "<name>", "<reference>", "<step>", "<tool>", "<provider>"),
    *("<names>", "<rules>", "<rule>", "<flag>"),
)
"""The tags of unions; no key of a file can be mistaken for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueIs:
    """The `until` of a loop that ends when a value of the run equals the wanted one.

    >>> ValueIs(value="approved", wanted=True)
    ValueIs(value='approved', wanted=True)
    """

    value: str
    """The name of the value."""
    wanted: str | int | float | bool | None
    """The wanted value; true is not 1."""

    def __call__(self, ctx: Any) -> bool:
        """Return whether the loop ends, from its `Context`."""
        found = ctx.values.get(self.value)
        same = isinstance(found, bool) == isinstance(self.wanted, bool)
        return same and bool(found == self.wanted)


def _itself(*, agent: Agent) -> Agent:
    return agent


def _find(registry: Registry, name: str, info: ValidationInfo) -> Any:
    return info.context.find(registry, name)  # type: ignore[union-attr]


def _scalar(value: Any) -> Any:
    if isinstance(value, list | dict):
        raise refused("'is' should be a text, a number, true, false or null; compare with one of these")
    return value


def _prompt(value: Any) -> Any:
    if isinstance(value, dict) and value and all(each is None for each in value.values()):
        raise refused("'prompt' is a mapping without values; put a template in quotes")
    return value


def _provider_tool(tool: dict[str, Any]) -> dict[str, Any]:
    if "type" not in tool:
        raise refused("a tool is a name, an agent as in agent: NAME, or a mapping with a type")
    return tool


ModelName = Annotated[str, AfterValidator(partial(_find, "models"))]
ToolName = Annotated[str, AfterValidator(partial(_find, "tools"))]
AgentName = Annotated[str, AfterValidator(partial(_find, "agents"))]
ProviderTool = Annotated[
    dict[str, Any],
    AfterValidator(_provider_tool),
    WithJsonSchema({"type": "object", "required": ["type"], "not": {"required": ["agent"]}}),
]
Prompt = Annotated[Any, AfterValidator(_prompt)]
Scalar = Annotated[
    Any,
    AfterValidator(_scalar),
    WithJsonSchema({"type": ["string", "number", "boolean", "null"]}),
]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]


class Part(BaseModel):
    """A mapping of a skill file.

    Attributes:
        builder: The function that builds it from its fields.
        asks: The fields that default to the model of the nearest agent around.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True, defer_build=True
    )
    builder: ClassVar[Callable[..., Any]]
    asks: ClassVar[tuple[str, ...]] = ()


class Retry(Part):
    """How often a failed call is tried again, and how long to wait in between."""

    builder = RetryPolicy
    max_attempts: Count = 3
    """How often it is tried, the first time included."""
    initial_interval: Seconds = 0.5
    """The seconds to wait before the second attempt."""
    backoff_factor: Seconds = 2.0
    """By how much each wait is longer than the one before."""
    max_interval: Seconds = 128.0
    """The longest wait in seconds."""


class Until(Part):
    """Ends a loop when a value of the run equals the wanted one."""

    builder = ValueIs
    value: str
    """The name of the value."""
    wanted: Scalar = Field(alias="is")
    """The value that ends the loop: a text, a number, true, false or null."""


class Reference(Part):
    """An agent made in Python."""

    builder = _itself
    agent: AgentName
    """Its name among the agents that were given, or an allowed module:name."""


class AgentTool(Part):
    """An agent as a tool of a chat agent: it is given a request, and its last message comes back."""

    builder = agent_tool
    agent: "AgentOrName"
    """The agent, or its name; the tool has its name."""
    description: str = ""
    """The description for the model; by default the agent's own."""
    history: Literal["input", "shared"] = "input"
    """Whether it sees the request only (input), or what the caller sees, and then the request."""


class Rule(Part):
    """What a person may decide of the calls of a tool."""

    builder = dict
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


class KindOfAgent(Part):
    """What all kinds of agents have."""

    kind: str
    name: str
    """The agent's name: letters, digits, _ and -."""
    description: str = ""
    """What the agent is for, in a sentence that other agents read."""


class ModelAgent(KindOfAgent):
    """What agents that ask a chat model have."""

    asks = ("model",)
    model: ModelName | None = None
    """The chat model: a name given, or LangChain's, as openai:gpt-5; else that of an agent around."""
    instruction: str = ""
    """The system message, a template: {topic} is filled from the values of the run, {topic?} too."""
    tools: "list[Tool]" = Field(default=[])
    """What the model may call: names of tools, and agents."""
    output_key: str | None = None
    """The value that the text of its last message becomes."""
    output_schema: dict[str, Any] | None = None
    """What its last reply must fit: a JSON schema."""
    history: PolicyWord = "shared"
    """Which messages it sees: shared (all), path (those on the way to it), own, last, input."""
    max_iterations: Count | None = 20
    """How often it may ask the model in one activation; null for no bound."""
    on_max_iterations: Literal["raise", "answer"] = "raise"
    """Whether it fails when it may not ask again, or asks once more without tools."""
    exit_tool: bool = False
    """Whether the model may end the run, with the tool exit."""
    approve: Approve = Field(default=[])
    """The tools whose calls a person must agree to: names, or a mapping of names to true or a rule."""
    interrupt_mode: Literal["batched", "per_call"] = "batched"
    """Whether one question is asked for all calls of a message, or one for each call."""
    on_tool_error: Literal["return", "raise"] = "return"
    """Whether an exception in a tool is returned to the model, or the agent fails with it."""
    retry: Retry | None = None
    """How often a call of the model is tried."""
    timeout: Seconds | None = None
    """How many seconds a call of the model may take."""


class Chat(ModelAgent):
    """A leaf that asks a chat model, and runs the tools that it calls until it calls none."""

    builder = chat_agent
    kind: Literal["chat"]
    """A chat agent."""
    sub_agents: "list[AnyAgent]" = Field(default=[])
    """The agents that it may transfer to."""
    sub_agents_return: bool = False
    """Whether this agent goes on when a sub-agent ends, instead of ending too."""
    return_directly: list[str] = Field(default=[])
    """The names of tools whose result ends the agent."""
    break_tool: bool = False
    """Whether the model may end the nearest loop, with the tool break_loop."""
    parallel_tools: bool = True
    """Whether the calls of one message run at the same time, or one after the other."""
    unknown_tool: Literal["return", "raise"] = "return"
    """How a call to an unknown tool is handled: as on_tool_error."""
    tool_timeout: Seconds | dict[str, Seconds] | None = None
    """How many seconds a call of an async tool may take: a number, or numbers by the names of tools."""


class Supervisor(ModelAgent):
    """A chat agent that decides which worker does what, until it answers by itself."""

    builder = supervisor
    kind: Literal["supervisor"]
    """A supervisor of workers."""
    workers: "list[AnyAgent]"
    """The agents that work; the model reads their descriptions."""
    mode: Literal["tools", "handoff"] = "tools"
    """Whether workers are tools, or are handed over to."""
    worker_history: Literal["input", "shared"] = "input"
    """In the mode tools, whether workers see their request only, or what the supervisor sees too."""


class PlanExecute(KindOfAgent):
    """An agent that plans, executes the steps, and plans again until it can answer."""

    builder = plan_execute
    asks = ("planner", "executor", "replanner")
    kind: Literal["plan_execute"]
    """Plan, execute, plan again."""
    model: ModelName | None = None
    """The name of the model of those parts that are left out, and of agents inside without one."""
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


class Human(KindOfAgent):
    """A leaf that asks a person, and says the answer."""

    builder = human
    kind: Literal["human"]
    """A person."""
    prompt: Prompt
    """What is asked: a template as in a chat, or plain data."""
    response_schema: dict[str, Any] | None = None
    """What an answer must fit: a JSON schema."""
    output_key: str | None = None
    """The value that the answer becomes."""


class Composite(KindOfAgent):
    """What all agents made of others have."""

    model: ModelName | None = None
    """The name of the model of all agents inside that have none."""


class Sequential(Composite):
    """A composite that runs its sub-agents one after the other."""

    builder = sequential
    kind: Literal["sequential"]
    """One after the other."""
    sub_agents: "list[AnyAgent]"
    """Its sub-agents, in the order in which they run."""


class Parallel(Composite):
    """A composite that runs its sub-agents at the same time."""

    builder = parallel
    kind: Literal["parallel"]
    """All at the same time."""
    sub_agents: "list[AnyAgent]"
    """Its branches, in the order in which their results are joined."""
    on_error: Literal["fail", "wait", "collect", "first"] = "fail"
    """What happens to the other branches when one fails; first ends with the first success."""
    max_concurrency: Count | None = None
    """How many branches run at once; null for all."""


class Loop(Composite):
    """A composite that runs its sub-agents in turn, again and again."""

    builder = loop
    kind: Literal["loop"]
    """Again and again."""
    sub_agents: "list[AnyAgent]"
    """The body of the loop."""
    max_iterations: Count | None
    """After how many iterations it ends; null for no bound."""
    until: Until | None = None
    """Ends the loop when a value of the run equals the wanted one: {value: approved, is: true}."""


class Step(Part):
    """A step of a workflow."""

    builder = step
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
    """A composite that runs each step as soon as the steps that it depends on are done."""

    builder = workflow
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

_CHAT, _HUMAN, *_COMPOSITES = get_args(get_args(Kind)[0])
KINDS: dict[str, type[Part]] = {
    get_args(model.model_fields["kind"].annotation)[0]: model for model in (*_COMPOSITES, _CHAT, _HUMAN)
}
"""The models of the kinds of agents by kind."""
PARTS: dict[str, tuple[str, type[Part]]] = {
    **{kind: (f"a {kind}", model) for kind, model in KINDS.items()},
    REFERENCE: ("a reference to an agent", Reference),
    TOOL: ("an agent as a tool", AgentTool),
    STEP: ("a step", Step),
    RULE: ("a rule of approve", Rule),
    "retry": ("a retry", Retry),
    "until": ("an until", Until),
}
"""The names and models of parts, by the words for them in a location of pydantic's."""


@cache
def skill() -> TypeAdapter[Part]:
    """Return the validator of files; it is made when the first file is read."""
    return TypeAdapter(AnyAgent)


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of skill files, with which editors complete and check them.

    Write it to a file, and name that file in the first line of a skill file:
    `# yaml-language-server: $schema=skill.schema.json`.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A skill file of agentgraph",
        **skill().json_schema(),
    }
