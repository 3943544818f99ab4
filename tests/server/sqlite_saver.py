"""The saver of a LangGraph server that keeps its threads in the SQLite file `threads.db`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver


@asynccontextmanager
async def saver() -> AsyncIterator[AsyncSqliteSaver]:
    async with AsyncSqliteSaver.from_conn_string("threads.db") as opened:
        yield opened
