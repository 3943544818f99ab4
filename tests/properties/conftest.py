"""Asserts outside of test files say what they compared, too."""

from collections.abc import Iterator

import pytest
from helpers.databases import Databases
from helpers.forking import Forker

pytest.register_assert_rewrite("comparison", "conversations", "passing", "helpers.timelines")


@pytest.fixture(scope="module")
def database(postgres: str) -> Iterator[str]:
    """Give the URL of a database of a module's own."""
    databases = Databases(postgres)
    yield databases.make()
    databases.drop()


@pytest.fixture
def killer(forker: Forker) -> Forker:
    """Give what forks processes which kill themselves."""
    return forker.of("killed_process")
