"""Runs of random trees, held against the reference interpreter: all that they tell, see and keep."""

import asyncio
import inspect
import os
import random
import re
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import pytest
import reference
import specs
import trees
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import agentgraph as ag

EXAMPLES = int(os.environ.get("AGENTGRAPH_EXAMPLES", "500"))
"""How many trees the tests of this file run, in all."""
THREAD = "thread"

Request = tuple[str, tuple[Any, ...], dict[str, Any]]
"""A method of the runner, with its arguments."""
Answer = tuple[Any, Exception | None]
"""What a method gave, events as a list, and the failure that it ended with."""
Talk = Generator[Request, Answer, None]
"""A conversation with a runner, sync or async: yields requests, and is sent the answers."""


def share(part: float) -> Callable[[Any], Any]:
    """Run a test on a part of all trees."""
    return settings(
        max_examples=ceil(EXAMPLES * part),
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
