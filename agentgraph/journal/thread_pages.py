"""The threads of a saver in pages: by an index if the saver has one, else one after the other."""

from collections.abc import Mapping, Sequence
from itertools import dropwhile, islice
from typing import cast

from langgraph.checkpoint.base import CheckpointMetadata

from agentgraph.errors import SaverError
from agentgraph.journal.savers.thread_index import (
    Begun,
    HasThreadIndex,
    Scalar,
    ThreadQuery,
    given_in,
    is_given,
)
from agentgraph.journal.soundness import is_unreadable
from agentgraph.journal.thread_saver import ThreadSaver


class ThreadPages:
    """The threads of a saver that fit a query, newest first by their first checkpoints.

    A saver without an index lists the first checkpoints of all threads at the first page; whether a
    thread has metadata it is asked thread by thread, until a page is full.
    """

    def __init__(self, saver: ThreadSaver, query: ThreadQuery) -> None:
        """Make them.

        Args:
            saver: Any thread of the saver.
            query: Which threads are listed.
        """
        self._saver, self._query = saver, query
        self._every: dict[str, Begun] | None = None

    async def known(self, ids: Sequence[str]) -> Mapping[str, Begun]:
        """Return those of some threads that the saver has, by their ids."""
        if not ids:
            return {}
        if (indexed := await self._saver.known(ids)) is not None:
            return {each[0]: each for each in indexed}
        every = await self._all()
        return {each: every[each] for each in ids if each in every}

    async def after(self, last: Begun | None, limit: int) -> list[Begun]:
        """Return the next threads after one, or the first ones for None; fewer only at the end."""
        if self._every is None:
            page = await self._saver.listed(self._query, last, limit)
            if page is not None:
                return page
        every = iter((await self._all()).values())
        rest = every if last is None else islice(dropwhile(lambda each: each != last, every), 1, None)
        found: list[Begun] = []
        for each in rest:
            if await _are_given(self._saver.of(each[0]), self._query.metadata):
                found.append(each)
            if len(found) == limit:
                break
        return found

    async def _all(self) -> Mapping[str, Begun]:
        if self._every is None:
            self._every = {each[0]: each for each in await self._saver.begun()}
        return self._every


async def _are_given(saver: ThreadSaver, metadata: Mapping[str, Scalar]) -> bool:
    """Return whether each pair was given to any run of a thread; of one that cannot be read, no."""
    try:
        for key, value in metadata.items():
            if not await _is_given(saver, {key: value}):
                return False
    except SaverError as error:
        if not is_unreadable(error):
            raise
        return False
    return True


async def _is_given(saver: ThreadSaver, pair: Mapping[str, Scalar]) -> bool:
    """Return whether a pair was given to any run of a thread.

    Savers compare in various ways: for some true is 1, and a dot in a key a path.
    """
    if all(key.isascii() and key.replace("_", "").isalnum() for key in pair):
        first = await saver.given(pair, 1)
        if not first or is_given(pair, first[0]):
            return bool(first)
    return any(is_given(pair, each) for each in await saver.given(None, None))


async def save_metadata(saver: ThreadSaver, metadata: Mapping[str, object]) -> None:
    """Save the metadata of a run that continued a step and has saved no separate checkpoint.

    LangGraph saves it with the next checkpoint alone, and there is none if the run fails or pauses. An
    index has what a checkpoint had before too; elsewhere nothing takes the place of what is there.
    """
    saved, given = await saver.written(), given_in(metadata)
    if saved is None or saved.parent_config is None:
        return
    there, has_index = saved.metadata, isinstance(saver.saver, HasThreadIndex)
    known = {**there, **given} if has_index else {**given, **there}
    if known != there:
        own = saved._replace(metadata=cast(CheckpointMetadata, known))
        await saver.put(saved.parent_config, own)
