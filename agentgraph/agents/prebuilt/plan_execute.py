"""A plan-and-execute agent: a planner, and then a loop of an executor and a replanner."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_core.messages import SystemMessage

from agentgraph.agents.agents import (
    Agent,
    ChatAgent,
    Check,
    CheckedAgent,
    EachAgent,
    HistoryPolicy,
    Instruction,
    LoopAgent,
    Model,
)
from agentgraph.agents.builders import chat_agent, function_agent, sequential
from agentgraph.agents.functions import Asks, then
from agentgraph.agents.habits.options import hints_options
from agentgraph.agents.kinds import is_chat
from agentgraph.agents.langchain_values import is_runnable
from agentgraph.agents.limits import Limits
from agentgraph.agents.prebuilt.plans import (
    Approval,
    Executed,
    ExecutedAll,
    Finished,
    IsDone,
    Needs,
    Planned,
    Replanned,
    Request,
    TasksLeft,
)
from agentgraph.agents.signals import JsonSchema
from agentgraph.agents.templates import fill, with_text

if TYPE_CHECKING:
    from agentgraph.agents.context import Context

_STEPS = """{{"steps": ["...", "..."]}}, each step a task that can be done by itself, in the order in
which they are to be done."""
_PARALLEL_STEPS = """{{"steps": [{{"name": "...", "task": "...", "depends_on": []}}]}}. Each step is a
task that can be done by itself; depends_on names the steps whose results it needs. Steps that do not
depend on each other are done at the same time."""
_PLAN = "Reply with the plan as JSON alone: "
_REPLAN = """Reply with JSON alone. If the question can be answered now: {{"answer": "..."}}. Else the
steps that are still to be done: """
_TYPED_PLAN = """The steps of the plan are tasks that can be done by themselves, in the order in which
they are to be done."""
_TYPED_PARALLEL_PLAN = """The steps of the plan are tasks that can be done by themselves; depends_on
names the steps whose results one needs. Steps that do not depend on each other are done at the same
time."""
_TYPED_REPLAN = """If the question can be answered now, answer it; else give the steps that are still
to be done. """
_TEXTS = {"type": "array", "items": {"type": "string"}}
_TASKS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "task": {"type": "string"}, "depends_on": _TEXTS},
        "required": ["name", "task", "depends_on"],
    },
}
_ANSWER = {
    "title": "answer",
    "description": "The answer to the question.",
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
}
PLANNER = "Make a plan that answers the question."
EXECUTOR = "You carry out one step of a plan that is to answer this question: {question}"
REPLANNER = """The question: {question}
Done so far: {past_steps}
Still planned: {plan}"""
_STEP = "Your step: {step}\nReply with its result alone."


@hints_options
def plan_execute(
    name: str,
    *,
    planner: Agent | Model,
    executor: Agent | Model,
    replanner: Agent | Model,
    description: str = "",
    max_iterations: int | None = 10,
    parallel: bool = False,
    on_error: Literal["fail", "wait", "collect"] = "fail",
    max_concurrency: int | None = None,
    approve_plan: bool = False,
    typed_plan: bool = False,
    limits: Limits | None = None,
) -> CheckedAgent:
    """Make an agent that plans, executes the plan step by step, and plans again after each step.

    It is `sequential(name, [planner, loop("execute", [executor, replanner])])`, and so are the run
    paths. It corresponds to the agent of LangGraph's plan-and-execute tutorial.

    >>> from agentgraph.testing import ScriptedChatModel, transcript
    >>> planner = ScriptedChatModel(responses=['["Find the bees.", "Count them."]'])
    >>> executor = ScriptedChatModel(responses=["In the hive."])
    >>> replanner = ScriptedChatModel(responses=['{"answer": "They are too many."}'])
    >>> pe = plan_execute("pe", planner=planner, executor=executor, replanner=replanner)
    >>> for line in transcript(Runner(pe).query("How many bees?")):
    ...     print(line)
    pe/planner: ["Find the bees.", "Count them."]
    pe/planner/execute/executor: In the hive.
    pe/planner/execute/executor/replanner: {"answer": "They are too many."}
    pe: They are too many.

    The planner's last message is the plan: JSON, a list of steps or `{"steps": [...]}`, or a numbered
    list in plain text. A planner without a message writes the plan as a list to the value `plan`. A
    step is a text, or `{"name": ..., "task": ..., "depends_on": [...]}`. An invalid plan, with
    unknown, circular or duplicate steps, goes back to the planner with its faults, at most twice.
    The replanner's last message is the remaining steps, or the answer: `{"answer": "..."}`, or any
    other text. Without a message, the plan continues.

    Once there is a plan, templates and `ctx.values` have the values `question`, `plan` (the remaining
    steps), `step` (the current task), `past_steps` (a list of `{"step": ..., "result": ...}`) and
    `answer` (the best so far). The answer is the last message.

    Args:
        name: The agent's name: letters, digits, `_` and `-`; different agents need different names.
        planner: An agent, or a model, which becomes a chat agent `planner`. The instruction of a chat
            agent is extended by the format of a plan, and by its task if it is empty. If a tree has
            two planners, pass `chat_agent("another_planner", model)` for one.
        executor: The agent or model that executes a step, by default named `executor`; a chat
            agent's instruction is extended by the step unless it contains `{step}`.
        replanner: The agent or model that checks the results, by default named `replanner`.
        description: The purpose of the agent, in one sentence for other agents.
        max_iterations: The maximum number of rounds of execution and replanning, at least 1; None for
            no limit. At the limit it ends with the best answer so far, and emits `{"plan_execute":
            name, "ended": "max_iterations", "left": [...]}` as a custom event if steps are left.
        parallel: Whether all remaining steps run before the replanner does: each in isolation, as
            soon as its dependencies are done. The executor sees only its step and the results of
            these dependencies. Such a plan may be empty: only the replanner runs.
        on_error: The effect of a parallel step that fails. "fail": the others stop, and the
            error is raised. "wait": those that may run finish first. "collect": `Failed: ...` is the
            result of the step, and the replanner decides what to do.
        max_concurrency: Maximum number of parallel steps that run at once; by default 32.
        approve_plan: Whether a person must approve the plan: the answer is `true`, or a list of steps
            that replaces it.
        typed_plan: Whether the planner and the replanner, if they are models, or chat agents without an
            `output_schema`, return plans as structured answers: by the provider's structured output or
            by a tool call, as with `output_schema`. Some models plan better with it.
        limits: The limits of the agent and all agents below it in a turn; it fails when it reaches one.

    Returns:
        The agent; `compile_agent` checks it. If the planner makes no valid plan, the run raises
        `CheckFailedError`.
    """
    steps = _PARALLEL_STEPS if parallel else _STEPS
    form, again = f"{_PLAN}{steps}", f"{_REPLAN}{steps}"
    planning, replanning = _agent("planner", planner), _agent("replanner", replanner, history="own")
    if typed_plan:
        form = _TYPED_PARALLEL_PLAN if parallel else _TYPED_PLAN
        again, plan = f"{_TYPED_REPLAN}{form}", _plan_schema(_TASKS if parallel else _TEXTS)
        planning, replanning = _typed(planning, plan), _typed(replanning, {"oneOf": [_ANSWER, plan]})
    plans = _instructed(planning, PLANNER, form)
    executes = _instructed(_agent("executor", executor), EXECUTOR, _STEP, unless="{step")
    replans = _instructed(replanning, REPLANNER, again)
    if parallel:
        executing = _in_parallel(name, executes, on_error, max_concurrency)
    else:
        executing = _checked(executes, Executed(name))
    body = [executing, _checked(replans, Replanned(name), repeats=True)]
    loop = LoopAgent(
        name="execute",
        sub_agents=tuple(body),
        max_iterations=max_iterations,
        until=IsDone(name),
        is_part=True,
    )
    asks = [function_agent(f"{name}_approval", Approval(name))] if approve_plan else []
    inner: list[Agent] = [_checked(plans, Planned(name, parallel), repeats=True), *asks, loop]
    whole = sequential(name, inner, description=description, limits=limits)
    return _checked(whole, Finished(name, max_iterations), keeps=True)


def _agent(role: str, part: Agent | Model, history: HistoryPolicy = "shared") -> Agent:
    if isinstance(part, str) or is_runnable(part) or callable(part):
        return chat_agent(role, part, history=history)
    return part


def _plan_schema(steps: JsonSchema) -> JsonSchema:
    return {
        "title": "plan",
        "description": "The steps that are to be done.",
        "type": "object",
        "properties": {"steps": steps},
        "required": ["steps"],
    }


def _typed(agent: Agent, schema: JsonSchema) -> Agent:
    """Add an output schema to a chat agent without one; other agents stay unchanged."""
    chat: Any = agent
    is_open = is_chat(agent) and chat.output_schema is None
    return replace(chat, output_schema=schema) if is_open else agent


def _instructed(agent: Agent, task: str, form: str, unless: str | None = None) -> Agent:
    """Add the task and the reply format to a chat agent's instruction; others stay unchanged."""
    if not is_chat(agent):
        return agent
    chat = cast(ChatAgent, agent)
    instruction = chat.instruction
    if not isinstance(instruction, str):
        return replace(chat, instruction=Templated(instruction, form))
    if unless and unless in instruction:
        return agent
    return replace(chat, instruction=f"{instruction or task}\n\n{form}")


@dataclass(frozen=True, slots=True)
class Templated(Asks):
    """An instruction that is not a template, followed by a template.

    Attributes:
        instruction: A message, or a function that returns one or a template.
        form: The template with the reply format.
    """

    instruction: Instruction
    form: str

    @property
    def function(self) -> object:
        """The instruction."""
        return self.instruction

    def __call__(self, ctx: "Context") -> Any:
        """Return the combined instruction; an awaitable of it if the function returned one."""
        instruction = self.instruction
        returned = instruction(ctx) if callable(instruction) else instruction
        return then(returned, lambda come: self._with_form(ctx, come()))

    def _with_form(self, ctx: "Context", instruction: object) -> object:
        if isinstance(instruction, SystemMessage):
            return with_text(instruction, fill(self.form, ctx.values, ctx.name))
        return f"{instruction}\n\n{self.form}" if isinstance(instruction, str) else instruction


def _in_parallel(
    name: str,
    executor: Agent,
    on_error: Literal["fail", "wait", "collect"],
    max_concurrency: int | None,
) -> CheckedAgent:
    steps = EachAgent(
        name=f"{name}_steps",
        agent=executor,
        over=TasksLeft(name),
        as_="step",
        input=Request(name),
        max_concurrency=max_concurrency,
        on_error=on_error,
        output_mode="full",
        depends_on=Needs(name),
        stored_by=name,
    )
    return _checked(steps, ExecutedAll(name))


def _checked(agent: Agent, check: Check, *, repeats: bool = False, keeps: bool = False) -> CheckedAgent:
    return CheckedAgent(agent=agent, check=check, repeats=repeats, keeps=keeps)
