"""The builders of composites: what users call; nothing is checked before the tree is compiled."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from langchain_core.tools import BaseTool

from agentgraph.agents import (
    AGENTS,
    Agent,
    FunctionAgent,
    LoopAgent,
    ParallelAgent,
    SequentialAgent,
    Step,
    WorkflowAgent,
)


def sequential(name: str, sub_agents: Iterable[Agent]) -> SequentialAgent:
    """Make an agent that runs its sub-agents one after the other."""
    return SequentialAgent(name=name, sub_agents=as_tuple(sub_agents))


def parallel(
    name: str,
    sub_agents: Iterable[Agent],
    *,
    on_error: Literal["fail", "wait", "collect", "first"] = "fail",
    max_concurrency: int | None = None,
) -> ParallelAgent:
    """Make an agent that runs its sub-agents at the same time.

    Each branch sees what was there before the fork and what it adds itself; behind the join
    everyone sees all, branches in declared order.

    Args:
        name: The agent's name.
        sub_agents: The branches.
        on_error: What happens when a branch fails. "fail": the others stop behind the step that
            they are in, and the error is raised. "wait": the others finish first. "collect": the
            error becomes the last message of its branch, and the run goes on. "first": nothing, as
            long as another one succeeds; the first that does ends the others, of which nothing is
            kept.
        max_concurrency: How many run at once; None for all.

    Returns:
        The agent; nothing is checked before `compile_agent`.
    """
    return ParallelAgent(
        name=name,
        sub_agents=as_tuple(sub_agents),
        on_error=on_error,
        max_concurrency=max_concurrency,
    )


def loop(
    name: str,
    sub_agents: Iterable[Agent],
    *,
    max_iterations: int | None,
    until: Callable[[Any], bool] | None = None,
) -> LoopAgent:
    """Make an agent that runs its sub-agents in turn, again and again.

    Args:
        name: The agent's name.
        sub_agents: The body.
        max_iterations: After how many iterations the loop just ends; None for no bound, which
            is allowed only where `until` or something inside can end it.
        until: Asked with a `Context` after each iteration; the loop ends when it says yes.

    Returns:
        The agent; nothing is checked before `compile_agent`.
    """
    return LoopAgent(
        name=name, sub_agents=as_tuple(sub_agents), max_iterations=max_iterations, until=until
    )


def step(
    agent: Agent,
    *,
    depends_on: Iterable[str] = (),
    input: str | None = None,
    retry: Any = None,
    timeout: Any = None,
    compensate: Agent | Callable[[Any], Any] | None = None,
) -> Step:
    """Make a step of a workflow.

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
    if compensate is not None and not isinstance(compensate, AGENTS):
        name = f"undo_{getattr(agent, 'name', agent)}"
        compensate = FunctionAgent(name=name, fn=compensate)
    return Step(
        agent=agent,
        depends_on=as_tuple(depends_on),
        input=input,
        retry=retry,
        timeout=timeout,
        compensate=compensate,
    )


def workflow(
    name: str, steps: Iterable[Step | Agent], *, on_error: Literal["fail", "wait"] = "fail"
) -> WorkflowAgent:
    """Make an agent that runs steps, each as soon as the steps are done that it depends on.

    What the steps said stands behind the workflow in an order that respects what depends on what,
    and else in declared order.

    When a step fails for good, no further step begins. Where a step has a `compensate`, the failure
    is final: the finished steps are undone in the reverse of the order in which they finished, each
    once, and `StepFailedError` is raised, also by every resume. Where none has, it is raised as soon as
    the steps have ended that run, and a resume tries the step again, and nothing that had finished.

    Args:
        name: The agent's name.
        steps: The steps; an agent alone is a step that depends on nothing.
        on_error: What becomes of the steps that run when another one fails: "fail" stops each behind
            the step that it is in, "wait" lets them finish; then they are undone, too.

    Returns:
        The agent; nothing is checked before `compile_agent`.
    """
    made = tuple(each if isinstance(each, Step) else step(each) for each in as_tuple(steps))
    return WorkflowAgent(name=name, steps=made, on_error=on_error)


def as_tuple(given: Any) -> tuple[Any, ...]:
    """Return several as a tuple; one alone, strings and tools included, as a tuple of one."""
    if isinstance(given, Iterable) and not isinstance(given, str | Mapping | BaseTool):
        return tuple(given)
    return (given,)
