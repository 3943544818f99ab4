"""The models that the agents of a tree name, made before a run starts.

LangChain makes a model of a name, which imports packages and may need a key. Compiling, drawing and
reading a tree must work without either. A missing key must not fail each item of an `each`, or a run
that has paid for other agents. So the first run of a compiled tree makes all models that its agents
name. A name that a function returns becomes a model when it is needed.
"""

import asyncio
import os
import re
from collections.abc import Iterable

from pydantic import SecretStr

from agentgraph.errors import AgentGraphError, InvalidAgentError
from agentgraph.graph.failures import mark_of_run
from agentgraph.graph.sync_async import Call
from agentgraph.safe_repr import nearest, reason
from agentgraph.tree.places import Place

_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:KEY|TOKEN)\b")
_PACKAGE = re.compile(r"pip install (?:-U )?([\w.-]*\w)")
_EXAMPLE = "it as in 'openai:gpt-5'"
_OBJECT = "or pass a model object as model="
_NAMED = 3
"""Maximum number of agents named in an error."""


class NamedModels:
    """The models that agents name, each made once.

    Attributes:
        unmade: The names of agents by the model that they name, until all these models are made.
    """

    def __init__(self, places: Iterable[Place] = ()) -> None:
        self.unmade: dict[str, list[str]] = {}
        self._are_played = False
        for place in places:
            if (agent := place.chat) is None:
                continue
            for each in agent.middleware:
                self._are_played |= getattr(each, "plays_models", False)
            if isinstance(agent.model, str):
                named = self.unmade.setdefault(agent.model, [])
                named += [agent.name] * (agent.name not in named)
        self._made: dict[str, object] = {}

    async def make(self) -> None:
        """Make the models that agents name; async runs make them in a thread.

        Raises:
            InvalidAgentError: LangChain cannot make one of them.
        """
        faults = []
        for name, agents in [*self.unmade.items()]:
            try:
                await self.model(name, _listed(agents))
            except AgentGraphError as error:
                faults.append(str(error))
        if faults:
            raise of_run(InvalidAgentError(faults))
        self.unmade = {}

    async def model(self, name: str, where: str) -> object:
        """Return the model with a name; `where` begins the text of errors.

        Raises:
            AgentGraphError: LangChain cannot make the model.
        """
        if name not in self._made:
            made = await Call(model_named, _amodel_named, (name, where))
            if not self._are_played and (key := _missing_key(made)):
                raise of_run(AgentGraphError(f"{where}: {_needs(name, key)}"))
            self._made.setdefault(name, made)
        return self._made[name]


def model_named(name: str, where: str) -> object:
    """Return the model that LangChain makes for a name; `where` begins the text of errors.

    Raises:
        AgentGraphError: LangChain cannot make the model. No agent collects or retries this error.
    """
    from langchain.chat_models import init_chat_model  # not at the top: few trees name a model

    try:
        return init_chat_model(name)
    except Exception as error:
        known = _known_fault(name, error)
        if known:
            raise of_run(AgentGraphError(f"{where}: {known}")) from None
        raise of_run(
            AgentGraphError(
                f"{where}: LangChain's init_chat_model cannot make the model {name!r} "
                f"({reason(error)}); check the name and the settings of its provider, {_OBJECT}"
            )
        ) from error


async def _amodel_named(name: str, where: str) -> object:
    return await asyncio.to_thread(model_named, name, where)


def of_run(error: AgentGraphError) -> AgentGraphError:
    """Return an error, marked as one that no agent handles."""
    mark_of_run(error)
    return error


def providers() -> list[str]:
    """Return the names of the providers whose models LangChain makes by name."""
    import langchain.chat_models.base as base  # not at the top: few trees name a model

    return list(getattr(base, "_BUILTIN_PROVIDERS", ()))


def _known_fault(name: str, error: Exception) -> str:
    """Return why a model cannot be made, and what to do; empty if it is an uncommon reason."""
    if isinstance(error, ImportError) and (package := _PACKAGE.search(str(error))):
        needed = package[1]
        return f"the model {name!r} needs the package {needed}; run pip install {needed}, {_OBJECT}"
    provider, _, model = name.partition(":")
    if str(error).startswith("Unable to infer model provider"):
        if not (provider and model):
            return f"the model {name!r} does not name its provider; write {_EXAMPLE}, {_OBJECT}"
        near = nearest(provider, providers())
        advice = f"did you mean {f'{near}:{model}'!r}?" if near else f"write {_EXAMPLE}"
        return f"the model {name!r} names the unknown provider {provider!r}; {advice}"
    variables = _VARIABLE.findall(str(error))
    if variables and not any(map(os.environ.get, variables)):
        return _needs(name, variables[0])  # the others are for other kinds of credentials
    return ""


def _needs(name: str, variable: str) -> str:
    fault = f"the model {name!r} needs {variable}, which is not set"
    return f"{fault}; set it in the environment, {_OBJECT}"


def _missing_key(model: object) -> str | None:
    """Return the variable of a key that a model was made without; None if it has one, or needs none.

    Some models, such as `ChatAnthropic`, are made without a key, and each call fails. If another
    variable of the provider is set, such as a base URL or a token, the model may do without the key.
    """
    secrets: dict[str, str] = getattr(model, "lc_secrets", {})
    for field, variable in secrets.items():
        key = getattr(model, field, None)
        if field.endswith("api_key") and isinstance(key, SecretStr) and not key.get_secret_value():
            provider = variable.partition("_")[0] + "_"
            is_set = any(value for each, value in os.environ.items() if each.startswith(provider))
            return None if is_set else variable
    return None


def _listed(agents: list[str]) -> str:
    """Return the names of agents, the first ones of many."""
    more = len(agents) - _NAMED
    return ", ".join(agents[:_NAMED]) + (f" and {more} more" if more > 0 else "")
