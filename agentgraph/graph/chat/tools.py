"""The node that runs the tools of a chat agent: a LangGraph task for each of several calls.

So none runs twice, and answers cannot change places. A call that is alone needs no task but the
node, unless it runs a lane.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig

from agentgraph.graph.chat.acting import Scope
from agentgraph.graph.chat.agent import BuiltAgent
from agentgraph.graph.chat.attempts import Attempts
from agentgraph.graph.chat.call_runner import CallRunner
from agentgraph.graph.chat.calls import last_message, open_calls
from agentgraph.graph.chat.laid_flat import edited_calls
from agentgraph.graph.chat.outcome import Outcome
from agentgraph.graph.chat.output import keep_text
from agentgraph.graph.chat.step import Step, own_state
from agentgraph.graph.history import calls_of
from agentgraph.graph.moments import note_of
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.lane import Lane
from agentgraph.graph.nodes.schedule import (
    Schedule,
    arun_tasks,
    check_threads,
    gated_task,
    run_tasks,
    slots,
)
from agentgraph.graph.nodes.stopping import Stop, inner_stop
from agentgraph.graph.state import LaneState, Leaving, Progress, TaskResult, Update
from agentgraph.graph.values import Write

_INSTEAD = "or make it more than {}"


class ToolsNode(Runnable[LaneState, Update]):
    """Runs the open calls of the agent's last message, and goes on with what they come to."""

    def __init__(self, built: BuiltAgent, lanes: Sequence[Lane]) -> None:
        self.site, self.agent, self.built = built.site, built.agent, built
        site = built.site
        self.name = site.place.tools_node
        self.runner = CallRunner(built, lanes)
        names = {"": site.place.call_task, **{lane.place.name: lane.place.node for lane in lanes}}
        self.tasks = {tool: gated_task(name, self.runner.run) for tool, name in names.items()}
        self.atasks = {tool: gated_task(name, self.runner.arun) for tool, name in names.items()}

    def invoke(self, input: LaneState, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Run the calls in threads."""
        check_threads(self.site.place.tools_node, config or {}, _INSTEAD)
        activation, control = Activation(self.site, input, config or {}), inner_stop()
        with activation.reported():
            self.built.check_mode(activation, "sync")
            scopes = self._scopes(activation, input, control)
            if self._is_task(scopes):
                return self._update(activation, input, [self.runner.run(scopes[0])], is_alone=True)
            schedule = self._schedule(scopes, control)
            results = run_tasks(self._starts(self.tasks, scopes, schedule), schedule)
            return self._update(activation, input, [*results.values()])

    async def ainvoke(self, input: LaneState, config: RunnableConfig | None = None, **_: Any) -> Update:
        """Run the calls on the event loop."""
        activation, control = Activation(self.site, input, config or {}), inner_stop()
        with activation.reported():
            self.built.check_mode(activation, "async")
            scopes = self._scopes(activation, input, control)
            if self._is_task(scopes):
                return self._update(
                    activation, input, [await self.runner.arun(scopes[0])], is_alone=True
                )
            schedule = self._schedule(scopes, control)
            starts = self._starts(self.atasks, scopes, schedule)
            results = await arun_tasks(starts, schedule, slots=slots(config))
            return self._update(activation, input, [*results.values()])

    def _scopes(self, activation: Activation, state: LaneState, control: Stop) -> list[Scope]:
        """Return the scopes of the open calls; of their transfers only the last is carried out."""
        built, opened = self.built, open_calls(activation, state)
        edited = edited_calls(own_state(activation, built.channels)) if built.wraps_tools else {}
        tools = [str(edited.get(str(each.call["id"]), each.call)["name"]) for each in opened]
        transfers = [i for i, each in enumerate(opened) if self.runner.transfers(each, tools[i])]
        passed_over = {*transfers[:-1]}
        step = cache(lambda: built.step(activation))
        return [
            Scope(
                Outcome(activation, each, built.channels.own),
                tools[i],
                control,
                activation.seen,
                step,
                Attempts(activation, each.number, built.wraps_tools),
                is_passed_over=i in passed_over,
            )
            for i, each in enumerate(opened)
        ]

    def _is_task(self, scopes: Sequence[Scope]) -> bool:
        """Tell whether the node itself serves as the task: for one call alone, of a plain tool."""
        return len(scopes) == 1 and scopes[0].tool not in self.runner.agents

    def _schedule(self, scopes: Sequence[Scope], control: Stop) -> Schedule:
        """Return when the calls run: at once, or each when the one before it has come to a result."""
        is_beside = self.agent.parallel_tools
        return Schedule([() if is_beside or n == 0 else (n - 1,) for n in range(len(scopes))], control)

    def _starts(
        self, tasks: dict[str, Callable[..., Any]], scopes: Sequence[Scope], schedule: Schedule
    ) -> list[Callable[[], Any]]:
        """Return what starts the task of each call; one in turn sees what those before it wrote."""
        last: list[tuple[Scope, Any]] = []

        def start(number: int, scope: Scope) -> Any:
            if last and not self.agent.parallel_tools:
                before, future = last.pop()
                scope = self._after(scope, before, future.result())
            task = tasks.get(scope.tool, tasks[""])
            future = task(partial(schedule.arrive, number), scope)
            last[:] = [(scope, future)]
            return future

        return [partial(start, number, scope) for number, scope in enumerate(scopes)]

    def _after(self, scope: Scope, before: Scope, result: TaskResult) -> Scope:
        """Return the scope of a call that runs when the one before it has come to a result."""
        seen, step, updates = before.seen, before.step, [*before.updates, *result.get("state", ())]
        if result["values"]:
            seen = seen.with_new((), result["values"])
        if "state" in result:
            step = cache(partial(self._merged, scope.outcome.activation, None, updates))
        return scope._replace(seen=seen, step=step, updates=updates)

    def _merged(
        self,
        activation: Activation,
        visible: Sequence[BaseMessage] | None,
        updates: Sequence[Mapping[str, Any]],
    ) -> Step:
        """Return what the agent sees, and the state of its middleware with updates of calls."""
        step = self.built.step(activation, visible)
        step.merge(updates)
        return step

    def _update(
        self,
        activation: Activation,
        state: LaneState,
        results: Sequence[TaskResult],
        *,
        is_alone: bool = False,
    ) -> Update:
        """Write the results in the order of the calls, but last the one that ends the agent.

        What a call that was alone told besides is kept with the node; else the task keeps it.
        """
        ending, how = self._decide(results)
        activation.write(self._joined(activation, state, results))
        for result in results:
            activation.transfers += result.get("transfers", 0)
        for result in sorted(results, key=lambda each: each is ending):
            notes = map(note_of, result["position"]["told"]) if is_alone else ()
            activation.keep_told(result["messages"], [*notes])
        step = self._step(activation, results)
        if ending is None and activation.progress.get("answer"):
            self.built.leave(activation, Leaving(keeps=True), step)
        elif ending is None:
            self._ask_again(activation, state, step)
        self._steer(activation, ending, how, results, step)
        return activation.update()

    def _step(self, activation: Activation, results: Sequence[TaskResult]) -> Step | None:
        """Return the state of the middleware with what the calls made of it, if they changed it."""
        updates = [update for result in results for update in result.get("state", ())]
        if not updates:
            return None
        return self._merged(activation, (), updates)

    def _joined(
        self, activation: Activation, state: LaneState, results: Sequence[TaskResult]
    ) -> list[Write]:
        """Return what the calls wrote, in their order."""
        is_beside = self.agent.parallel_tools
        written = {result["number"]: result["values"] for result in results}

        def label(number: int) -> str:
            opened = {each.number: each.call["name"] for each in open_calls(activation, state)}
            return f"{opened[number]}, call {number}"

        return activation.seen.joined(activation.address, written, lambda *_: is_beside, label)

    def _decide(self, results: Sequence[TaskResult]) -> tuple[TaskResult | None, str]:
        """Return the result that ends the agent, if one does, and how; of several the last."""
        acts = ("exit", "break_loop", "transfer_to")
        for act in acts if self.site.place.in_loop else ("exit", "transfer_to"):
            for result in reversed(results):
                if act in result["acts"]:
                    return result, act
        return next((result for result in reversed(results) if self._returns(result)), None), ""

    def _ask_again(self, activation: Activation, state: LaneState, step: Step | None) -> None:
        before = activation.progress
        count = before.get("tool_calls", 0) + len(calls_of(last_message(activation, state)))
        progress: Progress = {"model_calls": before.get("model_calls", 0), "tool_calls": count}
        if step is not None and (passed := step.keep()):
            progress["passed"] = passed
        activation.stay(self.site.place.round_node, chat=progress)

    def _steer(
        self,
        activation: Activation,
        ending: TaskResult | None,
        how: str,
        results: Sequence[TaskResult],
        step: Step | None,
    ) -> None:
        leaving = Leaving()
        match how:
            case "exit" | "break_loop":
                leaving["signal"] = how
            case "transfer_to" if ending:
                leaving["target"] = ending["acts"]["transfer_to"]
            case _ if any("break_loop" in result["acts"] for result in results):
                activation.tell("break_loop")  # there is no loop: it changes nothing
        if ending is None:
            return
        is_kept, is_last = "target" not in leaving, self.site.place.after_agent_node is None
        self.built.leave(activation, Leaving(**leaving, keeps=is_kept and not is_last), step)
        if is_kept and is_last and self.agent.output_key:
            keep_text(activation, self.agent, self.built.wanted, activation.last_text() or "")

    def _returns(self, result: TaskResult) -> bool:
        messages = [m for m in result["messages"] if isinstance(m, ToolMessage)]
        return any(m.name in self.runner.returning and m.status == "success" for m in messages)
