"""One thread in its saver: all calls of the saver, and of LangGraph for the thread's state, are here.

Each method is a coroutine that awaits calls, so sync and async runners share all code that reads and
writes threads. An error of a saver becomes a `SaverError`, and its results have been checked.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property, partial
from operator import itemgetter
from types import MappingProxyType
from typing import Any, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointMetadata, CheckpointTuple, empty_checkpoint
from langgraph.types import StateSnapshot

from agentgraph.errors import AgentGraphError, SaverError
from agentgraph.graph.collecting import decoding
from agentgraph.graph.delta_channels import ROOT_CHANNELS, growing, snapshot
from agentgraph.graph.graph_classes import RootGraph
from agentgraph.graph.guarded_saver import path_for, saver_error
from agentgraph.graph.internals import INTERRUPT, RESUME, SAVER, recast_checkpoint_ns
from agentgraph.graph.open_types import Graph, Saver
from agentgraph.graph.question_records import keeps_questions, record_of, restored
from agentgraph.graph.read_back import UnsavableError, read_back
from agentgraph.graph.saving import list_checkpoints, name_fault, saved_input
from agentgraph.graph.signal_handlers import is_of_a_handler
from agentgraph.graph.sync_async import Call, Calls
from agentgraph.graph.values import Reducers
from agentgraph.journal.line_view import LineView
from agentgraph.journal.locks import ais_locked, is_locked
from agentgraph.journal.saved import REQUESTS, Saved
from agentgraph.journal.savers.file_space import HasFile
from agentgraph.journal.savers.listing import begun_threads, kept_namespaces
from agentgraph.journal.savers.opening import namespaces_since
from agentgraph.journal.savers.plain_lines import ids_in_order, plain_line
from agentgraph.journal.savers.pruning import Pruning, pruning_call
from agentgraph.journal.savers.thread_index import Begun, HasThreadIndex, Listed, ThreadQuery
from agentgraph.journal.task_paths import task_path
from agentgraph.journal.thread_config import checked_id, config_of
from agentgraph.safe_repr import shown
from agentgraph.tree.places import Tree
from agentgraph.tree.run_paths import RunPaths

TaskWrite = tuple[RunnableConfig, str, str, object, str]
"""A value to save: the config of the checkpoint, the task id, the channel, the value, and LangGraph's
path of the task."""
_FIRST = ({"source": "input", "step": -1}, {"source": "update", "step": 0}, {"step": -2})
"""The metadata of a thread's first checkpoint: of a run, an edit, a run with `durability="exit"`."""


_STAYING = {INTERRUPT, RESUME}
"""The channels of tasks that may continue: LangGraph writes them again, under the task's path."""
_MOST_READS = 1000
"""How often what a run in memory has changed meanwhile is read."""


class ThreadSaver:
    """A thread of a compiled tree in its saver.

    Attributes:
        tree: The tree.
        saver: The saver.
        thread_id: The thread.
        paths: The run paths of the tree.
    """

    def __init__(
        self,
        tree: Tree,
        graph: Graph,
        saver: Saver,
        check: Callable[[Saved], None],
        thread_id: str,
        paths: RunPaths,
        *,
        missing: Mapping[str, str] = MappingProxyType({}),
        is_lean: bool = False,
    ) -> None:
        """Make it.

        Args:
            tree: The tree.
            graph: The LangGraph graph that it was compiled to.
            saver: The saver.
            check: Raises an error for a checkpoint whose form is not sound.
            thread_id: The thread.
            paths: The run paths of the tree, with those that earlier runs have computed.
            missing: The abilities that the saver is known not to have, each with the reason.
            is_lean: Whether its checkpoints are without what only LangGraph reads.
        """
        self.tree, self.saver, self.thread_id, self.paths = tree, saver, thread_id, paths
        self._graph, self._check_one = graph, check
        self._missing = missing
        self._has_records = not keeps_questions(saver)
        self._after: dict[tuple[str, str], Saved] | None = {} if is_lean else None
        """Lean checkpoints by the one before each, until that is read: the newest come first."""

    def of(self, thread_id: str) -> "ThreadSaver":
        """Return another thread in the same saver."""
        own = self.tree, self._graph, self.saver, self._check_one
        return ThreadSaver(*own, thread_id, self.paths, missing=self._missing)

    def lean(self) -> "ThreadSaver":
        """Return the same thread for who holds many checkpoints and saves none: with lean ones."""
        own = self.tree, self._graph, self.saver, self._check_one
        return ThreadSaver(*own, self.thread_id, self.paths, missing=self._missing, is_lean=True)

    def require(self, ability: str) -> None:
        """Refuse a call that the saver is known not to support.

        Raises:
            SaverError: It is one.
        """
        if (why := self._missing.get(ability)) is not None:
            where = f"thread {shown(self.thread_id)}: its" if self.thread_id else "the"
            raise SaverError(
                f"{where} saver {type(self.saver).__name__} does not support {ability!r} ({why}); use "
                "a saver that does, such as ag.sqlite_saver(path)",
                thread_id=self.thread_id or None,
            )

    @cached_property
    def checked_id(self) -> str:
        """The thread.

        Raises:
            AgentGraphError: It cannot be the id of a thread.
        """
        return checked_id(self.thread_id)

    @property
    def reducers(self) -> Reducers:
        """How its values are merged."""
        return cast(RootGraph, self._graph).reducers

    def is_running(self) -> Calls[bool]:
        """Return whether a run is active on the thread, also in another process of its database."""
        return self._result(Call(is_locked, ais_locked, (self.saver, self.thread_id)))

    async def written(self) -> Saved | None:
        """Return the latest checkpoint of the root, which this run has written: it is not checked."""
        get = self.saver.get_tuple, self.saver.aget_tuple
        saved: CheckpointTuple | None = await Call(*get, (config_of(self.checked_id, ""),))
        return None if saved is None else Saved(*saved)

    def saved_messages(self, messages: Iterable[BaseMessage]) -> list[BaseMessage]:
        """Return messages of a call as the saver will give them back.

        Raises:
            AgentGraphError: It cannot save one.
        """
        saved: list[BaseMessage] = []
        for each in messages:
            try:
                saved.append(read_back(self.saver.serde, each))
            except UnsavableError as error:
                raise AgentGraphError(
                    f"the message {shown(each.content)} cannot be saved ({error}); pass plain data: "
                    "texts, numbers, lists, dicts"
                ) from error
        return saved

    def saved_values(self, values: Mapping[str, object] | None) -> dict[str, object]:
        """Return values of a call with their declared types, as the saver will give them back.

        Raises:
            AgentGraphError: It cannot save one.
        """
        for name in values or {}:
            if (fault := name_fault(name)) is not None:
                raise AgentGraphError(f"the name {shown(name)} in values= {fault}")
        return saved_input(self.saver.serde, self.reducers, values or {})

    def checkpoint(self, namespace: str = "", checkpoint_id: str | None = None) -> Calls[Saved | None]:
        """Return the latest checkpoint of a namespace, or one by its id; None if there is none."""
        config = config_of(self.checked_id, namespace, checkpoint_id)
        read = decoding(self.saver.get_tuple, self.saver.aget_tuple)
        return self._result(Call(*read, (config,)))

    def state(self, namespace: str = "", checkpoint_id: str | None = None) -> Calls[StateSnapshot]:
        """Return LangGraph's state at the latest checkpoint of a namespace, or at another one."""
        config = config_of(self.checked_id, namespace, checkpoint_id)
        return self._called(self._graph, "get_state", config)

    def state_at(self, head: Saved, before: Sequence[Saved], *, live: bool) -> StateSnapshot:
        """Return LangGraph's state at a checkpoint of the root, from a line that was read already.

        Args:
            head: The checkpoint. It is not lean.
            before: The checkpoints of the root that lead to it, newest first.
            live: Whether what tasks have finished after it counts, as at the latest checkpoint.

        Raises:
            SaverError: The saved data makes no state.
        """
        config = config_of(self.checked_id, "", None if live else head.id)
        config["configurable"][SAVER] = LineView(head, before)
        try:
            return self._graph.get_state(config)
        except Exception as error:
            if is_of_a_handler(error):
                raise
            raise saver_error(error, self.saver, self.thread_id) from error

    async def checkpoints(
        self, namespace: str | None = None, before: str | None = None, limit: int | None = None
    ) -> list[Saved]:
        """Return the thread's checkpoints, in all namespaces or one, each newest first.

        Args:
            namespace: The namespace; None for all. Without a limit the requests for runs are left out.
            before: The id of the checkpoint before which they are.
            limit: The greatest number of them; a page that has fewer is the last.
        """
        bound = before and {"configurable": {"checkpoint_id": before}}
        every = await self._listed(config_of(self.checked_id, namespace), before=bound, limit=limit)
        if namespace is not None or limit is not None:
            return every
        whole = [each for each in every if each.namespace != REQUESTS]
        every.clear()  # who made the call holds it until the next call
        return whole

    async def plain_line(self, least: int) -> Sequence[str]:
        """Return the ids of the root's checkpoints, in order, if nothing on the thread was discarded.

        None of them if there are less than `least`, or if the saver cannot tell.
        """
        call = plain_line(self.saver, self.checked_id, least)
        return () if call is None else ids_in_order(await self._result(call))

    async def children(self, saved: Saved) -> list[Saved]:
        """Return the checkpoints after one, in its namespace: of several lines, of which one forked.

        A line may be long; those in other lines are found by the number of their step.
        """
        own = saved.config["configurable"]
        step = {"step": saved.metadata.get("step", 0) + 1}
        config = config_of(self.checked_id, own.get("checkpoint_ns", ""))
        every = await self._listed(config, filter=step)
        parents = [(each, (each.parent_config or {}).get("configurable", {})) for each in every]
        return [each for each, at in parents if at.get("checkpoint_id") == own["checkpoint_id"]]

    def begun_turns(self, limit: int) -> Calls[list[Saved]]:
        """Return the checkpoints of the root at which the last turns begin (of all lines)."""
        config = config_of(self.checked_id, "")
        return self._listed(config, filter={"source": "input"}, limit=limit)

    def forked(self, limit: int) -> Calls[list[Saved]]:
        """Return the last checkpoints of the root that rewinds copied or edited (of all lines)."""
        return self._listed(config_of(self.checked_id, ""), filter={"source": "fork"}, limit=limit)

    def records(self, source: str) -> Calls[list[Saved]]:
        """Return the checkpoints of the thread that are not of its graph, newest first.

        Args:
            source: The source of requests, or that of the records of named turns.
        """
        return self._listed(config_of(self.checked_id, REQUESTS), filter={"source": source})

    async def put_record(self, source: str, checkpoint_id: str, values: Mapping[str, object]) -> Saved:
        """Save something with the thread that is not of its graph, and return it.

        Args:
            source: As in `records`.
            checkpoint_id: Its id; of two with one id the later one counts.
            values: Its state.
        """
        checkpoint = empty_checkpoint()
        checkpoint["id"], checkpoint["ts"] = checkpoint_id, datetime.now(UTC).isoformat()
        checkpoint["channel_values"] = {**values}
        own_version = f"1.{checkpoint_id}"  # some savers keep one value for each version of a channel
        checkpoint["channel_versions"] = dict.fromkeys(values, own_version)
        config = config_of(self.checked_id, REQUESTS)
        metadata = cast(CheckpointMetadata, {"source": source, "step": 1, "parents": {}})
        named = await self.put(config, Saved(config, checkpoint, metadata))
        return Saved(named, checkpoint, metadata)

    async def whole(self, saved: Saved) -> Saved | None:
        """Return a checkpoint that stores all channels whole, so that those before it may go.

        None if the tree has no graph for it.
        """
        if (channels := self._channels(saved.namespace)) is None:
            return None
        snapshots: dict[str, object] = {}
        if growth := growing(channels, saved.checkpoint):
            asked: Any = {"config": saved.config, "channels": [*growth]}
            get, aget = self.saver.get_delta_channel_history, self.saver.aget_delta_channel_history
            call = Call(partial(get, **asked), partial(aget, **asked))
            histories = await self._result(call)
            snapshots = {name: snapshot(each, histories[name]) for name, each in growth.items()}
        values = {**saved.checkpoint["channel_values"], **snapshots}
        return saved._replace(checkpoint={**saved.checkpoint, "channel_values": values})

    def _channels(self, namespace: str) -> Mapping[str, object] | None:
        if not namespace:
            return {**ROOT_CHANNELS, **self._graph.channels}
        inner = self._graph.get_subgraphs(namespace=recast_checkpoint_ns(namespace), recurse=True)
        return next((cast(Any, graph).channels for _, graph in inner), None)

    async def forks(self) -> list[Saved]:
        """Return the checkpoints of the root at which a line may begin: of rewinds, forks and edits."""
        config = config_of(self.checked_id, "")
        forked = await self._listed(config, filter={"source": "fork"})
        return [*forked, *await self._listed(config, filter={"source": "update"})]

    async def begun(self) -> list[Begun]:
        """Return all threads of the saver, newest first, each with the id of its first checkpoint."""
        self.require("threads")
        began: dict[str, str] = {}
        if call := begun_threads(self.saver):
            began = dict(await self._result(call))
        else:
            for metadata in _FIRST:
                call = list_checkpoints(self.saver, None, filter=metadata)
                for each in await self._result(call, is_checked=False):  # one may be malformed
                    own = each.config["configurable"]
                    if not own.get("checkpoint_ns"):
                        began.setdefault(str(own["thread_id"]), str(own["checkpoint_id"]))
        by_id = sorted(began.items())
        return sorted(by_id, key=itemgetter(1), reverse=True)

    def listed(self, query: ThreadQuery, after: Begun | None, limit: int) -> Calls[Listed]:
        """Return the saver's threads after one by its index, newest first; None if it has no index."""
        return self._indexed("list_threads", query, after, limit)

    def known(self, ids: Sequence[str]) -> Calls[Listed]:
        """Return those of some threads that the saver has, by its index; None if it has no index."""
        return self._indexed("find_threads", ids)

    async def _indexed(self, method: str, *arguments: object) -> Any:
        if not isinstance(self.saver, HasThreadIndex):
            return None
        return await self._called(self.saver, method, *arguments)

    async def given(
        self, metadata: Mapping[str, object] | None, limit: int | None
    ) -> list[Mapping[str, object]]:
        """Return the metadata of checkpoints of the root, newest first.

        Args:
            metadata: The entries that they have at least, as the saver compares; None for all.
            limit: The greatest number of them.
        """
        config = config_of(self.checked_id, "")
        call = list_checkpoints(self.saver, config, filter=metadata, limit=limit)
        return [each.metadata for each in await self._result(call, is_checked=False)]

    async def kept_namespaces(self) -> list[str]:
        """Return the namespaces in which graphs with `checkpointer=True` keep their states."""
        if call := kept_namespaces(self.saver, self.thread_id):
            names = [name for (name,) in await self._result(call)]
        else:
            every = await self.checkpoints()
            names = [str(each.config["configurable"].get("checkpoint_ns", "")) for each in every]
        return sorted({name for name in names if name not in ("", REQUESTS) and ":" not in name})

    async def namespaces(self, since: str) -> Sequence[str | None] | None:
        """Return the namespaces to list for the checkpoints since one, as `namespaces_since` does."""
        try:
            return await namespaces_since(self.saver, self.thread_id, since)
        except Exception as error:
            if is_of_a_handler(error):
                raise
            raise saver_error(error, self.saver, self.thread_id) from error

    async def put_write(
        self, config: RunnableConfig, task_id: str, channel: str, value: object, path: str = ""
    ) -> None:
        """Save a value with a checkpoint, under a channel and a task id."""
        await self.put_writes(config, [(channel, value)], task_id, path)

    async def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, object]], task_id: str, path: str
    ) -> None:
        """Save all writes of a task, as channels and values, with a checkpoint.

        Savers return the writes of several tasks in the order of `path`, LangGraph's of the task.
        """
        if self._has_records and (record := record_of(writes, task_id)) is not None:
            await self._called(self.saver, "put_writes", config, *record)
        at = path_for(self.saver, path)
        await self._called(self.saver, "put_writes", config, writes, task_id, *at)

    def put(self, config: RunnableConfig, saved: Saved) -> Calls[RunnableConfig]:
        """Save a checkpoint as it is, after the one that `config` names, and return its config."""
        versions = saved.checkpoint["channel_versions"]
        return self._called(self.saver, "put", config, saved.checkpoint, saved.metadata, versions)

    async def put_copy(self, saved: Saved) -> None:
        """Save a checkpoint with its writes on this thread, as it is: first the writes."""
        own, parent = saved.config["configurable"], saved.parent_config
        namespace = own.get("checkpoint_ns", "")
        tasks: dict[str, list[tuple[str, object]]] = defaultdict(list)
        for task, channel, value in saved.pending_writes or ():
            tasks[task].append((channel, value))
        at = config_of(self.checked_id, namespace, own["checkpoint_id"])
        before = parent["configurable"]["checkpoint_id"] if parent else None
        await self._put_tasks(at, saved, tasks)
        await self.put(config_of(self.checked_id, namespace, before), saved)
        if tasks and self._has_records:  # a saver may hide writes that come before their checkpoint
            copied = await self.checkpoint(namespace, own["checkpoint_id"])
            if copied is None or not copied.pending_writes:
                await self._put_tasks(at, saved, tasks)

    async def _put_tasks(
        self, at: RunnableConfig, saved: Saved, tasks: Mapping[str, Sequence[tuple[str, object]]]
    ) -> None:
        for number, (task, writes) in enumerate(tasks.items()):
            may_continue = not _STAYING.isdisjoint(channel for channel, _ in writes)
            path = task_path(self.tree, saved, task) if may_continue else ""
            await self.put_writes(at, writes, task, path or f"{number:06}")

    def do(self, call: Call) -> Calls[Any]:
        """Make a call of the saver that is not about one thread."""
        return self._result(call, is_checked=False)

    def prune(self, pruning: Pruning) -> Calls[None]:
        """Remove a part of the thread, if the saver can: see `prunes`."""
        call = pruning_call(self.saver, pruning)
        assert call is not None
        return self._result(call)

    def delete(self, *, as_one_of_several: bool = False) -> Calls[None]:
        """Delete the thread; of several the space in a file is not given back to the disk."""
        self.require("delete")
        if as_one_of_several and isinstance(self.saver, HasFile):
            return self._called(self.saver, "remove_thread", self.thread_id)
        return self._called(self.saver, "delete_thread", self.thread_id)

    def _listed(self, config: RunnableConfig | None, **bounds: object) -> Calls[list[Saved]]:
        return self._result(list_checkpoints(self.saver, config, self._sound, **bounds))

    def _called(self, owner: object, method: str, *arguments: object) -> Calls[Any]:
        return self._result(Call(getattr(owner, method), getattr(owner, f"a{method}"), arguments))

    async def _result(self, call: Call, *, is_checked: bool = True) -> Any:
        """Return the result of a call; checkpoints in it are checked, if they are to be.

        A call is made again while a run writes what it reads: in memory that is an error of Python's.

        Raises:
            SaverError: The saver failed, or a checkpoint is malformed.
        """
        reads = 0
        while True:
            try:
                result = await call
                if not is_checked:
                    return result
                return self._sound(result)
            except AgentGraphError:
                raise
            except Exception as error:
                if is_of_a_handler(error):
                    raise
                has_changed = isinstance(error, RuntimeError) and "during iteration" in str(error)
                if not has_changed or reads == _MOST_READS:
                    raise saver_error(error, self.saver, self.thread_id) from error
                reads += 1

    def _sound(self, result: Any) -> Any:
        """Return a result of a call; a checkpoint decoded and checked."""
        if not isinstance(result, CheckpointTuple):
            return result
        saved = Saved(*(restored(result) if self._has_records else result))
        self._check_one(saved)
        if (after := self._after) is None:
            return saved
        lean = saved.lean(after.pop(saved.key, None))
        if lean.parent_id:
            after[lean.namespace, lean.parent_id] = lean
        return lean
