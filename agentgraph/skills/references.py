"""What names in a skill file stand for: the registries, and references that were allowed."""

import importlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from inspect import isclass, ismodule, isroutine
from types import ModuleType
from typing import Any, Literal

from langchain_core.runnables import Runnable, RunnableConfig
from pydantic_core import PydanticCustomError

from agentgraph.agents.agents import Agent
from agentgraph.agents.builders import function_agent
from agentgraph.errors import AgentGraphError
from agentgraph.graph.chat.models import providers
from agentgraph.safe_repr import reason, shown

Registry = Literal["tools", "models", "agents"]

_ALLOWED = re.compile(r"(?!__)[^\W\d]\w*(\.(?!__)[^\W\d]\w*)*:(\*|(?!_)[^\W\d]\w*)")


def refused(text: str) -> PydanticCustomError:
    """Return what pydantic tells as it is: what is wrong with a value, and what to do."""
    return PydanticCustomError("refused", "{text}", {"text": text})


class AnyModel(Runnable[Any, Any]):
    """A model that takes tools and is never asked."""

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        """Refuse to run."""
        raise NotImplementedError("it stands for a model that is not known")

    def bind_tools(self, tools: Any, **_: Any) -> "AnyModel":
        """Take tools."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """What the names in a file may stand for.

    Attributes:
        tools: The tools by name.
        models: The models by name.
        agents: The agents by name.
        allow: The references `module:attribute` that may be imported; `module:*` for the `__all__`
            of a module, or without one for the public names that it does not import from others.
        finds_all: Whether unknown names stand for what may do all that they could: so the faults of
            the tree are told together with those of names.
    """

    tools: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, Any] = field(default_factory=dict)
    agents: Mapping[str, Any] = field(default_factory=dict)
    allow: tuple[str, ...] = ()
    finds_all: bool = False

    def __post_init__(self) -> None:
        for each in self.allow:
            if not isinstance(each, str) or not _ALLOWED.fullmatch(each):
                raise AgentGraphError(
                    f"{shown(each)} cannot be allowed; write 'module:name' with a public name, or "
                    "'module:*'"
                )

    def find(self, registry: Registry, name: str) -> Any:
        """Return what a name stands for; nothing that it stands for is called.

        Raises:
            PydanticCustomError: It stands for nothing.
        """
        try:
            return self._found(registry, name)
        except PydanticCustomError:
            if not self.finds_all:
                raise
            return _stand_in(registry, name.rpartition(":")[2])

    def _found(self, registry: Registry, name: str) -> Any:
        found = self._named(registry, name)
        if registry == "agents" and not isinstance(found, Agent):
            raise refused(
                f"{name!r} is of type {type(found).__name__}, which is not an agent; build one with "
                "chat_agent, human, sequential, ..."
            )
        return found

    def _named(self, registry: Registry, name: str) -> Any:
        known: Mapping[str, Any] = getattr(self, registry)
        if name in known:
            return known[name]
        if registry == "models" and self._is_of_provider(name):
            return name
        if ":" in name:
            return self._imported(name, _provider_hint(name) if registry == "models" else "")
        raise refused(_unknown(registry, name, known))

    def _is_of_provider(self, name: str) -> bool:
        """Return whether a name is LangChain's, as `openai:gpt-5`; what may be imported comes first."""
        prefix, colon, model = name.partition(":")
        return bool(colon and model) and not self._allows(name) and prefix in providers()

    def _allows(self, name: str) -> bool:
        return name in self.allow or f"{name.partition(':')[0]}:*" in self.allow

    def _imported(self, name: str, hint: str) -> Any:
        if not _ALLOWED.fullmatch(name) or name.endswith("*"):
            raise refused(
                f"{name!r} is no reference; write 'module:name', with one public name behind the colon"
                f"{hint}"
            )
        if not self._allows(name):
            raise refused(
                f"{name!r} may not be imported; if you trust it, pass allow=[{name!r}], "
                f"or --allow {name} on the command line{hint}"
            )
        module_name, _, attribute = name.partition(":")
        module = _module(module_name, name)
        if attribute in vars(module) and (name in self.allow or attribute in _public(module)):
            return vars(module)[attribute]  # getattr could call the module's __getattr__
        raise refused(
            f"the module {module_name!r} offers no {attribute!r}{alike(attribute, _public(module))}; "
            "it offers its __all__, or without one what it defines itself"
        )


def _provider_hint(name: str) -> str:
    close = alike(name.partition(":")[0], providers())
    return f"; no provider of models has that name{close}" if close else ""


def _module(module_name: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise refused(
            f"{name!r} cannot be imported: {type(error).__name__}: {reason(error)}"
        ) from error


def _public(module: ModuleType) -> list[str]:
    """Return what a module offers where all of it is allowed."""
    names = vars(module)
    listed = names.get("__all__")
    own = [name for name, value in names.items() if _is_own(value, module.__name__)]
    return [name for name in own if not name.startswith("_")] if listed is None else [*listed]


def _is_own(value: Any, module_name: str) -> bool:
    """Return whether a value is no module, function or class that comes from elsewhere."""
    if not (isroutine(value) or isclass(value) or ismodule(value)):
        return True
    home = str(getattr(value, "__module__", None))
    return f"{home}.".startswith(f"{module_name}.")


def _unknown(registry: Registry, name: str, known: Mapping[str, Any]) -> str:
    kind = registry.removesuffix("s")
    if not known:
        return (
            f"there is no {kind} {name!r}, for no {registry} were given; pass {registry}={{{name!r}: "
            f"...}}, or on the command line --registry with a file that has such a dict {registry!r}"
        )
    return f"there is no {kind} {name!r}{alike(name, known)}; there are: {', '.join(map(str, known))}"


def alike(word: str, known: Iterable[Any]) -> str:
    """Return a question after the known word that is most like another; nothing where none is.

    >>> alike("serch", ["search", "fetch"])
    " (did you mean 'search'?)"
    """
    close = get_close_matches(word, [str(each) for each in known], 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _stand_in(registry: Registry, name: str) -> Any:
    def anything(ctx):  # type: ignore[no-untyped-def]  # without a return annotation it may do all
        """Stand for something that is not known."""

    anything.__name__ = name
    if registry == "models":
        return AnyModel()
    return anything if registry == "tools" else function_agent(name, anything)
