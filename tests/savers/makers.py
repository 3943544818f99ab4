"""Opens a saver of each package; the server, folder or file is in SAVER_AT.

The packages are in temporary environments, so each function imports its own.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

AT = os.environ.get("SAVER_AT", "")


def memory() -> Any:
    from langgraph.checkpoint.memory import InMemorySaver

    return InMemorySaver()


def sqlite() -> Any:
    from langgraph.checkpoint.sqlite import SqliteSaver

    return SqliteSaver.from_conn_string(f"{AT}/savers.db")


@contextmanager
def postgres() -> Iterator[Any]:
    from langgraph.checkpoint.postgres import PostgresSaver

    with PostgresSaver.from_conn_string(AT) as saver:
        saver.setup()
        yield saver


@contextmanager
def redis() -> Iterator[Any]:
    from langgraph.checkpoint.redis import RedisSaver

    with RedisSaver.from_conn_string(AT) as saver:
        saver.setup()
        yield saver


def plainredis() -> Any:
    from langgraph_checkpoint_plainredis import RedisSaver

    return RedisSaver(url=AT)


def valkey() -> Any:
    from langgraph_checkpoint_aws import ValkeySaver

    return ValkeySaver.from_conn_string(AT)


@contextmanager
def mysql() -> Iterator[Any]:
    from langgraph.checkpoint.mysql.pymysql import PyMySQLSaver

    with PyMySQLSaver.from_conn_string(AT) as saver:
        saver.setup()
        yield saver


@cache
def _environment() -> Any:
    import lmdb

    return lmdb.open(AT, map_size=2**28, max_dbs=4)


def lmdb() -> Any:
    from langgraph_checkpoint_lmdb import LMDBSaver

    return LMDBSaver(_environment())


def objectstorage() -> Any:
    from langgraph_checkpoint_objectstorage import ObjectStorageSaver

    return ObjectStorageSaver.from_conn_string(f"file://{AT}")
