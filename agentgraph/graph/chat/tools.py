"""The node that runs the tool calls of a chat agent.

Each of several calls is a LangGraph task: LangGraph saves its result, so no call runs twice, and each
answer reaches the call that asked. A single call runs in the node itself, unless it runs a lane.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage

from agentgraph.agents.middleware import Mode
from agentgraph.graph.chat.agent import BuiltAgent
from agentgraph.graph.chat.call_runner import CallRunner
from agentgraph.graph.chat.calls import last_message, open_calls
from agentgraph.graph.chat.laid_flat import edited_calls
from agentgraph.graph.chat.nodes import ChatNode
from agentgraph.graph.chat.output import write_value
from agentgraph.graph.chat.running_call import RunningCall
from agentgraph.graph.chat.step import Step, own_state
from agentgraph.graph.history import calls_of
from agentgraph.graph.moments import note_of
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.lane import Lane
from agentgraph.graph.nodes.schedule import (
    Schedule,
    TaskCall,
    talk_tasks,
    tasks_call,
)
from agentgraph.graph.nodes.stopping import Stop, inner_stop
from agentgraph.graph.state import ChatEnding, Progress, TaskResult
from agentgraph.graph.sync_async import Calls
from agentgraph.graph.values import Write


class ToolsNode(ChatNode):
    """Runs the open calls of the agent's last message, and continues with their results."""

    def __init__(self, built: BuiltAgent, lanes: Sequence[Lane]) -> None:
        super().__init__(built)
        place = built.node_context.place
        self.name, self.runner = place.nodes.tools, CallRunner(built, lanes)
        names = {"": place.nodes.call, **{lane.place.name: lane.place.node for lane in lanes}}
        self.tasks = {tool: talk_tasks(name, self.runner.talk) for tool, name in names.items()}

    def talk(self, activation: Activation) -> Calls[None]:
        """Run the calls."""
        control = inner_stop()
        if self.runner.agents:
            yield from activation.read_lanes()
        calls, hands_over = self._calls(activation, control)
        if hands_over:
            activation.count_transfer()  # before anything says that it was carried out
        is_alone = len(calls) == 1 and calls[0].wanted not in self.runner.agents
        if is_alone:
            results = [(yield from self.runner.talk(calls[0]))]
        else:
            is_beside = self.agent.parallel_tools
            needs = [() if is_beside or n == 0 else (n - 1,) for n in range(len(calls))]
            schedule = Schedule(needs, control)
            node, start = self.node_context.place.nodes.tools, self._starter(calls, schedule)
            results = [*(yield tasks_call(node, activation.config, schedule, start)).values()]
        self._take(activation, results, is_alone=is_alone, is_granted=hands_over)

    def _calls(self, activation: Activation, control: Stop) -> tuple[list[RunningCall], bool]:
        """Return the open calls, and whether one is a transfer; only the last of several is made."""
        built, step = self.built, cache(lambda: self.built.step(activation))
        edited = edited_calls(own_state(activation, built.channels)) if built.wraps_tools else {}
        calls: list[RunningCall] = []
        last_transfer: RunningCall | None = None
        for opened in open_calls(activation):
            wanted = str(edited.get(str(opened.call["id"]), opened.call)["name"])
            running = RunningCall(built, activation, opened, wanted, control, step)
            if wanted in self.runner.handing_over and opened.error is None:
                if last_transfer is not None:
                    last_transfer.is_passed_over = True
                last_transfer = running
            calls.append(running)
        return calls, last_transfer is not None

    def _starter(
        self, calls: Sequence[RunningCall], schedule: Schedule
    ) -> Callable[[Mode, int, TaskCall], Any]:
        """Return a function that starts a task; in sequence, a call sees what earlier calls wrote."""
        last: list[tuple[RunningCall, Any]] = []

        def start(mode: Mode, number: int, call: TaskCall) -> Any:
            running = calls[number]
            if last and not self.agent.parallel_tools:
                before, future = last.pop()
                self._continue(running, before, future.result())
            tasks = self.tasks.get(running.wanted, self.tasks[""])
            future = call(tasks[mode], running)
            last[:] = [(running, future)]
            return future

        return start

    def _continue(self, running: RunningCall, before: RunningCall, result: TaskResult) -> None:
        """Show a call the values and state that the call before it left."""
        running.seen, running.step = before.seen, before.step
        running.before = [*before.before, *result.get("state", ())]
        if result["values"]:
            running.seen = running.seen.with_new((), result["values"])
        if "state" in result:
            running.step = cache(partial(self._merged, running.activation, None, running.before))

    def _merged(
        self,
        activation: Activation,
        visible: Sequence[BaseMessage] | None,
        updates: Sequence[Mapping[str, Any]],
    ) -> Step:
        """Return a step whose state includes updates of calls."""
        step = self.built.step(activation, visible)
        step.merge_calls(updates)
        return step

    def _merged_with(self, activation: Activation, updates: Sequence[Mapping[str, Any]]) -> Step:
        """Return a step that has taken all updates of calls, also of what the agent sees."""
        is_seen = any("messages" in update for update in updates)
        step = self._merged(activation, None if is_seen else (), updates)
        step.say()
        return step

    def _take(
        self,
        activation: Activation,
        results: Sequence[TaskResult],
        *,
        is_alone: bool,
        is_granted: bool,
    ) -> None:
        """Write the results in the order of the calls; the one that ends the agent comes last.

        The node saves the other events of a single call; those of several are saved by their tasks.

        Args:
            activation: The activation of the agent.
            results: The results of the calls.
            is_alone: Whether there is a single call, which ran in the node itself.
            is_granted: Whether a transfer is counted already.
        """
        ending, how = self._decide(results)
        if is_granted and how != "transfer_to":
            activation.uncount_transfer()
        if any(result["values"] for result in results):
            activation.write(self._joined(activation, results))
        updates: list[Mapping[str, Any]] = []
        for result in results:
            updates += result.get("state", ())
        for result in sorted(results, key=lambda each: each is ending):
            notes = map(note_of, result["position"]["told"]) if is_alone else ()
            activation.add_emitted(result["messages"], [*notes])
        step = self._merged_with(activation, updates) if updates else None
        if how == "" and any("break_loop" in result["acts"] for result in results):
            activation.emit_note("break_loop")  # outside a loop it has no effect
        if ending is not None:
            self._end(activation, ending, how, step, is_granted=is_granted)
        elif activation.progress.get("answer"):
            self.built.leave(activation, ChatEnding(keeps=True), step)
        else:
            self._ask_again(activation, step)

    def _joined(self, activation: Activation, results: Sequence[TaskResult]) -> list[Write]:
        """Return the values that the calls wrote, in the order of the calls."""
        is_beside = self.agent.parallel_tools
        written = {result["number"]: result["values"] for result in results}

        def label(number: int) -> str:
            opened = {each.number: each.call["name"] for each in open_calls(activation)}
            return f"{opened[number]}, call {number}"

        return activation.seen.joined(activation.address, written, lambda *_: is_beside, label)

    def _decide(self, results: Sequence[TaskResult]) -> tuple[TaskResult | None, str]:
        """Return the result that ends the agent, and how; the last one if there are several."""
        acts = ("exit", "break_loop", "transfer_to")
        for act in acts if self.node_context.place.in_loop else ("exit", "transfer_to"):
            for result in reversed(results):
                if act in result["acts"]:
                    return result, act
        for result in reversed(results):
            for message in result["messages"]:
                is_result = isinstance(message, ToolMessage) and message.status == "success"
                if is_result and message.name in self.runner.returning:
                    return result, ""
        return None, ""

    def _ask_again(self, activation: Activation, step: Step | None) -> None:
        before = activation.progress
        count = before.get("tool_calls", 0) + len(calls_of(last_message(activation)))
        progress: Progress = {"model_calls": before.get("model_calls", 0), "tool_calls": count}
        if step is not None and (passed := step.keep()):
            progress["passed"] = passed
        activation.continue_at(self.node_context.place.nodes.round, chat=progress)

    def _end(
        self,
        activation: Activation,
        ending: TaskResult,
        how: str,
        step: Step | None,
        *,
        is_granted: bool,
    ) -> None:
        """End the agent with the action or the result of a call."""
        leaving, is_last = ChatEnding(), self.node_context.place.nodes.after_agent is None
        match how:
            case "exit" | "break_loop":
                leaving["signal"] = how
            case "transfer_to":
                leaving["target"] = ending["acts"]["transfer_to"]
                if is_granted:
                    leaving["granted"] = True
        is_kept = "target" not in leaving
        self.built.leave(activation, ChatEnding(**leaving, keeps=is_kept and not is_last), step)
        if is_kept and is_last:
            write_value(activation, self.agent, None, self.built.wanted, activation.last_text() or "")
