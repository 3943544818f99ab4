"""The private names of LangGraph and LangChain that this library imports, each with why.

A library's private names may change with each version, so no other file imports them; only the base
class of `Context` is in `agents/`, which knows nothing of this folder. If a name is gone, importing
this file fails, and says which versions are known. The attributes of LangChain's tool nodes that are
called are listed, and checked, in `chat/flattened.py`.
"""

from importlib.metadata import version

try:
    from langchain_core.tracers._streaming import _StreamingCallbackHandler as StreamingHandler
    from langgraph._internal._cache import default_cache_key
    from langgraph._internal._config import (
        DEFAULT_RECURSION_LIMIT,
        ensure_config,
        recast_checkpoint_ns,
    )
    from langgraph._internal._constants import (
        CACHE_NS_WRITES,
        CONFIG_KEY_CACHE,
        CONFIG_KEY_CALL,
        CONFIG_KEY_CHECKPOINTER,
        CONFIG_KEY_DURABILITY,
        CONFIG_KEY_READ,
        CONFIG_KEY_REPLAY_STATE,
        CONFIG_KEY_RESUME_MAP,
        CONFIG_KEY_RESUMING,
        CONFIG_KEY_RUNTIME,
        CONFIG_KEY_SCRATCHPAD,
        CONFIG_KEY_SEND,
        CONFIG_KEY_STREAM,
        CONFIG_KEY_TASK_ID,
        ERROR,
        INTERRUPT,
        PULL,
        PUSH,
        RESUME,
        RETURN,
        TASKS,
    )
    from langgraph._internal._fields import get_cached_annotated_keys, get_update_as_tuples
    from langgraph._internal._runnable import RunnableCallable, RunnableSeq
    from langgraph._internal._runnable import _trace_payload as trace_payload
    from langgraph._internal._typing import MISSING
    from langgraph.channels.binop import _get_overwrite as overwrite_in
    from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_TYPES, STRICT_MSGPACK_ENABLED
    from langgraph.checkpoint.serde.types import _DeltaSnapshot as DeltaSnapshot
    from langgraph.graph.message import _messages_delta_reducer as delta_reducer
    from langgraph.pregel._algo import PregelTaskWrites, local_read, task_path_str
    from langgraph.pregel._algo import _xxhash_str as id_from
    from langgraph.pregel._messages import StreamMessagesHandler, StreamMessagesHandlerV2
    from langgraph.pregel._read import ChannelRead, PregelNode
    from langgraph.pregel._tools import _tool_call_writer as tool_call_writer
    from langgraph.pregel._write import ChannelWrite, ChannelWriteEntry
    from langgraph.pregel.main import _coerce_context as coerce_context
except ImportError as error:
    raise ImportError(
        f"langgraph {version('langgraph')} with langchain-core {version('langchain-core')} has other "
        f"parts than this agentgraph knows ({error}); install langgraph>=1.2.20,<1.3 and "
        "langchain-core>=1.7,<2, or a newer agentgraph"
    ) from error

try:  # only for leaves that run without a task; without these parts each has one, as in LangGraph
    from langgraph._internal._constants import CONFIG_KEY_NODE_FINISHED, CONFIG_KEY_READ_STATE
    from langgraph._internal._scratchpad import PregelScratchpad
    from langgraph.pregel._call import get_runnable_for_task
    from langgraph.pregel._io import map_output_updates
    from langgraph.pregel._retry import _checkpoint_ns_for_parent_command as namespace_around
    from langgraph.pregel._runner import _acall as call_async_task
    from langgraph.pregel._runner import _call as call_task
except ImportError:
    CONFIG_KEY_NODE_FINISHED = CONFIG_KEY_READ_STATE = ""
    PregelScratchpad = get_runnable_for_task = None  # type: ignore
    map_output_updates = namespace_around = call_async_task = call_task = None  # type: ignore

# Keys of `config["configurable"]`. Without them a node reaches nothing of the run around it.
SAVER = CONFIG_KEY_CHECKPOINTER
"""The saver of the run; also how a guard is put before it."""
DURABILITY = CONFIG_KEY_DURABILITY
"""When the run saves: "sync", "async" or "exit"."""
READ, SEND = CONFIG_KEY_READ, CONFIG_KEY_SEND
"""The functions with which a task reads channels and writes to them."""
RUNTIME = CONFIG_KEY_RUNTIME
"""The runtime, which is made for each stream writer; `get_runtime` needs a context for it."""
STREAM = CONFIG_KEY_STREAM
"""The stream of the graph around, to which a remote graph passes on what it streams."""
CACHE = CONFIG_KEY_CACHE
"""The cache of the run."""
CALL = CONFIG_KEY_CALL
"""The function with which a node calls tasks. It holds the node's task and LangGraph's loop, and so
what that has loaded with the checkpoint. Without it a resume calls a task for each saved result."""
TASK_ID = CONFIG_KEY_TASK_ID
"""The id of the task, under which its result is saved."""
SCRATCHPAD = CONFIG_KEY_SCRATCHPAD
"""The counters of a task, and the answers that it takes: a task must find its own again on a resume."""
RESUME_MAP = CONFIG_KEY_RESUME_MAP
"""The answers that the run is resumed with, by the ids of questions."""
RESUMING = CONFIG_KEY_RESUMING
"""Whether the run is resumed."""
REPLAY = CONFIG_KEY_REPLAY_STATE
"""From which checkpoint a fork runs."""
READ_STATE = CONFIG_KEY_READ_STATE
"""The function with which the mapper of a node reads the state; a task that a node calls has none."""
NODE_FINISHED = CONFIG_KEY_NODE_FINISHED
"""A function of LangGraph's servers that is called for each node and task that has ended."""

# Names of channels and of triggers, as savers keep them: what has run is read from them.
TRIGGER = "branch:to:"
"""The beginning of the name of the channel that starts a node."""
ROOT = "__root__"
"""The channel that LangGraph makes of a schema without fields."""

# Functions and classes that have no public twin:
# - `ensure_config`, `coerce_context`, `get_update_as_tuples`, `get_cached_annotated_keys`: what
#   LangGraph does at its entrance with config, context and state; ours does it before it reads them.
# - `PregelNode`, `RunnableSeq`: a node of a compiled graph, and what LangGraph runs for it.
#   `RunnableCallable`: the function of a node; a function that has returned is not dropped by a stop.
# - `ChannelWrite`, `ChannelRead`: the write that begins a turn, and the read after a node.
# - `MISSING`, `overwrite_in`, `delta_reducer`, `DeltaSnapshot`: of its channels. LangGraph assigns
#   an id to each message of a channel with that reducer.
# - `PregelTaskWrites`, `local_read`: how a node reads what it has just written, for flattened graphs.
# - `id_from`, `task_path_str`: how LangGraph makes the id of a task, under which its result is saved.
# - `PULL`, `PUSH`: how a task was started, a node or a call: it says in which graph its models stream.
# - `default_cache_key`: the key of a cached node. `recast_checkpoint_ns`: a namespace without task ids.
# - `StreamMessagesHandler`: who streams chunks. `StreamingHandler`: who only streams; it needs no path.
# - `trace_payload`: the part of a node's input, or output, that its policy shows to tracers.
# - `tool_call_writer`: the writer of the tool call around; an inner run must not write to it.
# - `PregelScratchpad`, `get_runnable_for_task`: what a task that a node calls has, and what runs in it.
#   `map_output_updates`: how LangGraph streams its result. `namespace_around`: where a command for
#   the graph around it goes. `call_task`, `call_async_task`: who calls it.
# - `SAFE_MSGPACK_TYPES`: the classes that LangGraph reads without question: dates, messages and others.
#   `STRICT_MSGPACK_ENABLED`: whether it reads others only if a graph's state names them.

__all__ = [
    "CACHE",
    "CACHE_NS_WRITES",
    "CALL",
    "DEFAULT_RECURSION_LIMIT",
    "DURABILITY",
    "ERROR",
    "INTERRUPT",
    "MISSING",
    "NODE_FINISHED",
    "PULL",
    "PUSH",
    "READ",
    "READ_STATE",
    "REPLAY",
    "RESUME",
    "RESUME_MAP",
    "RESUMING",
    "RETURN",
    "ROOT",
    "RUNTIME",
    "SAFE_MSGPACK_TYPES",
    "SAVER",
    "SCRATCHPAD",
    "SEND",
    "STREAM",
    "STRICT_MSGPACK_ENABLED",
    "TASKS",
    "TASK_ID",
    "TRIGGER",
    "ChannelRead",
    "ChannelWrite",
    "ChannelWriteEntry",
    "DeltaSnapshot",
    "PregelNode",
    "PregelScratchpad",
    "PregelTaskWrites",
    "RunnableCallable",
    "RunnableSeq",
    "StreamMessagesHandler",
    "StreamMessagesHandlerV2",
    "StreamingHandler",
    "call_async_task",
    "call_task",
    "coerce_context",
    "default_cache_key",
    "delta_reducer",
    "ensure_config",
    "get_cached_annotated_keys",
    "get_runnable_for_task",
    "get_update_as_tuples",
    "id_from",
    "local_read",
    "map_output_updates",
    "namespace_around",
    "overwrite_in",
    "recast_checkpoint_ns",
    "task_path_str",
    "tool_call_writer",
    "trace_payload",
]
