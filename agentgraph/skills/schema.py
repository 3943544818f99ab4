"""The form of skill files: pydantic models made from the signatures and docstrings of the builders.

A parameter of a builder is a field of a file if `FORMS` has a form for its type; others, such as
functions, cannot be written in a file. This module only defines the fields whose form differs.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache, partial, reduce
from inspect import Parameter, getdoc, signature
from operator import or_
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

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
    create_model,
    field_validator,
)

from agentgraph.agents import agents
from agentgraph.agents.agents import (
    Agent,
    AgentFunction,
    Approval,
    Case,
    HistoryPolicy,
    Instruction,
    Model,
    OnToolError,
    OnUnknownTool,
    OutputSchema,
    ToolTimeout,
)
from agentgraph.agents.budgets import PolicyWord
from agentgraph.agents.builders import agent_tool, chat_agent, step
from agentgraph.agents.context import Context
from agentgraph.agents.limits import Limits
from agentgraph.agents.signals import (
    NO_DEFAULT,
    SKIP,
    AnswerTimeout,
    BreakLoop,
    Default,
    Exit,
    JsonSchema,
    ResponseSchema,
)
from agentgraph.safe_repr import shown
from agentgraph.skills.kinds import Builder, FileKind, builder_of
from agentgraph.skills.references import Registry, fault_error

_ENTRY = re.compile(r"^    (?P<name>\w+): (?P<text>.*(?:\n     .*)*)", re.MULTILINE)
"""Matches the entry of an argument in a docstring."""
AGENT, NAME, REFERENCE, STEP, TOOL, PROVIDER, NAMES, RULES, RULE, FLAG, WORD = ALTERNATIVES = (
    *("<agent>", "<name>", "<reference>", "<step>", "<tool>", "<provider>"),
    *("<names>", "<rules>", "<rule>", "<flag>", "<word>"),
)
"""The tags of unions; none can be mistaken for a key of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueIs:
    """The `until` of a loop that ends when a value of the run equals the given one.

    >>> ValueIs(value="approved", wanted=True)
    ValueIs(value='approved', wanted=True)
    """

    value: str
    """The name of the value."""
    wanted: str | int | float | bool | None
    """The wanted value; true is not 1."""

    def __call__(self, ctx: Context) -> bool:
        """Return whether the value of the context equals the wanted one."""
        value = ctx.values.get(self.value)
        same = isinstance(value, bool) == isinstance(self.wanted, bool)
        return same and bool(value == self.wanted)


def _with_agents(*, agent: Any, agents: Sequence[Agent] = ()) -> Agent:
    """Return a given agent; for a function agent, with more agents that it may run."""
    given: Agent = replace(agent, agents=(*agent.agents, *agents)) if agents else agent
    return given


def _find(registry: Registry, name: str, info: ValidationInfo) -> object:
    return info.context.find(registry, name)  # type: ignore[union-attr]


def _scalar(value: object) -> object:
    if isinstance(value, list | dict):
        raise fault_error(
            "'is' should be a text, a number, true, false or null; compare with one of these"
        )
    return value


def _prompt(value: object) -> object:
    if isinstance(value, dict) and value and all(each is None for each in value.values()):
        raise fault_error("'prompt' is a mapping without values; put the template in quotes")
    return value


def _provider_tool(tool: dict[str, object]) -> dict[str, object]:
    if "type" not in tool:
        raise fault_error("a tool is a name, an agent as in agent: NAME, or a mapping with a type")
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
Cost = Annotated[float, Field(gt=0), AfterValidator(lambda cost: Decimal(str(cost)))]


_WORDS = {"skip": SKIP, "break_loop": BreakLoop(), "exit": Exit()}
CaseWord = Annotated[Literal["skip", "break_loop", "exit"], AfterValidator(_WORDS.__getitem__)]


class FileMapping(BaseModel):
    """A mapping of a skill file.

    Attributes:
        builder: The function that builds it from its fields.
        asks: The fields that default to the model of the nearest agent around it.
        inner: The fields that hold agents, or lists of them.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True, defer_build=True
    )
    builder: ClassVar[Builder]
    asks: ClassVar[tuple[str, ...]] = ()
    inner: ClassVar[tuple[str, ...]] = ()


class Retry(FileMapping):
    """The attempts of a failed call, and the waits between them."""

    builder = RetryPolicy
    max_attempts: Count = 3
    """The maximum number of attempts, including the first."""
    initial_interval: Seconds = 0.5
    """The seconds to wait before the second attempt."""
    backoff_factor: Seconds = 2.0
    """The factor by which each wait is longer than the one before."""
    max_interval: Seconds = 128.0
    """The longest wait in seconds."""


class Bounds(FileMapping):
    """The limits of an agent and all agents below it in a turn; it fails when it reaches one."""

    builder = Limits
    model_calls: Count | None = None
    """The maximum number of calls of models."""
    tokens: Count | None = None
    """The maximum number of tokens, as providers report them."""
    cost: Cost | None = None
    """The maximum cost, in the unit of the prices that the runner has."""
    transfers: Count | None = None
    """The maximum number of transfers between agents."""
    steps: Count | None = None
    """The maximum number of activations of agents."""
    seconds: Seconds | None = None
    """The maximum running time of agents, in seconds."""
    on_limit: Literal["raise", "ask"] | None = None
    """Whether a reached limit is an error, the default, or a person may extend it by its amount."""


class Until(FileMapping):
    """Ends a loop when a value of the run equals the wanted one."""

    builder = ValueIs
    value: str
    """The name of the value."""
    wanted: Scalar = Field(alias="is")
    """The value that ends the loop: a text, a number, true, false or null."""


class Reference(FileMapping):
    """An agent made in Python."""

    builder = _with_agents
    inner = ("agents",)
    agent: AgentName
    """Its name among the agents that were given, or an allowed module:name."""
    agents: "list[AnyAgent]" = []  # type: ignore[valid-type]
    """The agents that a function runs with ctx.run, in addition to those that it has."""

    @field_validator("agents")
    @classmethod
    def _runs_agents(cls, agents: object, info: ValidationInfo) -> object:
        agent = info.data.get("agent")
        if agent is not None and not hasattr(agent, "agents"):
            raise fault_error(
                f"only a function runs agents, and {shown(agent.name)} is not one; leave them out"
            )
        return agents


class Rule(FileMapping):
    """The decisions that a person may take about the calls of a tool."""

    builder = dict
    allowed_decisions: list[Literal["approve", "edit", "reject", "respond"]]
    """The decisions that are allowed; at least one."""
    description: str = ""
    """The text for the person; by default, the tool and its arguments."""


def _is_names(data: object) -> str:
    return RULES if isinstance(data, Mapping) else NAMES


def _is_rule(data: object) -> str:
    return RULE if isinstance(data, Mapping) else FLAG


def _one_of(alternatives: Mapping[str, object], tag_of: Callable[[object], str]) -> Any:
    """Make a union of forms by their tags; `tag_of` returns the tag of given data."""
    tagged = (Annotated[form, Tag(tag)] for tag, form in alternatives.items())
    return Annotated[reduce(or_, tagged), Discriminator(tag_of)]


AnyRule = _one_of({RULE: Rule, FLAG: bool}, _is_rule)
Approve = _one_of({NAMES: list[str], RULES: dict[str, AnyRule]}, _is_names)  # type: ignore[valid-type]
_CASES = Mapping[Any, Case] | Iterable[tuple[Any, Case]]
FORMS: dict[object, object] = {
    str: str,
    bool: bool,
    str | None: str | None,
    int | None: Count | None,
    Limits | None: Bounds | None,
    Any: Prompt,
    Iterable[str]: list[str],
    Mapping[str, Iterable[str]] | None: dict[str, list[str]] | None,
    Agent: "AgentOrName",
    Agent | Model: "ModelOrAgent | None",
    Agent | AgentFunction | None: "AnyAgent | None",
    Approval: Approve,
    agents.Source: str,
    agents.Source | None: str | None,
    agents.InputText | None: str | None,
    Literal["full", "last", "none"] | None: Literal["full", "last", "none"] | None,
    _CASES: "dict[str, AnyCase]",
    Case | None: "AnyCase | None",
    agents.Condition | None: Until | None,
    HistoryPolicy: PolicyWord,
    Instruction: str,
    Iterable[Agent]: "list[AnyAgent]",
    Iterable[Agent | agents.Handoff]: "list[AnyAgent]",
    Iterable[agents.Step | Agent]: "list[AnyStep]",
    Iterable[agents.Tool]: "list[Tool]",
    Model: ModelName | None,
    OnToolError: Literal["return", "raise"],
    OnUnknownTool: Literal["return", "raise"],
    OutputSchema: JsonSchema | None,
    agents.ArgsSchema: JsonSchema | None,
    agents.Enabled: bool | str,
    ResponseSchema: JsonSchema | None,
    agents.Retry: Retry | None,
    agents.Timeout: Seconds | None,
    ToolTimeout: Seconds | dict[str, Seconds] | None,
    AnswerTimeout: Seconds | None,
    Default: Any,
}
"""The form in a file for each type of a builder's parameter.

A form that holds agents is a text, because the forms of agents are made below."""
ABOUT: dict[object, str] = {
    "choose": "The name of the value that selects a case.",
    "over": "The name of the value that holds the list or the mapping of items.",
    agents.Condition | None: "Ends the loop when a value of the run equals the given one: "
    "{value: approved, is: true}.",
    Iterable[agents.Tool]: "The tools that the model may call: names of tools, and agents.",
    agents.Source | None: "The name of a value: the step runs only if that is true.",
    _CASES: "The agent that runs, by the value; or skip, break_loop or exit.",
    Model: "Its model: a given name, or LangChain's, as openai:gpt-5; by default that of an agent "
    "around it.",
    OutputSchema: "The JSON schema that its answer must fit.",
    agents.ArgsSchema: "The JSON schema of the tool's arguments, an object, in place of a request.",
    agents.Enabled: "Whether the model may call the tool: true, false, or the name of a value.",
    ResponseSchema: "The JSON schema that an answer must fit.",
    agents.Retry: "The maximum number of attempts.",
    AnswerTimeout: "The seconds to wait for the answer; by default, as long as it takes.",
    agents.Timeout: "The maximum time in seconds; only async runs can stop the agent.",
}
"""The description of a field, by name or type, if its builder takes more than a file can express."""
_HOLDING_AGENTS = (
    *(Agent | Model, Iterable[Agent], Iterable[Agent | agents.Handoff]),
    *(Iterable[agents.Step | Agent], _CASES),
)


class _Made(FileMapping):
    """A mapping whose fields have explicit descriptions, so that pydantic reads no source for them."""

    model_config = ConfigDict(use_attribute_docstrings=False)


def _part(title: str, builder: Builder, **more: Any) -> type[FileMapping]:
    """Make the model of a builder: each parameter that a file can express is a field.

    The default and the type are those of the signature; the description is the first sentence in the
    docstring.
    """
    texts = {**_argument_texts(chat_agent), **_argument_texts(builder)}
    parameters = signature(builder).parameters
    asks = [name for name, one in parameters.items() if one.annotation in (Model, Agent | Model)]
    fields = {**more}
    for name, one in parameters.items():
        kind = one.annotation
        form = kind if get_origin(kind) is Literal else FORMS.get(kind)
        if form is not None:
            about = ABOUT.get(name) or ABOUT.get(kind, texts[name])
            fields[name] = (form, Field(description=about, **_default(one, name in asks)))
    holds_agents = any(one.annotation in _HOLDING_AGENTS for one in parameters.values())
    if holds_agents and "model" not in fields:
        about = "The model of all agents inside without their own."
        fields["model"] = (ModelName | None, Field(None, description=about))
    made = create_model(title, __base__=_Made, __module__=__name__, __doc__=_summary(builder), **fields)
    made.builder, made.asks = builder, tuple(asks)
    made.inner = tuple(
        name
        for name, (form, _) in fields.items()
        if isinstance(form, str) and parameters[name].annotation != _CASES
    )
    return made


def _default(parameter: Parameter, is_inherited: bool) -> dict[str, Any]:
    """Return how a field says what it is by default; what a file cannot say has no text."""
    if is_inherited:
        return {"default": None}
    if parameter.default is Parameter.empty:
        return {}
    if parameter.default is NO_DEFAULT:
        return {"default_factory": lambda: NO_DEFAULT}
    return {"default": [] if parameter.default == () else parameter.default}


def _argument_texts(builder: Builder) -> dict[str, str]:
    _, _, arguments = str(getdoc(builder)).partition("Args:\n")
    arguments = arguments.replace("None", "null").replace("True", "true")
    return {entry["name"]: _first_sentence(entry["text"]) for entry in _ENTRY.finditer(arguments)}


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s", " ".join(text.split()), maxsplit=1)[0]


def _summary(builder: Builder) -> str:
    """Return "A step of a workflow." for a docstring that starts with "Make a step of a workflow"."""
    what = _first_sentence(str(getdoc(builder))).removeprefix("Make ")
    return f"{what[0].upper()}{what[1:]}"


def _kind(name: str, builder: Builder) -> type[FileMapping]:
    kind = (Literal[name], Field(description=_summary(builder)))
    return _part(name.title().replace("_", ""), builder, kind=kind)


_KINDS: tuple[FileKind, ...] = get_args(FileKind)
KINDS: dict[str, type[FileMapping]] = {
    kind: _kind(kind, builder) for kind in _KINDS if (builder := builder_of(kind)) is not None
}
"""The models of agents, by kind."""
AgentTool = _part("AgentTool", agent_tool)
Step = _part("Step", step)


def _is_text(data: object) -> str:
    return NAME if isinstance(data, str) else AGENT


def _is_reference(data: object) -> str:
    return REFERENCE if isinstance(data, Mapping) and "agent" in data and "kind" not in data else AGENT


def _is_word(data: object) -> str:
    return WORD if isinstance(data, str) else AGENT


def _is_step(data: object) -> str:
    return STEP if isinstance(data, Mapping) and "kind" not in data else AGENT


def _is_tool(data: object) -> str:
    if isinstance(data, Mapping):
        return TOOL if "agent" in data else PROVIDER
    return NAME


Kind: object = Annotated[reduce(or_, KINDS.values()), Field(discriminator="kind")]
AnyAgent = _one_of({REFERENCE: Reference, AGENT: Kind}, _is_reference)
AgentOrName = _one_of({NAME: AgentName, AGENT: AnyAgent}, _is_text)
ModelOrAgent = _one_of({NAME: ModelName, AGENT: AnyAgent}, _is_text)
AnyCase = _one_of({WORD: CaseWord, AGENT: AnyAgent}, _is_word)
AnyStep = _one_of({STEP: Step, AGENT: Kind}, _is_step)
Tool = _one_of({NAME: ToolName, TOOL: AgentTool, PROVIDER: ProviderTool}, _is_tool)

PARTS: dict[str, tuple[str, type[FileMapping]]] = {
    **{kind: (f"a {kind}", model) for kind, model in KINDS.items()},
    REFERENCE: ("a reference to an agent", Reference),
    TOOL: ("an agent as a tool", AgentTool),
    STEP: ("a step", Step),
    RULE: ("a rule of approve", Rule),
    "retry": ("a retry", Retry),
    "until": ("an until", Until),
}
"""The names and models of parts, by their tags in pydantic's locations."""


@cache
def skill() -> TypeAdapter[FileMapping]:
    """Return the validator of files, which is made for the first file."""
    return TypeAdapter(AnyAgent)


def json_schema() -> JsonSchema:
    """Return the JSON schema with which editors complete and check skill files.

    Write it to a file, and name that file in the first line of a skill file:
    `# yaml-language-server: $schema=skill.schema.json`.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A skill file of agentgraph",
        **skill().json_schema(),
    }
