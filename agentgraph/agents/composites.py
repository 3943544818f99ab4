"""The builders of composite agents; faults are reported when the tree is compiled."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from langchain_core.tools import BaseTool

from agentgraph.agents.agents import (
    Agent,
    AgentFunction,
    FunctionAgent,
    LoopAgent,
    ParallelAgent,
    Retry,
    SequentialAgent,
    Step,
    Timeout,
    WorkflowAgent,
)
from agentgraph.agents.context import Context
from agentgraph.safe_repr import shown


def sequential(name: str, sub_agents: Iterable[Agent], *, description: str = "") -> SequentialAgent:
    """Make an agent that runs its sub-agents one after the other.

    Each sees what was said before it, and each earlier sub-agent is one step of its run path. It is
    google-adk's `SequentialAgent`.

    >>> from agentgraph.testing import transcript
    >>> writer = function_agent("writer", lambda ctx: "A draft.")
    >>> critic = function_agent("critic", lambda ctx: "Too short.")
    >>> transcript(Runner(sequential("report", [writer, critic])).query("Go."))
    ['report/writer: A draft.', 'report/writer/critic: Too short.']

    Args:
        name: The agent's name: letters, digits, `_` and `-`; different agents need different names.
        sub_agents: The agents, in the order in which they run; at least one.
        description: What the agent is for, in one sentence for other agents.

    Returns:
        The agent; `compile_agent` checks it.
    """
    sub_agents = as_tuple(sub_agents)
    return SequentialAgent(**locals())


def parallel(
    name: str,
    sub_agents: Iterable[Agent],
    *,
    description: str = "",
    on_error: Literal["fail", "wait", "collect", "first"] = "fail",
    max_concurrency: int | None = None,
) -> ParallelAgent:
    """Make an agent that runs its sub-agents at the same time.

    Each branch sees the history before the fork and what it adds itself; after the join every agent
    sees all branches, in declared order. An Exit or a BreakLoop in a branch takes effect at the
    join. It is google-adk's `ParallelAgent`.

    >>> from agentgraph.testing import transcript
    >>> legal = function_agent("legal", lambda ctx: "Allowed.")
    >>> press = function_agent("press", lambda ctx: "Good news.")
    >>> sorted(transcript(Runner(parallel("review", [legal, press])).query("Go.")))
    ['review/legal: Allowed.', 'review/press: Good news.']

    Args:
        name: The agent's name: letters, digits, `_` and `-`; different agents need different names.
        sub_agents: The branches, in the order in which they are joined; at least one. No two of them
            may write the same `output_key`, unless `on_error` is "first".
        description: What the agent is for, in one sentence for other agents.
        on_error: What happens when a branch fails. "fail": the others stop after their current step,
            and the error is raised. "wait": the others finish first. "collect": the error becomes
            the last message of its branch, and the run continues. "first": nothing, as long as
            another branch succeeds; the first success ends the other branches and discards what
            they said.
        max_concurrency: How many branches run at once; None for all.

    Returns:
        The agent; `compile_agent` checks it.
    """
    sub_agents = as_tuple(sub_agents)
    return ParallelAgent(**locals())


def loop(
    name: str,
    sub_agents: Iterable[Agent],
    *,
    description: str = "",
    max_iterations: int | None,
    until: Callable[[Context], bool] | None = None,
) -> LoopAgent:
    """Make an agent that runs its sub-agents one after the other, repeatedly.

    BreakLoop ends the loop at once, and the run continues after it. It is google-adk's `LoopAgent`,
    and BreakLoop is its `escalate`.

    >>> from agentgraph.testing import transcript
    >>> writer = function_agent("writer", lambda ctx: f"Draft {ctx.iteration}.")
    >>> transcript(Runner(loop("refine", [writer], max_iterations=2)).query("Go."))
    ['refine/writer: Draft 0.', 'refine/writer/writer: Draft 1.']

    Args:
        name: The agent's name: letters, digits, `_` and `-`; different agents need different names.
        sub_agents: The body of the loop, in the order in which it runs; at least one agent.
        description: What the agent is for, in one sentence for other agents.
        max_iterations: After how many iterations, at least 1, the loop ends without an error; None
            for no limit, which is allowed only if `until` or an agent inside can end the loop.
        until: A sync function, called with a `Context` after each complete iteration; the loop ends
            when it returns True.

    Returns:
        The agent; `compile_agent` checks it.
    """
    sub_agents = as_tuple(sub_agents)
    return LoopAgent(**locals())


def step(
    agent: Agent,
    *,
    depends_on: Iterable[str] = (),
    input: str | None = None,
    retry: Retry = None,
    timeout: Timeout = None,
    compensate: Agent | AgentFunction | None = None,
) -> Step:
    """Make a step of a workflow.

    ```
    step(write, depends_on=["find"], input="Write from ${results.find}", compensate=withdraw)
    ```

    Args:
        agent: The agent that runs; the step has the same name.
        depends_on: The names of the steps that must finish first.
        input: The agent's request, a template: `${results.analyze}` is the last message of the step
            `analyze`, which must be a dependency, direct or not; `${topic}` or `{topic}` is a value of
            the run. The agent sees only that. Without `input` it sees what was said before the
            workflow, and what its dependencies said.
        retry: LangGraph's `RetryPolicy`, or several, for each leaf of the step without a `retry`: only
            the leaf that failed runs again.
        timeout: Seconds, a timedelta, or LangGraph's `TimeoutPolicy`, for each attempt of a leaf of
            the step without a `timeout`; it needs the async methods.
        compensate: An agent that undoes the step, or a function as for `function_agent`. It sees
            what the step said, and runs when another step has failed for good.

    Returns:
        The step, for `workflow(name, [...])`.
    """
    if compensate is not None and not isinstance(compensate, Agent):
        undone = agent.name if hasattr(agent, "name") else shown(agent)
        compensate = FunctionAgent(name=f"undo_{undone}", fn=compensate)
    return Step(
        agent=agent,
        depends_on=as_tuple(depends_on),
        input=input,
        retry=retry,
        timeout=timeout,
        compensate=compensate,
    )


def workflow(
    name: str,
    steps: Iterable[Step | Agent],
    *,
    description: str = "",
    on_error: Literal["fail", "wait"] = "fail",
) -> WorkflowAgent:
    """Make an agent that runs steps, each as soon as its dependencies are done.

    In the history after the workflow, each step follows its dependencies; otherwise the steps are in
    declared order.

    When a step fails for good, no further step begins. If any step has a `compensate`, the failure is
    final: the finished steps are undone once each, the last to finish first, and `StepFailedError` is
    raised, also by every resume. Otherwise it is raised as soon as the running steps have ended, and a
    resume runs only the steps that have not finished.

    >>> from agentgraph.testing import transcript
    >>> find = function_agent("find", lambda ctx: "Bees hum.")
    >>> write = function_agent("write", lambda ctx: ctx.messages[-1].text)
    >>> steps = [find, step(write, depends_on=["find"], input="It says: ${results.find}")]
    >>> transcript(Runner(workflow("report", steps)).query("Go."))
    ['report/find: Bees hum.', 'report/write: It says: Bees hum.']

    Args:
        name: The agent's name: letters, digits, `_` and `-`; different agents need different names.
        steps: The steps, in any order, at least one; a plain agent is a step without dependencies. No
            two of them may write the same `output_key`.
        description: What the agent is for, in one sentence for other agents.
        on_error: What happens to the running steps when another one fails: "fail" stops each of them
            after its current node, "wait" lets them finish, and then they are undone, too.

    Returns:
        The agent; `compile_agent` checks it.
    """
    made = tuple(each if isinstance(each, Step) else step(each) for each in as_tuple(steps))
    return WorkflowAgent(name=name, steps=made, description=description, on_error=on_error)


def as_tuple(given: Any) -> tuple[Any, ...]:
    """Return an iterable as a tuple; a single value, such as a string or a tool, as a tuple of one."""
    if isinstance(given, Iterable) and not isinstance(given, str | Mapping | BaseTool):
        return tuple(given)
    return (given,)
