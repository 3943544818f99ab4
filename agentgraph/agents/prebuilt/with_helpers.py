"""An agent that runs after its helpers: a parallel agent of the helpers, and then the agent."""

from collections.abc import Iterable

from agentgraph.agents.agents import Agent, SequentialAgent
from agentgraph.agents.composites import as_tuple, parallel, sequential


def with_helpers(main: Agent, helpers: Iterable[Agent], *, description: str = "") -> SequentialAgent:
    """Make an agent that runs helpers at the same time, and then the main agent.

    The main agent sees the helpers' messages, in declared order, and the values that they
    wrote. For a main agent `writer` this is `sequential("writer_with_helpers", [parallel(
    "writer_helpers", helpers), writer])`, and so are the run paths: `writer_with_helpers/
    writer_helpers/facts`, then `writer_with_helpers/writer_helpers/writer`.

    >>> facts = function_agent("facts", lambda ctx: "Bees hum.")
    >>> writer = function_agent("writer", lambda ctx: f"A text on: {ctx.messages[-1].text}")
    >>> [event.text for event in Runner(with_helpers(writer, [facts])).query("Go.")]
    ['Bees hum.', 'A text on: [facts] said: Bees hum.']

    Args:
        main: The agent that answers.
        helpers: The agents that run before it; at least one. If one fails, the whole agent fails.
        description: What the whole is for, in one sentence for other agents; by default the
            description of the main agent.

    Returns:
        The agent; `compile_agent` checks it.
    """
    name = getattr(main, "name", main)
    inner = [parallel(f"{name}_helpers", as_tuple(helpers)), main]
    about = description or getattr(main, "description", "")
    return sequential(f"{name}_with_helpers", inner, description=about)
