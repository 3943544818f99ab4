"""A pytest fixture: a cassette for each test."""

import re

import pytest

from agentgraph.testing.cassettes import mode_of_environment
from agentgraph.testing.recording import Recorded, recorded


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> Recorded:
    """A cassette for one test: `cassettes/test_flow-test_it.json` next to the file of the test.

    Import it in `conftest.py`, and pass it to a runner:

    ```
    from agentgraph.testing import cassette  # in conftest.py

    def test_the_report_is_short(cassette):
        result = ag.Runner(report, middleware=[cassette]).invoke("Go.")
        assert len(result.text) < 500
    ```

    The environment variable `AGENTGRAPH_CASSETTES` sets the mode: "auto", "play" or "record". The
    default is "play" if the variable `CI` is set, so that no build server calls a model, or else
    "auto". Models need a key even if they are only played: any text, such as `OPENAI_API_KEY=none`.

    Args:
        request: pytest's request.

    Returns:
        The middleware, as `recorded` makes it.

    Raises:
        CassetteError: The file is not a cassette, or the mode is unknown.
    """
    name = re.sub(r"[^\w.-]+", "-", f"{request.path.stem}-{_name_of(request)}").strip("-")
    path = request.path.parent / "cassettes" / f"{name}.json"
    return recorded(path, mode_of_environment(path))


def _name_of(request: pytest.FixtureRequest) -> str:
    return str(request.node.nodeid).partition("::")[2]
