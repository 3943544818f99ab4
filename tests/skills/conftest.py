"""Fixtures that write a skill file and load it."""

from pathlib import Path
from typing import Any

import pytest
from skill_files import GIVEN

import agentgraph as ag
from agentgraph.agents.agents import Agent


@pytest.fixture
def skill(tmp_path: Path):
    """Write a skill file, and load it."""

    def load(text: str, name: str = "skill.yaml", **options: Any) -> Agent:
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        return ag.load(file, **(options or GIVEN))

    return load


@pytest.fixture
def faults(tmp_path: Path, skill):
    """Write a skill file, and return its faults without the folder."""

    def found(text: str, name: str = "skill.yaml", **options: Any) -> list[str]:
        with pytest.raises(ag.InvalidSkillError) as caught:
            skill(text, name, **options)
        return [fault.removeprefix(f"{tmp_path}/") for fault in caught.value.faults]

    return found
