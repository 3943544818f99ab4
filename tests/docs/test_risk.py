"""The guide of approvals by risk; `conftest.py` collects it where LangChain has auto mode (1.5)."""

import asyncio
import runpy
from pathlib import Path

import pytest

import agentgraph as ag

CODE = Path(__file__).parents[2] / "docs" / "guides" / "code" / "risk.py"
BLOCKED = "The tool call `delete` was blocked because it was classified as risky (probability: 0.90)."


@pytest.mark.filterwarnings("ignore:The middleware `AutoModeMiddleware` is in beta")
@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_person_is_asked_about_the_doubtful_call_alone(way: str) -> None:
    runner = ag.Runner(runpy.run_path(str(CODE))["clerk"])

    def invoke(*args: str, **options: object) -> ag.Result:
        if way == "sync":
            return runner.invoke(*args, thread_id="t", **options)
        return asyncio.run(runner.ainvoke(*args, thread_id="t", **options))

    (question,) = invoke("Clean up.").pending
    assert [each["args"] for each in question.value["action_requests"]] == [{"path": "report.txt"}]
    done = invoke(answers="approve")
    draft, report, passwords = done.text.split("; ")
    assert (draft, report) == ("deleted draft.txt", "deleted report.txt")
    assert passwords.startswith(BLOCKED)
