"""Asserts outside of test files say what they compared, too."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.databases import Databases
from helpers.forking import Forker, serving

pytest.register_assert_rewrite("comparison", "conversations", "passing", "helpers.timelines")


@pytest.fixture(scope="module")
def database(postgres: str) -> Iterator[str]:
    """Give the URL of a database of a module's own."""
    databases = Databases(postgres)
    yield databases.make()
    databases.drop()


@pytest.fixture(scope="session")
def killer() -> Iterator[Forker]:
    """Start the program that forks processes which kill themselves."""
    with serving(str(Path(__file__).with_name("killed_process.py"))) as started:
        yield started
