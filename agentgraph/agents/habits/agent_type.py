"""The type of all agents as `ag.Agent` at runtime: for type checkers it is a union.

A union cannot be called, and says so in the words of Python; many libraries have a class of this name.
"""

from typing import Any

from agentgraph.agents.agents import Agent as Union

_BUILDERS = (
    "use ag.chat_agent(name, model, tools=[...]), ag.function_agent(name, fn), ag.sequential(name, "
    "[a, b]), ..."
)


class _OfAllAgents(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Union)

    def __call__(cls, *_: object, **__: object) -> Any:
        raise TypeError(f"ag.Agent is the type of all agents; {_BUILDERS}")


class Agent(metaclass=_OfAllAgents):
    """An agent of a tree: a frozen value that describes a run and has no behaviour."""

    def __init_subclass__(cls) -> None:
        """Refuse subclasses.

        Raises:
            TypeError: Always.
        """
        raise TypeError("agents are not subclassed; write a function with @ag.agent")
