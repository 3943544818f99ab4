"""Type checks for LangChain's runnables, models and tools without an import of these classes.

A value of a class exists only if the module of the class has been imported. The imports would take
longer than everything else that builds a tree.
"""

import sys
from typing import TYPE_CHECKING, Any

from typing_extensions import TypeIs

if TYPE_CHECKING:
    from langchain_core.language_models import BaseLanguageModel
    from langchain_core.runnables import Runnable
    from langchain_core.tools import BaseTool


def is_runnable(value: object) -> "TypeIs[Runnable[Any, Any]]":
    """Return whether a value is a runnable, such as a chain, a model, a tool or a compiled graph."""
    return _is(value, "langchain_core.runnables.base", "Runnable")


def is_model(value: object) -> "TypeIs[BaseLanguageModel[Any]]":
    """Return whether a value is a language model."""
    return _is(value, "langchain_core.language_models.base", "BaseLanguageModel")


def is_tool(value: object) -> "TypeIs[BaseTool]":
    """Return whether a value is a LangChain tool."""
    return _is(value, "langchain_core.tools.base", "BaseTool")


def _is(value: object, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(value, kind)
