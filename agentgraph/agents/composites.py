"""The builders of composites: what users call; nothing is checked before the tree is compiled."""

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

    Each sees what was said before it, and its run path goes through those before it, each as one
    step. It is google-adk's `SequentialAgent`.

    >>> from agentgraph.testing import transcript
    >>> writer = function_agent("writer", lambda ctx: "A draft.")
    >>> critic = function_agent("critic", lambda ctx: "Too short.")
    >>> transcript(Runner(sequential("report", [writer, critic])).query("Go."))
    ['report/writer: A draft.', 'report/writer/critic: Too short.']

    Args:
        name: The agent's name: letters, digits, `_` and `-`; a name means one agent in a tree.
        sub_agents: The agents, in the order in which they run; at least one.
        description: What the agent is for, in a sentence that other agents read.

    Returns:
        The agent; nothing is checked before `compile_agent`.
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

    Each branch sees what was there before the fork and what it adds itself; behind the join
    everyone sees all, branches in declared order. An Exit or a BreakLoop in a branch counts at the
    join. It is google-adk's `ParallelAgent`.

    >>> from agentgraph.testing import transcript
    >>> legal = function_agent("legal", lambda ctx: "Allowed.")
    >>> press = function_agent("press", lambda ctx: "Good news.")
    >>> sorted(transcript(Runner(parallel("review", [legal, press])).query("Go.")))
    ['review/legal: Allowed.', 'review/press: Good news.']

    Args:
        name: The agent's name: letters, digits, `_` and `-`; a name means one agent in a tree.
        sub_agents: The branches, in the order in which they are joined; at least one. Two of them
            may not write one `output_key`, unless `on_error` is "first".
        description: What the agent is for, in a sentence that other agents read.
        on_error: What happens when a branch fails. "fail": the others stop behind the step that
            they are in, and the error is raised. "wait": the others finish first. "collect": the
            error becomes the last message of its branch, and the run goes on. "first": nothing, as
            long as another one succeeds; the first that does ends the others, of which nothing is
            kept.
        max_concurrency: How many run at once; None for all.

    Returns:
        The agent; nothing is checked before `compile_agent`.
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
    """Make an agent that runs its sub-agents in turn, again and again.

    BreakLoop ends it at once, and what follows it goes on. It is google-adk's `LoopAgent`, and
    BreakLoop its `escalate`.

    >>> from agentgraph.testing import transcript
    >>> writer = function_agent("writer", lambda ctx: f"Draft {ctx.iteration}.")
    >>> transcript(Runner(loop("refine", [writer], max_iterations=2)).query("Go."))
    ['refine/writer: Draft 0.', 'refine/writer/writer: Draft 1.']

    Args:
        name: The agent's name: letters, digits, `_` and `-`; a name means one agent in a tree.
        sub_agents: The body, in the order in which it runs; at least one agent.
        description: What the agent is for, in a sentence that other agents read.
        max_iterations: After how many iterations, from 1, the loop just ends, without an error;
            None for no bound, which is allowed only where `until` or something inside can end it.
        until: A sync function, asked with a `Context` after each whole iteration; the loop ends
            when it says yes.

    Returns:
        The agent; nothing is checked before `compile_agent`.
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
        agent: What runs; the step has its name.
        depends_on: The names of the steps that must be done before.
        input: What the agent is asked, a template: `${results.analyze}` is the last message of the
            step `analyze`, which must be done before, `${topic}` or `{topic}` a value of the run.
            The agent sees that alone. Without it the agent sees what was said before the workflow,
            and what the steps said that must be done before.
        retry: LangGraph's `RetryPolicy`, or several, for each leaf of the step that has none of its
            own: what fails is tried again where it failed, and nothing that had finished.
        timeout: Seconds, a timedelta, or LangGraph's `TimeoutPolicy`, for each try of a leaf of the
            step that has none of its own; it needs the async methods.
        compensate: What undoes the step: an agent, or a function as for `function_agent`. It sees
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
    """Make an agent that runs steps, each as soon as the steps are done that it depends on.

    What the steps said stands behind the workflow in an order that respects what depends on what,
    and else in declared order.

    When a step fails for good, no further step begins. Where a step has a `compensate`, the failure
    is final: the finished steps are undone in the reverse of the order in which they finished, each
    once, and `StepFailedError` is raised, also by every resume. Where none has, it is raised as soon as
    the steps have ended that run, and a resume tries the step again, and nothing that had finished.

    >>> from agentgraph.testing import transcript
    >>> find = function_agent("find", lambda ctx: "Bees hum.")
    >>> write = function_agent("write", lambda ctx: ctx.messages[-1].text)
    >>> steps = [find, step(write, depends_on=["find"], input="It says: ${results.find}")]
    >>> transcript(Runner(workflow("report", steps)).query("Go."))
    ['report/find: Bees hum.', 'report/write: It says: Bees hum.']

    Args:
        name: The agent's name: letters, digits, `_` and `-`; a name means one agent in a tree.
        steps: The steps, in any order, at least one; an agent alone is a step that depends on
            nothing. Two of them may not write one `output_key`.
        description: What the agent is for, in a sentence that other agents read.
        on_error: What becomes of the steps that run when another one fails: "fail" stops each behind
            the step that it is in, "wait" lets them finish; then they are undone, too.

    Returns:
        The agent; nothing is checked before `compile_agent`.
    """
    made = tuple(each if isinstance(each, Step) else step(each) for each in as_tuple(steps))
    return WorkflowAgent(name=name, steps=made, description=description, on_error=on_error)


def as_tuple(given: Any) -> tuple[Any, ...]:
    """Return several as a tuple; one alone, strings and tools included, as a tuple of one."""
    if isinstance(given, Iterable) and not isinstance(given, str | Mapping | BaseTool):
        return tuple(given)
    return (given,)
