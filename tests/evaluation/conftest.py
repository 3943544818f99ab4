"""Evaluations, sync or async."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agentgraph.testing import Report, aevaluate, evaluate

Evaluated = Callable[..., Report]


@pytest.fixture
def evaluated(is_async: bool) -> Evaluated:
    """Return `evaluate`, or a function that runs `aevaluate`."""

    def on_a_loop(*args: Any, **options: Any) -> Report:
        return asyncio.run(aevaluate(*args, **options))

    return on_a_loop if is_async else evaluate


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)
