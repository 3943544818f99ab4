"""An agent that begins with what its helpers found: a Parallel, and then the agent."""

from collections.abc import Iterable

from agentgraph.agents.agents import Agent, SequentialAgent
from agentgraph.agents.composites import as_tuple, parallel, sequential


def with_helpers(main: Agent, helpers: Iterable[Agent], *, description: str = "") -> SequentialAgent:
    """Make an agent that runs helpers at the same time, and then the main agent.

    The main agent sees what the helpers said, in their declared order, and the values that they
    wrote. For a main agent `writer` this is `sequential("writer_with_helpers", [parallel(
    "writer_helpers", helpers), writer])`, and so are the run paths: `writer_with_helpers/
    writer_helpers/facts`, then `writer_with_helpers/writer_helpers/writer`.

    >>> facts = function_agent("facts", lambda ctx: "Bees hum.")
    >>> writer = function_agent("writer", lambda ctx: f"A text on: {ctx.messages[-1].text}")
    >>> [event.text for event in Runner(with_helpers(writer, [facts])).query("Go.")]
    ['Bees hum.', 'A text on: [facts] said: Bees hum.']

    Args:
        main: The agent that answers.
        helpers: The agents that run before it; at least one. Where one fails, the whole fails.
        description: What both are for, in a sentence that other agents read; without one, that of
            the main agent.

    Returns:
        The agent; nothing is checked before `compile_agent`.
    """
    name = getattr(main, "name", main)
    inner = [parallel(f"{name}_helpers", as_tuple(helpers)), main]
    about = description or getattr(main, "description", "")
    return sequential(f"{name}_with_helpers", inner, description=about)
