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
from agentgraph.graph.chat.channels import own_state
from agentgraph.graph.chat.flattened import edited_calls
from agentgraph.graph.chat.nodes import ChatNode
from agentgraph.graph.chat.output import write_value
from agentgraph.graph.chat.step import Step
from agentgraph.graph.chat.tool_call import RunningCall
from agentgraph.graph.lane_position import ChatEnding, Progress
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.gated_task import TaskCall, talk_tasks
from agentgraph.graph.nodes.lane import Lane
from agentgraph.graph.nodes.schedule import Schedule
from agentgraph.graph.nodes.stopping import Stop, inner_stop
from agentgraph.graph.nodes.task_calls import tasks_call
from agentgraph.graph.paired_calls import calls_of
from agentgraph.graph.stored_values import notes_in
from agentgraph.graph.task_results import TaskResult
from agentgraph.graph.values import Write


def _changes_messages(result: TaskResult) -> bool:
    return any("messages" in update for update in result.get("state", ()))


class ToolsNode(ChatNode):
    """Runs the open calls of the agent's last message, and continues with their results."""

    def __init__(self, built: BuiltAgent, lanes: Sequence[Lane]) -> None:
        super().__init__(built)
        place = built.node_context.place
        self.name, self.runner = place.nodes.tools, CallRunner(built, lanes)
        names = {"": place.nodes.call, **{lane.place.given_name: lane.place.node for lane in lanes}}
        self.tasks = {tool: talk_tasks(name, self.runner.talk_in_task) for tool, name in names.items()}

    async def talk(self, activation: Activation) -> None:
        """Run the calls."""
        control = inner_stop()
        if self.runner.agents:
            await activation.read_lanes()
        calls, hands_over, is_alone = self._calls(activation, control)
        if self.asks_history and self.runner.reads_state(calls):
            await activation.view.ask_history()
        if hands_over:
            activation.count_transfer()  # before anything says that it was carried out
        if is_alone:
            results = [await self.runner.talk(calls[0])]
        else:
            is_parallel = self.agent.parallel_tools
            needs = [() if is_parallel or n == 0 else (n - 1,) for n in range(len(calls))]
            schedule = Schedule(needs, control)
            if is_parallel:
                for each in calls:
                    each.park()
            results = [*(await tasks_call(schedule, self._starter(calls, schedule))).values()]
        if self.asks_history and any(map(_changes_messages, results)):
            await activation.view.ask_history()
        self._take(activation, results, is_alone=is_alone, is_granted=hands_over)

    def _calls(self, activation: Activation, control: Stop) -> tuple[list[RunningCall], bool, bool]:
        """Return the open calls, whether one is a transfer, and whether there is one alone.

        Only the last of several transfers is made. A call alone runs in the node itself, if it needs no
        lane, and emits as the node does, unless middleware may make it again.
        """
        built, step = self.built, cache(lambda: self.built.step(activation))
        edited = edited_calls(own_state(activation, built.channels)) if built.wraps_tools else {}
        calls: list[RunningCall] = []
        last_transfer: RunningCall | None = None
        every, emitter, is_alone = open_calls(activation.view), activation.output.emitter, False
        for opened in every:
            tool_name = str(edited.get(str(opened.call["id"]), opened.call)["name"])
            is_alone = len(every) == 1 and tool_name not in self.runner.agents
            if built.wraps_tools or not is_alone:
                emitter = activation.output.new_emitter(is_concurrent=True)
            running = RunningCall(
                built,
                activation,
                opened,
                tool_name,
                emitter,
                control,
                step,
                is_concurrent=len(every) > 1,
            )
            if tool_name in self.runner.handing_over and opened.error is None:
                if last_transfer is not None:
                    last_transfer.is_ignored = True
                last_transfer = running
            calls.append(running)
        return calls, last_transfer is not None, is_alone

    def _starter(
        self, calls: list[RunningCall], schedule: Schedule
    ) -> Callable[[Mode, int, TaskCall], object]:
        """Return a function that starts a task; in sequence, a call sees what earlier calls wrote."""
        last: list[tuple[RunningCall, Any]] = []

        def start(mode: Mode, number: int, call: TaskCall) -> object:
            if number in schedule.resumed:
                calls[number] = calls[number].resumed()
            running = calls[number]
            if last and not self.agent.parallel_tools:
                before, future = last.pop()
                self._continue(running, before, future.result())
            tasks = self.tasks.get(running.tool_name, self.tasks[""])
            future = call(tasks[mode], running)
            last[:] = [(running, future)]
            return future

        return start

    def _continue(self, running: RunningCall, before: RunningCall, result: TaskResult) -> None:
        running.seen, running.step = before.seen, before.step
        running.before = [*before.before, *result.get("state", ())]
        if result["values"]:
            writes = self.node_context.reducers.loaded(result["values"])
            running.seen = running.seen.with_new((), writes)
        if "state" in result:
            running.step = cache(partial(self._merged, running.activation, None, running.before))

    def _merged(
        self,
        activation: Activation,
        visible: Sequence[BaseMessage] | None,
        updates: Sequence[Mapping[str, object]],
    ) -> Step:
        step = self.built.step(activation, visible)
        step.merge_calls(updates)
        return step

    def _merged_with(self, activation: Activation, updates: Sequence[Mapping[str, object]]) -> Step:
        """Return a step that has taken all updates of calls, also of what the agent sees."""
        is_seen = any("messages" in update for update in updates)
        step = self._merged(activation, None if is_seen else (), updates)
        step.emit_changes()
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
            activation.output.write(self._joined(activation, results))
        updates: list[Mapping[str, object]] = []
        for result in results:
            updates += result.get("state", ())
        ordered = results if ending is None else sorted(results, key=lambda each: each is ending)
        for result in ordered:
            notes = notes_in(result) if is_alone else ()
            activation.output.add_emitted(result["messages"], notes)
        step = self._merged_with(activation, updates) if updates else None
        if how == "" and any("break_loop" in result["acts"] for result in results):
            activation.output.emit_note("break_loop")  # outside a loop it has no effect
        if ending is not None:
            self._end(activation, ending, how, step, is_granted=is_granted)
        elif activation.view.progress.get("answer"):
            self.built.end_after_hooks(activation, ChatEnding(keeps=True), step)
        else:
            self._repeat_question(activation, step)

    def _joined(self, activation: Activation, results: Sequence[TaskResult]) -> list[Write]:
        is_parallel = self.agent.parallel_tools
        written = {result["number"]: result["values"] for result in results}

        def label(number: int) -> str:
            opened = {each.number: each.call["name"] for each in open_calls(activation.view)}
            return f"{opened[number]}, call {number}"

        seen, at = activation.view.state, activation.address
        return seen.joined(at, written, lambda *_: is_parallel, label, are_lanes=False)

    def _decide(self, results: Sequence[TaskResult]) -> tuple[TaskResult | None, str]:
        """Return the result that ends the agent, and how; the last one if there are several."""
        for act in ("exit", "break_loop", "transfer_to", "leaving", "ends"):
            for result in reversed(results):
                if act in result["acts"] and (act != "break_loop" or self.node_context.place.in_loop):
                    return result, act
        for result in reversed(results):
            for message in result["messages"]:
                is_result = isinstance(message, ToolMessage) and message.status == "success"
                if is_result and message.name in self.runner.returning:
                    return result, ""
        return None, ""

    def _repeat_question(self, activation: Activation, step: Step | None) -> None:
        before = activation.view.progress
        count = before.get("tool_calls", 0) + len(calls_of(last_message(activation.view)))
        progress: Progress = {"model_calls": before.get("model_calls", 0), "tool_calls": count}
        if step is not None and (passed := step.save_edits()):
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
        leaving, is_last = ChatEnding(), self.node_context.place.nodes.after_agent is None
        match how:
            case "exit" | "break_loop":
                leaving["signal"] = how
                leaving.update(ending["acts"][how])
            case "leaving":
                leaving["leaving"] = ending["acts"]["leaving"]
            case "transfer_to":
                leaving["target"] = ending["acts"]["transfer_to"]
                if "task" in ending["acts"]:
                    leaving["task"] = ending["acts"]["task"]
                if is_granted:
                    leaving["granted"] = True
        is_kept = how not in ("transfer_to", "leaving")
        self.built.end_after_hooks(
            activation, ChatEnding(**leaving, keeps=is_kept and not is_last), step
        )
        if is_kept and is_last:
            text = activation.output.last_text() or ""
            write_value(activation, self.agent, None, self.built.answer_format, text)
