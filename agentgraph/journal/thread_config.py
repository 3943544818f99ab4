"""LangGraph's config for a thread, and for what is saved of it."""

from langchain_core.runnables import RunnableConfig

from agentgraph.errors import AgentGraphError
from agentgraph.graph.read_back import cannot_be_encoded
from agentgraph.safe_repr import shown


def checked_id(thread_id: object) -> str:
    """Return a thread id that all savers can store.

    Raises:
        AgentGraphError: It cannot be a thread id.
    """
    if not isinstance(thread_id, str) or not thread_id:
        raise AgentGraphError(
            f"thread_id must be a non-empty string, got {shown(thread_id)}; pass the name of a thread, "
            "such as 'monday', or leave it out of a run for a new one"
        )
    if "\0" in thread_id or cannot_be_encoded(thread_id):
        raise AgentGraphError(
            f"thread_id {shown(thread_id)} has a zero byte or half a surrogate pair in it, which "
            "databases cannot store; pass another name"
        )
    return thread_id


def config_of(
    thread_id: str, namespace: str | None = None, checkpoint_id: str | None = None
) -> RunnableConfig:
    """Return LangGraph's config for a thread, a namespace of it, or a checkpoint in the namespace."""
    configurable: dict[str, object] = {"thread_id": thread_id}
    if namespace is not None:
        configurable["checkpoint_ns"] = namespace
    if checkpoint_id is not None:
        configurable["checkpoint_id"] = checkpoint_id
    return {"configurable": configurable}
