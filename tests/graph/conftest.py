"""The caches of LangGraph, and what notes which agents ran."""

from pathlib import Path

import pytest
from helpers.cached import Cache, Ran
from helpers.running import RAN
from langgraph.cache.memory import InMemoryCache
from langgraph.cache.sqlite import SqliteCache


@pytest.fixture(params=[InMemoryCache, SqliteCache])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> Cache:
    if request.param is InMemoryCache:
        return InMemoryCache()
    return SqliteCache(path=str(tmp_path / "cache.db"))


@pytest.fixture
def ran() -> Ran:
    return Ran()


@pytest.fixture
def nothing_ran() -> None:
    RAN.clear()
