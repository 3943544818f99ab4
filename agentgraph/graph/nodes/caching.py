"""Caches the outcomes of leaves in LangGraph's cache, so that an agent can return them again.

The problem: LangGraph's `cache_policy` of a node caches the writes of the node. The writes of a leaf
hold a position, and messages with ids, addresses and orders. Written again, they would send the lane to
another place, and be events of another run. A task with a policy would not have these, but it runs the
function elsewhere, counts among the tasks of its node, and distinguishes agents only by their
functions. So LangGraph's cache and policy are used, in its form of namespaces and keys, and these
rules:

- The outcome is a list of the agent's output, in order: messages without ids and tokens, custom data,
  signals; then values. A hit emits each by the same methods as a run, which tag messages again, and
  then the activation ends as usual: checks and `until` are called.
- The key holds the outline of the tree, the names from the root to the agent, what its function or
  graph is made of (`graph/digests.py`), and what the policy's `key_func` returns, or by default what
  the agent is given. The default is not LangGraph's pickle, which differs for equal data if parts of it
  are one object. It has messages without ids and metadata.
- Only an activation that ends is cached: not one that asks, now or before a resume, that fails, or that
  changes earlier messages. The outcome is stored when its update has been checked.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from hashlib import sha256
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel

from agentgraph.errors import AgentGraphError, InvalidOutputError
from agentgraph.graph.digests import digest_of
from agentgraph.graph.internals import CACHE, CACHE_NS_WRITES, SCRATCHPAD, default_cache_key
from agentgraph.graph.nodes.activation import Activation, CacheEntry
from agentgraph.graph.nodes.asking import asked
from agentgraph.graph.nodes.context import ActivationContext, NodeContext
from agentgraph.graph.open_types import Cache
from agentgraph.graph.saving import save_fault
from agentgraph.graph.stamps import Note
from agentgraph.graph.state import Update
from agentgraph.graph.sync_async import Call
from agentgraph.safe_repr import reason, shown
from agentgraph.tree.addresses import places_to

Outcome = list[object]
"""The output of an agent, as pairs `[kind, data]`: "message", the kind of a note, or "values"."""

_FORM = "agentgraph 2"
"""Part of each key; another one for another form of outcomes."""
_DYNAMIC = "__dynamic__"
"""The identity that LangGraph's cache assigns to a node which is not a function."""
_REPEATED_KINDS = ("custom", "transfer_to")
_TYPED = "told_values"
"""The kind, in an outcome, of a note of values; "values" are what it wrote, an output key included."""
"""The kinds of notes that are given again."""
_KEYS = JsonPlusSerializer()
"""Turns the data of keys into bytes; the serializer of a cache may encrypt."""
_VARYING = ("id", "additional_kwargs", "response_metadata", "usage_metadata")
"""The fields of a message that differ although it says the same."""


class Caching:
    """The caching of one leaf."""

    def __init__(self, node_context: NodeContext, runs: object) -> None:
        """Read the policy of the leaf's agent.

        Args:
            node_context: The place of the leaf.
            runs: The function or graph that it runs.
        """
        agent: Any = node_context.place.agent
        self._policy = agent.cache_policy
        self._cache, self._targets = node_context.cache, node_context.targets
        self._namespace = namespace(node_context.place.node)
        names = [place.name for place in places_to(node_context.place)]
        self._fixed_key = [_FORM, node_context.tree.fingerprint, names, digest_of(runs)]

    async def replays(self, activation: Activation, key_data: object = None) -> bool:
        """Give the cached outcome again, if there is one; else prepare `keep`.

        Args:
            activation: The activation.
            key_data: The input of the default key; None for the messages and values.

        Returns:
            Whether there was one, so that the agent does not run.
        """
        if (entry := await self._entry(activation, key_data)) is None:
            return False
        hits = await Call(entry.cache.get, entry.cache.aget, ([entry.key],))
        outcome = next(iter(hits.values()), None)
        if outcome is None or any(
            kind == "transfer_to" and to not in self._targets for kind, to in outcome
        ):
            activation.cache_entry = entry
            return False
        for kind, data in outcome:
            _replay_item(activation, kind, data)
        return True

    async def _entry(self, activation: Activation, key_data: object) -> CacheEntry | None:
        """Return where the outcome is cached; None without a cache, or if the agent has asked."""
        configurable = activation.config.get("configurable", {})
        cache: Cache | None = configurable.get(CACHE, self._cache)
        if cache is None or has_asked(activation):
            return None
        context = activation.view.context(activation.view.history)
        chosen = await self._chosen(activation, context, key_data)
        data = [*self._fixed_key, chosen]
        if fault := save_fault(_KEYS, data):
            raise _no_key(activation.address, fault)
        hashed = sha256(_KEYS.dumps_typed(data)[1]).hexdigest()
        return CacheEntry(cache, (self._namespace, hashed), self._policy.ttl)

    async def _chosen(
        self, activation: Activation, context: ActivationContext, key_data: object
    ) -> object:
        key_func = self._policy.key_func
        if key_func is default_cache_key:
            try:
                data = [context.seen, activation.view.state.values] if key_data is None else key_data
                return canonical(data)
            except RecursionError as error:
                raise _no_key(activation.address, "it is nested too deeply") from error
        key = await asked(activation.address, "key_func", key_func, context)
        if not isinstance(key, str | bytes):
            raise InvalidOutputError(
                f"{activation.address}: the key_func of its cache_policy returned {shown(key)}; return "
                "a text, or bytes"
            )
        return key


async def stored_update(activation: Activation, entry: CacheEntry) -> Update:
    """Return the update of an activation that was not in the cache, and store its outcome there."""
    outcome, update = _outcome(activation, entry), await activation.awaited_update()
    if outcome is not None:
        with _not_stored(activation):
            stored = {entry.key: (outcome, entry.ttl)}
            await Call(entry.cache.set, entry.cache.aset, (stored,))
    return update


@contextmanager
def _not_stored(activation: Activation) -> Iterator[None]:
    """Warn of a cache that fails to store an outcome: the work is done, and is not lost."""
    try:
        yield
    except Exception as error:
        text = f"{activation.address}: the cache did not store the agent's output ({reason(error)})"
        warnings.warn(text, RuntimeWarning, stacklevel=2)


def namespace(node: str) -> tuple[str, ...]:
    """Return the namespace of a node in LangGraph's cache, which `clear_cache` clears."""
    return (CACHE_NS_WRITES, _DYNAMIC, node)


def has_asked(activation: Activation) -> bool:
    """Return whether an activation has asked, now or before a resume: answers are not in the key."""
    scratchpad = activation.config.get("configurable", {})[SCRATCHPAD]
    has_answers = scratchpad.resume or scratchpad.get_null_resume(False) is not None
    if activation.view.is_answered or has_answers:
        return True
    clock = activation.view.state.clock
    return bool(clock.ids_at(lambda at: at == activation.address, only_questions=True))


def canonical(value: object) -> object:
    """Return data in a form that is the same for equal data, with messages without ids and metadata.

    >>> canonical([{"b": 1, "a": 2}, {3}])
    [{'a': 2, 'b': 1}, ['set', 3]]
    """
    match value:
        case BaseMessage():
            return canonical({name: field for name, field in value if name not in _VARYING})
        case Mapping():
            return {name: canonical(value[name]) for name in sorted(value, key=repr)}
        case list() | tuple():
            return [canonical(each) for each in value]
        case set() | frozenset():
            return ["set", *sorted(map(canonical, value), key=repr)]
        case BaseModel():
            return [_name(type(value)), canonical(dict(value))]
        case _ if is_dataclass(value) and not isinstance(value, type):
            named = {field.name: getattr(value, field.name) for field in fields(value)}
            return [_name(type(value)), canonical(named)]
    return value


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _outcome(activation: Activation, entry: CacheEntry) -> Outcome | None:
    """Return the outcome of an activation that has run; None if it must not be cached.

    Raises:
        InvalidOutputError: It cannot be cached.
    """
    parts = activation.outcome()
    if parts is None:
        return None
    entries, writes = parts
    outcome: Outcome = []
    for each in entries:
        if not isinstance(each, Note):
            outcome.append(["message", _bare(each)])
        elif each.kind in ("exit", "break_loop"):
            outcome.append([each.kind, dict(activation.signal_details)])
        elif each.kind in _REPEATED_KINDS:
            outcome.append([each.kind, each.data])
        elif each.kind == "values":
            outcome.append([_TYPED, each.data])
    outcome += [["values", write["values"]] for write in writes]
    if fault := save_fault(entry.cache.serde, outcome):
        raise InvalidOutputError(
            f"{activation.address}: its output cannot be cached ({fault}); use plain data: "
            "texts, numbers, lists, dicts; or leave out its cache_policy. The step can be tried again"
        )
    return outcome


def _bare(message: BaseMessage) -> BaseMessage:
    """Return a copy of a message without its id, and without the tokens that it has used."""
    tokens = {"usage_metadata": None} if isinstance(message, AIMessage) else {}
    return message.model_copy(update={"id": None, **tokens})


def _replay_item(activation: Activation, kind: str, data: Any) -> None:
    match kind:
        case "message":
            activation.output.emit_message(data)
        case "custom":
            activation.output.emit_note(kind, data)
        case "transfer_to":
            activation.transfer(data)
        case "values":
            activation.output.set_values(data)
        case _ if kind == _TYPED:
            activation.output.emitter.add_note("values", data)
        case "exit" | "break_loop":
            activation.signal(kind, data)


def _no_key(where: str, fault: str) -> AgentGraphError:
    return AgentGraphError(
        f"{where}: its cache_policy cannot make a key of what the agent is given ({fault}); use plain "
        "data: texts, numbers, lists, dicts; or pass CachePolicy(key_func=...)"
    )
