"""Looks up the names in a skill file: in the registries, and as references that may be imported."""

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
from agentgraph.graph.named_models import providers
from agentgraph.safe_repr import reason, shown

Registry = Literal["tools", "models", "agents"]

_ALLOWED = re.compile(r"(?!__)[^\W\d]\w*(\.(?!__)[^\W\d]\w*)*:(\*|(?!_)[^\W\d]\w*)")


def fault_error(text: str) -> PydanticCustomError:
    """Make an error whose text pydantic leaves unchanged."""
    return PydanticCustomError("refused", "{text}", {"text": text})


class AnyModel(Runnable[Any, Any]):
    """A placeholder for an unknown model; it accepts tools and is never called."""

    def invoke(self, input: object, config: RunnableConfig | None = None, **_: object) -> object:
        """Raise an error because the model is unknown."""
        raise NotImplementedError("a placeholder for an unknown model cannot be called")

    def bind_tools(self, tools: object, **_: object) -> "AnyModel":
        """Return the placeholder itself."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """The objects to which names in a file may refer.

    Attributes:
        tools: The tools by name.
        models: The models by name.
        agents: The agents by name.
        allow: The references `module:attribute` that may be imported; `module:*` for the `__all__`
            of a module, or else for the public names that it defines itself.
        finds_all: Whether unknown names become placeholders, so that faults of the tree can be
            reported together with faults of names.
    """

    tools: Mapping[str, object] = field(default_factory=dict)
    models: Mapping[str, object] = field(default_factory=dict)
    agents: Mapping[str, object] = field(default_factory=dict)
    allow: tuple[str, ...] = ()
    finds_all: bool = False

    def __post_init__(self) -> None:
        for each in self.allow:
            if not isinstance(each, str) or not _ALLOWED.fullmatch(each):
                raise AgentGraphError(
                    f"{shown(each)} cannot be allowed; write 'module:name' with a public name, or "
                    "'module:*'"
                )

    def find(self, registry: Registry, name: str) -> object:
        """Find the object of a name, without calling it.

        Raises:
            PydanticCustomError: The name is unknown or not allowed.
        """
        try:
            return self._object(registry, name)
        except PydanticCustomError:
            if not self.finds_all:
                raise
            return _placeholder(registry, name.rpartition(":")[2])

    def _object(self, registry: Registry, name: str) -> object:
        thing = self._named(registry, name)
        if registry == "agents" and not isinstance(thing, Agent):
            raise fault_error(
                f"{name!r} is a {type(thing).__name__}, not an agent; make an agent with chat_agent, "
                "human, sequential, ..."
            )
        return thing

    def _named(self, registry: Registry, name: str) -> object:
        known: Mapping[str, object] = getattr(self, registry)
        if name in known:
            return known[name]
        if registry == "models" and self._is_of_provider(name):
            return name
        if ":" in name:
            return self._imported(name, _provider_hint(name) if registry == "models" else "")
        raise fault_error(_unknown(registry, name, known))

    def _is_of_provider(self, name: str) -> bool:
        """Return whether LangChain knows a name as a model; allowed imports take precedence."""
        prefix, colon, model = name.partition(":")
        return bool(colon and model) and not self._allows(name) and prefix in providers()

    def _allows(self, name: str) -> bool:
        return name in self.allow or f"{name.partition(':')[0]}:*" in self.allow

    def _imported(self, name: str, hint: str) -> object:
        if not _ALLOWED.fullmatch(name) or name.endswith("*"):
            raise fault_error(
                f"{name!r} is not a reference; write 'module:name', with one public name after the "
                f"colon{hint}"
            )
        if not self._allows(name):
            raise fault_error(
                f"{name!r} may not be imported; if you trust it, pass allow=[{name!r}], "
                f"or --allow {name} on the command line{hint}"
            )
        module_name, _, attribute = name.partition(":")
        module = _module(module_name, name)
        if attribute in vars(module) and (name in self.allow or attribute in _public(module)):
            return vars(module)[attribute]  # getattr could execute the module's __getattr__
        raise fault_error(
            f"the module {module_name!r} has no public name {attribute!r}"
            f"{alike(attribute, _public(module))}; name one of its __all__, or without an __all__ one "
            "that it defines itself"
        )


def _provider_hint(name: str) -> str:
    close = alike(name.partition(":")[0], providers())
    return f"; it is not a known provider of models{close}" if close else ""


def _module(module_name: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise fault_error(
            f"{name!r} cannot be imported: {type(error).__name__}: {reason(error)}"
        ) from error


def _public(module: ModuleType) -> list[str]:
    """List the public names of a module, which `module:*` allows."""
    names = vars(module)
    listed = names.get("__all__")
    own = [name for name, value in names.items() if _is_own(value, module.__name__)]
    return [name for name in own if not name.startswith("_")] if listed is None else [*listed]


def _is_own(value: object, module_name: str) -> bool:
    if not (isroutine(value) or isclass(value) or ismodule(value)):
        return True
    home = str(getattr(value, "__module__", None))
    return f"{home}.".startswith(f"{module_name}.")


def _unknown(registry: Registry, name: str, known: Mapping[str, object]) -> str:
    kind = registry.removesuffix("s")
    if not known:
        return (
            f"unknown {kind} {name!r}, because no {registry} were passed; pass {registry}={{{name!r}: "
            f"...}}, or on the command line --registry with a file that has such a dict {registry!r}"
        )
    return f"unknown {kind} {name!r}{alike(name, known)}; choose one of: {', '.join(map(str, known))}"


def alike(word: str, known: Iterable[object]) -> str:
    """Suggest the most similar known word, in brackets; empty if no word is similar.

    >>> alike("serch", ["search", "fetch"])
    " (did you mean 'search'?)"
    """
    close = get_close_matches(word, [str(each) for each in known], 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _placeholder(registry: Registry, name: str) -> object:
    def anything(ctx):  # type: ignore[no-untyped-def]  # without a return annotation it may do anything
        """Stand in for an unknown tool or agent."""

    anything.__name__ = name
    if registry == "models":
        return AnyModel()
    return anything if registry == "tools" else function_agent(name, anything)
