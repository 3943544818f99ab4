"""A pytest fixture: a cassette for each test."""

import os
import re
from typing import cast

import pytest

from agentgraph.testing.cassettes import Mode
from agentgraph.testing.recording import Recorded, recorded

MODE = "AGENTGRAPH_CASSETTES"
"""The variable of the environment that has the mode."""


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> Recorded:
    """A cassette for one test: `cassettes/test_flow-test_it.json` beside the file of the test.

    Import it in `conftest.py`, and pass it to a runner:

    ```
    from agentgraph.testing import cassette  # in conftest.py

    def test_the_report_is_short(cassette):
        result = ag.Runner(report, middleware=[cassette]).invoke("Go.")
        assert len(result.text) < 500
    ```

    The mode is that in the variable `AGENTGRAPH_CASSETTES`: "auto", "play" or "record". Without it,
    "play" where the variable `CI` is set, so that no build server asks a model, and else "auto".
    Models need a key to be made, also to be played: any text, such as `OPENAI_API_KEY=none`.

    Args:
        request: pytest's request.

    Returns:
        The middleware, as `recorded` makes it.

    Raises:
        CassetteError: The file is not a cassette, or there is no such mode.
    """
    mode = os.environ.get(MODE) or ("play" if os.environ.get("CI") else "auto")
    name = re.sub(r"[^\w.-]+", "-", f"{request.path.stem}-{_name_of(request)}").strip("-")
    return recorded(request.path.parent / "cassettes" / f"{name}.json", cast(Mode, mode))


def _name_of(request: pytest.FixtureRequest) -> str:
    """Return the name of the test in its file, with its class and its parameters."""
    return str(request.node.nodeid).partition("::")[2]
