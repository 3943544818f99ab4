"""LangGraph's own ways to the state, as code inside a node finds them in its config.

LangGraph gives each task a function that reads channels, and one that writes to them; the files of
deepagents are kept by these. In a lane they know the channels of the tree alone. So what runs inside a
chat agent is given two that know the state of its middleware too.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph._internal._constants import CONFIG_KEY_READ, CONFIG_KEY_SEND


def with_state(
    config: RunnableConfig,
    names: Collection[str],
    state: Callable[[], Mapping[str, Any]],
    write: Callable[[dict[str, Any]], None],
) -> RunnableConfig:
    """Return a config by which the state of an agent's middleware is read and written.

    Args:
        config: The config of a task of LangGraph's.
        names: The names of what is in that state; all else is read from and written to the channels.
        state: Returns the state as it is now.
        write: Takes an update of it.
    """
    configurable = config.get("configurable", {})
    outer_read, outer_send = configurable.get(CONFIG_KEY_READ), configurable.get(CONFIG_KEY_SEND)
    if not names or outer_read is None or outer_send is None:
        return config

    def read_one(name: str, fresh: bool) -> Any:
        return state().get(name) if name in names else outer_read(name, fresh)

    def read(select: str | Sequence[str], fresh: bool = False) -> Any:
        if isinstance(select, str):
            return read_one(select, fresh)
        return {name: read_one(name, fresh) for name in select}

    def send(writes: Sequence[tuple[str, Any]]) -> None:
        for name, value in writes:
            if name in names:
                write({name: value})
        if others := [(name, value) for name, value in writes if name not in names]:
            outer_send(others)

    ways = {CONFIG_KEY_READ: read, CONFIG_KEY_SEND: send}
    return {**config, "configurable": {**configurable, **ways}}
