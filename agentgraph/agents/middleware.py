"""Inspection of LangChain middleware: the methods of an `AgentMiddleware`, and the runs they suit.

Pure: LangChain's base class is recognized by its name, because importing it imports langgraph.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Literal

from agentgraph.agents.agents import Middleware
from agentgraph.agents.functions import AWAITS, names_exit
from agentgraph.safe_repr import shown

Mode = Literal["sync", "async"]

WRAPS = ("wrap_model_call", "wrap_tool_call")
"""The methods that wrap calls; a middleware has one if it defines it or its async twin."""
HOOKS = ("before_agent", "before_model", "after_model", "after_agent")
"""The methods that run between calls."""

APPROVE = "agentgraph.approve"
"""The name of the middleware that implements `approve=`."""
ASKS = f"{APPROVE}.after_model"
"""LangChain's name for the node of its hook."""

SUMMARY = "SummarizationMiddleware"
"""The name of the LangChain middleware that implements `history=summarized(...)`."""
SUMS_UP = f"{SUMMARY}.before_model"
"""LangChain's name for the node of its hook."""

_DECIDES = "BaseDecisionModel"
"""The name of LangChain's class of models that judge, and are not chat models."""

DECISIONS: tuple[Literal["approve", "edit", "reject", "respond"], ...] = (
    "approve",
    "edit",
    "reject",
    "respond",
)
"""The decisions that a person may make about a tool call."""

INSTEAD: dict[Mode, str] = {
    "sync": AWAITS,
    "async": "the sync methods: run(), resume(), invoke()",
}
"""The methods to call instead of a run of a mode."""
_BASE = ("langchain.agents.middleware.types", "AgentMiddleware")


def is_middleware(thing: object) -> bool:
    """Return whether an object is an instance of a LangChain middleware."""
    return any(_named(kind) == _BASE for kind in type(thing).__mro__)


def has(middleware: object, method: str) -> bool:
    """Return whether a middleware defines a method, sync or async."""
    return _defines(middleware, method) or _defines(middleware, f"a{method}")


def any_has(middleware: Iterable[object], method: str) -> bool:
    """Return whether any middleware defines a method, sync or async."""
    return any(has(each, method) for each in middleware)


def hooks_in(middleware: Iterable[Middleware], hook: str) -> list[str]:
    """Return the names of the nodes of a hook, in the order in which LangChain runs them.

    `after_...` hooks run from the innermost middleware outwards.
    """
    names = [f"{each.name}.{hook}" for each in middleware if is_middleware(each) and has(each, hook)]
    return names[::-1] if hook.startswith("after") else names


def may_exit(middleware: Iterable[object], hook: str) -> bool:
    """Return whether a hook of any middleware may return `Exit`, by its annotation or its code."""
    methods = (getattr(each, way, None) for each in middleware for way in (hook, f"a{hook}"))
    return any(names_exit(method) for method in methods if callable(method))


def tools_of(middleware: Iterable[object]) -> list[object]:
    """Return the tools that middleware brings, in order."""
    return [tool for each in middleware for tool in getattr(each, "tools", ())]


def mode_fault(middleware: Iterable[Middleware], mode: Mode) -> str | None:
    """Describe a method that a sync or async run cannot call, with the remedy; None if there is none.

    LangChain also calls sync hooks in async runs, but not sync `wrap_...` methods.
    """
    for each in middleware:
        methods = (*WRAPS, *HOOKS) if mode == "sync" else WRAPS
        for method in filter(partial(has, each), methods):
            there, wanted = (f"a{method}", method) if mode == "sync" else (method, f"a{method}")
            if not _defines(each, wanted):
                return (
                    f"the middleware {each.name!r} has {there}, but no {wanted}, which "
                    f"{mode} runs need; define {wanted}, or run {INSTEAD[mode]}"
                )
    return None


def middleware_faults(middleware: Sequence[object]) -> Iterator[str]:
    """Yield the faults of the middleware of a chat agent."""
    names: list[str] = []
    for each in middleware:
        if not is_middleware(each):
            made = " (a class: call it)" if isinstance(each, type) else ""
            yield (
                f"{shown(each)} is not a middleware{made}; pass instances of LangChain's "
                "AgentMiddleware, or results of its decorators such as wrap_model_call"
            )
            continue
        name = str(each.name)  # type: ignore[attr-defined]
        if name in names:
            yield (
                f"two middlewares are named {name!r}; leave one out, or give it its own subclass or "
                "`name`"
            )
        names.append(name)


def _defines(middleware: object, method: str) -> bool:
    return any(method in vars(kind) for kind in type(middleware).__mro__ if _named(kind) != _BASE)


def _named(kind: type) -> tuple[str, str]:
    return kind.__module__, kind.__qualname__


def has_decision_model(each: Middleware) -> bool:
    """Return whether a middleware holds a decision model, as LangChain's auto mode and router do."""
    held = getattr(each, "__dict__", {}).values()
    return any(kind.__name__ == _DECIDES for value in held for kind in type(value).__mro__)
