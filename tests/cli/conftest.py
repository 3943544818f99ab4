"""The file of agents that commands run."""

from pathlib import Path

import pytest
from cli_agents import AGENTS


@pytest.fixture
def agents(tmp_path: Path) -> None:
    """Write `agents.py` into the folder of the commands."""
    (tmp_path / "agents.py").write_text(AGENTS)
