"""What takes the place of unknown names, so that the faults of the tree are told with theirs."""

from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig

from agentgraph.agents.builders import function_agent
from agentgraph.skills.references import References, Registry, UnknownReferenceError


class AnyModel(Runnable[Any, Any]):
    """A model that takes tools and is never asked."""

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        """Refuse to run."""
        raise NotImplementedError("it stands for a model that is not known")

    def bind_tools(self, tools: Any, **_: Any) -> "AnyModel":
        """Take tools."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIns(References):
    """References that find something for every name."""

    @classmethod
    def of(cls, names: References) -> "StandIns":
        """Return references that know the same names."""
        return cls(tools=names.tools, models=names.models, agents=names.agents, allow=names.allow)

    def find(self, registry: Registry, name: str) -> Any:
        """Return what a name stands for, or something that could do what it may have done."""
        try:
            return References.find(self, registry, name)
        except UnknownReferenceError:
            return _stand_in(registry, name.rpartition(":")[2])


def _stand_in(registry: Registry, name: str) -> Any:
    def anything(ctx):  # type: ignore[no-untyped-def]  # without a return annotation it may do all
        """Stand for something that is not known."""

    anything.__name__ = name
    if registry == "models":
        return AnyModel()
    return anything if registry == "tools" else function_agent(name, anything)
