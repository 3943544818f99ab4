"""Checks of the values that calls pass, where a schema declares values."""

from collections.abc import Iterator, Mapping

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.types import Command

from agentgraph.errors import AgentGraphError
from agentgraph.graph.internals import RETURN
from agentgraph.graph.sync_async import Calls
from agentgraph.graph.values import Reducers
from agentgraph.safe_repr import nearest, shown
from agentgraph.threads.thread_saver import ThreadSaver
from agentgraph.tree.validation import value_names


def check_types(saver: ThreadSaver, reducers: Reducers, graph_input: object) -> Calls[None]:
    """Refuse input with values that do not fit their declared types, after their reducers.

    Args:
        saver: The thread.
        reducers: How values are merged, and their types.
        graph_input: The input of a graph: a state, a command, or None.

    Raises:
        AgentGraphError: A value does not fit.
        ReducerError: A reducer failed.
    """
    update = graph_input.update if isinstance(graph_input, Command) else graph_input
    values = update.get("values") if isinstance(update, Mapping) else None
    if values:
        present = (yield from saver.state()).values.get("values", {})
        reducers.merged(present, values)


def check_known(
    saver: ThreadSaver, reducers: Reducers, values: Mapping[str, object] | None
) -> Calls[None]:
    """Refuse a value whose name is a typo of one that a declared schema makes known.

    That is a name that nothing knows, close to one that is known: to the schema, the agents, or the
    thread, where lanes may have written values that conflict.

    Raises:
        AgentGraphError: There is such a name.
    """
    if not values or values.keys() <= reducers.fields.keys():
        return
    state = yield from saver.state()
    known = {*reducers.fields, *value_names(saver.tree), *state.values.get("values", {})}
    typos = {name: near for name in values.keys() - known if (near := nearest(str(name), known))}
    if not typos:
        return
    written = {name for saved in (yield from saver.checkpoints()) for name in _written_in(saved)}
    for name in (name for name in values if name in typos.keys() - written):
        raise AgentGraphError(
            f"values: no schema, agent or thread knows {shown(name)}; did you mean {typos[name]!r}? "
            f"Write that, or declare {shown(name)} in the schema"
        )


def _written_in(saved: CheckpointTuple) -> Iterator[str]:
    """Yield the names of the values that a lane had written, or a lane that ended in the step after."""
    results = [each for _, name, each in saved.pending_writes or () if name == RETURN]
    for state in (saved.checkpoint["channel_values"], *results):
        writes = state.get("values") if isinstance(state, Mapping) else None
        for write in writes if isinstance(writes, list) else ():
            yield from write["values"]
