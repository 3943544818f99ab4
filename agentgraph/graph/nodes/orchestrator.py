"""The node of a function that runs agents: `ctx.run` runs each call in its own lane.

The problem: the function is plain Python, and starts from scratch on each resume. So each call must be
found again, a question inside must pause the function wherever it is and whatever it catches, and
finished work must not run again.

The rule:

- Each call is a LangGraph task. It is known by its key, else by its number among the calls without one;
  its saved result has the agent and the request, so that a function that asks something else on a
  resume is found out. The lane of a call that was running when the process died has the request; so
  that is found out too, unless another agent is called: then that one starts.
- A call that asks waits for its answer while others run (`parked_calls.py`). Then it pauses: it raises
  `CallPaused` in the function, which is not an `Exception`. From then on all calls of the activation
  pause at once. However the function ends then, the node waits for the running calls and pauses with
  all their questions.
- A call that fails raises its exception in the function, and the failure is saved. If the function ends
  by it, the call runs again on a resume, from its failed step. If not, the function has caught it: then
  it is an error event, and a resume raises it again without running the agent.
- A call that the function cancels (`wait_for`, `TaskGroup`), or leaves running when it returns, is
  stopped: a failure that it has caught, a `TimeoutError`.
- What calls wrote is joined in the order in which they were made, whichever ended first.
- Results are saved with the checkpoint of the step. An `Ask` begins a new one, so the position carries
  the results of the calls before it.

`saved_calls.py` finds what is saved of a call, `run_calls.py` makes the calls, `ended_calls.py`
ends them.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Sequence
from concurrent.futures import wait

from agentgraph.agents.signals import Capabilities
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.calling import is_being_cancelled, run_coroutine, run_in_thread
from agentgraph.graph.nodes.context import NodeContext
from agentgraph.graph.nodes.ended_calls import end_calls
from agentgraph.graph.nodes.function import FunctionCall, FunctionNode
from agentgraph.graph.nodes.lane import Lane
from agentgraph.graph.nodes.run_calls import CallPaused, RunCalls, called_lane
from agentgraph.graph.sync_async import arun_calls, run_calls


class OrchestratorNode(FunctionNode):
    """Calls a function that runs agents."""

    runs_lanes = True

    def __init__(
        self, node_context: NodeContext, capabilities: Capabilities, lanes: Sequence[Lane]
    ) -> None:
        super().__init__(node_context, capabilities)
        several = [(lane.place, called_lane(lane)) for lane in lanes]
        self.lanes = {name: lane for place, lane in several for name in place.names}

    def run(self, activation: Activation) -> None:
        """Call the function, and wait for the agents that it runs."""
        runs = RunCalls(activation, self.lanes, is_async=self.is_async)
        run_calls(activation.read_lanes())
        run_calls(runs.saved.read())
        call, error = FunctionCall(self, activation, runs.context(activation.view.history)), None
        try:
            rest = call.start()
            if rest is not None:
                run_coroutine(_finished(call, rest, runs))
        except BaseException as raised:
            error = raised
        runs.close(error)
        wait([each.future for each in runs.running()])
        run_calls(end_calls(runs, error))
        call.end()

    async def arun(self, activation: Activation) -> None:
        """Call the function on the event loop or in a thread, and wait for the agents that it runs."""
        if self.asks_history:
            await arun_calls(activation.view.ask_history())
        loop = asyncio.get_running_loop()
        runs = RunCalls(activation, self.lanes, is_async=self.is_async, loop=loop)
        await arun_calls(activation.read_lanes())
        await arun_calls(runs.saved.read())
        call, error = FunctionCall(self, activation, runs.context(activation.view.history)), None
        try:
            rest = call.start() if self.is_async else await run_in_thread(call.start)
            if rest is not None:
                await _finished(call, rest, runs)
        except BaseException as raised:
            error = raised
        runs.close(error)
        if isinstance(error, CallPaused) and is_being_cancelled():  # by the timeout of the agent
            error = asyncio.CancelledError()
            runs.cut_off()
        if running := [each.future for each in runs.running()]:
            await asyncio.wait(running)
        await arun_calls(end_calls(runs, error))
        call.end()


async def _finished(
    call: FunctionCall, rest: Awaitable[object] | AsyncGenerator[object], runs: RunCalls
) -> None:
    """Await the function; its event loop, which cancels what it has left, knows how it ended."""
    try:
        await call.finish(rest)
    except BaseException as error:
        runs.close(error)
        raise
    runs.close(None)
